"""Items as lines: of JSON, which ``queue_push --items`` reads back, of a table, and of a file.

The one format of the lines of ``queue_drain``, ``queue_pop --json``, ``queue_peek --json`` and
``queue_show --json``, as ``docs/how-to/push-a-file.md`` describes it:

- Every line has :data:`FIELDS`, in this order.
- A line about an item in any state has behind them what ``DETAILS`` of
  :mod:`fdbqueue.columns.items` says. A push ignores that, but for the state and the time of a
  delayed item.
- The line of an item that could not be decoded has ``undecodable`` and ``raw``, and cannot be
  read back.

Read back, the value, the priority, ``pushed_at`` and ``attempts`` are kept. Of the details,
``state`` and ``until`` keep a delayed item hidden; the rest is ignored. Items as the REST API
writes them have no other fields than these and ``lease``.

:class:`ItemsFile` is the file that ``queue_drain`` writes: whole lines, each item once, even after
a kill. A batch is leased, written, synchronised with the disk, and only then acknowledged. So after
a kill at any point all lines but those of the last batch are acknowledged, and only the last line
can be torn. To resume, the torn line is cut off, and the items of the last lines are removed from
the queue, because they may still be there.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import hashlib
import json
import os
import socket
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fdbqueue.columns import ValueKind, record
from fdbqueue.columns.items import COMMAND_COLUMNS, DETAILS, ItemColumn, ItemRow, shown
from fdbqueue.columns.text import clipped, printable, timestamp
from fdbqueue.exceptions import FdbQueueError, InvalidInput
from fdbqueue.management import formats
from fdbqueue.management.formats import Paint
from fdbqueue.service import (
    ITEM_STATES,
    MAX_ITEMS_A_CALL,
    Item,
    Queue,
    Undecodable,
    strict_json,
)

#: What every line of JSON has, in this order.
FIELDS = ("id", "priority", "value", "pushed_at", "attempts")
_NAMES = frozenset(FIELDS)
_KNOWN = _NAMES | {column.name for column in DETAILS} | {"lease"}
#: How much of a value a table shows if there is no terminal.
_VALUE_CHARACTERS = 60
#: In the name of a drain to a file: the most characters of the file's name, and of a digest.
_NAME_CHARACTERS, _DIGEST_BYTES = 60, 8
#: The lengths of ``2026-11-21T03:12:44.251094Z`` and ``2026-11-21T03:12:44Z``.
_TIME_CHARACTERS = (27, 20)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MAX_ATTEMPTS = 2**31 - 1
#: How a line of a drain begins.
_BEGINNING = b'{"id": "'
_BLOCK_BYTES = 1_000_000
_DECODER = strict_json()


def printer(
    queue: Queue,
    paint: Paint,
    *,
    as_json: bool,
    whole_values: bool = False,
    state: str = "ready",
) -> Callable[[list[Item]], list[str]]:
    """Return a function from items to lines.

    Args:
        queue: Their queue.
        paint: Returns a text in a style.
        as_json: Whether the lines are JSON, one for each item, not a table.
        whole_values: Whether a table shows values whole, because they are nowhere else.
        state: The state they are all in; for others than ``"ready"`` the lines have details.
    """
    if as_json:
        return lambda items: [item_line(queue, item, detailed=state != "ready") for item in items]
    most = None if whole_values else _VALUE_CHARACTERS
    value = ItemColumn(
        "value",
        "Value",
        lambda row: row,
        ValueKind(cell=lambda row: _value_text(row.item.value, most)),
        alarm=lambda row: "bad" if isinstance(row.item.value, Undecodable) else "",
    )
    lines = formats.table_of([*shown(COMMAND_COLUMNS, queue, state), value], paint)
    return lambda items: lines(ItemRow(item, queue) for item in items)


def item_line(queue: Queue, item: Item, *, detailed: bool = False) -> str:
    """Return an item as one line of JSON, for its queue to read it back.

    Args:
        queue: The queue.
        item: The item.
        detailed: Whether the line says more than what is kept when it is read back.
    """
    value, pushed_at = item.value, item.pushed_at
    found = {
        "id": item.id,
        "priority": item.priority,
        "value": None if isinstance(value, Undecodable) else queue.codec.to_json(value),
        "pushed_at": pushed_at and timestamp(pushed_at),
        "attempts": item.attempts,
    }
    if detailed:
        found |= record(DETAILS, ItemRow(item, queue))
    if isinstance(value, Undecodable):
        found |= {"undecodable": value.reason, "raw": value.raw}
    return formats.json_line(found)


def text_of(queue: Queue, batch: Iterable[Item]) -> str:
    """Return the items of a batch as a drain writes them, a line each, without the last end."""
    return "\n".join(item_line(queue, item) for item in batch)


def parse(text: str | bytes) -> Any:
    """Return the JSON value in a text; integers are exact.

    Raises:
        InvalidInput: It is not UTF-8, or not a JSON value.
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


