"""Push when a transaction of Django's ORM commits.

The two databases commit one after the other, and nothing makes that one commit. What may happen
in between is the same for every message that is sent after a commit.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from fdbqueue import conf
from fdbqueue.service import NOT_GIVEN, Duration, IdempotencyKey, Prepared, Push, Queue


def push_on_commit(
    queue: Queue | str,
    value: Any,
    priority: Any = NOT_GIVEN,
    *,
    delay: Duration | None = None,
    not_before: datetime.datetime | None = None,
    unique: str | None = None,
    unique_while: str = "pending",
    once: IdempotencyKey | str | None = None,
    using: str | None = None,
    robust: bool = False,
) -> None:
    """Push a value when the ORM's transaction commits, exactly once.

    After a rollback of the transaction, or of the savepoint in which the call was made, nothing
    is pushed. Outside a transaction the value is pushed at once. It is checked and encoded at
    the call, so later changes of the object have no effect, and a delay counts from the call.

    Several calls in one transaction push in their order, each in a transaction of its own, so
    each succeeds or fails alone. :func:`push_batch_on_commit` pushes several values together.

    The push comes after the commit. When the process dies in between, or the engine fails, the
    rows are there and the item is not: see "When the push must not be missed" in
    ``docs/django.md``.

    Args:
        queue: The queue, or its name in the setting.
        value: A value that the queue's codec can encode.
        priority: As for the queue's ``push``.
        delay: For how long to hide the item: seconds, or a ``timedelta``.
        not_before: The time, with its zone, until which to hide the item; in place of
            ``delay``.
        unique, unique_while: As for the queue's ``push``.
        once: An idempotency key: calls with the same key push once, even from different
            transactions or workers.
        using: The alias of the ORM's database; None for the default one.
        robust: True logs an error of the push and continues. False raises it at the end of the
            block that commits: the rows are committed, but functions that were registered for
            the commit later do not run.

    Raises:
        QueueNotFound: The setting has no such queue.
        InvalidInput: The queue refuses the value; nothing is registered.
        TransactionManagementError: Autocommit is off, and there is no transaction.
    """
    push = Push(value, priority, delay, not_before, unique, unique_while)
    _register(_queue(queue).prepare(push, once=once), using, robust)


def push_batch_on_commit(
    queue: Queue | str,
    pushes: Sequence[Push],
    *,
    once: IdempotencyKey | str | None = None,
    using: str | None = None,
    robust: bool = False,
) -> None:
    """Push values when the ORM's transaction commits: in one transaction, so all or none.

    Otherwise the same as :func:`push_on_commit`.

    Args:
        queue: The queue, or its name in the setting.
        pushes: The values, as for the queue's ``push_batch``.
        once: An idempotency key.
        using: The alias of the ORM's database; None for the default one.
        robust: Whether an error is logged instead of raised.

    Raises:
        QueueNotFound: The setting has no such queue.
        InvalidInput: The queue refuses one of the values; nothing is registered.
        BatchTooLarge: They are too large together; nothing is registered.
        TransactionManagementError: Autocommit is off, and there is no transaction.
    """
    _register(_queue(queue).prepare_batch(pushes, once=once), using, robust)


def _queue(queue: Queue | str) -> Queue:
    return conf.queue(queue) if isinstance(queue, str) else queue


def _register(prepared: Prepared, using: str | None, robust: bool) -> None:
    # Each is registered by itself, not gathered into one: a savepoint's rollback, ``robust``
    # and captureOnCommitCallbacks() are Django's, and concern single functions.
    def push() -> None:  # no partial: Django logs the name of a function that fails
        prepared(None)

    transaction.on_commit(push, using=using, robust=robust)
