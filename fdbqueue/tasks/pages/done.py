"""The tasks that have no item any more, in the order of their ends, the latest first."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fdbqueue.exceptions import InvalidInput
from fdbqueue.service import Item, Queue, Scan
from fdbqueue.tasks.compat import TaskResultStatus
from fdbqueue.tasks.pages.rows import ABORTED, DONE
from fdbqueue.tasks.records import MAX_ID, Ended, Records

_MAX_DIGITS = 18
_ASKED_AFTER = 1_000
#: How many records of failed tasks are read at once.
_READ_AT_ONCE = 100


def scan_done(
    records: Records, queue: Queue, matches: Callable[[Item], bool], *, tr: Any, **bounds: Any
) -> Scan:
    """Look at the index of successful tasks until enough are found, or enough were looked at.

    Args:
        records: Where the index is.
        queue: The tasks' queue.
        matches: Tells whether what stands for a task is one to show.
        tr: The transaction to read in.
        bounds: Where the search begins and ends: see :func:`_scan`.

    Raises:
        InvalidInput: ``after`` is not a place.
    """
    entries = _entries(records, queue, TaskResultStatus.SUCCESSFUL, tr=tr, **bounds)
    return _scan(((entry, True) for entry in entries), DONE, queue, matches, **bounds)


def scan_aborted(
    records: Records, queue: Queue, matches: Callable[[Item], bool], *, tr: Any, **bounds: Any
) -> Scan:
    """Look at the index of failed tasks for aborted ones, as :func:`scan_done` does.

    The index also has the tasks that are dead letters. The records tell which those are: one is
    read for each task that is looked at.
    """
    entries = _entries(records, queue, TaskResultStatus.FAILED, tr=tr, **bounds)
    return _scan(_with_aborted(records, tr, entries), ABORTED, queue, matches, **bounds)


def _entries(
    records: Records,
    queue: Queue,
    status: TaskResultStatus,
    *,
    tr: Any,
    most_looked_at: int,
    after: str | None,
    is_backward: bool,
    **_bounds: Any,
) -> Iterator[Ended]:
    return records.ended(
        tr,
        queue.name,
        status.value,
        after=None if after is None else _parsed(after),
        limit=most_looked_at + 1,
        newest_first=not is_backward,
    )


def _with_aborted(
    records: Records, tr: Any, entries: Iterator[Ended]
) -> Iterator[tuple[Ended, bool]]:
    """Yield the entries of failed tasks, each with whether it is the end of an aborted one."""
    while some := list(itertools.islice(entries, _READ_AT_ONCE)):
        reads = [records.begin_read_short(tr, entry.id) for entry in some]
        for entry, read in zip(some, reads, strict=True):
            record = read() or records.read(tr, entry.id) or {}  # a long one is read in full
            end = (record.get("status"), record.get("ended"))
            yield entry, end == (entry.status, entry.moment)


def _scan(
    entries: Iterable[tuple[Ended, bool]],
    state: str,
    queue: Queue,
    matches: Callable[[Item], bool],
    *,
    most_found: int,
    most_looked_at: int,
    is_late: Callable[[], bool] = lambda: False,
    **_bounds: Any,
) -> Scan:
    """Look at entries until enough are found, or enough were looked at.

    Args:
        entries: The entries, each with whether it may be shown.
        state: The state of what stands for a task.
        queue: The tasks' queue.
        matches: Tells whether what stands for a task is one to show.
        most_found: Find at most this many.
        most_looked_at: Look at at most this many.
        is_late: Asked after each 1,000 entries; True ends the search.
        after: The place of a task: only those that follow it.
        is_backward: Whether to begin with the earliest.
    """
    found: list[tuple[int, Item]] = []
    looked_at, first, last = 0, None, None
    for entry, is_candidate in entries:
        is_pause = looked_at and looked_at % _ASKED_AFTER == 0
        if len(found) == most_found or looked_at == most_looked_at or (is_pause and is_late()):
            return Scan(found, looked_at, first, last)
        item = Item(entry, None, entry.id, state=state, queue=queue.name)
        if is_candidate and matches(item):
            found.append((looked_at, item))
        last = _place(entry)
        looked_at, first = looked_at + 1, first or last
    return Scan(found, looked_at, first, None)


def _place(entry: Ended) -> str:
    return f"{entry.moment}-{entry.id}"


def _parsed(place: str) -> tuple[int, str]:
    moment, _dash, result_id = place.partition("-")
    is_number = moment.isascii() and moment.isdecimal() and len(moment) <= _MAX_DIGITS
    if not is_number or not 1 <= len(result_id) <= MAX_ID or not result_id.isprintable():
        raise InvalidInput(after=place)
    return int(moment), result_id
