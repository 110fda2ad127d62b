"""The tasks of a queue that have no item any more: their lists, and how many there are.

Tasks that have succeeded or were aborted are found by the index of ended tasks, the latest first.
Those of a limited queue have ended in its home, among others of their function. What stands for
one is an :class:`Item` whose state is the tab, and whose value is the :class:`EndedTask`.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from fdbqueue.columns.text import grouped
from fdbqueue.exceptions import InvalidInput
from fdbqueue.pages.readings import OtherTabs
from fdbqueue.service import Item, Queue, Scan, now_us
from fdbqueue.tasks.key_limit_queues import function_in, limits_key
from fdbqueue.tasks.records import FAILED, MAX_ID, SUCCESSFUL, EndedTask, Records, is_end
from fdbqueue.tasks.states import ABORTED, DONE

_MAX_DIGITS = 18
_ASKED_AFTER = 1_000
#: How many records of failed tasks are read at once.
_READ_AT_ONCE = 100
#: A tab counts at most so many done tasks, and reads the records of so many failed ones.
_MAX_COUNTED = 1_000
_MAX_READ = 50
_DAY_SECONDS = 86_400
#: The longest path that a list takes as a filter.
MAX_FILTER = 300


def scan_ended(
    records: Records,
    state: str,
    queue: Queue,
    matches: Callable[[Item], bool],
    *,
    tr: Any,
    most_found: int,
    most_looked_at: int,
    after: str | None,
    is_backward: bool,
    is_late: Callable[[], bool] = lambda: False,
    **_bounds: Any,
) -> Scan:
    """Look at the index of ended tasks until enough are found, or enough were looked at.

    The index of failed tasks, where aborted ones are, also has those that are dead letters. The
    records tell which these are: one is read for each task that is looked at.

    Args:
        records: Where the index is.
        state: The tab: DONE for successful tasks, or ABORTED.
        queue: The tasks' queue.
        matches: Tells whether what stands for a task is one to show.
        tr: The transaction to read in.
        most_found: Find at most this many.
        most_looked_at: Look at at most this many.
        after: The place of a task: only those that follow it.
        is_backward: Whether to begin with the earliest.
        is_late: Asked after each 1,000 entries; True ends the search.

    Raises:
        InvalidInput: ``after`` is not a place.
    """
    entries = records.ended(
        tr,
        queue.home,
        SUCCESSFUL if state == DONE else FAILED,
        after=None if after is None else _parsed(after),
        limit=most_looked_at + 1,
        newest_first=not is_backward,
    )
    candidates: Iterable[tuple[EndedTask, bool]] = ((entry, True) for entry in entries)
    if state == ABORTED:
        candidates = _with_aborted(records, tr, entries)
    found: list[tuple[int, Item]] = []
    looked_at, first, last = 0, None, None
    for entry, is_candidate in candidates:
        is_pause = looked_at and looked_at % _ASKED_AFTER == 0
        if len(found) == most_found or looked_at == most_looked_at or (is_pause and is_late()):
            return Scan(found, looked_at, first, last)
        item = Item(entry, None, entry.id, state=state, queue=queue.name)
        if is_candidate and matches(item):
            found.append((looked_at, item))
        last = f"{entry.moment}-{entry.id}"
        looked_at, first = looked_at + 1, first or last
    return Scan(found, looked_at, first, None)


def _with_aborted(
    records: Records, tr: Any, entries: Iterable[EndedTask]
) -> Iterator[tuple[EndedTask, bool]]:
    """Yield the entries of failed tasks, each with whether it is the end of an aborted one."""
    rest = iter(entries)
    while some := list(itertools.islice(rest, _READ_AT_ONCE)):
        reads = [records.begin_read_short(tr, entry.id) for entry in some]
        for entry, read in zip(some, reads, strict=True):
            record = read() or records.read(tr, entry.id) or {}  # a long one is read in full
            yield entry, is_end(record, entry)


def begin_ended(backend: Any, queue: Queue, tr: Any) -> Callable[[], OtherTabs]:
    """Begin to count the done, the aborted and today's ended tasks, by their index.

    Of more than 1,000 it says that there are more. Which failed tasks were aborted only their
    records tell: if more than 50 have failed, nothing is said, and the tab looks for them. Today
    is that of the project's time zone, and has no figure if tasks are not kept for a day.

    The tasks of a limited queue have ended in its home, among others of their function.
    """
    records: Records = backend.records
    if queue.is_part:
        limits = tr.snapshot[limits_key(records.prefix, queue.name)]

        def at_home() -> OtherTabs:
            path = function_in(bytes(limits) if limits.present() else b"")
            return OtherTabs(at_home={"function": path} if 0 < len(path) <= MAX_FILTER else {})

        return at_home
    midnight, snapshot = _midnight(), tr.snapshot
    done = records.begin_moments(snapshot, queue.name, SUCCESSFUL, limit=_MAX_COUNTED + 1)
    failed = records.ended(snapshot, queue.name, FAILED, limit=_MAX_READ + 1, newest_first=True)

    def ended() -> OtherTabs:
        moments, entries = done(), list(failed)
        counts = {DONE: _counted(moments), ABORTED: ""}
        of_today = [one.moment for one in entries if one.moment >= midnight]
        if len(entries) <= _MAX_READ:
            found = _with_aborted(records, tr, entries)
            counts[ABORTED] = grouped(sum(is_aborted for _one, is_aborted in found))
        elif len(of_today) > _MAX_READ:
            most = _MAX_COUNTED + 1
            of_today = records.begin_moments(
                snapshot, queue.name, FAILED, since=midnight, limit=most
            )()
        done_today = [one for one in moments if one >= midnight]
        kept, today = backend.settings.retention, []
        if _keeps_a_day(kept.successful):
            today.append((DONE, _("Done today"), _counted(done_today)))
        if _keeps_a_day(kept.failed):
            today.append(("dead", _("Failed today"), _counted(of_today)))
        return OtherTabs(counts, tuple(today))

    return ended


def _counted(moments: Sequence[int]) -> str:
    """Return how many there are, ``1,000+`` if there are more."""
    is_all = len(moments) <= _MAX_COUNTED
    return grouped(len(moments)) if is_all else f"{grouped(_MAX_COUNTED)}+"


def _keeps_a_day(seconds: float | None) -> bool:
    return seconds is None or seconds >= _DAY_SECONDS


def _midnight() -> int:
    """Return when today began in the project's time zone, in microseconds since 1970."""
    zone = timezone.get_default_timezone()
    now = datetime.datetime.fromtimestamp(now_us() / 1_000_000, zone)
    return int(now.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()) * 1_000_000


def _parsed(place: str) -> tuple[int, str]:
    moment, _dash, result_id = place.partition("-")
    is_number = moment.isascii() and moment.isdecimal() and len(moment) <= _MAX_DIGITS
    if not is_number or not 1 <= len(result_id) <= MAX_ID or not result_id.isprintable():
        raise InvalidInput(after=place)
    return int(moment), result_id
