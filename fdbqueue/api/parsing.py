"""What a request says: its body, its query, its key, checked before anything is done."""

from __future__ import annotations

import re
from typing import Any

from rest_framework.exceptions import ParseError, ValidationError
from rest_framework.request import Request

from fdbqueue import conf
from fdbqueue.api.errors import BodyTooLarge, InvalidIdempotencyKey
from fdbqueue.api.inputs import Input, NoParameters
from fdbqueue.service import Once

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_LENGTH = re.compile(r"[0-9]+")
_LENGTH_DIGITS = 18


def check_length(request: Request) -> None:
    """Refuse a body that is too long, before anybody reads it: who looks for a CSRF token may.

    Raises:
        BodyTooLarge: It is longer than the setting allows.
    """
    length = _length(request)
    if request.method != "POST" or not _LENGTH.fullmatch(length):
        return  # it is not read
    if len(length) > _LENGTH_DIGITS or int(length) > conf.api().max_body_bytes:
        raise BodyTooLarge


def body(request: Request) -> Any:
    """Return the body of a POST, which takes no query; none at all is an empty object.

    DRF does not read a body without Content-Length: a chunked one is refused, for a pop
    of the default end would be a bad guess.

    Raises:
        ParseError: It is no JSON, or its length is not known.
    """
    query(request, NoParameters)
    if request.META.get("HTTP_TRANSFER_ENCODING") or not _LENGTH.fullmatch(_length(request)):
        raise _no_length()
    if request.stream is None:
        if request.read(1):  # under ASGI there may be a body of unknown length
            raise _no_length()
        return {}
    return request.data


def _length(request: Request) -> str:
    """Return the length of the body as the client has told it."""
    meta = request.META
    return meta.get("CONTENT_LENGTH") or meta.get("HTTP_CONTENT_LENGTH") or "0"


def _no_length() -> ParseError:
    return ParseError("A body needs a Content-Length.")


def query(request: Request, kind: type[Input]) -> dict[str, Any]:
    """Return the checked query.

    Raises:
        ValidationError: Something is wrong with it.
    """
    parameters = {}
    for name, values in request.query_params.lists():
        if len(values) > 1:
            raise ValidationError({name: ["It is given more than once."]})
        parameters[name] = values[0]
    return checked(kind, parameters)


def checked(kind: type[Input], data: Any) -> dict[str, Any]:
    """Return the checked data.

    Raises:
        ValidationError: Something is wrong with it.
    """
    found: dict[str, Any] = kind().run_validation(data)
    return found


def has(data: Any, name: str) -> bool:
    """Tell whether a body is an object with a key."""
    return isinstance(data, dict) and name in data


def once(request: Request) -> Once | None:
    """Return the idempotency key of a request, None where it has none.

    It is the user's own: another user's request under the same key is another call.

    Raises:
        InvalidIdempotencyKey: It is empty, too long, or not visible ASCII.
    """
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        raise InvalidIdempotencyKey
    return Once(f"rest {identity(request)} {key}", conf.api().idempotency_seconds)


def identity(request: Request) -> str:
    """Return what tells the user of a request from all others, stored in a database or not."""
    user = request.user
    key = getattr(user, "pk", None)
    return f"name:{user}" if key is None else f"id:{key}"
