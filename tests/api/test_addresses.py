"""Addresses that are none: an answer in JSON or on a page, no redirect, and nothing done."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.api.test_errors import ITEM, check_shape
from tests.cases import cases

METHODS = ["get", "head", "post", "put", "patch", "delete", "options", "trace"]
#: Every address of the API without its last slash, and some that are nothing at all.
NOWHERE = [
    "/api/queues",
    "/api/queues/mail",
    "/api/queues/mail/pause",
    "/api/queues/mail/resume",
    "/api/queues/mail/peek",
    "/api/queues/mail/items",
    f"/api/queues/mail/items/{ITEM}",
    "/api/queues/mail/push",
    "/api/queues/mail/pop",
    "/api/queues/mail/lease",
    "/api/queues/mail/ack",
    "/api/queues/mail/nack",
    "/api/queues/mail/extend",
    "/api/queues/mail/bury",
    "/api/queues/mail/redrive",
    "/api/queues/mail/give-back",
    "/api/queues/mail/give_back/",
    "/api/queues/mail/run-now",
    "/api/queues/mail/purge",
    "/api/queues/mail/dead-reasons",
    "/api/queues/mail/dead_reasons/",
    "/api/queues/mail/pop//",
    "/api/queues//pop/",
    "/api/queues/mail/pop/now/",
    "/api/queues/mail/drain/",
    "/api/queues/mail/pop\n",
    "/api/queues/mail/items/a/b/",
]


@cases("path", NOWHERE)
@cases("debug", [True, False])
@cases("append_slash", [True, False])
def test_an_address_that_is_none(api, queues, settings, path, debug, append_slash):
    """Whatever the method and the project's settings, it is 404 in JSON; nothing is popped."""
    settings.DEBUG, settings.APPEND_SLASH = debug, append_slash
    mail = queues.queue("mail")
    mail.push("kept")
    before = [each.id for each in mail]
    for method in METHODS:
        response = api.generic(method.upper(), path, b"", content_type="application/json")
        assert response.status_code == 404, method
        if method != "head":
            check_shape(response, 404, "address_not_found")
            assert "slash" in response.json()["message"]
        assert response["Cache-Control"] == "no-store"
    assert [each.id for each in mail] == before


def test_nobody_needs_credentials_to_be_told(db, settings):
    """There is nothing to be allowed; nor does it matter what a form or a session sends."""
    settings.REST_FRAMEWORK = {
        **settings.REST_FRAMEWORK,
        "DEFAULT_THROTTLE_CLASSES": ["rest_framework.throttling.AnonRateThrottle"],
        "DEFAULT_THROTTLE_RATES": {"anon": "1/day"},
    }
    client = Client(enforce_csrf_checks=True)
    for _ in range(3):
        check_shape(client.post("/api/queues/mail/pop", {"a": "b"}), 404, "address_not_found")
    client.force_login(User.objects.create_superuser("root"))
    check_shape(client.post("/api/queues/mail/pop", {"a": "b"}), 404, "address_not_found")


@pytest.mark.parametrize("path", ["/api/queues/mail/pop", "/api/pop-from/x/", "/api/nothing"])
def test_a_browser_is_told_on_a_page(client, db, path):
    """It says what JSON says, with no form; of what a session is, it neither asks nor tells."""
    accept = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for _ in range(2):
        response = client.get(path, headers=accept)
        assert (response.status_code, response["Content-Type"]) == (404, "text/html; charset=utf-8")
        page = response.content.decode()
        assert "There is nothing at this address" in page
        assert "<form" not in page
        assert "somebody" not in page
        client.force_login(User.objects.get_or_create(username="somebody")[0])


def test_addresses_beside_the_api_are_the_projects(db, settings):
    """What begins otherwise is not ours: Django answers, and adds the slash where it is due."""
    settings.ROOT_URLCONF = "tests.api.test_root"
    assert Client().get("/q/queuesque/").status_code == 404
    assert Client().get("/q/queuesque/")["Content-Type"].startswith("text/html")
    assert Client().get("/s").status_code == 301


@cases("path", ["queuesque/", "schema", "docs", "x", "x/y/z", "%0a", "%00", "%ff", "../x", "/"])
@cases("method", ["GET", "POST", "BREW"])
def test_every_other_address_of_a_project_that_asks_for_it(db, path, method):
    """Where the project includes ``fdbqueue.api.unknown``, it is 404 in the API's form."""
    response = Client().generic(method, f"/api/{path}")
    check_shape(response, 404, "address_not_found")


@pytest.mark.parametrize("method", ["get", "post"])
def test_an_address_that_is_too_long(api, queues, method):
    """4,000 characters are taken, with the query; one more is 414, whatever is asked."""
    queues.queue("mail").push("kept")
    path = f"/api/queues/mail/{'items' if method == 'get' else 'pop'}/?x="
    code = {400: "invalid_input", 414: "address_too_long"}
    for length, status in ((4_000, 400), (4_001, 414)):
        body = {} if method == "get" else {"data": {}}
        response = getattr(api, method)(path + "x" * (length - len(path)), **body)
        check_shape(response, status, code[status])
    long_name = api.get(f"/api/queues/{'x' * 4_000}/")
    check_shape(long_name, 414, "address_too_long")
    assert queues.queue("mail").size() == 1


@cases("end", ["min", "max"])
@cases("limit", [1, 2, 3, 100])
def test_every_cursor_fits_into_an_address(api, queues, end, limit):
    """Places that others made as long as keys may be are passed, and no item is missed."""
    mail = queues.queue("mail")
    pushed = [mail.push(number).id for number in range(3)]
    transaction = mail.database.create_transaction()
    subspace = mail.subspace
    for number in (0, 2):  # before the first item, and between two of them
        for last in range(3):
            key = subspace.pack((number, b"\xff" * 9_000 + bytes([last])))
            transaction[key] = b"junk"
    transaction.commit().wait()
    found, address = [], f"/api/queues/mail/items/?end={end}&limit={limit}"
    page = api.get(address).json()
    for _ in range(20):
        found += [item["id"] for item in page["items"]]
        if page["cursor"] is None:
            break
        assert len(page["cursor"]) <= 3_000
        response = api.get(f"{address}&cursor={page['cursor']}")
        assert response.status_code == 200, response.content
        page = response.json()
    assert page["cursor"] is None
    assert len({*found}) == len(found)
    assert [each for each in found if each in pushed] == pushed[:: 1 if end == "min" else -1]
