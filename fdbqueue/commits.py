"""Push when a transaction of Django's ORM commits.

The two databases commit one after the other, and nothing makes them one: what is said here
of what may come between holds for any message that is sent after a commit.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from fdbqueue import conf
from fdbqueue.service import IdempotencyKey, Push, Queue
from fdbqueue.service.items import NOT_GIVEN
from fdbqueue.service.push import Prepared


def push_on_commit(
    queue: Queue | str,
    value: Any,
    priority: Any = NOT_GIVEN,
    *,
    delay: float | None = None,
    not_before: datetime.datetime | None = None,
    once: IdempotencyKey | str | None = None,
    using: str | None = None,
    robust: bool = False,
) -> None:
    """Push a value when the ORM's transaction commits, exactly once.

    A rollback, and that of a savepoint the call was made in, pushes nothing. Outside a
    transaction it pushes at once. All is checked and encoded at the call: what becomes of
    the value's object afterwards changes nothing, and a delay is counted from the call.

    Several calls in one transaction push in their order, each in a transaction of its own:
    so each fails alone. What belongs together goes in :func:`push_batch_on_commit`.

    The push comes after the commit, so it may be missing while the rows are there: when the
    process dies in between, or the engine fails. For what must not be missed, see
    "When the push must not be missed" in ``docs/django.md``.

    Args:
        queue: The queue, or its name in the setting.
        value: What the queue's codec can encode.
        priority: As for the queue's ``push``.
        delay: For how many seconds to hide it.
        not_before: When to show it, with its time zone, in place of a delay.
        once: An idempotency key: the same call under it pushes once, whichever of several
            transactions, or outbox workers, makes it.
        using: The alias of the ORM's database; None for the default one.
        robust: True logs an error of the push, and goes on. Otherwise it is raised out of
            the block whose end commits, which is committed all the same, and functions
            registered for the commit after it do not run.

    Raises:
        QueueNotFound: The setting has no such queue.
        InvalidInput: The queue does not take it; nothing is registered.
        TransactionManagementError: Autocommit is off, and there is no transaction.
    """
    push = Push(value, priority, delay, not_before)
    _register(_queue(queue).prepare(push, once=once), using, robust)


def push_batch_on_commit(
    queue: Queue | str,
    pushes: Sequence[Push],
    *,
    once: IdempotencyKey | str | None = None,
    using: str | None = None,
    robust: bool = False,
) -> None:
    """Push values when the ORM's transaction commits: all in one transaction, or none.

    The rest is as for :func:`push_on_commit`.

    Args:
        queue: The queue, or its name in the setting.
        pushes: The values, as for the queue's ``push_batch``.
        once: An idempotency key.
        using: The alias of the ORM's database; None for the default one.
        robust: Whether an error is logged, and not raised.

    Raises:
        QueueNotFound: The setting has no such queue.
        InvalidInput: The queue does not take one of them; nothing is registered.
        BatchTooLarge: They are too large together; nothing is registered.
        TransactionManagementError: Autocommit is off, and there is no transaction.
    """
    _register(_queue(queue).prepare_batch(pushes, once=once), using, robust)


def _queue(queue: Queue | str) -> Queue:
    return conf.catalog().queue(queue) if isinstance(queue, str) else queue


def _register(prepared: Prepared, using: str | None, robust: bool) -> None:
    # Each is registered by itself, not gathered into one: a savepoint's rollback, ``robust``
    # and captureOnCommitCallbacks() are Django's, and concern single functions.
    def push() -> None:  # no partial: Django logs the name of a function that fails
        prepared(None)

    transaction.on_commit(push, using=using, robust=robust)
