"""Results: what the API says of a task, made from its item and its record."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import secrets
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string

from fdbqueue import service
from fdbqueue.exceptions import path_of
from fdbqueue.service import LEASE_EXPIRED, Failure, Item, now_us
from fdbqueue.tasks.compat import (
    TASK_REFRESH_ATTRS,
    Task,
    TaskError,
    TaskResult,
    TaskResultStatus,
    normalize_json,
)
from fdbqueue.tasks.exceptions import TaskBuried, TaskUnknown, WorkerDied, pass_interrupt
from fdbqueue.tasks.notes import Progress, progress_in
from fdbqueue.tasks.records import (
    NO_ATTEMPTS,
    AttemptFailure,
    Attempts,
    TaskCall,
    attempts_in,
    is_ahead,
    name_of,
    place_in,
    unknown_call,
    unpacked,
)

_SCALARS = {str, int, float, bool, type(None)}
_TEXT = {str}


class Found(NamedTuple):
    """What is stored of a task.

    Attributes:
        record: Its record.
        item: Its item; None if the record is final.
    """

    record: dict[str, Any]
    item: Item | None


class Known(NamedTuple):
    """What is known of a task; all of its result but the code.

    Attributes:
        call: What is to be called.
        status: Its status.
        attempts: The attempts that have begun, and how they failed.
        enqueued: When it was enqueued, in microseconds.
        finished: When it ended, likewise; None as long as it has not.
        value: What it returned.
        metadata: What it has noted, in all of its attempts.
        progress: How far the attempt has come that runs, or the last one; None if it does not say.
    """

    call: TaskCall
    status: TaskResultStatus
    attempts: Attempts
    enqueued: int | None
    finished: int | None = None
    value: Any = None
    metadata: dict[str, Any] | None = None
    progress: Progress | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FdbQueueTaskResult(TaskResult):  # type: ignore[type-arg,misc]  # as the stubs have it
    """What the API says of a task, and what the task has noted.

    Attributes:
        metadata: The task's metadata, as it was written last: a copy.
        progress: How far the attempt has come that runs, or the last one if the task has ended;
            None if it has not said so.
    """

    metadata: dict[str, Any] = dataclasses.field(init=False, default_factory=dict)
    progress: Progress | None = dataclasses.field(init=False, default=None)

    def refresh(self) -> None:
        """Read the task again, as Django's results do, and what it has noted."""
        self._take(self.task.get_backend().get_result(self.id))

    async def arefresh(self) -> None:
        """See refresh()."""
        self._take(await self.task.get_backend().aget_result(self.id))

    def _take(self, other: TaskResult[..., Any]) -> None:
        names = (*TASK_REFRESH_ATTRS, "metadata", "progress")
        change(self, **{name: getattr(other, name) for name in names})


def new_id() -> str:
    """Return the id of a new result: 32 hexadecimal digits."""
    return secrets.token_hex(16)


def new_result(
    task: Task[..., Any], args: Sequence[Any], kwargs: dict[str, Any], alias: str
) -> Any:
    """Return the result of a task that is about to be enqueued.

    Raises:
        TypeError: The arguments are no JSON, or
        ValueError: are bytes that are no UTF-8.
    """
    result: TaskResult[..., Any] = FdbQueueTaskResult(
        task=task,
        id=new_id(),
        status=TaskResultStatus.READY,
        enqueued_at=None,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=[],
        kwargs={},
        backend=alias,
        errors=[],
        worker_ids=[],
    )
    change(result, args=normalised(list(args)), kwargs=normalised(kwargs))
    return result


