"""Take items off queues: what ``queue_drain`` and ``queue_move`` do.

A drain to a file, to standard output or to nowhere leases a batch, writes it to this destination,
and only then acknowledges it: killed at any point, it loses nothing. A drain to another queue is a
move, one transaction for each batch. A drain to a function is the work of a
:class:`~fdbqueue.service.Worker`, which calls it with each item.

Ctrl-C stops each of them between two batches, and a worker when the functions that run have ended.
An error says how many items are done.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

from django.utils.module_loading import import_string

from fdbqueue.columns.text import clipped, printable
from fdbqueue.connections import left_in_order
from fdbqueue.exceptions import InvalidInput, LeaseLost, text_of_error
from fdbqueue.management.console import Console, Progress
from fdbqueue.management.exit_codes import (
    Interrupted,
    error_text,
    explain_errors,
    failure,
    usage_error,
)
from fdbqueue.management.formats import item_count
from fdbqueue.management.item_lines import FileExists, ItemsFile, NotADrain, item_line
from fdbqueue.management.signals import DeferredInterrupts, defer_interrupts
from fdbqueue.service import (
    BATCH_ITEMS,
    Batch,
    Batcher,
    Item,
    Mover,
    Queue,
    SeveralQueues,
    Worker,
)

RETRY_DELAY_SECONDS = 60
#: How long one wait for items lasts, so that Ctrl-C is noticed. Pushed items end it at once.
_WAIT_SECONDS = 2.0
_SHOWN_IDS = 5
_UNFINISHED = (
    inspect.iscoroutinefunction,
    inspect.isasyncgenfunction,
    inspect.isgeneratorfunction,
)


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


def to_file(queue: Queue, given: argparse.Namespace, console: Console) -> None:
    """Drain a queue to the file ``--output``, and print how many items."""
    try:
        file = ItemsFile(given.output, resume=given.resume, force=given.force)
    except FileExists as error:
        raise usage_error(str(error)) from error
    with file:
        removed = _settle(queue, file)
        if file.size:
            console.note(f"Resuming {file.path} after line {file.count_lines():,}.")
        if removed:
            console.note(f"Removed {item_count(removed)} that the file has already.")
        done = _drain(queue, FileSink(queue, file), given, console, owner=file.owner)
    console.report(
        {"queue": queue.name, "drained": done, "to": given.output},
        f"Drained {item_count(done)} from {queue.name!r} to {given.output}.",
        as_json=given.as_json,
    )


def to_stream(queue: Queue, given: argparse.Namespace, console: Console) -> None:
    """Drain a queue to standard output."""

    def write(batch: Batch) -> None:
        lines = _text(queue, batch)  # printed as one: they are all in the pipe, or requeued
        console.check_output()
        console.print_lines([lines])

    done = _drain(queue, Sink(queue, write), given, console, bar=not console.is_terminal)
    console.note(f"Drained {item_count(done)} from {queue.name!r}.")


def discard(queue: Queue, given: argparse.Namespace, console: Console) -> None:
    """Ask, remove the items of a queue, and print how many."""
    number = expected(queue, given.limit)
    question = f"Remove {item_count(number)} from {queue.name!r} for good?"
    console.confirm(question, interactive=given.interactive)
    done = _drain(queue, Sink(queue, lambda _: None), given, console)
    console.report(
        {"queue": queue.name, "drained": done, "to": "nowhere"},
        f"Discarded {item_count(done)} from {queue.name!r}.",
        as_json=given.as_json,
    )


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
    """Finish what a killed drain to a file left behind.

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


