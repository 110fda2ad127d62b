"""The one media type, JSON: strict both ways, whatever the host project's settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import IO, Any

from rest_framework.exceptions import NotAcceptable, ParseError
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.utils.encoders import JSONEncoder

from fdbqueue import conf
from fdbqueue.api.room import Room
from fdbqueue.service import strict_json

#: Bodies are nested no deeper. That is deeper than any value may be, wherever in a body it is: so
#: a codec judges values, and calls one that is too deep the same in a batch as alone.
MAX_DEPTH = 250
#: A weight of zero: what is not acceptable.
_ZERO = re.compile(r"q\s*=\s*0(\.0{0,3})?")


class Negotiation(DefaultContentNegotiation):
    """Negotiate by the header ``Accept`` alone: ``?format=`` is unknown like any parameter."""

    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,  # noqa: ARG002  # no address has one
    ) -> tuple[BaseRenderer, str]:
        """Return the one renderer, where the client takes JSON.

        Raises:
            NotAcceptable: It takes none.
        """
        available = list(renderers)
        if not takes_json(request.META.get("HTTP_ACCEPT", "")):
            raise NotAcceptable(available_renderers=available)
        return available[0], available[0].media_type


def takes_json(accept: str) -> bool:
    """Tell whether a client that sends this as ``Accept`` takes JSON (RFC 9110, section 12.5.1).

    The most specific range that has JSON decides, and a weight of zero says no. Other parameters
    mean nothing. An empty header takes anything.
    """
    wanted: dict[str, bool] = {}
    for accepted in filter(None, map(str.strip, accept.lower().split(","))):
        media, *parameters = map(str.strip, accepted.split(";"))
        is_wanted = not any(map(_ZERO.fullmatch, parameters))
        wanted[media] = wanted.get(media, False) or is_wanted
    ranges = ("application/json", "application/*", "*/*")
    return next((wanted[media] for media in ranges if media in wanted), not wanted)


class StrictJSONParser(BaseParser):
    """Parse UTF-8 JSON so that nothing in it is lost.

    No JSONParser: what that parses, DRF reads under Django's limit for forms.

    Refused, beside what is no JSON: NaN and Infinity, numbers no float can hold, an
    object that has a key twice, an empty body, and nesting deeper than values may be.
    """

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,  # noqa: ARG002  # JSON is UTF-8
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the body; where the context has a stack ``held``, its room is held by that.

        Raises:
            ParseError: It is refused; the message says why.
            DeadlineExceeded: There was no room for it in time.
        """
        text = stream.read()
        held = (parser_context or {}).get("held")
        if held is not None:
            limits = conf.api()
            held.enter_context(
                _room.taken(len(text), limits.max_body_bytes, limits.timeout_seconds)
            )
        try:
            body = _decode(text.decode())
        except RecursionError:
            raise _too_deep() from None
        except ValueError as error:
            raise ParseError(f"The body is not valid JSON: {error}") from error
        _check_depth(body)
        return body


class StrictJSONRenderer(BaseRenderer):
    """Render compact JSON in UTF-8; with escapes where a string has no UTF-8.

    No JSONRenderer: that indents where a client asks for it in ``Accept``, and spaces are most of a
    nested value then: 80 MB for one of 100 kB.
    """

    media_type = "application/json"
    format = "json"
    charset = None  # JSON is UTF-8

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,  # noqa: ARG002  # its parameters mean nothing
        renderer_context: Mapping[str, Any] | None = None,  # noqa: ARG002  # as above
    ) -> bytes:
        """Return the bytes of the response."""
        if data is None:
            return b""
        # What has no UTF-8 is half of a surrogate pair, and Python's escape of it is JSON's.
        return _encode(data).encode(errors="backslashreplace")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has a key twice")
    return members


_room = Room()
_encode = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_CONTAINERS = frozenset({dict, list})
_decode = strict_json.decoder(object_pairs_hook=_object).decode


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
