"""The examples in the OpenAPI schema: requests and a response for each operation."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample

from fdbqueue.exceptions import IdempotencyKeyReused, LeaseLost
from fdbqueue.service import QueueOptions

_ITEM = {
    "id": "IcAZmZmZmZmaFAGiw6bVvSlXcb2dMBh3QyQx9sA",
    "priority": 6.4,
    "value": {"id": "us1000chhc", "place": "22km NNE of Hualian, Taiwan"},
    "pushed_at": "2026-11-21T03:12:44.251094Z",
    "attempts": 0,
    "size": 94,
    "state": "ready",
    "until": None,
    "reason": None,
    "died_at": None,
    "worker": None,
}
_TOKEN = f"{_ITEM['id']}.jMQ2h9o1x4E"
_LEASED = {
    **_ITEM,
    "state": "leased",
    "until": "2026-11-21T03:14:02.118930Z",
    "worker": "mail1:4711",
    "lease": _TOKEN,
}
_QUEUE = {
    "name": "quakes",
    "kind": "priority",
    "codec": "json",
    "priority_type": "float",
    "counts": {"ready": 1706, "leased": 1, "delayed": 0, "dead": 0},
    "paused": None,
}
_PAUSE = {"since": "2026-11-21T03:10:00.530217Z", "reason": "deploying 2.4"}
_DEFAULTS = QueueOptions().shown("priority")
_OTHER_OPTIONS = {name: value for name, value in _DEFAULTS.items() if name not in _QUEUE}
_CURSOR = f"{_ITEM['id']}:w0dX3cW5rU9sA7bqJx1M4yZ2kT8nL6vE_hG-fPiQoCY"

#: For each operation: request bodies by what they do, and the response.
_OPERATIONS: dict[str, tuple[dict[str, Any], Any]] = {
    "queues_list": ({}, {"queues": [_QUEUE], "cursor": None}),
    "queues_retrieve": (
        {},
        {
            **_QUEUE,
            **_OTHER_OPTIONS,
            "oldest": _ITEM["pushed_at"],
            "first": _ITEM,
            "last": _ITEM,
        },
    ),
    "queues_pause": (
        {"With a reason": {"reason": _PAUSE["reason"]}, "Without one": {}},
        {"paused": _PAUSE},
    ),
    "queues_resume": ({"Always": {}}, {"resumed": True}),
    "queues_peek": ({}, {"items": [_ITEM]}),
    "queues_items": ({}, {"items": [_ITEM], "cursor": _CURSOR}),
    "queues_item": ({}, _ITEM),
    "queues_push": (
        {
            "One item": {"value": _ITEM["value"], "priority": 6.4},
            "One item, hidden for a minute": {"value": _ITEM["value"], "delay": 60},
            "One item, unless one with this key is pending": {
                "value": _ITEM["value"],
                "unique": "us1000chhc",
            },
            "Many items": {"items": [{"value": 1, "priority": 2.5}, {"value": 2}]},
        },
        _ITEM,
    ),
    "queues_pop": (
        {
            "The highest priority, waiting up to ten seconds": {"end": "max", "wait": 10},
            "Up to a hundred items": {"limit": 100},
        },
        {"items": [_ITEM]},
    ),
    "queues_lease": (
        {
            "For a minute": {"end": "max", "seconds": 60},
            "By a worker with a name": {"worker": "mail1:4711"},
        },
        {"items": [_LEASED]},
    ),
    "queues_pop_from": (
        {
            "The first that has an item": {"queues": ["urgent", "quakes"], "wait": 10},
            "In turns, by a pattern": {"queues": ["user-*"], "fair": True},
        },
        {"queue": "quakes", "items": [_ITEM]},
    ),
    "queues_lease_from": (
        {"For a minute": {"queues": ["urgent", "quakes"], "seconds": 60}},
        {"queue": "quakes", "items": [_LEASED]},
    ),
    "queues_ack": (
        {"One lease": {"lease": _TOKEN}, "Many leases": {"leases": [_TOKEN]}},
        {"acked": 1, "lost": 0, "lost_leases": []},
    ),
    "queues_nack": (
        {
            "Ready again in a minute": {"lease": _TOKEN, "delay": 60, "reason": "no connection"},
            "Many leases": {"leases": [_TOKEN]},
        },
        {"nacked": 0, "lost": 1, "lost_leases": [_TOKEN]},
    ),
    "queues_extend": (
        {
            "By five minutes": {"lease": _TOKEN, "seconds": 300},
            "Many leases": {"leases": [_TOKEN], "seconds": 300},
        },
        _LEASED,
    ),
    "queues_dead_reasons": (
        {},
        {"reasons": [{"reason": "ConnectionError: timed out", "count": 3}], "dead": 3},
    ),
    "queues_bury": (
        {"With a reason": {"id": _ITEM["id"], "reason": "not ours"}},
        {"buried": 1},
    ),
    "queues_remove": ({}, {"removed": 1}),
    "queues_redrive": (
        {
            "All": {},
            "Those of a reason": {"reason": "ConnectionError: timed out"},
            "By their ids": {"ids": [_ITEM["id"]]},
        },
        {"redriven": 3, "more": False},
    ),
    "queues_purge": (
        {
            "The dead letters": {"state": "dead"},
            "Those of a reason": {"state": "dead", "reason": "ConnectionError: timed out"},
        },
        {"purged": 3, "more": False},
    ),
}

#: Examples of errors that have more keys than the common ones.
_ERRORS: dict[int, dict[str, Any]] = {
    400: {
        "code": "invalid_input",
        "message": "The input is not valid; nothing was changed",
        "fields": {"items.3.value": "This field is required."},
    },
    409: {
        "code": "lease_lost",
        "message": str(LeaseLost()),
        "queue": "quakes",
        "lease": _TOKEN,
    },
    422: {
        "code": "idempotency_key_reused",
        "message": str(IdempotencyKeyReused()),
        "queue": "quakes",
    },
}


def of_operation(operation_id: str) -> list[OpenApiExample]:
    """Return the examples of an operation's bodies and of its response."""
    bodies, answer = _OPERATIONS[operation_id]
    answers = {"200": answer}
    if operation_id == "queues_push":
        answers = {"201": answer, "200": {**answer, "existing": True}}
    return [
        *(OpenApiExample(name, body, request_only=True) for name, body in bodies.items()),
        *(
            OpenApiExample("Response", found, response_only=True, status_codes=[status])
            for status, found in answers.items()
        ),
    ]


def of_error(status: int) -> list[OpenApiExample]:
    """Return the example of an error, if there is one."""
    found = _ERRORS.get(status)
    if found is None:
        return []
    return [
        OpenApiExample(str(found["code"]), found, response_only=True, status_codes=[str(status)])
    ]
