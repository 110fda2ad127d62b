"""What a list says of a task, and what is read for it besides its item."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from fdbqueue.pages.forms import ItemsForm
from fdbqueue.pages.search import contains, died_of
from fdbqueue.service import Item, Queue
from fdbqueue.tasks.calls import Call, unpacked
from fdbqueue.tasks.compat import TaskResultStatus
from fdbqueue.tasks.definition import FdbQueueTask
from fdbqueue.tasks.records import Ended
from fdbqueue.tasks.results import Found, Known, known_of

#: The tabs of the tasks that have succeeded, and that were aborted. Their items are gone: what
#: stands for one in a list is an :class:`Item` in this state, whose value is its :class:`Ended`.
DONE = "done"
ABORTED = "aborted"
#: Ids that the backend makes, and that addresses can have. Values of items come from anyone who
#: may push.
RESULT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

_IN_A_STATE = {"ready": _("Ready"), "delayed": _("Scheduled"), "dead": _("Failed")}
_AGAIN = {"ready": _("Ready for retry"), "delayed": _("Retry scheduled")}


@dataclass(frozen=True, slots=True)
class TaskNotes:
    """What a list says of a task.

    Attributes:
        id: The id of its result; empty where that is not one that has a page.
        path: The dotted path of its function; empty where the item is not a task.
        state: What state it is in, in words.
        known: What is known of it; None where its record is too long for a list.
        has_record: Whether its record was read, or nothing is in it yet.
        most_attempts: How many attempts it may have; None where this process does not know.
    """

    id: str = ""
    path: str = ""
    state: str | Promise = ""
    known: Known | None = None
    has_record: bool = False
    most_attempts: int | None = None


def matching(queue: Queue, form: ItemsForm) -> Callable[[Item], bool] | None:
    """Return what tells whether an item is a task that a form asks for, None where all are."""
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
    if isinstance(item.value, Ended):
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
    """Return how many attempts a task may have, None where its module is not imported here.

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
    """Return the dotted path of a task's function; empty where the item is not a task."""
    if isinstance(item.value, Ended):
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


def _noted(backend: Any, call: Call, item: Item, record: dict[str, Any] | None) -> TaskNotes:
    known = known_of(call.id, Found(record or {}, item), backend.settings.lease_seconds)
    return TaskNotes(
        _linked(call.id),
        call.task,
        state_of(known, item, record or {}),
        known,
        record is not None,
        most_attempts(backend, call.task),
    )


def _done(backend: Any, ended: Ended, record: dict[str, Any] | None) -> TaskNotes:
    is_final = record is not None and "item" not in record
    known = known_of(ended.id, Found(record or {}, None), 0) if is_final else None
    is_success = ended.status == TaskResultStatus.SUCCESSFUL.value
    state = _("Successful") if is_success else _("Aborted")
    most = most_attempts(backend, ended.task)
    return TaskNotes(_linked(ended.id), ended.task, state, known, is_final, most)
