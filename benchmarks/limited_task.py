"""A task with a limit by key that does nothing; imported once Django is set up."""

from __future__ import annotations

from typing import Any

from fdbqueue.tasks import task

#: Among how many keys the tasks are spread, and how many of each run at a time.
KEYS, MAX_RUNNING = 100, 4


@task(concurrency_key=lambda number, *_: f"customer-{number % KEYS}", max_running=MAX_RUNNING)
def limited_nothing(number: int, value: Any) -> None:
    """Take the values, and do nothing with them."""
