"""NDJSON, one JSON value per line, read as items to push into a queue.

:class:`Lines` reads lines, and at each has a mark of this place: how many bytes and lines it has
read, and their digest. :class:`Items` makes an entry of each line, and yields it with its mark.
:mod:`~fdbqueue.service.tools.keyed_push` pushes the entries portion by portion; with ``--resume``
it stores the mark of the last one in the same transaction. To resume, the lines up to that mark are
read and skipped; if their digest is another, this is not the input that was pushed, and nothing is
pushed.

Ctrl-C is allowed while a line is awaited, and deferred while a batch is pushed.
"""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import hashlib
import io
import select
from collections.abc import Callable, Iterator
from typing import Any, Literal

from fdbqueue.exceptions import (
    FdbQueueError,
    IdempotencyKeyReused,
    InvalidInput,
    InvalidPriority,
    KeyTooLarge,
    PushInterrupted,
    ValueTooLarge,
    message_of,
)
from fdbqueue.management import item_lines
from fdbqueue.management.exit_codes import command_error, error_text, usage_error
from fdbqueue.management.formats import item_count, preview
from fdbqueue.management.signals import DeferredInterrupts
from fdbqueue.service import DEFAULT_MAX_VALUE_BYTES, Queue
from fdbqueue.service.entries import Entry
from fdbqueue.service.tools.keyed_push import SourceMark, entry_of, moved_entry_of

#: A value takes at most three times its stored bytes, however it is escaped; an item has more.
_LINE_BYTES_A_BYTE = 10
_ITEM_FOUND = (
    "it is a whole item, as queue_drain and --json print it: use --items to push it as an item, "
    "or --values to push the line as a value"
)
_BLOCK_BYTES = 1_000_000
#: After this time without input, the lines read so far are pushed.
_PAUSE_SECONDS = 0.1
_DIGEST_BYTES = 16
#: What may follow the last line that was pushed.
_LINE_ENDS = (b"", b"\n", b"\r\n")


class InputFailed(FdbQueueError):
    """The input cannot be read."""

    code = "input_failed"


class InputChanged(FdbQueueError):
    """The input does not begin with the lines pushed before; nothing was pushed.

    To push it from its first line on, leave out --resume, or give it another --job.
    """

    code = "input_changed"


class ItemFound(InvalidInput):
    """The line is an item, and neither --items nor --values is given; nothing was written."""

    code = "item_found"


class NotOneValue(InvalidInput):
    """The input has not one value, which a push under a unique key needs; nothing was written."""

    code = "not_one_value"


