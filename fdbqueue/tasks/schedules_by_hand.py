"""Hold a schedule, let it go on, run it now: what somebody on call does, each in one transaction.

A key of its own says since when a schedule is *held*, for all workers. The transaction in which a
worker deals with a slot depends on it (:mod:`fdbqueue.tasks.schedules`): so of a hold and a slot
one comes first, and while it is held nothing is enqueued and nothing written.

To *go on* clears the key, and notes all times of the state as dealt with up to then: no slot of the
meantime is made up for. To *run now* pushes a task for no slot, also while the schedule is held.
Given the id of the latest task that somebody has seen, it does so only if that is the latest still:
so the same word twice, or a slot in between, runs it once.

An unknown outcome is that of any transaction: the key, or the task, is there once or not at all;
only the signal ``task_enqueued`` may be missing. A worker of a version before this does not know
the key, and enqueues.
"""

from __future__ import annotations

from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service import now_us, run
from fdbqueue.tasks.schedules import (
    Schedule,
    held_key_of,
    key_of,
    schedules_of,
    state_in,
    tell_enqueued,
)


def named(backend: Any, name: str) -> Schedule | None:
    """Return the schedule of a backend with a name, None if it has none."""
    return next((one for one in schedules_of(backend) if one.name == name), None)


def hold(backend: Any, schedule: Schedule) -> bool:
    """Have workers enqueue nothing for a schedule until it goes on; False if it is held already."""
    key = held_key_of(backend, schedule)

    def hold_it(tr: Transaction) -> bool:
        if tr[key].present():
            return False
        tr[key] = str(now_us()).encode()
        return True

    return run(backend.catalog.database, hold_it, wrote=bool)


def go_on(backend: Any, schedule: Schedule) -> bool:
    """Let workers enqueue a schedule again, from its next slot on; False if it is not held."""
    key, held = key_of(backend, schedule), held_key_of(backend, schedule)

    def let_go(tr: Transaction) -> bool:
        if not tr[held].present():
            return False
        state, now = state_in(tr[key]), now_us()
        del tr[held]
        if state.times:
            times = tuple((text, max(slot, now)) for text, slot in state.times)
            tr[key] = state._replace(times=times).stored()
        return True

    return run(backend.catalog.database, let_go, wrote=bool)


def run_now(backend: Any, schedule: Schedule, *, latest: str | None = None) -> str | None:
    """Enqueue a task of a schedule at once; return the id of its result.

    Args:
        backend: The backend.
        schedule: The schedule.
        latest: The id of its latest task, empty for none: if another is that by now, nothing is
            done. None for any.

    Returns:
        None if nothing was done; empty if a task with its unique key is there already.

    Raises:
        TaskUnknown, InvalidTask, TypeError, ValueError: As of :meth:`Schedule.result`.
    """
    result = schedule.result(backend.alias)
    push, key = backend.prepare(result), key_of(backend, schedule)

    def enqueue(tr: Transaction) -> Any:
        state = state_in(tr[key])
        if latest is not None and state.last != latest:
            return None
        (item,) = push(tr)
        if not item.existing:
            tr[key] = state._replace(last=result.id).stored()
        return item

    item = run(backend.catalog.database, enqueue)
    if item is None:
        return None
    tell_enqueued(backend, schedule, None, result, item)
    return "" if item.existing else result.id
