"""The state of a task: what its item and its record say together.

The item is in the queue until the task has ended; the record says the rest
(:mod:`fdbqueue.tasks.records`). All that shows a task, runs it again or aborts it asks here.
"""

from __future__ import annotations

import contextlib
import datetime
from typing import Any, NamedTuple

from fdbqueue import service
from fdbqueue.exceptions import path_of
from fdbqueue.service import GIVEN_BACK, LEASE_EXPIRED, Failure, Item, now_us
from fdbqueue.tasks.compat import TaskResultStatus
from fdbqueue.tasks.exceptions import TaskBuried, TaskTimeout, WorkerDied
from fdbqueue.tasks.notes import Progress, progress_in
from fdbqueue.tasks.records import (
    NO_ATTEMPTS,
    SUCCESSFUL,
    AttemptFailure,
    Attempts,
    TaskCall,
    aware,
    is_abort_asked,
    is_ahead,
    name_of,
    place_in,
    unknown_call,
    unpacked,
)

#: Where the tasks are listed that have no item any more: those that succeeded, and the others.
DONE, ABORTED = "done", "aborted"


#: What a pending record does not have whose task no worker has begun or ended.
_NOT_BEGUN = frozenset({"workers", "latest", "ended"})


class TaskState(NamedTuple):
    """What is known of a task; all of its result but the code.

    Attributes:
        id: The id of its result.
        call: What is to be called.
        status: Its status.
        attempts: The attempts that have begun, and how they failed.
        enqueued: When it was enqueued, in microseconds.
        finished: When it ended, likewise; None as long as it has not.
        value: What it returned.
        metadata: What it has noted, in all of its attempts.
        progress: How far the attempt has come that runs, or the last one; None if it does not say.
        record: Its record; empty if that is not known.
        item: Its item; None if it has none any more.
        over: The attempts that are over: all but the one that runs.
    """

    id: str
    call: TaskCall
    status: TaskResultStatus
    attempts: Attempts
    enqueued: int | None = None
    finished: int | None = None
    value: Any = None
    metadata: dict[str, Any] | None = None
    progress: Progress | None = None
    record: dict[str, Any] = {}  # noqa: RUF012  # nothing changes records
    item: Item | None = None
    over: Attempts = NO_ATTEMPTS

    @property
    def is_known(self) -> bool:
        """Whether more than its end is known: its item, or its record."""
        return self.item is not None or bool(self.record)

    @property
    def queue(self) -> str:
        """The queue that its item is in, or was."""
        return str(self.record["queue"])

    @property
    def tab(self) -> str:
        """Where it is listed: the state of its item, or :data:`DONE`, or :data:`ABORTED`."""
        if self.item is not None:
            return self.item.state
        return DONE if self.is_successful else ABORTED

    @property
    def is_running(self) -> bool:
        """Whether a worker runs it now."""
        return self.status is TaskResultStatus.RUNNING

    @property
    def is_successful(self) -> bool:
        """Whether it has returned a value."""
        return self.status is TaskResultStatus.SUCCESSFUL

    @property
    def has_begun(self) -> bool:
        """Whether an attempt has begun."""
        return bool(self.attempts.workers)

    @property
    def was_begun(self) -> bool:
        """Whether an attempt is over, counted or not, or it has ended before it was redriven."""
        return bool(self.over.workers) or not _NOT_BEGUN.isdisjoint(self.record)

    def over_of(self, most: int) -> Attempts:
        """Return the attempts that are over, of a task that may run so many times.

        One that may run once only has begun if that cannot be told any more: a queue keeps the last
        failures alone, and leases ahead that were lost since may be all of them.
        """
        item, over = self.item, self.over
        if most > 1 or over.workers or item is None:
            return over
        if count_leases(self.record) >= item.attempts - len(item.failures):
            return over
        return _with_death(over._replace(spared=over.spared - 1), None)

    @property
    def was_leased(self) -> bool:
        """Whether its item, which it has still, was leased before: an attempt may not count."""
        return self.item is not None and self.item.attempts > 0

    @property
    def is_abort_asked(self) -> bool:
        """Whether its abort was asked for while it ran."""
        return is_abort_asked(self.record)

    @property
    def is_in_outbox(self) -> bool:
        """Whether it waits for being moved to its queue."""
        return "outbox" in self.record

    @property
    def problem(self) -> str:
        """Why it cannot be moved from the outbox; empty for nothing."""
        return str(self.record.get("problem") or "")


def state_of(
    result_id: str, record: dict[str, Any], item: Item | None, lease_seconds: float
) -> TaskState:
    """Return the state of a task, given what is stored of it; imports no code of the task.

    The attempts whose worker died are among its attempts. Attempts and notes of an earlier life are
    left out: a redrive has returned the task as if it had never been tried.

    Args:
        result_id: The id of its result.
        record: Its record; empty if that is not known.
        item: Its item; None if the record is final.
        lease_seconds: How long leases are, to tell when one began that does not say so.
    """
    if item is None:
        return _ended(result_id, record)
    is_noted_dead = item.state == "dead" and record.get("dead") == item.attempts
    is_known = is_noted_dead or not was_redriven(record, item)
    over = attempts_in(record) if is_known else NO_ATTEMPTS
    if not is_noted_dead:
        over = _with_lost(over, record, item)
    state = TaskState(
        result_id,
        unpacked(item.value) or unknown_call(result_id),
        TaskResultStatus.READY,
        over,
        None if item.pushed_at is None else service.microseconds(item.pushed_at),
        metadata=record.get("metadata", {}) if is_known else {},
        record=record,
        item=item,
        over=over,
    )
    until = 0 if item.until is None else service.microseconds(item.until)
    if item.state == "leased" and until > now_us():
        is_noted = record.get("running") == item.attempts
        latest = record.get("latest") if is_noted else None
        if latest is None and item.leased_at is not None:
            latest = service.microseconds(item.leased_at)
        if latest is None:  # the lease was written before its beginning was
            latest = min(now_us(), until - int(lease_seconds * 1_000_000))
        return state._replace(
            status=TaskResultStatus.RUNNING,
            attempts=over.begun(name_of(item.worker), latest),
            progress=progress_in(record) if is_noted else None,
        )
    if item.state != "dead":
        return state
    if not over.errors:
        over = over.failed(AttemptFailure(path_of(TaskBuried), f"{item.reason}\n"))
    died = None if item.died_at is None else service.microseconds(item.died_at)
    return state._replace(
        status=TaskResultStatus.FAILED,
        attempts=over,
        finished=record["ended"] if is_noted_dead else died,
        progress=progress_in(record) if is_noted_dead else None,
    )


