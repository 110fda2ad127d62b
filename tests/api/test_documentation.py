"""The pages that document the API, and the API without them."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from django.conf import settings as project
from django.contrib.auth.models import User
from django.contrib.staticfiles import finders
from django.test import Client

PAGES = ["/api/docs/", "/api/redoc/", "/api/schema/"]


@pytest.mark.parametrize("path", PAGES)
def test_the_documentation_needs_credentials(db, path):
    """The demo project shows neither the schema nor its page to everybody."""
    assert Client().get(path).status_code == 401


@pytest.mark.parametrize("path", PAGES)
def test_the_documentation_is_served_from_here(db, path):
    """Nothing that the page loads is from another host: it works without the internet."""
    client = Client()
    client.force_login(User.objects.create_user("reader"))
    response = client.get(path)
    assert response.status_code == 200
    found = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", response.content.decode())
    assert found == []


def test_the_files_of_the_documentation_are_there(db):
    """What the page loads is among the static files of an installed package."""
    client = Client()
    client.force_login(User.objects.create_user("reader"))
    html = client.get("/api/docs/").content.decode()
    loaded = re.findall(r"(?:src|href)=\"([^\"]+)\"", html)
    assert any(path.endswith("swagger-ui-bundle.js") for path in loaded)
    assert any(path.endswith("swagger-ui.css") for path in loaded)
    for path in loaded:
        assert path.startswith("/static/")
        assert finders.find(path.removeprefix("/static/"))


STARTED = """
import sys
import django
from django.conf import settings
settings.configure(
    SECRET_KEY="x",
    INSTALLED_APPS=[{apps}],
    REST_FRAMEWORK={{"DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema"}},
    FDBQUEUE={{"OPTIONS": {{"path": "unused"}}, "QUEUES": {{"mail": {{"kind": "fifo"}}}}}},
    ROOT_URLCONF="fdbqueue.api.urls",
)
django.setup()
loaded = [name for name in ("fdbqueue.api.schema", "drf_spectacular.utils") if name in sys.modules]
from drf_spectacular.generators import SchemaGenerator
schema = SchemaGenerator().get_schema(request=None, public=True)
print(loaded, schema["paths"]["/queues/{{name}}/pop/"]["post"]["operationId"])
"""
APPS = ["django.contrib.auth", "django.contrib.contenttypes", "rest_framework"]
OURS, THEIRS = "fdbqueue", "drf_spectacular"


def run(code, *arguments, folder):
    """Run a program in a folder, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(project.BASE_DIR)},
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("apps", [[*APPS, THEIRS, OURS], [OURS, *APPS, THEIRS]])
def test_starting_loads_no_schema(tmp_path, apps):
    """``django.setup()`` does not import drf-spectacular for us, and the schema is whole."""
    code = STARTED.format(apps=", ".join(map(repr, apps)))
    assert run(code, folder=tmp_path) == "[] queues_pop\n"


@pytest.mark.nightly
@pytest.mark.parametrize("place", ["models.py", "apps.py"])
@pytest.mark.parametrize("is_first", [True, False])
def test_views_that_are_imported_early(tmp_path, place, is_first):
    """By another app's models or when it is ready, before us or after: the schema is whole."""
    (tmp_path / "early").mkdir()
    for name in ("__init__.py", "models.py", "apps.py"):
        (tmp_path / "early" / name).write_text("")
    ready = "from django.apps import AppConfig\nclass Early(AppConfig):\n    name = 'early'\n"
    views = "import fdbqueue.api.viewsets\n"
    (tmp_path / "early" / "apps.py").write_text(
        ready + f"    def ready(self):\n        {views}" if place == "apps.py" else ready
    )
    if place == "models.py":
        (tmp_path / "early" / "models.py").write_text(views)
    apps = [*APPS, THEIRS, *(["early", OURS] if is_first else [OURS, "early"])]
    code = STARTED.format(apps=", ".join(map(repr, apps)))
    expected = "['fdbqueue.api.schema', 'drf_spectacular.utils'] queues_pop\n"
    assert run(code, folder=tmp_path) == expected


WITHOUT = """
import sys
for name in ("drf_spectacular", "drf_spectacular_sidecar"):
    sys.modules[name] = None
import django
from django.conf import settings
settings.configure(
    SECRET_KEY="x",
    ALLOWED_HOSTS=["testserver"],
    ROOT_URLCONF="fdbqueue.api.urls",
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "rest_framework",
                    "fdbqueue"],
    REST_FRAMEWORK={"DEFAULT_AUTHENTICATION_CLASSES": []},
    FDBQUEUE={"OPTIONS": {"path": sys.argv[1]}, "QUEUES": {"mail": {"kind": "fifo"}}},
)
django.setup()
from django.contrib.auth.models import User
from django.core.checks import run_checks
from rest_framework.test import APIClient
client = APIClient()
client.default_format = "json"
client.force_authenticate(User(pk=1, username="root", is_superuser=True))
assert client.post("/queues/mail/push/", {"value": 1}).status_code == 201
assert client.get("/queues/").json()["queues"][0]["counts"]["ready"] == 1
assert client.options("/queues/mail/").status_code == 200
print([check.id for check in run_checks()])
"""


def test_the_api_does_without_the_schema(tmp_path):
    """A project that has not installed drf-spectacular has the API all the same."""
    assert run(WITHOUT, str(tmp_path / "queues.sqlite3"), folder=tmp_path) == "[]\n"
