"""The options of a backend and of a task, and what is wrong with a backend's.

:class:`BackendOptions` has the ``OPTIONS`` of a backend. :func:`task` makes a task with options of
its own, which count before the backend's; :func:`exponential` is when a failed task runs again if
neither says that.
"""

from __future__ import annotations

import dataclasses
import datetime
import random
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Generic,
    Literal,
    NoReturn,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    overload,
)

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.utils.module_loading import import_string

from fdbqueue.conf import ANYTHING, OfClass, Rule, SettingProblem, wrong_in
from fdbqueue.exceptions import message_of
from fdbqueue.service import LEASE_SECONDS, UNIQUE_WHILE
from fdbqueue.service.options import ALLOWED, Choice, Range
from fdbqueue.tasks.checks import OPTIONS
from fdbqueue.tasks.compat import DEFAULT_TASK_BACKEND_ALIAS, InvalidTask, Task, task_backends
from fdbqueue.tasks.exceptions import pass_interrupt
from fdbqueue.tasks.results import FdbQueueTaskResult, pairs
from fdbqueue.tasks.running import with_own_context

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = ParamSpec("P")
T = TypeVar("T")
#: What ``backoff`` is: called with the exception, or None if the worker died, and the task's
#: result; it returns the seconds until the next attempt, or None for no further attempt.
Backoff = Callable[[BaseException | None, Any], float | None]
#: What ``expires`` of a task is; and a key of a task, or what returns that of a call.
Expiry = datetime.datetime | datetime.timedelta | float
Key = str | Callable[..., str | None]

_DAY = 86_400.0
#: The longest time limit of an attempt: a week.
MAX_TIMEOUT = 604_800
#: Ten years.
MAX_KEPT_SECONDS = 315_360_000


class _Retentions:
    """What the option ``retention`` may be."""

    _seconds = Range((int, float), 0, MAX_KEPT_SECONDS, none_is_valid=True)

    def __str__(self) -> str:
        return "a dictionary of 'successful' and 'failed', in seconds or as timedelta, or None"

    def __contains__(self, value: object) -> bool:
        return (
            isinstance(value, Mapping)
            and {"successful", "failed"}.issuperset(value)
            and all(in_seconds(one) in self._seconds for one in value.values())
        )


class _Expiries:
    """What the option ``expires`` of a task may be."""

    _seconds = Range((int, float), 0.1, MAX_KEPT_SECONDS, none_is_valid=True)

    def __str__(self) -> str:
        return f"seconds ({self._seconds}), a timedelta, or a datetime, aware with USE_TZ"

    def __contains__(self, value: object) -> bool:
        if isinstance(value, datetime.datetime):
            return value.tzinfo is not None or not settings.USE_TZ
        return in_seconds(value) in self._seconds


#: What each option of a backend may be.
RULES = {
    "lease_seconds": Rule(Range((int, float), 1, 86_400), OPTIONS),
    "max_attempts": Rule(Range(int, 1, 1_000), OPTIONS),
    "backoff": Rule(ANYTHING, OPTIONS),
    "retention": Rule(_Retentions(), OPTIONS),
    "queue_prefix": Rule(OfClass((str, type(None)), "a text"), OPTIONS),
    "enqueue_on_commit": Rule(OfClass((bool,), "True or False"), OPTIONS),
    "outbox": Rule(OfClass((bool, str), "True, False, or the alias of a database"), OPTIONS),
    "max_result_bytes": Rule(Range(int, 1, 5_000_000), OPTIONS),
    "timeout": Rule(Range((int, float), 0.1, MAX_TIMEOUT, none_is_valid=True), OPTIONS),
    "grace_seconds": Rule(Range((int, float), 0.1, 3_600), OPTIONS),
    "schedules": Rule(OfClass((Mapping,), "a dictionary"), OPTIONS),
    "attention_seconds": Rule(ALLOWED["attention_seconds"], OPTIONS),
}
#: What some options of a task may be; the others are looked at apart.
_OF_TASKS = {
    "max_attempts": dataclasses.replace(RULES["max_attempts"].allowed, none_is_valid=True),
    "unique_while": Choice(UNIQUE_WHILE),
    "expires": _Expiries(),
    "max_running": ALLOWED["max_leased"],
    "rate": ALLOWED["rate"],
    "burst": ALLOWED["burst"],
}
#: The pause before the second attempt, and the longest one, before each is made shorter or longer
#: by up to a quarter, so that tasks that failed together do not return together.
FIRST_BACKOFF_SECONDS = 15.0
MAX_BACKOFF_SECONDS = 3_600.0
_JITTER = 0.25


