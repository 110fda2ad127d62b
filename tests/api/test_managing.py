"""Dead letters and removal: bury, redrive, remove and purge, and what is shown of the dead."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from fdbqueue import service
from fdbqueue.exceptions import DeadlineExceeded
from tests.api.test_errors import ITEM, check_shape
from tests.api.test_schema import check
from tests.cases import cases
from tests.commands.spoiling import spoil


@pytest.fixture
def mail(queues):
    """A queue of ten items."""
    queue = queues.queue("mail")
    queue.push_many(range(10))
    return queue


def kill(queue, *reasons):
    """Bury the first items, one for each reason; return their ids."""
    items = queue.peek_many(len(reasons))
    for item, reason in zip(items, reasons, strict=True):
        queue.bury(item.id, reason=reason)
    return [item.id for item in items]


def post(api, verb, **body):
    """Send a request to the queue, and return its answer, which is as the schema says."""
    name = verb.replace("-", "_")
    return check(f"queues_{name}", api.post(f"/api/queues/mail/{verb}/", body))


def test_what_became_of_an_item_is_shown(api, queues):
    """The worker that holds it; once it is dead, when it died and what each worker failed with."""
    tried = queues.queue("tried")
    tried.push("x")
    for number in (1, 2):
        (item,) = api.post("/api/queues/tried/lease/", {"worker": f"w{number}"}).json()["items"]
        assert (item["worker"], item["died_at"], "failures" in item) == (f"w{number}", None, False)
        held = check("queues_item", api.get(f"/api/queues/tried/items/{item['id']}/"))
        assert held["worker"] == f"w{number}"
        api.post("/api/queues/tried/nack/", {"lease": item["lease"], "reason": f"no {number}"})
    (dead,) = check("queues_items", api.get("/api/queues/tried/items/?state=dead"))["items"]
    assert dead["failures"] == [
        {"attempt": n, "at": dead["failures"][n - 1]["at"], "worker": f"w{n}", "reason": f"no {n}"}
        for n in (1, 2)
    ]
    assert dead["died_at"] >= dead["failures"][1]["at"] > dead["failures"][0]["at"]
    assert (dead["worker"], dead["until"], dead["reason"]) == (None, None, "no 2")
    assert api.get(f"/api/queues/tried/items/{dead['id']}/").json() == dead


@cases("worker", ["", "x" * 201, 3, None, "a\nb", "\u0000", ["w"]])
def test_a_bad_name_of_a_worker(api, mail, worker):
    """It is refused, and nothing is leased."""
    response = api.post("/api/queues/mail/lease/", {"worker": worker})
    check_shape(response, 400, "invalid_input")
    assert mail.counts().leased == 0


def test_the_reasons_of_dead_letters(api, mail):
    """The most frequent first, with the number of all dead letters."""
    url = "/api/queues/mail/dead-reasons/"
    assert check("queues_dead_reasons", api.get(url)) == {"reasons": [], "dead": 0}
    kill(mail, "a", "b\nmore", "<b>", "b", "a", "b")
    found = check("queues_dead_reasons", api.get(url))
    expected = [("b", 3), ("a", 2), ("<b>", 1)]
    assert [(one["reason"], one["count"]) for one in found["reasons"]] == expected
    found = check("queues_dead_reasons", api.get(f"{url}?limit=1"))
    assert found == {"reasons": [{"reason": "b", "count": 3}], "dead": 6}
    for query in ("limit=0", "limit=1001", "limit=x", "odd=1"):
        check_shape(api.get(f"{url}?{query}"), 400, "invalid_input")


def test_bury(api, mail):
    """A ready item alone; of any other the state is said, such as dead the second time."""
    item = mail.peek()
    assert item is not None
    assert post(api, "bury", id=item.id, reason="not ours") == {"buried": 1}
    assert mail.get(item.id).reason == "not ours"
    again = api.post("/api/queues/mail/bury/", {"id": item.id})
    check_shape(again, 409, "item_not_ready")
    assert again.json()["state"] == "dead"
    check_shape(api.post("/api/queues/mail/bury/", {"id": ITEM}), 404, "item_not_found")
    other = mail.peek()
    assert other is not None
    post(api, "bury", id=other.id)
    assert mail.get(other.id).reason == "buried"


def test_redrive(api, mail):
    """By ids, by a reason, up to a limit, or all."""

    def redrive(**asked):
        found = post(api, "redrive", **asked)
        assert found.pop("undecodable") == 0
        return found

    ids = kill(mail, "a", "b", "a", "b", "a", "c")
    assert redrive(ids=[ids[1], ITEM, ids[1]]) == {"redriven": 1, "more": False}
    assert redrive(reason="a", limit=2) == {"redriven": 2, "more": True}
    assert redrive(reason="a", limit=2) == {"redriven": 1, "more": False}
    assert redrive(reason="a\nlines behind do not count") == {
        "redriven": 0,
        "more": False,
    }
    assert redrive(ids=[], reason=None) == {"redriven": 0, "more": False}
    assert redrive(ids=None, reason=None) == {"redriven": 2, "more": False}
    assert mail.counts().dead == 0


def test_a_redrive_leaves_what_cannot_be_decoded(api, mail):
    """It would block the queue; the answer says how many there are."""
    ids = kill(mail, "a")
    spoil(mail, mail.get(ids[0]))
    found = post(api, "redrive", limit=5)
    assert (found, mail.counts().dead) == ({"redriven": 0, "undecodable": 1, "more": False}, 1)
    assert post(api, "redrive", ids=ids)["redriven"] == 1


def test_purge(api, mail):
    """A state at a time, in requests of a bounded length."""
    kill(mail, "a", "b", "c")
    assert post(api, "purge", state="dead", limit=2) == {"purged": 2, "more": True}
    assert post(api, "purge", state="dead", limit=2) == {"purged": 1, "more": False}
    assert mail.size() == 7
    assert post(api, "purge", state="ready") == {"purged": 7, "more": False}
    assert post(api, "purge", state="leased") == {"purged": 0, "more": False}


def test_purge_of_a_reason(api, mail):
    """Only the dead letters of the reason are removed, and null is all reasons."""
    kill(mail, "a", "a", "a", "b")
    assert post(api, "purge", state="dead", reason="a", limit=2) == {"purged": 2, "more": True}
    assert post(api, "purge", state="dead", reason="a") == {"purged": 1, "more": False}
    assert post(api, "purge", state="dead", reason="a") == {"purged": 0, "more": False}
    assert [item.reason for item in mail.page(state="dead").items] == ["b"]
    assert post(api, "purge", state="dead", reason=None) == {"purged": 1, "more": False}


@pytest.mark.parametrize(("verb", "body"), [("redrive", {}), ("purge", {"state": "dead"})])
def test_no_text_stands_for_all_reasons(api, mail, verb, body):
    """An empty reason is that of those without one, a line break is as stored, null is all."""
    kill(mail, "", "a", "boom\rmore", " ", "boom")
    done = {"redrive": "redriven", "purge": "purged"}[verb]
    if verb == "redrive":
        assert post(api, verb, ids=[])[done] == 0
    assert post(api, verb, **body, reason="")[done] == 2
    assert post(api, verb, **body, reason="boom\rmore")[done] == 1
    assert {item.reason for item in mail.page(state="dead").items} == {"a", "boom"}
    assert post(api, verb, **body, reason=None)[done] == 2


@pytest.mark.parametrize(("verb", "body"), [("redrive", {}), ("purge", {"state": "dead"})])
def test_a_request_whose_time_is_over_tells_what_was_done(api, queues, monkeypatch, verb, body):
    """After the first transaction; before it nothing was changed, and it is an error."""

    def stop(self, *args, **named):
        done = named.get("on_redriven") or named["on_removed"]
        if counts:
            done(counts.pop())
        raise DeadlineExceeded

    queues.queue("mail").push(1)
    counts = [7]
    name = {"redrive": "redrive", "purge": "clear_state"}[verb]
    monkeypatch.setattr(service.Queue, name, stop)
    found = post(api, verb, **body)
    found.pop("undecodable", 0)
    assert found == {f"{verb}n" if verb == "redrive" else "purged": 7, "more": True}
    response = api.post(f"/api/queues/mail/{verb}/", body)
    check_shape(response, 503, "deadline_exceeded")


def test_give_back(api, mail):
    """What a worker holds, up to a limit; or some by their ids, as they were."""
    mail.lease_many(3, worker="dead:1")
    (other,) = mail.lease_many(1, worker="alive:2")
    give_back = functools.partial(post, api, "give-back")
    assert give_back(worker="dead:1", limit=2) == {"given_back": 2, "more": True}
    assert give_back(worker="dead:1", limit=2) == {"given_back": 1, "more": False}
    assert give_back(ids=[]) == {"given_back": 0, "more": False}
    assert [item.attempts for item in mail.peek_many(4)] == [1, 1, 1, 0]
    assert give_back(ids=[other.id, ITEM], worker="dead:1")["given_back"] == 0
    assert give_back(ids=[other.id, ITEM], spend=False)["given_back"] == 1
    assert mail.get(other.id).attempts == 0
    lost = api.post("/api/queues/mail/ack/", {"lease": other.lease})
    check_shape(lost, 409, "lease_lost")


def test_run_now(api, mail):
    """By ids, up to a limit, or all."""
    later = [mail.push(number, delay=600) for number in range(4)]
    assert post(api, "run-now", ids=[later[2].id, ITEM]) == {"made_ready": 1, "more": False}
    assert post(api, "run-now", limit=1) == {"made_ready": 1, "more": True}
    assert post(api, "run-now") == {"made_ready": 2, "more": False}
    assert mail.counts().delayed == 0


def test_remove(api, mail):
    """An item in any state; the second time it is not found."""
    leased = mail.lease()
    (buried,) = kill(mail, "a")
    ready = mail.peek()
    assert leased is not None
    assert ready is not None
    for item_id in (leased.id, buried, ready.id):
        url = f"/api/queues/mail/items/{item_id}/"
        assert check("queues_remove", api.delete(url)) == {"removed": 1}
        check_shape(api.delete(url), 404, "item_not_found")
    assert mail.size() == 7
    check_shape(api.delete("/api/queues/mail/items/x/"), 400, "invalid_input")
    check_shape(api.delete(f"/api/queues/mail/items/{ready.id}/?odd=1"), 400, "invalid_input")
    lost = api.post("/api/queues/mail/ack/", {"lease": leased.lease})
    check_shape(lost, 409, "lease_lost")


BAD: list[tuple[str, Any]] = [
    ("bury", {}),
    ("bury", {"id": ""}),
    ("bury", {"id": "x"}),
    ("bury", {"id": 3}),
    ("bury", {"id": "AA", "reason": 3}),
    ("bury", {"id": "AA", "reason": "x" * 1_001}),
    ("bury", {"id": "AA", "odd": 1}),
    ("redrive", {"ids": "AA"}),
    ("redrive", {"ids": [""]}),
    ("redrive", {"ids": [None]}),
    ("redrive", {"ids": ["!"]}),
    ("redrive", {"ids": ["AA"] * 1_001}),
    ("redrive", {"reason": 3}),
    ("redrive", {"reason": "x" * 1_001}),
    ("redrive", {"limit": 0}),
    ("redrive", {"limit": 1_001}),
    ("redrive", {"limit": "1"}),
    ("redrive", {"state": "dead"}),
    ("redrive", []),
    ("give-back", {}),
    ("give-back", {"limit": 5}),
    ("give-back", {"ids": None}),
    ("give-back", {"worker": ""}),
    ("give-back", {"worker": "a\n"}),
    ("give-back", {"worker": "w" * 201}),
    ("give-back", {"worker": "a", "spend": "no"}),
    ("give-back", {"worker": "a", "leased_before": "2026-01-01"}),
    ("run-now", {"ids": ["!"]}),
    ("run-now", {"limit": 0}),
    ("run-now", {"spend": True}),
    ("purge", {}),
    ("purge", {"state": None}),
    ("purge", {"state": "all"}),
    ("purge", {"state": "dead", "limit": 0}),
    ("purge", {"state": "dead", "limit": 1_001}),
    ("purge", {"state": "dead", "reason": 3}),
    ("purge", {"state": "dead", "reason": "x" * 1_001}),
    ("purge", {"state": "ready", "reason": "a"}),
    ("purge", {"reason": "a"}),
]


@cases(("verb", "body"), BAD)
def test_bad_input(api, mail, verb, body):
    """It is refused, and nothing is changed."""
    mail.push("dies")
    kill(mail, "a")
    before = mail.counts()
    check_shape(api.post(f"/api/queues/mail/{verb}/", body), 400, "invalid_input")
    assert mail.counts() == before


def test_the_rest_of_the_permissions_is_not_enough(client_with, mail):
    """Who may only manage may not look, and nothing else may manage."""
    (buried,) = kill(mail, "a")
    url = f"/api/queues/mail/items/{buried}/"
    workers = client_with("view_queue", "push_queue", "pop_queue", "lease_queue")
    assert workers.delete(url).status_code == 403
    assert mail.counts().dead == 1
    manager = client_with("manage_queue")
    assert manager.get(url).status_code == 403
    assert manager.delete(url).status_code == 200
