"""Errors as responses: their shape, and the map from exceptions to HTTP statuses.

    {"code": "item_not_found", "message": "The queue holds no such item", "queue": "mail"}

``code`` is permanent; the text is not. Other keys are the error's context. A response with status
500 or above has no context, which may name files and hosts: it goes to the log instead.

It is the one shape, whatever the project's ``EXCEPTION_HANDLER``: programs go by the code, and in
what Django REST framework says by itself (``detail``, or a list for each field) there is none.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.http import Http404, UnreadablePostError
from rest_framework import exceptions, serializers
from rest_framework.response import Response
from rest_framework.settings import api_settings

from fdbqueue.access import Refused
from fdbqueue.api import request_ids
from fdbqueue.exceptions import (
    BatchTooLarge,
    CorruptItem,
    DeadlineExceeded,
    EngineError,
    FdbQueueError,
    FormatMismatch,
    IdempotencyKeyReused,
    InvalidInput,
    ItemNotFound,
    ItemNotReady,
    LeaseLost,
    OutcomeUnknown,
    PushInterrupted,
    QueueNotFound,
    QueueOwned,
    ValueTooLarge,
)
from fdbqueue.logs import get_logger
from fdbqueue.service import error_code

#: The ``Retry-After`` of errors that a later retry may not meet.
RETRY_AFTER_SECONDS = 5

_MAX_FIELDS = 20
_MAX_TEXT = 200
_TRANSACTION_TOO_LARGE = 2101
_TIMED_OUT = 1031

#: The first class in an error's method resolution order that is listed decides.
_STATUS: dict[type, int] = {
    QueueNotFound: 404,
    ItemNotFound: 404,
    ItemNotReady: 409,
    QueueOwned: 409,
    InvalidInput: 400,
    ValueTooLarge: 413,
    BatchTooLarge: 413,
    CorruptItem: 409,
    FormatMismatch: 409,
    LeaseLost: 409,
    IdempotencyKeyReused: 422,  # draft-ietf-httpapi-idempotency-key-header-07, section 2.7
    PushInterrupted: 503,
    OutcomeUnknown: 503,
    EngineError: 503,
    FdbQueueError: 500,
}

#: What an error's context may hold and no response shows: the name of a queue that the user may
#: not see, if a project's own function, such as its authorizer, has looked for another.
_SECRET = frozenset({"did_you_mean"})

logger = get_logger(__name__)


class InvalidIdempotencyKey(exceptions.APIException):
    """The header ``Idempotency-Key`` is not 1 to 255 characters of visible ASCII."""

    status_code = 400
    default_code = "invalid_idempotency_key"
    default_detail = "An Idempotency-Key must have 1 to 255 visible ASCII characters."


class AddressTooLong(exceptions.APIException):
    """The address, with its query, is longer than servers accept."""

    status_code = 414
    default_code = "address_too_long"
    default_detail = "An address must not be longer than 4,000 characters, including its query."


class AddressNotFound(exceptions.NotFound):
    """The address does not exist."""

    default_code = "address_not_found"
    default_detail = "There is nothing at this address. Every address ends in a slash."


class UnsupportedCoding(exceptions.APIException):
    """The body has a Content-Encoding, such as gzip."""

    status_code = 415
    default_code = "unsupported_content_encoding"
    default_detail = "Send the body without a Content-Encoding."


class BodyTooLarge(exceptions.APIException):
    """The body is longer than ``MAX_BODY_BYTES`` of the setting."""

    status_code = 413
    default_code = "body_too_large"
    default_detail = "The request's body is too large."


class AuthorizerFailed(exceptions.APIException):
    """The project's authorizer, or what it asks, has raised the cause, which is what is said.

    Django REST framework's pages ask for permissions once more, and know no other errors there.
    """


#: The exceptions that only the API has.
OWN = (InvalidIdempotencyKey, AddressTooLong, AddressNotFound, UnsupportedCoding, BodyTooLarge)
#: The codes and texts of the engine's own errors.
OF_THE_ENGINE = {
    "transaction_too_large": "The items are too large together for one request; send fewer",
    "disk_full": "The disk of the database is full; nothing was changed",
    "engine_error": "The database could not complete the request; nothing was changed",
}

#: Django's exceptions, and the API's exceptions for them.
_DJANGO: dict[type[Exception], type[exceptions.APIException]] = {
    Http404: exceptions.NotFound,
    PermissionDenied: exceptions.PermissionDenied,
    RequestDataTooBig: BodyTooLarge,
    SuspiciousOperation: exceptions.ParseError,
    UnreadablePostError: exceptions.ParseError,
}


def handle(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """Return the response for an exception; used in place of DRF's ``EXCEPTION_HANDLER``.

    Args:
        error: What a view raised.
        context: The view and the request, as DRF gives them; unused.

    Returns:
        The response; None for an unexpected exception, which is a bug.
    """
    del context
    if isinstance(error, AuthorizerFailed) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    response = _response(error)
    if response is None:
        return None
    if response.status_code >= 500:
        facts = {"status": response.status_code, "request_id": request_ids.current()}
        logger.error("request failed", exc_info=error, extra=facts)
    return response


def _response(error: Exception) -> Response | None:
    if isinstance(error, Refused):  # its text is ours; that of others may tell too much
        return _from_drf(exceptions.PermissionDenied(str(error)))
    for django_error, drf_error in _DJANGO.items():
        if isinstance(error, django_error):
            return _from_drf(drf_error())
    if isinstance(error, FdbQueueError):
        return _from_service(error)
    if isinstance(error, exceptions.APIException):
        return _from_drf(error)
    code = error_code(error)
    if code is None:
        return None
    is_full = bool(getattr(error, "reason", ""))
    return _respond(503, "disk_full", OF_THE_ENGINE["disk_full"]) if is_full else _from_engine(code)


def _from_service(error: FdbQueueError) -> Response:
    status = next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)
    message = str(type(error)())  # the text of the class, without the context
    context = error.context if status < 500 else {}
    shown = {name: _shown(value) for name, value in context.items() if name not in _SECRET}
    return _respond(status, error.code, message, shown)


def _from_engine(fdb_code: int) -> Response:
    if fdb_code == _TIMED_OUT:
        return _from_service(DeadlineExceeded())
    too_large = fdb_code == _TRANSACTION_TOO_LARGE
    status, code = (413, "transaction_too_large") if too_large else (503, "engine_error")
    return _respond(status, code, OF_THE_ENGINE[code])


def _from_drf(error: exceptions.APIException) -> Response:
    if isinstance(error, exceptions.ValidationError):
        fields = dict(itertools.islice(_fields(error.detail), _MAX_FIELDS))
        message = "The input is not valid; nothing was changed"
        return _respond(400, "invalid_input", message, {"fields": fields})
    headers = {}
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = str(challenge)
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(wait)
    detail = error.detail if isinstance(error.detail, str) else error.default_detail
    code = getattr(detail, "code", None) or error.default_code
    return _respond(error.status_code, code, _clipped(str(detail)), headers=headers)


def _fields(detail: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of each invalid field (``items.3.value``) and its error."""
    if isinstance(detail, str):
        yield _clipped(path or "body"), _clipped(detail)
        return
    members = detail.items() if isinstance(detail, dict) else _places(detail)
    for name, member in members:
        own = name in {None, api_settings.NON_FIELD_ERRORS_KEY}
        yield from _fields(member, path if own else f"{path}.{name}".lstrip("."))


