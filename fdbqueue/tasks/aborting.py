"""Abort tasks: one that waits ends at once, one that runs is asked to."""

from __future__ import annotations

from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service import now_us, run
from fdbqueue.tasks.calls import Call, unpacked
from fdbqueue.tasks.compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
)
from fdbqueue.tasks.current import running
from fdbqueue.tasks.exceptions import TaskAborted
from fdbqueue.tasks.records import Ended
from fdbqueue.tasks.results import attempts_at, failure_of, final_record, microseconds


def abort(result_id: str, *, backend: str = DEFAULT_TASK_BACKEND_ALIAS) -> str:
    """Abort a task.

    One that is ready, or waits for its ``run_after`` or its next attempt, is removed, and FAILED
    with :class:`TaskAborted`. One that runs is asked to end: it sees that by
    :func:`abort_requested`, and is not run again, however this attempt ends.

    Args:
        result_id: The id of its result.
        backend: The alias of its backend.

    Returns:
        ``"aborted"``, ``"asked"``, or ``"ended"`` where it had ended before.

    Raises:
        TaskResultDoesNotExist: There is no such task.
    """
    owner: Any = task_backends[backend]
    return run(owner.catalog.database, lambda tr: _abort(tr, owner, result_id))


def abort_requested() -> bool:
    """Tell whether somebody has asked for the end of the task that runs here.

    Looks about once a second, so a loop may ask each time round. False outside of tasks.
    """
    current = running()
    return current is not None and current.abort_requested()


def _abort(tr: Transaction, backend: Any, result_id: str) -> str:
    found = backend.found(result_id, tr)
    if found is None:
        raise TaskResultDoesNotExist(result_id)
    item, record = found.item, found.record
    if item is None or item.state == "dead":
        return "ended"
    if item.state == "leased":
        backend.records.write(tr, result_id, {**record, "abort": True})
        return "asked"
    queue = backend.catalog.queue(record["queue"])
    queue.remove(item.id, tr=tr)
    call = unpacked(item.value) or Call(result_id, "unknown.unknown", [], {}, backend.alias)
    ended = now_us()
    error = TaskAborted(id=result_id)
    attempts = attempts_at(record, item).failed(failure_of(error, f"{error}\n"))
    final = final_record(
        call,
        queue.name,
        attempts,
        status=TaskResultStatus.FAILED.value,
        enqueued=microseconds(item.pushed_at),
        ended=ended,
        value=None,
    )
    backend.records.write(tr, result_id, final)
    entry = Ended(queue.name, TaskResultStatus.FAILED.value, ended, result_id, call.task)
    key, value = backend.records.ended_row(entry)
    tr[key] = value
    return "aborted"
