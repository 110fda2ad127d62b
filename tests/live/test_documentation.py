"""What docs/rest-api.md shows is what happens."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
import requests
from django.contrib.auth.models import User

from fdbqueue import access
from tests.live.conftest import token_of
from tests.live.markdown import blocks, run_session, steps
from tests.live.server import Server

PAGE = "rest-api.md"


@pytest.fixture
def fresh(tmp_path):
    """A server as ``make run`` starts it, and the environment of a shell beside it."""
    if shutil.which("curl") is None:
        message = "curl is not installed"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    folder = tmp_path / "server"
    folder.mkdir()
    with Server(folder) as server:
        python = str(Path(sys.executable).parent)
        yield {
            **os.environ,
            "API": server.api,
            "TOKEN": token_of(server.manage("demo")),
            "PATH": f"{python}:{os.environ['PATH']}",
        }


def test_the_session_and_the_worker(fresh, tmp_path):
    """Each command prints what is shown, and so does the program, one after the other."""
    (worker,) = blocks(PAGE, "A worker", "python")
    (tmp_path / "worker.py").write_text(worker)
    sessions = blocks(PAGE, "A session", "console") + blocks(PAGE, "A worker", "console")
    shown = [step for session in sessions for step in steps(session)]
    assert [step.command.partition("=")[0] for step in shown[:2]] == ["API", "TOKEN"]
    shown = shown[2:]  # where that server is, and its token
    printed = run_session(shown, tmp_path, fresh)
    for step, text in zip(shown, printed, strict=True):
        assert step.is_kept(text), f"$ {step.command}\n{text}\nis not\n{step.printed}"


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """The modules of the section on permissions, to be imported."""
    for code in blocks(PAGE, "Permissions", "python"):
        name = re.match(r"# (\S+\.py)\n", code)
        if name:
            file = tmp_path / name[1]
            file.parent.mkdir(exist_ok=True)
            file.write_text(code)
    monkeypatch.syspath_prepend(tmp_path)


def said(name):
    """Return the documented value of a setting."""
    (code,) = [code for code in blocks(PAGE, "Permissions", "python") if code.startswith(name)]
    found = {}
    exec(code.replace("...,", ""), found)
    return found[name]


@pytest.mark.django_db
def test_the_backend_of_single_queues(modules, settings):
    """Each user may do everything to the own queue, and nothing to another's."""
    settings.AUTHENTICATION_BACKENDS = said("AUTHENTICATION_BACKENDS")
    user = User.objects.create_user("user")
    assert access.may(user, access.POP, f"user-{user.pk}")
    assert not access.may(user, access.POP, f"user-{user.pk + 1}")
    assert not access.may_in_general(user, access.POP)


@pytest.mark.django_db
def test_the_authorizer(modules, settings):
    """Staff may do everything, and others push mail."""
    settings.FDBQUEUE = {**settings.FDBQUEUE, **said("FDBQUEUE")}
    user, staff = User(username="user"), User(username="staff", is_staff=True)
    assert access.may(staff, access.POP, "quakes")
    assert access.may(user, access.PUSH, "mail")
    assert not access.may(user, access.POP, "mail")


def test_swagger_ui_comes_from_this_server_alone(server, token):
    """The page, the schema and each file that the page loads are there, and all are local."""
    with requests.Session() as session:
        session.auth = ("demo", "demo")
        page = session.get(f"{server.address}/api/docs/", timeout=60)
        assert page.status_code == 200
        loaded = re.findall(r"""(?:src|href)=["']([^"']+)""", page.text)
        assert len(loaded) >= 3
        for address in [*loaded, "/api/schema/"]:
            assert not urlsplit(address).netloc
            assert session.get(urljoin(page.url, address), timeout=60).status_code == 200
        assert not re.search(r"https?://", page.text)