def deadline(call: TaskCall, pushed: datetime.datetime | None) -> datetime.datetime | None:
    """Return when a task expires that has not begun; None for never, or if that is not known.

    Seconds count from when it was pushed, or from its ``run_after`` if that is later.
    """
    if call.expires is None or isinstance(call.expires, datetime.datetime):
        return call.expires
    with contextlib.suppress(OverflowError, ValueError):  # anyone who may push says run_after
        begins = [at for at in (pushed, aware(call.run_after)) if at is not None]
        return max(begins) + datetime.timedelta(seconds=call.expires)
    return None


def was_redriven(record: dict[str, Any], item: Item) -> bool:
    """Tell whether a task was redriven since its record was written, so that it counts no more."""
    return count_leases(record) > item.attempts


def _with_lost(known: Attempts, record: dict[str, Any], item: Item) -> Attempts:
    """Return attempts, and those whose worker died, which their record does not have.

    A lease that a worker got ahead counts no attempt unless the record says that it has begun. One
    whose time limit was over is no death of the worker's own.
    """
    late, seconds = record.get("over") or (0, 0)
    for attempt in range(len(known.workers) + known.spared + 1, item.attempts + 1):
        failure = next((one for one in item.failures if one.attempt == attempt), None)
        # the queue keeps the last three: what is not known any more ended as the first of these
        ended = next((one for one in item.failures if one.attempt >= attempt), None)
        if _may_have_waited(ended) and record and record.get("running") != attempt - 1:
            known = known._replace(spared=known.spared + 1)
            continue
        error = TaskTimeout(seconds=seconds) if attempt == late else None
        is_noted = record.get("running") == attempt - 1
        known = _with_death(known, failure, error, is_noted=is_noted)
    return known


def _with_death(
    known: Attempts,
    failure: Failure | None,
    error: TaskTimeout | None = None,
    *,
    is_noted: bool = False,
) -> Attempts:
    """Return attempts and one more, whose worker died.

    Args:
        known: The attempts.
        failure: What the queue knows of it; None if that is no more.
        error: What it failed with; None if its worker died.
        is_noted: Whether its record says when it began.
    """
    worker = name_of(None if failure is None else failure.worker)
    reason = "not known any more" if failure is None else failure.reason
    cause = error or WorkerDied(worker=worker, reason=reason)
    died = AttemptFailure(path_of(type(cause)), f"{cause}\n")
    if is_noted:
        return known._replace(workers=(*known.workers, worker)).failed(died)
    leased_at = None if failure is None else failure.leased_at
    began = None if leased_at is None else service.microseconds(leased_at)
    return known.begun(worker, began).failed(died)


def _may_have_waited(failure: Failure | None) -> bool:
    """Tell whether a lease expired, or was given back, whose task a worker may not have begun."""
    if failure is None or failure.reason not in {LEASE_EXPIRED, GIVEN_BACK}:
        return False
    return is_ahead(failure.worker)


def _ended(result_id: str, record: dict[str, Any]) -> TaskState:
    """Return what a final record says."""
    run_after = record.get("run_after")
    call = TaskCall(
        result_id,
        record["task"],
        record["args"],
        record["kwargs"],
        record["backend"],
        record["priority"],
        None if run_after is None else datetime.datetime.fromisoformat(run_after),
        place=place_in(record["tree"]) if "tree" in record else None,
    )
    attempts = attempts_in(record)
    return TaskState(
        result_id,
        call,
        TaskResultStatus(record["status"]),
        attempts,
        record["enqueued"],
        record["ended"],
        record.get("value"),
        record.get("metadata"),
        progress_in(record),
        record,
        over=attempts,
    )


# What a record says


def attempts_in(record: dict[str, Any]) -> Attempts:
    """Return the attempts that a record knows of."""
    return Attempts(
        tuple(record.get("workers", ())),
        tuple(AttemptFailure(*error) for error in record.get("errors", ())),
        record.get("started"),
        record.get("latest"),
        record.get("spared", 0),
    )


def count_leases(record: dict[str, Any]) -> int:
    """Return how many leases a record knows of, with and without an attempt that counts."""
    return len(record.get("workers", ())) + record.get("spared", 0)


def error_in(record: dict[str, Any], attempt: int) -> AttemptFailure | None:
    """Return how an attempt failed, counted from 1; None if a record does not have that."""
    errors = record.get("errors", ())
    failed = len(record.get("workers", ())) - (record.get("status") == SUCCESSFUL)
    index = attempt - 1 - (failed - len(errors))
    return AttemptFailure(*errors[index]) if 0 <= index < len(errors) else None
