"""Read NDJSON, one JSON value a line, as the items to push into a queue."""

from __future__ import annotations

import argparse
import base64
import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Literal

from fdbqueue.exceptions import (
    FdbQueueError,
    InvalidInput,
    InvalidPriority,
    KeyTooLarge,
    PushInterrupted,
    ValueTooLarge,
)
from fdbqueue.management import records
from fdbqueue.management.exits import text_of
from fdbqueue.management.interrupts import Interrupts
from fdbqueue.management.prompts import items
from fdbqueue.management.rendering import preview
from fdbqueue.service import Queue, strict_json
from fdbqueue.service.limits import MAX_VALUE_BYTES
from fdbqueue.service.push import Entry
from fdbqueue.service.tools.load import Mark

#: A value takes at most three times its stored bytes, however it is escaped.
_LINE_BYTES_A_BYTE = 10
_ITEM_FOUND = (
    "it is a whole item, as queue_drain and --json write it: give --items to read items back, or "
    "--values to push such lines as values"
)
_BLOCK_BYTES = 1_000_000
_DIGEST_BYTES = 16
#: What a last line may have got since it was pushed.
_LINE_ENDS = (b"", b"\n", b"\r\n")


class InputFailed(FdbQueueError):
    """The input cannot be read."""

    code = "input_failed"


class InputChanged(FdbQueueError):
    """The input does not begin with what was pushed of it; nothing was pushed."""

    code = "input_changed"


class ItemFound(InvalidInput):
    """The line is an item, and neither --items nor --values was given; nothing was written."""

    code = "item_found"


class Lines:
    """The lines of an NDJSON stream, read as they are asked for.

    One that is too long comes cut, and the rest of it is passed by.

    Args:
        stream: The bytes, in UTF-8.
        interrupts: Let Ctrl-C in while a line is waited for.
        max_line_bytes: The longest line.
    """

    def __init__(self, stream: BinaryIO, interrupts: Interrupts, max_line_bytes: int) -> None:
        self._stream = stream
        self._interrupts = interrupts
        self.max_line_bytes = max_line_bytes
        self._digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        #: How much has been read.
        self.size_bytes = 0
        #: The number of the line read last, the first being 1.
        self.number = 0

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self.number += 1
            line = self._read(self.max_line_bytes + 1)
            if not line:
                return
            rest = line
            while len(rest) > self.max_line_bytes and not rest.endswith(b"\n"):
                rest = self._read(self.max_line_bytes + 1)
            yield line

    def skip(self, mark: Mark) -> None:
        """Read what was pushed before.

        Raises:
            InputChanged: It is something else.
        """
        self.number = mark.lines
        last = b""
        while self.size_bytes < mark.size_bytes:
            last = self._read(min(_BLOCK_BYTES, mark.size_bytes - self.size_bytes), is_line=False)
            if not last:
                raise InputChanged(bytes=self.size_bytes, pushed_bytes=mark.size_bytes)
        is_same = self._digest.digest() == mark.digest
        rest = b"" if not last or last.endswith(b"\n") else self._read(len(_LINE_ENDS[-1]))
        if not is_same or rest not in _LINE_ENDS:
            raise InputChanged(lines=mark.lines)

    def mark(self, pushed: int) -> Callable[[], Mark]:
        """Return what tells how far this has been read now, with so many items pushed."""
        size, number, digest = self.size_bytes, self.number, self._digest.copy()
        return lambda: Mark(size, number, digest.digest(), pushed)

    def _read(self, size: int, *, is_line: bool = True) -> bytes:
        read = self._stream.readline if is_line else self._stream.read
        try:
            with self._interrupts.let_in():
                data = read(size)
        except OSError as error:
            reason = f"it cannot be read: {error.strerror}"
            raise InputFailed(line=self.number, reason=reason) from error
        self._digest.update(data)
        self.size_bytes += len(data)
        return data


