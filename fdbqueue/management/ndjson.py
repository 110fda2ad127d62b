"""Read NDJSON, one JSON value a line, as the items to push into a queue."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from fdbqueue.exceptions import (
    FdbQueueError,
    InvalidInput,
    InvalidPriority,
    KeyTooLarge,
    PushInterrupted,
    ValueTooLarge,
)
from fdbqueue.management.interrupts import Interrupts
from fdbqueue.management.rendering import preview
from fdbqueue.service import Queue, strict_json

#: The longest value, 100,000 bytes, is shorter than this however it is escaped.
MAX_LINE_BYTES = 1_000_000


class Lines:
    """The values of an NDJSON stream, read as they are asked for.

    Blank lines are skipped. Each error is an :class:`InvalidInput` with a ``reason``, about
    the line :attr:`number`.

    Args:
        stream: The bytes, in UTF-8.
        interrupts: Let Ctrl-C in while a line is waited for.
    """

    def __init__(self, stream: BinaryIO, interrupts: Interrupts) -> None:
        self._stream = stream
        self._interrupts = interrupts
        #: The number of the line read last, the first being 1.
        self.number = 0

    def __iter__(self) -> Iterator[Any]:
        while line := self._read():
            if line.strip():
                yield parse(line.rstrip(b"\r\n"))

    def _read(self) -> bytes:
        self.number += 1
        try:
            with self._interrupts.let_in():
                line = self._stream.readline(MAX_LINE_BYTES + 1)
        except OSError as error:
            raise InvalidInput(reason=f"it cannot be read: {error.strerror}") from error
        if len(line) > MAX_LINE_BYTES:
            raise InvalidInput(reason=f"it is longer than {MAX_LINE_BYTES} bytes")
        return line


class Items:
    """The items of an NDJSON stream, as the queue's ``push_many`` takes them.

    Args:
        queue: The queue they are for.
        lines: The values.
        priority: The priority of all of them.
        priority_field: The field of each that holds its priority instead.
    """

    def __init__(
        self, queue: Queue, lines: Lines, priority: float, priority_field: str | None
    ) -> None:
        self._queue = queue
        self._lines = lines
        self._priority = priority
        self._field = priority_field

    def __iter__(self) -> Iterator[Any]:
        for value in self._lines:
            stored = from_base64(value) if self._queue.codec.name == "bytes" else value
            if self._queue.kind == "fifo":
                yield stored
            else:
                yield stored, self._priority_of(value)

    def explain(self, error: FdbQueueError) -> str:
        """Say where and why a push of these items stopped, and how many were pushed."""
        if isinstance(error, PushInterrupted) and error.__cause__ is not None:
            reason, pushed = self._reason(error.__cause__), error.context["pushed"]
        else:
            reason, pushed = self._reason(error), 0
        return f"{reason}. Pushed {pushed} items before that."

    def _priority_of(self, value: Any) -> Any:
        return self._priority if self._field is None else field(value, self._field)

    def _reason(self, error: BaseException) -> str:
        if not isinstance(error, InvalidInput) or isinstance(error, KeyTooLarge):
            return str(error)
        place = f"Line {self._lines.number}"
        if isinstance(error, InvalidPriority):
            place += f", field {self._field!r}"
        return f"{place}: {_what_is_wrong(error)}"


def parse(text: str | bytes) -> Any:
    """Return the JSON value in a text; integers are exact.

    Raises:
        InvalidInput: It is not UTF-8, or no JSON value.
    """
    try:
        return _DECODER.decode(text if isinstance(text, str) else text.decode())
    except UnicodeDecodeError as error:
        raise InvalidInput(reason=f"it is not UTF-8 at byte {error.start + 1}") from error
    except json.JSONDecodeError as error:
        raise InvalidInput(reason=f"it is not JSON: {error.msg}, column {error.colno}") from error
    except RecursionError:
        raise InvalidInput(reason="the JSON is nested too deeply") from None
    except ValueError as error:
        raise InvalidInput(reason=str(error)) from error


def from_base64(value: Any) -> bytes:
    """Return the bytes that a JSON string holds.

    Raises:
        InvalidInput: It is no string, or not base64.
    """
    if not isinstance(value, str):
        raise InvalidInput(reason="a queue of bytes needs a JSON string holding base64")
    try:
        return base64.b64decode(value, validate=True)
    except ValueError as error:
        raise InvalidInput(reason=f"it is not base64: {error}") from error


def field(record: Any, path: str) -> Any:
    """Return a field of a record.

    Args:
        record: A JSON value.
        path: The field's name; a dot leads into an object, as in ``properties.mag``.

    Raises:
        InvalidPriority: The record has no such field.
    """
    for name in path.split("."):
        if not isinstance(record, dict) or name not in record:
            raise InvalidPriority(reason="it is missing")
        record = record[name]
    return record


def _what_is_wrong(error: InvalidInput) -> str:
    if isinstance(error, ValueTooLarge):
        return "the value takes {size_bytes} bytes, the limit is {limit_bytes}".format_map(
            error.context
        )
    reason: str = error.context["reason"]
    if "priority" in error.context:
        return f"{reason}: {preview(error.context['priority'])}"
    return reason


_DECODER = strict_json.decoder()