def _places(details: list[Any]) -> Iterator[tuple[int | None, Any]]:
    for place, detail in enumerate(details):
        yield (None if isinstance(detail, str) else place), detail


def _respond(
    status: int,
    code: str,
    message: str,
    context: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    common = {"code": code, "message": message}
    given = dict(headers or {})
    if status == 503:
        given.setdefault("Retry-After", str(RETRY_AFTER_SECONDS))
    return Response({**common, **(context or {}), **common}, status=status, headers=given)


def _shown(value: Any) -> Any:
    """Return a value of the context as JSON, shortened."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and abs(value) < 2**63:
        return value
    return _clipped(str(value))


def _clipped(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    """Yield a class and its subclasses in its own module."""
    yield kind
    for one in kind.__subclasses__():
        if one.__module__ == kind.__module__:
            yield from _below(one)


def _codes() -> Iterator[tuple[str, Any]]:
    """Yield the code and the text of each error; the first text of a code counts."""
    yield from OF_THE_ENGINE.items()
    for kind in _below(FdbQueueError):
        yield kind.code, str(kind())
    own: tuple[type[exceptions.APIException], ...]
    own = (*OWN, *_below(exceptions.APIException))
    for one in own:
        yield one.default_code, one.default_detail


#: Classes that only group others, what only commands raise, and what ``invalid_input`` stands for.
_NEVER_SHOWN = frozenset({"error", "invalid", "push_interrupted"})
#: Each ``code`` and its text; a project's own authentication or throttles may add theirs.
CODES = {code: text for code, text in reversed([*_codes()]) if code not in _NEVER_SHOWN}


class ErrorOutput(serializers.Serializer[Any]):
    """An error; more keys may give its context."""

    code = serializers.ChoiceField(
        choices=sorted(CODES.items(), key=operator.itemgetter(0)),
        help_text="The permanent name of the error.",
    )
    message = serializers.CharField(help_text="What went wrong, for people; the text may change.")
