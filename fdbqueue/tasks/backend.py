"""The backend: it enqueues tasks, and returns their results.

An enqueue is one push and one key more in its transaction, which threads share as they share those
of pushes. What a worker does is in :mod:`fdbqueue.tasks.task_worker`.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from django.apps import apps
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction

from fdbqueue import conf
from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import InvalidValue, ItemNotFound, QueueNotFound
from fdbqueue.service import NAME, PATTERN, Catalog, Item, Push, Queue, QueueSpec, run
from fdbqueue.tasks import key_limit_queues, schedules
from fdbqueue.tasks.checks import OUTBOX_APP, check_backend
from fdbqueue.tasks.compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    BaseTaskBackend,
    InvalidTask,
    TaskResult,
    TaskResultDoesNotExist,
    backends,
    task_enqueued,
)
from fdbqueue.tasks.many import ManyCalls
from fdbqueue.tasks.options import BACKENDS, FdbQueueTask, parse, timeouts
from fdbqueue.tasks.records import (
    Records,
    aware,
    call_of,
    is_id,
    is_pending,
    item_place,
    packed,
    rank_of,
    unpacked,
)
from fdbqueue.tasks.results import (
    is_task_at,
    local,
    new_result,
    of_argument,
    of_call,
    pairs,
    result_of,
)
from fdbqueue.tasks.states import TaskState, state_of

if TYPE_CHECKING:
    from fdbqueue.tasks.outbox.outbox_rows import Outbox

#: How many tasks are known to be sound.
_MAX_SOUND = 1_000
#: The longest call: the arguments of a task, as JSON, and what names it.
MAX_CALL_BYTES = 1_000_000


class TaskWay(NamedTuple):
    """Where the calls of a task go, and what is stored of each: worked out once for all of them.

    Attributes:
        task: The task.
        fields: All that is in it.
        catalog: The queues of the project.
        records: The records of tasks.
        queue: Its queue.
        rank: The priority of its items.
        path: Its dotted path.
        more: What the values of its items have besides the path, the call and its backend.
    """

    task: Any
    fields: tuple[Any, ...]
    catalog: Catalog
    records: Records
    queue: Queue
    rank: int
    path: str
    more: dict[str, Any]


class FdbQueueBackend(BaseTaskBackend):
    """Enqueue tasks in fdbqueue's queues.

    A task is enqueued exactly once when ``enqueue`` returns, and not when it raises, unless a
    receiver of ``task_enqueued`` raised; only an ``OutcomeUnknown`` leaves that open. Its result is
    recorded exactly once. It runs at least once: again if its worker died, or lost its lease.
    """

    is_fdbqueue = True
    task_class = FdbQueueTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.given = self.options
        self.settings, self.problems = parse(self.given)
        self.timeouts = timeouts(self.settings.grace_seconds)
        #: Tasks in which nothing was wrong, with all that is in them: to look again costs much.
        self._sound: dict[int, tuple[Any, tuple[Any, ...]]] = {}
        self._ways: dict[int, TaskWay] = {}
        #: Whether a task with a time limit of its own was made for this backend.
        self._has_timed_task = False
        prefix = self.settings.queue_prefix
        if prefix is None:
            is_default = alias == DEFAULT_TASK_BACKEND_ALIAS
            prefix = "tasks-" if is_default else f"tasks-{alias}-"
        self.queue_prefix = prefix
        self._catalog: Catalog | None = None
        self._records: Records | None = None
        self._outbox: Outbox | None = None

    # What the API asks for

    def validate_task(self, task: Any) -> None:
        """Check a task, as the API does, and the options that only this backend's tasks have.

        Raises:
            InvalidTask: Something is wrong with it.
        """
        fields, known = _fields_of(task.__class__)(task), self._sound.get(id(task))
        if known is not None and known[0] is task and known[1] == fields:
            return
        super().validate_task(task)
        if isinstance(task, FdbQueueTask):
            self._validate_options(task)
        if task.run_after is None:  # else it depends on USE_TZ
            if len(self._sound) >= _MAX_SOUND:
                self._sound.clear()
            self._sound[id(task)] = task, fields

    def _validate_options(self, task: FdbQueueTask[..., Any]) -> None:
        task.check()
        if task.timeout is not BACKENDS and task.timeout is not None:
            if task.timeout not in self.timeouts:
                text = f"timeout may be {self.timeouts}; the least is the backend's grace_seconds."
                raise InvalidTask(text)
            self._has_timed_task = True
        if any(getattr(task, name) is not None for name in key_limit_queues.NO_LIMITS):
            key_limit_queues.check(task, self.queue_prefix + task.queue_name)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> TaskResult[Any, Any]:
        """Enqueue a task, or return the result of the one that has its unique key.

        Raises:
            InvalidTask: The task cannot run with this backend; nothing was enqueued.
            TypeError: The arguments are no JSON; nothing was enqueued. It names the first that is
                not, and its type. ``ValueError``, and ``InvalidValue``, say that of bytes, and of
                numbers such as NaN.
            ValueTooLarge: They are over 1,000,000 bytes; nothing was enqueued.
            ImproperlyConfigured: The app of the outbox is not installed.
            TransactionManagementError: With ``outbox`` or ``enqueue_on_commit``: autocommit is off,
                and there is no ``atomic`` block; nothing was enqueued.
        """
        self.validate_task(task)
        result = new_result(task, args, kwargs, self.alias)
        if self.settings.outbox is not None:
            return self.outbox().enqueue(result)
        push = self.prepare(result)
        if self.settings.enqueue_on_commit:
            transaction.on_commit(functools.partial(self._push, push, result))
            return result
        return self._push(push, result)

    def enqueue_many(self, task: Any, calls: Iterable[Any]) -> list[TaskResult[Any, Any]]:
        """Enqueue a task with many arguments, as the task's ``enqueue_many`` says."""
        self.validate_task(task)
        results = []
        for number, call in enumerate(pairs(calls)):
            with of_call(number):
                results.append(new_result(task, *call, self.alias))
        if self.settings.outbox is not None:
            return self.outbox().enqueue_many(results)
        many = ManyCalls(self, task.queue_name, results)
        if self.settings.enqueue_on_commit:
            transaction.on_commit(many.enqueue)
            return results
        return many.enqueue()

    def get_result(self, result_id: str, *, tr: Transaction | None = None) -> TaskResult[..., Any]:
        """Return the result of a task, from one moment of the database.

        Args:
            result_id: The id of the result.
            tr: The transaction to read in; None for one of its own.

        Raises:
            TaskResultDoesNotExist: There is none with this id, or not any more.
        """
        found = self.found(result_id, tr)
        if found is None and tr is None and self.settings.outbox is not None:
            found = self.found_in_outbox(result_id)
        if found is None:
            raise TaskResultDoesNotExist(result_id)
        return result_of(found, self.catalog.home(found.queue).removeprefix(self.queue_prefix))

    def check(self, **_: Any) -> list[checks.CheckMessage]:
        """Return what is wrong with the setting of this backend, without connecting to anything."""
        return [*check_backend(self, [*self.problems, *schedules.problems(self)])]

    # What the worker, the pages and the commands need

    def has_time_limits(self) -> bool:
        """Tell whether an attempt has a time limit, by the setting or a task that is imported."""
        return self.settings.timeout is not None or self._has_timed_task

    def outbox(self) -> Outbox:
        """Return the outbox.

        Raises:
            ImproperlyConfigured: There is none, or its app is not installed.
        """
        if self._outbox is None:
            if self.settings.outbox is None or not apps.is_installed(OUTBOX_APP):
                text = f"The outbox of the task backend {self.alias!r} needs the option 'outbox'"
                raise ImproperlyConfigured(f"{text}, and {OUTBOX_APP!r} in INSTALLED_APPS.")
            from fdbqueue.tasks.outbox.outbox_rows import Outbox

            self._outbox = Outbox(self, self.settings.outbox)
        return self._outbox

    @property
    def catalog(self) -> Catalog:
        """The queues of the project, or the ones that :meth:`over` was given."""
        return conf.catalog() if self._catalog is None else self._catalog

    def over(self, catalog: Catalog) -> FdbQueueBackend:
        """Return this backend over another catalog: one whose transactions have a time limit."""
        backend = copy.copy(self)
        backend._catalog, backend._outbox = catalog, None  # noqa: SLF001  # its own class
        return backend

    @property
    def records(self) -> Records:
        """The records of tasks."""
        prefix = conf.prefix()
        if self._records is None or self._records.prefix != prefix:
            self._records = Records(prefix)
        return self._records

    def queue(self, queue_name: str) -> Queue:
        """Return the queue of tasks with a name that ``QUEUES`` allows.

        Raises:
            ImproperlyConfigured: The app is not installed, so there are no queues of tasks.
        """
        try:
            return self.catalog.queue(self.queue_prefix + queue_name)
        except QueueNotFound:
            if apps.is_installed("fdbqueue.tasks"):
                raise
        text = f"The task backend {self.alias!r} needs the app 'fdbqueue.tasks'"
        raise ImproperlyConfigured(f"{text}: add it to INSTALLED_APPS.")

    def names(self) -> list[str]:
        """Return the names of its queues in the catalog; a pattern if it takes any name."""
        return [self.queue_prefix + name for name in sorted(self.queues)] or [
            f"{self.queue_prefix}*"
        ]

    def owns(self, name: str) -> bool:
        """Tell whether a queue of the catalog is this backend's, and no other's.

        It belongs to the backend that names it; otherwise to the one with the longest prefix, and
        of those with the same one to the one that takes any name. So one whose name a setting does
        not have any more is still its backend's. Of a part ask for its home.
        """
        if not name.startswith(self.queue_prefix):
            return False
        owner = max(backends(), key=lambda one: one.claim(name), default=self)
        return owner.alias == self.alias

    def claim(self, name: str) -> tuple[bool, int, bool, bool]:
        """Return how much a queue of the catalog is this backend's: that with the most has it."""
        fits = name.startswith(self.queue_prefix)
        is_default = self.alias == DEFAULT_TASK_BACKEND_ALIAS
        return (
            fits and name.removeprefix(self.queue_prefix) in self.queues,
            len(self.queue_prefix) if fits else -1,
            not self.queues,
            is_default,
        )

    def specs(self) -> Iterator[QueueSpec]:
        """Yield how its queues are stored, but for those whose name is not valid.

        First those of limited tasks, because a pattern of others may fit their names.
        """
        limits_at = functools.partial(key_limit_queues.limits_key, self.records.prefix)
        spec = functools.partial(_spec, attention_seconds=self.settings.attention_seconds)
        for name in self.limited_names():
            yield spec(
                name,
                limits_at=limits_at,
                home_of=key_limit_queues.home_of,
                label_of=key_limit_queues.label_of,
            )
        for name in self.names():
            if NAME.fullmatch(name) or PATTERN.fullmatch(name):
                yield spec(name)

    def limited_names(self) -> list[str]:
        """Return the families of its limited tasks in the catalog."""
        names = [key_limit_queues.family_of(name) for name in self.names()]
        return [name for name in names if PATTERN.fullmatch(name)]

    def prepare(self, result: TaskResult[..., Any]) -> Any:
        """Return a function that pushes a task: in the transaction it is given, or one of its own.

        Raises:
            InvalidInput: The queue refuses the task.
        """
        way = self._way_of(result)
        queue, push, limited = self._push_in(way, result)
        record = functools.partial(way.records.write_new, result_id=result.id, queue=queue.name)
        try:
            prepared = queue.prepare(push, beside=record)
        except InvalidValue as error:
            raise of_argument(error, push.value) from error
        return prepared if limited is None else self._keeping(limited, prepared)

    def push_of(
        self, result: TaskResult[..., Any]
    ) -> tuple[Queue, Push, key_limit_queues.Limited | None]:
        """Return the queue of a task, what to push to it, and its limits if it has some.

        Raises:
            InvalidTask: No worker would find it, or it would be in another backend's queue.
        """
        return self._push_in(self._way_of(result), result)

    def _way_of(self, result: TaskResult[..., Any]) -> TaskWay:
        """Return where the calls of a task go.

        Raises:
            InvalidTask: No worker would find it, or it would be in another backend's queue.
        """
        task: Any = result.task
        catalog, fields = self.catalog, _fields_of(task.__class__)(task)
        known = self._ways.get(id(task))
        if known is not None and known[:3] == (task, fields, catalog):
            return known
        queue = self.queue(task.queue_name)
        if not self.queues and not self.owns(queue.name):
            text = f"The queue {task.queue_name!r} of the task backend {self.alias!r} would be"
            raise InvalidTask(f"{text} {queue.name!r}, which is another backend's.")
        call = call_of(result)
        if not is_task_at(call.task, task):
            text = f"No task has the path {call.task!r}, so no worker would find it: give the task"
            raise InvalidTask(f"{text} the name of its function, in its module.")
        more = packed(call)
        path = more["task"]
        for name in ("id", "task", "args", "kwargs", "backend"):
            del more[name]
        way = TaskWay(task, fields, catalog, self.records, queue, rank_of(call), path, more)
        if len(self._ways) >= _MAX_SOUND:
            self._ways.clear()
        self._ways[id(task)] = way
        return way

    def _push_in(
        self, way: TaskWay, result: TaskResult[..., Any]
    ) -> tuple[Queue, Push, key_limit_queues.Limited | None]:
        task, queue = way.task, way.queue
        value: dict[str, Any] = {
            "id": result.id,
            "task": way.path,
            "args": result.args,
            "kwargs": result.kwargs,
            "backend": result.backend,
            **way.more,
        }
        keyed: dict[str, Any] = {}
        limited = None
        if isinstance(task, FdbQueueTask):
            if task.unique_key is not None:
                key = task.key_of(result.args, result.kwargs)
                keyed = {"unique": key, "unique_while": task.unique_while}
            if task.max_running is not None or task.rate is not None:
                limited = key_limit_queues.where(task, queue.name, result.args, result.kwargs)
                queue = queue if limited is None else way.catalog.queue(limited.queue)
        not_before = None if task.run_after is None else aware(task.run_after)
        return queue, Push(value, way.rank, not_before=not_before, **keyed), limited

    def prepare_batch(
        self, queue: Queue, pushes: Sequence[Push]
    ) -> Callable[[Transaction], list[Item]]:
        """Return a function that pushes tasks to a queue, with their records, in a transaction.

        Raises:
            InvalidInput: The queue refuses one of them; ``index`` says which.
        """
        push = queue.prepare_batch(pushes)

        def push_all(tr: Transaction) -> list[Item]:
            items = push(tr)
            for one, item in zip(pushes, items, strict=True):
                if not item.existing:
                    self.records.write_new(tr, item.id, result_id=one.value["id"], queue=queue.name)
            return items

        return push_all

    def _keeping(self, limited: key_limit_queues.Limited, push: Any) -> Any:
        """Return a function that pushes a task with limits, which are stored before."""

        def push_limited(tr: Transaction | None) -> Any:
            given = self.catalog, self.records.prefix, limited
            if tr is None:
                key_limit_queues.store_limits(*given)
            else:
                key_limit_queues.declare(tr, *given)
            return push(tr)

        return push_limited

    def _push(self, push: Any, result: TaskResult[..., Any]) -> TaskResult[..., Any]:
        (item,) = push(None)
        if item.existing:
            return self.existing(item, result)
        object.__setattr__(result, "enqueued_at", local(item.pushed_at))
        task_enqueued.send(type(self), task_result=result)
        return result

    def existing(
        self, item: Item, result: TaskResult[..., Any], tr: Transaction | None = None
    ) -> TaskResult[..., Any]:
        """Return the result of the task that has the unique key of one that was not enqueued.

        That task may have ended meanwhile, and nothing be kept of it: then as it was found.

        Args:
            item: Its item.
            result: The result of the one that was not enqueued.
            tr: The transaction to read in; None for one of its own.
        """
        call = unpacked(item.value)
        if call is None:
            return result
        try:
            return self.get_result(call.id, tr=tr)
        except TaskResultDoesNotExist:
            found = state_of(call.id, {}, item, self.settings.lease_seconds)
            return result_of(found, result.task.queue_name)

    def found(self, result_id: Any, tr: Transaction | None = None) -> TaskState | None:
        """Return the state of a task, None if nothing is stored of it."""
        if not is_id(result_id):
            return None

        def read(transaction: Transaction) -> TaskState | None:
            record = self.records.read(transaction, result_id)
            if record is None:
                return None
            item = None
            if is_pending(record):
                name, item_id = item_place(record)
                try:
                    item = self.catalog.queue(name).get(item_id, tr=transaction)
                except (ItemNotFound, QueueNotFound):
                    return None
            return state_of(result_id, record, item, self.settings.lease_seconds)

        return read(tr) if tr is not None else run(self.catalog.database, read, read_only=True)

    def found_in_outbox(self, result_id: Any) -> TaskState | None:
        """Return what is known of a task that is not in a queue yet, or was just moved to one."""
        if not is_id(result_id):
            return None
        found = self.outbox().found(result_id)
        return self.found(result_id) if found is None else found


@functools.cache
def _fields_of(kind: type) -> operator.attrgetter[tuple[Any, ...]]:
    """Return what reads all fields of a task of a class."""
    return operator.attrgetter(*[field.name for field in dataclasses.fields(kind)])


def _spec(name: str, **options: Any) -> QueueSpec:
    return QueueSpec(
        name,
        "priority",
        owner="fdbqueue.tasks",
        max_attempts=None,
        max_value_bytes=MAX_CALL_BYTES,
        **options,
    )


def specs() -> list[QueueSpec]:
    """Return how the queues of all backends are stored.

    Of the families of limited tasks the most special ones come first: a name is looked up in order.
    """
    found = list(itertools.chain.from_iterable(backend.specs() for backend in backends()))
    limited = [spec for spec in found if spec.limits_at is not None]
    limited.sort(key=lambda spec: len(spec.name), reverse=True)
    return [*limited, *[spec for spec in found if spec.limits_at is None]]
