"""Codecs: how a queue's values become bytes.

``json``
    Any JSON value, exactly: integers of up to 4,300 digits, unicode, up to 200 levels of
    nesting. Stored as the FDB tuple ``(text, pushed_at, attempts)``, so that the Java
    recipe's reader, which takes element 0, gets the JSON text.
``bytes``
    Bytes as they are, as the Python recipe stores them.
``tuple``
    What the FDB tuple layer can hold, up to 200 levels of nesting, packed alone in a tuple, as
    the Java recipe does.

``bytes`` and ``tuple`` keep no metadata. No codec runs code that comes from the queue.

To add a codec, write a subclass of :class:`Codec` here, add it to :data:`CODECS`, and document it
in ``docs/queues.md``, ``docs/settings.md`` and ``docs/rest-api.md``. The setting, REST, items
files and the pages ask the codec.
"""

from __future__ import annotations

import abc
import base64
import functools
import itertools
import json
import math
import struct
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, NoReturn

import fdb.tuple

from fdbqueue.service import tuples

#: The types of keys, and of what holds nothing else.
_STRING = frozenset({str})
_SCALARS = frozenset({str, int, float, bool, type(None)})

#: Deeper nesting could be written by one reader's stack and not read by another's.
MAX_LEVELS = 200

#: In the year 9892; what is earlier every ``datetime`` holds, in every time zone.
LATEST_PUSH = 250_000_000_000_000_000
_MAX_ATTEMPTS = 2**31


class Stored(NamedTuple):
    """A decoded value and the metadata stored with it.

    ``pushed_at`` is in microseconds since the Unix epoch, None if it is not kept.
    """

    value: Any
    pushed_at: int | None = None
    attempts: int = 0


class Codec(abc.ABC):
    """Encode and decode the values of a queue, and convert them from and to JSON.

    ``encode``, ``decode`` and ``from_json`` may raise ``ValueError`` or ``TypeError``; the queue
    reports it under its name.
    """

    name: str
    #: Does what is stored include when it was pushed, and the attempts?
    keeps_metadata = False
    #: What its values are. Pages show JSON and bytes as such, other values as Python writes them.
    holds: Literal["json", "bytes", "python"] = "python"
    #: How REST writes a value, in the words of its documentation.
    in_json: str

    @abc.abstractmethod
    def encode(self, value: Any, pushed_at: int, attempts: int) -> bytes:
        """Return the bytes to store for a value."""

    @abc.abstractmethod
    def decode(self, data: bytes) -> Stored:
        """Return what :meth:`encode` was given, as far as it was kept."""

    def with_attempts(self, data: bytes, attempts: int) -> bytes:  # noqa: ARG002  # no metadata
        """Return what was stored with other attempts; the same if no metadata is kept.

        Raises:
            ValueError: It cannot be done; then the attempts are stored in a row of their own.
        """
        if self.keeps_metadata:
            raise ValueError(f"codec {self.name!r} does not say how to change attempts")
        return data

    def pushed_at(self, data: bytes) -> int | None:  # noqa: ARG002  # no metadata
        """Return when what cannot be decoded was pushed, in microseconds; None if not known."""
        return None

    def to_json(self, value: Any) -> Any:
        """Return the JSON that REST and items files show for a value that was decoded.

        All of it, so that :meth:`from_json` returns the value again.
        """
        return value

    def from_json(self, value: Any) -> Any:
        """Return the value that a JSON value stands for, in a request or a line of a file."""
        return value