def exponential(exception: BaseException | None, result: Any) -> float:  # noqa: ARG001  # as all backoffs
    """Return how long a failed task pauses: 15 seconds, doubled with each attempt up to an hour.

    Each pause is shorter or longer by up to a quarter, so the longest is 75 minutes.

    Args:
        exception: What the task raised.
        result: The task's result: ``result.attempts`` is how many attempts there have been.
    """
    seconds = min(MAX_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** min(result.attempts - 1, 20))
    return seconds * random.uniform(1 - _JITTER, 1 + _JITTER)


@dataclasses.dataclass(frozen=True, slots=True)
class Retention:
    """For how many seconds ended tasks are kept: None for ever, 0 not at all."""

    successful: float | None = 7 * _DAY
    failed: float | None = 30 * _DAY


@dataclasses.dataclass(frozen=True, slots=True)
class BackendOptions:
    """The options of a backend.

    Attributes:
        lease_seconds: How long a worker holds a task without a sign of life. Workers extend it
            while the task runs: so this is how soon the tasks of a killed worker run again.
        max_attempts: How many attempts at a task count at most, killed workers included. A first
            attempt that is killed within about 0.1 seconds may not count, unless this is 1.
        backoff: When a failed task runs again.
        retention: For how long ended tasks are kept.
        queue_prefix: What the names of the backend's queues begin with; None for ``tasks-``, and
            ``tasks-ALIAS-`` if the backend's alias is not ``default``.
        enqueue_on_commit: Whether a task is enqueued when the ORM's transaction commits.
        outbox: The database of the table in whose transactions tasks are enqueued; None for none.
        max_result_bytes: The longest return value, as compact JSON in UTF-8.
        timeout: How many seconds an attempt may take; None for any number.
        grace_seconds: How long a process may go on with an attempt that does not end in time.
        schedules: Tasks that are enqueued at their times, by name.
        attention_seconds: As of a queue, for all of the backend's.
    """

    lease_seconds: float = LEASE_SECONDS
    max_attempts: int = 5
    backoff: Backoff | None = exponential
    retention: Retention = Retention()
    queue_prefix: str | None = None
    enqueue_on_commit: bool = False
    outbox: str | None = None
    max_result_bytes: int = 1_000_000
    timeout: float | None = None
    grace_seconds: float = 5
    schedules: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    attention_seconds: float = 600


def parse(given: Mapping[str, Any]) -> tuple[BackendOptions, list[SettingProblem]]:
    """Return the options that a setting says, and what is wrong with it.

    What is wrong has its default in the options.
    """
    problems = [*_problems(given)]
    wrong = {name for name, _ in problems}
    sound = {name: value for name, value in given.items() if name not in wrong}
    if "backoff" in sound:
        sound["backoff"] = function_of(sound["backoff"])
    if "retention" in sound:
        sound["retention"] = Retention(
            **{name: in_seconds(value) for name, value in sound["retention"].items()}
        )
    if isinstance(sound.get("outbox"), bool):
        sound["outbox"] = DEFAULT_DB_ALIAS if sound["outbox"] else None
    return BackendOptions(**sound), [problem for _, problem in problems]


def function_of(given: Any) -> Any:
    """Return a function that is given as itself or by its dotted path; None stays None."""
    return import_string(given) if isinstance(given, str) else given


def in_seconds(given: Any) -> Any:
    """Return a ``timedelta`` as seconds, and anything else as it is."""
    return given.total_seconds() if isinstance(given, datetime.timedelta) else given


def _problems(given: Mapping[str, Any]) -> Iterator[tuple[str, SettingProblem]]:
    listed = "The options are"
    for name, problem in wrong_in("OPTIONS", given, RULES, unknown_id=OPTIONS, listed=listed):
        if name == "shards":
            why = "Tasks have no shards: several are leased at a time already."
            yield name, problem._replace(hint=f"{why} {problem.hint}")
        else:
            yield name, problem
    yield from _grace_problems(given)
    yield from _outbox_problems(given)
    yield from _backoff_problems(given.get("backoff"))


