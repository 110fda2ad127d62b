"""Processes with Django Tasks: each enqueues, works and waits when it is told to.

A process has one backend, because Django can be set up but once in each. It runs the backend's own
worker command in its main thread, as ``manage.py`` does, but is started before anything is timed.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import multiprocessing
import random
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.measure import Done
from benchmarks.queues import value_of

_ROOT = Path(__file__).resolve().parent.parent
#: How long a process may take to end what it was told.
_TIMEOUT_SECONDS = 300
#: How often it is looked whether a task has ended, and how long a worker takes to begin to wait.
_LOOK_SECONDS, _IDLE_SECONDS = 0.01, 0.5
#: The methods of a transaction that read, and how long a worker is left to itself before.
READS = ("get", "get_key", "get_range")
_SETTLE_SECONDS = 3.0


@dataclass(frozen=True)
class Backend:
    """A backend of Django Tasks, as a process has it.

    Attributes:
        name: Its name.
        settings: Django's.
        command: Its worker's command.
        options: The options that it is always given.
        words: What it calls the options ``batch`` and ``worker_id``, if it has other words.
    """

    name: str
    settings: dict[str, Any]
    command: str
    options: dict[str, Any]
    words: dict[str, str] = field(default_factory=dict)

    def worker(self, **options: Any) -> dict[str, Any]:
        """Return the options of a worker."""
        named = {self.words.get(name, name): value for name, value in options.items()}
        return {"verbosity": 0, **self.options, **named}


class Process(contextlib.AbstractContextManager["Process"]):
    """A process that has set Django up; what it is told, it does in its main thread."""

    def __init__(self, backend: Backend) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        with theirs:
            number = theirs.fileno()
            # Not by multiprocessing, which would import all that this process has as its program.
            code = f"from benchmarks.task_processes import serve; serve({number})"
            self._process = subprocess.Popen(
                [sys.executable, "-c", code], cwd=_ROOT, pass_fds=[number]
            )
        self._pipe.send(backend)

    def begin(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Have it call a function."""
        self._pipe.send((function, arguments))

    def result(self) -> Any:
        """Wait for the end of what was begun, and return its result.

        Raises:
            RuntimeError: It failed, with its traceback.
            TimeoutError: It takes too long.
        """
        if not self._pipe.poll(_TIMEOUT_SECONDS):
            raise TimeoutError("a process does not end what it was told")
        is_done, result = self._pipe.recv()
        if not is_done:
            raise RuntimeError(result)
        return result

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Have it call a function, and return its result."""
        self.begin(function, *arguments)
        return self.result()

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        self._process.kill()
        self._process.wait()


# What runs in the processes


def serve(number: int) -> None:
    """Set Django up, and do what is told over the connection with this number until it ends."""
    import django
    from django.conf import settings

    with Connection(number) as pipe, contextlib.suppress(EOFError, BrokenPipeError):
        backend = pipe.recv()
        settings.configure(**backend.settings)
        django.setup()
        while True:
            function, arguments = pipe.recv()
            try:
                answer = True, function(backend, *arguments)
            except Exception:  # noqa: BLE001  # raised where it was told to
                answer = False, traceback.format_exc()
            pipe.send(answer)


def migrate(_: Backend) -> None:
    """Make the tables."""
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def pragmas(_: Backend) -> tuple[str, int]:
    """Return how SQLite writes: the mode of its journal, and ``synchronous``, 2 for ``FULL``."""
    from django.db import connection

    with connection.cursor() as cursor:
        mode = cursor.execute("PRAGMA journal_mode").fetchone()[0]
        return mode, cursor.execute("PRAGMA synchronous").fetchone()[0]


def enqueue(_: Backend, count: int) -> tuple[Done, list[str]]:
    """Enqueue tasks by one thread; return how fast, and their ids."""
    from benchmarks.nothing_task import nothing

    values = [value_of(number) for number in range(count)]
    start = time.perf_counter()
    ids = [nothing.enqueue(value).id for value in values]
    return Done(count, time.perf_counter() - start), ids


def work(backend: Backend, name: str, options: dict[str, Any]) -> None:
    """Work, until there are no more tasks or the options' limit is reached."""
    from django.core.management import call_command

    silent = io.StringIO()
    given = backend.worker(worker_id=name, **options)
    call_command(backend.command, stdout=silent, stderr=silent, **given)


def idle(_: Backend, seconds: float) -> Counter[str]:
    """Return how many transactions a worker begins, and what it reads, while it waits for tasks."""
    from fdbqueue.conf import database
    from fdbqueue.tasks.compat import task_backends
    from fdbqueue.tasks.task_worker import TaskWorker

    counts: Counter[str] = Counter()
    of_transactions = type(database().create_transaction()).__mro__
    for of, names in [((type(database()),), ["create_transaction"]), (of_transactions, READS)]:
        for one, name in itertools.product(of, names):
            if name in vars(one):
                setattr(one, name, _counted(counts, name, vars(one)[name]))
    worker = TaskWorker(task_backends["default"], threads=2)
    thread = threading.Thread(target=worker.run)
    thread.start()
    time.sleep(_SETTLE_SECONDS)
    counts.clear()
    time.sleep(seconds)
    found = Counter(counts)
    worker.stop()
    thread.join()
    return found


def _counted(counts: Counter[str], name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def call(*arguments: Any, **options: Any) -> Any:
        counts["reads" if name in READS else "transactions"] += 1
        return real(*arguments, **options)

    return call


def span(_: Backend, ids: list[str]) -> tuple[Done, list[int]]:
    """Return how long tasks took, from the first start to the last end; and each worker's number.

    Raises:
        ValueError: One of them was not done once.
    """
    from benchmarks.nothing_task import nothing

    backend = nothing.get_backend()
    results = [backend.get_result(one) for one in ids]
    wrong = [one.id for one in results if one.status != "SUCCESSFUL" or len(one.worker_ids) != 1]
    if wrong:
        raise ValueError(f"{len(wrong)} tasks of {len(ids)} were not done once")
    first = min(one.started_at for one in results)
    seconds = (max(one.finished_at for one in results) - first).total_seconds()
    return Done(len(ids), seconds), [*Counter(one.worker_ids[0] for one in results).values()]


def latencies(_: Backend, count: int, pause: float) -> list[float]:
    """Return the seconds from the call of ``enqueue`` to the start of the task's function.

    Another process waits for them. It is idle again before the next one is enqueued, and that
    comes at any moment of a time that is as long as its interval.
    """
    from benchmarks.nothing_task import moment

    found = []
    time.sleep(_IDLE_SECONDS)
    for _number in range(count):
        time.sleep(random.uniform(0, pause))
        began = time.time()
        result = moment.enqueue()
        while not result.is_finished:
            time.sleep(_LOOK_SECONDS)
            result.refresh()
        found.append(result.return_value - began)
    return found
