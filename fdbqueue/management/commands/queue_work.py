"""``queue_work``: call a function with each item of one queue, or of several: a worker."""

from __future__ import annotations

import argparse
import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

from django.utils.module_loading import import_string

from fdbqueue.columns.text import clipped, counted
from fdbqueue.connections import left_in_order
from fdbqueue.exceptions import LeaseLost, is_a, text_of_error
from fdbqueue.management import arguments
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.emptying import Emptying, name_record
from fdbqueue.management.exit_codes import (
    Interrupted,
    error_text,
    explain_errors,
    failure,
    usage_error,
)
from fdbqueue.management.formats import item_count
from fdbqueue.management.signals import DeferredInterrupts, defer_interrupts
from fdbqueue.service import Item, Queue, SeveralQueues, Worker, is_last_attempt

_RETRY_DELAY_SECONDS = 60
_UNFINISHED = (
    inspect.iscoroutinefunction,
    inspect.isasyncgenfunction,
    inspect.isgeneratorfunction,
)


class Command(QueueCommand):
    help = (
        "Call a function with each item of one or more queues, until Ctrl-C or SIGTERM. An item is "
        "acknowledged when the function returns, and hidden for a while if it raises."
    )
    examples = """\
examples:
  manage.py queue_work mail --handler shop.letters.send
  manage.py queue_work mail --handler shop.letters.send --until-empty
  manage.py queue_work urgent 'mail-*' --handler shop.letters.send --threads 8
"""

    takes = (
        arguments.QUEUES.but(
            help="Names of queues, or patterns such as 'mail-*', in the order in which to look "
            "for items"
        ),
        arguments.Argument(
            "--handler",
            required=True,
            metavar="PATH",
            help="Call the function at this dotted path with each item, such as shop.letters.send",
        ),
        arguments.END,
        arguments.LIMIT,
        arguments.UNTIL_EMPTY,
        arguments.lease_seconds("Requeue what a killed worker held"),
        arguments.THREADS.but(help="Call the function in N threads (default: 1, at most 256)"),
        arguments.Argument(
            "--retry-delay",
            type=arguments.seconds,
            default=_RETRY_DELAY_SECONDS,
            metavar="SECONDS",
            help="Hide an item for SECONDS after the function raised an exception "
            f"(default: {_RETRY_DELAY_SECONDS})",
        ),
        arguments.Argument(
            "--fair",
            action=argparse.BooleanOptionalAction,
            help="Take from several queues in turn, not from the first that has items (default: in "
            "turn if a pattern is given)",
        ),
        arguments.WORKER,
        arguments.JSON,
    )

    def handle(self, *args: Any, **options: Any) -> None:
        source, as_json = self.source(options["names"], fair=options["fair"]), self.console.as_json
        with _redirected_prints(as_json=as_json):
            handler = _handler(options["handler"])
        self.console.note_pauses(source)
        follow = not options["until_empty"]
        emptying = Emptying(source, self.console, limit=options["limit"], follow=follow)

        dead = 0

        def finish(item: Item, error: BaseException | None) -> None:
            nonlocal dead
            if error is not None:
                most = self.catalog.queue(item.queue).options.max_attempts
                is_dead = is_last_attempt(item.attempts + 1, most)
                dead += is_dead and not is_a(error, LeaseLost)
                text = clipped(f"Item {item.id} failed: {text_of_error(error)}")
                self.console.note(text)
            progress.advance(1)

        prints = self.console.is_terminal  # the function's lines: progress would stand in them
        with (
            defer_interrupts(terminations=True) as interrupts,
            emptying.progress_meter(overwrites=not prints, lines=False) as progress,
        ):
            worker = Worker(
                source,
                handler,
                threads=options["threads"],
                end=options["end"],
                seconds=options["lease_seconds"],
                retry_delay_seconds=options["retry_delay"],
                worker=options["worker"],
                limit=emptying.limit,
                follow=follow,
                let_in=interrupts.allowed,
                on_end=finish,
                on_stop=self._note_waiting,
                presences=self.catalog.presences,
            )
            with _redirected_prints(as_json=as_json):
                _run(worker, interrupts)
        self.console.note_pauses(source)
        self._report(source, worker, dead)
        emptying.check_buried(worker.buried, worker.handled)
        failed = worker.failed + worker.lost
        if failed and not interrupts.is_terminated:
            raise failure(f"{counted(failed, 'attempt')} failed.")

    def _report(self, source: Queue | SeveralQueues, worker: Worker, dead: int) -> None:
        numbers = {"handled": worker.handled, "failed": worker.failed, "lost": worker.lost}
        text = f"Handled {item_count(worker.handled)} from {source.name!r}, "
        text += f"{counted(worker.failed, 'attempt') if worker.failed else 0} failed"
        text += f", {worker.lost:,} lost their lease" if worker.lost else ""
        if dead:
            became = "1 item is a dead letter" if dead == 1 else f"{dead:,} items are dead letters"
            text += f"; {became} now, see queue_list --by-reason"
        self.console.report({**name_record(source), **numbers, "dead": dead}, f"{text}.")

    def _note_waiting(self, running: int) -> None:
        text = f"Waiting for {item_count(running)} to finish; Ctrl-C, or SIGINT, abandons."
        self.console.note(text)


def _handler(path: str) -> Callable[[Item], Any]:
    """Return the function at a dotted path; it closes database connections that it is not to have.

    Raises:
        CommandError: There is none, or calling it would do nothing.
    """
    try:
        function = import_string(path)
    except (Exception, SystemExit) as error:  # whatever the module does
        message = f"--handler {path!r} cannot be imported: {clipped(text_of_error(error))}"
        raise usage_error(message) from error
    if hasattr(function, "enqueue"):
        raise usage_error(f"--handler {path!r} is a task: enqueue it, and run tasks_worker.")
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
def _redirected_prints(*, as_json: bool) -> Iterator[None]:
    """Send what a handler prints to standard error, when standard output has JSON."""
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        yield


def _run(worker: Worker, interrupts: DeferredInterrupts) -> None:
    """Run a worker to its end; SIGTERM is an end like any other."""

    def explain(error: BaseException) -> str:
        ended = f"{item_count(worker.handled)} handled, {counted(worker.failed, 'attempt')} failed."
        return f"{error_text(error)}. {ended}"

    with explain_errors(explain):
        try:
            worker.run()
        except Interrupted:
            if not interrupts.is_terminated:
                raise
