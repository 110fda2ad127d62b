"""The demo project as its image serves it: DEBUG off, its own gunicorn settings, whitenoise."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from project import gunicorn_conf
from tests.live.client import Client
from tests.live.server import DEADLINE_SECONDS, ROOT, Server

TOKEN = "a-token-of-some-length"
SECURE = {"X-Forwarded-Proto": "https"}


def environment(folder, **more):
    """Return what a production server is given."""
    return {
        "DJANGO_DEBUG": "0",
        "DJANGO_ALLOWED_HOSTS": "127.0.0.1",
        "DJANGO_SECRET_KEY_FILE": str(folder / "secret_key"),
        "DJANGO_STATIC_ROOT": str(folder / "static"),
        "FDBQUEUE_METRICS_TOKEN": TOKEN,
        "PROMETHEUS_MULTIPROC_DIR": str(folder / "metrics"),
        **more,
    }


@pytest.fixture(scope="module")
def static(tmp_path_factory):
    """The folder of the static files, collected and compressed once, as in the image."""
    folder = tmp_path_factory.mktemp("collected")
    done = manage(folder, "collectstatic", "--no-input", "--verbosity", "0")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder / "static"


@pytest.fixture(scope="module")
def serve(tmp_path_factory, static):
    """Start a server, with the static files, and stop all at the end."""
    servers = []

    def start(**more):
        folder = tmp_path_factory.mktemp("production")
        (folder / "metrics").mkdir()  # for the commands; the server makes its own
        given = environment(folder, DJANGO_STATIC_ROOT=str(static), **more)
        config = "tests.live.production_conf"
        servers.append(Server(folder, environment=given, config=config))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="module")
def plain(serve):
    """A server of plain HTTP."""
    return serve(DJANGO_HTTPS="0")


@pytest.fixture(scope="module")
def secure(serve):
    """A server behind a proxy that speaks HTTPS."""
    return serve(DJANGO_BEHIND_PROXY="1")


def get(server, path, **options):
    """GET, and do not follow a redirect."""
    options = {"timeout": DEADLINE_SECONDS, "allow_redirects": False, **options}
    return requests.get(server.address + path, **options)


def until_ready(server):
    """Ask until the engine has answered in time: its first file may take a busy disk longer."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while (answer := get(server, "/health/ready/")).status_code != 200:
        assert (answer.status_code, answer.json()) == (503, {"status": "unavailable"})
        assert time.monotonic() < deadline
    return answer


