"""Leases: hide items, acknowledge them, give them up, let them last."""

from __future__ import annotations

import datetime

import pytest

from fdbqueue.service import Counts

NAMES = ["mail", "jobs", "audit", "raw", "pairs"]
GONE = Counts(ready=0, leased=0, delayed=0, dead=0)


def fill(api, name, count):
    """Push some items, and return their ids."""
    entries = [{"value": "AAAA"}] * count
    response = api.post(f"/api/queues/{name}/push/", {"items": entries})
    return response.json()["ids"]


def lease(api, name, **body):
    """Lease, and return the items."""
    response = api.post(f"/api/queues/{name}/lease/", body)
    assert response.status_code == 200, response.content
    assert response.json().keys() == {"items"}
    return response.json()["items"]


def moment(text):
    """Return the seconds since the Unix epoch of a moment in an answer."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def check_lost(response, name, token):
    """Check the answer to a lease that is not held any more."""
    assert response.status_code == 409
    assert "Retry-After" not in response
    assert response.json() == {
        "code": "lease_lost",
        "message": "The lease is not held any more: acknowledged, given up, or expired and "
        "requeued",
        "queue": name,
        "lease": token,
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_lease_hides_an_item_until_it_is_acknowledged(api, queues, name):
    """The item is not popped meanwhile, and is gone for good after the ack."""
    pushed = api.post(f"/api/queues/{name}/push/", {"value": "AAAA"}).json()
    (item,) = lease(api, name)
    assert {**item, "state": "ready", "until": None} == {**pushed, "lease": item["lease"]}
    assert item["state"] == "leased"
    assert api.post(f"/api/queues/{name}/pop/", {}).json() == {"items": []}
    done = api.post(f"/api/queues/{name}/ack/", {"lease": item["lease"]})
    assert (done.status_code, done.json()) == (200, {"acked": 1, "lost": 0, "lost_leases": []})
    assert queues.queue(name).counts() == GONE


def test_a_lease_takes_from_either_end_and_many_at_once(api):
    """End and limit are those of a pop; each item has a token of its own."""
    ids = fill(api, "jobs", 6)
    assert [item["id"] for item in lease(api, "jobs", end="max")] == [ids[5]]
    some = lease(api, "jobs", limit=3)
    assert [item["id"] for item in some] == ids[:3]
    assert len({item["lease"] for item in some}) == 3
    assert [item["id"] for item in lease(api, "jobs", limit=1_000)] == ids[3:5]


def test_a_lease_lasts_as_long_as_was_asked(api, clock):
    """The default is a minute; then the item is back, once tried, and the lease is lost."""
    fill(api, "mail", 2)
    now = clock.time_ns() / 1_000_000_000
    (short,), (long,) = lease(api, "mail"), lease(api, "mail", seconds=3_600.5)
    assert moment(short["until"]) == pytest.approx(now + 60, abs=0.001)
    assert moment(long["until"]) == pytest.approx(now + 3_600.5, abs=0.001)
    clock.advance(61)
    (again,) = api.post("/api/queues/mail/pop/", {"limit": 2}).json()["items"]
    assert (again["id"], again["attempts"]) == (short["id"], 1)
    for verb in ("ack", "nack", "extend"):
        response = api.post(f"/api/queues/mail/{verb}/", {"lease": short["lease"]})
        check_lost(response, "mail", short["lease"])


def test_ack_many(api, queues):
    """The answer counts those that are gone and those that were lost, each token once."""
    fill(api, "jobs", 5)
    tokens = [item["lease"] for item in lease(api, "jobs", limit=5)]
    address = "/api/queues/jobs/ack/"
    assert api.post(address, {"lease": tokens[0]}).status_code == 200
    body = {"leases": [*tokens[:3], tokens[1]]}
    lost = {"acked": 2, "lost": 1, "lost_leases": tokens[:1]}
    assert api.post(address, body).json() == lost
    lost = {"acked": 0, "lost": 3, "lost_leases": tokens[:3]}
    assert api.post(address, body).json() == lost
    assert queues.queue("jobs").counts() == Counts(ready=0, leased=2, delayed=0, dead=0)


def test_nack_many(api, queues, clock):
    """Those still held go back, hidden for the delay; the tokens of the others are named."""
    ids = fill(api, "mail", 4)
    tokens = [item["lease"] for item in lease(api, "mail", limit=3)]
    assert api.post("/api/queues/mail/ack/", {"lease": tokens[1]}).status_code == 200
    body = {"leases": [*tokens, tokens[0]], "delay": 30, "reason": "no connection"}
    response = api.post("/api/queues/mail/nack/", body)
    assert response.status_code == 200
    assert response.json() == {"nacked": 2, "lost": 1, "lost_leases": [tokens[1]]}
    assert queues.queue("mail").counts() == Counts(ready=1, leased=0, delayed=2, dead=0)
    clock.advance(31)
    popped = api.post("/api/queues/mail/pop/", {"limit": 9}).json()["items"]
    assert [(each["id"], each["attempts"]) for each in popped] == [
        (ids[0], 1),
        (ids[2], 1),
        (ids[3], 0),
    ]


def test_nack_of_many_that_die(api):
    """The reason is that of each dead letter."""
    fill(api, "tried", 3)
    for _ in range(2):
        tokens = [item["lease"] for item in lease(api, "tried", limit=3)]
        body = {"leases": tokens, "reason": "broken"}
        assert api.post("/api/queues/tried/nack/", body).json()["nacked"] == 3
    dead = api.get("/api/queues/tried/items/?state=dead").json()["items"]
    assert [item["reason"] for item in dead] == ["broken"] * 3


def test_extend_many(api, clock):
    """Those still held last for so long from now, a minute unless it says more."""
    fill(api, "mail", 3)
    tokens = [item["lease"] for item in lease(api, "mail", limit=3, seconds=100)]
    api.post("/api/queues/mail/nack/", {"lease": tokens[2]})
    for body, seconds in (({}, 60), ({"seconds": 200}, 200)):
        response = api.post("/api/queues/mail/extend/", {"leases": tokens, **body})
        assert response.json() == {"extended": 2, "lost": 1, "lost_leases": [tokens[2]]}
        leased = api.get("/api/queues/mail/items/?state=leased").json()["items"]
        for item in leased:
            until = moment(item["until"])
            assert until == pytest.approx(clock.time_ns() / 1e9 + seconds, abs=0.001)


@pytest.mark.parametrize("reason", [None, " 花蓮\n", "x" * 1_000])
def test_the_last_attempt_goes_to_the_dead_letters(api, reason):
    """A queue with max_attempts keeps what failed so often, and the reason as it was given."""
    (dead_id,) = fill(api, "tried", 1)
    for _ in range(2):
        (item,) = lease(api, "tried")
        body = {"lease": item["lease"], **({} if reason is None else {"reason": reason})}
        assert api.post("/api/queues/tried/nack/", body).json() == {
            "nacked": 1,
            "lost": 0,
            "lost_leases": [],
        }
    assert lease(api, "tried") == []
    (dead,) = api.get("/api/queues/tried/items/?state=dead").json()["items"]
    assert (dead["id"], dead["attempts"], dead["state"]) == (dead_id, 2, "dead")
    assert dead["reason"] == (reason or "given up")
    assert api.get(f"/api/queues/tried/items/{dead_id}/").json() == dead


def test_extend_lets_a_lease_run_from_now(api, clock):
    """The item is shown with its new time under the same token, which stays good."""
    fill(api, "mail", 1)
    (item,) = lease(api, "mail", seconds=60)
    clock.advance(50)
    response = api.post("/api/queues/mail/extend/", {"lease": item["lease"], "seconds": 100})
    assert response.status_code == 200
    extended = response.json()
    assert moment(extended["until"]) == pytest.approx(clock.time_ns() / 1e9 + 100, abs=0.001)
    assert {**extended, "until": None} == {**item, "until": None}
    clock.advance(90)
    assert api.post("/api/queues/mail/pop/", {}).json() == {"items": []}
    assert api.post("/api/queues/mail/ack/", {"lease": item["lease"]}).status_code == 200
    again = api.post("/api/queues/mail/extend/", {"lease": item["lease"]})
    check_lost(again, "mail", item["lease"])


def test_nobody_is_shown_a_token(api):
    """Looking at a leased item gives no right to it."""
    fill(api, "mail", 1)
    (item,) = lease(api, "mail")
    secret = item["lease"].rpartition(".")[2].encode()
    for path in (
        f"mail/items/{item['id']}/",
        "mail/items/?state=leased",
        "mail/items/",
        "mail/peek/",
        "mail/",
        "",
    ):
        response = api.get(f"/api/queues/{path}")
        assert response.status_code == 200
        assert secret not in response.content
        assert b'"lease"' not in response.content
