"""Unique keys over REST: one item of a key, and what each user sees of it."""

from __future__ import annotations

import pytest

from tests.api.test_idempotency import contents
from tests.cases import cases

PUSH = "/api/queues/mail/push/"
QUEUES = ["mail", "jobs", "audit", "raw", "pairs"]
FORMS = {"one": lambda entry: entry, "many": lambda entry: {"items": [{"value": 0}, entry]}}
each_form = pytest.mark.parametrize("form", FORMS)


@pytest.mark.parametrize("unique_while", ["ready", "pending"])
@pytest.mark.parametrize("name", QUEUES)
def test_a_second_push_finds_the_item(api, name, unique_while):
    """201 with the pushed item, and then 200 with the same one, marked so."""
    body = {"value": "QQ==", "unique": "order-17", "unique_while": unique_while}
    first = api.post(f"/api/queues/{name}/push/", body)
    again = api.post(f"/api/queues/{name}/push/", {**body, "value": "Qg=="})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["existing"] is False
    assert again.json() == {**first.json(), "existing": True}
    (item,) = api.get(f"/api/queues/{name}/items/").json()["items"]
    assert first.json() == {**item, "existing": False}


def test_answers_of_requests_without_a_key(api):
    """They are as they were; one key among many items is enough."""
    assert "existing" not in api.post(PUSH, {"value": 1}).json()
    entries = [{"value": 1}, {"value": 2}]
    assert api.post(PUSH, {"items": entries}).json().keys() == {"pushed", "ids"}
    entries[1]["unique"] = "k"
    assert api.post(PUSH, {"items": entries}).json()["existing"] == []
    (item,) = api.post("/api/queues/mail/pop/", {}).json()["items"]
    assert "existing" not in item


def test_the_state_of_what_is_found(api):
    """A leased item is shown with its time, and without its token; pending keys outlast leases."""
    api.post(PUSH, {"value": 1, "unique": "k"})
    (leased,) = api.post("/api/queues/mail/lease/", {"seconds": 600}).json()["items"]
    found = api.post(PUSH, {"value": 2, "unique": "k"})
    assert found.status_code == 200
    assert found.json() == {**{k: leased[k] for k in leased if k != "lease"}, "existing": True}
    assert api.post("/api/queues/mail/ack/", {"lease": leased["lease"]}).json()["acked"] == 1
    assert api.post(PUSH, {"value": 3, "unique": "k"}).status_code == 201


@pytest.mark.parametrize("name", QUEUES)
def test_many(api, name):
    """201 with the ids of all, and the positions of those that were not pushed."""
    path = f"/api/queues/{name}/push/"
    there = api.post(path, {"value": "QQ==", "unique": "a"}).json()["id"]
    keys = ["b", "a", None, "b", "c"]
    entries = [{"value": "QQ==", **({"unique": key} if key else {})} for key in keys]
    response = api.post(path, {"items": entries})
    found = response.json()
    assert response.status_code == 201
    assert (found["pushed"], found["existing"]) == (3, [1, 3])
    assert found["ids"][1] == there
    assert found["ids"][3] == found["ids"][0]
    items = api.get(f"/api/queues/{name}/items/").json()["items"]
    assert [item["id"] for item in items] == [there, *(found["ids"][n] for n in (0, 2, 4))]
    again = api.post(path, {"items": entries[:2]})
    assert (again.status_code, again.json()["pushed"]) == (201, 0)
    assert again.json()["existing"] == [0, 1]


# Idempotency keys


@pytest.mark.parametrize("is_there", [False, True])
@each_form
@pytest.mark.parametrize("name", ["mail", "audit", "raw"])
def test_a_request_made_again(api, queues, name, form, is_there):
    """The answer is the same to the byte, even when the item has gone or another has the key."""
    path, body = f"/api/queues/{name}/", {"value": "QQ==", "unique": "k", "delay": 60}
    if is_there:
        api.post(f"{path}push/", {"value": "Qg==", "unique": "k"})
    many = FORMS[form]({**body})
    if form == "many":
        many["items"][0]["value"] = "QQ=="
    headers = {"Idempotency-Key": "key"}
    first = api.post(f"{path}push/", many, headers=headers)
    assert first.status_code == (200 if is_there and form == "one" else 201)
    queue = queues.queue(name)
    before = contents(queue)
    for change in (
        lambda: contents(queue),
        lambda: [queue.clear_state(state) for state in ("ready", "delayed")],
        lambda: api.post(f"{path}push/", body),
    ):
        change()
        again = api.post(f"{path}push/", many, headers=headers)
        assert (again.status_code, again.content) == (first.status_code, first.content)
        assert again["Idempotent-Replayed"] == "true"
    assert contents(queue) != before


# Who sees what


def test_who_may_not_view_sees_no_more_than_the_id(api, client_with):
    """A user who may only push does not read by pushing what others have pushed."""
    pushed = api.post(PUSH, {"value": "secret", "unique": "k"}).json()
    pusher = client_with("push_queue")
    for headers in ({}, {"Idempotency-Key": "key"}, {"Idempotency-Key": "key"}):
        found = pusher.post(PUSH, {"value": 1, "unique": "k"}, headers=headers)
        assert found.status_code == 200
        assert found.json() == {"id": pushed["id"], "existing": True}
    own = pusher.post(PUSH, {"value": 1, "unique": "l"})
    assert own.json()["value"] == 1
    many = pusher.post(PUSH, {"items": [{"value": 1, "unique": "k"}]})
    assert many.json() == {"pushed": 0, "ids": [pushed["id"]], "existing": [0]}


# Bad input

LONG = "Ensure this field has no more than 1000 bytes in UTF-8."
BAD = {
    "empty": ({"unique": ""}, "unique", "This field may not be blank."),
    "null": ({"unique": None}, "unique", "This field may not be null."),
    "number": ({"unique": 17}, "unique", "Not a valid string."),
    "list": ({"unique": ["k"]}, "unique", "Not a valid string."),
    "NUL": ({"unique": "a\0"}, "unique", "Null characters are not allowed."),
    "characters": ({"unique": "x" * 1_001}, "unique", LONG),
    "bytes": ({"unique": "é" * 501}, "unique", LONG),
    "while": (
        {"unique": "k", "unique_while": "leased"},
        "unique_while",
        '"leased" is not a valid choice.',
    ),
    "while of no key": ({"unique_while": 1}, "unique_while", '"1" is not a valid choice.'),
}


@each_form
@cases("bad", BAD)
def test_bad_keys(api, queues, bad, form):
    """Each is refused with the name of its field, and nothing is pushed."""
    fields, name, text = BAD[bad]
    response = api.post(PUSH, FORMS[form]({"value": 1, **fields}))
    assert response.status_code == 400
    assert response.json()["code"] == "invalid_input"
    path = name if form == "one" else f"items.1.{name}"
    assert response.json()["fields"] == {path: text}
    assert queues.queue("mail").size() == 0


@pytest.mark.parametrize("key", [" ", " a ", "x" * 1_000, "é" * 500, "🌋" * 250, "a\nb"])
def test_good_keys(api, key):
    """Up to 1,000 bytes of any text, which is not trimmed."""
    assert api.post(PUSH, {"value": 1, "unique": key}).status_code == 201
    assert api.post(PUSH, {"value": 1, "unique": key}).status_code == 200
    assert api.post(PUSH, {"value": 1, "unique": key.strip() or "-"}).status_code == (
        200 if key.strip() == key else 201
    )
