"""Bad input: refused with a code, and nothing changed."""

from __future__ import annotations

import json

import pytest

from tests.cases import cases

#: What is posted, as text, and the status and code it gets.
BAD_PUSHES = {
    "NaN": ('{"value": NaN}', 400, "parse_error"),
    "Infinity": ('{"value": [Infinity]}', 400, "parse_error"),
    "-Infinity": ('{"value": 1, "priority": -Infinity}', 400, "parse_error"),
    "beyond a float": ('{"value": 1e999}', 400, "invalid_value"),
    "beyond 4,300 digits": ('{"value": 1' + "0" * 4_300 + "}", 400, "parse_error"),
    "malformed": ('{"value": 1', 400, "parse_error"),
    "trailing text": ('{"value": 1} x', 400, "parse_error"),
    "empty": ("", 400, "parse_error"),
    "blank": (" ", 400, "parse_error"),
    "too deep": ('{"value": ' + "[" * 201 + "]" * 201 + "}", 400, "invalid_value"),
    "deepest": ('{"value": ' + "[" * 249 + "]" * 249 + "}", 400, "invalid_value"),
    "deeper": ('{"value": ' + "[" * 250 + "]" * 250 + "}", 400, "parse_error"),
    "far too deep": ("[" * 100_000, 400, "parse_error"),
    "not UTF-8": (b'{"value": "\xff"}', 400, "parse_error"),
    "no object": ("[1]", 400, "invalid_input"),
    "null": ("null", 400, "invalid_input"),
    "text": ('"value"', 400, "invalid_input"),
    "missing value": ('{"priority": 1}', 400, "invalid_input"),
    "unknown key": ('{"value": 1, "colour": 5}', 400, "invalid_input"),
    "items and value": ('{"items": [{"value": 1}], "value": 1}', 400, "invalid_input"),
    "items empty": ('{"items": []}', 400, "invalid_input"),
    "items null": ('{"items": null}', 400, "invalid_input"),
    "items no list": ('{"items": {"value": 1}}', 400, "invalid_input"),
    "items too many": (json.dumps({"items": [{"value": 1}] * 1_001}), 400, "invalid_input"),
    "item no object": ('{"items": [{"value": 1}, 2]}', 400, "invalid_input"),
    "item without value": ('{"items": [{"value": 1}, {}]}', 400, "invalid_input"),
    "item with unknown key": ('{"items": [{"value": 1, "x": 2}]}', 400, "invalid_input"),
    "priority true": ('{"value": 1, "priority": true}', 400, "invalid_priority"),
    "priority text": ('{"value": 1, "priority": "1"}', 400, "invalid_priority"),
    "priority null": ('{"value": 1, "priority": null}', 400, "invalid_priority"),
    "priority list": ('{"value": 1, "priority": [1]}', 400, "invalid_priority"),
    "priority fraction": ('{"value": 1, "priority": 1.5}', 400, "invalid_priority"),
    "priority of 65 bits": (
        '{"value": 1, "priority": 9223372036854775808}',
        400,
        "invalid_priority",
    ),
    "half a surrogate pair": (r'{"value": "\ud800"}', 400, "invalid_value"),
    "surrogate as key": (r'{"value": 1, "\ud800": 1}', 400, "invalid_input"),
    "too long": (json.dumps({"value": "x" * 100_000}), 413, "value_too_large"),
    "body too long": (json.dumps({"value": "x" * 5_000_000}), 413, "body_too_large"),
}


@cases(("body", "status", "code"), BAD_PUSHES.values())
def test_bad_push(api, queues, body, status, code):
    """A push that is not acceptable is refused with its code, and pushes nothing."""
    response = api.post("/api/queues/jobs/push/", body, content_type="application/json")
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert queues.queue("jobs").peek() is None


def test_what_is_wrong_is_named(api):
    """The fields say where each thing is wrong, and what."""
    body = {"items": [{"value": 1}, {"priority": 1}, 3, {"value": 1, "colour": 2}]}
    response = api.post("/api/queues/jobs/push/", body)
    assert response.json() == {
        "code": "invalid_input",
        "message": "The input is not valid; nothing was changed",
        "fields": {
            "items.1.value": "This field is required.",
            "items.2": "A JSON object is required.",
            "items.3.colour": "Unknown key.",
        },
    }


def test_long_input_is_not_echoed(api):
    """A response to bad input stays short, however much was wrong."""
    many = api.post("/api/queues/jobs/push/", {"items": [{"x" * 1_000: 1}] * 1_000})
    long = api.post("/api/queues/jobs/push/", {"value": 1, "priority": "9" * 10_000})
    assert many.status_code == long.status_code == 400
    assert len(many.content) < 20_000
    assert len(long.content) < 1_000


