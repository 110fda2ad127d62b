"""A hook of schemathesis that often fills in a held lease, where a request needs one.

A schema cannot say which texts are leases, so ``nack`` and ``extend`` would never succeed.
"""

from __future__ import annotations

import os
import re
from typing import Any

import requests
import schemathesis

_TAKERS = {"queues_ack", "queues_nack", "queues_extend"}
_EVERY = 2
#: What a lease looks like; what does not is sent as it is, to be refused.
_LEASE = re.compile(r"[~A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")

_seen = 0


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Lease an item of the queue that the request is for, and put its lease in."""
    global _seen  # noqa: PLW0603  # hooks are functions
    body = case.body
    token = body.get("lease") if isinstance(body, dict) else None
    is_about_lease = isinstance(token, str) and _LEASE.fullmatch(token) is not None
    if case.operation.definition.raw.get("operationId") not in _TAKERS or not is_about_lease:
        return
    _seen += 1
    if _seen % _EVERY:
        return
    base = os.environ["FDBQUEUE_TEST_API"]
    headers = {"Authorization": f"Token {os.environ['FDBQUEUE_TEST_TOKEN']}"}
    requests.post(f"{base}/quakes/push/", json={"value": 1}, headers=headers, timeout=60)
    answer = requests.post(f"{base}/quakes/lease/", json={}, headers=headers, timeout=60)
    for item in answer.json()["items"]:
        case.path_parameters["name"] = "quakes"
        body["lease"] = item["lease"]
