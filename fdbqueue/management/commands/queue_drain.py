"""``queue_drain``: take all items off a queue: to a file, to standard output, or nowhere.

It leases a batch as a worker does, writes it to this destination, and only then acknowledges it:
killed at any point, it loses nothing. The leases of a drain to a file have the file's name, so the
drain that continues it gives back what a killed one held.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import socket
from collections.abc import Callable
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import InvalidInput, LeaseLost
from fdbqueue.management import arguments
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.emptying import Emptying
from fdbqueue.management.exit_codes import error_text, explain_errors, usage_error
from fdbqueue.management.formats import item_count
from fdbqueue.management.item_lines import FileExists, ItemsFile, NotADrain, text_of
from fdbqueue.management.signals import defer_interrupts
from fdbqueue.service import Batcher, Item, Queue, instrumentation, run


class Sink:
    """Write batches, and acknowledge each; so an item is written at least once.

    Args:
        queue: The queue they come from.
        worker: Who has leased them.
        write: Writes a batch, and flushes it.
    """

    #: How many items were written to the file, but are not known to be acknowledged.
    unsure = 0

    def __init__(self, queue: Queue, worker: str, write: Callable[[list[Item]], None]) -> None:
        self._queue = queue
        self._worker = worker
        self._write = write

    def take(self, batch: list[Item]) -> None:
        """Write a batch, and acknowledge it."""
        try:
            self._write(batch)
        except BaseException:
            self._give_back(batch)
            raise
        ack = functools.partial(self._ack, batch=batch)
        instrumentation.observed("ack", self._queue.name, run, self._queue.database, ack)

    def _ack(self, tr: Transaction, batch: list[Item]) -> int:
        """Acknowledge a batch; return how many items it has.

        Raises:
            LeaseLost: Some of its leases have expired; nothing was acknowledged.
        """
        if lost := self._queue.ack_many(batch, tr=tr).lost:
            raise LeaseLost(queue=self._queue.name, item=lost[0])
        return len(batch)

    def _give_back(self, batch: list[Item]) -> None:
        ids = [item.id for item in batch]
        with contextlib.suppress(Exception):  # then their leases expire
            self._queue.give_back(ids, worker=self._worker, spend=False)


class FileSink(Sink):
    """Write items to a file, each once.

    Args:
        queue: The queue they come from.
        file: The file.
    """

    def __init__(self, queue: Queue, file: ItemsFile) -> None:
        super().__init__(queue, file.worker, self._write_lines)
        self._file = file

    def take(self, batch: list[Item]) -> None:
        """Write a batch, wait for the disk, and acknowledge it.

        If leases have expired by then, the batch is cut off the file, and goes back to the queue.
        If the outcome is unknown, it stays for ``--resume`` to find out.
        """
        start = self._file.size
        try:
            super().take(batch)
        except LeaseLost:
            self._file.cut(start)
            self._give_back(batch)
            self.unsure = 0
            raise
        self.unsure = 0

    def _write_lines(self, batch: list[Item]) -> None:
        self._file.write(f"{text_of(self._queue, batch)}\n".encode())
        self.unsure = len(batch)


class Command(QueueCommand):
    help = (
        "Take all items off a queue, and print them or write them to a file, one JSON object per "
        "line. Each batch is removed only after it was written, so no item is lost."
    )
    examples = """\
examples:
  manage.py queue_drain quakes --output quakes.ndjson
  manage.py queue_drain quakes --output quakes.ndjson --resume
  manage.py queue_drain mail | gzip > mail.ndjson.gz
  manage.py queue_drain mail --discard --limit 1000