class JsonCodec(Codec):
    """JSON values, with metadata. Tuples come back as lists."""

    name = "json"
    keeps_metadata = True
    holds = "json"
    in_json = "the JSON itself, with exact integers"

    def __init__(self) -> None:
        self._written = _encoder()
        self._decode = strict_json().decode

    def encode(self, value: Any, pushed_at: int, attempts: int) -> bytes:
        """Return the packed tuple of the JSON text and the metadata.

        Raises:
            TypeError: JSON has no such type, or an object's key is not a string.
            ValueError: NaN, an infinity, a lone surrogate, more than 200 levels of nesting.
        """
        _check(value)
        text = "".join(self._written(value, 0)).encode()  # which holds no character 0
        return _TEXT + text + b"\x00" + _packed_metadata(pushed_at, attempts)

    def decode(self, data: bytes) -> Stored:
        """Return the value and its metadata; a tuple of the text alone will do.

        Raises:
            ValueError: The bytes are no such tuple, or its text is no JSON.
        """
        text, pushed_at, attempts = _fast(data) or _elements(data)
        try:
            value = self._decode(text)
        except RecursionError:
            raise ValueError("the JSON is nested too deeply") from None
        return Stored(value, pushed_at, attempts)

    def with_attempts(self, data: bytes, attempts: int) -> bytes:
        """Return the packed tuple with other attempts.

        Raises:
            ValueError: The bytes are no such tuple.
        """
        text, *metadata = _unpack(data)
        return fdb.tuple.pack((text, _metadata(metadata)[0], attempts))

    def pushed_at(self, data: bytes) -> int | None:
        """Return the push time that stands after a text, whether or not the text is JSON."""
        try:
            _, *metadata = _unpack(data)
        except ValueError:
            metadata = [_time_in_tail(data)]
        return _metadata(metadata)[0]


class BytesCodec(Codec):
    """Bytes as they are."""

    name = "bytes"
    holds = "bytes"
    in_json = "a string, the bytes in base64"

    def encode(self, value: Any, pushed_at: int, attempts: int) -> bytes:  # noqa: ARG002  # no metadata
        """Return the bytes.

        Raises:
            TypeError: The value is not bytes, a bytearray or a memoryview.
        """
        if not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(f"bytes are needed, not {type(value).__name__}")
        return bytes(value)

    def decode(self, data: bytes) -> Stored:
        """Return the bytes."""
        return Stored(data)

    def to_json(self, value: Any) -> Any:
        """Return the bytes in base64."""
        return base64.b64encode(value).decode()

    def from_json(self, value: Any) -> Any:
        """Return the bytes in a string of base64.

        Raises:
            TypeError: It is not a string.
            ValueError: It is not base64.
        """
        return tuples.from_base64(value)


class TupleCodec(Codec):
    """One value of the FDB tuple layer. Lists come back as tuples."""

    name = "tuple"
    in_json = (
        'an array for a tuple, and for what JSON lacks `{"base64": "..."}`, `{"uuid": "..."}`, '
        '`{"float": "NaN"}`, `{"float32": 0.5}` or `{"versionstamp": "..."}`'
    )

    def encode(self, value: Any, pushed_at: int, attempts: int) -> bytes:  # noqa: ARG002  # no metadata
        """Return the value packed alone in a tuple.

        Raises:
            ValueError: The tuple layer has no such type, or more than 200 levels of nesting.
        """
        _check_levels(value)
        try:
            return fdb.tuple.pack((value,))
        except RecursionError:
            raise ValueError("the stack is too deep to encode it") from None
        except AttributeError:  # of the binding, when its library is not loaded
            raise ValueError("a versionstamp needs FoundationDB's client library") from None
        except struct.error:
            raise ValueError("an integer is longer than 255 bytes") from None

    def decode(self, data: bytes) -> Stored:
        """Return the first element of the packed tuple.

        Raises:
            ValueError: The bytes are no tuple.
        """
        return Stored(_unpack(data)[0])

    def to_json(self, value: Any) -> Any:
        """Return the value with arrays for tuples, and objects for what JSON lacks."""
        return tuples.to_json(value)

    def from_json(self, value: Any) -> Any:
        """Return the value with tuples for arrays, and what objects stand for.

        Raises:
            TypeError, ValueError: An object has not what its form needs, such as base64.
        """
        return tuples.from_json(value)


#: The codecs that a queue may name.
CODECS: dict[str, type[Codec]] = {
    codec.name: codec for codec in (JsonCodec, BytesCodec, TupleCodec)
}


@functools.cache
def codec_named(name: str) -> Codec:
    """Return the codec with a name: the same object for all queues, because it keeps nothing."""
    return CODECS[name]()


# A tuple of a text and two integers, packed and unpacked by hand: that is most of what a push
# and a pop of many items cost otherwise.

#: The tuple layer's type codes of a text, of an integer of seven bytes, and of 0.
_TEXT, _SEVEN, _ZERO = b"\x02", b"\x1b", b"\x14"
_SEVEN_FROM, _SEVEN_TO = 1 << 48, 1 << 56
#: The length of the metadata of an item pushed in these centuries, and never leased.
_METADATA_BYTES = 9


