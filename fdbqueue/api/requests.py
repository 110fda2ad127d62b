"""Read requests: their body, query and idempotency key, checked before anything is done."""

from __future__ import annotations

import io
import re
import select
from typing import Any, cast

from rest_framework.exceptions import ParseError, UnsupportedMediaType, ValidationError
from rest_framework.request import Request
from rest_framework.settings import api_settings

from fdbqueue import conf
from fdbqueue.access import identity
from fdbqueue.api.base_view import JSON
from fdbqueue.api.errors import (
    AddressTooLong,
    BodyTooLarge,
    InvalidIdempotencyKey,
    UnsupportedCoding,
)
from fdbqueue.api.inputs import Input, NoParameters
from fdbqueue.service import IdempotencyKey

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_LENGTH = re.compile(r"[0-9]+")
_LENGTH_DIGITS = 18
#: Gunicorn takes a request line of 4,094 characters unless it is told otherwise.
_MAX_ADDRESS_CHARACTERS = 4_000
#: Bodies may be nested this deep: deeper than any value may be, wherever it is in a body. So it is
#: the codec that refuses a value that is too deep, with the same error in a batch as alone.
MAX_DEPTH = 250
_CONTAINERS = frozenset({dict, list})
_NO_CODING = frozenset({"", "identity"})
#: Where servers put the socket of a request.
_SOCKETS = ("gunicorn.socket", "werkzeug.socket")
#: Linux reports that the other end has closed; other systems only errors and full closes.
_GONE = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


def check_address(request: Request) -> None:
    """Refuse an address that is too long for most servers, so that all servers behave alike.

    Raises:
        AddressTooLong: It is too long, as it was sent or written in ASCII.
    """
    if len(request.get_full_path()) > _MAX_ADDRESS_CHARACTERS:
        raise AddressTooLong


def check_length(request: Request) -> None:
    """Refuse a body that is too long before anything reads it; the CSRF check might.

    Raises:
        BodyTooLarge: It is longer than the setting allows.
    """
    length = _length(request)
    if request.method != "POST" or not _LENGTH.fullmatch(length):
        return  # it is not read
    if len(length) > _LENGTH_DIGITS or int(length) > conf.api().max_body_bytes:
        raise BodyTooLarge


def check_media(request: Request) -> None:
    """Refuse a POST whose content type is not JSON, also if it has no body.

    A page of another site can make a browser send a form, or nothing, with the credentials that
    the browser has for this site. It cannot send the content type of JSON unless this site allows
    that (by CORS).

    Raises:
        UnsupportedMediaType: The content type is not JSON, or there is none.
        UnsupportedCoding: The body is compressed.
    """
    if request.method != "POST":
        return
    media = request.content_type or ""
    if media.partition(";")[0].strip().lower() != JSON:
        raise UnsupportedMediaType(media)
    if request.headers.get("Content-Encoding", "identity").strip().lower() not in _NO_CODING:
        raise UnsupportedCoding


def body(request: Request) -> Any:
    """Return the body of a POST, which must have no query.

    A body is required, with a Content-Length, without which DRF does not read it. So a body that
    was lost on the way, as in a redirect, is not mistaken for a pop of the default end.

    Raises:
        ParseError: It is not JSON, is nested too deeply, there is none, or its length is not known.
    """
    query(request, NoParameters)
    if request.META.get("HTTP_TRANSFER_ENCODING") or not _LENGTH.fullmatch(_length(request)):
        raise _no_length()
    if request.stream is None:
        if request.read(1):  # under ASGI there may be a body of unknown length
            raise _no_length()
        raise ParseError("A body is required. Send {} for the defaults.")
    _load(cast("Any", request)._request)  # noqa: SLF001  # Django's
    try:
        parsed = request.data
    except RecursionError:
        raise _too_deep() from None
    _check_depth(parsed)
    return parsed


def _load(request: Any) -> None:
    """Read a body, as Django does, but without its limit for forms: the length is checked."""
    if not hasattr(request, "_body"):
        request._body = request.read()  # noqa: SLF001
        request._stream = io.BytesIO(request._body)  # noqa: SLF001


def _check_depth(body: Any) -> None:
    level = [body] if type(body) in _CONTAINERS else []
    for _ in range(MAX_DEPTH + 1):
        if not level:
            return
        level = [
            member
            for container in level
            for member in (container.values() if type(container) is dict else container)
            if type(member) in _CONTAINERS
        ]
    raise _too_deep()


def _too_deep() -> ParseError:
    return ParseError(f"The body is nested deeper than {MAX_DEPTH} levels.")


def _length(request: Request) -> str:
    """Return the Content-Length that the client sent."""
    meta = request.META
    return meta.get("CONTENT_LENGTH") or meta.get("HTTP_CONTENT_LENGTH") or "0"


def _no_length() -> ParseError:
    return ParseError("A body requires a Content-Length.")


def query(request: Request, kind: type[Input]) -> dict[str, Any]:
    """Return the checked query, without the parameter that chooses the project's renderer.

    Raises:
        ValidationError: Something is wrong with it.
    """
    parameters = {}
    for name, values in request.query_params.lists():
        if name == api_settings.URL_FORMAT_OVERRIDE:
            continue
        if len(values) > 1:
            raise ValidationError({name: ["This parameter was given more than once."]})
        parameters[name] = values[0]
    return checked(kind, parameters)


def checked(kind: type[Input], data: Any) -> dict[str, Any]:
    """Return the checked data.

    Raises:
        ValidationError: Something is wrong with it.
    """
    return kind().run_validation(data)


def once(request: Request) -> IdempotencyKey | None:
    """Return the idempotency key of a request, None if it has none.

    Each user has their own keys: the same key of another user is another call.

    Raises:
        InvalidIdempotencyKey: It is empty, too long, or not visible ASCII.
    """
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        raise InvalidIdempotencyKey
    return IdempotencyKey(f"rest {identity(request.user)} {key}", conf.api().idempotency_seconds)


def client_is_connected(request: Request) -> bool:
    """Tell whether the client may still be waiting; True if the server cannot tell.

    Gunicorn and Werkzeug can, on Linux.
    """
    found = (request.META.get(name) for name in _SOCKETS)
    connection: Any = next((one for one in found if one is not None), None)
    if connection is None or not hasattr(select, "poll"):
        return True
    poll = select.poll()
    try:
        poll.register(connection, _GONE)
    except (OSError, ValueError):  # closed on this side
        return False
    return not any(events & _GONE for _, events in poll.poll(0))