def _drain(
    queue: Queue,
    sink: Sink,
    given: argparse.Namespace,
    console: Console,
    *,
    owner: bytes | None = None,
    bar: bool = True,
) -> int:
    """Drain a queue into a sink, and return how many items."""
    batcher = Batcher(
        queue,
        end=given.end,
        limit=given.limit or math.inf,
        batch_items=given.batch or BATCH_ITEMS,
        seconds=given.lease_seconds,
        owner=owner,
    )
    with (
        defer_interrupts() as interrupts,
        _progress(queue, given, console, bar=bar) as progress,
        explain_errors(lambda error: explain(error, progress.done, queue, sink)),
    ):

        def take(batch: Batch) -> None:
            sink.take(batch)
            progress.advance(len(batch))

        _take_all(queue, batcher, take, interrupts, follow=given.follow)
    is_paused, left = console.note_pauses(queue), queue.size()
    if left > 0 and given.limit is None and not is_paused:
        console.note(
            f"The queue's count is still {left:,}: other clients hold these items, or have just "
            "pushed them."
        )
    _check_buried(queue, batcher.buried, progress.done)
    return progress.done


def _text(queue: Queue, batch: Batch) -> str:
    return "\n".join(item_line(queue, item) for item in batch)


def check_target(queue: Queue, target: Queue, priority: Any) -> None:
    """Refuse a move between two queues that is impossible for any item.

    Raises:
        CommandError: It says why.
    """
    try:
        Mover(queue, target, priority=priority)  # checks, and moves nothing yet
    except InvalidInput as error:
        reason = error.context["reason"]
        message = f"{queue.name!r} cannot be moved to {target.name!r}: {reason}."
        raise usage_error(printable(message)) from error


def move(queue: Queue, target: Queue, given: argparse.Namespace, console: Console) -> None:
    """Move items to another queue, and print how many."""

    def explain(error: BaseException) -> str:
        text = printable(error_text(error))
        return f"{text}. Moved {item_count(progress.done)} to {target.name!r}."

    with defer_interrupts() as interrupts, _progress(queue, given, console) as progress:
        mover = Mover(
            queue,
            target,
            end=given.end,
            limit=given.limit or math.inf,
            batch_items=given.batch or BATCH_ITEMS,
            priority=given.priority,
        )
        with explain_errors(explain):
            _take_all(queue, mover, progress.advance, interrupts, follow=given.follow)
    console.note_pauses(queue)
    console.report(
        {"queue": queue.name, "moved": progress.done, "to": target.name},
        f"Moved {item_count(progress.done)} from {queue.name!r} to {target.name!r}.",
        as_json=given.as_json,
    )
    _check_buried(queue, mover.buried, progress.done)


def import_handler(path: str) -> Callable[[Item], Any]:
    """Return the function at a dotted path; it closes database connections that it is not to have.

    Raises:
        CommandError: There is none, or calling it would do nothing.
    """
    try:
        function = import_string(path)
    except (Exception, SystemExit) as error:  # whatever the module does
        message = f"--handler {path!r} cannot be imported: {clipped(text_of_error(error))}"
        raise usage_error(message) from error
    if not callable(function):
        raise usage_error(f"--handler {path!r} is not a function: it cannot be called.")
    candidates = (function, type(function).__call__)
    if any(is_unfinished(one) for is_unfinished in _UNFINISHED for one in candidates):
        raise usage_error(
            f"--handler {path!r} is async or a generator: calling it would do nothing."
        )

    def handler(item: Item) -> Any:
        with left_in_order():
            return function(item)

    return handler


@contextlib.contextmanager
def redirect_prints(*, as_json: bool) -> Iterator[None]:
    """Send what a handler prints to standard error, when standard output has JSON."""
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        yield


