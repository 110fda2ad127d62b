"""The demo, as ``make run`` serves it: what it prints and shows, and how it ends and goes on."""

from __future__ import annotations

import re
import secrets
import signal
import subprocess
import sys

import pytest
import requests

from fdbqueue import conf
from tests.engines.children import wait_until
from tests.forgetting import forget_queues
from tests.live.demo import Demo, environment
from tests.live.server import DEADLINE_SECONDS, ROOT
from tests.live.setting import fdbqueue_setting

LIST = "/admin/fdbqueue/queuename/"
#: What each page of a queue must have to show: the states in which it has items.
STATES = {
    "quakes": {"ready", "leased", "delayed", "dead"},
    "alerts": {"ready", "leased", "delayed", "dead"},
    "waveforms": {"ready", "leased"},
    "maintenance": {"ready", "leased"},
    "imports": {"ready"},
    "exports": {"ready"},
    "legacy": {"ready"},
    "tasks-default": {"leased", "delayed", "dead"},
    "tasks-reports": {"delayed"},
}


@pytest.fixture(scope="module")
def prefix():
    """Where the queues of these tests are."""
    found = secrets.token_hex(8)
    yield found
    forget_queues(found)


@pytest.fixture(scope="module")
def where(tmp_path_factory, prefix):
    """The environment of these tests' demo."""
    return environment(tmp_path_factory.mktemp("demo"), prefix)


@pytest.fixture(scope="module")
def demo(where):
    """The demo, with an hour of history, running."""
    with Demo(where) as running:
        yield running


@pytest.fixture(scope="module")
def session(demo):
    """A browser, as it were, whose user has logged in as the last line says."""
    with requests.Session() as found:
        page = found.get(f"{demo.address}/admin/login/", timeout=DEADLINE_SECONDS)
        (csrf,) = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
        _, name, password = re.split(r" +user |, password ", demo.lines[-1])
        form = {"username": name, "password": password, "csrfmiddlewaretoken": csrf}
        answer = found.post(page.url, data=form, timeout=DEADLINE_SECONDS, allow_redirects=False)
        assert answer.status_code == 302
        yield found


@pytest.fixture
def catalog(demo, where, prefix, settings):
    """The demo's queues, from this process."""
    del demo
    settings.FDBQUEUE = fdbqueue_setting(prefix, where["FDBQUEUE_PATH"])
    found = conf.catalog()
    yield found
    if hasattr(found.database, "close"):
        found.database.close()


def page_of(session, demo, path):
    """Return a page's text; it is there."""
    answer = session.get(demo.address + path, timeout=DEADLINE_SECONDS)
    assert answer.status_code == 200, path
    return answer.text


def test_it_says_what_it_does(demo):
    """What it prepares first; then what to open, the login being the last line."""
    history, address, login = demo.lines[1], demo.lines[-2], demo.lines[-1]
    assert history == "Writing an hour of history into 10 queues..."
    assert re.fullmatch(r"Queues +http://127\.0\.0\.1:\d+/admin/fdbqueue/queuename/", address)
    assert login == "Log in    user demo, password demo"


def test_its_login_pages_say_who_may_log_in(demo):
    """In the demo alone."""
    for path in ("/admin/login/", "/login/"):
        shown = requests.get(demo.address + path, timeout=DEADLINE_SECONDS).text
        assert "The user of the demo is <b>demo</b>, the password <b>demo</b>." in shown


def test_every_address_that_it_prints_is_there(session, demo):
    """The pages and Swagger for the user who has logged in, the API with the token."""
    for address in re.findall(r"http://\S+", "\n".join(demo.lines)):
        page_of(session, demo, address.removeprefix(demo.address))
    with_token = requests.get(
        f"{demo.address}/api/queues/",
        headers={"Authorization": f"Token {demo.token}"},
        timeout=DEADLINE_SECONDS,
    )
    assert with_token.status_code == 200


