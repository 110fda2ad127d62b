"""Functions for ``queue_work`` to call."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from django.db import connection, transaction

NOTHING = None

_together = threading.Barrier(4)


def _folder() -> Path:
    return Path(os.environ["FDBQUEUE_TEST_FOLDER"])


def note(item):
    """Note the value in a file of its own; one that was noted before is an error."""
    (_folder() / f"{item.value}-{item.attempts}").touch(exist_ok=False)


def fail_on_odd(item):
    """Note the value, and raise for the odd ones."""
    note(item)
    if item.value % 2:
        raise ValueError(f"odd\x1b: {item.value}")


def meet(item):
    """Return only when three others are called at the same time."""
    _together.wait(timeout=30)
    note(item)


def until_told(item):
    """Note that it has begun, and return when it is told to."""
    note(item)
    told = _folder() / "end"
    deadline = time.monotonic() + 60
    while not told.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)  # the worker's other threads need the interpreter
    (_folder() / f"{item.value}-ended").touch()


def leave(item):
    """End the thread, or try to."""
    raise SystemExit(3)


def leave_open(item):
    """Note the value, and leave a transaction open, as none was before."""
    assert not connection.in_atomic_block
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    transaction.atomic().__enter__()
    note(item)


async def wait(item):
    """Do nothing until it is awaited."""


def count(item):
    """Do nothing until it is iterated over."""
    yield item


async def count_slowly(item):
    """Do nothing until it is iterated over, either."""
    yield item


class Waiting:
    """Can be called, and does nothing until that is awaited."""

    async def __call__(self, item):
        """Do nothing."""


waiting = Waiting()


def talk(item):
    """Print, as nobody who wants JSON expects."""
    print("talking")  # noqa: T201  # what is tested


def fail_at_length(item):
    """Raise what has a long text."""
    raise ValueError("x" * 5_000)
