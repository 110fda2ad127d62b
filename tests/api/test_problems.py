"""Errors as problem details (RFC 9457), for clients whose Accept names them."""

from __future__ import annotations

import json
from typing import Any

from tests.api.test_errors import ITEM
from tests.cases import cases

PROBLEM = "application/problem+json"
#: A request, and the status and code of its error.
FAILURES: list[tuple[str, str, Any, int, str]] = [
    ("get", "/api/queues/nope/", None, 404, "queue_not_found"),
    ("get", f"/api/queues/mail/items/{ITEM}/", None, 404, "item_not_found"),
    ("get", "/api/queues/mail/items", None, 404, "address_not_found"),
    ("get", "/api/queues/mail/items/?limit=x", None, 400, "invalid_input"),
    ("put", "/api/queues/mail/", None, 405, "method_not_allowed"),
    ("post", "/api/queues/mail/push/", {}, 400, "invalid_input"),
    ("post", "/api/queues/mail/push/", {"value": "x" * 200_000}, 413, "value_too_large"),
    ("post", "/api/queues/jobs/push/", {"value": 1, "priority": "x"}, 400, "invalid_priority"),
]


@cases(("method", "path", "body", "status", "code"), FAILURES)
def test_an_error_as_a_problem(api, method, path, body, status, code):
    """It has the members of the RFC, and all that the plain form has."""
    plain = getattr(api, method)(path, body).json()
    response = getattr(api, method)(path, body, headers={"Accept": PROBLEM})
    assert (response.status_code, response["Content-Type"]) == (status, PROBLEM)
    problem = json.loads(response.content)
    assert plain["code"] == code
    assert {key: problem[key] for key in plain} == plain
    assert problem["type"].endswith(f"docs/rest-api.md#error-{code}")
    assert problem["title"] == code.replace("_", " ").capitalize()
    assert problem["status"] == status
    assert problem["detail"] == plain["message"]
    assert problem["request_id"] == response["X-Request-ID"]
    assert response["Cache-Control"] == "no-store"


@cases(
    ("accept", "expected"),
    [
        (PROBLEM, PROBLEM),
        (f"application/json, {PROBLEM}", PROBLEM),
        (f"{PROBLEM}, application/json;q=0.5", PROBLEM),
        (f"{PROBLEM};q=0.5, application/json", "application/json"),
        (f"{PROBLEM};q=0, application/json", "application/json"),
        (f"application/xml, {PROBLEM}", PROBLEM),
        (f"application/json;q=0, {PROBLEM}", PROBLEM),
        ("application/json", "application/json"),
        ("application/*", "application/json"),
        ("*/*", "application/json"),
        ("application/problem+xml, */*", "application/json"),
    ],
)
def test_who_gets_problems(api, accept, expected):
    """Clients that name the type and prefer nothing to it; their successes are JSON."""
    failed = api.get("/api/queues/nope/", headers={"Accept": accept})
    assert (failed.status_code, failed["Content-Type"]) == (404, expected)
    assert "Accept" in failed["Vary"]
    found = api.get("/api/queues/", headers={"Accept": accept})
    assert (found.status_code, found["Content-Type"]) == (200, "application/json")
