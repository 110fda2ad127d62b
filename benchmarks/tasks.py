"""django-tasks-db as it is used: tasks are enqueued, and its workers take them.

For a process of its own: Django can be set up but once in each.
"""

from __future__ import annotations

import itertools
import threading
import time

from benchmarks.measure import Done, in_threads
from benchmarks.queues import value_of

_TIMEOUT_SECONDS = 60


def set_up(file: str) -> None:
    """Set Django up with a database in SQLite, as durable as ours."""
    import django
    from django.conf import settings
    from django.core.management import call_command

    settings.configure(
        INSTALLED_APPS=["django_tasks", "django_tasks_db"],
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": file,
                "CONN_MAX_AGE": None,
                "OPTIONS": {
                    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
                    "transaction_mode": "IMMEDIATE",
                    "timeout": _TIMEOUT_SECONDS,
                },
            }
        },
        TASKS={"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}},
        USE_TZ=True,
    )
    django.setup()
    call_command("migrate", verbosity=0)


def enqueue_for(seconds: float, threads: int) -> Done:
    """Enqueue tasks that do nothing, for so long."""
    from benchmarks.nothing_task import nothing

    numbers = itertools.count()
    return in_threads(lambda: nothing.enqueue(value_of(next(numbers))), threads, seconds=seconds)


def work_all(count: int, threads: int) -> Done:
    """Run workers until they have done as many tasks as there are."""
    shares = [count // threads + (number < count % threads) for number in range(threads)]
    workers = [
        threading.Thread(target=_work, args=(share, number))
        for number, share in enumerate(shares)
        if share
    ]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seconds = time.perf_counter() - start
    _check_done(count)
    return Done(count, seconds)


def _work(count: int, number: int) -> None:
    from django.db import connection
    from django_tasks_db.management.commands.db_worker import Worker

    try:
        Worker(
            queue_names=["default"],
            interval=0,
            batch=False,
            backend_name="default",
            startup_delay=False,
            max_tasks=count,
            worker_id=f"worker-{number}",
            excluded_queue_names=[],
        ).run()
    finally:
        connection.close()


def _check_done(count: int) -> None:
    """Refuse a measurement in which not all was done; then begin anew."""
    from django_tasks_db.models import DBTaskResult

    done = DBTaskResult.objects.successful().count()
    DBTaskResult.objects.successful().delete()
    if done != count:
        raise ValueError(f"{done} tasks were done, not {count}")
