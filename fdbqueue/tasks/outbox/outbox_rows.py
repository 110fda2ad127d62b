"""Write rows of the outbox, and read them.

What a row is to push is JSON, so reading it executes nothing:

    {"value": {"id": ..., "task": ..., ...}, "unique": "shop.search.index:shop-1", ...}

``value`` is that of the task's item (:mod:`fdbqueue.tasks.records`); ``unique`` and
``unique_while`` are there if the task has a unique key. A task with limits by key goes to a
``part`` of the row's queue, and its ``limits`` are the text of the row that says them
(:mod:`fdbqueue.tasks.key_limit_queues`). Rows of versions before name the part as their queue.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connections, transaction
from django.db.models import QuerySet

from fdbqueue.exceptions import InvalidValue
from fdbqueue.service import Item, Push, moment, now_us, strict_json
from fdbqueue.tasks import key_limit_queues
from fdbqueue.tasks.compat import TaskResult, task_enqueued
from fdbqueue.tasks.key_limit_queues import Limited
from fdbqueue.tasks.outbox.models import OutboxTask
from fdbqueue.tasks.outbox.wake import Waker
from fdbqueue.tasks.records import TaskCall, aware, packed, rank_of, unpacked
from fdbqueue.tasks.results import change, local, of_argument, of_call
from fdbqueue.tasks.states import TaskState, deadline, state_of

#: The longest text of a call: one of 1,000,000 bytes has up to six characters for each of them.
MAX_CALL_CHARACTERS = 6_100_000
#: How much of a reason is kept.
_MAX_PROBLEM = 2_000

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_decode = strict_json().decode


class NotATask(ValueError):
    """A row says nothing that could be pushed."""


class Outbox:
    """The rows of one backend.

    Args:
        backend: The backend.
        alias: The database that the table is in.
    """

    def __init__(self, backend: Any, alias: str) -> None:
        self.backend = backend
        self.alias = alias
        self._waker = Waker(backend)

    @property
    def rows(self) -> QuerySet[OutboxTask]:
        """All rows of the backend."""
        return OutboxTask.objects.using(self.alias).filter(backend=self.backend.alias)

    @property
    def waiting(self) -> QuerySet[OutboxTask]:
        """The rows that wait to be moved, the first first."""
        return self.rows.filter(set_aside_us=None).order_by("id")

    @property
    def set_aside(self) -> QuerySet[OutboxTask]:
        """The rows that cannot be moved, the first first."""
        return self.rows.filter(set_aside_us__isnull=False).order_by("id")

    def enqueue(self, result: TaskResult[..., Any]) -> TaskResult[..., Any]:
        """Insert the row of a task; it is enqueued if the transaction of the ORM commits.

        Raises:
            InvalidTask, TypeError, InvalidValue, ValueTooLarge: As for ``enqueue``.
            TransactionManagementError: Autocommit is off, and there is no ``atomic`` block.
            DatabaseError: The row could not be inserted.
        """
        self._look_for_a_transaction()
        row = self._row(result)
        row.save(using=self.alias, force_insert=True)
        return self._inserted([result], row)[0]

    def enqueue_many(self, results: Sequence[TaskResult[..., Any]]) -> list[Any]:
        """Insert the rows of tasks, all or none, as :meth:`enqueue` inserts one."""
        self._look_for_a_transaction()
        rows = []
        for number, result in enumerate(results):
            with of_call(number):
                rows.append(self._row(result))
        self.rows.bulk_create(rows)
        return self._inserted(results, *rows)

    def _look_for_a_transaction(self) -> None:
        """Refuse a row if nothing would say when its transaction commits.

        ``on_commit`` refuses that, too: but only once the row would be there.
        """
        connection = connections[self.alias]
        if not connection.in_atomic_block and not connection.get_autocommit():
            text = f"Autocommit of the database {self.alias!r} is off: enqueue in a block of"
            raise transaction.TransactionManagementError(f"{text} transaction.atomic().")

    def _row(self, result: TaskResult[..., Any]) -> OutboxTask:
        queue, push, limited = self.backend.push_of(result)
        try:
            queue.prepare(push)  # raises what an enqueue would
        except InvalidValue as error:
            raise of_argument(error, push.value) from error
        call: dict[str, Any] = {"value": push.value}
        if push.unique is not None:
            call |= {"unique": push.unique, "unique_while": push.unique_while}
        if limited is not None:
            call |= {"part": limited.queue, "limits": limited.row.decode()}
        now = now_us()
        if "expires" in push.value and (found := unpacked(push.value)) is not None:
            at = deadline(found, moment(now)) or moment(now)  # not from when it is moved
            push.value["expires"] = at.isoformat()
        return OutboxTask(
            result_id=result.id,
            backend=self.backend.alias,
            queue=queue.home,
            function=push.value["task"],
            call=_encode(call),
            enqueued_us=now,
        )

    def _inserted(self, results: Sequence[TaskResult[..., Any]], *rows: OutboxTask) -> list[Any]:
        for result, row in zip(results, rows, strict=True):
            change(result, enqueued_at=local(moment(row.enqueued_us)))
        transaction.on_commit(functools.partial(self._committed, results), using=self.alias)
        return [*results]

    def _committed(self, results: Sequence[TaskResult[..., Any]]) -> None:
        self._waker.wake()
        for result in results:
            task_enqueued.send(type(self.backend), task_result=result)

    def found(self, result_id: str) -> TaskState | None:
        """Return the state of a task that waits here, as if it were in its queue; else None.

        The record of one that cannot be moved says why, as ``problem``.
        """
        row = self.rows.filter(result_id=result_id).first()
        if row is None:
            return None
        try:
            value: Any = push_in(row)[0].value
        except NotATask:
            value = None
        record = {"queue": row.queue, "item": "", "outbox": True, "problem": row.problem}
        at = moment(row.enqueued_us)
        item = Item(value, None, "", pushed_at=at, state="ready", queue=row.queue)
        return state_of(result_id, record, item, self.backend.settings.lease_seconds)

    def put_aside(self, row: OutboxTask, problem: str) -> None:
        """Set a row aside: it is not moved until a user asks for that."""
        aside = {"set_aside_us": now_us(), "problem": problem[:_MAX_PROBLEM].replace("\x00", "")}
        self.rows.filter(pk=row.pk, set_aside_us=None).update(**aside)

    def retry(self, ids: Iterable[str] | None = None) -> int:
        """Let rows that were set aside wait again, all or those with some ids; return how many."""
        found = self._aside(ids).order_by().update(set_aside_us=None, problem="")
        if found:
            self._waker.wake()
        return found

    def remove(self, ids: Iterable[str] | None = None) -> int:
        """Remove rows that were set aside, all or those with some ids; return how many."""
        return self._aside(ids).delete()[0]

    def _aside(self, ids: Iterable[str] | None) -> QuerySet[OutboxTask]:
        return self.set_aside if ids is None else self.set_aside.filter(result_id__in=[*ids])


def push_in(row: OutboxTask) -> tuple[Push, Limited | None]:
    """Return what a row is to push, and its limits if it has some.

    Raises:
        NotATask: Nothing, because it was not written as this package writes rows.
    """
    given, call = _parsed(row)
    unique, unique_while = given.get("unique"), given.get("unique_while", "pending")
    keyed = {} if unique is None else {"unique": unique, "unique_while": unique_while}
    push = Push(packed(call), rank_of(call), not_before=aware(call.run_after), **keyed)
    limits = given.get("limits")
    if limits is None:
        return push, None
    part = given.get("part", row.queue)
    name = key_limit_queues.parsed(part) if isinstance(part, str) else None
    if not isinstance(limits, str) or name is None or row.queue not in {part, name.queue}:
        raise NotATask("its limits belong to another task")
    return push, Limited(part, limits.encode(errors="replace"))


def _parsed(row: OutboxTask) -> tuple[dict[str, Any], TaskCall]:
    try:
        given = _decode(row.call)
    except (ValueError, RecursionError) as error:
        raise NotATask(f"it is no JSON: {error}") from error
    if not isinstance(given, dict):
        raise NotATask("it is no JSON object")
    call = unpacked(given.get("value"))
    if call is None:
        raise NotATask("its value is not the call of a task")
    if (call.id, call.backend) != (row.result_id, row.backend):
        raise NotATask("its value is the call of another task")
    return given, call
