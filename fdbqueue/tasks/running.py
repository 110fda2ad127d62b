"""The task that runs here: what it may ask for, and what is to be done with its end.

A task's :class:`Running` is in a context variable, so threads and coroutines that it leaves behind
may still have it. What they ask for comes too late once the function has returned or raised, and is
refused: :meth:`Running.close` and :meth:`Running.add` decide that under one lock.

A worker commits what was asked for with the end. Django's ``ImmediateBackend``, for tests, knows
nothing of it: the signals that it sends around each task do the same, behind the end and in a
transaction of its own.
"""

from __future__ import annotations

import contextvars
import dataclasses
import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from fdbqueue import conf
from fdbqueue.engines.protocols import Transaction
from fdbqueue.locks import RLock
from fdbqueue.service import run
from fdbqueue.steady import monotonic
from fdbqueue.tasks.compat import (
    ImmediateBackend,
    InvalidTask,
    TaskContext,
    TaskResult,
    TaskResultStatus,
    ours,
    task_backends,
    task_finished,
    task_started,
)
from fdbqueue.tasks.notes import Notes
from fdbqueue.tasks.results import change, new_result

#: A task that asks again and again whether it is aborted reads about once in this time.
_ABORT_LOOK_SECONDS = 1.0

_running: contextvars.ContextVar[Running | None] = contextvars.ContextVar("running", default=None)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FdbQueueTaskContext(TaskContext):  # type: ignore[misc,type-arg]  # as the stubs have it
    """What a task with ``takes_context`` is given, with more than the API demands.

    Threads that the task starts may use it, too, until its function has returned.
    """

    running: Running | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def is_aborted(self) -> bool:
        """Whether the end of this task was asked for; looks about once a second."""
        running = self.running or _running.get()
        return running is not None and running.is_aborted()

    @property
    def remaining_seconds(self) -> float | None:
        """How long this attempt may still run, 0 if its time limit is over; None for no limit."""
        running = self.running or _running.get()
        return None if running is None else running.remaining_seconds()

    @property
    def metadata(self) -> Notes:
        """The task's metadata: a dictionary of JSON values, 10,000 bytes at most.

        It is written within about a second of a change, without waiting for that, and with the end
        of the attempt, however that ends. The next attempt begins with it. What is read of it is a
        copy: to change a list in it, assign the changed one.
        """
        return (self.running or _here()).notes()

    def progress(self, done: float, *, of: float | None = None) -> None:
        """Say how far this attempt has come; written as the metadata is, and so as cheap.

        Args:
            done: How much is done, as a number from 0 to the largest of a float.
            of: How much that is of; None if that is not known.

        Raises:
            TypeError, ValueError: These are no such numbers.
            RuntimeError: The task's function has returned already.
        """
        self.metadata.set_progress(done, of)


class Running:
    """A task that runs.

    Args:
        backend: Its backend; None for Django's ``ImmediateBackend``.
        result: Its result.
        outer: The task that runs here meanwhile, because it enqueued this one.
        attempt: The attempt, which has the task's notes; None for ``ImmediateBackend``.
        on_note: Called after each change of the notes.
    """

    def __init__(
        self,
        backend: Any,
        result: TaskResult[..., Any],
        outer: Running | None = None,
        attempt: Any = None,
        on_note: Callable[[], None] | None = None,
    ) -> None:
        self._backend = backend
        self.result = result
        self.outer = outer
        self._attempt = attempt
        self._on_note = on_note
        self._notes: Notes | None = None if attempt is None else attempt.notes
        #: What is to be done in the transaction of its end, and behind that.
        self._at_end: list[Callable[[Transaction], Any]] = []
        self._behind: list[Callable[[], Any]] = []
        self._is_over = False
        self._mutex = RLock()  # a time limit may interrupt who has it
        self._looked_at = float("-inf")
        self._is_aborted = False

    def add(self, function: Callable[[Transaction], Any]) -> None:
        """Have something done in the transaction of its end.

        Raises:
            RuntimeError: Its function has returned, or raised.
        """
        self._add(self._at_end, function)

    def enqueue_behind(self, task: Any, args: Any, kwargs: Any) -> TaskResult[..., Any]:
        """Enqueue a task that runs at once, after the end of this one, which does so, too.

        Raises:
            InvalidTask: Another worker's task cannot have it.
            RuntimeError: The function of this one has returned, or raised.
        """
        if self._backend is not None:
            raise InvalidTask("The end of a worker's task cannot run a task of ImmediateBackend.")
        result = new_result(task, args, kwargs, task.backend)

        def enqueue() -> None:
            done = task.enqueue(*args, **kwargs)
            change(result, **{one.name: getattr(done, one.name) for one in fields(done)})

        self._add(self._behind, enqueue)
        return result

    def _add(self, todo: list[Any], function: Callable[..., Any]) -> None:
        with self._mutex:
            if self._is_over:
                text = f"The task {self.result.id} has ended: what is asked for now is never done."
                raise RuntimeError(text)
            todo.append(function)

    def notes(self) -> Notes:
        """Return what this attempt notes, which is made when it is first asked for.

        Raises:
            RuntimeError: The function has returned, or raised, and it had noted nothing.
        """
        with self._mutex:
            if self._notes is None:
                if self._is_over:
                    text = f"The task {self.result.id} has ended: it notes nothing any more."
                    raise RuntimeError(text)
                self._notes = Notes()
                if self._attempt is not None:
                    self._attempt.notes = self._notes
            self._notes.on_change = self._on_note
            return self._notes

    def close(self) -> list[Callable[[Transaction], Any]]:
        """Let nothing be added any more; return what to do in the transaction of its end."""
        with self._mutex:
            self._is_over = True
            if self._notes is not None:
                self._notes.close()
            return self._at_end

    def finish_at_once(self) -> None:
        """Do what is to be done with the end of a task that has no worker to commit it."""
        if functions := self.close():
            run(conf.database(), lambda tr: [function(tr) for function in functions])
        for enqueue in self._behind:
            enqueue()

    def remaining_seconds(self) -> float | None:
        """Return how long the attempt may still run; None for no limit."""
        limit = None if self._attempt is None else self._attempt.limit
        if limit is None or limit.deadline == math.inf:
            return None
        return float(max(0.0, limit.deadline - monotonic()))

    def is_aborted(self) -> bool:
        """Tell whether the end of this task was asked for."""
        now = monotonic()
        if self._backend is None:
            return False
        if not self._is_aborted and now - self._looked_at > _ABORT_LOOK_SECONDS:
            found = self._backend.found(self.result.id)
            self._is_aborted = found is not None and found.is_abort_asked
            self._looked_at = monotonic()
        return self._is_aborted


