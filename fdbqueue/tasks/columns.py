"""A task's state, its attempts, and the facts that its page and command show.

To add a fact, add a :class:`TaskColumn` to :data:`FACTS`: the page of a task has it, and
``tasks_show``. The columns of the lists are in :mod:`fdbqueue.tasks.pages.lists`: no command lists
tasks.
"""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from fdbqueue import service
from fdbqueue.columns import CODE, DURATION, FUTURE, NUMBER, PAST, TEXT, Column
from fdbqueue.columns.text import grouped, lasting, number, seconds_since, visible
from fdbqueue.exceptions import path_of
from fdbqueue.service import Failure, Queue
from fdbqueue.tasks.compat import TaskResultStatus
from fdbqueue.tasks.exceptions import Retry, TaskExpired
from fdbqueue.tasks.key_limit_queues import KeyState, key_state
from fdbqueue.tasks.notes import Progress
from fdbqueue.tasks.options import FdbQueueTask
from fdbqueue.tasks.records import AttemptFailure, TaskCall
from fdbqueue.tasks.results import imported
from fdbqueue.tasks.states import TaskState, deadline

#: Ids that the backend makes, and that addresses can have. Values of items come from anyone who
#: may push.
RESULT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

_IN_A_STATE = {"ready": _("Ready"), "delayed": _("Scheduled"), "dead": _("Failed")}
_AGAIN = {"ready": _("Ready for retry"), "delayed": _("Retry scheduled")}
#: Why a task that is ready does not run.
_WHY = {
    "max_running": _("as many of its key run as may"),
    "rate": _("as many of its key have begun as may"),
}
#: How failures say that a task asked to run again.
_RETRY = path_of(Retry)
_EXPIRED = path_of(TaskExpired)
_MAX_PATH = 300
_MAX_WORKER = 200
_MAX_MESSAGE = 1_000
#: What is at the end of an attempt that has not failed.
_OUTCOMES = {TaskResultStatus.RUNNING: _("Running"), TaskResultStatus.SUCCESSFUL: _("Successful")}


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task as pages and commands show it.

    ``addresses`` are those of the pages; ``limits`` those of its key, as long as it has not ended.
    """

    task: TaskState
    queue: Queue
    backend: Any
    addresses: Any = None
    limits: KeyState | None = None

    @classmethod
    def of(cls, backend: Any, queue: Queue, task: TaskState, addresses: Any = None) -> TaskRow:
        """Return the row of a task, whose limits are read."""
        limits = None
        if task.item is not None and task.item.state != "dead":
            limits = key_state(queue, backend.records.prefix)
        return cls(task, queue, backend, addresses, limits)

    @property
    def words(self) -> str | Promise:
        """What state it is in; of one that a limit keeps back that, too."""
        text = words_of(self.task)
        if self.task.tab != "ready" or self.limits is None or not self.limits.held_by:
            return text
        return gettext("%(state)s; %(why)s") % {"state": text, "why": _WHY[self.limits.held_by]}

    @property
    def attempts(self) -> str:
        """How many attempts have begun, and of how many if that is known."""
        most = most_attempts(self.backend, self.task.call.task)
        return attempts_text(len(self.task.attempts.workers), most)

    @property
    def arguments(self) -> dict[str, Any]:
        """What it is called with."""
        return {"args": self.task.call.args, "kwargs": self.task.call.kwargs}


def limits_text(limits: KeyState | None) -> str | None:
    """Return how many tasks of a key may run and begin, and how many run; None without a limit."""
    if limits is None:
        return None
    most, rate = limits.limit.max_running, limits.limit.rate
    texts = []
    if most is not None:
        numbers = {"running": grouped(limits.running), "most": grouped(most)}
        texts.append(gettext("%(running)s of %(most)s run") % numbers)
    if rate is not None:
        texts.append(gettext("at most %(rate)s begin") % {"rate": rate})
    text = ", ".join(texts)
    return text if limits.key is None else f"{visible(limits.key)}: {text}"


def most_attempts(backend: Any, path: str) -> int | None:
    """Return how many attempts a task may have, None if its module is not imported here."""
    task = imported(path)
    if task is None:
        return None
    own = task.max_attempts if isinstance(task, FdbQueueTask) else None
    return backend.settings.max_attempts if own is None else own


def words_of(task: TaskState) -> str | Promise:
    """Return what state a task is in, in words."""
    item = task.item
    if item is None:
        return _("Successful") if task.is_successful else _("Aborted")
    if task.is_in_outbox:
        return _("Set aside in the outbox") if task.problem else _("In the outbox")
    errors = task.attempts.errors
    if item.state == "dead" and errors and errors[-1].exception == _EXPIRED:
        return _("Expired")
    if item.state != "leased":
        words = _AGAIN if item.attempts and item.state in _AGAIN else _IN_A_STATE
        return words[item.state]
    if not task.is_running:
        return _("Worker lost")
    return _("Running, abort requested") if task.is_abort_asked else _("Running")


def shown_path(path: str) -> str:
    """Return a dotted path as text."""
    return visible(path if len(path) <= _MAX_PATH else f"{path[:_MAX_PATH]}…")


def short_name(path: str) -> str:
    """Return the last part of a dotted path as text."""
    return shown_path(path.rpartition(".")[2] or path)


def attempts_text(begun: int, most: int | None) -> str:
    """Return how many attempts have begun, and of how many if that is known."""
    if most is None:
        return number(begun)
    return gettext("%(begun)s of %(most)s") % {"begun": number(begun), "most": grouped(most)}


def progress_text(progress: Progress | None) -> str:
    """Return how far a task has come; empty if it does not say so."""
    if progress is None:
        return ""
    done = _amount(progress.done)
    if progress.share is None:
        return done if progress.of is None else _out_of(done, _amount(progress.of))
    share = gettext("%(percent)s %%") % {"percent": int(100 * progress.share)}
    return f"{_out_of(done, _amount(progress.of))}, {share}"


def _out_of(done: str, of: str) -> str:
    return gettext("%(done)s of %(of)s") % {"done": done, "of": of}


def _amount(given: float | None) -> str:
    """Return a number with a few places at most."""
    rounded = round(given or 0, 2)
    return grouped(int(rounded)) if rounded == int(rounded) else f"{rounded:,}"


def moment(microseconds: int | None) -> datetime.datetime | None:
    """Return a moment in UTC, None for None."""
    return None if microseconds is None else service.moment(microseconds)


def run_after(call: TaskCall) -> datetime.datetime | None:
    """Return the time before which a call is not to run, in UTC; None if it has none.

    One without a zone is of the project's. Values of items come from anyone who may push, so it may
    be one that UTC cannot have, which is None, too.
    """
    with contextlib.suppress(OverflowError, ValueError):
        return call.run_after and call.run_after.astimezone(datetime.timezone.utc)
    return None


def last_duration(task: TaskState) -> float | None:
    """Return how many seconds the last attempt took, None if there was none or it has not ended."""
    latest, finished = task.attempts.latest, task.finished
    if latest is None or finished is None or not task.has_begun:
        return None
    return (finished - latest) / 1_000_000


# Attempts


class ShownAttempt(NamedTuple):
    """An attempt as text.

    Attributes:
        number: Which it was; empty for an error that is of no attempt.
        worker: The id of its worker; empty if there was none.
        outcome: What came of it if it has not failed, or if its error is not kept.
        exception: The dotted path of its exception's class, a built-in one without its module;
            empty if it has none.
        traceback: Where it was raised.
    """

    number: str
    worker: str
    outcome: str | Promise
    exception: str = ""
    traceback: str = ""

    @property
    def message(self) -> str:
        """What its exception says, without the class: the end of its traceback, clipped."""
        name = self.exception.rpartition(".")[2]
        lines = self.traceback.split("\n") if name else []
        for at in range(len(lines) - 1, -1, -1):
            path, colon, first = lines[at].partition(": ")
            if colon and path.rpartition(".")[2] == name:
                text = "\n".join([first, *lines[at + 1 :]])
                return text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}…"
        return ""


def shown_attempts(task: TaskState, safe: Callable[[str], str] = visible) -> list[ShownAttempt]:
    """Return the attempts at a task, the latest first.

    Of many, the errors of the first are not kept. An error without a worker, that of a task which
    was aborted or buried before it ran again, comes last.

    Args:
        task: The task.
        safe: Makes a text safe to show.
    """
    workers, errors = task.attempts.workers, task.attempts.errors
    failed = len(workers) - (task.status in _OUTCOMES and bool(workers))
    of_attempts = errors[:failed]
    unknown = failed - len(of_attempts)
    shown = []
    for at, worker in enumerate(workers, start=1):
        kept = at - 1 - unknown
        name = (grouped(at), safe(worker[:_MAX_WORKER]))
        if at > failed:
            shown.append(ShownAttempt(*name, _OUTCOMES[task.status]))
        elif kept < 0:
            shown.append(ShownAttempt(*name, _("Failed; its error is not kept")))
        else:
            shown.append(_failed(*name, of_attempts[kept], safe))
    shown.extend(_failed("", "", error, safe) for error in errors[failed:])
    return shown[::-1]


def _failed(
    number: str, worker: str, error: AttemptFailure, safe: Callable[[str], str]
) -> ShownAttempt:
    text = safe(error.traceback).rstrip()
    path = error.exception.removeprefix("builtins.")  # as Python's tracebacks name it
    return ShownAttempt(number, worker, _("Failed"), safe(shown_path(path)), text)


# The course of a task


class Step(NamedTuple):
    """A moment in the life of a task.

    Attributes:
        text: What happened.
        at: When, as the reader shows it; None for what lasts.
        took: What it did since the step before, and for how long; empty for the first.
    """

    text: str | Promise
    at: Any
    took: str = ""


class _Event(NamedTuple):
    """What happened to a task, and what it did before: a text that takes a duration."""

    at: datetime.datetime
    text: str | Promise
    before: str | Promise
    is_begin: bool = False


def course(task: TaskState) -> list[Step]:
    """Return what happened to a task, the first first, and what it does now.

    Stored are when it was enqueued, when its first attempt and its last began, when it ended, and,
    while it has an item, when the last of its attempts failed. If the begin of an attempt that
    failed is not known, the time since what is known before it is given as that.
    """
    events = _events(task)
    steps = []
    for before, event in zip([None, *events], events, strict=False):
        took: str | Promise = ""
        if before is not None:
            ran = before.is_begin and not event.is_begin
            words = _("ran %(time)s") if ran else event.before
            took = words % {"time": lasting((event.at - before.at).total_seconds())}
        steps.append(Step(event.text, event.at, str(took)))
    now = _step_of_now(task, events[-1].at if events else None)
    return steps if now is None else [*steps, now]


def _events(task: TaskState) -> list[_Event]:
    """Return what is known to have happened to a task, in the order of time."""
    attempts = task.attempts
    count, failures = len(attempts.workers), _failures(task)
    waited, later = _("waited %(time)s"), _("%(time)s later")
    found = [_Event(at, _("Enqueued"), "") for at in [moment(task.enqueued)] if at]
    begins = {1: moment(attempts.started), count: moment(attempts.latest)} if count else {}
    for which, at in begins.items():
        if at is not None:
            text = _("Attempt %(number)s began") % {"number": grouped(which)}
            found.append(_Event(at, text, waited, is_begin=True))
    for failure in failures:
        failed = _("Attempt %(number)s failed") % {"number": grouped(failure.attempt)}
        asked = _("Asked to run again")
        found.append(_Event(failure.at, asked if _asks(failure) else failed, later))
    ended = moment(task.finished)
    if ended is not None:
        found.append(_Event(ended, words_of(task), later))
    return sorted(found, key=lambda event: event.at)


def _failures(task: TaskState) -> list[Failure]:
    """Return which attempts failed, and when, but for the one that its end says."""
    item, latest = task.item, moment(task.attempts.latest)
    found = [] if item is None else [*item.failures]
    if found and task.finished is not None and latest and found[-1].at >= latest:
        found.pop()
    return found


def _asks(failure: Failure) -> bool:
    """Tell whether an attempt has ended because its task raised ``Retry``."""
    return failure.reason.partition("\n")[0] == _RETRY


def reason_to_wait(task: TaskState) -> str:
    """Return why a task waits for another attempt, if it said so; else an empty text."""
    item = task.item
    if item is None or item.state not in _AGAIN or not item.failures:
        return ""
    last = item.failures[-1]
    return last.reason.partition("\n")[2] if _asks(last) else ""


def _step_of_now(task: TaskState, since: datetime.datetime | None) -> Step | None:
    """Return what a task does now, None if it has ended or cannot say."""
    if task.item is None or task.finished is not None or since is None:
        return None
    text = words_of(task)
    words = _("for %(time)s") if task.is_running else _("waits for %(time)s")
    return Step(text, None, words % {"time": lasting(max(0.0, seconds_since(since)))})


# Facts


@dataclass(frozen=True, kw_only=True)
class TaskColumn(Column[TaskRow]):
    """A fact of a task.

    Attributes:
        is_shown: Tells whether a task has it.
        if_any: Whether a task has it only if there is something to say.
    """

    is_shown: Callable[[TaskRow], bool] = lambda _task: True
    if_any: bool = False


_RUN_AFTER = TaskColumn(
    "run_after",
    _("Asked to run after"),
    lambda row: run_after(row.task.call),
    FUTURE,
    is_shown=lambda row: row.task.call.run_after is not None and row.task.tab == "delayed",
)
FACTS = (
    TaskColumn("state", _("State"), attrgetter("words")),
    TaskColumn("limits", _("Limit"), lambda row: limits_text(row.limits), TEXT, if_any=True),
    TaskColumn("function", _("Function"), lambda row: shown_path(row.task.call.task), TEXT),
    TaskColumn(
        "problem",
        _("Not moved because"),
        lambda row: row.task.problem or None,
        TEXT,
        if_any=True,
    ),
    TaskColumn("attempts", _("Attempts"), attrgetter("attempts")),
    TaskColumn(
        "progress", _("Progress"), lambda row: progress_text(row.task.progress) or None, if_any=True
    ),
    TaskColumn(
        "worker",
        _("Worker"),
        lambda row: row.task.attempts.workers[-1] if row.task.is_running else None,
        TEXT,
        if_any=True,
    ),
    TaskColumn("enqueued", _("Enqueued"), lambda row: moment(row.task.enqueued), PAST),
    _RUN_AFTER,
    replace(
        _RUN_AFTER,
        kind=PAST,
        is_shown=lambda row: row.task.call.run_after is not None and row.task.tab != "delayed",
    ),
    TaskColumn(
        "expires",
        _("Expires"),
        lambda row: deadline(row.task.call, moment(row.task.enqueued)),
        FUTURE,
        is_shown=lambda row: row.task.call.expires is not None and not row.task.was_begun,
    ),
    TaskColumn(
        "again",
        _("Next attempt after"),
        attrgetter("task.item.until"),
        FUTURE,
        is_shown=lambda row: row.task.tab == "delayed" and row.task.was_leased,
    ),
    TaskColumn(
        "reason",
        _("Waits because"),
        lambda row: reason_to_wait(row.task) or None,
        TEXT,
        if_any=True,
    ),
    TaskColumn(
        "started",
        _("First attempt began"),
        lambda row: moment(row.task.attempts.started),
        PAST,
        is_shown=lambda row: len(row.task.attempts.workers) > 1,
    ),
    TaskColumn(
        "latest",
        _("Last attempt began"),
        lambda row: moment(row.task.attempts.latest),
        PAST,
        is_shown=attrgetter("task.has_begun"),
    ),
    TaskColumn("finished", _("Ended"), lambda row: moment(row.task.finished), PAST, if_any=True),
    TaskColumn(
        "duration",
        _("Last attempt took"),
        lambda row: last_duration(row.task),
        DURATION,
        is_shown=lambda row: row.task.finished is not None,
    ),
    TaskColumn("priority", _("Priority"), attrgetter("task.call.priority"), NUMBER),
    TaskColumn("queue", _("Queue"), attrgetter("queue.label")),
    TaskColumn("backend", _("Task backend"), attrgetter("task.call.backend"), TEXT),
    TaskColumn("id", _("Task id"), attrgetter("task.id"), CODE),
    TaskColumn(
        "item",
        _("Item"),
        attrgetter("task.item.id"),
        CODE,
        is_shown=lambda row: row.task.item is not None and not row.task.is_in_outbox,
    ),
)


def shown_facts(row: TaskRow, columns: tuple[TaskColumn, ...] = FACTS) -> list[TaskColumn]:
    """Return the facts that a task has."""
    shown = [column for column in columns if column.is_shown(row)]
    return [one for one in shown if not one.if_any or one.value(row) is not None]
