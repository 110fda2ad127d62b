"""The function that ``queue_drain --handler`` calls, and what is told of its calls."""

from __future__ import annotations

import argparse
import contextlib
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

from django.core.management.base import CommandError
from django.db import close_old_connections
from django.utils.module_loading import import_string

from fdbqueue.exceptions import text_of_error
from fdbqueue.management.exits import FAILED, USAGE, Interrupted, command_error, text_of
from fdbqueue.management.interrupts import Interrupts, held_interrupts
from fdbqueue.management.moves import MovingCommand
from fdbqueue.management.progress import Progress
from fdbqueue.management.prompts import items
from fdbqueue.management.rendering import clipped
from fdbqueue.service import Item, Queue, Worker

#: More threads than that would wait for each other.
MAX_CONCURRENCY = 256
_UNFINISHED = (
    inspect.iscoroutinefunction,
    inspect.isasyncgenfunction,
    inspect.isgeneratorfunction,
)


def imported(path: str) -> Callable[[Item], Any]:
    """Return the function at a dotted path, freed of stale database connections.

    Raises:
        CommandError: There is none, or calling it would do nothing.
    """
    try:
        function = import_string(path)
    except (Exception, SystemExit) as error:  # whatever the module does
        message = f"--handler {path!r} cannot be imported: {clipped(text_of_error(error))}"
        raise CommandError(message, returncode=USAGE) from error
    if not callable(function):
        raise CommandError(f"--handler {path!r} cannot be called.", returncode=USAGE)
    candidates = (function, type(function).__call__)
    if any(is_unfinished(one) for is_unfinished in _UNFINISHED for one in candidates):
        message = f"--handler {path!r} is async or a generator: calling it would do nothing."
        raise CommandError(message, returncode=USAGE)

    def handler(item: Item) -> Any:
        close_old_connections()
        try:
            return function(item)
        finally:
            close_old_connections()

    return handler


@contextlib.contextmanager
def printing_aside(*, as_json: bool) -> Iterator[None]:
    """Have what a function prints go to standard error where standard output has JSON."""
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        yield


class WorkingCommand(MovingCommand):
    """A command that has a function called with the items of a queue."""

    def work(
        self, queue: Queue, handler: Callable[[Item], Any], options: argparse.Namespace
    ) -> None:
        """Call a function with each item, and say how often that went well."""
        with (
            held_interrupts(terminations=True) as interrupts,
            self.progress(queue, options) as progress,
        ):
            worker = Worker(
                queue,
                handler,
                concurrency=options.concurrency or 1,
                end=options.end,
                seconds=options.lease_seconds,
                retry_delay_seconds=60 if options.retry_delay is None else options.retry_delay,
                limit=options.limit or math.inf,
                follow=options.follow,
                let_in=interrupts.let_in,
                on_end=_reporter(progress),
                on_stop=self._say_that_it_waits,
            )
            with printing_aside(as_json=options.as_json):
                _run(worker, interrupts)
        self._report_work(queue, worker, as_json=options.as_json)
        self.check_buried(queue, worker.buried, worker.handled)
        failed = worker.failed + worker.lost
        if failed and not interrupts.is_terminated:
            raise CommandError(f"{failed:,} of them failed.", returncode=FAILED)

    def _report_work(self, queue: Queue, worker: Worker, *, as_json: bool) -> None:
        numbers = {"handled": worker.handled, "failed": worker.failed, "lost": worker.lost}
        text = f"Handled {items(worker.handled)} of {queue.name!r}, {worker.failed:,} failed"
        text += f", {worker.lost:,} lost their lease" if worker.lost else ""
        self.report({"queue": queue.name, **numbers}, f"{text}.", as_json=as_json)

    def _say_that_it_waits(self, running: int) -> None:
        self.note(f"Waiting for {items(running)} to be done; Ctrl-C abandons them.")


def _run(worker: Worker, interrupts: Interrupts) -> None:
    try:
        worker.run()
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, Interrupted) and interrupts.is_terminated:
            return
        ended = f"{items(worker.handled)} handled, {worker.failed:,} failed."
        message = f"{text_of(error)}. {ended}"
        raise command_error(error, message) or error from error


def _reporter(progress: Progress) -> Callable[[Item, BaseException | None], None]:
    """Return what tells of each item that failed, and counts all."""

    def report(item: Item, error: BaseException | None) -> None:
        if error is not None:
            progress.say(clipped(f"Item {item.id} failed: {text_of_error(error)}"))
        progress.advance(1)

    return report