def timeouts(grace_seconds: float) -> Range:
    """Return what a time limit may be: shorter than the grace it could not be kept."""
    found: Range = dataclasses.replace(RULES["timeout"].allowed, least=grace_seconds)
    return found


def _grace_problems(given: Mapping[str, Any]) -> Iterator[tuple[str, SettingProblem]]:
    """Yield what is wrong with a sound time limit that is shorter than the grace."""
    timeout = given.get("timeout")
    grace = given.get("grace_seconds", BackendOptions().grace_seconds)
    if timeout not in RULES["timeout"].allowed or grace not in RULES["grace_seconds"].allowed:
        return
    if timeout not in timeouts(grace):
        message = f"OPTIONS has the timeout {timeout!r}, which is below grace_seconds, {grace!r}."
        yield (
            "timeout",
            SettingProblem(OPTIONS, message, "Choose a longer timeout, or a shorter grace."),
        )


def _outbox_problems(given: Mapping[str, Any]) -> Iterator[tuple[str, SettingProblem]]:
    outbox = given.get("outbox")
    if isinstance(outbox, str) and outbox not in connections:
        hint = f"The aliases are {', '.join(sorted(connections))}."
        yield (
            "outbox",
            SettingProblem(OPTIONS, f"OPTIONS has the outbox {outbox!r}, no database.", hint),
        )
    elif outbox and given.get("enqueue_on_commit"):
        message = "OPTIONS has both outbox and enqueue_on_commit."
        hint = "Remove enqueue_on_commit: rows of the outbox are moved once they are committed."
        yield "enqueue_on_commit", SettingProblem(OPTIONS, message, hint)


def _backoff_problems(backoff: Any) -> Iterator[tuple[str, SettingProblem]]:
    try:
        found = function_of(backoff)
    except BaseException as error:  # noqa: BLE001  # a project's own module may raise anything
        pass_interrupt(error)
        message = f"The backoff {backoff!r} cannot be imported: {message_of(error)}"
        yield (
            "backoff",
            SettingProblem(OPTIONS, message, "Name a function of an exception and a result."),
        )
        return
    if found is not None and not callable(found):
        hint = "It must be None, a function, or its dotted path."
        yield "backoff", SettingProblem(OPTIONS, f"OPTIONS has the backoff {backoff!r}.", hint)


# Tasks


class _Backends:
    """Stands for what the backend says."""

    def __repr__(self) -> str:
        return "BACKENDS"

    def __reduce__(self) -> str:
        return "BACKENDS"


#: The backoff and the time limit of a task that has none of its own.
BACKENDS: Any = _Backends()
#: What a call of a task cannot change.
_LIMITS = {"max_running", "rate", "burst"}
_OF_THE_CODE = {"func", "max_attempts", "backoff", "timeout", "takes_context", *_LIMITS}


class TaskChanges(TypedDict, total=False):
    """What a call of a task can change, by :meth:`FdbQueueTask.using`; None changes nothing."""

    priority: int | None
    queue_name: str | None
    run_after: datetime.datetime | None
    backend: str | None
    expires: Expiry | None
    unique_key: Key | None
    unique_while: Literal["ready", "pending"] | None
    concurrency_key: Key | None


class TaskKeywords(TypedDict, total=False):
    """The options that the decorator :func:`task` takes, besides those that decide types."""

    priority: int
    queue_name: str
    backend: str
    max_attempts: int | None
    backoff: Backoff | None
    timeout: float | None
    expires: Expiry | None
    unique_key: Key | None
    unique_while: Literal["ready", "pending"]
    concurrency_key: Key | None
    max_running: int | None
    rate: str | None
    burst: int | None


