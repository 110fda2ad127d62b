"""Drain a queue: what ``queue_drain`` does.

A drain to a file, to standard output or to nowhere leases a batch, writes it to this destination,
and only then acknowledges it: killed at any point, it loses nothing.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable

from fdbqueue.exceptions import InvalidInput, LeaseLost
from fdbqueue.management.console import Console
from fdbqueue.management.emptying import Emptying
from fdbqueue.management.exit_codes import error_text, explain_errors, usage_error
from fdbqueue.management.formats import item_count
from fdbqueue.management.item_lines import FileExists, ItemsFile, NotADrain, item_line
from fdbqueue.management.signals import defer_interrupts
from fdbqueue.service import Batch, Batcher, End, Queue


class Sink:
    """Write batches, and acknowledge each; so an item is written at least once.

    Args:
        queue: The queue they come from.
        write: Writes a batch, and flushes it.
    """

    #: How many items were written to the file, but are not known to be acknowledged.
    unsure = 0

    def __init__(self, queue: Queue, write: Callable[[Batch], None]) -> None:
        self._queue = queue
        self._write = write

    def take(self, batch: Batch) -> None:
        """Write a batch, and acknowledge it."""
        self._write_or_requeue(batch)
        self._queue.ack_batch(batch)

    def _write_or_requeue(self, batch: Batch) -> None:
        try:
            self._write(batch)
        except BaseException:
            with contextlib.suppress(Exception):  # then its lease expires
                self._queue.return_batch(batch)
            raise


class FileSink(Sink):
    """Write items to a file, each once.

    Args:
        queue: The queue they come from.
        file: The file.
    """

    def __init__(self, queue: Queue, file: ItemsFile) -> None:
        super().__init__(queue, lambda batch: file.write(f"{_text(queue, batch)}\n".encode()))
        self._file = file

    def take(self, batch: Batch) -> None:
        """Write a batch, wait for the disk, and acknowledge it.

        If its lease has expired by then, the batch is cut off the file, because it is back in
        the queue. If the outcome is unknown, it stays for ``--resume`` to find out.
        """
        start = self._file.size
        self._write_or_requeue(batch)
        self.unsure = len(batch)
        try:
            self._queue.ack_batch(batch)
        except LeaseLost:
            self._file.cut(start)
            self.unsure = 0
            raise
        self.unsure = 0


class Drain:
    """Take batches off a queue, up to a limit, and write them somewhere.

    Args:
        queue: The queue.
        console: Shows the progress, and is where items go to standard output.
        emptying: How far to go.
        end: ``"min"`` or ``"max"``.
        batch_items: The most items in a batch.
        lease_seconds: How long each batch is leased.
    """

    def __init__(
        self,
        queue: Queue,
        console: Console,
        emptying: Emptying,
        *,
        end: End,
        batch_items: int,
        lease_seconds: float,
    ) -> None:
        self._queue = queue
        self._console = console
        self._emptying = emptying
        self._end = end
        self._batch_items = batch_items
        self._lease_seconds = lease_seconds

    def to_file(self, path: str, *, resume: bool, force: bool) -> int:
        """Write the items to a file, and return how many."""
        try:
            file = ItemsFile(path, resume=resume, force=force)
        except FileExists as error:
            raise usage_error(str(error)) from error
        with file:
            removed = _settle(self._queue, file)
            if file.size:
                self._console.note(f"Resuming {file.path} after line {file.count_lines():,}.")
            if removed:
                self._console.note(f"Removed {item_count(removed)} that the file has already.")
            return self._into(FileSink(self._queue, file), owner=file.owner)

    def to_stream(self) -> int:
        """Write the items to standard output, and return how many."""

        def write(batch: Batch) -> None:
            lines = _text(self._queue, batch)  # printed as one: all are in the pipe, or requeued
            self._console.check_output()
            self._console.print_lines([lines])

        return self._into(Sink(self._queue, write), bar=not self._console.is_terminal)

    def discard(self) -> int:
        """Remove the items for good, and return how many."""
        return self._into(Sink(self._queue, lambda _: None))

    def _into(self, sink: Sink, *, owner: bytes | None = None, bar: bool = True) -> int:
        batcher = Batcher(
            self._queue,
            end=self._end,
            limit=self._emptying.limit,
            batch_items=self._batch_items,
            seconds=self._lease_seconds,
            owner=owner,
        )
        with (
            defer_interrupts() as interrupts,
            self._emptying.progress(bar=bar) as progress,
            explain_errors(lambda error: explain(error, progress.done, self._queue, sink)),
        ):

            def take(batch: Batch) -> None:
                sink.take(batch)
                progress.advance(len(batch))

            self._emptying.take_all(self._queue, batcher, take, interrupts)
        is_paused, left = self._console.note_pauses(self._queue), self._queue.size()
        if left > 0 and self._emptying.limit == math.inf and not is_paused:
            self._console.note(
                f"The queue's count is still {left:,}: other clients hold these items, or have "
                "just pushed them."
            )
        self._emptying.check_buried(batcher.buried, progress.done)
        return progress.done


def explain(error: BaseException, done: int, queue: Queue, sink: Sink) -> str:
    """Return why a drain stopped, and how many items are done."""
    text = error_text(error)
    if isinstance(error, LeaseLost):
        text = "Writing took longer than --lease-seconds, so the last batch was requeued"
    text = f"{text}. Drained {item_count(done)} from {queue.name!r}."
    if sink.unsure:
        text += (
            f" The last {sink.unsure:,} lines of the file may still be in the queue: run the "
            "command again with --resume."
        )
    return text


def _settle(queue: Queue, file: ItemsFile) -> int:
    """Finish what a killed drain to a file has left.

    With ``--force`` the file is emptied, after the first transaction has succeeded.

    Returns:
        How many items of the file were still in the queue, and were removed.
    """
    if file.is_overwritten:
        queue.settle_batch(file.owner)
        file.cut(0)
        return 0
    file.cut_torn_line()
    last_ids = file.last_ids(ranked=queue.priority_type is not None)
    try:
        return queue.settle_batch(file.owner, last_ids)
    except InvalidInput as error:  # an id in the file is none of this queue
        raise NotADrain(file=file.path) from error


def _text(queue: Queue, batch: Batch) -> str:
    return "\n".join(item_line(queue, item) for item in batch)
