"""Which members of families a transaction meets: the way of a process round their indexes."""

from __future__ import annotations

import functools
import itertools
import os
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import FormatMismatch
from fdbqueue.logs import get_logger
from fdbqueue.service.clock import now_us
from fdbqueue.service.storage.family_index import NOW, FamilyKeys, IndexRow, Member, Prospect
from fdbqueue.steady import monotonic

if TYPE_CHECKING:
    from typing_extensions import Self

logger = get_logger(__name__)

#: How many rows a page has.
PAGE_ROWS = 100
#: Hints that are kept for the next transaction.
_MAX_HINTS = 1_000
#: For how long a member is set aside that was written under other settings.
_ASIDE_SECONDS = 60.0
#: So many are remembered; if there are more, all are looked at again.
_MAX_ASIDE = 10_000
#: A source remembers of so many names whether they are members that it asks for.
_MAX_KNOWN = 1_000


class Source(NamedTuple):
    """The members of a family that are asked for: its index, and whether a name is one of them."""

    keys: FamilyKeys
    fits: Callable[[str], bool]


class Hint(NamedTuple):
    """A queue to look at, and the keys of its rows that go once that is done."""

    name: str
    passing: tuple[bytes, ...]


class Ring:
    """Where the walks of this process are: which queues come next.

    Nothing depends on it but the order. Threads may use it at once, and an interrupt may come
    between any two lines: at worst a queue has a turn too many, or its next in the next circle.

    Args:
        plain: Names of queues that are looked at in each circle.
        sources: The families.
        page_rows: How many rows a page has.
        keeps_hints: Whether what is left of a page is for the next transaction; else that reads the
            rows again, because members that others have brought to a limit have none by then.

    Attributes:
        plain: As given.
        sources: As given, but for the members that are set aside.
        page_rows, keeps_hints: As given.
    """

    def __init__(
        self,
        plain: Sequence[str],
        sources: Sequence[Source],
        *,
        page_rows: int = PAGE_ROWS,
        keeps_hints: bool = True,
    ) -> None:
        self.plain = plain
        self.page_rows = page_rows
        self.keeps_hints = keeps_hints
        #: Until when members are set aside, by the monotonic clock.
        self._aside: dict[str, float] = {}
        self.sources = tuple(
            source._replace(
                fits=functools.partial(self._fits, functools.lru_cache(_MAX_KNOWN)(source.fits))
            )
            for source in sources
        )
        #: The stretches of a circle: None for the plain names.
        self.stretches: tuple[Source | None, ...] = (*([None] if plain else []), *self.sources)
        self.restart_after_fork()

    def restart_after_fork(self) -> None:
        """Begin anywhere, in a forked process or a new one."""
        #: What was read of a page and not visited yet.
        self.hints: deque[Hint] = deque(maxlen=_MAX_HINTS)
        #: The stretch that is read next, and the key from which on; empty for its beginning.
        self.at = self.anywhere()

    def anywhere(self) -> tuple[int, bytes]:
        """Return any place of the circle."""
        place = random.randrange(len(self.stretches))
        source = self.stretches[place]
        return place, b"" if source is None else source.keys.ready_at(os.urandom(2))

    def set_aside(self, name: str, error: FormatMismatch) -> None:
        """Pass over a member for a while, because this process cannot read it, and log that.

        Its rows stay, for the processes that can. While it is set aside nothing here waits for it.
        """
        if not self._is_aside(name):
            logger.warning("a queue of another format was passed over", extra=error.context)
        if len(self._aside) >= _MAX_ASIDE:
            self._aside.clear()
        self._aside[name] = monotonic() + _ASIDE_SECONDS

    def passes_over(self, member: Member | None, name: str, error: FormatMismatch) -> bool:
        """Set a member aside, as :meth:`set_aside` does; tell whether it is one."""
        if member is not None:
            self.set_aside(name, error)
        return member is not None

    def _is_aside(self, name: str) -> bool:
        return monotonic() < self._aside.get(name, 0.0)

    def _fits(self, fits: Callable[[str], bool], name: str) -> bool:
        return fits(name) and not (self._aside and self._is_aside(name))


