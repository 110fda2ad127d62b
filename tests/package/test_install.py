"""Installed elsewhere as the quickstart says: Python, the commands, REST and the pages all work.

In an environment with the wheel and the three packages it requires, and with no extra.
"""

from __future__ import annotations

import json
import re

import pytest
import requests

from tests.package import readme
from tests.package.site import DEADLINE_SECONDS, PASSWORD, Site

NOT_REQUIRED = ["drf_spectacular", "django_htmx", "prometheus_client"]


@pytest.fixture(scope="module")
def site(python, tmp_path_factory):
    """The project, migrated, with an administrator."""
    made = Site(python, tmp_path_factory.mktemp("site"))
    made.manage("migrate")
    made.manage("createsuperuser", "--no-input", "--username", "admin", "--email", "a@example.com")
    return made


def test_no_extra_is_there(site):
    """So what follows works without them; and the package is the installed one."""
    code = """
import importlib.util, sys
print(*[name for name in sys.argv[1:] if importlib.util.find_spec(name)])
print(importlib.util.find_spec("fdbqueue").origin)
"""
    found, origin = site.run("-c", code, *NOT_REQUIRED).splitlines()
    assert found == ""
    assert "site-packages" in origin


def test_the_checks_find_nothing(site):
    """Neither in the settings nor in the migrations."""
    assert "no issues" in site.manage("check", "--fail-level", "DEBUG")
    assert "No changes detected" in site.manage("makemigrations", "--check", "--dry-run")


def test_migrate_makes_the_four_permissions(site):
    """And nothing has to be migrated again."""
    assert "No migrations to apply" in site.manage("migrate")
    code = """
import django; django.setup()
from django.contrib.auth.models import Permission
print(*sorted(p.codename for p in Permission.objects.filter(content_type__app_label="fdbqueue")))
"""
    names = ["lease_queue", "manage_queue", "pop_queue", "push_queue", "view_queue"]
    assert site.run("-c", code).split() == names


def test_dumpdata_passes_the_queues_by(site):
    """The project's other models are dumped, and nothing asks for a table of queues."""
    assert '"model": "auth.permission"' in site.manage("dumpdata")
    assert site.manage("dumpdata", "--all", "fdbqueue").strip() == "[]"


def test_the_session_of_the_readme(site):
    """Each result is the one that is shown."""
    session = readme.session()
    code = """
import django, doctest, sys
django.setup()
test = doctest.DocTestParser().get_doctest(sys.stdin.read(), {}, "README.md", None, 0)
runner = doctest.DocTestRunner()
runner.run(test)
print(runner.tries, runner.failures)
"""
    tries, failures = site.run("-c", code, text=session).split()[-2:]
    assert (int(tries), int(failures)) == (session.count(">>> "), 0)


def test_every_command_says_how_it_is_used(site):
    """None of them needs an extra to be loaded."""
    listed = re.findall(r"^ +(queue_\w+)$", site.manage("help"), re.MULTILINE)
    assert {"queue_push", "queue_pop", "queue_drain", "queue_doctor", "queue_work"} <= set(listed)
    code = """
import contextlib, sys
from django.core.management import execute_from_command_line
for name in sys.argv[1:]:
    with contextlib.suppress(SystemExit):
        execute_from_command_line(["manage.py", name, "--help"])
"""
    printed = site.run("-c", code, *listed)
    found = re.findall(r"^usage: manage\.py (\w+) ", printed, re.MULTILINE)
    assert found == listed


def test_the_commands_work(site):
    """Push, list, pop and drain, in processes of their own."""
    site.manage("queue_push", "mail", text='{"a": 1}\n2\n')
    assert "mail" in site.manage("queue_list")
    assert json.loads(site.manage("queue_pop", "mail", "--json"))["value"] == {"a": 1}
    drained = site.manage("queue_drain", "mail", "--output", "-")
    assert json.loads(drained)["value"] == 2


def test_rest_and_the_pages_are_served(site):
    """Over real HTTP: REST with a password, the pages with a login, and their style sheets."""
    with site.served() as address, requests.Session() as session:
        api = f"{address}/api/queues"
        assert requests.get(f"{api}/", timeout=DEADLINE_SECONDS).status_code in {401, 403}
        admin = {"auth": ("admin", PASSWORD), "timeout": DEADLINE_SECONDS}
        body = {"value": {"place": "<b>Hualian</b>"}, "priority": 6.4}
        pushed = requests.post(f"{api}/quakes/push/", json=body, **admin)
        assert pushed.status_code == 201, pushed.text
        names = [one["name"] for one in requests.get(f"{api}/", **admin).json()["queues"]]
        assert "quakes" in names
        _log_in(session, address)
        page = session.get(f"{address}/admin/fdbqueue/queuename/quakes/", timeout=DEADLINE_SECONDS)
        assert page.status_code == 200
        assert "&lt;b&gt;Hualian" in page.text
        for sheet in re.findall(r'href="(/static/[^"]+)"', page.text):
            assert session.get(address + sheet, timeout=DEADLINE_SECONDS).status_code == 200
        popped = requests.post(f"{api}/quakes/pop/", json={"end": "max"}, **admin)
        assert popped.json()["items"][0]["value"] == body["value"]


def _log_in(session, address):
    """Fill in the form, and find the queues in the index."""
    login = f"{address}/admin/login/?next=/admin/"
    page = session.get(login, timeout=DEADLINE_SECONDS)
    (token,) = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
    form = {"username": "admin", "password": PASSWORD, "csrfmiddlewaretoken": token}
    index = session.post(login, data=form, timeout=DEADLINE_SECONDS)
    assert index.status_code == 200
    assert "/admin/fdbqueue/queuename/" in index.text


def test_health_needs_nothing_else(site):
    """Its addresses can be mounted without an extra; that of the queues wants a monitor."""
    code = """
import django; django.setup()
from django.test import RequestFactory
import fdbqueue
from fdbqueue.health.urls import urlpatterns
fdbqueue.queue("quakes").size()  # a file may have to be made
for pattern in urlpatterns:
    print(pattern.callback(RequestFactory().get("/")).status_code)
"""
    assert site.run("-c", code).split() == ["200", "200", "401"]
