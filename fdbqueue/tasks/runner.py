"""Run one task: call its function, and have the attempt end (:mod:`fdbqueue.tasks.ends`).

An attempt begins in :meth:`TaskRunner.run`. One that never runs ends there, too, or, if it ran when
its process was ended, in :meth:`TaskRunner.end_overdue`. Both raise why it has failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import json
import os
import sys
import threading
import types
from collections.abc import Callable
from typing import Any, NoReturn

from asgiref.sync import SyncToAsync, ThreadSensitiveContext
from django.db import connections

from fdbqueue.exceptions import is_a, path_of, traceback_of, type_name
from fdbqueue.logs import get_logger
from fdbqueue.own_threads import OwnThread, WorkerThreads
from fdbqueue.service import Item, now_us, run
from fdbqueue.steady import monotonic
from fdbqueue.tasks.aborts import ForcedAborts, WaitingAborts, is_whole_aborted
from fdbqueue.tasks.compat import Task, normalize_json, task_started
from fdbqueue.tasks.ends import AtEndFailed, Attempt, max_attempts, retry_seconds
from fdbqueue.tasks.exceptions import (
    ReturnValueTooLarge,
    TaskAborted,
    TaskExpired,
    TaskTimeout,
    TaskUnknown,
    WorkerDied,
)
from fdbqueue.tasks.key_limit_queues import Limited, is_limited, row_of, store_limits, without_key
from fdbqueue.tasks.notes import Notes
from fdbqueue.tasks.options import BACKENDS, BackendOptions, FdbQueueTask
from fdbqueue.tasks.records import (
    NO_ATTEMPTS,
    Attempts,
    TaskCall,
    encoded,
    name_of,
    unknown_call,
    unpacked,
)
from fdbqueue.tasks.results import (
    error_with_place,
    found_task,
    is_imported,
    normalised,
    running_result,
    task_at,
)
from fdbqueue.tasks.running import FdbQueueTaskContext, Running, set_running
from fdbqueue.tasks.source import AHEAD_SECONDS, TaskSource
from fdbqueue.tasks.states import TaskState
from fdbqueue.tasks.time_limits import LeftAttempt, Limit, ParentWatch, TimeLimits

logger = get_logger(__name__)

#: Whether a function is async: asked once for each.
_is_async = functools.lru_cache(inspect.iscoroutinefunction)
#: How long the loop may take to end.
_CLOSE_SECONDS = 2.0


class Loop:
    """The event loop of this process, in which all its async tasks run.

    Whatever a task does to the loop it has done to all tasks. So the loop goes on: if a coroutine
    that a task has started raises ``SystemExit`` or ``KeyboardInterrupt``, which asyncio lets out
    of the loop, and if a task calls ``stop()``.

    Args:
        threads: The worker's, of which its thread is one.
    """

    def __init__(self, threads: WorkerThreads | None = None) -> None:
        self._threads = threads
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_over = threading.Event()
        self._mutex = threading.Lock()

    def run(
        self,
        runner: TaskRunner,
        attempt: Attempt,
        seconds: float | None,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
    ) -> Any:
        """Await what the function of an attempt returns, and return its result.

        Raises:
            TaskTimeout, TaskAborted: It was cancelled, and did not handle that.
        """
        with self._mutex:
            if self._loop is None or self._loop.is_closed():
                self._loop = asyncio.new_event_loop()
                self._thread = OwnThread(
                    self._serve, args=(self._loop,), name="fdbqueue-tasks-loop", owner=self._threads
                )
                self._thread.start()
            loop = self._loop
        call = _outcome(runner, attempt, seconds, function, args, kwargs)
        value, error = asyncio.run_coroutine_threadsafe(call, loop).result()
        try:
            if error is not None:
                raise error
            return value
        finally:
            del error  # its traceback has this frame

    def close(self) -> None:
        """End the loop; tasks that still run in it are abandoned, also one that blocks it."""
        with self._mutex:
            loop, self._loop = self._loop, None
            self._is_over.set()
        if loop is not None and self._thread is not None:
            with contextlib.suppress(RuntimeError):  # it is closed
                loop.call_soon_threadsafe(loop.stop)
            self._thread.join(_CLOSE_SECONDS)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        while not (self._is_over.is_set() or loop.is_closed()):
            kind = "stop()"
            try:
                loop.run_forever()
            except BaseException as error:  # noqa: BLE001  # what raises it is told, too
                kind = type_name(error)
            if not self._is_over.is_set():
                facts = {"error": kind}
                logger.warning("a task has stopped the event loop; it goes on", extra=facts)
        with contextlib.suppress(BaseException):  # of what tasks have left behind
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _outcome(
    runner: TaskRunner,
    attempt: Attempt,
    seconds: float | None,
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
) -> Any:
    """Return what an async function returns and raises; a SystemExit would end the loop.

    What it runs by ``sync_to_async``, the ORM too, runs in a thread of its own, as that of a
    request does in ASGI. So its connections are new, those of no other task, and are closed.
    """
    process = os.getpid()
    async with ThreadSensitiveContext() as context:
        try:
            attempt.coroutine = asyncio.current_task()
            attempt.is_begun_here = True
            runner.limits.begin(attempt, seconds)
            value, error = await function(*args, **kwargs), None
        except BaseException as raised:  # noqa: BLE001  # raised in the thread that waits for it
            value, error = None, raised
        if os.getpid() != process:
            _end_child(error)
        runner.limits.leave(attempt)
        limit = attempt.limit
        if limit is not None and limit.is_cancelled and is_a(error, asyncio.CancelledError):
            error = limit.error().with_traceback(error.__traceback__)
        executor = SyncToAsync.context_to_thread_executor.pop(context, None)
        if executor is not None:  # nobody waits for it: a cancelled call may still run there
            executor.submit(connections.close_all)
            executor.shutdown(wait=False)
    try:
        return value, error
    finally:
        del error  # its traceback has this frame


def _end_child(error: BaseException | None) -> NoReturn:
    """End a process that a task has forked, and that has come back from the task.

    It is no worker: it has its threads and its leases in memory alone, and what it returns is not
    the task's.
    """
    code: Any = 0
    text = ""
    if is_a(error, SystemExit):
        code = error.code
    elif error is not None:
        code, text = 1, traceback_of(error)
    with contextlib.suppress(Exception):
        sys.stderr.write(text)
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else code is not None)


class TaskRunner:
    """Call the function of each task that a worker has leased.

    Args:
        backend: The backend whose tasks they are.
        source: Where they come from.
        worker: The worker's id.
        on_over: Called once with the limit of each attempt that only the end of this process can
            keep.
        watch: What is shared with a parent that ends this process if an attempt does not end.
        own_threads: The threads of the worker that are ours.
    """

    def __init__(
        self,
        backend: Any,
        source: TaskSource,
        worker: str,
        *,
        on_over: Callable[[Limit], None] = lambda _: None,
        watch: ParentWatch | None = None,
        own_threads: WorkerThreads | None = None,
    ) -> None:
        self._backend = backend
        self._options: BackendOptions = backend.settings
        self._source = source
        self._worker = worker
        self.limits = TimeLimits(
            grace_seconds=self._options.grace_seconds,
            lease_seconds=self._options.lease_seconds,
            on_over=on_over,
            watch=watch,
            owner=own_threads,
        )
        database = backend.catalog.database
        self._waiting = WaitingAborts(backend.records, database)
        self._aborts = ForcedAborts(backend.records, database)
        #: The beginnings of the names of members whose limits this process has said.
        self._declared: set[str] = set()
        self._tasks: dict[str, Task[..., Any]] = {}
        self.loop = Loop(own_threads)

    def run(self, item: Item) -> None:
        """Begin an attempt at a task: call its function, or end without that; note its end.

        Raises:
            BaseException: The attempt has failed: what the task raised, or why it did not run.
        """
        attempt = self._source.begin(item)
        call, before, has_expired = unpacked(item.value), NO_ATTEMPTS, False
        attempt.call = call or unknown_call(item.id)
        try:
            if call is None:
                raise TaskUnknown(reason="the item is not a task")
            if call.expires is not None:
                has_expired = self._source.has_expired(item, call)
            if item.attempts and not has_expired:
                before = self._take_up(attempt, self._source.begin_later_attempt(item, call.id))
            if self._is_aborted(attempt, call):
                raise TaskAborted(id=call.id)
            if has_expired:
                raise TaskExpired(id=call.id)
            task = None if self._has_killed(call, before) else self._task_at(call.task)
            most = max_attempts(self._options, task, call)
            if task is None or len(before.workers) >= most:
                raise _last_death(before)
        except (TaskUnknown, TaskAborted, TaskExpired) as error:
            is_one = not isinstance(error, TaskExpired)
            attempts = before.begun(self._worker, now_us()) if is_one else before
            self._end_without_run(attempt, attempts, error)
            raise
        except (TaskTimeout, WorkerDied) as error:
            self._end_without_run(attempt, before, error, is_noted=True)
            raise
        attempt.attempts = before.begun(self._worker, now_us())
        attempt.result = running_result(attempt, task, self._backend.queue_prefix)
        attempt.is_unnoted = True
        if most == 1 and not item.attempts and attempt.is_ahead:
            self._source.note_begun([attempt])  # else a kill would have it run twice
            self._source.check(attempt)
        self._run(task, attempt)

    def end_overdue(self, item: Item, left: LeftAttempt) -> None:
        """End an attempt that ran when its process was ended for that; note its end.

        Raises:
            TaskTimeout, TaskAborted: Why it has failed.
        """
        attempt = self._source.begin(item)
        attempt.call = call = unpacked(item.value) or unknown_call(item.id)
        before = self._take_up(attempt, self._source.read_state(item, call.id))
        error: Exception = TaskTimeout(seconds=left.seconds)
        if not left.seconds or self._is_aborted(attempt, call):
            error = TaskAborted(id=call.id)
        self._end_without_run(attempt, before.begun(name_of(item.worker), left.began), error)
        raise error

    def _take_up(self, attempt: Attempt, state: TaskState) -> Attempts:
        """Let an attempt go on with what is noted of its task; return the attempts before it."""
        attempt.is_abort_asked = state.is_abort_asked
        if state.metadata or state.progress:  # this only of an attempt that has begun
            attempt.notes = Notes(state.metadata, state.progress)
        return state.over_of(max_attempts(self._options, None, attempt.call))

    def _end_without_run(
        self, attempt: Attempt, attempts: Attempts, error: Exception, *, is_noted: bool = False
    ) -> None:
        """End an attempt whose function is not called, or not any more, as :meth:`Attempt.fails`.

        Its code is imported, unless that seems to kill workers.
        """
        call, attempt.attempts = attempt.call, attempts
        is_task = unpacked(attempt.item.value) is not None
        task = found_task(call, imports=is_task and not self._has_killed(call, attempts))
        attempt.result = running_result(attempt, task, self._backend.queue_prefix)
        seconds = retry_seconds(self._options, task, error, attempt) if is_task else None
        attempt.fails(error, seconds, is_noted=is_noted)

    def close(self) -> None:
        """End the loop, and no attempt any more."""
        self.limits.close()
        self.loop.close()

    def look_for_aborts(self) -> None:
        """End what runs here and was aborted by force; if that fails, at the next look."""
        if not (called := self._source.called()):
            return
        try:
            for attempt in self._aborts.among(called):
                self.limits.abort(attempt)
        except Exception as error:  # noqa: BLE001  # the engine is away, and so are others' wishes
            facts = {"worker": self._worker, "error": type(error).__name__}
            logger.warning("aborts by force were not read", extra=facts)

    def is_spent(self, item: Item) -> bool:
        """Tell whether the attempts at a task are used up; only if its code is imported.

        If that cannot be read, its attempt begins, and tells why.
        """
        call = unpacked(item.value) if item.attempts else None
        if call is None or not is_imported(call.task):
            return False
        try:
            most = max_attempts(self._options, self._task_at(call.task), call)
            if item.attempts < most:
                return False
            return len(self._source.read_state(item, call.id).over.workers) >= most
        except Exception:  # noqa: BLE001  # it is unknown or gone, or the engine has failed
            return False

    def _task_at(self, path: str) -> Task[..., Any]:
        """Return the task with a dotted path, which is looked for once for each worker.

        Raises:
            TaskUnknown: There is none.
        """
        task = self._tasks.get(path)
        if task is None:
            task = self._tasks[path] = task_at(path)
        return task

    def _is_aborted(self, attempt: Attempt, call: TaskCall) -> bool:
        """Tell whether a task was aborted before it begins, by itself or with its group."""
        database = attempt.queue.database
        if call.place is not None:
            read = functools.partial(is_whole_aborted, backend=self._backend, place=call.place)
            if run(database, read, read_only=True):
                return True
        has_waited = monotonic() > max(attempt.leased, attempt.looked) + AHEAD_SECONDS
        if has_waited and attempt.is_ahead:
            self._waiting.look(attempt, self._source.waiting, AHEAD_SECONDS)
        return attempt.is_abort_asked

    def _declare_limits(self, task: Task[..., Any], item: Item) -> None:
        """Have the limits be as this process's code says, once for each function and queue."""
        function = without_key(item.queue)
        if function in self._declared or not isinstance(task, FdbQueueTask):
            return
        self._declared.add(function)
        if not is_limited(task):
            return  # its limits are gone from the code
        limited = Limited(item.queue, row_of(task))
        store_limits(self._backend.catalog, self._backend.records.prefix, limited)

    def _has_killed(self, call: TaskCall, before: Attempts) -> bool:
        """Tell whether importing the code of a task seems to kill workers each time."""
        return (
            bool(before.errors)
            and before.errors[-1].exception == path_of(WorkerDied)
            and not is_imported(call.task)
            and len(before.workers) >= max_attempts(self._options, None, call)
        )

    def _run(self, task: Task[..., Any], attempt: Attempt) -> None:
        if attempt.queue.is_part:
            self._declare_limits(task, attempt.item)
        running = Running(
            self._backend,
            attempt.result,
            attempt=attempt,
            on_note=self._source.note_change,
        )
        has_returned = False
        try:
            value = contextvars.copy_context().run(self._called, task, running, attempt)
            has_returned = True
            value = None if value is None else self._normalised(value)
        except BaseException as error:
            running.close()
            error.with_traceback(_own_part(error.__traceback__))
            # what it has done is done: to run it again would only do that twice
            seconds = None if has_returned else retry_seconds(self._options, task, error, attempt)
            attempt.fails(error, seconds)
            raise
        at_end = running.close()
        attempt.ends(value=value, at_end=at_end)
        if not at_end:
            return
        try:
            self._source.end(attempt.item)
            return
        except AtEndFailed as failed:
            problem = failed.__cause__ or failed
        try:  # not above: the one would be the other's context, which has it as its cause
            attempt.fails(problem, retry_seconds(self._options, task, problem, attempt))
            raise problem
        finally:
            del problem  # its traceback has this frame

    def _called(self, task: Task[..., Any], running: Running, attempt: Attempt) -> Any:
        """Call the function of a task, and return what it returns."""
        set_running(running)
        result = running.result
        task_started.send(type(self._backend), task_result=result)
        args = list(result.args)
        if task.takes_context:
            args.insert(0, FdbQueueTaskContext(task_result=result, running=running))
        seconds = task.timeout if isinstance(task, FdbQueueTask) else BACKENDS
        seconds = self._options.timeout if seconds is BACKENDS else seconds
        call = self.loop.run if _is_async(task.func) else call_here
        return call(self, attempt, seconds, task.func, args, result.kwargs)

    def _normalised(self, value: Any) -> Any:
        """Return a return value as JSON has it, if it is that and not too long."""
        try:
            value = normalised(value, _normalised_part)
        except (TypeError, ValueError) as error:
            raise error_with_place(error, {"return value": value}) from error
        size = len(encoded(value, allow_nan=False))
        if size > self._options.max_result_bytes:
            limit = self._options.max_result_bytes
            raise ReturnValueTooLarge(size_bytes=size, limit_bytes=limit)
        return value


