"""Looking at items: peek, pages, one item."""

from __future__ import annotations

import pytest

import fdbqueue
from fdbqueue.service import run
from tests.api.test_listing import put


@pytest.fixture
def jobs(api):
    """The address of a queue of ten items, whose values are their priorities."""
    items = [{"value": number, "priority": number} for number in range(10)]
    api.post("/api/queues/jobs/push/", {"items": items})
    return "/api/queues/jobs"


def values(response):
    """Return the values of the items in a response."""
    assert response.status_code == 200, response.content
    return [item["value"] for item in response.json()["items"]]


def test_peek_shows_what_a_pop_would_take(api, jobs):
    """A peek shows items in the order of pops from that end, and takes none."""
    assert values(api.get(f"{jobs}/peek/")) == [0]
    assert values(api.get(f"{jobs}/peek/?end=max&limit=3")) == [9, 8, 7]
    assert values(api.get(f"{jobs}/peek/?limit=1000")) == list(range(10))


@pytest.mark.parametrize("end", ["min", "max"])
def test_pages_show_each_item_once(api, jobs, end):
    """Following the cursors shows every item once, in order, and ends with null."""
    seen = []
    address = f"{jobs}/items/?limit=3&end={end}"
    page = api.get(address)
    while page.json()["cursor"] is not None:
        seen += values(page)
        page = api.get(f"{address}&cursor={page.json()['cursor']}")
    seen += values(page)
    assert seen == sorted(range(10), reverse=end == "max")


@pytest.mark.parametrize("end", ["min", "max"])
@pytest.mark.parametrize("state", ["leased", "delayed", "dead"])
def test_pages_of_hidden_items(api, state, end):
    """Items in other states have pages too, in the order of their places."""
    body = [{"value": n, **({"delay": 60} if state == "delayed" else {})} for n in range(5)]
    pushed = api.post("/api/queues/tried/push/", {"items": body}).json()
    for _ in range({"leased": 1, "delayed": 0, "dead": 2}[state]):
        leased = api.post("/api/queues/tried/lease/", {"limit": 5}).json()["items"]
        for item in leased if state == "dead" else []:
            nack = {"lease": item["lease"], "reason": "broken"}
            assert api.post("/api/queues/tried/nack/", nack).status_code == 200
    seen = []
    address = f"/api/queues/tried/items/?limit=2&end={end}&state={state}"
    page = api.get(address).json()
    while page["cursor"] is not None:
        seen += page["items"]
        page = api.get(f"{address}&cursor={page['cursor']}").json()
    seen += page["items"]
    assert [item["id"] for item in seen] == pushed["ids"][:: -1 if end == "max" else 1]
    for item in seen:
        assert item["state"] == state
        assert (item["until"] is not None) == (state != "dead")
        assert item["reason"] == ("broken" if state == "dead" else None)
        assert "lease" not in item
        assert api.get(f"/api/queues/tried/items/{item['id']}/").json() == item
    assert api.get("/api/queues/tried/items/").json()["items"] == []


def test_dead_letters_by_when_they_died(api):
    """The newest first with ``end=max``; a cursor of one order is none of the other."""
    mail = fdbqueue.queue("mail")
    mail.push_many(range(5))
    ids = [item.id for item in mail]
    died = ids[3:] + ids[:3]
    for item_id in died:
        mail.bury(item_id)
    address = "/api/queues/mail/items/?state=dead&order=time&limit=2"
    seen = []
    page = api.get(f"{address}&end=max").json()
    while page["cursor"] is not None:
        seen += page["items"]
        cursor = page["cursor"]
        page = api.get(f"{address}&end=max&cursor={cursor}").json()
    seen += page["items"]
    assert [item["id"] for item in seen] == died[::-1]
    assert [item["id"] for item in api.get(address).json()["items"]] == died[:2]
    for other in (address, address.replace("time", "place") + "&end=max"):
        response = api.get(f"{other}&cursor={cursor}")
        assert (response.status_code, response.json()["code"]) == (400, "invalid_input")


@pytest.mark.parametrize(
    "query", ["order=time", "state=dead&order=age", "state=dead&order=time&min_priority=1"]
)
def test_an_order_that_items_do_not_have(api, query):
    """It is refused, and says why."""
    response = api.get(f"/api/queues/jobs/items/?{query}")
    assert (response.status_code, response.json()["code"]) == (400, "invalid_input")


def test_what_a_worker_has_leased(api):
    """Of each page what others hold is left out; the cursors lead to all of its leases."""
    mail = fdbqueue.queue("mail")
    mail.push_many(range(6))
    leased = [mail.lease(seconds=60, worker="ada" if n in {0, 5} else "bob") for n in range(6)]
    for order in ("place", "time"):
        address = f"/api/queues/mail/items/?state=leased&worker=ada&limit=2&order={order}"
        pages = [api.get(address).json()]
        while cursor := pages[-1]["cursor"]:
            pages.append(api.get(f"{address}&cursor={cursor}").json())
        found = [[item["id"] for item in page["items"]] for page in pages]
        assert [one for page in found for one in page] == [leased[0].id, leased[5].id]
        assert [] in found
    for query in ("worker=ada", "state=dead&worker=ada", "state=leased&worker=%00"):
        response = api.get(f"/api/queues/mail/items/?{query}")
        assert (response.status_code, list(response.json()["fields"])) == (400, ["worker"])


