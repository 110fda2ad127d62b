"""Errors as problem details (RFC 9457), for clients whose ``Accept`` names them.

    {"type": "https://.../rest-api.md#error-lease_lost", "title": "Lease lost", "status": 409,
     "detail": "The lease is not held any more...", "request_id": "...", "code": "lease_lost",
     "message": "The lease is not held any more...", "queue": "mail", "lease": "..."}

It is the error as :mod:`fdbqueue.api.errors` makes it, with the members of the RFC added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from fdbqueue.api import negotiation, request_ids
from fdbqueue.api.media import ProblemRenderer

#: What each problem's ``type`` begins with; the code follows.
TYPES = "https://github.com/fdbqueue/fdbqueue/blob/main/docs/rest-api.md#error-"


def prefer(request: Request, response: Response) -> None:
    """Make an error a problem, where the client prefers that to the form it would have."""
    renderer = request.accepted_renderer
    accept = negotiation.accept_of(request)
    if response.status_code < 400 or not negotiation.wants_problem(accept, renderer.media_type):
        return
    response.data = problem_of(response.data, response.status_code)
    response.accepted_renderer = ProblemRenderer()
    response.accepted_media_type = negotiation.PROBLEM


def problem_of(error: Mapping[str, Any], status: int) -> dict[str, Any]:
    """Return the problem for the JSON of an error; its context stays beside the RFC's members."""
    code = str(error["code"])
    return {
        **error,
        "type": f"{TYPES}{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "detail": error["message"],
        "request_id": request_ids.current(),
    }
