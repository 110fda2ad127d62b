"""Pushing one item, and many."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from rest_framework.test import APIClient

from fdbqueue import service

KEYS = {"id", "priority", "value", "pushed_at", "attempts"}


def test_push_answers_with_the_item(api: APIClient) -> None:
    """A push answers 201 with the item exactly as a page of the queue shows it."""
    response = api.post("/api/queues/quakes/push/", {"value": {"place": "Hualian"}, "priority": 6})
    item = response.json()
    assert response.status_code == 201
    assert item.keys() == KEYS
    assert (item["value"], item["priority"], item["attempts"]) == ({"place": "Hualian"}, 6.0, 0)
    assert api.get("/api/queues/quakes/items/").json()["items"] == [item]


def test_pushed_at_is_utc_in_iso_8601(api: APIClient, settings: Any) -> None:
    """The moment of the push is in UTC, whatever the host project's time zone."""
    settings.TIME_ZONE = "Asia/Taipei"
    before = datetime.datetime.now(datetime.timezone.utc)
    text = api.post("/api/queues/mail/push/", {"value": 1}).json()["pushed_at"]
    assert text.endswith("Z")
    moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    assert before <= moment <= datetime.datetime.now(datetime.timezone.utc)


def test_push_without_a_priority(api: APIClient) -> None:
    """A priority queue's default is 0, and a FIFO queue has none."""
    assert api.post("/api/queues/jobs/push/", {"value": 1}).json()["priority"] == 0
    assert api.post("/api/queues/mail/push/", {"value": 1}).json()["priority"] is None


def test_a_fifo_item_can_be_pushed_as_it_was_shown(api: APIClient) -> None:
    """A FIFO queue takes the priority null that it shows, one by one and many at once."""
    entry = {"value": 1, "priority": None}
    assert api.post("/api/queues/mail/push/", entry).status_code == 201
    assert api.post("/api/queues/mail/push/", {"items": [entry]}).status_code == 201


@pytest.mark.parametrize("name", ["jobs", "mail"])
def test_push_many(api: APIClient, name: str) -> None:
    """Many items go in in their order, and the answer is their number."""
    entries = [{"value": number} for number in range(1_000)]
    response = api.post(f"/api/queues/{name}/push/", {"items": entries})
    assert response.status_code == 201
    assert response.json() == {"pushed": 1_000}
    items = api.post(f"/api/queues/{name}/pop/", {"limit": 1_000}).json()["items"]
    assert [item["value"] for item in items] == list(range(1_000))


def test_push_many_with_priorities(api: APIClient) -> None:
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
def test_push_many_is_all_or_nothing(api: APIClient, bad: dict[str, Any], code: str) -> None:
    """One item that does not fit is named by its index, and none is pushed."""
    entries = [{"value": 0}, {"value": 1}, bad, {"value": 3}]
    body = json.dumps({"items": entries})
    response = api.post("/api/queues/jobs/push/", body, content_type="application/json")
    assert response.json()["code"] == code
    assert response.json()["index"] == 2
    assert api.get("/api/queues/jobs/items/").json()["items"] == []


def test_push_many_refuses_a_priority_in_a_fifo_queue(api: APIClient) -> None:
    """A FIFO queue refuses a priority among many items as it does for one."""
    one = api.post("/api/queues/mail/push/", {"value": 1, "priority": 1})
    many = api.post("/api/queues/mail/push/", {"items": [{"value": 1, "priority": 1}]})
    assert one.status_code == many.status_code == 400
    assert many.json() == {**one.json(), "index": 0}


def test_push_many_over_the_limit_of_a_transaction(
    api: APIClient, settings: Any, queues: service.Catalog
) -> None:
    """Items that no transaction can hold are refused together, with 413."""
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = None
    entries = [{"value": "x" * 99_900}] * 110
    response = api.post("/api/queues/mail/push/", {"items": entries})
    assert response.status_code == 413
    assert response.json()["code"] == "transaction_too_large"
    assert queues.queue("mail").peek() is None
