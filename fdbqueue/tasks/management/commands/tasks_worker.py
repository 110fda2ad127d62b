"""``tasks_worker``: run tasks."""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import math
import signal
import sys
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.utils import autoreload

from fdbqueue.columns.text import clipped, counted
from fdbqueue.logs import get_logger
from fdbqueue.management import arguments
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import INTERRUPTED, Interrupted, failure, usage_error
from fdbqueue.management.signals import DeferredInterrupts, defer_interrupts
from fdbqueue.service import MAX_WORKER_CHARACTERS, NAME, PATTERN, is_among
from fdbqueue.tasks.backend import FdbQueueBackend
from fdbqueue.tasks.ends import AttemptEnd
from fdbqueue.tasks.management import task_arguments
from fdbqueue.tasks.management.processes import (
    REPLACED,
    Parent,
    ParentPipe,
    ended_in_time,
)
from fdbqueue.tasks.schedules import unused
from fdbqueue.tasks.task_worker import TaskWorker

logger = get_logger(__name__)

_MAX_PROCESSES = 256
#: What a worker says that has no parent to end it.
_CANNOT_END = (
    "It ends async tasks at their time limits, and only notes that others go on. With --processes, "
    "or without --until-empty, such a process is replaced."
)


class Command(QueueCommand):
    help = (
        "Run tasks until Ctrl-C or SIGTERM: running tasks end first. A second signal requeues "
        "them. Also enqueue what the schedules say, and remove tasks that ended long ago."
    )
    examples = """\
examples:
  manage.py tasks_worker
  manage.py tasks_worker urgent default --threads 4
  manage.py tasks_worker --exclude 'slow-*' --processes 2
  manage.py tasks_worker --until-empty
"""

    takes = (
        arguments.QUEUES_OR_ALL.but(
            help="Names of queues, or patterns such as 'mail-*', in the order in which to look for "
            "tasks (default: all queues, by their names)"
        ),
        arguments.Argument(
            "--exclude",
            action="append",
            default=[],
            metavar="NAME",
            help="But not of this queue, or of those of this pattern; may be repeated",
        ),
        arguments.THREADS.but(
            help="Run N tasks at a time in each process (default: 1, at most 256)"
        ),
        arguments.Argument(
            "--processes",
            type=arguments.whole_number(most=_MAX_PROCESSES),
            metavar="N",
            help="Run N processes, and replace each that ends, or does not end a task at its "
            "time limit (default: 1; with --until-empty this process alone)",
        ),
        arguments.Argument(
            "--max-tasks",
            type=arguments.whole_number(),
            metavar="N",
            help="End after N attempts at tasks; with --processes, replace each process after N",
        ),
        arguments.UNTIL_EMPTY,
        task_arguments.backend("Run the tasks of"),
        arguments.WORKER.but(
            help="Name of this worker, shown with what it holds; with --processes followed by "
            "-1, -2, ... (default: HOST:PID)"
        ),
        arguments.flag(
            "--reload", "Start again when the code has changed; running tasks end first"
        ),
    )

    def handle(self, *args: Any, **options: Any) -> None:
        chosen = argparse.Namespace(**options)
        backend = task_arguments.backend_of(chosen.backend)
        _check_names(backend, [*chosen.names, *chosen.exclude])
        chosen.names = chosen.names or ["*"]
        _check_left(backend, chosen.names, chosen.exclude)
        if chosen.names == ["*"]:
            chosen.names = []
        if chosen.processes and not self.is_process:
            raise usage_error("--processes needs a process of its own: manage.py.")
        parent = ParentPipe()
        is_alone = not self.is_process or (chosen.until_empty and chosen.processes is None)
        if parent.number is None and chosen.reload:
            self._reload(chosen)
            return
        if parent.number is None and not is_alone:
            self._supervise(chosen)
            return
        if parent.number in {None, 1}:
            self._note_problems(backend)
        with ended_in_time() if self.is_process else contextlib.nullcontext():
            self._work(backend, chosen, parent)

    def _note_problems(self, backend: FdbQueueBackend) -> None:
        """Say what of the backend's setting is wrong, and therefore not used."""
        for problem in [*backend.problems, *unused(backend)]:
            facts = {"backend": backend.alias, "check": problem.id, "problem": problem.message}
            logger.error("an option of a task backend is wrong, and not used", extra=facts)
            self.console.note(f"{problem.id}: {problem.message} {problem.hint}")

    def _reload(self, chosen: argparse.Namespace) -> None:
        """Run processes of this command again each time the code has changed."""
        if not self.is_process:
            raise usage_error("--reload needs a process of its own: manage.py.")
        if chosen.until_empty:
            raise usage_error("--reload is for a worker that stays: leave out --until-empty.")
        autoreload.autoreload_started.connect(_watch_code)
        autoreload.run_with_reloader(self._supervise, chosen)

    # The parent of the processes

    def _supervise(self, chosen: argparse.Namespace) -> None:
        """Run processes of this command, and end as they do."""
        ends = chosen.until_empty or (chosen.max_tasks and chosen.processes is None)
        parent = Parent(
            autoreload.get_child_arguments(),
            chosen.processes or 1,
            goes_on=lambda code: code < 0 or code == REPLACED or not ends,
            note=self.console.note,
        )
        codes = parent.run()
        if parent.signal == signal.SIGINT or INTERRUPTED in codes:
            raise Interrupted
        if any(codes):
            listed = ", ".join(map(str, codes))
            raise failure(f"The worker processes ended with the exit codes {listed}.")

    # One process

    def _work(self, backend: Any, chosen: argparse.Namespace, parent: ParentPipe) -> None:
        with (
            defer_interrupts(terminations=True, second_terminations=True) as interrupts,
            parent.heard(interrupts),
        ):
            worker = TaskWorker(
                backend,
                chosen.names,
                excluded=chosen.exclude,
                threads=chosen.threads,
                limit=chosen.max_tasks or math.inf,
                follow=not chosen.until_empty,
                worker=_name_of_child(chosen, parent.number),
                catalog=self.catalog,
                let_in=interrupts.allowed,
                on_end=self._note_failed_attempt,
                on_stop=self._note_waiting,
                watch=parent.watch,
                left=parent.left,
            )
            self.console.note(f"Worker {worker.worker} runs the tasks of {worker.queue.name!r}.")
            if settings.DEBUG and not (chosen.reload or chosen.until_empty):
                self.console.note("It does not notice changed code; --reload does.")
            if parent.watch is None and backend.has_time_limits():
                self.console.note(_CANNOT_END)
            self._run_and_report(worker, interrupts)
        if worker.is_to_be_replaced:
            raise SystemExit(REPLACED)

    def _run_and_report(self, worker: TaskWorker, interrupts: DeferredInterrupts) -> None:
        """Run the worker, and print what it has done, however it ends."""
        try:
            worker.run()
        except Interrupted:
            if not interrupts.is_terminated:
                raise
        finally:
            retried = f"{worker.retried:,} to run again, " if worker.retried else ""
            self.console.note(
                f"{worker.succeeded:,} succeeded, {worker.failed - worker.retried:,} failed, "
                f"{retried}{worker.lost:,} lost their lease."
            )

    def _note_failed_attempt(self, end: AttemptEnd | None) -> None:
        if end is not None and end.failure is not None:
            name = f"{end.call.task} {end.call.id}"
            text = f"{name} failed"
            if end.retry_seconds is not None:
                attempts = len(end.attempts.workers)
                how = "asks to run" if end.asked else "failed;"
                text = f"{name}, attempt {attempts}, {how} again in {end.retry_seconds:,.0f} s"
            self.console.note(clipped(f"{text}: {end.failure.exception}: {end.message}"))

    def _note_waiting(self, running: int) -> None:
        waited = counted(running, "task")
        self.console.note(f"Waiting for {waited} to end; a second signal requeues what still runs.")