class Lines:
    """The lines of an NDJSON stream, read one by one.

    A line that is too long is cut, and the rest of it is skipped. If the next line of a pipe or
    a terminal takes long to come, an empty one comes first: what was read need not wait for it.
    A byte order mark at the beginning is passed over.

    Args:
        queue: The queue, whose longest value limits a line.
        stream: The bytes, in UTF-8.
        interrupts: Allow Ctrl-C while waiting for a line.
    """

    def __init__(
        self, queue: Queue, stream: io.BufferedReader, interrupts: DeferredInterrupts
    ) -> None:
        self._stream = stream
        self._interrupts = interrupts
        longest_value = max(DEFAULT_MAX_VALUE_BYTES, queue.options.max_value_bytes)
        self.max_line_bytes = _LINE_BYTES_A_BYTE * longest_value
        self._is_ready = _readiness(stream)
        #: What was read of the stream, from an offset on not of a line yet.
        self._block, self._at = b"", 0
        self._digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        #: How many bytes have been read.
        self.size_bytes = 0
        #: The number of the last line read, from 1 on.
        self.number = 0

    def __iter__(self) -> Iterator[bytes]:
        while True:
            if self.number and not self._has_line() and not self._waits_little():
                yield b""
            self.number += 1
            line = self._read(self.max_line_bytes + 1)
            if not line:
                return
            rest = line
            while len(rest) > self.max_line_bytes and not rest.endswith(b"\n"):
                rest = self._read(self.max_line_bytes + 1)
            # Programs on Windows put a mark of UTF-8 before the first line, which is none of it.
            yield line.removeprefix(codecs.BOM_UTF8) if self.number == 1 else line

    def skip(self, mark: SourceMark) -> None:
        """Skip the lines that were pushed before.

        Raises:
            InputChanged: The input begins with other lines.
        """
        self.number = mark.lines
        last = b""
        while self.size_bytes < mark.size_bytes:
            last = self._read(min(_BLOCK_BYTES, mark.size_bytes - self.size_bytes), is_line=False)
            if not last:
                raise InputChanged
        is_same = self._digest.digest() == mark.digest
        rest = b"" if not last or last.endswith(b"\n") else self._read(len(_LINE_ENDS[-1]))
        if not is_same or rest not in _LINE_ENDS:
            raise InputChanged

    def mark(self, pushed: int) -> Callable[[], SourceMark]:
        """Return a function to the mark of this place, with the number of items pushed."""
        size, number, digest = self.size_bytes, self.number, self._digest.copy()
        return lambda: SourceMark(size, number, digest.digest(), pushed)

    def _has_line(self) -> bool:
        """Tell whether a whole line was read of the stream already."""
        return self._block.find(b"\n", self._at) >= 0

    def _waits_little(self) -> bool:
        """Wait a little for more input, and tell whether some has come."""
        with self._interrupts.allowed():
            return self._is_ready(_PAUSE_SECONDS)

    def _read(self, size: int, *, is_line: bool = True) -> bytes:
        """Return the next bytes, at most some; if a line is wanted, at most to its end."""
        while True:
            found = self._block.find(b"\n", self._at, self._at + size) if is_line else -1
            end = min(self._at + size, len(self._block)) if found < 0 else found + 1
            if found >= 0 or end - self._at == size or not self._read_block():
                break
        data = self._block[self._at : end]
        self._at = end
        self._digest.update(data)
        self.size_bytes += len(data)
        return data

    def _read_block(self) -> bool:
        """Read more of the stream; False at its end."""
        try:
            with self._interrupts.allowed():
                more = self._stream.read1(_BLOCK_BYTES)
        except OSError as error:
            reason = f"it cannot be read: {error.strerror}"
            raise InputFailed(line=self.number, reason=reason) from error
        if more:
            self._block, self._at = self._block[self._at :] + more, 0
        return bool(more)


