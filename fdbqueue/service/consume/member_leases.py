"""Lease from many members of families in one transaction, a round in each.

Each member of limited tasks may give few items at a time, so this is their throughput: other takes
from families go to one member each (:mod:`several_take`). The rounds of several members begin at
once. The transaction also replaces the rows of members that gave nothing, or all that their limits
allow, as a look does; it depends on the rows that it removes.

*After a conflict* it leases half as much, of members anywhere on the ring: the process that was in
the way takes what comes next here. It replaces no rows then, so only takes of the same items
conflict twice. On an engine with reservations it reserves the file instead.

*An error, a crash, an interrupt* leave nothing, or the commit; leases that nobody has got expire.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import CorruptItem, FormatMismatch
from fdbqueue.service.clock import now_us
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.consumer import Consumer
from fdbqueue.service.consume.contention import Contended, Contention
from fdbqueue.service.consume.finding import MAX_LOOKS, SeveralGroup
from fdbqueue.service.consume.prospect import begin_dues, prospect_of
from fdbqueue.service.consume.ring import Hint, Ring, Source, Walk, Walking
from fdbqueue.service.consume.round import Round
from fdbqueue.service.items import Item
from fdbqueue.service.limits import STEP_BYTES
from fdbqueue.service.storage.family_index import NEVER
from fdbqueue.service.transactions import Conflict, run
from fdbqueue.steady import monotonic

#: How many items of a member a lease of many takes, so that it takes some of others, too; one of
#: fewer than eight takes each of another.
_FROM_EACH, _MEMBERS = 4, 8
#: How many rows it reads at a time of members that may have something. What is left of them is not
#: kept: others may have brought these members to their limits since.
_PAGE_ROWS = 32


class _Wanted(NamedTuple):
    """How many items are to be leased, for how many seconds, and by whom."""

    items: int
    seconds: float
    worker: str


@dataclass
class Leased:
    """What a transaction has leased.

    Attributes:
        items: The items.
        corrupt: The first item of each member that cannot be decoded.
        is_over: Whether no member has more.
        wrote: Whether anything was written.
        expired: What had expired and was requeued, with what the log calls its queue.
    """

    items: list[Item] = field(default_factory=list)
    corrupt: list[CorruptItem] = field(default_factory=list)
    is_over: bool = False
    wrote: bool = False
    expired: list[tuple[str, expiry.ExpiredCounts]] = field(default_factory=list)


class _Visit(NamedTuple):
    """A round in one member, and the hint by which it was found."""

    hint: Hint
    consumer: Consumer
    round: Round

    def is_spent(self) -> bool:
        """Tell whether its limits let it give nothing more."""
        return self.round.allowance is not None and self.round.allowance.is_spent(leases=True)


class MemberLeases:
    """Lease items of families, of each member as many as it may give.

    Args:
        database: Where they are.
        open_queue: Returns what takes from the queue with a name.
        sources: The families.

    Attributes:
        group: What waits for their items.
    """

    def __init__(
        self,
        database: Database,
        open_queue: Callable[[str], Consumer],
        sources: Sequence[Source],
    ) -> None:
        self._database = database
        self._ring = Ring((), sources, page_rows=_PAGE_ROWS, keeps_names=False)
        self.group = SeveralGroup(database, open_queue, self._ring)
        self._contention = Contention(database)

    def lease(
        self,
        count: int,
        seconds: float,
        worker: str,
        also: Callable[[Transaction], None] | None = None,
    ) -> Leased:
        """Lease items.

        Args:
            count: The most items.
            seconds: How long they are leased.
            worker: Who leases them.
            also: Writes something else in the same transaction, before anything is leased.

        Raises:
            Contended: With ``also``, on an engine without reservations: it conflicted, and nothing
                was done.
        """
        wanted, conflicts = _Wanted(count, seconds, worker), 0
        while True:
            try:
                leased = self._attempt(wanted, also, replaces_rows=not conflicts)
                break
            except Conflict:
                conflicts += 1
                self._contention.after_conflict(conflicts, others=False)
                if self._contention.has_reservations:
                    continue
                if also is not None:
                    raise Contended from None
                wanted = wanted._replace(items=max(1, wanted.items // 2))
        for name, counts in leased.expired:
            expiry.log(name, counts)
        return leased

    def _attempt(
        self,
        wanted: _Wanted,
        also: Callable[[Transaction], None] | None,
        *,
        replaces_rows: bool,
    ) -> Leased:
        """Lease items in one transaction.

        Raises:
            Conflict: It conflicted.
        """

        def lease(tr: Transaction) -> Leased:
            if monotonic() < self._contention.reserved_until:
                self._contention.reserve(tr)
            leased = Leased(wrote=also is not None)
            if also is not None:
                also(tr)
            visits = self._lease(tr, walking.begin(tr), wanted, leased)
            if replaces_rows and _replace_rows(tr, visits):
                leased.wrote = True
            return leased

        with Walking(self._ring, to_lease=True) as walking:
            wrote = operator.attrgetter("wrote")
            return run(self._database, lease, wrote=wrote, retries_conflicts=False)

    def _lease(self, tr: Transaction, walk: Walk, wanted: _Wanted, leased: Leased) -> list[_Visit]:
        """Lease items of the next members; return those that have nothing more to give now."""
        most = min(_FROM_EACH, max(1, wanted.items // _MEMBERS))
        left, spent = min(_MEMBERS, wanted.items // most), []
        while left > 0 and not walk.is_over and walk.met < MAX_LOOKS:
            for visit in [self._begin(tr, hint, most, wanted) for hint in walk.next(left)]:
                count = len(leased.items)
                if not self._serve(visit, leased):
                    continue
                gave = len(leased.items) > count
                left -= gave
                if not gave or visit.is_spent():
                    spent.append(visit)
                elif visit.hint.passing and (member := visit.consumer.taker.store.tables.member):
                    member.promote(tr, visit.hint.passing)
            if tr.get_approximate_size().wait() > STEP_BYTES:
                break
        leased.is_over = walk.is_over
        return spent

    def _begin(self, tr: Transaction, hint: Hint, most: int, wanted: _Wanted) -> _Visit:
        """Begin a round in a member."""
        consumer = self.group.consumer(hint.name)
        request = consumer.lease_request("min", most, wanted.seconds, None, worker=wanted.worker)
        return _Visit(hint, consumer, Round(consumer.taker, tr, "min", [request], is_last=True))

    def _serve(self, visit: _Visit, leased: Leased) -> bool:
        """Lease items of a member; tell whether what it has left is known."""
        consumer = visit.consumer
        try:
            result = visit.round.serve()
        except FormatMismatch as error:
            if not self.group.passes_over(consumer, error):
                raise
            return False
        leased.wrote = leased.wrote or result.wrote
        if result.expired is not None:
            leased.expired.append((consumer.taker.store.home, result.expired))
        for _, found in result.results:
            if isinstance(found, CorruptItem):
                leased.corrupt.append(found)
                return False
            if isinstance(found, Exception):
                raise found
            leased.items += found
        return not result.is_with_family  # to resume a family writes no rows: they stay


def _replace_rows(tr: Transaction, visits: Sequence[_Visit]) -> bool:
    """Replace the rows of members by when there is something next; tell whether any were."""
    replaced = False
    reads = [(visit, begin_dues(tr, visit.consumer.taker)) for visit in visits]
    for visit, dues in reads:
        taking = visit.round
        prospect = NEVER
        if not taking.result.is_paused:
            prospect = prospect_of(
                taking.allowance, dues(), now_us(), is_ready=taking.leaves_items, to_lease=True
            )
        member = visit.consumer.taker.store.tables.member
        if member is not None and not prospect.is_now:
            member.replace_rows(tr, prospect, visit.hint.passing)
            replaced = True
    return replaced
