"""Pushing one item, and many."""

from __future__ import annotations

import datetime
import json

import pytest

from fdbqueue.service import Counts, clock
from tests.cases import cases

TAIPEI = datetime.timezone(datetime.timedelta(hours=8))

KEYS = {
    *("id", "priority", "value", "pushed_at", "attempts"),
    *("size", "state", "until", "reason", "died_at", "worker"),
}


def test_push_answers_with_the_item(api):
    """A push answers 201 with the item exactly as a page of the queue shows it."""
    response = api.post("/api/queues/quakes/push/", {"value": {"place": "Hualian"}, "priority": 6})
    item = response.json()
    assert response.status_code == 201
    assert item.keys() == KEYS
    assert (item["value"], item["priority"], item["attempts"]) == ({"place": "Hualian"}, 6.0, 0)
    assert api.get("/api/queues/quakes/items/").json()["items"] == [item]


def test_pushed_at_is_utc_in_iso_8601(api, settings):
    """The moment of the push is in UTC, whatever the host project's time zone."""
    settings.TIME_ZONE = "Asia/Taipei"
    before = datetime.datetime.now(datetime.timezone.utc)
    text = api.post("/api/queues/mail/push/", {"value": 1}).json()["pushed_at"]
    assert text.endswith("Z")
    moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    assert before <= moment <= datetime.datetime.now(datetime.timezone.utc)


def test_push_without_a_priority(api):
    """A priority queue's default is 0, and a FIFO queue has none."""
    assert api.post("/api/queues/jobs/push/", {"value": 1}).json()["priority"] == 0
    assert api.post("/api/queues/mail/push/", {"value": 1}).json()["priority"] is None


def test_a_fifo_item_can_be_pushed_as_it_was_shown(api):
    """A FIFO queue takes the priority null that it shows, one by one and many at once."""
    entry = {"value": 1, "priority": None}
    assert api.post("/api/queues/mail/push/", entry).status_code == 201
    assert api.post("/api/queues/mail/push/", {"items": [entry]}).status_code == 201


@pytest.mark.parametrize("name", ["jobs", "mail", "audit"])
def test_push_many(api, name):
    """Many items go in in their order, and the answer is their number and their ids."""
    entries = [{"value": number} for number in range(1_000)]
    response = api.post(f"/api/queues/{name}/push/", {"items": entries})
    assert response.status_code == 201
    assert response.json().keys() == {"pushed", "ids"}
    assert response.json()["pushed"] == 1_000
    items = api.post(f"/api/queues/{name}/pop/", {"limit": 1_000}).json()["items"]
    assert [item["value"] for item in items] == list(range(1_000))
    assert [item["id"] for item in items] == response.json()["ids"]


def test_push_many_with_priorities(api):
    """Each of many items has its own priority, 0 where it names none."""
    items = [{"value": "b", "priority": 2}, {"value": "a"}, {"value": "c", "priority": 3}]
    api.post("/api/queues/jobs/push/", {"items": items})
    items = api.get("/api/queues/jobs/items/").json()["items"]
    assert [(item["value"], item["priority"]) for item in items] == [("a", 0), ("b", 2), ("c", 3)]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({"value": 1, "priority": "high"}, "invalid_priority"),
        ({"value": "\ud800"}, "invalid_value"),
        ({"value": "x" * 100_001}, "value_too_large"),
    ],
)
def test_push_many_is_all_or_nothing(api, bad, code):
    """One item that does not fit is named by its index, and none is pushed."""
    entries = [{"value": 0}, {"value": 1}, bad, {"value": 3}]
    body = json.dumps({"items": entries})
    response = api.post("/api/queues/jobs/push/", body, content_type="application/json")
    assert response.json()["code"] == code
    assert response.json()["index"] == 2
    assert api.get("/api/queues/jobs/items/").json()["items"] == []


def test_push_many_over_the_limit_of_a_batch(api, allow, queues):
    """Items that are too large together are refused together, with 413."""
    allow(MAX_BODY_BYTES=20_000_000)
    entries = [{"value": "x" * 99_900}] * 51
    response = api.post("/api/queues/mail/push/", {"items": entries})
    assert response.status_code == 413
    assert response.json()["code"] == "batch_too_large"
    assert response.json()["limit_bytes"] == 5_000_000
    assert queues.queue("mail").peek() is None
    assert api.post("/api/queues/mail/push/", {"items": entries[1:]}).status_code == 201


