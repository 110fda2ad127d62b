"""What the OpenAPI schema says of each operation: its parameters, headers, responses and errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from fdbqueue.api import error_outputs, examples
from fdbqueue.api.negotiation import JSON, PROBLEM
from fdbqueue.api.pagination import MAX_CURSOR_CHARACTERS

NAME = OpenApiParameter(
    "name", OpenApiTypes.STR, OpenApiParameter.PATH, description="The queue's name."
)
ID = OpenApiParameter(
    "id",
    {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_CURSOR_CHARACTERS,
        "pattern": "^[~A-Za-z0-9_-]+$",
    },
    OpenApiParameter.PATH,
    description="The item's id, in any state.",
)
_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    OpenApiParameter.HEADER,
    description=(
        "Identifies this request among the user's requests to this queue. Repeating a request "
        "with the same key returns the same response and has no second effect. Keys are kept for "
        "a day, unless the server is configured otherwise."
    ),
)


def _header(name: str, description: str, *statuses: int, kind: Any = OpenApiTypes.STR) -> Any:
    """Return a header of the responses with some statuses."""
    return OpenApiParameter(
        name, kind, OpenApiParameter.HEADER, description=description, response=[*statuses]
    )


_REPLAYED = _header(
    "Idempotent-Replayed",
    "Present only if the response is that of an earlier request with the same key.",
    *(200, 201),
    kind={"type": "string", "enum": ["true"]},
)
_LOCATION = _header("Location", "Where the item is; absent if many were pushed.", 201)
_ETAG = _header("ETag", "Identifies these bytes; send it back as If-None-Match.", 200, 304)
#: What responses of each operation have.
_HEADERS = (
    _header("Retry-After", "Try again after this many seconds.", 429, 503, kind=OpenApiTypes.INT),
    _header("RateLimit", "What is left of each rate limit.", 429),
    _header("RateLimit-Policy", "The rate limits that the request counted for.", 429),
    _header("X-Request-ID", "The request's id, which logs have, too.", 200, 201, 503),
)
_KNOWN = OpenApiParameter(
    "If-None-Match",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="ETags of responses that the client has: if this would be one of them, it is 304.",
)

#: The description of each error status.
_ERRORS = {
    400: "The input is not valid; nothing was changed.",
    401: "Credentials are missing or wrong.",
    403: "The user may not do this to this queue.",
    404: "There is no such queue, or no such item in the queue.",
    406: "The client accepts no format of responses that there is.",
    409: "The state of the queue does not allow the request; nothing was changed.",
    413: "The body, a value or the batch is too large; nothing was changed.",
    414: "The address, including its query, is too long.",
    415: "The body is not JSON, or it is compressed.",
    422: "The idempotency key was used for another request; nothing was changed.",
    429: "The user has sent too many requests.",
    503: "The database did not respond in time.",
}
_ALWAYS = (400, 401, 403, 406, 414, 429, 503)
_WITHOUT_KEY = (404, 413, 415)
_ON_POST = (*_WITHOUT_KEY, 409, 422)


#: What each operation does, in a few words.
_SUMMARIES = {
    "queues_list": "List the queues",
    "queues_retrieve": "Show a queue",
    "queues_pause": "Pause a queue",
    "queues_resume": "Resume a queue",
    "queues_peek": "Show what a pop would take",
    "queues_items": "List the items in a state",
    "queues_item": "Show an item",
    "queues_push": "Push one item or many",
    "queues_pop": "Pop items",
    "queues_lease": "Lease items",
    "queues_pop_from": "Pop from several queues",
    "queues_lease_from": "Lease from several queues",
    "queues_ack": "Acknowledge leases",
    "queues_nack": "Give up leases",
    "queues_extend": "Extend leases",
    "queues_dead_reasons": "List the reasons of dead letters",
    "queues_bury": "Bury an item",
    "queues_remove": "Remove an item",
    "queues_redrive": "Requeue dead letters",
    "queues_purge": "Remove the items in a state",
}


def reads(operation_id: str, answer: Any, *codes: int, parameters: Iterable[Any] = ()) -> Any:
    """Describe an action that only reads.

    Args:
        operation_id: Its name.
        answer: What it returns.
        codes: The statuses of errors that only some actions have.
        parameters: Those of its address and its query.
    """
    unchanged = OpenApiResponse(description="The client has this response; there is no body.")
    return _described(
        operation_id, {200: answer, 304: unchanged}, codes, [*parameters, _KNOWN, _ETAG]
    )


def changes(
    operation_id: str,
    body: Any,
    answer: Any,
    *,
    existing: Any = None,
    keyed: bool = True,
    is_named: bool = True,
) -> list[Any]:
    """Describe an action that changes a queue.

    Args:
        operation_id: Its name.
        body: Its body.
        answer: What it returns.
        existing: What it returns instead if it finds what it was to make.
        keyed: Whether it takes an idempotency key.
        is_named: Whether the address names the queue, and not the body.
    """
    answers = {200: answer} if existing is None else {201: answer, 200: existing}
    parameters = [*([NAME] if is_named else ()), *((_KEY, _REPLAYED) if keyed else ())]
    if existing is not None:
        parameters.append(_LOCATION)
    codes = _ON_POST if keyed else _WITHOUT_KEY
    described = _described(operation_id, answers, codes, parameters, request=body)
    return [described, _needs_body]


def removes(operation_id: str, answer: Any) -> Any:
    """Describe an action that removes an item."""
    return _described(operation_id, {200: answer}, (404,), [NAME, ID], request=None)


def _described(
    operation_id: str,
    answers: dict[int, Any],
    codes: Iterable[int],
    parameters: Iterable[Any],
    **more: Any,
) -> Any:
    return extend_schema(
        operation_id=operation_id,
        summary=_SUMMARIES[operation_id],
        tags=["queues"],
        parameters=[*parameters, *_HEADERS],
        responses={**answers, **_errors(codes)},
        examples=examples.of_operation(operation_id),
        **more,
    )


def _errors(codes: Iterable[int]) -> dict[tuple[int, str], OpenApiResponse]:
    """Return the errors with some statuses and with those that each operation may have."""
    found = {}
    for code in sorted({*_ALWAYS, *codes}):
        text = _ERRORS[code]
        found[code, JSON] = OpenApiResponse(
            error_outputs.ErrorOutput, description=text, examples=examples.of_error(code)
        )
        found[code, PROBLEM] = OpenApiResponse(error_outputs.ProblemOutput, description=text)
    return found


def _needs_body(method: Any) -> Any:
    """Mark the body of a method as required, even if all its keys are optional."""

    class NeededBody(method.kwargs["schema"]):  # type: ignore[misc, name-defined]  # the project's
        def _get_request_body(self, direction: Any = "request") -> Any:
            return {**super()._get_request_body(direction), "required": True}

    method.kwargs["schema"] = NeededBody
    return method