class Items:
    """The items of an NDJSON stream, ready to be pushed, each with its mark in the stream.

    Blank lines are skipped. Each error is an :class:`InvalidInput` with a ``reason``, about
    the line ``lines.number``.

    Args:
        queue: The queue to push them into.
        lines: The lines.
        priority: The priority of all of them; None for 0, or for that of each item's line.
        priority_field: The field of each value that holds its priority instead.
        form: ``"values"``, ``"items"`` for lines that ``queue_drain`` wrote, or None for values
            that do not look like such lines.
        skipped: Called with the reason why a line is bad; None to stop at the first bad line.
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
        self._field = priority_field
        if priority is None and form == "items":
            self._field = "priority"
        elif priority is None:
            priority = 0
        self._priority = None if queue.priority_type is None else priority
        self._form = form
        self._skipped = skipped
        self._read = pushed

    def __iter__(self) -> Iterator[tuple[Entry, Callable[[], SourceMark]] | None]:
        for line in self._lines:
            if not line:
                yield None
                continue
            if line.isspace():
                continue
            try:
                entry = self._entry(line)
            except InvalidInput as error:
                if self._skipped is None or self._is_usage(error):
                    raise
                self._skipped(self._reason(error))
                continue
            self._read += 1
            yield entry, self._lines.mark(self._read)

    def only(self) -> tuple[Any, Any]:
        """Return the value and the priority of the only line.

        Raises:
            NotOneValue: There is no line, or another one.
            InvalidInput: It is a bad line.
        """
        values = (line for line in self._lines if line.strip())
        line = next(values, None)
        if line is None:
            raise NotOneValue(reason="there is no value")
        found, number = self._value_and_priority(self._parsed(line)), self._lines.number
        if next(values, None) is not None:
            raise NotOneValue(reason="this is a second value, and --unique pushes one")
        self._lines.number = number  # what is wrong with the value is wrong with its line
        return found

    def _is_usage(self, error: BaseException | None) -> bool:
        """Tell whether an option is wrong or missing, and not a line."""
        if isinstance(error, PushInterrupted):
            error = error.__cause__
        is_priority = isinstance(error, InvalidPriority) and self._field is None
        return is_priority or isinstance(error, ItemFound | NotOneValue)

    @contextlib.contextmanager
    def explain_errors(self, reached: Callable[[], int] = lambda: 0) -> Iterator[None]:
        """End the command with where and why a push of these items stopped, and how many it pushed.

        Args:
            reached: Returns up to which line all are pushed.

        Raises:
            CommandError: The push raised an error of the service.
        """
        try:
            yield
        except FdbQueueError as error:
            if self._is_usage(error):
                raise usage_error(self._explain(error, reached())) from error
            raise command_error(error, self._explain(error, reached())) or error from error

    def _explain(self, error: FdbQueueError, line: int) -> str:
        if isinstance(error, PushInterrupted) and error.__cause__ is not None:
            reason, pushed = self._reason(error.__cause__), error.context["pushed"]
        else:
            reason, pushed = self._reason(error), 0
            if isinstance(error, InputChanged):  # its text says that nothing was pushed
                return reason + "."
        text = f"{reason}. Pushed {item_count(pushed)} before that"
        return f"{text}, up to line {line:,}." if line else f"{text}."

    def _parsed(self, line: bytes) -> Any:
        if len(line) > self._lines.max_line_bytes:
            raise InvalidInput(reason=f"it is longer than {self._lines.max_line_bytes} bytes")
        return item_lines.parse(line.rstrip(b"\r\n"))

    def _entry(self, line: bytes) -> Entry:
        value = self._parsed(line)
        if self._form == "items":
            item = item_lines.item_of(value)
            item = dataclasses.replace(item, value=self._value(item.value))
            return moved_entry_of(self._queue, item, self._priority)
        return entry_of(self._queue, *self._value_and_priority(value))

    def _value_and_priority(self, value: Any) -> tuple[Any, Any]:
        if self._form is None and item_lines.is_item(value):
            raise ItemFound(reason=_ITEM_FOUND)
        priority = self._priority if self._field is None else _field(value, self._field)
        return self._value(value), priority

    def _value(self, from_json: Any) -> Any:
        try:
            return self._queue.codec.from_json(from_json)
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidInput(reason=message_of(error)) from error

    def _reason(self, error: BaseException) -> str:
        if isinstance(error, IdempotencyKeyReused):
            return "Another process pushes the same input"
        if isinstance(error, InputFailed):
            return f"Line {error.context['line']}: {error.context['reason']}"
        if not isinstance(error, InvalidInput) or isinstance(error, KeyTooLarge):
            return error_text(error)
        place = f"Line {self._lines.number}"
        if isinstance(error, InvalidPriority) and self._field is None:
            return f"--priority: {_invalid_reason(error)}"
        if isinstance(error, InvalidPriority):
            place += f", field {self._field!r}"
        return f"{place}: {_invalid_reason(error)}"


def _readiness(stream: io.BufferedReader) -> Callable[[float], bool]:
    """Return a function that waits for input of a stream, and tells whether there is some."""
    poll = select.poll()
    try:
        poll.register(stream.fileno(), select.POLLIN)
    except OSError:  # it is not one of the system's, and never waits
        return lambda _: True
    return lambda seconds: bool(poll.poll(seconds * 1_000))


def _field(record: Any, path: str) -> Any:
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


def _invalid_reason(error: InvalidInput) -> str:
    if isinstance(error, ValueTooLarge):
        return "the value takes {size_bytes} bytes, the limit is {limit_bytes}".format_map(
            error.context
        )
    reason: str = error.context.get("reason") or error_text(error)
    if "priority" in error.context:
        return f"{reason}: {preview(error.context['priority'])}"
    return reason