def _name_of_child(chosen: argparse.Namespace, child: int | None) -> str | None:
    """Return the name of one worker process of several; None for its own."""
    given_name: str | None = chosen.worker
    if given_name is None or child is None or chosen.processes is None:
        return given_name
    end = f"-{child}"
    return given_name[: MAX_WORKER_CHARACTERS - len(end)] + end


def _check_names(backend: FdbQueueBackend, names: list[str]) -> None:
    """Check that the backend has a queue of each name, or of each pattern.

    Raises:
        CommandError: It has none of one of them; the message names its queues.
    """
    known = sorted(backend.queues)
    for name in names:
        rule = PATTERN if "*" in name else NAME
        fits = fnmatch.filter(known, name) if known else rule.fullmatch(name)
        if not fits:
            shown = clipped(", ".join(known)) or "queues of any name"
            message = f"The task backend {backend.alias!r} has no queue {name!r}, but"
            raise usage_error(f"{clipped(message)} {shown}.")
        stored = backend.queue_prefix + name
        if "*" not in name and not backend.owns(stored):
            message = f"The queue {name!r} of the task backend {backend.alias!r} would be"
            raise usage_error(f"{message} {stored!r}, which is another backend's.")


def _check_left(backend: FdbQueueBackend, names: list[str], excluded: list[str]) -> None:
    """Check that not all queues are excluded.

    Raises:
        CommandError: They are.
    """
    chosen = {one for name in names for one in fnmatch.filter(backend.queues, name)} or set(names)
    if not any(is_among(one, names, excluded) for one in chosen):
        raise usage_error("--exclude leaves no queue.")


def _watch_code(sender: Any, **_: Any) -> None:
    """Have Django's reloader watch what only the processes of the worker import.

    That is the code of the installed apps, and what is on the path, two folders deep; but nothing
    that is installed.
    """
    installed = {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}

    def is_own(folder: Path) -> bool:
        return folder.is_dir() and not installed.intersection([folder, *folder.parents])

    for folder in filter(is_own, (Path(app.path).resolve() for app in apps.get_app_configs())):
        sender.watch_dir(folder, "**/*.py")
    for folder in filter(is_own, (Path(entry).resolve() for entry in sys.path)):
        sender.watch_dir(folder, "*.py")
        sender.watch_dir(folder, "*/*.py")
