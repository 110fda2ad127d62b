"""Results: what the API says of a task, made from its state."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string

from fdbqueue import service
from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import FdbQueueError, InvalidValue
from fdbqueue.service import MAX_SECONDS, NOW, ItemWait, ItemWatch, Prospect
from fdbqueue.steady import monotonic
from fdbqueue.tasks.compat import (
    TASK_REFRESH_ATTRS,
    InvalidTask,
    Task,
    TaskError,
    TaskResult,
    TaskResultStatus,
    normalize_json,
)
from fdbqueue.tasks.exceptions import TaskUnknown, WaitTimedOut, pass_interrupt
from fdbqueue.tasks.notes import Progress
from fdbqueue.tasks.records import Attempts, TaskCall
from fdbqueue.tasks.states import TaskState

T = TypeVar("T")

_ENDED = {TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL}
#: The longest path to a part of a value that an error names.
_MAX_PATH = 300
#: Errors that are made again with more of a text.
_OF_A_TEXT = {TypeError, ValueError, InvalidTask}
_SCALARS = {str, int, float, bool, type(None)}
_TEXT = {str}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FdbQueueTaskResult(TaskResult, Generic[T]):  # type: ignore[type-arg,misc]  # as the stubs have it
    """What the API says of a task, and what the task has noted.

    Attributes:
        metadata: The task's metadata, as it was written last: a copy.
        progress: How far the attempt has come that runs, or the last one if the task has ended;
            None if it has not said so.
    """

    metadata: dict[str, Any] = dataclasses.field(init=False, default_factory=dict)
    progress: Progress | None = dataclasses.field(init=False, default=None)

    if TYPE_CHECKING:

        @property
        def return_value(self) -> T:
            """What the task returned; ValueError if it has not succeeded."""

    def __post_init__(self) -> None:
        """Leave the arguments as they are given: who makes a result has normalised them."""

    def refresh(self) -> None:
        """Read the task again, as Django's results do, and what it has noted."""
        self._copy_from(self.task.get_backend().get_result(self.id))

    async def arefresh(self) -> None:
        """See refresh()."""
        self._copy_from(await self.task.get_backend().aget_result(self.id))

    def wait(self, timeout: float | None = None) -> FdbQueueTaskResult[T]:
        """Wait until the task has ended; return this result, which says how.

        A watch wakes it; as a wait for items does, it also looks by itself every five seconds. A
        task that waits for another occupies its thread, which the other may need. With
        ``enqueue_on_commit`` wait behind the commit.

        Args:
            timeout: How many seconds; None for any time. With 0 it looks once. While the engine
                does not answer, it waits longer.

        Raises:
            WaitTimedOut: It has not ended by then; it is a ``TimeoutError``.
            TaskResultDoesNotExist: Nothing is kept of the task, or it was removed meanwhile.
            TypeError, ValueError: ``timeout`` is no number of seconds.
        """
        deadline = _deadline(timeout)
        if not self._wait_for_end().until(self._has_ended, deadline):
            raise WaitTimedOut(id=self.id, seconds=timeout)
        return self

    async def await_result(self, timeout: float | None = None) -> FdbQueueTaskResult[T]:
        """See wait(); the waiting occupies no thread."""
        deadline = _deadline(timeout)
        if not await self._wait_for_end().until_in_loop(self._ahas_ended, deadline):
            raise WaitTimedOut(id=self.id, seconds=timeout)
        return self

    def _has_ended(self) -> bool:
        self.refresh()
        return bool(self.is_finished)

    async def _ahas_ended(self) -> bool:
        await self.arefresh()
        return bool(self.is_finished)

    def _wait_for_end(self) -> ItemWait:
        """Return what waits until there may be an end: its record changes with each."""
        backend: Any = self.task.get_backend()
        key = backend.records.key(self.id)

        def begin_look(tr: Transaction) -> Callable[[], Prospect]:
            found = backend.found(self.id, tr)
            # In an outbox there is no record yet; otherwise one that is missing was removed.
            is_missing = found is None and backend.settings.outbox is None
            is_over = is_missing or (found is not None and found.status in _ENDED)
            return lambda: NOW if is_over else Prospect(None, watch=(key,))

        return ItemWait([ItemWatch(backend.catalog.database, begin_look)])

    def _copy_from(self, other: TaskResult[..., Any]) -> None:
        names = (*TASK_REFRESH_ATTRS, "metadata", "progress")
        change(self, **{name: getattr(other, name) for name in names})


