"""The pages that document the API, and the API without them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings as project
from django.contrib.auth.models import User
from django.contrib.staticfiles import finders
from django.test import Client

PAGES = ["/api/docs/", "/api/schema/"]


@pytest.mark.parametrize("path", PAGES)
def test_the_documentation_needs_credentials(db: None, path: str) -> None:
    """The demo project shows neither the schema nor its page to everybody."""
    assert Client().get(path).status_code == 401


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES)
def test_the_documentation_is_served_from_here(db: None, path: str) -> None:
    """Nothing that the page loads is from another host: it works without the internet."""
    client = Client()
    client.force_login(User.objects.create_user("reader"))
    response = client.get(path)
    assert response.status_code == 200
    found = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", response.content.decode())
    assert found == []


def test_the_files_of_the_documentation_are_there(db: None) -> None:
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


@pytest.mark.slow
def test_the_api_does_without_the_schema(tmp_path: Path) -> None:
    """A project that has not installed drf-spectacular has the API all the same."""
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-W",
            "ignore::ImportWarning",
            "-c",
            WITHOUT,
            str(tmp_path / "queues.sqlite3"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=project.BASE_DIR,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "['fdbqueue.W001']\n"
