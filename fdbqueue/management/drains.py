"""Where the items go that ``queue_drain`` takes off a queue, a batch at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Protocol

from fdbqueue.exceptions import LeaseLost
from fdbqueue.management import rendering
from fdbqueue.management.exits import text_of
from fdbqueue.management.outputs import ItemsFile
from fdbqueue.service import Batch, Queue


class Sink(Protocol):
    """Takes the batches of a drain."""

    #: How many items were written of which nobody knows whether they were acknowledged.
    unsure: int

    def take(self, batch: Batch) -> None:
        """Put a batch where it shall be, and acknowledge it; or else give it back, and raise."""


class FileSink:
    """Write items to a file, each once.

    Args:
        queue: The queue they come from.
        file: The file.
    """

    def __init__(self, queue: Queue, file: ItemsFile) -> None:
        self.unsure = 0
        self._queue = queue
        self._file = file

    def take(self, batch: Batch) -> None:
        """Write a batch, wait for the disk, and acknowledge it.

        Where its lease is over by then, it is cut off again: it is back in the queue. Where
        nobody knows, it stays, for ``--resume`` to find out.
        """
        start = self._file.size
        try:
            self._file.write(_lines(batch).encode())
        except BaseException:
            _give_back(self._queue, batch)
            raise
        self.unsure = len(batch)
        try:
            self._queue.ack_batch(batch)
        except LeaseLost:
            self._file.cut(start)
            self.unsure = 0
            raise
        self.unsure = 0


class StreamSink:
    """Write items to standard output; each at least once.

    Args:
        queue: The queue they come from.
        write: Writes a text, and has it leave this process.
    """

    unsure = 0  # what is not acknowledged comes again

    def __init__(self, queue: Queue, write: Callable[[str], None]) -> None:
        self._queue = queue
        self._write = write

    def take(self, batch: Batch) -> None:
        """Write a batch, and acknowledge it."""
        try:
            self._write(_lines(batch))
        except BaseException:
            _give_back(self._queue, batch)
            raise
        self._queue.ack_batch(batch)


class Discard:
    """Drop items.

    Args:
        queue: The queue they come from.
    """

    unsure = 0

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def take(self, batch: Batch) -> None:
        """Acknowledge a batch."""
        self._queue.ack_batch(batch)


def begin(queue: Queue, file: ItemsFile) -> int:
    """Finish what a drain to this file left behind that was killed.

    A file to be overwritten is emptied, once the queue is known to be there.

    Returns:
        How many items it had written that were still in the queue.
    """
    if file.is_overwritten:
        queue.settle_batch(file.owner)
        file.cut(0)
        return 0
    file.cut_torn_line()
    return queue.settle_batch(file.owner, file.last_ids(ranked=queue.kind == "priority"))


def _lines(batch: Batch) -> str:
    lines = [rendering.item_line(item) for item in batch]
    return "\n".join(lines) + "\n"


def _give_back(queue: Queue, batch: Batch) -> None:
    """Put a batch back now, if that can be done: otherwise its lease runs out."""
    with contextlib.suppress(Exception):
        queue.return_batch(batch)


def explain(error: BaseException, done: int, queue: Queue, sink: Sink) -> str:
    """Say why a drain stopped, and what of its items."""
    text = text_of(error)
    if isinstance(error, LeaseLost):
        text = "Writing took longer than --lease-seconds, so the last batch went back"
    text = f"{text}. {done:,} items of {queue.name!r} are done."
    if sink.unsure:
        text += (
            f" The last {sink.unsure:,} lines of the file may be in the queue, too: go on with "
            "--resume."
        )
    return text