def normalised(value: Any, other: Callable[[Any], Any] = normalize_json) -> Any:
    """Return a copy of a value as JSON has it, as Django's function does in ten times the time.

    Args:
        value: The value.
        other: Called with each part that is not of JSON's own types.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict and _TEXT.issuperset(map(type, value)):
        if _SCALARS.issuperset(map(type, value.values())):
            return value.copy()
        return {name: normalised(one, other) for name, one in value.items()}
    if kind is list or kind is tuple:
        if _SCALARS.issuperset(map(type, value)):
            return [*value]
        return [normalised(one, other) for one in value]
    return other(value)


def change(result: TaskResult[..., Any], **values: Any) -> None:
    """Set fields of a result, which is frozen for everyone else."""
    for name, value in values.items():
        object.__setattr__(result, name, value)


def result_time(microseconds: int | None) -> datetime.datetime | None:
    """Return a time of a result, with or without its zone as ``USE_TZ`` says; None for None.

    Only results and their signals have such times. What compares or shows times needs
    :func:`fdbqueue.service.moment`, which is UTC in all projects.
    """
    return None if microseconds is None else local(service.moment(microseconds))


def local(at: datetime.datetime | None) -> datetime.datetime | None:
    """Return a time that has its zone as a result has it, see :func:`result_time`."""
    return at if at is None or settings.USE_TZ else timezone.make_naive(at)


def microseconds(at: datetime.datetime | None) -> int | None:
    """Return a moment with its zone in microseconds since the Unix epoch, None for None."""
    return None if at is None else service.microseconds(at)


# Tasks


def imported(path: str) -> Any:
    """Return what has a dotted path, None if nothing has, or if its module is not imported yet.

    A path may be any text, so nothing is imported for it.
    """
    module, _, name = path.rpartition(".")
    return getattr(sys.modules.get(module), name, None)


def is_imported(path: str) -> bool:
    """Tell whether the module of a dotted path is imported, so that its code is known."""
    return path.rpartition(".")[0] in sys.modules


def task_at(path: str) -> Task[..., Any]:
    """Return the task with a dotted path.

    Raises:
        TaskUnknown: There is none.
    """
    try:
        task = import_string(path)
    except BaseException as error:
        pass_interrupt(error)
        raise TaskUnknown(task=path) from error
    if not isinstance(task, Task) or task.module_path != path:
        raise TaskUnknown(task=path)
    return task


def is_task_at(path: str, task: Task[..., Any]) -> bool:
    """Tell whether a worker finds a task under its path."""
    found = imported(path)
    if isinstance(found, Task) and found.func is task.func:
        return True
    try:
        task_at(path)
    except TaskUnknown:
        return False
    return True


def found_task(call: TaskCall, *, imports: bool) -> Task[..., Any] | None:
    """Return the task that a call names, None if it is not found, or not to be imported."""
    if imports or is_imported(call.task):
        with contextlib.suppress(TaskUnknown):
            return task_at(call.task)
    return None


def restored_task(call: TaskCall, queue_name: str, task: Task[..., Any] | None) -> Task[..., Any]:
    """Return the task of a call as it was enqueued; if its code is gone, one that cannot run.

    Not checked by the backend again: what was right when it was enqueued may be wrong by now.

    Args:
        call: The call.
        queue_name: The name of its queue in the backend's ``QUEUES``.
        task: The task that it names, None if that is not found.
    """
    called = call.priority, call.run_after, call.backend, queue_name
    if task is not None and called == (
        task.priority,
        task.run_after,
        task.backend,
        task.queue_name,
    ):
        return task
    kind = Task if task is None else type(task)
    values = {
        "func": _missing(call.task),
        "takes_context": False,
        **(
            {}
            if task is None
            else {f.name: getattr(task, f.name) for f in dataclasses.fields(task)}
        ),
        "priority": call.priority,
        "backend": call.backend,
        "queue_name": queue_name,
        "run_after": call.run_after,
    }
    restored = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(restored, name, value)
    return restored


def _missing(path: str) -> Any:
    """Return a function in the place of one whose code is gone."""

    def missing(*_: Any, **__: Any) -> None:
        raise TaskUnknown(task=path)

    module, _, name = path.rpartition(".")
    missing.__module__, missing.__qualname__, missing.__name__ = module, name, name
    return missing


# Attempts


def attempts_at(record: dict[str, Any], item: Item) -> Attempts:
    """Return the attempts at a task that have failed, those whose worker died included.

    Those that a record knows of are of an earlier life if the item has fewer: a redrive has
    returned it as if it had never been tried. A lease that a worker got ahead counts no attempt
    unless the record says that it has begun.
    """
    known = attempts_in(record)
    if item.state == "dead" and record.get("dead") == item.attempts:
        return known
    if _is_of_earlier_life(known, item):
        known = NO_ATTEMPTS
    for attempt in range(len(known.workers) + known.spared + 1, item.attempts + 1):
        failure = next((one for one in item.failures if one.attempt == attempt), None)
        # the queue keeps the last three: what is not known any more ended as the first of these
        ended = next((one for one in item.failures if one.attempt >= attempt), None)
        if _may_have_waited(ended) and record and record.get("running") != attempt - 1:
            known = known._replace(spared=known.spared + 1)
            continue
        worker = name_of(None if failure is None else failure.worker)
        reason = "not known any more" if failure is None else failure.reason
        died = AttemptFailure(path_of(WorkerDied), f"{WorkerDied(worker=worker, reason=reason)}\n")
        known = known._replace(workers=(*known.workers, worker)).failed(died)
    return known


def _is_of_earlier_life(known: Attempts, item: Item) -> bool:
    """Tell whether a task was redriven since these attempts, so that they count no more."""
    return len(known.workers) + known.spared > item.attempts


def metadata_in(record: dict[str, Any], item: Item) -> dict[str, Any]:
    """Return the metadata of a task whose item is in its queue, that of an earlier life not."""
    found: dict[str, Any] = record.get("metadata", {})
    if not found or (item.state == "dead" and record.get("dead") == item.attempts):
        return found
    return {} if _is_of_earlier_life(attempts_in(record), item) else found


def _may_have_waited(failure: Failure | None) -> bool:
    """Tell whether a lease has expired whose task a worker may not have begun."""
    if failure is None or failure.reason != LEASE_EXPIRED:
        return False
    return is_ahead(failure.worker)


# Results


def result_of(
    result_id: str, found: Found, queue_name: str, lease_seconds: float
) -> TaskResult[..., Any]:
    """Return the result of a task, given what is stored of it.

    Args:
        result_id: Its id.
        found: What is stored.
        queue_name: The name of its queue in the backend's ``QUEUES``.
        lease_seconds: How long leases are, to tell when one began that does not say so.
    """
    known = known_of(result_id, found, lease_seconds)
    return _result(result_id, known, queue_name, found_task(known.call, imports=True))


def known_of(result_id: str, found: Found, lease_seconds: float) -> Known:
    """Return what is known of a task, given what is stored of it; imports no code of the task.

    Args:
        result_id: The id of its result.
        found: What is stored.
        lease_seconds: As for :func:`result_of`.
    """
    if found.item is None:
        return _ended(result_id, found.record)
    call = unpacked(found.item.value) or unknown_call(result_id)
    attempts = attempts_at(found.record, found.item)
    return Known(
        call,
        enqueued=microseconds(found.item.pushed_at),
        metadata=metadata_in(found.record, found.item),
        **_state(found.item, found.record, attempts, lease_seconds),
    )


def running_result(
    call: TaskCall,
    item: Item,
    queue_name: str,
    attempts: Attempts,
    task: Task[..., Any] | None,
) -> TaskResult[..., Any]:
    """Return the result of a task that is about to run, the attempt that begins included."""
    enqueued = microseconds(item.pushed_at)
    known = Known(call, TaskResultStatus.RUNNING, attempts, enqueued)
    return _result(call.id, known, queue_name, task)


def set_attempts(result: TaskResult[..., Any], attempts: Attempts) -> None:
    """Set what attempts say in a result."""
    started, latest = attempts[2:4] if attempts.workers else (None, None)
    started_at = result_time(started)
    change(
        result,
        started_at=started_at,
        last_attempted_at=started_at if latest == started else result_time(latest),
        errors=[TaskError(exception_class_path=e, traceback=text) for e, text in attempts.errors],
        worker_ids=list(attempts.workers),
    )


def _state(
    item: Item, record: dict[str, Any], attempts: Attempts, lease_seconds: float
) -> dict[str, Any]:
    """Return the status, the times and the attempts of a task whose item is in its queue."""
    until = microseconds(item.until) or 0
    if item.state == "leased" and until > now_us():
        latest = record.get("latest")
        if latest is None or record.get("running") != item.attempts:
            latest = microseconds(item.leased_at)
        if latest is None:  # the lease was written before its beginning was
            latest = min(now_us(), until - int(lease_seconds * 1_000_000))
        is_noted = record.get("running") == item.attempts
        return {
            "status": TaskResultStatus.RUNNING,
            "attempts": attempts.begun(name_of(item.worker), latest),
            "progress": progress_in(record) if is_noted else None,
        }
    if item.state != "dead":
        return {"status": TaskResultStatus.READY, "attempts": attempts}
    if not attempts.errors:
        attempts = attempts.failed(AttemptFailure(path_of(TaskBuried), f"{item.reason}\n"))
    return {
        "status": TaskResultStatus.FAILED,
        "attempts": attempts,
        "finished": record["ended"]
        if record.get("dead") == item.attempts
        else microseconds(item.died_at),
        "progress": progress_in(record) if record.get("dead") == item.attempts else None,
    }


def _ended(result_id: str, record: dict[str, Any]) -> Known:
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
    return Known(
        call,
        TaskResultStatus(record["status"]),
        attempts_in(record),
        record["enqueued"],
        record["ended"],
        record["value"],
        record.get("metadata"),
        progress_in(record) if "progress" in record else None,
    )


def _result(
    result_id: str, known: Known, queue_name: str, task: Task[..., Any] | None
) -> TaskResult[..., Any]:
    call = known.call
    result: TaskResult[..., Any] = FdbQueueTaskResult(
        task=restored_task(call, queue_name, task),
        id=result_id,
        status=known.status,
        enqueued_at=result_time(known.enqueued),
        started_at=None,
        finished_at=result_time(known.finished),
        last_attempted_at=None,
        args=[],
        kwargs={},
        backend=call.backend,
        errors=[],
        worker_ids=[],
    )
    args, kwargs = normalised(call.args), normalised(call.kwargs)  # a task may change its own
    change(result, args=args, kwargs=kwargs, _return_value=known.value)
    if known.metadata or known.progress:
        change(result, metadata=known.metadata or {}, progress=known.progress)
    set_attempts(result, known.attempts)
    return result