def test_a_whole_body_of_items_is_one_batch(api, queues):
    """A body of the default limit is one push: a thousand items, 5 MB."""
    head, tail, one = '{"items":[', "]}", '{"value":"%s"}'
    room = (5_000_000 - len(head + tail)) // 1_000 - len(one % "" + ",")
    body = head + ",".join([one % ("x" * room)] * 1_000) + tail
    assert 4_999_000 < len(body) <= 5_000_000
    response = api.post("/api/queues/mail/push/", body, content_type="application/json")
    assert response.status_code == 201, response.content
    assert queues.queue("mail").size() == 1_000


@pytest.mark.parametrize("name", ["mail", "jobs", "audit", "raw", "pairs"])
def test_a_delayed_push(api, clock, name):
    """A delayed item says until when, is no part of pops, and is in its place after that."""
    late = api.post(f"/api/queues/{name}/push/", {"value": "bGF0ZQ==", "delay": 60.5})
    assert late.status_code == 201
    assert late.json()["state"] == "delayed"
    pushed_at = clock.time_ns() // 1_000
    assert microseconds(late.json()["until"]) == pushed_at + 60_500_000
    assert api.post(f"/api/queues/{name}/pop/", {}).json() == {"items": []}
    address = f"/api/queues/{name}/items/"
    assert api.get(f"{address}?state=delayed").json()["items"] == [late.json()]
    assert api.get(f"{address}{late.json()['id']}/").json() == late.json()
    clock.advance(61)
    (item,) = api.post(f"/api/queues/{name}/pop/", {}).json()["items"]
    assert item == {**late.json(), "state": "ready", "until": None}


