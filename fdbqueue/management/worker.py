"""The worker of ``queue_drain --handler``: it calls a function with each item."""

from __future__ import annotations

import argparse
import contextlib
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

from django.db import close_old_connections
from django.utils.module_loading import import_string

from fdbqueue.exceptions import text_of_error
from fdbqueue.management import arguments, pauses, transfer
from fdbqueue.management.console import Console
from fdbqueue.management.exit_codes import (
    Interrupted,
    error_text,
    explain_errors,
    failure,
    usage_error,
)
from fdbqueue.management.formats import clipped, item_count
from fdbqueue.management.progress import Progress
from fdbqueue.management.signals import DeferredInterrupts, defer_interrupts
from fdbqueue.service import Item, Queue, SeveralQueues, Worker

#: More threads than this would wait for each other.
_MAX_CONCURRENCY = 256
_RETRY_DELAY_SECONDS = 60
_UNFINISHED = (
    inspect.iscoroutinefunction,
    inspect.isasyncgenfunction,
    inspect.isgeneratorfunction,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that only a worker has."""
    group = parser.add_argument_group("with --handler")
    group.add_argument(
        "--concurrency",
        type=arguments.whole_number(most=_MAX_CONCURRENCY),
        metavar="N",
        help=f"Call the function in N threads (default: 1, at most {_MAX_CONCURRENCY})",
    )
    group.add_argument(
        "--retry-delay",
        type=arguments.seconds,
        metavar="SECONDS",
        help="Hide an item for SECONDS after the function raised an exception "
        f"(default: {_RETRY_DELAY_SECONDS})",
    )
    group.add_argument(
        "--fair",
        action="store_true",
        help="Take from several queues in turn, not from the first that has items",
    )
    group.add_argument(
        "--worker",
        type=arguments.worker_name,
        metavar="TEXT",
        help="Name of this worker, shown with each item that it holds (default: HOST:PID)",
    )


def import_handler(path: str) -> Callable[[Item], Any]:
    """Return the function at a dotted path; it closes stale database connections.

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
        close_old_connections()
        try:
            return function(item)
        finally:
            close_old_connections()

    return handler


@contextlib.contextmanager
def redirect_prints(*, as_json: bool) -> Iterator[None]:
    """Send what a handler prints to standard error, when standard output has JSON."""
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        yield


def work(
    queue: Queue | SeveralQueues,
    handler: Callable[[Item], Any],
    options: argparse.Namespace,
    console: Console,
) -> None:
    """Call a function with each item, and print how many succeeded and failed."""

    def note_waiting(running: int) -> None:
        console.note(f"Waiting for {item_count(running)} to finish; press Ctrl-C to abandon.")

    prints = console.is_terminal  # what the function prints, a bar or a line would stand in
    with (
        defer_interrupts(terminations=True) as interrupts,
        transfer.progress_of(queue, options, console, bar=not prints, lines=False) as progress,
    ):
        worker = Worker(
            queue,
            handler,
            concurrency=options.concurrency or 1,
            end=options.end,
            seconds=options.lease_seconds,
            retry_delay_seconds=(
                _RETRY_DELAY_SECONDS if options.retry_delay is None else options.retry_delay
            ),
            worker=options.worker,
            limit=options.limit or math.inf,
            follow=options.follow,
            let_in=interrupts.allowed,
            on_end=_reporter(progress, console),
            on_stop=note_waiting,
        )
        with redirect_prints(as_json=options.as_json):
            _run(worker, interrupts)
    pauses.note_pause(queue, console)
    _report(queue, worker, console, as_json=options.as_json)
    transfer.check_buried(queue, worker.buried, worker.handled)
    failed = worker.failed + worker.lost
    if failed and not interrupts.is_terminated:
        raise failure(f"{item_count(failed)} failed.")


def _run(worker: Worker, interrupts: DeferredInterrupts) -> None:
    def explain(error: BaseException) -> str:
        ended = f"{item_count(worker.handled)} handled, {worker.failed:,} failed."
        return f"{error_text(error)}. {ended}"

    with explain_errors(explain):
        try:
            worker.run()
        except Interrupted:
            if not interrupts.is_terminated:
                raise


def named(queue: Queue | SeveralQueues) -> dict[str, Any]:
    """Return what JSON calls a queue, or several."""
    return {"queue": queue.name} if isinstance(queue, Queue) else {"queues": [*queue.names]}


def _report(
    queue: Queue | SeveralQueues, worker: Worker, console: Console, *, as_json: bool
) -> None:
    numbers = {"handled": worker.handled, "failed": worker.failed, "lost": worker.lost}
    text = f"Handled {item_count(worker.handled)} from {queue.name!r}, {worker.failed:,} failed"
    text += f", {worker.lost:,} lost their lease" if worker.lost else ""
    console.report({**named(queue), **numbers}, f"{text}.", as_json=as_json)


def _reporter(progress: Progress, console: Console) -> Callable[[Item, BaseException | None], None]:
    """Return a function that counts each item, and notes each that failed."""

    def report(item: Item, error: BaseException | None) -> None:
        if error is not None:
            console.note(clipped(f"Item {item.id} failed: {text_of_error(error)}"))
        progress.advance(1)

    return report
