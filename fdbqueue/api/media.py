"""The media of requests and responses: which is chosen, strict JSON, and the memory it takes.

**Chosen** by the header ``Accept`` (RFC 9110, section 12.5.1): JSON is always offered, HTML if the
project has the browsable API on. An error is ``application/problem+json`` (RFC 9457) for clients
whose header names that type.

**Strict**: JSON is the only media type of bodies, parsed and rendered by the classes here, whatever
the project's settings.

**Memory**: JSON of 5 MB can become more than 100 MB of Python objects. So the bodies that a process
has parsed and not finished with are together no longer than one body may be; a further body waits
for its turn, unparsed, and so does what shows long values. Threads lose little by it: parsing and
encoding hold the interpreter's lock.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from rest_framework.exceptions import NotAcceptable, ParseError
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.utils.encoders import JSONEncoder

from fdbqueue import conf
from fdbqueue.exceptions import DeadlineExceeded
from fdbqueue.service import strict_json

JSON = "application/json"
PROBLEM = "application/problem+json"

_WEIGHT = re.compile(r"q\s*=\s*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")
#: How good a range is and how specific: the best offer has the highest of both.
_Rank = tuple[float, int]
#: Bodies may be nested this deep: deeper than any value may be, wherever it is in a body. So it is
#: the codec that refuses a value that is too deep, with the same error in a batch as alone.
MAX_DEPTH = 250
#: Shorter bodies do not wait: those of all threads together are not much.
SMALL_BYTES = 20_000


class Negotiation(DefaultContentNegotiation):
    """Negotiate by the header ``Accept`` only; ``?format=`` is an unknown parameter."""

    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,  # noqa: ARG002  # no address has one
    ) -> tuple[BaseRenderer, str]:
        """Return the renderer that the client prefers; the first of equals.

        A client whose header names no type but that of problems gets JSON if there is none.

        Raises:
            NotAcceptable: The client accepts none of them.
        """
        available = list(renderers)
        accept = accept_of(request)
        media = best(accept, [one.media_type for one in available])
        if media is None and not _weights(accept).get(PROBLEM):
            raise NotAcceptable(available_renderers=available)
        chosen = next((one for one in available if one.media_type == media), available[0])
        return chosen, chosen.media_type


def accept_of(request: Request) -> str:
    """Return a request's header ``Accept``."""
    return str(request.META.get("HTTP_ACCEPT", ""))


def wants_problem(accept: str, other: str) -> bool:
    """Tell whether a header names problems, and does not prefer another media type to them."""
    return PROBLEM in _weights(accept) and best(accept, [PROBLEM, other]) == PROBLEM


def best(accept: str, offers: Sequence[str]) -> str | None:
    """Return the offered media type that a header prefers, None if it accepts none.

    The most specific range that includes a type gives its weight; a weight of zero means no. Of
    types with one weight, that with the more specific range is preferred, then the first offered.
    Other parameters are ignored. An empty header accepts anything.
    """
    weights = _weights(accept) or {"*/*": 1.0}
    ranks = {offer: _rank(weights, offer) for offer in offers}
    found = max(offers, key=lambda offer: ranks[offer])
    return found if ranks[found][0] > 0 else None


def _rank(weights: dict[str, float], offer: str) -> _Rank:
    ranges = ("*/*", f"{offer.partition('/')[0]}/*", offer)
    matching = [place for place, one in enumerate(ranges) if one in weights]
    return (weights[ranges[matching[-1]]], matching[-1]) if matching else (0.0, 0)


def _weights(accept: str) -> dict[str, float]:
    """Return the weight of each range in a header, the highest of a range that is there twice."""
    weights: dict[str, float] = {}
    for accepted in filter(None, map(str.strip, accept.lower().split(","))):
        media, *parameters = map(str.strip, accepted.split(";"))
        found = [match for match in map(_WEIGHT.fullmatch, parameters) if match]
        weight = float(found[0][1]) if found else 1.0
        weights[media] = max(weights.get(media, 0.0), weight)
    return weights


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
            hold_memory(held, len(text))
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


def hold_memory(held: contextlib.ExitStack, size: int) -> None:
    """Reserve memory for JSON of a length until a stack is closed, with all bodies of the process.

    Raises:
        DeadlineExceeded: There was not enough memory in time.
    """
    limits = conf.api()
    most, timeout_seconds = limits.max_body_bytes, limits.timeout_seconds
    held.enter_context(_body_memory.reserved(size, most, timeout_seconds))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has a key twice")
    return members


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


class _Reservation:
    """A body's part of the memory; its gate is locked until it is its turn."""

    def __init__(self, size: int, limit_bytes: int) -> None:
        self.size = size
        self.limit_bytes = limit_bytes
        self.gate = threading.Lock()
        self.gate.acquire()


class BodyMemory:
    """A number of bytes that all threads of a process share: first come, first served.

    The mutex is held by ``with`` alone and never while waiting, because a signal handler may raise
    an exception in a worker's main thread at any point. Each thread waits for a lock of its own.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._line: deque[_Reservation] = deque()
        self._held: set[_Reservation] = set()

    @contextlib.contextmanager
    def reserved(self, size: int, limit_bytes: int, timeout_seconds: float) -> Iterator[None]:
        """Wait until there is memory for a body, and keep it reserved during a ``with`` block.

        Args:
            size: The body's length in bytes.
            limit_bytes: How much memory there is; a longer body reserves all of it.
            timeout_seconds: How long to wait.

        Raises:
            DeadlineExceeded: There was not enough memory in time.
        """
        if size <= SMALL_BYTES:
            yield
            return
        reservation = _Reservation(min(size, limit_bytes), limit_bytes)
        try:
            with self._mutex:
                self._line.append(reservation)
                self._admit()
            if not reservation.gate.acquire(timeout=timeout_seconds):
                raise DeadlineExceeded
            yield
        finally:
            with self._mutex:
                self._held.discard(reservation)
                if reservation in self._line:
                    self._line.remove(reservation)
                self._admit()

    @property
    def _used_bytes(self) -> int:
        return sum(reservation.size for reservation in self._held)

    def _admit(self) -> None:
        """Let the first in line go on, as long as there is memory for it."""
        while self._line:
            first = self._line[0]
            if self._used_bytes + first.size > first.limit_bytes:
                return
            self._held.add(first)
            self._line.popleft()
            first.gate.release()


_body_memory = BodyMemory()
_encode = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_CONTAINERS = frozenset({dict, list})
_decode = strict_json(object_pairs_hook=_object).decode
