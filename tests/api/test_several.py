"""Popping and leasing from several queues in one request."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from fdbqueue import conf
from tests.cases import cases
from tests.engines.children import wait_until

ADDRESSES = ["/api/pop-from/", "/api/lease-from/"]
each_address = pytest.mark.parametrize("address", ADDRESSES)
RULES = "tests.api.rules"


@pytest.fixture
def filled(queues):
    """Queues with items."""
    for name, value in {"mail": "m", "user-1": 1, "user-2": 2}.items():
        queues.queue(name).push(value)
    return queues


def sizes(queues):
    """Return how many items are ready in the queues that were filled."""
    return [queues.queue(name).size() for name in ("mail", "user-1", "user-2")]


@each_address
def test_the_first_that_has_items_gives(api, filled, address):
    """The response says which queue that was."""
    body = {"queues": ["audit", "user-*", "mail"], "limit": 5, "fair": False}
    found = api.post(address, body)
    assert found.status_code == 200
    assert found.json()["queue"] == "user-1"
    assert [item["value"] for item in found.json()["items"]] == [1]
    assert ("lease" in found.json()["items"][0]) is ("lease" in address)
    assert api.post(address, {"queues": ["audit"]}).json() == {"queue": None, "items": []}
    if "lease" in address:
        lease = found.json()["items"][0]["lease"]
        assert api.post("/api/queues/user-1/ack/", {"lease": lease}).status_code == 200


def test_an_item_has_the_same_fields_as_from_one_queue(api, filled):
    """Its queue is named once, beside the items."""
    (peeked,) = api.get("/api/queues/mail/peek/").json()["items"]
    assert api.post("/api/pop-from/", {"queues": ["mail"]}).json()["items"] == [peeked]


@pytest.mark.parametrize("fair", [{}, {"fair": None}, {"fair": True}], ids=str)
def test_fair_requests_take_turns(api, filled, fair):
    """By default if there is a pattern: each queue that has items gives once in a circle."""
    filled.queue("mail").push("m2")
    body = {"queues": ["mail", "user-*"], **fair}
    names = [api.post("/api/pop-from/", body).json()["queue"] for _ in range(4)]
    assert sorted(names[:3]) == ["mail", "user-1", "user-2"]
    assert names[3] == "mail"


@each_address
def test_a_repeated_request_gets_the_same_response(api, filled, address):
    """And takes nothing more; another request under the key is refused."""
    key = {"HTTP_IDEMPOTENCY_KEY": "k1"}
    body = {"queues": ["audit", "user-*"], "fair": False}
    first = api.post(address, body, **key)
    filled.queue("audit").push("new")
    again = api.post(address, body, **key)
    assert again.content == first.content
    assert again.headers["Idempotent-Replayed"] == "true"
    assert sizes(filled) == [1, 0, 1]
    assert api.post(address, {"queues": ["audit", "mail"]}, **key).status_code == 422
    assert api.post(address, {**body, "limit": 2}, **key).status_code == 422


def test_a_request_waits(root, queues):
    """For any of the queues."""
    client = root()
    with ThreadPoolExecutor(1) as pool:
        body = {"queues": ["mail", "audit"], "wait": 20}
        found = pool.submit(client.post, "/api/pop-from/", body)
        wait_until(lambda: waiting("audit"))
        queues.queue("audit").push("x")
        assert found.result(60).json()["queue"] == "audit"


def waiting(name):
    """Return how many wait for an item of a queue."""
    return conf.catalog().queue(name).parts.group.watch.waiting


# Who may


@each_address
@pytest.mark.parametrize("queues_named", [["mail"], ["user-*"], ["mail", "user-*"]], ids=str)
def test_the_permission_of_the_verb_is_needed(client_with, filled, address, queues_named):
    """All others together do not do."""
    needed = "lease_queue" if "lease" in address else "pop_queue"
    others = {"view_queue", "push_queue", "pop_queue", "lease_queue"} - {needed}
    refused = client_with(*others).post(address, {"queues": queues_named})
    assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")
    assert sizes(filled) == [1, 1, 1]
    allowed = client_with(needed).post(address, {"queues": queues_named})
    assert allowed.status_code == 200
    assert len(allowed.json()["items"]) == 1


@pytest.mark.parametrize(
    ("names", "status"),
    [
        (["mail"], 403),
        (["user-1", "mail"], 403),
        (["user-*", "mail"], 403),
        (["nowhere"], 403),
        (["nowhere-*"], 403),
        (["mai*"], 403),
        (["user-1"], 200),
        (["*"], 403),
    ],
    ids=str,
)
def test_every_queue_that_is_named_needs_the_permission(api, filled, allow, names, status):
    """A pattern needs the permission for all queues."""
    allow(AUTHORIZER=f"{RULES}.may_look_at_mail")
    found = api.post("/api/pop-from/", {"queues": names})
    assert found.status_code == status
    assert filled.queue("mail").size() == 1
    if status == 200:
        assert found.json()["queue"] == "user-1"
    assert api.post("/api/lease-from/", {"queues": names}).status_code == 403


# What is refused


@each_address
@cases(
    ("body", "status"),
    [
        ({}, 400),
        ({"queues": []}, 400),
        ({"queues": "mail"}, 400),
        ({"queues": [1]}, 400),
        ({"queues": [""]}, 400),
        ({"queues": ["mail", None]}, 400),
        ({"queues": ["x" * 101]}, 400),
        ({"queues": ["mail"] * 1_001}, 400),
        ({"queues": ["a b*"]}, 400),
        ({"queues": ["mail"], "limit": 0}, 400),
        ({"queues": ["mail"], "end": "middle"}, 400),
        ({"queues": ["mail"], "fair": "perhaps"}, 400),
        ({"queues": ["mail"], "wait": -1}, 400),
        ({"queues": ["mail"], "count": 1}, 400),
        ({"queues": ["mail", "nowhere"]}, 404),
        ({"queues": ["nowhere-*"]}, 404),
    ],
)
def test_what_makes_no_sense_is_refused(api, filled, address, body, status):
    """Nothing is taken."""
    assert api.post(address, body).status_code == status
    assert sizes(filled) == [1, 1, 1]
