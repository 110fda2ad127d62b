"""Looking at items: peek, pages, one item."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from fdbqueue import service
from tests.api.test_listing import put


@pytest.fixture
def jobs(api: APIClient) -> str:
    """The address of a queue of ten items, whose values are their priorities."""
    items = [{"value": number, "priority": number} for number in range(10)]
    api.post("/api/queues/jobs/push/", {"items": items})
    return "/api/queues/jobs"


def values(response: Any) -> list[Any]:
    """Return the values of the items in a response."""
    assert response.status_code == 200, response.content
    return [item["value"] for item in response.json()["items"]]


def test_peek_shows_what_a_pop_would_take(api: APIClient, jobs: str) -> None:
    """A peek shows items in the order of pops from that end, and takes none."""
    assert values(api.get(f"{jobs}/peek/")) == [0]
    assert values(api.get(f"{jobs}/peek/?end=max&limit=3")) == [9, 8, 7]
    assert values(api.get(f"{jobs}/peek/?limit=1000")) == list(range(10))


def test_peek_of_an_empty_queue(api: APIClient) -> None:
    """An empty queue shows an empty list."""
    assert values(api.get("/api/queues/mail/peek/")) == []


@pytest.mark.parametrize("end", ["min", "max"])
def test_pages_show_each_item_once(api: APIClient, jobs: str, end: str) -> None:
    """Following the cursors shows every item once, in order, and ends with null."""
    seen: list[int] = []
    address = f"{jobs}/items/?limit=3&end={end}"
    page = api.get(address)
    while page.json()["cursor"] is not None:
        seen += values(page)
        page = api.get(f"{address}&cursor={page.json()['cursor']}")
    seen += values(page)
    assert seen == sorted(range(10), reverse=end == "max")


def test_a_cursor_outlives_its_item(api: APIClient, jobs: str) -> None:
    """A cursor is a place: the next page starts there though the item is gone."""
    cursor = api.get(f"{jobs}/items/?limit=3").json()["cursor"]
    api.post(f"{jobs}/pop/", {"limit": 5})
    assert values(api.get(f"{jobs}/items/?cursor={cursor}")) == [5, 6, 7, 8, 9]


def test_page_of_a_range_of_priorities(api: APIClient, jobs: str) -> None:
    """Both bounds are included, and work from either end."""
    assert values(api.get(f"{jobs}/items/?min_priority=3&max_priority=5")) == [3, 4, 5]
    assert values(api.get(f"{jobs}/items/?min_priority=7&end=max")) == [9, 8, 7]
    assert values(api.get(f"{jobs}/items/?max_priority=1e0")) == [0, 1]
    assert values(api.get(f"{jobs}/items/?max_priority=-1")) == []


def test_bounds_of_a_float_queue(api: APIClient) -> None:
    """Bounds without a fraction mean the same in a queue of floats."""
    items = [{"value": number, "priority": number} for number in (0.31, 2, 6.4)]
    api.post("/api/queues/quakes/push/", {"items": items})
    assert values(api.get("/api/queues/quakes/items/?min_priority=1&max_priority=6.4")) == [2, 6.4]


def test_one_item(api: APIClient, jobs: str) -> None:
    """An item's own address shows it as the page does."""
    item = api.get(f"{jobs}/items/?limit=1").json()["items"][0]
    response = api.get(f"{jobs}/items/{item['id']}/")
    assert response.status_code == 200
    assert response.json() == item


def test_an_item_that_is_gone(api: APIClient, jobs: str) -> None:
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


def test_a_value_that_cannot_be_decoded(api: APIClient, queues: service.Catalog) -> None:
    """A page and the item's address show its bytes and the reason, under one extra key."""
    put(queues.queue("mail"), b"\xff\xfe junk")
    api.post("/api/queues/mail/push/", {"value": "fine"})
    bad, good = api.get("/api/queues/mail/items/").json()["items"]
    assert bad["value"] is None
    assert bad["undecodable"] == {"base64": "//4ganVuaw==", "reason": "the bytes are no FDB tuple"}
    assert good["value"] == "fine"
    assert "undecodable" not in good
    assert api.get(f"/api/queues/mail/items/{bad['id']}/").json() == bad


@pytest.mark.parametrize("end", ["min", "max"])
def test_a_corrupt_end_stops_pops_there(api: APIClient, queues: service.Catalog, end: str) -> None:
    """Pop and peek answer 409 with the item's id, and the item stays."""
    put(queues.queue("mail"), b"junk")
    (item,) = api.get("/api/queues/mail/items/").json()["items"]
    popped = api.post("/api/queues/mail/pop/", {"end": end})
    peeked = api.get(f"/api/queues/mail/peek/?end={end}")
    assert popped.status_code == peeked.status_code == 409
    assert popped.json() == peeked.json()
    assert popped.json()["code"] == "corrupt_item"
    assert popped.json()["id"] == item["id"]
    assert api.get("/api/queues/mail/items/").json()["items"] == [item]