def test_not_before(api, clock):
    """A moment with its offset hides an item until then; one that is past does nothing."""
    moment = datetime.datetime.fromtimestamp(clock.time_ns() // 1_000_000_000 + 90, TAIPEI)
    body = {"value": 1, "not_before": moment.isoformat()}
    pushed = api.post("/api/queues/mail/push/", body).json()
    assert (pushed["state"], pushed["until"]) == ("delayed", f"{utc(moment)}Z")
    past = {"value": 2, "not_before": "2001-01-01T00:00:00Z"}
    assert api.post("/api/queues/mail/push/", past).json()["state"] == "ready"
    assert api.post("/api/queues/mail/push/", {"value": 3, "delay": 0}).json()["until"] is None
    values = [each["value"] for each in api.get("/api/queues/mail/items/").json()["items"]]
    assert values == [2, 3]
    clock.advance(91)
    popped = api.post("/api/queues/mail/pop/", {"limit": 3}).json()["items"]
    assert [each["value"] for each in popped] == [1, 2, 3]


def test_each_of_many_has_its_own_delay(api, clock):
    """Delays and moments are each item's own, and they come in the order of their places."""
    moment = datetime.datetime.fromtimestamp(clock.time_ns() // 1_000_000_000 + 20, TAIPEI)
    entries = [
        {"value": "a", "delay": 30},
        {"value": "b"},
        {"value": "c", "not_before": moment.isoformat()},
        {"value": "d", "delay": 0},
    ]
    pushed = api.post("/api/queues/mail/push/", {"items": entries})
    assert pushed.status_code == 201
    seen = []
    for _ in range(3):
        items = api.post("/api/queues/mail/pop/", {"limit": 9}).json()["items"]
        seen.append([(item["value"], pushed.json()["ids"].index(item["id"])) for item in items])
        clock.advance(20)
    assert seen == [[("b", 1), ("d", 3)], [("c", 2)], [("a", 0)]]


@cases(
    "entry",
    [
        {"delay": -1},
        {"delay": "5"},
        {"delay": True},
        {"delay": None},
        {"delay": [1]},
        {"delay": 315_360_001},
        {"delay": 10**400},
        {"not_before": "2030-01-01T00:00:00"},
        {"not_before": "2030-01-01T00:00Z"},
        {"not_before": "2030-01-01 00:00:00Z"},
        {"not_before": "2030-01-01x00:00:00Z"},
        {"not_before": "20300101T000000Z"},
        {"not_before": "2030-W01-1T00:00:00Z"},
        {"not_before": "2030-001T00:00:00Z"},
        {"not_before": "2030-1-1T00:00:00Z"},
        {"not_before": "٢٠٣٠-01-01T00:00:00Z"},
        {"not_before": "2030-01-01T00:00:0\uff10Z"},
        {"not_before": "2030-01-01T00:00:00.१Z"},
        {"not_before": "2030-01-01T00:00:00,5Z"},
        {"not_before": "2030-01-01T00:00:00.Z"},
        {"not_before": "2030-01-01T00:00:00+0530"},
        {"not_before": "2030-01-01T00:00:00+05"},
        {"not_before": "2030-01-01T00:00:00+05:30:10"},
        {"not_before": "2030-01-01T00:00:00 +05:30"},
        {"not_before": "2030-01-01T00:00:00Z\n"},
        {"not_before": " 2030-01-01T00:00:00Z"},
        {"not_before": "2030-01-01T24:00:00Z"},
        {"not_before": "2030-02-30T00:00:00Z"},
        {"not_before": "tomorrow"},
        {"not_before": ""},
        {"not_before": None},
        {"not_before": 1_900_000_000},
        {"not_before": ["2030-01-01T00:00:00Z"]},
        {"not_before": "9999-12-31T23:59:59-23:00"},
        {"not_before": "9998-12-31T23:59:59Z"},
        {"delay": 1, "not_before": "2030-01-01T00:00:00Z"},
    ],
)
def test_bad_delays(api, queues, entry):
    """What is no delay or no moment with its offset is refused, alone and among others."""
    one = api.post("/api/queues/mail/push/", {"value": 1, **entry})
    many = api.post("/api/queues/mail/push/", {"items": [{"value": 1}, {"value": 2, **entry}]})
    for response in (one, many):
        assert (response.status_code, response.json()["code"]) == (400, "invalid_input")
    assert queues.queue("mail").counts() == Counts(ready=0, leased=0, delayed=0, dead=0)


@cases(
    ("text", "until"),
    [
        ("2030-01-31T08:30:00Z", "2030-01-31T08:30:00Z"),
        ("2030-01-31t08:30:00z", "2030-01-31T08:30:00Z"),
        ("2030-01-31T08:30:00+00:00", "2030-01-31T08:30:00Z"),
        ("2030-01-31T08:30:00-00:00", "2030-01-31T08:30:00Z"),
        ("2030-01-31T08:30:00.5+08:00", "2030-01-31T00:30:00.500000Z"),
        ("2030-01-31T23:59:59.999999-05:30", "2030-02-01T05:29:59.999999Z"),
        ("2030-01-31T08:30:00.1234567Z", "2030-01-31T08:30:00.123456Z"),
        ("2030-01-31T08:30:00.12345678901234567890Z", "2030-01-31T08:30:00.123456Z"),
    ],
)
def test_moments_as_rfc_3339_has_them(api, text, until):
    """Both letters may be small, and fractions of any length are cut at the microsecond."""
    pushed = api.post("/api/queues/mail/push/", {"value": 1, "not_before": text})
    assert (pushed.status_code, pushed.json()["until"]) == (201, until)


def microseconds(text):
    """Return the microseconds since the Unix epoch of a moment in an answer."""
    moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return clock.microseconds(moment)


def utc(moment):
    """Return a moment in UTC, without its offset."""
    return moment.astimezone(datetime.timezone.utc).replace(tzinfo=None).isoformat()


@pytest.mark.parametrize("name", ["mail", "jobs", "audit"])
def test_the_location_of_a_pushed_item(api, name):
    """201 says where the item is, and so does the replay; a push of many has no one place."""
    path, headers = f"/api/queues/{name}/push/", {"Idempotency-Key": "k"}
    pushed = [api.post(path, {"value": 1}, headers=headers) for _ in range(2)]
    assert [each.status_code for each in pushed] == [201, 201]
    place = pushed[0]["Location"]
    assert place == f"/api/queues/{name}/items/{pushed[0].json()['id']}/"
    assert pushed[1]["Location"] == place
    assert api.get(place).json() == pushed[0].json() == pushed[1].json()
    assert "Location" not in api.post(path, {"items": [{"value": 1}]})


def test_an_item_that_was_there_has_no_location(api):
    """Nothing was created: the response is 200."""
    path, body = "/api/queues/mail/push/", {"value": 1, "unique": "k"}
    assert "Location" in api.post(path, body)
    again = api.post(path, body)
    assert again.status_code == 200
    assert "Location" not in again
