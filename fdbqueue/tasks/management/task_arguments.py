"""Arguments that several commands of tasks have, and what they stand for."""

from __future__ import annotations

import argparse
import contextlib

from django.db import DatabaseError

from fdbqueue.columns.text import clipped
from fdbqueue.exceptions import text_of_error
from fdbqueue.management.arguments import Argument
from fdbqueue.management.exit_codes import usage_error
from fdbqueue.tasks.backend import FdbQueueBackend
from fdbqueue.tasks.compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    InvalidTaskBackend,
    backends,
    task_backends,
)
from fdbqueue.tasks.records import is_id


def backend(what: str) -> Argument:
    """Return ``--backend``.

    Args:
        what: What the command does with it, as in ``"Run the tasks of"``.
    """
    return Argument(
        "--backend",
        default=DEFAULT_TASK_BACKEND_ALIAS,
        metavar="ALIAS",
        help=f"{what} the backend ALIAS of TASKS (default: {DEFAULT_TASK_BACKEND_ALIAS})",
    )


def task_id(text: str) -> str:
    """Return an argument that is the id of a task.

    Raises:
        ArgumentTypeError: It can be none.
    """
    if not is_id(text):
        raise argparse.ArgumentTypeError(f"{clipped(repr(text))} is not the id of a task")
    return text


ID = Argument("id", metavar="ID", type=task_id, help="Id of the task's result")
ID_IF_ANY = ID.but(nargs="?", default=None)


def not_found(backend: FdbQueueBackend, result_id: str) -> str:
    """Return what to say if there is no task with an id, except in another backend's outbox."""
    for other in backends():
        if other.alias != backend.alias and _waits_in_outbox(other, result_id):
            return (
                f"The task {clipped(repr(result_id))} is in the outbox of the task backend "
                f"{other.alias!r}: add --backend {other.alias}."
            )
    return (
        f"The task backend {backend.alias!r} has no task with the id {clipped(repr(result_id))}: "
        "there never was one, or it ended and was removed when its retention was over."
    )


def _waits_in_outbox(backend: FdbQueueBackend, result_id: str) -> bool:
    """Tell whether a task is in a backend's outbox; not if its database is away."""
    if backend.settings.outbox is None:
        return False
    with contextlib.suppress(DatabaseError):
        return backend.found_in_outbox(result_id) is not None
    return False


def backend_of(alias: str) -> FdbQueueBackend:
    """Return the backend with an alias.

    Raises:
        CommandError: There is none of this kind; the message names those there are.
    """
    ours = ", ".join(sorted(one.alias for one in backends())) or "none"
    known = f"The fdbqueue backends in TASKS: {ours}."
    try:
        backend = task_backends[alias]
    except InvalidTaskBackend as error:
        message = f"There is no task backend {alias!r}: {text_of_error(error)} {known}"
        raise usage_error(clipped(message)) from error
    if not isinstance(backend, FdbQueueBackend):
        kind = type(backend).__name__
        raise usage_error(clipped(f"The task backend {alias!r} is a {kind}. {known}"))
    return backend