def _encoder() -> Callable[[Any, int], Iterable[str]]:
    """Return a function that writes JSON without spaces, in parts, for values that were checked.

    It does what ``JSONEncoder.encode`` does, in a third of the time if Python has an encoder in C,
    which ``encode`` makes again for each value. It is called with the value, and 0.
    """
    encoder = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
    )
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return lambda value, _: encoder.iterencode(value)
    quoted = json.encoder.encode_basestring
    written: Callable[[Any, int], Iterable[str]]
    written = make(None, encoder.default, quoted, None, ":", ",", False, False, False)
    return written


def _packed_metadata(pushed_at: int, attempts: int) -> bytes:
    """Return ``fdb.tuple.pack((pushed_at, attempts))``."""
    if attempts == 0 and _SEVEN_FROM <= pushed_at < _SEVEN_TO:
        return _SEVEN + pushed_at.to_bytes(7, "big") + _ZERO
    return fdb.tuple.pack((pushed_at, attempts))


def _fast(data: bytes) -> tuple[str, int | None, int] | None:
    """Return the text and the metadata of the usual stored form, None for any other form."""
    pushed_at = _time_in_tail(data)
    if pushed_at is None:
        return None
    try:
        return data[1 : -_METADATA_BYTES - 1].decode(), pushed_at, 0
    except UnicodeDecodeError:
        return None


def _time_in_tail(data: bytes) -> int | None:
    """Return the push time at the end of the usual stored form, None for any other form."""
    end = len(data) - _METADATA_BYTES
    if data[end : end + 1] != _SEVEN or data[-1:] != _ZERO or data[:1] != _TEXT:
        return None
    if data.find(b"\x00") != end - 1:
        return None
    return int.from_bytes(data[end + 1 : -1], "big")


def _elements(data: bytes) -> tuple[str, int | None, int]:
    """Return the text and the metadata of any tuple that begins with a text."""
    text, *metadata = _unpack(data)
    if not isinstance(text, str):
        raise TypeError("the first element is not a string")
    return text, *_metadata(metadata)


def _unpack(data: bytes) -> tuple[Any, ...]:
    elements = tuples.unpack(data)
    if not elements:
        raise ValueError("the FDB tuple is empty")
    return elements


def _metadata(elements: list[Any]) -> tuple[int | None, int]:
    pushed_at, attempts = [*elements, None, None][:2]
    return (
        pushed_at if type(pushed_at) is int and 0 <= pushed_at < LATEST_PUSH else None,
        attempts if type(attempts) is int and 0 <= attempts < _MAX_ATTEMPTS else 0,
    )


def _check(value: Any) -> None:
    """Refuse keys that ``json`` would silently turn into strings, and too deep a nesting."""
    left = [(value, MAX_LEVELS)]
    while left:  # not by calls, because most values of tasks are nested
        value, levels = left.pop()
        if not isinstance(value, dict | list | tuple):
            continue
        if not levels:
            raise _too_deep()
        if isinstance(value, dict):
            if not _STRING.issuperset(map(type, value)):
                _check_keys(value)
            value = value.values()
        if not _SCALARS.issuperset(map(type, value)):
            left += zip(value, itertools.repeat(levels - 1))


def _check_levels(value: Any, levels: int = MAX_LEVELS) -> None:
    """Refuse too deep a nesting of tuples and lists."""
    if not isinstance(value, list | tuple):
        return
    if not levels:
        raise _too_deep()
    for member in value:
        if isinstance(member, list | tuple):
            _check_levels(member, levels - 1)


def _too_deep() -> ValueError:
    return ValueError(f"it is nested more than {MAX_LEVELS} levels deep, or contains itself")


def _check_keys(value: dict[Any, Any]) -> None:
    for key in value:
        if not isinstance(key, str):
            raise TypeError(f"an object's key must be a string, not {type(key).__name__}")


def strict_json() -> json.JSONDecoder:
    """Return a decoder of JSON that refuses the extensions of ``json``.

    These are NaN, infinities, and numbers beyond the range of a float.

    Integers are exact, up to Python's limit of digits. The decoder raises ``ValueError``, and
    ``RecursionError`` when the text is nested too deeply.
    """
    return json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:50]} is beyond the range of a float")
    return value
