"""Take from families: from each member that has something, in turn.

Each member that has a row (:mod:`family_index`) has one turn in each *circle* over all.

1. **Combine**. A call that joins while the transaction reads gets items, or waits for the next.
2. **Walk** (:mod:`ring`) on from where the last transaction stopped.
3. **Visit** (:mod:`visits`): a round in one member after another, for the first eight requests in
   line. At the min end it depends on the items that it takes and those before them; one that finds
   nothing, on the row that 4 removes.
4. **Replace rows.** If a member gave nothing, or all that its limits allow, a row that says when it
   has something, or for whom, replaces its rows. The transaction depends on what it removes, and
   each writer that gives the member something new writes one of them: so no row is ever missing.
5. **Commit**, all or nothing. After a conflict the walk goes on with other members, and no rows
   are replaced. After two, without reservations, each thread takes by the poppers of the
   member that gave to it; for a while others do so at once, by those of the next members.
6. **None** is for those in line at its beginning, after a whole circle at one read version. One
   that has looked at too much commits its rows, and 1 begins again.

In a caller's transaction there is 2, 3 and 6; if there was nothing, it depends on the whole index.
Under an idempotency key a thread does 2 to 6 by itself, and races on.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.service.combiner import CombinedBatch, Combiner
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.consumer import Consumer
from fdbqueue.service.consume.contention import Contended, Contention, Race
from fdbqueue.service.consume.head import ROUND_ITEMS
from fdbqueue.service.consume.poppers import requeue_or_log
from fdbqueue.service.consume.ring import Ring, Walking
from fdbqueue.service.consume.visits import Served, SeveralRequest, Visit, VisitEstimate
from fdbqueue.service.storage.item_keys import End
from fdbqueue.service.transactions import Conflict, run
from fdbqueue.steady import monotonic

_WROTE = operator.attrgetter("wrote")


class SeveralPoppers:
    """Take items at one end of families for the threads of this process, for their combiner.

    Args:
        database: Where they are, without a time limit.
        open_queue: Returns what takes from the queue with a name.
        ring: Where the process is on its way round them.
        end: Which end.
    """

    def __init__(
        self, database: Database, open_queue: Callable[[str], Consumer], ring: Ring, end: End
    ) -> None:
        self._database = database
        self._open = open_queue
        self._ring = ring
        self._end: End = end
        self.combiner = Combiner(self)
        self._contention = Contention(database)
        self.restart_after_fork()

    def restart_after_fork(self) -> None:
        """Start again in a forked process."""
        self.combiner.restart_after_fork()
        self._contention.restart_after_fork()
        self._estimate = VisitEstimate()

    # The combiner's work

    def alone(self, operation: SeveralRequest) -> bool:
        """Take items for one thread in that thread."""
        for _, items in self.take(operation.database, [operation]).results:
            operation.conclude(items)
            return True
        return False

    def together(self, batch: CombinedBatch) -> None:
        """Take items for the requests in line."""
        requests = _fitting(batch.waiting())
        if requests:
            batch.finish(self.take(self._database, requests, batch).results)

    def undo(self, operation: SeveralRequest) -> None:
        """Requeue the items of a thread that has gone."""
        items = operation.result
        if isinstance(items, list) and operation.requeue is not None:
            requeue_or_log(items[0].queue, operation.requeue, items)

    def take(
        self,
        database: Database,
        requests: Sequence[SeveralRequest],
        batch: CombinedBatch | None = None,
    ) -> Served:
        """Take items, again after a conflict; after two, name the members that are to give."""
        if monotonic() < self._contention.helped_until:
            named = self._named(database, requests)
            if named.results:
                return named
        race, seen = None, list[Served]()
        while True:
            try:
                return self._attempt(database, requests, seen, batch, replaces_rows=race is None)
            except Conflict:
                if batch is not None:
                    batch.let_go()
                gave = seen[-1].gave
                race = race or Race(self._contention)
                if not race.goes_on(others=bool(gave)):
                    return Served([*gave.items()])

    def _named(self, database: Database, requests: Sequence[SeveralRequest]) -> Served:
        """Deal the members that come next to requests, without a look at them."""

        def name(tr: Transaction) -> list[str]:
            return [hint.name for hint in walking.begin(tr).next(len(requests))]

        with Walking(self._ring, to_lease=requests[0].leases) as walking:
            names = run(database, name, read_only=True)
        return Served([*zip(requests, itertools.cycle(names), strict=False)] if names else [])

    def take_each(
        self,
        database: Database,
        requests: Sequence[SeveralRequest],
        also: Callable[[Transaction], None] | None = None,
    ) -> Served:
        """Take items for several requests of one thread, in one transaction.

        After a conflict half as much, of others.

        Args:
            database: Where.
            requests: How many, and what is made of each.
            also: Writes something in the same transaction, before anything is taken.

        Returns:
            What those were given that it served; none of them has a queue to take from instead.

        Raises:
            Contended: With ``also``, on an engine without reservations: it conflicted, and nothing
                was done.
        """
        race, asked = None, len(requests)
        while True:
            try:
                some = requests[:asked]
                return self._attempt(database, some, [], also=also, replaces_rows=race is None)
            except Conflict:
                race = race or Race(self._contention)
                race.goes_on(others=False)
                if self._contention.has_reservations:
                    continue
                if also is not None:
                    raise Contended from None
                asked = max(1, asked // 2)

    def _attempt(
        self,
        database: Database,
        requests: Sequence[SeveralRequest],
        seen: list[Served],
        batch: CombinedBatch | None = None,
        also: Callable[[Transaction], None] | None = None,
        *,
        replaces_rows: bool,
    ) -> Served:
        """Take items in one transaction, and note in ``seen`` what each run of it did.

        Raises:
            Conflict: It conflicted.
        """

        def serve(tr: Transaction) -> Served:
            if monotonic() < self._contention.reserved_until:
                self._contention.reserve(tr)
            visit = Visit(
                self._open,
                self._ring,
                tr,
                walking.begin(tr),
                self._end,
                owns=True,
                replaces_rows=replaces_rows,
                estimate=self._estimate,
            )
            if also is not None:
                visit.begin_with(also)
            seen.append(visit.served)
            if batch is None:
                return visit.serve(requests)
            known = {*requests}

            def joined() -> list[SeveralRequest]:
                late = [one for one in batch.waiting() if one not in known]
                late = batch.take_up(_fitting([first, *late])[1:])
                known.update(late)
                return late

            return visit.serve(batch.take_up(requests), joined)

        first = requests[0]
        with Walking(self._ring, to_lease=first.leases) as walking:
            served = run(database, serve, wrote=_WROTE, retries_conflicts=False)
        for name, counts in served.expired:
            expiry.log(name, counts)
        return served


def _fitting(requests: Sequence[SeveralRequest]) -> list[SeveralRequest]:
    """Return the first requests: at most ``ROUND_ITEMS`` items, or one request of more.

    Only pops or only leases, because a limit may hold these alone: where they find nothing, pops
    would not have looked.
    """
    first = requests[0]
    alike = [one for one in requests if one.leases == first.leases]
    room = ROUND_ITEMS
    for index, one in enumerate(alike):
        room -= one.count
        if index and room < 0:
            return alike[:index]
    return alike