def work(
    source: Queue | SeveralQueues,
    handler: Callable[[Item], Any],
    given: argparse.Namespace,
    console: Console,
) -> None:
    """Call a function with each item, and print how many succeeded and failed."""

    def finish(item: Item, error: BaseException | None) -> None:
        if error is not None:
            console.note(clipped(f"Item {item.id} failed: {text_of_error(error)}"))
        progress.advance(1)

    def note_waiting(running: int) -> None:
        console.note(f"Waiting for {item_count(running)} to finish; press Ctrl-C to abandon.")

    prints = console.is_terminal  # what the function prints, a bar or a line would stand in
    with (
        defer_interrupts(terminations=True) as interrupts,
        _progress(source, given, console, bar=not prints, lines=False) as progress,
    ):
        worker = Worker(
            source,
            handler,
            concurrency=given.concurrency or 1,
            end=given.end,
            seconds=given.lease_seconds,
            retry_delay_seconds=(
                RETRY_DELAY_SECONDS if given.retry_delay is None else given.retry_delay
            ),
            worker=given.worker,
            limit=given.limit or math.inf,
            follow=given.follow,
            let_in=interrupts.allowed,
            on_end=finish,
            on_stop=note_waiting,
        )
        with redirect_prints(as_json=given.as_json):
            _run(worker, interrupts)
    console.note_pauses(source)
    text = f"Handled {item_count(worker.handled)} from {source.name!r}, {worker.failed:,} failed"
    text += f", {worker.lost:,} lost their lease" if worker.lost else ""
    numbers = {"handled": worker.handled, "failed": worker.failed, "lost": worker.lost}
    console.report({**named(source), **numbers}, f"{text}.", as_json=given.as_json)
    _check_buried(source, worker.buried, worker.handled)
    failed = worker.failed + worker.lost
    if failed and not interrupts.is_terminated:
        raise failure(f"{item_count(failed)} failed.")


def _run(worker: Worker, interrupts: DeferredInterrupts) -> None:
    """Run a worker to its end; SIGTERM is an end like any other."""

    def explain(error: BaseException) -> str:
        ended = f"{item_count(worker.handled)} handled, {worker.failed:,} failed."
        return f"{error_text(error)}. {ended}"

    with explain_errors(explain):
        try:
            worker.run()
        except Interrupted:
            if not interrupts.is_terminated:
                raise


def named(source: Queue | SeveralQueues) -> dict[str, Any]:
    """Return what JSON calls a queue, or several."""
    return {"queue": source.name} if isinstance(source, Queue) else {"queues": [*source.names]}


def expected(source: Queue | SeveralQueues, limit: int | None) -> int:
    """Return how many items there are to take, according to the counts."""
    return min(max(0, source.size()), limit or sys.maxsize)


def _progress(
    source: Queue | SeveralQueues,
    given: argparse.Namespace,
    console: Console,
    *,
    bar: bool = True,
    lines: bool = True,
) -> Progress:
    """Return what shows how many of the items are taken.

    With ``--follow`` there is no total, and there are no lines: the rate since it began says
    little, and the lines would stand between those of the log.
    """
    total = None if given.follow else expected(source, given.limit)
    return console.progress(source.name, total, bar=bar, lines=lines and not given.follow)


def _take_all(
    queue: Queue,
    batches: Batcher | Mover,
    take: Callable[[Any], None],
    interrupts: DeferredInterrupts,
    *,
    follow: bool,
) -> None:
    """Take batches until there are no more, or with ``--follow`` until Ctrl-C.

    Items that the queue's rate keeps back are waited for.
    """
    waits = follow
    while batches.remaining > 0:
        with interrupts.allowed():
            has_items = not waits or queue.wait_for_items(_WAIT_SECONDS)
        if follow and not has_items:
            continue
        batch = batches.next()
        if batch:
            take(batch)
        waits = follow or (not batch and queue.held_until() is not None)
        if not batch and not waits:
            return


def _check_buried(source: Queue | SeveralQueues, buried: list[str], done: int) -> None:
    """End the command with exit code 1 if items were moved to the dead letters.

    Args:
        source: The queue, or the queues.
        buried: The ids of items that cannot be decoded.
        done: How many others are done.
    """
    if buried:
        shown = ", ".join(buried[:_SHOWN_IDS])
        more = " and more" if len(buried) > _SHOWN_IDS else ""
        raise failure(
            f"{item_count(len(buried))} of {source.name!r} cannot be decoded and went to its dead "
            f"letters: {printable(shown)}{more}. {item_count(done, 'other')} done."
        )