def scraped_when_up(server):
    """Scrape until the engine has answered in a scrape's time, and return the families."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        answer = get(server, "/metrics/", headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200
        families = {family.name: family for family in text_string_to_metric_families(answer.text)}
        if families["fdbqueue_engine_up"].samples[0].value == 1:
            return families
    raise AssertionError("the engine has answered no scrape")


def test_static_files_are_served_by_the_workers(plain):
    """Under names of their contents, so that browsers keep them for ever, and compressed."""
    page = get(plain, "/admin/login/")
    assert page.status_code == 200
    sheets = re.findall(r'href="(/static/[^"]+\.[0-9a-f]{12}\.css)"', page.text)
    assert sheets
    for sheet in sheets:
        answer = get(plain, sheet)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["Cache-Control"]
        assert answer.headers["Content-Encoding"] == "gzip"


def test_an_error_tells_nothing(plain):
    """No settings, no addresses, no traces."""
    answer = get(plain, "/nowhere/")
    assert answer.status_code == 404
    assert "urlpatterns" not in answer.text
    assert "URLconf" not in answer.text
    assert get(plain, "/admin/login/", headers={"Host": "elsewhere"}).status_code == 400


def test_the_health_of_the_server(plain):
    """It is alive, and its engine answers."""
    assert get(plain, "/health/live/").json() == {"status": "ok"}
    assert until_ready(plain).json() == {"status": "ok"}


def test_the_metrics_of_the_server(plain):
    """For who has the token alone; of all workers."""
    until_ready(plain)
    assert get(plain, "/metrics/").status_code == 401
    families = scraped_when_up(plain)
    assert {one.labels["queue"] for one in families["fdbqueue_queues"].samples} >= {"mail"}


def test_https_is_insisted_on(secure):
    """Plain requests are sent there, but for the health checks; cookies stay there."""
    answer = get(secure, "/admin/login/")
    assert answer.status_code == 301
    assert answer.headers["Location"].startswith("https://127.0.0.1")
    assert until_ready(secure).status_code == 200
    login = get(secure, "/admin/login/", headers=SECURE)
    assert login.status_code == 200
    assert login.headers["Strict-Transport-Security"] == "max-age=3600"
    assert "Secure" in login.headers["Set-Cookie"]


def test_nothing_went_wrong(plain, secure):
    """The logs hold no trace but of the host that is not ours, and of a busy engine."""
    expected = (
        *("DisallowedHost", "the engine is not ready"),
        "the sizes of the queues cannot be read",
    )
    for server in (plain, secure):
        traces = [line for line in server.errors.splitlines() if "Traceback" in line]
        assert [line for line in traces if not any(part in line for part in expected)] == []


def manage(folder, *arguments, **more):
    """Run a command with the demo project's own settings, and return how it ended."""
    environ = {**os.environ, **environment(folder), "PYTHONWARNINGS": "error"}
    environ.pop("PROMETHEUS_MULTIPROC_DIR")
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={**environ, "DJANGO_SETTINGS_MODULE": "project.settings", **more},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_deployment_check_finds_nothing(tmp_path):
    """With a cluster, which it does not connect to."""
    done = manage(
        tmp_path, "check", "--deploy", "--fail-level", "INFO", FDB_CLUSTER_FILE="/nowhere"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "no issues" in done.stdout


def test_a_secret_key_has_to_be_given(tmp_path):
    """Without a key and without a file for one nothing starts."""
    done = manage(tmp_path, "check", DJANGO_SECRET_KEY_FILE="")
    assert done.returncode != 0
    assert "DJANGO_SECRET_KEY" in done.stderr


@pytest.mark.parametrize("debug", ["0", "1"])
def test_a_line_of_djangos_is_logged_once(tmp_path, debug):
    """By the project's handler, and not by Django's own besides."""
    code = "import logging; logging.getLogger('django.request').warning('a line')"
    arguments = ["shell", "--verbosity", "0", "--command", code]
    done = manage(tmp_path, *arguments, DJANGO_DEBUG=debug)
    (line,) = done.stderr.splitlines()
    assert json.loads(line)["text"] == "a line"


def test_the_secret_key_is_made_once_for_its_owner_alone(tmp_path):
    """Nobody else can read the file, and the next process reads the same key."""
    printed = ["shell", "--verbosity", "0", "--command"]
    code = "from django.conf import settings; print(settings.SECRET_KEY)"
    first, second = (manage(tmp_path, *printed, code).stdout for _ in range(2))
    assert first == second
    assert len(first.strip()) >= 50
    assert (tmp_path / "secret_key").stat().st_mode & 0o777 == 0o600


def test_a_worker_takes_no_more_than_its_threads_can_serve(tmp_path, static, prepared):
    """While as many long polls wait as may in a process, other threads serve what comes."""
    given = environment(tmp_path, DJANGO_HTTPS="0", DJANGO_STATIC_ROOT=str(static))
    with (
        Server(
            tmp_path,
            environment={**given, "WEB_CONCURRENCY": "2"},
            config="tests.live.production_conf",
            tables=prepared.tables,
        ) as server,
        ExitStack() as stack,
    ):
        client = Client(server.api, prepared.token)
        for _ in range(gunicorn_conf.threads // 2):
            stack.enter_context(client.send("user-nobody/pop/", {"wait": 30}))
        for _ in range(40):
            assert get(server, "/health/live/").status_code == 200
        assert server.answered("/pop/") == []
        assert "No keepalived connections" not in server.errors
