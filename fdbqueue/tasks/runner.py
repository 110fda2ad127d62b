"""Run one task: call its function, and decide how the attempt ends."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import inspect
import json
import logging
import threading
import traceback
import types
from collections.abc import Callable
from typing import Any

from django.db import close_old_connections

from fdbqueue.exceptions import message_of
from fdbqueue.service import MAX_SECONDS, Item, now_us
from fdbqueue.tasks.calls import Call, unpacked
from fdbqueue.tasks.compat import Task, TaskResultStatus, normalize_json, task_started
from fdbqueue.tasks.current import FdbQueueTaskContext, Running, set_running
from fdbqueue.tasks.definition import BACKENDS, FdbQueueTask
from fdbqueue.tasks.ends import AtEndFailed, End
from fdbqueue.tasks.exceptions import ReturnValueTooLarge, TaskAborted, TaskUnknown, WorkerDied
from fdbqueue.tasks.options import TaskOptions, function_of
from fdbqueue.tasks.records import NO_ATTEMPTS, Attempts
from fdbqueue.tasks.results import (
    change,
    failure_of,
    moment,
    running_result,
    set_attempts,
    task_at,
)
from fdbqueue.tasks.source import TaskSource

logger = logging.getLogger(__name__)

#: How long the loop may take to end.
_CLOSE_SECONDS = 2.0


class Loop:
    """The event loop of this process, in which all its async tasks run."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._mutex = threading.Lock()

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Await what an async function returns, and return its result."""
        with self._mutex:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=[self._loop], name="fdbqueue-tasks-loop", daemon=True
                )
                self._thread.start()
        call = _outcome(function, *args, **kwargs)
        value, error = asyncio.run_coroutine_threadsafe(call, self._loop).result()
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """End the loop; tasks that still run in it are abandoned, also one that blocks it."""
        with self._mutex:
            loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(_CLOSE_SECONDS)


async def _outcome(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what an async function returns and raises; a SystemExit would end the loop."""
    try:
        return await function(*args, **kwargs), None
    except BaseException as error:  # noqa: BLE001  # raised in the thread that waits for it
        return None, error


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


