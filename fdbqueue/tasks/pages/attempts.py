"""The attempts at a task, each with its worker and what came of it."""

from __future__ import annotations

from typing import NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from fdbqueue.pages.text import grouped, visible
from fdbqueue.tasks.compat import TaskResultStatus
from fdbqueue.tasks.records import Failure
from fdbqueue.tasks.results import Known

_MAX_PATH = 300
_MAX_WORKER = 200
#: What is at the end of an attempt that has not failed.
_OUTCOMES = {TaskResultStatus.RUNNING: _("Running"), TaskResultStatus.SUCCESSFUL: _("Successful")}


class ShownAttempt(NamedTuple):
    """An attempt as text.

    Attributes:
        number: Which it was; empty for an error that is of no attempt.
        worker: The id of its worker; empty where there was none.
        outcome: What came of it where it has not failed, or where its error is not kept.
        exception: The dotted path of its exception's class; empty where it has none.
        traceback: Where it was raised.
    """

    number: str
    worker: str
    outcome: str | Promise
    exception: str = ""
    traceback: str = ""


def shown_attempts(known: Known) -> list[ShownAttempt]:
    """Return the attempts at a task, the latest first.

    Of many, the errors of the first are not kept. An error without a worker, that of a task which
    was aborted or buried before it ran again, comes last.
    """
    workers, errors = known.attempts.workers, known.attempts.errors
    failed = len(workers) - (known.status in _OUTCOMES and bool(workers))
    of_attempts = errors[:failed]
    unknown = failed - len(of_attempts)
    shown = []
    for number, worker in enumerate(workers, start=1):
        kept = number - 1 - unknown
        name = (grouped(number), shown_worker(worker))
        if number > failed:
            shown.append(ShownAttempt(*name, _OUTCOMES[known.status]))
        elif kept < 0:
            shown.append(ShownAttempt(*name, _("Failed; its error is not kept")))
        else:
            shown.append(_failed(*name, of_attempts[kept]))
    shown.extend(_failed("", "", error) for error in errors[failed:])
    return shown[::-1]


def shown_worker(worker: str | None) -> str:
    """Return the id of a worker as text; empty for none."""
    return visible((worker or "")[:_MAX_WORKER])


def shown_path(path: str) -> str:
    """Return a dotted path as text."""
    return visible(path if len(path) <= _MAX_PATH else f"{path[:_MAX_PATH]}…")


def short_name(path: str) -> str:
    """Return the last part of a dotted path as text."""
    return shown_path(path.rpartition(".")[2] or path)


def _failed(number: str, worker: str, error: Failure) -> ShownAttempt:
    text = visible(error.traceback).rstrip()
    return ShownAttempt(number, worker, _("Failed"), shown_path(error.exception), text)
