"""Settings of the demo project: fdbqueue with its pages, its REST API and sample queues.

The environment may set:

- ``FDBQUEUE_PATH``: the embedded engine's file (``var/queues.sqlite3``);
- ``FDB_CLUSTER_FILE``: a cluster file; with it the queues are in FoundationDB;
- ``FDBQUEUE_METRICS_TOKEN``: the bearer token of scrapers of ``/metrics/``;
- ``DJANGO_STATIC_ROOT``: where ``collectstatic`` puts static files (``var/static``);
- ``DJANGO_LOG_LEVEL``: the lowest level to log (``WARNING``);
- ``DJANGO_DEBUG``: ``0`` to run as in production, which also reads the following;
- ``DJANGO_SECRET_KEY`` or ``DJANGO_SECRET_KEY_FILE``: one is required; a missing file is created;
- ``DJANGO_ALLOWED_HOSTS``, ``DJANGO_CSRF_TRUSTED_ORIGINS``: comma-separated;
- ``DJANGO_HTTPS``: ``0`` to serve plain HTTP; otherwise HTTPS is required;
- ``DJANGO_BEHIND_PROXY``: ``1`` if a proxy sets ``X-Forwarded-Proto`` in each request.
"""

import contextlib
import os
import secrets
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = BASE_DIR / "var"
VAR_DIR.mkdir(exist_ok=True)

DEBUG = os.environ.get("DJANGO_DEBUG", "1") == "1"


def _listed(name: str) -> list[str]:
    return [entry for entry in os.environ.get(name, "").split(",") if entry]


def _kept_key(file: Path) -> str:
    """Return the secret in a file, which is created on first use."""
    if not file.exists():
        draft = file.with_name(f"{file.name}-{secrets.token_hex(8)}")
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_urlsafe(50))
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(draft, file)
        draft.unlink()
    return file.read_text()


_KEY_FILE = os.environ.get("DJANGO_SECRET_KEY_FILE")
if DEBUG or _KEY_FILE:
    SECRET_KEY = _kept_key(Path(_KEY_FILE) if _KEY_FILE else VAR_DIR / "secret_key")
else:
    SECRET_KEY = os.environ["DJANGO_SECRET_KEY"]
ALLOWED_HOSTS = _listed("DJANGO_ALLOWED_HOSTS")
CSRF_TRUSTED_ORIGINS = _listed("DJANGO_CSRF_TRUSTED_ORIGINS")

if not DEBUG and os.environ.get("DJANGO_HTTPS", "1") == "1":
    SECURE_SSL_REDIRECT = True
    SECURE_REDIRECT_EXEMPT = [r"^health/"]  # load balancers ask in plain HTTP
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
    SECURE_HSTS_SECONDS = 3_600
    # Subdomains, and the browsers' own lists, are for the domain's owner to decide.
    SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
if os.environ.get("DJANGO_BEHIND_PROXY") == "1":
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "rest_framework.authtoken",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_htmx",  # the pages refresh themselves
    "fdbqueue",
    "fdbqueue.metrics",
    "fdbqueue.tasks",
    "fdbqueue.tasks.outbox",
    "project",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
if not DEBUG:
    MIDDLEWARE.insert(1, "whitenoise.middleware.WhiteNoiseMiddleware")  # behind security's
ROOT_URLCONF = "project.urls"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": VAR_DIR / "django.sqlite3"},
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"
STATIC_ROOT = os.environ.get("DJANGO_STATIC_ROOT") or VAR_DIR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": (
            "django.contrib.staticfiles.storage.StaticFilesStorage"
            if DEBUG
            else "whitenoise.storage.CompressedManifestStaticFilesStorage"
        ),
    },
}
WHITENOISE_KEEP_ONLY_HASHED_FILES = True  # nothing links to the others
LOGIN_URL = "login"  # the admin's refuses users who are not staff
LOGIN_REDIRECT_URL = "fdbqueue:queues"
LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"facts": {"()": "project.logs.FactsFormatter"}},
    "filters": {"request_id": {"()": "fdbqueue.api.request_ids.RequestIdFilter"}},
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "filters": ["request_id"],
            "formatter": "facts",
        },
    },
    "root": {"handlers": ["console"], "level": os.environ.get("DJANGO_LOG_LEVEL", "WARNING")},
    "loggers": {"django": {"handlers": [], "level": "INFO"}},  # its own would print lines twice
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "rest_framework.authentication.TokenAuthentication",  # the first one makes it 401
        "rest_framework.authentication.BasicAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "fdbqueue REST API",
    "DESCRIPTION": "FIFO and priority queues in FoundationDB, over HTTP.",
    "VERSION": "2.0.0",
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "SERVE_INCLUDE_SCHEMA": False,
    "REDOC_DIST": "SIDECAR",
    "SWAGGER_UI_DIST": "SIDECAR",  # its files come from this server
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {"validatorUrl": None, "persistAuthorization": False},
}

FDBQUEUE_METRICS_TOKEN = os.environ.get("FDBQUEUE_METRICS_TOKEN") or None

_CLUSTER_FILE = os.environ.get("FDB_CLUSTER_FILE")

FDBQUEUE = {
    "ENGINE": "fdbqueue.engines.foundationdb" if _CLUSTER_FILE else "fdbqueue.engines.embedded",
    "OPTIONS": (
        {"cluster_file": _CLUSTER_FILE}
        if _CLUSTER_FILE
        else {"path": os.environ.get("FDBQUEUE_PATH") or VAR_DIR / "queues.sqlite3"}
    ),
    "PREFIX": ("fdbqueue",),
    "QUEUES": {
        "quakes": {"kind": "priority", "priority_type": "float"},
        "mail": {"kind": "fifo"},
        "legacy": {"kind": "priority", "subspace": ("P",), "codec": "bytes"},
        "user-*": {"kind": "fifo"},
        "alerts": {"kind": "fifo", "max_attempts": 3},
        "picks": {"kind": "fifo", "codec": "tuple", "order": "commit"},
        "waveforms": {"kind": "fifo", "codec": "bytes"},
        "maintenance": {"kind": "priority"},
        "imports": {"kind": "fifo"},
        "exports": {"kind": "fifo"},
    },
}

TASKS = {
    "default": {
        "BACKEND": "fdbqueue.tasks.FdbQueueBackend",
        "QUEUES": ["default", "reports"],
        "OPTIONS": {
            "max_attempts": 2,
            "schedules": {
                "Alaska": {"task": "project.tasks.summarise", "args": ["Alaska"], "every": 300}
            },
        },
    },
    "rows": {  # enqueued with the rows that a transaction of the ORM writes
        "BACKEND": "fdbqueue.tasks.FdbQueueBackend",
        "QUEUES": ["default"],
        "OPTIONS": {"outbox": True},
    },
}