class TaskRunner:
    """Call the function of each task that a worker has leased.

    Args:
        backend: The backend whose tasks they are.
        source: Where they come from.
        worker: The worker's id.
    """

    def __init__(self, backend: Any, source: TaskSource, worker: str) -> None:
        self._backend = backend
        self._options: TaskOptions = backend.settings
        self._source = source
        self._worker = worker
        self.loop = Loop()

    def __call__(self, item: Item) -> None:
        """Run a task, and note its end at the source.

        Raises:
            BaseException: The attempt has failed: what the task raised, or why it did not run.
        """
        call = unpacked(item.value)
        before, is_aborted = NO_ATTEMPTS, False
        if item.attempts and call is not None:
            before, is_aborted = self._source.begin_again(item, call.id)
        attempts = before.begun(self._worker, now_us())
        attempt = Attempt(call or Call(item.id, "unknown.unknown", [], {}, ""), item, attempts)
        queue_name = item.queue.removeprefix(self._backend.queue_prefix)
        attempt.result = running_result(attempt.call, item, queue_name, attempts)
        try:
            if call is None:
                raise TaskUnknown(reason="the item is not a task")
            if is_aborted:
                raise TaskAborted(id=call.id)
            task = task_at(call.task)
            if item.attempts >= self._max_attempts(task):
                raise WorkerDied(attempts=item.attempts)
        except (TaskUnknown, TaskAborted, WorkerDied) as error:
            if isinstance(error, WorkerDied):
                attempt.attempts = before
            self._source.ends(self._failed(attempt, error, None))
            raise
        self._source.begun(item, call, attempts)
        self._run(task, attempt)

    def _run(self, task: Task[..., Any], attempt: Attempt) -> None:
        running = Running(self._backend, attempt.result)
        has_returned = False
        try:
            value = contextvars.copy_context().run(self._called, task, running)
            has_returned = True
            value = self._normalised(value)
        except BaseException as error:
            error.with_traceback(_own_part(error.__traceback__))
            # what it has done is done: to run it again would only do that twice
            seconds = None if has_returned else self._pause(task, error, attempt)
            self._source.ends(self._failed(attempt, error, seconds))
            raise
        self._source.ends(attempt.end(value=value, at_end=running.at_end))
        if running.at_end:
            self._finish(task, attempt)

    def _finish(self, task: Task[..., Any], attempt: Attempt) -> None:
        """End a task that has functions for its end; where one of them fails, it has failed."""
        try:
            self._source.finish(attempt.item)
        except AtEndFailed as failed:
            error = failed.__cause__ or failed
            self._source.ends(self._failed(attempt, error, self._pause(task, error, attempt)))
            raise error from None

    def _called(self, task: Task[..., Any], running: Running) -> Any:
        """Call the function of a task, and return what it returns."""
        set_running(running)
        result = running.result
        task_started.send(type(self._backend), task_result=result)
        args = list(result.args)
        if task.takes_context:
            args.insert(0, FdbQueueTaskContext(task_result=result))
        close_old_connections()
        try:
            if inspect.iscoroutinefunction(task.func):
                return self.loop.run(task.func, *args, **result.kwargs)
            return task.func(*args, **result.kwargs)
        finally:
            close_old_connections()

    def _normalised(self, value: Any) -> Any:
        """Return a return value as JSON has it, if it is that and not too long."""
        if value is None:
            return None
        value = normalize_json(value)
        size = len(json.dumps(value, allow_nan=False).encode())
        if size > self._options.max_result_bytes:
            limit = self._options.max_result_bytes
            raise ReturnValueTooLarge(size_bytes=size, limit_bytes=limit)
        return value

    def _failed(self, attempt: Attempt, error: BaseException, seconds: float | None) -> End:
        """Return the end of an attempt that has failed."""
        failure = failure_of(error, "".join(traceback.format_exception(error)))
        if not isinstance(error, WorkerDied):  # whose deaths are among the errors
            attempt.attempts = attempt.attempts.failed(failure)
        return attempt.end(
            failure=failure,
            reason=_reason(error),
            retry_seconds=seconds,
            is_aborted=isinstance(error, TaskAborted),
        )

    def _pause(self, task: Task[..., Any], error: BaseException, attempt: Attempt) -> float | None:
        """Return how many seconds after a failure the task runs again, None for never."""
        is_last = attempt.item.attempts + 1 >= self._max_attempts(task)
        backoff = task.backoff if isinstance(task, FdbQueueTask) else BACKENDS
        backoff = self._options.backoff if backoff is BACKENDS else backoff
        if backoff is None or is_last or isinstance(error, TaskAborted):
            return None
        try:
            seconds = function_of(backoff)(error, attempt.result)
            return None if seconds is None else min(max(0.0, float(seconds)), MAX_SECONDS)
        except Exception:
            logger.exception("a backoff has failed", extra={"task": task.module_path})
            return None

    def _max_attempts(self, task: Task[..., Any]) -> int:
        own = task.max_attempts if isinstance(task, FdbQueueTask) else None
        return self._options.max_attempts if own is None else own


@dataclasses.dataclass(slots=True)
class Attempt:
    """One attempt at a task: its call, its item, and what is known of all attempts."""

    call: Call
    item: Item
    attempts: Attempts
    result: Any = None

    def end(self, **facts: Any) -> End:
        """Return its end, at this moment; its result says so, too."""
        end = End(self.call, self.item, self.attempts, now_us(), self.result, **facts)
        status, is_over = TaskResultStatus.SUCCESSFUL, True
        if not end.is_success:
            is_over = end.retry_seconds is None
            status = TaskResultStatus.FAILED if is_over else TaskResultStatus.READY
        finished = moment(end.moment) if is_over else None
        change(self.result, status=status, finished_at=finished, _return_value=end.value)
        if not end.is_success:  # those of a success are as when it began
            set_attempts(self.result, self.attempts)
        return end


def _own_part(found: types.TracebackType | None) -> types.TracebackType | None:
    """Return a traceback without the frames of this module, which it begins with."""
    part = found
    while part is not None and part.tb_frame.f_code.co_filename == __file__:
        part = part.tb_next
    return part or found


def _reason(error: BaseException) -> str:
    """Return what the dead letter says: the class on the first line, which groups them."""
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}\n{message_of(error)}"
