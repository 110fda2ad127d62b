"""What the pages say of a task: its state, its function, its attempts, its moments.

A list reads one key more for it than its item (:func:`begin_notes`); its own page reads all.
"""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.utils.formats import number_format
from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from fdbqueue.pages.forms import ItemsForm
from fdbqueue.pages.search import contains, died_of
from fdbqueue.pages.text import Moment, grouped, visible
from fdbqueue.service import Item, Queue
from fdbqueue.tasks.compat import TaskResultStatus
from fdbqueue.tasks.options import FdbQueueTask
from fdbqueue.tasks.records import AttemptFailure, EndedTask, TaskCall, unpacked
from fdbqueue.tasks.results import Found, Known, known_of

#: The tabs of the tasks that have succeeded, and that were aborted. Their items are gone: what
#: stands for one in a list is an :class:`Item` in this state; its value is its :class:`EndedTask`.
DONE = "done"
ABORTED = "aborted"
#: Ids that the backend makes, and that addresses can have. Values of items come from anyone who
#: may push.
RESULT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

_IN_A_STATE = {"ready": _("Ready"), "delayed": _("Scheduled"), "dead": _("Failed")}
_AGAIN = {"ready": _("Ready for retry"), "delayed": _("Retry scheduled")}
_MAX_PATH = 300
_MAX_WORKER = 200
#: What is at the end of an attempt that has not failed.
_OUTCOMES = {TaskResultStatus.RUNNING: _("Running"), TaskResultStatus.SUCCESSFUL: _("Successful")}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_SECOND, _MINUTE, _HOUR, _DAY = 1, 60, 3_600, 86_400


@dataclass(frozen=True, slots=True)
class TaskNotes:
    """What a list says of a task.

    Attributes:
        id: The id of its result; empty if that is not one that has a page.
        path: The dotted path of its function; empty if the item is not a task.
        state: What state it is in, in words.
        known: What is known of it; None if its record is too long for a list.
        has_record: Whether its record was read, or nothing is in it yet.
        most_attempts: How many attempts it may have; None if this process does not know.
    """

    id: str = ""
    path: str = ""
    state: str | Promise = ""
    known: Known | None = None
    has_record: bool = False
    most_attempts: int | None = None


def matching(queue: Queue, form: ItemsForm) -> Callable[[Item], bool] | None:
    """Return what tells whether an item is a task that a form asks for, None if all are."""
    wanted, tests = form.cleaned_data, []
    if wanted["function"]:
        tests.append(_calls(wanted["function"]))
    if wanted["q"] and wanted["state"] not in {DONE, ABORTED}:
        tests.append(contains(wanted["q"], queue.codec))
    if wanted["exception"] and wanted["state"] == "dead":
        tests.append(died_of(wanted["exception"]))
    if not tests and wanted["state"] != ABORTED:  # those are looked for among the failed ones
        return None
    return lambda item: all(test(item) for test in tests)


def begin_notes(backend: Any, queue: Queue, item: Item, tr: Any) -> Callable[[], TaskNotes]:  # noqa: ARG001  # as readings have it
    """Begin to read what a list says of a task; what is returned returns it.

    One key is read of a task that has been tried, or is done, and none of others.
    """
    if isinstance(item.value, EndedTask):
        read = _begin_record(backend, item.value.id, tr)
        return lambda: _done(backend, item.value, read())
    call = unpacked(item.value)
    if call is None:
        return TaskNotes
    read = dict
    if item.attempts or item.state in {"leased", "dead"}:
        read = _begin_record(backend, call.id, tr)
    return lambda: _noted(backend, call, item, read())


def most_attempts(backend: Any, path: str) -> int | None:
    """Return how many attempts a task may have, None if its module is not imported here.

    A path may be any text, so nothing is imported for it.
    """
    module, _dot, name = path.rpartition(".")
    task = getattr(sys.modules.get(module), name, None)
    if task is None:
        return None
    own = task.max_attempts if isinstance(task, FdbQueueTask) else None
    most: int = backend.settings.max_attempts if own is None else own
    return most


def state_of(known: Known, item: Item | None, record: dict[str, Any]) -> str | Promise:
    """Return what state a task is in, in words."""
    if item is None:
        is_success = known.status is TaskResultStatus.SUCCESSFUL
        return _("Successful") if is_success else _("Aborted")
    if item.state != "leased":
        words = _AGAIN if item.attempts and item.state in _AGAIN else _IN_A_STATE
        return words[item.state]
    if known.status is not TaskResultStatus.RUNNING:
        return _("Worker lost")
    return _("Running, abort requested") if record.get("abort") else _("Running")