#: What is said to who calls a task as a function, or by a name that tasks of Celery have.
_WRITE = "Write {0}.enqueue(...) to let a worker run the task, or {0}.call(...) to run it here."
_OF_CELERY = frozenset({"delay", "apply_async", "adelay", "s", "si"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FdbQueueTask(Task, Generic[P, T]):  # type: ignore[type-arg]  # generic in the stubs alone
    """A task of this backend, with options that other backends do not have.

    Attributes:
        max_attempts: How many attempts at it count at most; None for what the backend says.
        backoff: When it runs again after a failure; :data:`BACKENDS` for what the backend says.
        timeout: How many seconds an attempt may take, from when its function begins; None for any
            number, :data:`BACKENDS` for what the backend says.
        expires: By when its first attempt must have begun: a ``datetime``; or how long after its
            enqueue, or its ``run_after``, in seconds or as ``timedelta``. A worker that takes it
            later ends it with :class:`~fdbqueue.tasks.exceptions.TaskExpired`. None for any time.
        unique_key: A text, or a function of the task's arguments that returns one or None. While
            a task of the same function has the same key, another one is not enqueued.
        unique_while: How long a task has its key: ``"ready"``, until a worker takes it, or
            ``"pending"``, until it has ended.
        concurrency_key: Whose limits the next three are: a text, in which ``{name}`` stands for an
            argument, or a function of the arguments that returns a text, or None for no limits.
            None for the whole function.
        max_running: How many tasks with the same key run at most; None for any number.
        rate: How many of them begin in a time at most, such as ``"100/m"``; None for any number.
        burst: With a rate, how many may begin at once; None for what the rate gives in a second.
    """

    max_attempts: int | None = None
    backoff: Backoff | None = BACKENDS
    timeout: float | None = BACKENDS
    expires: Expiry | None = None
    unique_key: Key | None = None
    unique_while: str = "pending"
    concurrency_key: Key | None = None
    max_running: int | None = None
    rate: str | None = None
    burst: int | None = None

    #: Django's templates call what can be called.
    do_not_call_in_templates: ClassVar[bool] = True

    if not TYPE_CHECKING:  # type checkers say that there are no such calls

        def __call__(self, *_: Any, **__: Any) -> NoReturn:
            """Refuse: a task is no function, and which of two things is meant must be said."""
            raise TypeError(_WRITE.format(self.name))

        def __getattr__(self, name: str) -> NoReturn:
            if name in _OF_CELERY:
                raise AttributeError(_WRITE.format(self.name))
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    if TYPE_CHECKING:  # Django's methods; the results of our backends can do more than its own

        def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> FdbQueueTaskResult[T]:
            """Enqueue the task, and return its result."""

        async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> FdbQueueTaskResult[T]:
            """See enqueue()."""

        def get_result(self, result_id: str) -> FdbQueueTaskResult[T]:
            """Return the result with an id, which must be one of this task."""

        async def aget_result(self, result_id: str) -> FdbQueueTaskResult[T]:
            """See get_result()."""

    def check(self) -> None:
        """Check the options that are a choice, a number or a function.

        Raises:
            InvalidTask: One is wrong.
        """
        for name, allowed in _OF_TASKS.items():
            if (value := getattr(self, name)) not in allowed:
                raise InvalidTask(f"{name} may be {allowed}; not {value!r}.")
        backoff = self.backoff  # a path is imported once there is a failure
        is_known = backoff is BACKENDS or backoff is None or isinstance(backoff, str)
        if not is_known and not callable(backoff):
            text = "backoff may be a function of an exception and a result, its path, or None"
            raise InvalidTask(f"{text}; not {backoff!r}.")

    def using(self, **changes: Unpack[TaskChanges]) -> FdbQueueTask[P, T]:
        """Return the task with other values for a call, its keys among them.

        Raises:
            TypeError: ``max_attempts``, ``backoff``, ``timeout`` and limits are the code's to say,
                not a call's.
        """
        if refused := changes.keys() & _OF_THE_CODE:
            raise TypeError(f"using() does not take {', '.join(sorted(refused))}.")
        given: Any = {name: value for name, value in changes.items() if value is not None}
        return dataclasses.replace(self, **given)

    def enqueue_many(
        self, calls: Iterable[tuple[Sequence[Any], Mapping[str, Any]]]
    ) -> list[FdbQueueTaskResult[T]]:
        """Enqueue the task with many arguments, up to a thousand calls in each commit.

        All calls are checked before any is enqueued; then they are enqueued in their order. With
        ``enqueue_on_commit`` that is once the ORM's transaction commits, with the ``outbox`` in it.
        Unique keys and limits hold as for ``enqueue``, and ``task_enqueued`` is sent for each.
        Other backends enqueue one after another.

        Args:
            calls: Pairs of a list or tuple of arguments and a dictionary of those by name.

        Returns:
            The results in the order of the calls; that of another task if it has the unique key.

        Raises:
            InvalidTask, TypeError, ValueError, InvalidValue, ValueTooLarge: As for ``enqueue``;
                they say which call is wrong; nothing was enqueued.
            PushInterrupted: Something failed later. ``pushed`` says how many calls were enqueued,
                from the first on; ``unknown``, if it is there, how many after these may be.
        """
        backend: Any = self.get_backend()
        if getattr(backend, "is_fdbqueue", False):
            return list(backend.enqueue_many(self, calls))
        return [backend.enqueue(self, args, kwargs) for args, kwargs in pairs(calls)]

    async def aenqueue_many(
        self, calls: Iterable[tuple[Sequence[Any], Mapping[str, Any]]]
    ) -> list[FdbQueueTaskResult[T]]:
        """See enqueue_many()."""
        return await sync_to_async(self.enqueue_many, thread_sensitive=True)(calls)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function, as ``ImmediateBackend`` does; its context has what ours have."""
        return Task.call(self, *with_own_context(args), **kwargs)

    async def acall(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """See call()."""
        return await Task.acall(self, *with_own_context(args), **kwargs)

    def key_of(self, args: Any, kwargs: Any) -> str | None:
        """Return the unique key of a call, None if it has none."""
        key = self.unique_key(*args, **kwargs) if callable(self.unique_key) else self.unique_key
        return None if key is None else f"{self.module_path}:{key}"


class _Decorator(Protocol):
    """Makes a task of a function."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, T]], /) -> FdbQueueTask[P, T]: ...

    @overload
    def __call__(self, function: Callable[P, T], /) -> FdbQueueTask[P, T]: ...


class _ContextDecorator(Protocol):
    """Makes a task of a function whose first argument is the task's context."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]], /
    ) -> FdbQueueTask[P, T]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[Any, P], T], /) -> FdbQueueTask[P, T]: ...


@overload
def task(function: Callable[P, Coroutine[Any, Any, T]], /) -> FdbQueueTask[P, T]: ...


@overload
def task(function: Callable[P, T], /) -> FdbQueueTask[P, T]: ...


@overload
def task(*, takes_context: Literal[True], **options: Unpack[TaskKeywords]) -> _ContextDecorator: ...


@overload
def task(*, takes_context: Literal[False] = ..., **options: Unpack[TaskKeywords]) -> _Decorator: ...


def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    backend: str = DEFAULT_TASK_BACKEND_ALIAS,
    **options: Any,
) -> Any:
    """Make a task, as Django's decorator does, with the options of :class:`FdbQueueTask` too.

    Other backends, such as the immediate one in tests, run such a task without these options; one
    that has a class of tasks of its own is given that, without them. Django's own decorator takes
    them from Django 6.1 on.

    Raises:
        InvalidTask: The task has limits, and the backend is one that runs tasks without them.
    """

    def wrap(wrapped: Callable[..., Any]) -> Any:
        found = task_backends[backend]
        kind = found.task_class
        if any(options.get(name) is not None for name in _LIMITS):
            _check_keeps_limits(found, backend)
        kind = FdbQueueTask if kind is Task else kind
        names = {field.name for field in dataclasses.fields(kind)}
        known = {name: value for name, value in options.items() if name not in _OURS - names}
        given = {"priority": 0, "queue_name": "default", "run_after": None, **known}
        return kind(func=wrapped, backend=backend, **given)

    return wrap if function is None else wrap(function)


def _check_keeps_limits(backend: Any, alias: str) -> None:
    """Refuse a task with limits for a backend that runs tasks without them, but in tests.

    Django's own backends run a task at once, or not at all.
    """
    is_djangos = type(backend).__module__.startswith(("django.tasks.", "django_tasks.backends."))
    if backend.task_class is not FdbQueueTask and not is_djangos:
        text = f"The task backend {alias!r} is a {type(backend).__name__}, which keeps no limits"
        raise InvalidTask(f"{text}: max_running, rate and burst need one of fdbqueue's.")


_OURS = {field.name for field in dataclasses.fields(FdbQueueTask)} - {
    field.name for field in dataclasses.fields(Task)
}
