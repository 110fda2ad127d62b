"""The list of queues, and one queue."""

from __future__ import annotations

from fdb.subspace_impl import Subspace

from fdbqueue import service
from tests.cases import cases

NONE = {"ready": 0, "leased": 0, "delayed": 0, "dead": 0}


def row(name, kind, codec, priority_type):
    """Return what the list says of an empty queue."""
    return {
        "name": name,
        "kind": kind,
        "codec": codec,
        "priority_type": priority_type,
        "counts": NONE,
        "paused": None,
    }


def test_list_has_every_configured_queue(api):
    """The list names the configured queues in order, and how each is stored."""
    response = api.get("/api/queues/")
    assert response.status_code == 200
    assert response.json() == {
        "queues": [
            row("audit", "fifo", "json", None),
            row("jobs", "priority", "json", "int"),
            row("mail", "fifo", "json", None),
            row("pairs", "fifo", "tuple", None),
            row("quakes", "priority", "json", "float"),
            row("raw", "fifo", "bytes", None),
            row("tried", "fifo", "json", None),
        ],
        "cursor": None,
    }


def test_list_and_detail_count_the_items(api):
    """Both say how many items are in each state, each queue's own."""
    api.post("/api/queues/mail/push/", {"items": [{"value": 1}] * 5})
    api.post("/api/queues/mail/push/", {"value": 1, "delay": 60})
    api.post("/api/queues/mail/lease/", {"limit": 2})
    for _ in range(2):
        api.post("/api/queues/tried/push/", {"value": 1})
        (lease,) = api.post("/api/queues/tried/lease/", {"end": "max"}).json()["items"]
        for _ in range(2):
            api.post("/api/queues/tried/nack/", {"lease": lease["lease"]})
            (lease,) = api.post("/api/queues/tried/lease/", {}).json()["items"] or [lease]
    listed = {queue["name"]: queue for queue in api.get("/api/queues/").json()["queues"]}
    assert listed["mail"]["counts"] == {"ready": 3, "leased": 2, "delayed": 1, "dead": 0}
    assert listed["tried"]["counts"] == {"ready": 0, "leased": 0, "delayed": 0, "dead": 2}
    assert listed["jobs"]["counts"] == NONE
    for name in ("mail", "tried", "jobs"):
        assert api.get(f"/api/queues/{name}/").json()["counts"] == listed[name]["counts"]


def test_list_comes_a_page_at_a_time(api):
    """A page has as many queues as asked for, and says where the next one starts."""
    api.post("/api/queues/user-7/push/", {"value": 1})
    everything = [queue["name"] for queue in api.get("/api/queues/").json()["queues"]]
    assert "user-7" in everything
    for limit in (1, 2, 8, 9):
        found, address = [], f"/api/queues/?limit={limit}"
        page = api.get(address).json()
        while page["cursor"] is not None:
            assert len(page["queues"]) == limit
            found += [queue["name"] for queue in page["queues"]]
            page = api.get(f"{address}&cursor={page['cursor']}").json()
        found += [queue["name"] for queue in page["queues"]]
        assert found == everything
    assert len(everything) == 8


@cases(
    "query",
    ["limit=0", "limit=1001", "limit=x", "after=mail", "cursor=", "cursor=mail", "cursor=mail:x"],
)
def test_bad_query_of_the_list(api, query):
    """A limit that is none, a name for a cursor and what is unknown are refused."""
    response = api.get(f"/api/queues/?{query}")
    assert (response.status_code, response.json()["code"]) == (400, "invalid_input")
    assert list(response.json()["fields"]) == [query.partition("=")[0]]


def test_detail_of_an_empty_queue(api):
    """An empty queue has no first and no last item."""
    response = api.get("/api/queues/mail/")
    assert response.status_code == 200
    assert response.json() == {
        "name": "mail",
        "kind": "fifo",
        "codec": "json",
        "priority_type": None,
        "counts": NONE,
        "paused": None,
        "order": "count",
        "shards": None,
        "choices": None,
        "handoff_timeout_seconds": 30,
        "max_attempts": 20,
        "max_value_bytes": 100_000,
        "max_leased": None,
        "rate": None,
        "burst": None,
        "attention_seconds": 600,
        "oldest": None,
        "first": None,
        "last": None,
    }
    assert api.get("/api/queues/audit/").json()["order"] == "commit"
    assert api.get("/api/queues/tried/").json()["max_attempts"] == 2


def test_detail_shows_both_ends(api):
    """The first and the last item are those that pops from either end would take."""
    items = [{"value": name, "priority": place} for place, name in enumerate("abc")]
    api.post("/api/queues/jobs/push/", {"items": items})
    detail = api.get("/api/queues/jobs/").json()
    assert detail["first"]["value"] == "a"
    assert detail["last"]["value"] == "c"
    assert detail["oldest"] == detail["first"]["pushed_at"]
    assert [detail["last"]] == api.post("/api/queues/jobs/pop/", {"end": "max"}).json()["items"]


def test_detail_shows_an_end_that_cannot_be_decoded(api, queues):
    """A queue whose first item is corrupt can be looked at all the same."""
    put(queues.queue("mail"), b"junk")
    detail = api.get("/api/queues/mail/")
    assert detail.status_code == 200
    assert detail.json()["first"]["undecodable"]["base64"] == "anVuaw=="


def test_names_with_dots_and_dashes(api):
    """Dots and dashes in a name are part of it, whatever they look like."""
    for name in ("user-7.x", "user-a.json", "user-_.-"):
        pushed = api.post(f"/api/queues/{name}/push/", {"value": name})
        assert pushed.status_code == 201
        assert api.get(f"/api/queues/{name}/").json()["name"] == name
        assert api.post(f"/api/queues/{name}/pop/", {}).json()["items"] == [pushed.json()]


def put(queue, data, index=1):
    """Write bytes in the place of an item of a FIFO queue."""
    subspace = queue.subspace
    assert isinstance(subspace, Subspace)
    key = subspace.pack((index, b"\x01" * 20))
    service.run(queue.database, lambda tr: tr.set(key, data))