def _deadline(timeout: float | None) -> float:
    """Return when to give up waiting, by the monotonic clock."""
    if timeout is None:
        return math.inf
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"timeout is a number of seconds, or None; not {type(timeout).__name__}.")
    if not timeout >= 0:
        raise ValueError("timeout is 0 seconds or more.")
    return monotonic() + min(timeout, MAX_SECONDS)


def new_id() -> str:
    """Return the id of a new result: 32 hexadecimal digits."""
    return os.urandom(16).hex()


def new_result(
    task: Task[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    alias: str,
) -> Any:
    """Return the result of a task that is about to be enqueued.

    Args:
        task: The task.
        args, kwargs: The arguments.
        alias: The alias of its backend.

    Raises:
        TypeError: The arguments are no JSON, or
        ValueError: are bytes that are no UTF-8. Both say which argument.
    """
    given = [*args], kwargs
    try:
        taken = normalised(given[0]), normalised(kwargs) if kwargs else {}
    except (TypeError, ValueError) as error:
        raise error_with_place(error, {"args": given[0], "kwargs": kwargs}) from error
    return FdbQueueTaskResult(
        task=task,
        id=new_id(),
        status=TaskResultStatus.READY,
        enqueued_at=None,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=taken[0],
        kwargs=taken[1],
        backend=alias,
        errors=[],
        worker_ids=[],
    )


def error_with_place(
    error: TypeError | ValueError, values: Mapping[str, Any]
) -> TypeError | ValueError:
    """Return an error that says in which part of some values one has come.

    Args:
        error: The error.
        values: The values, by their names.
    """
    found = _first_wrong(values, normalised)
    kind = TypeError if isinstance(error, TypeError) else ValueError
    if found is None:
        return kind(str(error))
    path, value = found
    name = type(value).__qualname__
    what = f"is {name}, which is no JSON" if kind is TypeError else f"is {name}: {error}"
    return kind(f"{path} {what}")


def of_argument(error: InvalidValue, value: Mapping[str, Any]) -> InvalidValue:
    """Return a queue's error that says which argument it is about, given the item's value."""
    found = _first_wrong({"args": value["args"], "kwargs": value["kwargs"]}, _check_strictly)
    if found is None:
        return error
    path, part = found
    return type(error)(**{**error.context, "argument": path, "type": type(part).__qualname__})


def _check_strictly(value: Any) -> None:
    """Refuse what JSON lacks though Python writes it."""
    if isinstance(value, dict) and not all(isinstance(name, str) for name in value):
        raise TypeError("the names of an object are texts")
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # no lone surrogates


def _first_wrong(values: Mapping[str, Any], check: Callable[[Any], Any]) -> tuple[str, Any] | None:
    """Return the first part of some values, by their names, that is refused."""
    found = (_wrong_in(name, value, check) for name, value in values.items())
    return next(filter(None, found), None)


def _wrong_in(path: str, value: Any, check: Callable[[Any], Any]) -> tuple[str, Any] | None:
    """Return the first innermost part of a value that is refused, with the path to it."""
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, list | tuple):
        parts = enumerate(value)
    with contextlib.suppress(RecursionError):
        for key, part in parts:
            if found := _wrong_in(f"{path}[{key!r:.100}]", part, check):
                return found
        try:
            check(value)
        except (TypeError, ValueError):
            return path[:_MAX_PATH], value
    return None