def running() -> Running | None:
    """Return the task that runs in this thread or coroutine, None if none does."""
    return _running.get()


def set_running(current: Running | None) -> contextvars.Token[Running | None]:
    """Say which task runs here."""
    return _running.set(current)


def at_end(function: Callable[[Transaction], Any]) -> None:
    """Do something in the transaction in which this task ends successfully: exactly once.

    What the function writes, in queues or anywhere in the same database, is committed together with
    the task's result, or not at all; if an attempt fails, it is dropped. The functions of a
    task are called in their order, behind the task; they may be called again after a conflict.
    If one raises, the attempt has failed.

    Args:
        function: Called with the transaction.

    Raises:
        RuntimeError: No task runs here, or its function has returned already.
    """
    _here().add(function)


def enqueue_in(tr: Transaction, task: Any, *args: Any, **kwargs: Any) -> TaskResult[..., Any]:
    """Enqueue a task in the caller's transaction, which the caller commits.

    Args:
        tr: The transaction, of the database that the queues are in.
        task: The task, of a backend of this kind.
        args, kwargs: Its arguments.

    Returns:
        Its result, or that of the task that has its unique key. ``task_enqueued`` is not sent.

    Raises:
        InvalidTask, TypeError: As for ``enqueue``; or it is of another backend. It wrote nothing.
    """
    backend, result, push = _prepared(task, args, kwargs)
    (item,) = push(tr)
    found: TaskResult[..., Any] = backend.existing(item, result, tr) if item.existing else result
    return found


def enqueue_at_end(task: Any, *args: Any, **kwargs: Any) -> TaskResult[..., Any]:
    """Enqueue a task together with the successful end of this one: both, or neither.

    Args:
        task: The task, of a backend of this kind on the same database.
        args, kwargs: Its arguments.

    Returns:
        Its result; nothing is stored of it before this task has ended. If either runs in Django's
        ``ImmediateBackend``, it is filled in once the new task has run.

    Raises:
        RuntimeError: No task runs here, or its function has returned already.
        InvalidTask, TypeError: As for ``enqueue``.
    """
    current = _here()
    if isinstance(task_backends[task.backend], ImmediateBackend):
        return current.enqueue_behind(task, args, kwargs)
    _, result, push = _prepared(task, args, kwargs)
    current.add(push)
    return result


def with_own_context(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of a call, with our context in the place of Django's."""
    if not args or type(args[0]) is not TaskContext:
        return args
    result, current = args[0].task_result, running()
    if current is None or current.result is not result:  # the app is not installed
        current = Running(None, result)
    return FdbQueueTaskContext(task_result=result, running=current), *args[1:]


def follow_immediate() -> None:
    """Let tasks that Django's ``ImmediateBackend`` runs have an end, too."""
    task_started.connect(_started_at_once)
    task_finished.connect(_finished_at_once)


def _started_at_once(sender: type, task_result: TaskResult[..., Any], **_: Any) -> None:
    if isinstance(sender, type) and issubclass(sender, ImmediateBackend):
        set_running(Running(None, task_result, running()))


def _finished_at_once(task_result: TaskResult[..., Any], **_: Any) -> None:
    current = _running.get()
    if current is None or current.result is not task_result:
        return  # not one that began here
    set_running(current.outer)
    if task_result.status == TaskResultStatus.SUCCESSFUL:
        current.finish_at_once()
    else:
        current.close()


def _here() -> Running:
    current = _running.get()
    if current is None:
        raise RuntimeError("No task runs here: this is for tasks that a tasks_worker runs.")
    return current


def _prepared(task: Any, args: Any, kwargs: Any) -> tuple[Any, TaskResult[..., Any], Any]:
    """Return the backend of a task, its result, and what pushes it.

    Raises:
        InvalidTask: Its backend is none of fdbqueue's, or refuses it.
    """
    backend = ours(task.backend, f"to enqueue {task.module_path} here", InvalidTask)
    backend.validate_task(task)
    result = new_result(task, args, kwargs, task.backend)
    return backend, result, backend.prepare(result)
