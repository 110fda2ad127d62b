"""Popping from either end."""

from __future__ import annotations

import pytest


def fill(api, priorities):
    """Push items whose values are their places in a list of priorities."""
    items = [{"value": place, "priority": each} for place, each in enumerate(priorities)]
    assert api.post("/api/queues/jobs/push/", {"items": items}).status_code == 201


def pop(api, name="jobs", **body):
    """Pop, and return the items' values."""
    response = api.post(f"/api/queues/{name}/pop/", body)
    assert response.status_code == 200
    assert response.json().keys() == {"items"}
    return [item["value"] for item in response.json()["items"]]


def test_pop_takes_one_from_the_min_end_by_default(api):
    """Without more, the earliest pushed of the lowest priority is taken."""
    fill(api, [5, 1, 1, 9])
    assert pop(api) == [1]
    assert pop(api) == [2]


def test_pop_from_the_max_end(api):
    """The max end gives the latest pushed of the highest priority."""
    fill(api, [5, 9, 9, 1])
    assert pop(api, end="max") == [2]
    assert pop(api, end="max", limit=2) == [1, 0]


def test_pop_more_than_there_are(api):
    """A pop of more items than there are takes all, and the queue is empty after."""
    fill(api, [3, 2, 1])
    assert pop(api, limit=1_000) == [2, 1, 0]
    assert pop(api) == []


def test_a_popped_item_is_the_pushed_item(api):
    """Push, peek, get and pop show an item alike."""
    pushed = api.post("/api/queues/quakes/push/", {"value": [1], "priority": 0.5}).json()
    peeked = api.get("/api/queues/quakes/peek/").json()["items"]
    got = api.get(f"/api/queues/quakes/items/{pushed['id']}/").json()
    popped = api.post("/api/queues/quakes/pop/", {}).json()["items"]
    assert [pushed] == peeked == [got] == popped


def test_pop_takes_no_query(api):
    """A limit in the address instead of the body is refused, and nothing is taken."""
    fill(api, [1])
    response = api.post("/api/queues/jobs/pop/?limit=5", {})
    assert response.status_code == 400
    assert response.json()["fields"] == {"limit": "Unknown key."}
    assert pop(api) == [0]


@pytest.fixture
def rated(queues, settings):
    """Queues with limits."""
    more = {
        "slow": {"kind": "fifo", "rate": "1/min", "burst": 1},
        "slower": {"kind": "fifo", "rate": "1/h", "burst": 1},
        "one": {"kind": "fifo", "max_leased": 1},
    }
    settings.FDBQUEUE = {**settings.FDBQUEUE, "QUEUES": {**settings.FDBQUEUE["QUEUES"], **more}}


@pytest.mark.parametrize("verb", ["pop", "lease"])
def test_a_queue_whose_rate_is_used_up_says_when_to_come_again(api, rated, verb):
    """In ``Retry-After``, alone or as one of several; an empty one says nothing."""
    for name in ("slow", "slower"):
        api.post(f"/api/queues/{name}/push/", {"items": [{"value": 1}, {"value": 2}]})
        answer = api.post(f"/api/queues/{name}/{verb}/", {})
        assert len(answer.json()["items"]) == 1
        assert "Retry-After" not in answer.headers
    answer = api.post(f"/api/queues/slow/{verb}/", {})
    assert answer.json() == {"items": []}
    assert 0 < int(answer.headers["Retry-After"]) <= 60
    for names, most in ((["slower", "slow"], 60), (["mail", "slower"], 3_600)):
        answer = api.post(f"/api/{verb}-from/", {"queues": names})
        assert answer.json() == {"queue": None, "items": []}
        assert most - 60 < int(answer.headers["Retry-After"]) <= most
    for names in (["mail"], ["mail", "user-*"]):
        answer = api.post(f"/api/{verb}-from/", {"queues": names})
        assert "Retry-After" not in answer.headers
    api.post("/api/queues/slow/purge/", {"state": "ready"})
    assert "Retry-After" not in api.post(f"/api/queues/slow/{verb}/", {}).headers


def test_a_queue_at_its_leases_says_nothing_of_when(api, rated):
    """One of them may end at any moment."""
    api.post("/api/queues/one/push/", {"items": [{"value": 1}, {"value": 2}]})
    api.post("/api/queues/one/lease/", {})
    answer = api.post("/api/queues/one/lease/", {})
    assert answer.json() == {"items": []}
    assert "Retry-After" not in answer.headers
