"""The tasks that have succeeded, in the order of their ends, the latest first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fdbqueue.exceptions import InvalidInput
from fdbqueue.service import Item, Queue, Scan
from fdbqueue.tasks.compat import TaskResultStatus
from fdbqueue.tasks.pages.rows import DONE
from fdbqueue.tasks.records import MAX_ID, Ended, Records

_MAX_DIGITS = 18
_ASKED_AFTER = 1_000


def scan_done(
    records: Records,
    queue: Queue,
    matches: Callable[[Item], bool],
    *,
    tr: Any,
    most_found: int,
    most_looked_at: int,
    after: str | None,
    is_backward: bool,
    is_late: Callable[[], bool] = lambda: False,
) -> Scan:
    """Look at the index of ended tasks until enough are found, or enough were looked at.

    Args:
        records: Where the index is.
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
        queue.name,
        TaskResultStatus.SUCCESSFUL.value,
        after=None if after is None else _parsed(after),
        limit=most_looked_at + 1,
        newest_first=not is_backward,
    )
    found: list[tuple[int, Item]] = []
    looked_at, first, last = 0, None, None
    for entry in entries:
        is_pause = looked_at and looked_at % _ASKED_AFTER == 0
        if len(found) == most_found or looked_at == most_looked_at or (is_pause and is_late()):
            return Scan(found, looked_at, first, last)
        item = Item(entry, None, entry.id, state=DONE, queue=queue.name)
        if matches(item):
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