class Walk:
    """The way of one transaction over a ring, on which it meets each queue once.

    It passes over the members of families that are paused. That is read at its beginning, and not
    awaited for the queues that it meets first if their names are at hand: these give nothing then.

    Args:
        ring: The ring.
        tr: The transaction. It depends on nothing that is read.
        to_lease: Whether items are to be leased.

    Attributes:
        pauses: The reads of whether families are paused, by their keys.
    """

    def __init__(self, ring: Ring, tr: Transaction, *, to_lease: bool) -> None:
        self._ring = ring
        self._tr = tr.snapshot
        self._to_lease = to_lease
        #: The moment of its first page; 0 before.
        self._now = 0
        self.pauses: dict[bytes, Any] = {}
        for source in ring.stretches:  # a comprehension would be one more call of each take
            if source is not None:
                self.pauses[source.keys.paused] = self._tr[source.keys.paused]
        self._passed: list[Source] | None = None
        self._met: dict[str, Hint] = {}
        #: What is left of the page, and the stretch that it is of.
        self._page: deque[Hint] = deque()
        self._page_of = 0
        self._start = self._at = ring.at
        #: Whether the stretch where it started comes a second time, up to there.
        self._is_back = False
        #: How far the rows LATER of each stretch are read; None for all.
        self._later: dict[int, bytes | None] = {}
        #: Whether the rows READY of the stretch are read.
        self._is_read = False
        #: Whether everything was met.
        self.is_closed = False

    def next(self, count: int) -> list[Hint]:
        """Return the next queues; fewer if all were met."""
        found: list[Hint] = []
        passed = self._paused() if self._met else ()
        while len(found) < count:
            try:
                hint = self._page.popleft() if self._page else self._ring.hints.popleft()
            except IndexError:  # there is none any more: another walk may have been faster
                hint = None
            if hint is not None:
                if hint.name in self._met:
                    continue
                if not (passed and any(one.fits(hint.name) for one in passed)):
                    self._met[hint.name] = hint
                    found.append(hint)
            elif self.is_closed:
                break
            else:
                self._read_page()
        return found

    def _paused(self) -> Sequence[Source]:
        if self._passed is None:
            stretches = [source for source in self._ring.stretches if source is not None]
            self._passed = [one for one in stretches if self.pauses[one.keys.paused].present()]
        return self._passed

    def again(self, hint: Hint) -> None:
        """Meet a queue again, as the next one."""
        self._met.pop(hint.name, None)
        self._page.appendleft(hint)

    def end(self, *, is_committed: bool) -> None:
        """Let the next walk go on from here.

        Without the commit the queues that this one has met come again, behind the rest of the page.
        If the ring keeps no hints, the next walk begins at any place then: the process that was in
        the way takes what comes next here.
        """
        if not self._ring.keeps_hints:
            self._ring.at = self._first_left() if is_committed else self._ring.anywhere()
            return
        self._ring.at = self._at
        self._ring.hints.extend(self._page)
        if not is_committed:
            self._ring.hints.extend(itertools.islice(self._met.values(), _MAX_HINTS))

    def _first_left(self) -> tuple[int, bytes]:
        """Return where the first member of the page is that was not met, or the next page."""
        source = self._ring.stretches[self._page_of]
        for hint in self._page:
            if source is not None and not hint.passing:
                return self._page_of, source.keys.member(hint.name).ready
        return self._at

    def _read_page(self) -> None:
        """Read the next page; all of its reads are under way before the first is awaited."""
        place, begin = self._at
        self._now = self._now or now_us()
        self._page_of, most = place, self._ring.page_rows
        source = self._ring.stretches[place]
        if source is None:
            self._page.extend(Hint(name, ()) for name in self._ring.plain)
            self._go_on()
            return
        keys, since = source.keys, self._later.get(place, b"")
        later: Any = ()
        if since is not None:
            later = self._tr.get_range(*keys.later(since or None, self._now), limit=most)
        reads = [] if self._is_read else self._begin_rows(keys, begin)
        if source in self._paused():
            self._go_on()
            return
        ready = itertools.islice(itertools.chain.from_iterable(reads), most)
        due, found = [*keys.rows(later)], [*keys.rows(ready)]
        self._later[place] = due[-1].key if len(due) == most else None
        self._is_read = len(found) < most
        if found:
            self._at = place, found[-1].key + b"\x00"
        self._page.extend(_hints_of(source, [*due, *found]))
        if self._is_read and self._later[place] is None:
            self._go_on()

    def _begin_rows(self, keys: FamilyKeys, begin: bytes) -> list[Any]:
        """Begin to read the next rows of members that may have something now."""
        end = b""
        if self._is_back and self._at[0] == self._start[0]:
            end = self._start[1]
        ranges = keys.open_ranges(self._now, to_lease=self._to_lease)
        cut = [(max(begin, first), min(end or stop, stop)) for first, stop in ranges]
        most = self._ring.page_rows
        return [self._tr.get_range(*one, limit=most) for one in cut if one[0] < one[1]]

    def _go_on(self) -> None:
        """Go on to the next stretch, or close the circle."""
        self._is_read = False
        place = self._at[0]
        if self._is_back and place == self._start[0]:
            self.is_closed = True
            return
        place = (place + 1) % len(self._ring.stretches)
        self._at = place, b""
        if place == self._start[0]:
            self._is_back = True
            self.is_closed = not self._start[1]