def call_here(
    runner: TaskRunner,
    attempt: Attempt,
    seconds: float | None,
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
) -> Any:
    """Call the function of an attempt in this thread; a process that it forks ends after it."""
    process, has_returned = os.getpid(), False
    try:
        attempt.is_begun_here = True
        runner.limits.begin(attempt, seconds)
        value = function(*args, **kwargs)
        has_returned = True
        return value
    finally:
        if os.getpid() != process:
            _end_child(None if has_returned else sys.exc_info()[1])
        runner.limits.leave(attempt)


def _normalised_part(value: Any) -> Any:
    return _with_text_keys(normalize_json(value))


def _with_text_keys(value: Any) -> Any:
    """Return a JSON value whose keys are texts, as JSON writes other ones.

    Raises:
        ValueError: Two keys of a dictionary are one text.
    """
    if isinstance(value, list):
        return [_with_text_keys(one) for one in value]
    if not isinstance(value, dict):
        return value
    texts = {
        key if isinstance(key, str) else json.dumps(key, allow_nan=False): _with_text_keys(one)
        for key, one in value.items()
    }
    if len(texts) < len(value):
        twice = ", ".join(map(repr, value))[:200]
        raise ValueError(f"The keys of JSON are texts, and two of these are one: {twice}")
    return texts


def _last_death(before: Attempts) -> WorkerDied | TaskTimeout:
    """Return what a task fails with whose last attempt has cost its worker."""
    is_timeout = bool(before.errors) and before.errors[-1].exception == path_of(TaskTimeout)
    kind = TaskTimeout if is_timeout else WorkerDied
    return kind(attempts=len(before.workers))


def _own_part(found: types.TracebackType | None) -> types.TracebackType | None:
    """Return a traceback without the frames that are not the task's, which it begins with."""
    part = found
    while part is not None and part.tb_frame.f_code.co_filename == __file__:
        part = part.tb_next
    return part or found
