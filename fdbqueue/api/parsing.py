"""What a request says: its body, its query, its key, checked before anything is done."""

from __future__ import annotations

import re
from typing import Any

from rest_framework.exceptions import ParseError, UnsupportedMediaType, ValidationError
from rest_framework.request import Request

from fdbqueue import conf
from fdbqueue.api.errors import (
    AddressTooLong,
    BodyTooLarge,
    InvalidIdempotencyKey,
    UnsupportedCoding,
)
from fdbqueue.api.inputs import Input, NoParameters
from fdbqueue.service import Once

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_LENGTH = re.compile(r"[0-9]+")
_LENGTH_DIGITS = 18
#: Gunicorn takes a request line of 4,094 characters unless it is told otherwise.
_MAX_ADDRESS_CHARACTERS = 4_000
_JSON = "application/json"
_NO_CODING = frozenset({"", "identity"})


def check_address(request: Request) -> None:
    """Refuse an address that most servers would refuse, so that it is the same on all.

    Raises:
        AddressTooLong: It is too long, as it was sent or written in ASCII.
    """
    if len(request.get_full_path()) > _MAX_ADDRESS_CHARACTERS:
        raise AddressTooLong


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


def check_media(request: Request) -> None:
    """Refuse a POST that does not say that it sends JSON, whether it sends anything or not.

    A page of another site can let a browser send a form, or nothing, with the credentials
    that the browser has for this one. It cannot say that it sends JSON, unless this site allows
    it to (by CORS).

    Raises:
        UnsupportedMediaType: The content type is not JSON, or there is none.
        UnsupportedCoding: The body is compressed.
    """
    if request.method != "POST":
        return
    media = request.content_type or ""
    if media.partition(";")[0].strip().lower() != _JSON:
        raise UnsupportedMediaType(media)
    if request.headers.get("Content-Encoding", "identity").strip().lower() not in _NO_CODING:
        raise UnsupportedCoding


def body(request: Request) -> Any:
    """Return the body of a POST, which takes no query.

    There must be one, with a Content-Length: without it DRF does not read a body. A body that
    was lost on its way, as in a redirect, is not taken for a pop of the default end.

    Raises:
        ParseError: It is not JSON, there is none, or its length is not known.
    """
    query(request, NoParameters)
    if request.META.get("HTTP_TRANSFER_ENCODING") or not _LENGTH.fullmatch(_length(request)):
        raise _no_length()
    if request.stream is None:
        if request.read(1):  # under ASGI there may be a body of unknown length
            raise _no_length()
        raise ParseError("A body is needed: {} for the defaults.")
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
