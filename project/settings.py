"""Settings of the demo project: fdbqueue with its pages, its REST API and sample queues.

The environment may set:

- ``FDBQUEUE_PATH``: the embedded engine's file (``var/queues.sqlite3``);
- ``FDB_CLUSTER_FILE``: a cluster file, which switches to FoundationDB;
- ``DJANGO_DEBUG``: ``0`` to run as in production, where ``DJANGO_SECRET_KEY`` and
  ``DJANGO_ALLOWED_HOSTS`` (comma-separated) are needed too.
"""

import contextlib
import os
import secrets
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = BASE_DIR / "var"
VAR_DIR.mkdir(exist_ok=True)

DEBUG = os.environ.get("DJANGO_DEBUG", "1") == "1"


def _development_key() -> str:
    """Return a secret of this checkout alone, made on first use."""
    file = VAR_DIR / "secret_key"
    if not file.exists():
        draft = VAR_DIR / f"secret_key-{secrets.token_hex(8)}"
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_urlsafe(50))
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(draft, file)
        draft.unlink()
    return file.read_text()


SECRET_KEY = _development_key() if DEBUG else os.environ["DJANGO_SECRET_KEY"]
ALLOWED_HOSTS = [host for host in os.environ.get("DJANGO_ALLOWED_HOSTS", "").split(",") if host]

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
LOGIN_URL = "admin:login"
LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

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
    "TITLE": "fdbqueue",
    "DESCRIPTION": "FIFO and priority queues in FoundationDB, over HTTP.",
    "VERSION": "1",
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",  # its files come from this server
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {"validatorUrl": None, "persistAuthorization": False},
}

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
    },
}
