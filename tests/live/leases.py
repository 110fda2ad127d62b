"""A hook of schemathesis: it puts in what a schema cannot say.

Often a held lease, where a request needs one: else ``nack`` and ``extend`` would never succeed.
And a worker's name of printable characters, where that is all that is wrong with it.
"""

from __future__ import annotations

import os
import re
from typing import Any

import requests
import schemathesis

_TAKERS = {"queues_ack", "queues_nack", "queues_extend"}
_LEASERS = {"queues_lease", "queues_lease_from"}
_EVERY = 2
_QUEUE = "user-leases"
#: What a lease looks like; what does not is sent as it is, to be refused.
_LEASE = re.compile(r"[~A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")

_seen = 0


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Put a held lease or a printable name in."""
    operation = case.operation.definition.raw.get("operationId")
    if isinstance(case.body, dict) and operation in _LEASERS:
        _put_name(case.body)
    if isinstance(case.body, dict) and operation in _TAKERS:
        _put_lease(case)


def _put_name(body: dict[str, Any]) -> None:
    """Replace what cannot be printed, in a name that is none for no other reason."""
    worker = body.get("worker")
    if isinstance(worker, str) and "\0" not in worker:
        body["worker"] = "".join(one if one.isprintable() else "?" for one in worker)


def _put_lease(case: Any) -> None:
    """Lease an item, and make the request one for its lease and its queue."""
    global _seen  # noqa: PLW0603  # hooks are functions
    body = case.body
    token = body.get("lease")
    if not isinstance(token, str) or _LEASE.fullmatch(token) is None:
        return
    _seen += 1
    if _seen % _EVERY:
        return
    lease = _leased()
    if lease is not None:
        case.path_parameters["name"] = _QUEUE
        body["lease"] = lease


def _leased() -> str | None:
    """Push an item and lease it; None if the server had no time for that.

    The queue is one that no generated request names: those of the dictionary are paused, purged
    and emptied by them, whatever the seed.
    """
    queue = f"{os.environ['FDBQUEUE_TEST_API']}/{_QUEUE}"
    headers = {"Authorization": f"Token {os.environ['FDBQUEUE_TEST_TOKEN']}"}
    for verb, body in (("push", {"value": 1}), ("lease", {})):
        answer = requests.post(f"{queue}/{verb}/", json=body, headers=headers, timeout=60)
        if answer.status_code == requests.codes.service_unavailable:
            return None
        assert answer.ok, answer.text
    (item,) = answer.json()["items"]
    lease: str = item["lease"]
    return lease
