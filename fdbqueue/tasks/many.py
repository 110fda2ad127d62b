"""Enqueue a task with many arguments, in as few transactions as that takes.

All calls are checked and prepared before anything is written. Each transaction then enqueues a
portion: the items, in the queues of their keys if the task has limits, and a record for each.
What is left behind by

- *a crash, a signal, an engine that fails*: the portions before, whole; ``PushInterrupted`` says
  how many calls these are;
- *an unknown outcome*: the same, and how many calls may be enqueued beside, all of them or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import InvalidInput, InvalidValue
from fdbqueue.service import Item, Push, Queue, push_portions, run
from fdbqueue.tasks.compat import TaskResult, task_enqueued
from fdbqueue.tasks.key_limit_queues import store_limits, without_key
from fdbqueue.tasks.records import encoded
from fdbqueue.tasks.results import change, local, of_argument, of_call

#: The most calls that one transaction enqueues, and the most bytes of these.
MAX_CALLS, MAX_BYTES = 1_000, 1_000_000
#: The most queues that it pushes to, those of keys: it reads each, and has five seconds.
MAX_QUEUES = 100

T = TypeVar("T")


def portions(calls: Iterable[T], facts: Callable[[T], tuple[str, int]]) -> Iterator[list[T]]:
    """Yield calls in their order, as many at a time as one transaction enqueues.

    Args:
        calls: The calls.
        facts: Returns the name of a call's queue, and its length in bytes.
    """
    portion: list[T] = []
    size, queues = 0, set[str]()
    for call in calls:
        queue, length = facts(call)
        size += length
        queues.add(queue)
        is_full = size > MAX_BYTES or len(queues) > MAX_QUEUES or len(portion) >= MAX_CALLS
        if portion and is_full:
            yield portion
            portion, size, queues = [], length, {queue}
        portion.append(call)
    if portion:
        yield portion


class _Call(NamedTuple):
    """A call that is to be enqueued: its number, what to push where, and its length in bytes."""

    number: int
    queue: Queue
    push: Push
    size: int


class ManyCalls:
    """Calls of a task that are ready to be enqueued.

    Args:
        backend: The backend.
        queue: The name of the task's queue in ``QUEUES``.
        results: A result for each call.

    Raises:
        InvalidInput: A queue refuses one; ``index`` says which.
    """

    def __init__(self, backend: Any, queue: str, results: Sequence[TaskResult[..., Any]]) -> None:
        self._backend, self._results = backend, results
        self._queue: str = backend.queue(queue).name
        self._limits: dict[str, Any] = {}
        #: What was pushed, or found under its unique key, by the number of the call.
        self._items: dict[int, Item] = {}
        calls = []
        for number, result in enumerate(results):
            with of_call(number):
                queue_of_call, push, limited = backend.push_of(result)
            if limited is not None:
                self._limits.setdefault(without_key(limited.queue), limited)
            calls.append(_Call(number, queue_of_call, push, len(encoded(push.value))))
        self._portions = [*portions(calls, lambda call: (call.queue.name, call.size))]
        self._prepared = iter([self._prepare(portion) for portion in self._portions])

    def enqueue(self) -> list[TaskResult[..., Any]]:
        """Enqueue them, once; return the results."""
        for limited in self._limits.values():
            store_limits(self._backend.catalog, self._backend.records.prefix, limited)
        send: Any = task_enqueued.send
        try:
            push_portions(self._queue, self._portions, self._push_portion)
        except BaseException:
            send = task_enqueued.send_robust
            raise
        finally:
            for number, item in sorted(self._items.items()):
                if not item.existing:
                    send(type(self._backend), task_result=self._results[number])
        return [
            self._backend.existing(self._items[number], result)
            if self._items[number].existing
            else result
            for number, result in enumerate(self._results)
        ]

    def _push_portion(self, portion: list[_Call]) -> int:
        push = next(self._prepared)
        found = run(self._backend.catalog.database, push, wrote=_has_new)
        self._items.update(found)
        for number, item in found.items():
            if not item.existing:
                change(self._results[number], enqueued_at=local(item.pushed_at))
        return len(portion)

    def _prepare(self, portion: Sequence[_Call]) -> Callable[[Transaction], dict[int, Item]]:
        """Return what pushes a portion in a transaction."""
        of_queues: dict[str, list[_Call]] = {}
        for call in portion:
            of_queues.setdefault(call.queue.name, []).append(call)
        prepared = []
        for some in of_queues.values():
            pushes = [call.push for call in some]
            try:
                prepared.append((some, self._backend.prepare_batch(some[0].queue, pushes)))
            except InvalidInput as error:
                refused = some[error.context.get("index", 0)]
                if isinstance(error, InvalidValue):
                    error = of_argument(error, refused.push.value)
                raise type(error)(**{**error.context, "index": refused.number}) from error

        def push_all(tr: Transaction) -> dict[int, Item]:
            found: dict[int, Item] = {}
            for some, push in prepared:
                numbers = [call.number for call in some]
                found.update(zip(numbers, push(tr), strict=True))
            return found

        return push_all


def _has_new(found: dict[int, Item]) -> bool:
    return not all(item.existing for item in found.values())
