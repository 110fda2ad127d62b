"""Abort a task, in its queue or in the outbox; a task that runs sees that it is to end."""

from __future__ import annotations

from typing import Any

from fdbqueue.service import run
from fdbqueue.tasks.compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    InvalidTaskBackend,
    TaskResultDoesNotExist,
    ours,
)
from fdbqueue.tasks.current import running
from fdbqueue.tasks.ends import abort_in
from fdbqueue.tasks.records import is_id


def abort(result_id: str, *, backend: str = DEFAULT_TASK_BACKEND_ALIAS) -> str:
    """Abort a task.

    One that is ready, or waits for its ``run_after`` or its next attempt, is removed, and FAILED
    with :class:`TaskAborted`. So is one that waits in the outbox, at once: whatever becomes of the
    transaction of the ORM that is open here. One that runs is asked to end: it sees that by
    :func:`abort_requested`, and is not run again, however this attempt ends.

    Args:
        result_id: The id of its result.
        backend: The alias of its backend.

    Returns:
        ``"aborted"``, ``"asked"``, or ``"ended"`` if it had ended before.

    Raises:
        TaskResultDoesNotExist: There is no such task.
        InvalidTaskBackend: There is no such backend, or it is none of fdbqueue's.
    """
    return abort_by(ours(backend, "to abort a task", InvalidTaskBackend), result_id)


def abort_by(owner: Any, result_id: str) -> str:
    """Abort a task of a backend, as :func:`abort` does."""
    try:
        return run(owner.catalog.database, lambda tr: abort_in(tr, owner, result_id))
    except TaskResultDoesNotExist:
        if owner.settings.outbox is None or not is_id(result_id):
            raise
    from fdbqueue.tasks.outbox.mover import abort_row

    return abort_row(owner.outbox(), owner.catalog, result_id)


def abort_requested() -> bool:
    """Tell whether the task that runs here was aborted, and so is to end.

    Looks about once a second, so a loop may ask each time round. False outside of tasks.
    """
    current = running()
    return current is not None and current.abort_requested()