def test_a_position_that_no_address_can_hold(api):
    """Another program's key may be that long; the next page starts behind its beginning."""
    mail = fdbqueue.queue("mail")
    key = mail.subspace.pack((1, b"x" * 5_000))
    run(mail.database, lambda tr: tr.set(key, b'{"v": 1}'))
    mail.push_many([2, 3])
    for item in mail.page().items:
        mail.bury(item.id)
    address = "/api/queues/mail/items/?state=dead&order=time&limit=1"
    page = api.get(address).json()
    page = api.get(f"{address}&cursor={page['cursor']}").json()
    assert [item["value"] for item in page["items"]] == [2]


def test_a_cursor_is_of_its_list(api, jobs):
    """That of one queue, state and end is none of another, however alike they are."""
    for name in ("mail", "tried"):
        api.post(f"/api/queues/{name}/push/", {"items": [{"value": 1}, {"value": 2}]})
    cursor = api.get("/api/queues/mail/items/?limit=1").json()["cursor"]
    assert values(api.get(f"/api/queues/mail/items/?cursor={cursor}")) == [2]
    others = [f"{name}/items/?" for name in ("tried", "audit", "jobs", "user-1")]
    for other in (*others, "mail/items/?state=dead&", "mail/items/?end=max&"):
        response = api.get(f"/api/queues/{other}cursor={cursor}")
        assert (response.status_code, response.json()["code"]) == (400, "invalid_input")
    assert api.get(f"/api/queues/?cursor={cursor}").status_code == 400
    listed = api.get("/api/queues/?limit=1").json()["cursor"]
    assert api.get(f"/api/queues/mail/items/?cursor={listed}").status_code == 400


def test_a_cursor_cannot_be_made_or_changed(api, jobs):
    """An id, a cursor with another id and one with a space before it are refused."""
    second = api.get(f"{jobs}/items/?limit=2").json()["items"][1]
    cursor = api.get(f"{jobs}/items/?limit=1").json()["cursor"]
    signature = cursor.rpartition(":")[2]
    for bad in (second["id"], f"{second['id']}:{signature}", f"%20{cursor}", cursor[:-1]):
        response = api.get(f"{jobs}/items/?cursor={bad}")
        assert response.json()["code"] == "invalid_input"
        assert response.json()["fields"] == {"cursor": "This is not a cursor of this list."}
    assert api.get(f"{jobs}/items/?limit=1&cursor={cursor}").json()["items"] == [second]


def test_a_cursor_of_another_secret(api, jobs, settings):
    """A project that changes its secret key keeps the old cursors among the fallbacks."""
    cursor = api.get(f"{jobs}/items/?limit=1").json()["cursor"]
    old = settings.SECRET_KEY
    settings.SECRET_KEY = "another"
    assert api.get(f"{jobs}/items/?cursor={cursor}").status_code == 400
    settings.SECRET_KEY_FALLBACKS = [old]
    assert values(api.get(f"{jobs}/items/?cursor={cursor}")) == list(range(1, 10))


def test_page_of_a_range_of_priorities(api, jobs):
    """Both bounds are included, and work from either end."""
    assert values(api.get(f"{jobs}/items/?min_priority=3&max_priority=5")) == [3, 4, 5]
    assert values(api.get(f"{jobs}/items/?min_priority=7&end=max")) == [9, 8, 7]
    assert values(api.get(f"{jobs}/items/?max_priority=1e0")) == [0, 1]
    assert values(api.get(f"{jobs}/items/?max_priority=-1")) == []


def test_bounds_of_a_float_queue(api):
    """Bounds without a fraction mean the same in a queue of floats."""
    items = [{"value": number, "priority": number} for number in (0.31, 2, 6.4)]
    api.post("/api/queues/quakes/push/", {"items": items})
    assert values(api.get("/api/queues/quakes/items/?min_priority=1&max_priority=6.4")) == [2, 6.4]


def test_an_item_that_is_gone(api, jobs):
    """The address of a popped item is 404."""
    item = api.post(f"{jobs}/pop/", {}).json()["items"][0]
    response = api.get(f"{jobs}/items/{item['id']}/")
    assert response.status_code == 404
    assert response.json() == {
        "code": "item_not_found",
        "message": "The queue holds no such item",
        "queue": "jobs",
        "id": item["id"],
    }


def test_a_value_that_cannot_be_decoded(api, queues):
    """A page and the item's address show its bytes and the reason, under one extra key."""
    put(queues.queue("mail"), b"\xff\xfe junk")
    api.post("/api/queues/mail/push/", {"value": "fine"})
    bad, good = api.get("/api/queues/mail/items/").json()["items"]
    assert bad["value"] is None
    assert bad["undecodable"] == {
        "base64": "//4ganVuaw==",
        "reason": "the bytes are not an FDB tuple",
    }
    assert good["value"] == "fine"
    assert "undecodable" not in good
    assert api.get(f"/api/queues/mail/items/{bad['id']}/").json() == bad