def _hints_of(source: Source, rows: Sequence[IndexRow]) -> list[Hint]:
    """Return the members of a source that rows of its index name, each once."""
    hints: dict[str, list[bytes]] = {}
    for row in rows:
        if source.fits(row.name):
            hints.setdefault(row.name, []).extend(row.passing)
    return [Hint(name, tuple(own)) for name, own in hints.items()]


class Walking:
    """The walks of one transaction's attempts, for a ``with`` block that ends after its commit.

    Args:
        ring: The ring.
        to_lease: Whether items are to be leased.
    """

    def __init__(self, ring: Ring, *, to_lease: bool) -> None:
        self._ring = ring
        self._to_lease = to_lease
        self._walk: Walk | None = None

    def begin(self, tr: Transaction) -> Walk:
        """Begin the walk of an attempt; the one before it has failed."""
        if self._walk is not None:
            self._walk.end(is_committed=False)
        self._walk = Walk(self._ring, tr, to_lease=self._to_lease)
        return self._walk

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        walk, self._walk = self._walk, None
        if walk is not None:
            walk.end(is_committed=error is None)


# Waiting


def begin_index_look(
    tr: Transaction, sources: Sequence[Source], *, to_lease: bool
) -> Callable[[], Prospect]:
    """Begin to read when a member may have something, by the index alone.

    Args:
        tr: The transaction.
        sources: The families.
        to_lease: Whether it is to be leased.
    """
    now = now_us()
    reads = [
        (
            source,
            [
                (tr.snapshot.get_range(*one, limit=PAGE_ROWS), one[1])
                for one in source.keys.open_ranges(now, to_lease=to_lease)
            ],
            source.keys.first_later(tr.snapshot),
            tr.snapshot[source.keys.paused],
        )
        for source in sources
    ]

    def look() -> Prospect:
        moments: list[int] = []
        keys: list[bytes] = []
        for source, ready, later, paused in reads:
            if paused.present():
                keys.append(source.keys.paused)
                continue
            if any(_first_fitting(tr, source, *one) is not None for one in ready):
                return NOW
            first = _first_fitting(tr, source, later, source.keys.wakes[0])
            if first is not None:
                moments.append(first.moment)
            keys += source.keys.wakes
        return Prospect(min(moments, default=None), watch=tuple(keys))

    return look


def _first_fitting(tr: Transaction, source: Source, read: Any, stop: bytes) -> IndexRow | None:
    """Return the first row of a member that fits, None if there is none.

    Args:
        tr: The transaction.
        source: The members.
        read: The read of the first rows.
        stop: Where the range ends.
    """
    while True:
        last = b""
        for row in source.keys.rows(read):
            if source.fits(row.name):
                return row
            last = row.key
        if not last:
            return None
        read = tr.snapshot.get_range(last + b"\x00", stop, limit=PAGE_ROWS)
