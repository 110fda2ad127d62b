"""The list of queues: which are shown, in which order, and what is known of each."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fdbqueue.access import visible
from fdbqueue.pages.charts import Sparkline, sparkline
from fdbqueue.pages.forms import QueuesForm
from fdbqueue.pages.previews import age
from fdbqueue.service.catalog import Catalog
from fdbqueue.service.overview import counts_of, depths, histories_of, oldest_of
from fdbqueue.service.queues import Queue
from fdbqueue.service.storage.counts import Counts, Minute
from fdbqueue.service.transactions import run

#: The list looks at so many queues, in the order of their names, and sorts those.
LOOKED_AT = 1_000
#: The most queues on one page of it.
QUEUES_PER_PAGE = 100
#: Pushes and pops a minute are the mean over so many minutes, the present one included.
RATE_MINUTES = 5
_SPARKLINE_MINUTES = 60
_NO_COUNTS = Counts(0, 0, 0, 0)


@dataclass(slots=True)
class QueueRow:
    """A queue as the list shows it; what was not read yet is empty."""

    queue: Queue
    counts: Counts = _NO_COUNTS
    oldest: datetime.datetime | None = None
    oldest_age: str = ""
    minutes: list[Minute] = field(default_factory=list)
    pushes: float = 0
    pops: float = 0
    depth: Sparkline | None = None

    def sort_key(self, column: str) -> Any:
        """Return what a column sorts by; None sorts behind everything."""
        if column in {"name", "kind"}:
            return getattr(self.queue, column)
        if column == "oldest":  # by the age: what has waited longest is the largest
            return None if self.oldest is None else -self.oldest.timestamp()
        return getattr(self if column in {"pushes", "pops"} else self.counts, column)


@dataclass(frozen=True, slots=True)
class Listed:
    """Some queues, and how many there are to choose from.

    ``first`` is the number of the first of them. ``following`` is the name behind which
    there are queues that were not looked at.
    """

    rows: list[QueueRow]
    first: int
    found: int
    following: str | None


def listed(catalog: Catalog, form: QueuesForm, may_view: Callable[[str], bool]) -> Listed:
    """Read one page of the list, all in one transaction.

    What the order depends on is read of all queues, the rest of those shown: a few round
    trips to a cluster, whatever the number of queues and items.

    Raises:
        PermissionDenied: There are queues, and the reader may see none.
    """
    after, wanted = form.cleaned_data["after"], form.cleaned_data["q"].casefold()
    names, following = visible(catalog, may_view, after=after, limit=LOOKED_AT)
    rows = [QueueRow(catalog.queue(name)) for name in names if wanted in name.casefold()]
    first = (form.cleaned_data["page"] - 1) * QUEUES_PER_PAGE

    def read(tr: Any) -> list[QueueRow]:
        if form.column in _SORTED_BY:
            _SORTED_BY[form.column](tr, rows)
        shown = _sorted(rows, form)[first : first + QUEUES_PER_PAGE]
        for reader in (_read_counts, _read_oldest, _read_history):
            if _SORTED_BY.get(form.column) is not reader:
                reader(tr, shown)
        return shown

    shown = run(catalog.database, read, read_only=True)
    for row in shown:
        row.depth = sparkline(depths(row.counts, row.minutes))
        row.oldest_age = "" if row.oldest is None else age(row.oldest)
    return Listed(shown, first + 1, len(rows), following)


def rates(minutes: Sequence[Minute]) -> tuple[float, float]:
    """Return the mean pushes and pops a minute over the last minutes, up to this moment."""
    recent = minutes[-RATE_MINUTES:]
    now = datetime.datetime.now(datetime.timezone.utc)
    begun = min(60.0, max(0.0, (now - recent[-1].at).total_seconds()))
    elapsed = len(recent) - 1 + begun / 60
    if elapsed <= 0:
        return 0.0, 0.0
    pushes, pops = (sum(getattr(m, name) for m in recent) for name in ("pushes", "pops"))
    return pushes / elapsed, pops / elapsed


def _read_counts(tr: Any, rows: Sequence[QueueRow]) -> None:
    for row, counts in zip(rows, counts_of(tr, [row.queue for row in rows]), strict=True):
        row.counts = counts


def _read_oldest(tr: Any, rows: Sequence[QueueRow]) -> None:
    for row, oldest in zip(rows, oldest_of(tr, [row.queue for row in rows]), strict=True):
        row.oldest = oldest


def _read_history(tr: Any, rows: Sequence[QueueRow], minutes: int = _SPARKLINE_MINUTES) -> None:
    found = histories_of(tr, [row.queue for row in rows], minutes)
    for row, history in zip(rows, found, strict=True):
        row.minutes = history
        row.pushes, row.pops = rates(history)


def _read_rates(tr: Any, rows: Sequence[QueueRow]) -> None:
    _read_history(tr, rows, RATE_MINUTES)


_SORTED_BY: dict[str, Callable[[Any, Sequence[QueueRow]], None]] = {
    **dict.fromkeys(("ready", "leased", "delayed", "dead"), _read_counts),
    "oldest": _read_oldest,
    **dict.fromkeys(("pushes", "pops"), _read_rates),
}


def _sorted(rows: list[QueueRow], form: QueuesForm) -> list[QueueRow]:
    """Sort by a column; those without a value last, equals by their names."""
    keys = {id(row): row.sort_key(form.column) for row in rows}
    known = [row for row in rows if keys[id(row)] is not None]
    unknown = [row for row in rows if keys[id(row)] is None]
    known.sort(key=lambda row: keys[id(row)], reverse=form.is_descending)
    return known + unknown
