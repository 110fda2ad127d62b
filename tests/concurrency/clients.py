"""Threads that start together, and other database objects over the same data."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from fdbqueue.engines import embedded, foundationdb

T = TypeVar("T")


def together(count: int, work: Callable[[int], T], *, deadline_seconds: float = 120) -> list[T]:
    """Run work in threads that start at once, and return their results in order.

    The first error of any of them is raised here.
    """
    results: dict[int, T] = {}
    errors: list[BaseException] = []
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            barrier.wait(deadline_seconds)
            results[number] = work(number)
        except BaseException as error:  # noqa: BLE001  # raised again by the test's thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    give_up_at = time.monotonic() + deadline_seconds
    for thread in threads:
        thread.join(max(0.0, give_up_at - time.monotonic()))
        if errors:
            raise errors[0]
        assert not thread.is_alive(), "a thread did not end in time"
    return [results[number] for number in range(count)]


def another(database: Any) -> Any:
    """Return another client of the same data: a database object of its own."""
    if isinstance(database, embedded.Database):
        return embedded.Database(database.path, database.durability)
    return foundationdb.Database(os.environ["FDB_CLUSTER_FILE"], 5.0)