def is_item(record: Any) -> bool:
    """Tell whether a JSON value has all the fields of an item's line."""
    return isinstance(record, dict) and record.keys() >= _NAMES


def item_of(record: Any) -> Item:
    """Return the item in a line; its value and its priority are as JSON has them.

    Raises:
        InvalidInput: It is not an item's line, or the item could not be decoded; it names the
            field that is missing, unknown or wrong.
    """
    _check_fields(record)
    state = record.get("state", "ready")
    if state not in ITEM_STATES:
        raise InvalidInput(reason=f"its state is not one of {', '.join(ITEM_STATES)}")
    until = _time(record, "until")
    if state == "delayed" and until is None:
        raise InvalidInput(reason="its state is delayed, but it has no until")
    if not isinstance(record["id"], str):
        raise InvalidInput(reason="its id is not a string")
    pushed_at, attempts = _time(record, "pushed_at"), record["attempts"]
    if type(attempts) is not int or not 0 <= attempts <= _MAX_ATTEMPTS:
        raise InvalidInput(reason="its attempts is not a whole number of at least 0")
    return Item(
        value=record["value"],
        priority=record["priority"],
        id=record["id"],
        pushed_at=pushed_at,
        attempts=attempts,
        state=state,
        until=until,
    )


def _check_fields(record: Any) -> None:
    """Refuse a line that has not the fields of an item, or has others."""
    if not isinstance(record, dict):
        raise InvalidInput(reason="it is not an item's line")
    for name in FIELDS:
        if name not in record:
            raise InvalidInput(reason=f"it is not an item's line: its field {name!r} is missing")
    if "undecodable" in record:
        raise InvalidInput(reason="its value could not be decoded")
    for name in record:
        if name not in _KNOWN:
            raise InvalidInput(reason=f"its field {formats.preview(name)} is not one of an item's")


def _value_text(value: Any, most: int | None) -> str:
    """Return the beginning of a value, or all of it, safe for a terminal."""
    text = formats.value_text(value)
    return printable(text) if most is None else clipped(text, most)


def _time(record: dict[str, Any], field: str) -> datetime.datetime | None:
    given = record.get(field)
    if given is None:
        return None
    if isinstance(given, str) and len(given) in _TIME_CHARACTERS and given.endswith("Z"):
        try:
            moment = datetime.datetime.fromisoformat(given[:-1] + "+00:00")
        except ValueError:
            moment = None
        if moment is not None and moment >= _EPOCH:
            return moment
    raise InvalidInput(
        reason=f"its {field} is not a UTC time such as 2026-11-21T03:12:44.251094Z, or null"
    )


class FileFailed(FdbQueueError):
    """The file {file!r} cannot be written: {reason}."""

    code = "file_failed"

    def __str__(self) -> str:
        return (self.__doc__ or "").rstrip(".").format_map(self.context)


class FileExists(FileFailed):
    """The file {file!r} already exists: --resume continues it, --force overwrites it."""

    code = "file_exists"


class NotADrain(FileFailed):
    """The file {file!r} was not written by queue_drain from such a queue; it was not changed."""

    code = "not_a_drain"


