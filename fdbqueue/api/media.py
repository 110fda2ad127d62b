"""JSON, the only media type: parsed and rendered strictly, whatever the project's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.utils.encoders import JSONEncoder

from fdbqueue import conf
from fdbqueue.api.body_memory import BodyMemory
from fdbqueue.api.negotiation import JSON, PROBLEM
from fdbqueue.service import strict_json

#: Bodies may be nested this deep: deeper than any value may be, wherever it is in a body. So it is
#: the codec that refuses a value that is too deep, with the same error in a batch as alone.
MAX_DEPTH = 250


class StrictJSONParser(BaseParser):
    """Parse UTF-8 JSON so that nothing in it is lost.

    Not a subclass of DRF's JSONParser, whose bodies DRF reads under Django's limit for forms.

    Besides invalid JSON it refuses NaN and Infinity, numbers that a float cannot hold, an object
    with a key twice, an empty body, and nesting deeper than :data:`MAX_DEPTH`.
    """

    media_type = JSON

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,  # noqa: ARG002  # JSON is UTF-8
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the body; the stack ``held`` of the context, if any, keeps its memory reserved.

        Raises:
            ParseError: The body is refused; the message says why.
            DeadlineExceeded: There was not enough memory for it in time.
        """
        text = stream.read()
        held = (parser_context or {}).get("held")
        if held is not None:
            limits = conf.api()
            held.enter_context(
                _body_memory.reserved(len(text), limits.max_body_bytes, limits.timeout_seconds)
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
    """Render compact JSON in UTF-8, with escapes for lone surrogates.

    Not a subclass of DRF's JSONRenderer, which indents if a client asks for it in ``Accept``: a
    nested value of 100 kB then becomes 80 MB, most of it spaces.
    """

    media_type = JSON
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
        # Only lone surrogates have no UTF-8, and Python escapes them as JSON does.
        return _encode(data).encode(errors="backslashreplace")


class ProblemRenderer(StrictJSONRenderer):
    """Render an error as ``application/problem+json``."""

    media_type = PROBLEM
    format = "problem"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has a key twice")
    return members


_body_memory = BodyMemory()
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
