"""The list of queues, and one queue."""

from __future__ import annotations

from typing import Any

from fdb.subspace_impl import Subspace
from rest_framework.test import APIClient

from fdbqueue import service


def test_list_has_every_configured_queue(api: APIClient) -> None:
    """The list names the configured queues in order, and how each is stored."""
    response = api.get("/api/queues/")
    assert response.status_code == 200
    assert response.json() == {
        "queues": [
            {"name": "jobs", "kind": "priority", "codec": "json", "priority_type": "int"},
            {"name": "mail", "kind": "fifo", "codec": "json", "priority_type": None},
            {"name": "pairs", "kind": "fifo", "codec": "tuple", "priority_type": None},
            {"name": "quakes", "kind": "priority", "codec": "json", "priority_type": "float"},
            {"name": "raw", "kind": "fifo", "codec": "bytes", "priority_type": None},
        ],
        "next": None,
    }


def test_list_comes_a_page_at_a_time(api: APIClient) -> None:
    """A page has as many queues as asked for, and says where the next one starts."""
    everything = [queue["name"] for queue in api.get("/api/queues/").json()["queues"]]
    found, after = [], ""
    while after is not None:
        page = api.get(f"/api/queues/?limit=2&after={after}").json()
        found += [queue["name"] for queue in page["queues"]]
        after = page["next"]
    assert found == everything
    for query in ("limit=0", "limit=1001", "limit=x", "after=" + "a" * 101, "cursor=a"):
        assert api.get(f"/api/queues/?{query}").status_code == 400


def test_list_has_queues_of_a_pattern_once_pushed_to(api: APIClient) -> None:
    """A queue named by a pattern is listed when something is in it."""
    api.post("/api/queues/user-7.x/push/", {"value": 1})
    names = [queue["name"] for queue in api.get("/api/queues/").json()["queues"]]
    assert "user-7.x" in names
    assert "user-8.x" not in names


def test_detail_of_an_empty_queue(api: APIClient) -> None:
    """An empty queue has no first and no last item."""
    response = api.get("/api/queues/mail/")
    assert response.status_code == 200
    assert response.json() == {
        "name": "mail",
        "kind": "fifo",
        "codec": "json",
        "priority_type": None,
        "first": None,
        "last": None,
    }


def test_detail_shows_both_ends(api: APIClient) -> None:
    """The first and the last item are those that pops from either end would take."""
    items = [{"value": name, "priority": place} for place, name in enumerate("abc")]
    api.post("/api/queues/jobs/push/", {"items": items})
    detail = api.get("/api/queues/jobs/").json()
    assert detail["first"]["value"] == "a"
    assert detail["last"]["value"] == "c"
    assert [detail["last"]] == api.post("/api/queues/jobs/pop/", {"end": "max"}).json()["items"]


def test_detail_shows_an_end_that_cannot_be_decoded(
    api: APIClient, queues: service.Catalog
) -> None:
    """A queue whose first item is corrupt can be looked at all the same."""
    put(queues.queue("mail"), b"junk")
    detail = api.get("/api/queues/mail/")
    assert detail.status_code == 200
    assert detail.json()["first"]["undecodable"]["base64"] == "anVuaw=="


def test_names_with_dots_and_dashes(api: APIClient) -> None:
    """Dots and dashes in a name are part of it, whatever they look like."""
    for name in ("user-7.x", "user-a.json", "user-_.-"):
        pushed = api.post(f"/api/queues/{name}/push/", {"value": name})
        assert pushed.status_code == 201
        assert api.get(f"/api/queues/{name}/").json()["name"] == name
        assert api.post(f"/api/queues/{name}/pop/", {}).json()["items"] == [pushed.json()]


def put(queue: service.Queue, data: bytes, index: int = 1) -> None:
    """Write bytes in the place of an item of a FIFO queue."""
    subspace: Any = queue.subspace
    assert isinstance(subspace, Subspace)
    key = subspace.pack((index, b"\x01" * 20))
    service.run(queue.database, lambda tr: tr.set(key, data))