"""

    takes = (
        arguments.QUEUE,
        arguments.OneOf(
            arguments.Argument(
                "--output", metavar="FILE", help="Write the items to FILE; - is standard output"
            ),
            arguments.flag("--discard", "Remove the items for good; asks first"),
        ),
        arguments.END,
        arguments.LIMIT,
        arguments.BATCH,
        arguments.FOLLOW,
        arguments.flag("--dry-run", "Only print how many items would be drained"),
        arguments.lease_seconds("Requeue what a killed drain held"),
        arguments.OneOf(
            arguments.flag("--resume", "Continue the file if it already exists"),
            arguments.flag("--force", "Overwrite the file if it already exists"),
            title="with --output",
        ),
        arguments.NO_INPUT,
        arguments.JSON,
    )

    def handle(self, *args: Any, **options: Any) -> None:
        output = None if options["output"] == "-" else options["output"]
        _check_usage(options, output)
        queue = self.takeable(options["name"])
        emptying = Emptying(queue, self.console, limit=options["limit"], follow=options["follow"])
        self.console.note_pauses(queue)
        if options["dry_run"]:
            to = "nowhere" if options["discard"] else output or "standard output"
            emptying.report_expected(to)
            return
        worker = f"queue_drain {socket.gethostname()}:{os.getpid()}"
        batcher = functools.partial(
            Batcher,
            queue,
            end=options["end"],
            limit=emptying.limit,
            batch_items=options["batch"],
            seconds=options["lease_seconds"],
        )
        if options["discard"]:
            number = item_count(emptying.expected)
            self.console.confirm(f"Remove {number} from {queue.name!r} for good?")
            sink = Sink(queue, worker, lambda _: None)
            done = self._drain(queue, batcher(worker=worker), emptying, sink)
            text = f"Discarded {item_count(done)} from {queue.name!r}."
        elif output is None:
            self._to_stream(queue, batcher(worker=worker), emptying, worker)
            return
        else:
            with _opened(output, resume=options["resume"], force=options["force"]) as file:
                self._settle(queue, file)
                sink = FileSink(queue, file)
                done = self._drain(queue, batcher(worker=file.worker), emptying, sink)
            text = f"Drained {item_count(done)} from {queue.name!r} to {output}."
        record = {"queue": queue.name, "drained": done, "to": output or "nowhere"}
        self.console.report(record, text)

    def _to_stream(self, queue: Queue, batcher: Batcher, emptying: Emptying, worker: str) -> None:
        """Write the items to standard output."""

        def write(batch: list[Item]) -> None:
            lines = text_of(queue, batch)  # printed as one: all are in the pipe, or requeued
            self.console.check_output()
            self.console.print_lines([lines])

        prints = self.console.is_terminal
        sink = Sink(queue, worker, write)
        done = self._drain(queue, batcher, emptying, sink, overwrites=not prints)
        self.console.note(f"Drained {item_count(done)} from {queue.name!r}.")

    def _settle(self, queue: Queue, file: ItemsFile) -> None:
        """Finish what a killed drain to a file has left: remove items that the file has.

        With ``--force`` the file is emptied, after the first transaction has succeeded.
        """
        if file.is_overwritten:
            queue.give_back(worker=file.worker, spend=False)
            file.cut(0)
            return
        file.cut_torn_line()
        last_ids = file.last_ids(ranked=queue.priority_type is not None)
        try:
            removed = queue.remove_many(last_ids)  # before others can have them
        except InvalidInput as error:  # an id in the file is none of this queue
            raise NotADrain(file=file.path) from error
        queue.give_back(worker=file.worker, spend=False)
        if file.size:
            lines = file.count_lines()
            self.console.note(f"Resuming {file.path} after line {lines:,}.")
            if not removed:  # the drain may have ended: then its items may have been pushed back
                self.console.note(
                    "The last items in it are no longer in the queue. If you have pushed the file "
                    f"back, push only what comes after line {lines:,} next time."
                )
        if removed:
            self.console.note(f"Removed {item_count(removed)} that the file has already.")

    def _drain(
        self,
        queue: Queue,
        batcher: Batcher,
        emptying: Emptying,
        sink: Sink,
        *,
        overwrites: bool = True,
    ) -> int:
        """Take batches off a queue, up to the limit, and write them; return how many items."""
        with (
            defer_interrupts() as interrupts,
            emptying.progress_meter(overwrites=overwrites) as progress,
            explain_errors(lambda error: explain(error, progress.done, queue, sink)),
        ):

            def take(batch: list[Item]) -> None:
                sink.take(batch)
                progress.advance(len(batch))

            emptying.take_all(queue, batcher, take, interrupts)
        is_paused, left = self.console.note_pauses(queue), queue.size()
        if left > 0 and emptying.limit == math.inf and not is_paused:
            self.console.note(
                f"The queue's count is still {left:,}: other clients hold these items, or have "
                "just pushed them."
            )
        emptying.check_buried(batcher.buried, progress.done)
        return progress.done


def _check_usage(options: dict[str, Any], output: str | None) -> None:
    """Refuse options that say nothing together, and a file that exists."""
    if not options["interactive"] and not options["discard"]:
        raise usage_error("--no-input can be used only with --discard.")
    goes_on = options["resume"] or options["force"]
    if goes_on and output is None:
        raise usage_error("--resume and --force need a file: --output FILE.")
    if output is not None and os.path.exists(output) and not goes_on:
        raise usage_error(str(FileExists(file=output)))


def _opened(path: str, *, resume: bool, force: bool) -> ItemsFile:
    try:
        return ItemsFile(path, resume=resume, force=force)
    except FileExists as error:
        raise usage_error(str(error)) from error


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