class ItemsFile(contextlib.AbstractContextManager["ItemsFile"]):
    """A file of items, locked while it is open.

    Args:
        path: Its path.
        resume: Whether to continue a file that exists.
        force: Whether to overwrite a file that exists; :meth:`cut` empties it.

    Raises:
        FileExists: It exists, and neither option is given.
        FileFailed: It cannot be opened, or another process writes to it.
    """

    def __init__(self, path: str, *, resume: bool = False, force: bool = False) -> None:
        self.path = path
        self.is_overwritten = force
        self._is_new = not (resume or force)
        with self._translated_errors():
            self._descriptor = _opened(path, must_be_new=self._is_new)
        try:
            with self._translated_errors():
                if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                    raise ValueError("it is not a regular file; redirect standard output to it")
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.size = os.fstat(self._descriptor).st_size
        except BaseException:
            os.close(self._descriptor)
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._is_new and not self.size:
            with contextlib.suppress(OSError):  # else the same command would be refused next time
                os.unlink(self.path)
        os.close(self._descriptor)

    @property
    def worker(self) -> str:
        """The name of the worker that drains to it: always the same on this machine."""
        found = os.fstat(self._descriptor)
        path = os.path.realpath(self.path)
        place = (socket.gethostname(), found.st_dev, found.st_ino, path)
        digest = hashlib.blake2b(repr(place).encode(), digest_size=_DIGEST_BYTES).hexdigest()
        return f"queue_drain {clipped(os.path.basename(path), _NAME_CHARACTERS)} {digest}"

    def cut_torn_line(self) -> None:
        """Cut off a last line that is not whole.

        Raises:
            NotADrain: It does not begin with a drain's line.
        """
        with self._translated_errors():
            whole = self._start_of_last(0)
            start = os.pread(self._descriptor, len(_BEGINNING), 0)
            torn = os.pread(self._descriptor, len(_BEGINNING), whole)
            if not all(_BEGINNING.startswith(text) for text in (start, torn)):
                raise NotADrain(file=self.path)
            if whole:
                _checked(next(self._lines(0)), self.path)
            if whole < self.size:
                self.cut(whole)

    def last_ids(self, *, ranked: bool) -> Iterator[str]:
        """Yield the ids of the last lines, at most as many as the largest batch has items.

        Args:
            ranked: Whether the items have priorities.

        Raises:
            NotADrain: One of them is not a line of a drain from such a queue.
        """
        with self._translated_errors():
            for line in self._lines(self._start_of_last(MAX_ITEMS_A_CALL)):
                record = _checked(line, self.path)
                if (record["priority"] is not None) != ranked:
                    raise NotADrain(file=self.path)
                yield record["id"]

    def count_lines(self) -> int:
        """Return how many whole lines there are."""
        with self._translated_errors():
            blocks = range(0, self.size, _BLOCK_BYTES)
            return sum(os.pread(self._descriptor, _BLOCK_BYTES, at).count(b"\n") for at in blocks)

    def write(self, data: bytes) -> None:
        """Append whole lines, and wait until the disk has them.

        Raises:
            FileFailed: They cannot be written; the file is unchanged.
        """
        start, rest = self.size, memoryview(data)
        try:
            with self._translated_errors():
                while rest:
                    written = os.pwrite(self._descriptor, rest, self.size)
                    self.size += written
                    rest = rest[written:]
                os.fsync(self._descriptor)
        except BaseException:
            self.cut(start)
            raise

    def cut(self, size: int) -> None:
        """Cut the file to a size in bytes."""
        self.size = size
        with self._translated_errors():
            os.ftruncate(self._descriptor, size)
            os.fsync(self._descriptor)

    @contextlib.contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except FileExistsError as error:
            raise FileExists(file=self.path) from error
        except BlockingIOError as error:
            raise FileFailed(file=self.path, reason="another process writes to it") from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise FileFailed(file=self.path, reason=reason) from error

    def _start_of_last(self, count: int) -> int:
        """Return where the last ``count`` whole lines start; for 0, where the last one ends."""
        end = self.size
        while end > 0:
            begin = max(0, end - _BLOCK_BYTES)
            block = os.pread(self._descriptor, end - begin, begin)
            at = len(block)
            while (at := block.rfind(b"\n", 0, at)) >= 0:
                if not count:
                    return begin + at + 1
                count -= 1
            end = begin
        return 0

    def _lines(self, start: int) -> Iterator[bytes]:
        """Yield the lines from an offset on at which a line begins."""
        with open(os.dup(self._descriptor), "rb") as stream:
            stream.seek(start)
            yield from stream


def _opened(path: str, *, must_be_new: bool) -> int:
    """Open a file, and make sure that it is still there after a crash."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (os.O_EXCL if must_be_new else 0)
    descriptor = os.open(path, flags, 0o666)
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_CLOEXEC)
    with contextlib.suppress(OSError):  # some file systems cannot
        os.fsync(folder)
    os.close(folder)
    return descriptor


def _checked(line: bytes, path: str) -> dict[str, Any]:
    """Return the record in a line, if a drain wrote it."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise NotADrain(file=path) from error
    if not isinstance(record, dict) or tuple(record) != FIELDS or not isinstance(record["id"], str):
        raise NotADrain(file=path)
    return record