@cases(
    "body",
    [
        {"limit": 0},
        {"limit": 1_001},
        {"limit": -1},
        {"limit": "x"},
        {"limit": "5"},
        {"limit": 5.0},
        {"limit": True},
        {"limit": None},
        {"limit": 10**30},
        {"end": "middle"},
        {"end": ""},
        {"end": None},
        {"end": ["min"]},
        {"count": 5},
        {"wait": -0.1},
        {"wait": 20.1},
        {"wait": "1"},
        {"wait": True},
        {"wait": None},
        {"wait": 10**400},
        {"seconds": 60},
        [],
    ],
)
def test_bad_pop(api, body):
    """A pop that is not acceptable is refused and takes nothing."""
    api.post("/api/queues/mail/push/", {"value": "kept"})
    before = api.get("/api/queues/mail/items/").json()["items"]
    assert before
    response = api.post("/api/queues/mail/pop/", body)
    assert response.status_code == 400
    assert response.json()["code"] == "invalid_input"
    assert response.json()["fields"]
    assert api.get("/api/queues/mail/items/").json()["items"] == before


@cases(
    ("path", "body"),
    [
        ("lease/", {"seconds": -1}),
        ("lease/", {"seconds": 315_360_001}),
        ("lease/", {"seconds": "60"}),
        ("lease/", {"seconds": None}),
        ("lease/", {"seconds": True}),
        ("lease/", {"limit": 0}),
        ("lease/", {"end": "middle"}),
        ("lease/", {"delay": 1}),
        ("ack/", {}),
        ("ack/", {"lease": None}),
        ("ack/", {"lease": ""}),
        ("ack/", {"lease": 5}),
        ("ack/", {"lease": ["x"]}),
        ("ack/", {"lease": "x" * 20_001}),
        ("ack/", {"lease": "a\x00.b"}),
        ("ack/", {"lease": "x", "leases": ["x"]}),
        ("ack/", {"leases": []}),
        ("ack/", {"leases": None}),
        ("ack/", {"leases": "x"}),
        ("ack/", {"leases": {"0": "x"}}),
        ("ack/", {"leases": [5]}),
        ("ack/", {"leases": ["x"] * 1_001}),
        ("ack/", []),
        ("nack/", {}),
        ("nack/", {"lease": "x", "delay": -1}),
        ("nack/", {"lease": "x", "delay": "1"}),
        ("nack/", {"lease": "x", "reason": None}),
        ("nack/", {"lease": "x", "reason": 5}),
        ("nack/", {"lease": "x", "reason": "x" * 1_001}),
        ("nack/", {"lease": "x", "seconds": 5}),
        ("nack/", {"leases": []}),
        ("nack/", {"leases": ["x"], "lease": "x"}),
        ("nack/", {"leases": ["x"], "reason": "\0"}),
        ("nack/", {"lease": "\0"}),
        ("extend/", {"leases": ["x"] * 1_001}),
        ("extend/", {"leases": ["x"], "delay": 5}),
        ("extend/", {}),
        ("extend/", {"lease": "x", "seconds": -1}),
        ("extend/", {"lease": "x", "seconds": None}),
        ("extend/", {"lease": "x", "delay": 5}),
        ("extend/", "x"),
    ],
)
def test_bad_leasing(api, path, body):
    """A lease, ack, nack or extend that is not acceptable is refused, and says where."""
    response = api.post(f"/api/queues/mail/{path}", body)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_input")
    assert response.json()["fields"]


@cases(
    "query",
    [
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=",
        "limit=1_0",
        "limit=%D9%A5",
        "limit=+5",
        "limit=1&limit=2",
        "end=middle",
        "end=",
        "page=2",
        "cursor=",
    ],
)
@cases("action", ["peek", "items"])
def test_bad_query(api, action, query):
    """A query that is not acceptable is refused."""
    response = api.get(f"/api/queues/jobs/{action}/?{query}")
    assert response.status_code == 400
    assert response.json()["code"] == "invalid_input"
    assert list(response.json()["fields"]) == [query.partition("=")[0]]


@pytest.mark.parametrize("path", ["jobs/", "jobs/items/FQEB/"])
def test_addresses_without_a_query(api, path):
    """An address that takes no query refuses one."""
    response = api.get(f"/api/queues/{path}?limit=5")
    assert response.status_code == 400
    assert response.json()["fields"] == {"limit": "Unknown key."}


@cases(
    ("name", "query", "code"),
    [
        ("jobs", "min_priority=x", "invalid_input"),
        ("jobs", "min_priority=", "invalid_input"),
        ("jobs", "min_priority=true", "invalid_input"),
        ("quakes", "min_priority=nan", "invalid_input"),
        ("quakes", "max_priority=inf", "invalid_input"),
        ("quakes", "max_priority=1e999", "invalid_priority"),
        ("jobs", "min_priority=1.5", "invalid_priority"),
        ("jobs", "max_priority=9223372036854775808", "invalid_priority"),
        ("mail", "min_priority=1", "invalid_priority"),
    ],
)
def test_bad_bounds(api, name, query, code):
    """A bound must be a number that fits the queue's priorities."""
    response = api.get(f"/api/queues/{name}/items/?{query}")
    assert (response.status_code, response.json()["code"]) == (400, code)


@cases("cursor", ["!", "AAA=A", "%00", "é", "=", "A", "_w"])
def test_bad_cursor(api, cursor):
    """A cursor that is none is refused; the same goes for an item's id."""
    page = api.get(f"/api/queues/jobs/items/?cursor={cursor}")
    item = api.get(f"/api/queues/jobs/items/{cursor}/")
    assert page.status_code == item.status_code == 400
    assert page.json()["code"] == item.json()["code"]
