"""Arguments that several commands of tasks have, and what they stand for."""

from __future__ import annotations

import argparse
import fnmatch
import re

from fdbqueue.exceptions import text_of_error
from fdbqueue.management.exit_codes import usage_error
from fdbqueue.management.formats import clipped
from fdbqueue.service.catalog import NAME, PATTERN
from fdbqueue.tasks.backend import FdbQueueBackend, backends
from fdbqueue.tasks.compat import DEFAULT_TASK_BACKEND_ALIAS, InvalidTaskBackend, task_backends
from fdbqueue.tasks.options import MAX_KEPT_SECONDS

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_AGE = re.compile(r"(\d+(?:\.\d+)?)([smhdw]?)")


def add_backend(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--backend``.

    Args:
        parser: The command's parser.
        what: What the command does with it, as in ``"Run the tasks of"``.
    """
    parser.add_argument(
        "--backend",
        default=DEFAULT_TASK_BACKEND_ALIAS,
        metavar="ALIAS",
        help=f"{what} the backend ALIAS of TASKS (default: {DEFAULT_TASK_BACKEND_ALIAS})",
    )


def add_id(parser: argparse.ArgumentParser) -> None:
    """Add ``ID``."""
    parser.add_argument("id", metavar="ID", help="Id of the task's result")


def not_found(backend: FdbQueueBackend, result_id: str) -> str:
    """Return what to say where there is no task with an id."""
    return (
        f"The task backend {backend.alias!r} has no task with the id {clipped(repr(result_id))}: "
        "there never was one, or it ended and was removed when its retention was over."
    )


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


def queue_names(backend: FdbQueueBackend, text: str, option: str) -> list[str]:
    """Return the names and patterns in a list of queue names.

    Raises:
        CommandError: The backend has no queue of one of the names; the message names its queues.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = sorted(backend.queues)
    for name in names:
        rule = PATTERN if "*" in name else NAME
        fits = fnmatch.filter(known, name) if known else rule.fullmatch(name)
        if not fits:
            shown = clipped(", ".join(known)) or "queues of any name"
            message = f"{option}: the task backend {backend.alias!r} has no queue {name!r}, but"
            raise usage_error(f"{clipped(message)} {shown}.")
    return names


def check_left(backend: FdbQueueBackend, names: list[str], excluded: list[str]) -> None:
    """Check that there are queues, and not all are excluded.

    Raises:
        CommandError: There are none.
    """
    chosen = {one for name in names for one in fnmatch.filter(backend.queues, name)} or set(names)
    if all(any(fnmatch.fnmatchcase(one, out) for out in excluded) for one in chosen):
        raise usage_error("--queue and --exclude-queues leave no queue.")


def age(text: str) -> float:
    """Return an age in seconds: ``"90"``, ``"30m"``, ``"12h"``, ``"7d"``, ``"2w"``.

    Raises:
        ArgumentTypeError: It is not one, or over ten years.
    """
    found = _AGE.fullmatch(text)
    if found is None:
        message = f"{text!r} is not an age such as 90 (seconds), 30m, 12h, 7d or 2w"
        raise argparse.ArgumentTypeError(message)
    seconds = float(found[1]) * _UNITS[found[2]]
    if seconds > MAX_KEPT_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is over ten years")
    return seconds