@pytest.mark.parametrize("name", STATES)
def test_every_page_of_a_queue_has_something_to_show(session, demo, name):
    """In each state that the queue is there for: items, or tasks, and each has its page."""
    for state in STATES[name]:
        for attempt in range(5):  # a worker may take the item before its page is read
            text = page_of(session, demo, f"{LIST}{name}/?state={state}")
            (first, *_) = re.findall(rf'href="({LIST}{name}/(?:items|tasks)/[^"?/]+/)', text)
            answer = session.get(demo.address + first, timeout=DEADLINE_SECONDS)
            if answer.status_code != 404 or attempt == 4:
                break
        assert answer.status_code == 200, first
        assert name in answer.text


def test_life_goes_on(catalog):
    """While it serves, items are pushed and taken."""

    def events():
        minutes = catalog.queue("picks").history(120)
        return sum(one.pushes for one in minutes), sum(one.pops for one in minutes)

    pushes, pops = events()
    wait_until(lambda: events()[0] > pushes and events()[1] > pops, DEADLINE_SECONDS)


def test_it_ends_in_order_and_goes_on_with_its_data(tmp_path, prefix):
    """SIGTERM and Ctrl-C end it with a word, and no request is logged; the next one goes on."""
    where = environment(tmp_path, f"{prefix}-again")
    try:
        with Demo(where) as first:
            requests.get(f"{first.address}/favicon.ico", timeout=DEADLINE_SECONDS)
            requests.get(f"{first.address}/nowhere/", timeout=DEADLINE_SECONDS)
            requests.get(f"{first.address}/admin/login/", timeout=DEADLINE_SECONDS)
            code, printed, log = first.stop(signal.SIGTERM)
            assert (code, printed) == (0, "\nThe demo has stopped; its data is kept.\n")
            assert [line for line in log.splitlines() if "/nowhere/" not in line] == []
        with Demo(where) as second:
            assert "The queues are as the demo left them." in second.lines
            assert second.token == first.token
            assert second.stop(signal.SIGINT)[0] == 0
    finally:
        forget_queues(f"{prefix}-again")


def demo_command(where, *arguments):
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "manage.py", "demo", *arguments],
        cwd=ROOT,
        env=where,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def test_a_port_that_is_taken(demo, where):
    """It says so before it prepares anything, and what to do."""
    port = demo.address.rpartition(":")[2]
    done = demo_command(where, "--port", port)
    assert done.returncode == 1
    assert re.fullmatch(
        rf"CommandError: Port {port} cannot be used \(.+\)\. Choose another: make run PORT=8001\n",
        done.stderr,
    )
    assert done.stdout == ""


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_that_is_none(where, port):
    """It is refused with a message."""
    done = demo_command(where, f"--port={port}")
    assert done.returncode == 1
    assert f"CommandError: Port {port} cannot be used" in done.stderr


def test_the_token_is_printed_alone(demo, where):
    """For scripts; it is the same as before."""
    done = demo_command(where, "--token")
    assert (done.returncode, done.stdout) == (0, f"{demo.token}\n")


def test_make_run_installs_no_test_tools(tmp_path):
    """Only what serving needs; then there is one command, which does the rest."""
    done = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "run", f"VENV={tmp_path}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.findall(r"requirements\S*\.txt", done.stdout) == ["requirements.txt"]
    packages = (ROOT / "requirements.txt").read_text(encoding="utf-8").count("==")
    assert f"Installing {packages} packages" in done.stdout
    assert f"installs {packages} packages" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert done.stdout.splitlines()[-1] == f"exec {tmp_path}/bin/python manage.py demo"


def test_it_is_for_debug_alone(where):
    """Its password is known to all, so it is not served in production."""
    safe = {**where, "DJANGO_DEBUG": "0", "DJANGO_SECRET_KEY": "x" * 50}
    for arguments in ([], ["--token"]):
        done = demo_command(safe, *arguments)
        assert done.returncode == 1
        assert "Run this only with DEBUG on." in done.stderr