class Items:
    """The items of an NDJSON stream, ready to be pushed, each with how far it is read then.

    Blank lines are passed by. Each error is an :class:`InvalidInput` with a ``reason``, about
    the line ``lines.number``.

    Args:
        queue: The queue they are for.
        lines: The lines.
        priority: The priority of all of them; None for that of each item.
        priority_field: The field of each that holds its priority instead.
        form: ``"values"``, ``"items"`` for lines that ``queue_drain`` wrote, or None for values
            that do not look like such lines.
        skipped: Called with what is wrong with a bad line; None stops at the first.
        pushed: How many items were pushed before.
    """

    def __init__(
        self,
        queue: Queue,
        lines: Lines,
        priority: float | None,
        priority_field: str | None,
        *,
        form: Literal["values", "items"] | None = None,
        skipped: Callable[[str], None] | None = None,
        pushed: int = 0,
    ) -> None:
        self._queue = queue
        self._lines = lines
        self._priority = None if queue.kind == "fifo" else priority
        self._field = priority_field
        if form == "items" and priority is None:
            self._field = "priority"
        self._form = form
        self._skipped = skipped
        self._read = pushed

    def __iter__(self) -> Iterator[tuple[Entry, Callable[[], Mark]]]:
        for line in self._lines:
            if line.isspace():
                continue
            try:
                entry = self._entry(line)
            except InvalidInput as error:
                if self._skipped is None or self.is_usage(error):
                    raise
                self._skipped(self._reason(error))
                continue
            self._read += 1
            yield entry, self._lines.mark(self._read)

    def is_usage(self, error: BaseException | None) -> bool:
        """Tell whether an error comes of an option that is wrong or missing, not of a line."""
        if isinstance(error, PushInterrupted):
            error = error.__cause__
        is_priority = isinstance(error, InvalidPriority) and self._field is None
        return is_priority or isinstance(error, ItemFound)

    def explain(self, error: FdbQueueError) -> str:
        """Say where and why a push of these items stopped, and how many were pushed."""
        if isinstance(error, PushInterrupted) and error.__cause__ is not None:
            reason, pushed = self._reason(error.__cause__), error.context["pushed"]
        else:
            reason, pushed = self._reason(error), 0
            if isinstance(error, InputChanged):  # says that itself
                return reason + "."
        return f"{reason}. Pushed {items(pushed)} before that."

    def _entry(self, line: bytes) -> Entry:
        if len(line) > self._lines.max_line_bytes:
            raise InvalidInput(reason=f"it is longer than {self._lines.max_line_bytes} bytes")
        value = parse(line.rstrip(b"\r\n"))
        if self._form == "items":
            item = records.item_of(value)
            item = dataclasses.replace(item, value=self._stored(item.value))
            return self._queue.parts.writer.entry_moved(item, self._priority)
        if self._form is None and records.is_record(value):
            raise ItemFound(reason=_ITEM_FOUND)
        priority = self._priority if self._field is None else field(value, self._field)
        return self._queue.parts.writer.entry(self._stored(value), priority)

    def _stored(self, value: Any) -> Any:
        return from_base64(value) if self._queue.codec.name == "bytes" else value

    def _reason(self, error: BaseException) -> str:
        if isinstance(error, InputFailed):
            return f"Line {error.context['line']}: {error.context['reason']}"
        if not isinstance(error, InvalidInput) or isinstance(error, KeyTooLarge):
            return text_of(error)
        place = f"Line {self._lines.number}"
        if isinstance(error, InvalidPriority) and self._field is None:
            return f"--priority: {_what_is_wrong(error)}"
        if isinstance(error, InvalidPriority):
            place += f", field {self._field!r}"
        return f"{place}: {_what_is_wrong(error)}"


def max_line_bytes(queue: Queue) -> int:
    """Return how long a line with an item of a queue may be."""
    return _LINE_BYTES_A_BYTE * max(MAX_VALUE_BYTES, queue.options.max_value_bytes)


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


def number(text: str) -> int | float:
    """Return the number in a text, for argparse; integers are exact.

    Raises:
        ArgumentTypeError: It is no JSON number.
    """
    try:
        found = parse(text)
    except InvalidInput as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from error
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return found


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