def path_of(item: Item) -> str:
    """Return the dotted path of a task's function; empty if the item is not a task."""
    if isinstance(item.value, EndedTask):
        return item.value.task
    call = unpacked(item.value)
    return "" if call is None else call.task


def _calls(function: str) -> Callable[[Item], bool]:
    """Return what tells whether an item calls a function: its whole path, or the end of it."""
    end = f".{function}"

    def calls(item: Item) -> bool:
        path = path_of(item)
        return path == function or path.endswith(end)

    return calls


def _begin_record(backend: Any, result_id: str, tr: Any) -> Callable[[], dict[str, Any] | None]:
    if not RESULT_ID.fullmatch(result_id):
        return lambda: None
    read: Callable[[], dict[str, Any] | None] = backend.records.begin_read_short(tr, result_id)
    return read


def _linked(result_id: str) -> str:
    return result_id if RESULT_ID.fullmatch(result_id) else ""


def _noted(backend: Any, call: TaskCall, item: Item, record: dict[str, Any] | None) -> TaskNotes:
    known = known_of(call.id, Found(record or {}, item), backend.settings.lease_seconds)
    return TaskNotes(
        _linked(call.id),
        call.task,
        state_of(known, item, record or {}),
        known,
        record is not None,
        most_attempts(backend, call.task),
    )


def _done(backend: Any, ended: EndedTask, record: dict[str, Any] | None) -> TaskNotes:
    is_final = record is not None and "item" not in record
    known = known_of(ended.id, Found(record or {}, None), 0) if is_final else None
    is_success = ended.status == TaskResultStatus.SUCCESSFUL.value
    state = _("Successful") if is_success else _("Aborted")
    most = most_attempts(backend, ended.task)
    return TaskNotes(_linked(ended.id), ended.task, state, known, is_final, most)


# Moments and durations


def shown_moment(microseconds: int | None) -> Moment | None:
    """Return a moment and how long ago it was, None for None."""
    if microseconds is None:
        return None
    at = _EPOCH + datetime.timedelta(microseconds=microseconds)
    return Moment.ago(at)


def lasting(seconds: float) -> str:
    """Return how long something lasts: in milliseconds below a second, else in two units at most.

    A negative duration, which clocks that differ make, is none.
    """
    seconds = max(0.0, seconds)
    if seconds < _SECOND:
        count = _number(seconds * 1_000, 0 if seconds >= 0.01 else 1)
        return gettext("%(count)s ms") % {"count": count}
    if seconds < _MINUTE:
        count = _number(seconds, 0 if seconds >= 10 else 1)
        return gettext("%(count)s s") % {"count": count}
    minutes, hours, days = seconds // _MINUTE, seconds // _HOUR, int(seconds // _DAY)
    if seconds < _HOUR:
        return _two(
            gettext("%(count)s min") % {"count": int(minutes)},
            seconds % _MINUTE,
            gettext("%(count)s s"),
        )
    if seconds < _DAY:
        rest = seconds % _HOUR // _MINUTE
        return _two(gettext("%(count)s h") % {"count": int(hours)}, rest, gettext("%(count)s min"))
    text = ngettext("%(count)s day", "%(count)s days", days) % {"count": days}
    return _two(text, seconds % _DAY // _HOUR, gettext("%(count)s h"))


def _two(first: str, rest: float, unit: str) -> str:
    """Return a number of one unit, and what is left in the next if something is."""
    return f"{first} {unit % {'count': int(rest)}}" if int(rest) else first


def _number(value: float, decimals: int) -> str:
    rounded = round(value, decimals)
    is_whole = rounded == int(rounded)
    return str(number_format(rounded, decimal_pos=0 if is_whole else decimals, use_l10n=True))


# Attempts


class ShownAttempt(NamedTuple):
    """An attempt as text.

    Attributes:
        number: Which it was; empty for an error that is of no attempt.
        worker: The id of its worker; empty if there was none.
        outcome: What came of it if it has not failed, or if its error is not kept.
        exception: The dotted path of its exception's class; empty if it has none.
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


def _failed(number: str, worker: str, error: AttemptFailure) -> ShownAttempt:
    text = visible(error.traceback).rstrip()
    return ShownAttempt(number, worker, _("Failed"), shown_path(error.exception), text)
