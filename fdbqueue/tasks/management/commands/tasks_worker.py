"""``tasks_worker``: run tasks."""

from __future__ import annotations

import argparse
import math
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue.exceptions import text_of_error
from fdbqueue.management import arguments
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import Interrupted, usage_error
from fdbqueue.management.formats import clipped
from fdbqueue.management.signals import defer_interrupts
from fdbqueue.tasks.backend import FdbQueueBackend
from fdbqueue.tasks.compat import DEFAULT_TASK_BACKEND_ALIAS, InvalidTaskBackend, task_backends
from fdbqueue.tasks.ends import End
from fdbqueue.tasks.worker import TaskWorker

_MAX_THREADS = 256


class Command(QueueCommand):
    help = "Run tasks until Ctrl-C or SIGTERM: running tasks end first."
    examples = """\
examples:
  manage.py tasks_worker
  manage.py tasks_worker --queue urgent,default --threads 4
  manage.py tasks_worker --batch
"""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--queue",
            default="*",
            metavar="NAME[,NAME]",
            help="Run the tasks of these queues, the first first; * is all (default: *)",
        )
        parser.add_argument(
            "--exclude-queues", default="", metavar="NAME[,NAME]", help="But not of these queues"
        )
        parser.add_argument(
            "--threads",
            type=arguments.whole_number(most=_MAX_THREADS),
            default=1,
            metavar="N",
            help="Run N tasks at a time (default: 1)",
        )
        parser.add_argument(
            "--max-tasks",
            type=arguments.whole_number(),
            metavar="N",
            help="End after N tasks",
        )
        parser.add_argument(
            "--batch", action="store_true", help="End when there are no more tasks to run"
        )
        parser.add_argument(
            "--backend",
            default=DEFAULT_TASK_BACKEND_ALIAS,
            metavar="ALIAS",
            help="Run the tasks of the backend ALIAS (default: default)",
        )
        parser.add_argument(
            "--worker-id",
            type=arguments.worker_name,
            metavar="TEXT",
            help="Name of this worker, in the results of its tasks (default: HOST:PID)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        given = argparse.Namespace(**options)
        backend = _backend(given.backend)
        with defer_interrupts(terminations=True) as interrupts:
            worker = TaskWorker(
                backend,
                _names(given.queue),
                excluded=_names(given.exclude_queues),
                threads=given.threads,
                limit=given.max_tasks or math.inf,
                follow=not given.batch,
                worker=given.worker_id,
                catalog=self.catalog,
                let_in=interrupts.allowed,
                on_end=self._report,
                on_stop=self._note_waiting,
            )
            self.console.note(f"Worker {worker.worker} runs the tasks of {worker.queue.name!r}.")
            try:
                worker.run()
            except Interrupted:
                if not interrupts.is_terminated:
                    raise
            finally:
                self.console.note(
                    f"{worker.succeeded:,} succeeded, {worker.failed:,} failed, "
                    f"{worker.lost:,} lost their lease."
                )

    def _report(self, end: End | None) -> None:
        if end is not None and end.failure is not None:
            again = "" if end.retry_seconds is None else f"; again in {end.retry_seconds:,.0f} s"
            text = f"{end.call.task} {end.call.id} failed: {end.failure.exception}{again}."
            self.console.note(clipped(text))

    def _note_waiting(self, running: int) -> None:
        self.console.note(f"Waiting for {running:,} tasks to finish; Ctrl-C gives them back.")


def _backend(alias: str) -> FdbQueueBackend:
    try:
        backend = task_backends[alias]
    except InvalidTaskBackend as error:
        raise usage_error(clipped(text_of_error(error))) from error
    if not isinstance(backend, FdbQueueBackend):
        raise usage_error(f"The task backend {alias!r} is a {type(backend).__name__}.")
    return backend


def _names(given: str) -> list[str]:
    """Return the names in a list of names, none for all."""
    names = [name for name in given.split(",") if name]
    return [] if names == ["*"] else names
