"""The destinations of ``queue_drain``: a file, standard output, or nowhere.

A batch is leased, written to its destination, and only then acknowledged. ``transfer`` moves
items to another queue, and ``worker`` calls a function with them.
"""

from __future__ import annotations

import argparse
import contextlib
import math
from collections.abc import Callable

from fdbqueue.exceptions import LeaseLost
from fdbqueue.management import item_lines, pauses, transfer
from fdbqueue.management.console import Console
from fdbqueue.management.exit_codes import error_text, explain_errors, usage_error
from fdbqueue.management.formats import item_count
from fdbqueue.management.items_file import FileExists, ItemsFile
from fdbqueue.management.signals import defer_interrupts
from fdbqueue.service import BATCH_ITEMS, Batch, Batcher, Queue


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
        super().__init__(queue, lambda batch: file.write(_lines(queue, batch).encode()))
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


def to_file(queue: Queue, options: argparse.Namespace, console: Console) -> None:
    """Drain a queue to the file ``--output``, and print how many items."""
    try:
        file = ItemsFile(options.output, resume=options.resume, force=options.force)
    except FileExists as error:
        raise usage_error(str(error)) from error
    with file:
        removed = begin(queue, file)
        if file.size:
            console.note(f"Resuming {file.path} after line {file.count_lines():,}.")
        if removed:
            console.note(f"Removed {item_count(removed)} that the file has already.")
        done = _drain(queue, FileSink(queue, file), options, console, owner=file.owner)
    _report(queue, done, options, console)


def to_stream(queue: Queue, options: argparse.Namespace, console: Console) -> None:
    """Drain a queue to standard output."""

    def write(batch: Batch) -> None:
        lines = _lines(queue, batch).rstrip(
            "\n"
        )  # printed as one: they are all in the pipe, or requeued
        console.check_output()
        console.print_lines([lines])

    done = _drain(queue, Sink(queue, write), options, console, bar=not console.is_terminal)
    console.note(f"Drained {item_count(done)} from {queue.name!r}.")


def discard(queue: Queue, options: argparse.Namespace, console: Console) -> None:
    """Ask, remove the items of a queue, and print how many."""
    number = transfer.expected(queue, options.limit)
    question = f"Remove {item_count(number)} from {queue.name!r} for good?"
    console.confirm(question, interactive=options.interactive)
    done = _drain(queue, Sink(queue, lambda _: None), options, console)
    _report(queue, done, options, console)


def begin(queue: Queue, file: ItemsFile) -> int:
    """Finish what a killed drain to this file left behind.

    With ``--force`` the file is emptied, after the first transaction has succeeded.

    Returns:
        How many items of the file were still in the queue, and were removed.
    """
    if file.is_overwritten:
        queue.settle_batch(file.owner)
        file.cut(0)
        return 0
    file.cut_torn_line()
    return queue.settle_batch(file.owner, file.last_ids(ranked=queue.priority_type is not None))


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


def _drain(
    queue: Queue,
    sink: Sink,
    options: argparse.Namespace,
    console: Console,
    *,
    owner: bytes | None = None,
    bar: bool = True,
) -> int:
    """Drain a queue into a sink, and return how many items."""
    batcher = Batcher(
        queue,
        end=options.end,
        limit=options.limit or math.inf,
        batch_items=options.batch or BATCH_ITEMS,
        seconds=options.lease_seconds,
        owner=owner,
    )
    with (
        defer_interrupts() as interrupts,
        transfer.progress_of(queue, options, console, bar=bar) as progress,
        explain_errors(lambda error: explain(error, progress.done, queue, sink)),
    ):

        def take(batch: Batch) -> None:
            sink.take(batch)
            progress.advance(len(batch))

        transfer.take_all(queue, batcher, take, follow=options.follow, allowed=interrupts.allowed)
    is_paused, left = pauses.note_pause(queue, console), queue.size()
    if left > 0 and options.limit is None and not is_paused:
        console.note(
            f"The queue's count is still {left:,}: other clients hold these items, or have just "
            "pushed them."
        )
    transfer.check_buried(queue, batcher.buried, progress.done)
    return progress.done


def _report(queue: Queue, done: int, options: argparse.Namespace, console: Console) -> None:
    target = "nowhere" if options.discard else options.output
    count, name = item_count(done), repr(queue.name)
    console.report(
        {"queue": queue.name, "drained": done, "to": target},
        f"Discarded {count} from {name}."
        if options.discard
        else f"Drained {count} from {name} to {target}.",
        as_json=options.as_json,
    )


def _lines(queue: Queue, batch: Batch) -> str:
    lines = [item_lines.item_line(queue.codec, item) for item in batch]
    return "\n".join(lines) + "\n"