def pairs(calls: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield pairs of arguments, and of those by name.

    Raises:
        TypeError: One is no such pair.
    """
    for number, call in enumerate(calls):
        try:
            args, kwargs = call
            is_call = isinstance(args, list | tuple) and isinstance(kwargs, Mapping)
        except (TypeError, ValueError):
            is_call = False
        if not is_call:
            text = "a pair of arguments, and of those by name: ([1, 2], {'three': 3})"
            raise TypeError(f"Each call is {text}; calls[{number}] is not.")
        yield args, kwargs


@contextlib.contextmanager
def of_call(number: int) -> Iterator[None]:
    """Have an error say which of many calls it is about: in its context, its text, or a note."""
    try:
        yield
    except FdbQueueError as error:
        error.context.setdefault("index", number)
        raise
    except Exception as error:
        if type(error) in _OF_A_TEXT:
            raise type(error)(f"calls[{number}]: {error}") from error
        if hasattr(error, "add_note"):  # from Python 3.11 on
            error.add_note(f"This is about calls[{number}].")
        raise


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
        return [*map(normalised, value, itertools.repeat(other))]  # no call of its own
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
    if microseconds is None:
        return None
    at = service.moment(microseconds)
    return at if settings.USE_TZ else timezone.make_naive(at)


def local(at: datetime.datetime | None) -> datetime.datetime | None:
    """Return a time that has its zone as a result has it, see :func:`result_time`."""
    return at if at is None or settings.USE_TZ else timezone.make_naive(at)


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


# Results


def result_of(state: TaskState, queue_name: str) -> TaskResult[..., Any]:
    """Return the result of a task; imports its code.

    Args:
        state: Its state.
        queue_name: The name of its queue in the backend's ``QUEUES``.
    """
    task = found_task(state.call, imports=True)
    return _result(state, queue_name, task, result_time(state.enqueued))


def running_result(attempt: Any, task: Task[..., Any] | None, prefix: str) -> TaskResult[..., Any]:
    """Return the result of a task whose attempt begins, given its queue's prefix; with the attempt.

    Args:
        attempt: The :class:`~fdbqueue.tasks.ends.Attempt`.
        task: The task that its call names, None if that is not found.
        prefix: What the backend writes before the names in its ``QUEUES``.
    """
    call = attempt.call
    state = TaskState(call.id, call, TaskResultStatus.RUNNING, attempt.attempts)
    queue_name = attempt.queue.home.removeprefix(prefix)
    return _result(state, queue_name, task, local(attempt.item.pushed_at))


def ended_result(end: Any) -> TaskResult[..., Any]:
    """Return the result of a task that has ended, given how: the one that its last attempt had.

    Args:
        end: The :class:`~fdbqueue.tasks.ends.AttemptEnd`.
    """
    noted, has_failed = end.noted or {}, end.failure is not None
    change(
        end.result,
        status=TaskResultStatus.FAILED if has_failed else TaskResultStatus.SUCCESSFUL,
        finished_at=result_time(end.moment),
        _return_value=end.value,
        metadata=dict(noted.get("metadata", {})),
        progress=Progress(*noted["progress"]) if "progress" in noted else None,
        **(fields_of(end.attempts) if has_failed else {}),  # of a success they are as it began
    )
    result: TaskResult[..., Any] = end.result
    return result


def fields_of(attempts: Attempts) -> dict[str, Any]:
    """Return the fields of a result that attempts say."""
    started, latest = attempts[2:4] if attempts.workers else (None, None)
    started_at = result_time(started)
    errors = attempts.errors and [
        TaskError(exception_class_path=path, traceback=text) for path, text in attempts.errors
    ]
    return {
        "started_at": started_at,
        "last_attempted_at": started_at if latest == started else result_time(latest),
        "errors": [*errors],
        "worker_ids": [*attempts.workers],
    }


def _result(
    state: TaskState,
    queue_name: str,
    task: Task[..., Any] | None,
    enqueued_at: datetime.datetime | None,
) -> TaskResult[..., Any]:
    call = state.call
    result: TaskResult[..., Any] = FdbQueueTaskResult(
        task=restored_task(call, queue_name, task),
        id=state.id,
        status=state.status,
        enqueued_at=enqueued_at,
        finished_at=None if state.finished is None else result_time(state.finished),
        args=normalised(call.args),
        kwargs=normalised(call.kwargs) if call.kwargs else {},
        backend=call.backend,
        **fields_of(state.attempts),
    )
    if state.value is not None:
        change(result, _return_value=state.value)
    if state.metadata or state.progress:
        change(result, metadata=state.metadata or {}, progress=state.progress)
    return result
