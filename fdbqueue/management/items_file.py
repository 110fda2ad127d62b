"""The file that ``queue_drain`` writes: whole lines, each item once, even after a kill.

A batch is leased, written, synchronised with the disk, and only then acknowledged. So after a
kill at any point all lines but those of the last batch are acknowledged, and only the last line
can be torn. To resume, the torn line is cut off, and the items of the last lines are removed
from the queue, where they may still be.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import stat
from collections.abc import Iterator
from typing import Any

from fdbqueue.exceptions import FdbQueueError
from fdbqueue.management.item_lines import FIELDS
from fdbqueue.service import MAX_ITEMS, OWNER_BYTES

_BEGINNING = b'{"id": "'
_BLOCK_BYTES = 1_000_000


class FileExists(FdbQueueError):
    """The file already exists: --resume continues it, --force overwrites it."""

    code = "file_exists"

    def __str__(self) -> str:
        return (
            f"The file {self.context['file']!r} already exists: --resume continues it, --force "
            "overwrites it"
        )


class NotADrain(FdbQueueError):
    """The file was not written by queue_drain from such a queue; it was not changed."""

    code = "not_a_drain"

    def __str__(self) -> str:
        return (
            f"The file {self.context['file']!r} was not written by queue_drain from such a queue; "
            "it was not changed"
        )


class FileFailed(FdbQueueError):
    """The file cannot be written."""

    code = "file_failed"

    def __str__(self) -> str:
        return f"The file {self.context['file']!r} cannot be written: {self.context['reason']}"


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
    def owner(self) -> bytes:
        """The file's name as an owner of batches: always the same on this machine."""
        found = os.fstat(self._descriptor)
        place = (socket.gethostname(), found.st_dev, found.st_ino, os.path.realpath(self.path))
        return hashlib.blake2b(repr(place).encode(), digest_size=OWNER_BYTES).digest()

    def cut_torn_line(self) -> None:
        """Cut off a last line that is not whole.

        Raises:
            NotADrain: It does not begin with a drain's line.
        """
        with self._translated_errors():
            whole = self._end_of_lines()
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
            for line in self._lines(self._start_of_last(MAX_ITEMS)):
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

    def _end_of_lines(self) -> int:
        """Return where the last whole line ends."""
        return self._start_of_last(0)

    def _start_of_last(self, count: int) -> int:
        """Return where the last ``count`` whole lines start."""
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
