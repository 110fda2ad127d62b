"""Take from families: from each member that has something, in turn. And what all takes share.

Each member that the index names (:mod:`fdbqueue.service.storage.family_index`) has one turn in each
*circle*, the way over all that have a row. A take goes as :mod:`several_take` says, but:

1. **Combine** (:class:`SeveralPoppers`). A call that joins the line while the transaction reads
   gets items, which the commit verifies, or waits for the next transaction.
2. **Walk** (:mod:`ring`). The transaction goes on where the last one of this process stopped.
3. **Visit** (:mod:`visits`). Rounds begin in as many members as the last transactions needed. One
   after another gives to the first eight requests in line; those that nobody needs come first in
   the next transaction. A round depends on the items that it takes and those before them; one that
   finds nothing, on the row that 4 removes.
4. **Replace rows.** If a member gave nothing, or all that its limits allow, the transaction removes
   its rows. If it has something later, a new row says when (:mod:`prospect`), or for whom. The
   transaction depends on the rows that it removes, and each writer that gives the member something
   new writes one of them: so no row is ever missing.
5. **Commit**, all or nothing. After a conflict its members come after the others of the page, and
   no rows are replaced, so only takes of the same items conflict twice. After two, without
   reservations, each thread takes by its member's own poppers.
6. **None** is returned after a whole circle in one transaction, at whose read version no member had
   anything, to those in line at its beginning. A transaction that has looked at too much is
   committed with the rows it replaced, and 1 begins again; then each member had nothing when it was
   looked at.
7. **Wait** at one watch for pops, one for leases: the keys WAKE of each family, of which every
   writer of a row changes one, and the moment of the first row LATER.

In a caller's transaction there is 2, 3 and 6, without a bound; that there was nothing makes it
depend on the whole index. Under an idempotency key a thread does 2 to 6 by itself.

What is left behind, besides what :mod:`several_take` says, by

- *an error of one member*: nothing of the others. One of another format is set aside for a minute;
- *any other error, a deadline, a refused commit, a crash*: nothing; or the transaction with its
  rows. After an interrupt the circle may miss some names once;
- *a thread that leaves*: a helper requeues what was taken for it, and writes the member's row;
- *a fork*: the child begins a walk of its own;
- *a pause of a member*: no row once it was looked at; resuming writes it;
- *a clock far ahead*: rows of moments that are too late, at which others look at once;
- *a writer that does not know the catalog*: no row, until ``recount``.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Sequence

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import FormatMismatch
from fdbqueue.logs import get_logger
from fdbqueue.service.clock import LAST_MOMENT
from fdbqueue.service.combiner import CombinedBatch, Combiner
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.consumer import Consumer, looks_at
from fdbqueue.service.consume.contention import Contended, Contention
from fdbqueue.service.consume.head import ROUND_ITEMS
from fdbqueue.service.consume.poppers import requeue_or_log, restarts_after_fork
from fdbqueue.service.consume.prospect import READ_AT_ONCE, Look
from fdbqueue.service.consume.ring import ListWalk, Ring, Walk, Walking, begin_index_look
from fdbqueue.service.consume.visits import MAX_LOOKS, Served, SeveralRequest, Visit, VisitEstimate
from fdbqueue.service.consume.waiting import ItemWatch
from fdbqueue.service.storage.item_keys import ENDS, End
from fdbqueue.service.transactions import Conflict, run, unlimited
from fdbqueue.steady import monotonic

logger = get_logger(__name__)

_WROTE = operator.attrgetter("wrote")


class SeveralPoppers:
    """Take items at one end of several queues for the threads of this process, for their combiner.

    Args:
        group: What they share.
        end: Which end.
    """

    def __init__(self, group: SeveralGroup, end: End) -> None:
        self._group = group
        self._end: End = end
        self.combiner = Combiner(self)
        self._contention = Contention(group.database)
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
            batch.finish(self.take(self._group.database, requests, batch).results)

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
        """Take items, again after a conflict; after two, find who has some."""
        if monotonic() < self._contention.helped_until:
            found = self._group.find(database, requests)
            if found.results:
                return found
        conflicts = 0
        seen: list[Served] = []
        while True:
            try:
                return self._attempt(database, requests, batch, None, seen, conflicts)
            except Conflict:
                conflicts += 1
                if batch is not None:
                    batch.let_go()
                gave = seen[-1].gave
                if self._contention.after_conflict(conflicts, others=bool(gave)) is None:
                    return Served([*gave.items()])

    def take_each(
        self,
        database: Database,
        requests: Sequence[SeveralRequest],
        also: Callable[[Transaction], None] | None,
    ) -> Served:
        """Do what :meth:`SeveralGroup.take_each` does; after a conflict half as much, of others."""
        conflicts, asked = 0, len(requests)
        while True:
            try:
                return self._attempt(database, requests[:asked], None, also, [], conflicts)
            except Conflict:
                conflicts += 1
                self._contention.after_conflict(conflicts, others=False)
                if self._contention.has_reservations:
                    continue
                if also is not None:
                    raise Contended from None
                asked = max(1, asked // 2)

    def _attempt(
        self,
        database: Database,
        requests: Sequence[SeveralRequest],
        batch: CombinedBatch | None,
        also: Callable[[Transaction], None] | None,
        seen: list[Served],
        conflicts: int,
    ) -> Served:
        """Take items in one transaction, after some conflicts, and note what each run of it did.

        Raises:
            Conflict: It conflicted.
        """

        def serve(tr: Transaction) -> Served:
            if monotonic() < self._contention.reserved_until:
                self._contention.reserve(tr)
            visit = Visit(
                self._group.consumer,
                tr,
                walking.begin(tr),
                self._end,
                owns=True,
                replaces_rows=not conflicts,
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

            return visit.serve(batch.take_up(requests), None if first.names else joined)

        first = requests[0]
        with self._group.walking(first.names, to_lease=first.leases) as walking:
            served = run(database, serve, wrote=_WROTE, retries_conflicts=False)
        for name, counts in served.expired:
            expiry.log(name, counts)
        return served


class SeveralGroup:
    """What the calls of this process share that take from the same several queues.

    Args:
        database: Where they are.
        open_queue: Returns what takes from the queue with a name.
        ring: Where the process is on its way round families; None for lists of queues.
        in_turn: Whether queues take turns: of a list, each call begins behind the one that gave
            last.
        facts: What else calls under one idempotency key must have in common besides the names.

    Attributes:
        database: As given, without a time limit.
        consumer: ``open_queue``, as given.
        ring: As given.
        facts: As given, and whether queues take turns.
        last: The queue that gave last.
    """

    def __init__(
        self,
        database: Database,
        open_queue: Callable[[str], Consumer],
        ring: Ring | None = None,
        *,
        in_turn: bool = False,
        facts: tuple[bool, ...] = (),
    ) -> None:
        self.database: Database = unlimited(database)
        self.consumer = open_queue
        self.ring = ring
        self._in_turn = in_turn
        self.facts = (*((True,) if in_turn else ()), *facts)
        self.last = ""
        self._sources = () if ring is None else ring.sources
        self.poppers: dict[End, SeveralPoppers] = {end: SeveralPoppers(self, end) for end in ENDS}
        look = functools.partial(begin_index_look, sources=self._sources)
        watch = functools.partial(ItemWatch, self.database, is_told=True)
        self._watch = watch(functools.partial(look, to_lease=False))
        self._lease_watch = watch(functools.partial(look, to_lease=True))
        restarts_after_fork(self)

    def restart_after_fork(self) -> None:
        """Start again in a forked process."""
        for poppers in self.poppers.values():
            poppers.restart_after_fork()
        if self.ring is not None:
            self.ring.restart_after_fork()
        self._watch.restart_after_fork()
        self._lease_watch.restart_after_fork()

    def watches(self, names: Iterable[str] = (), *, to_lease: bool) -> tuple[ItemWatch, ...]:
        """Return where to wait for items to pop, or to lease.

        Args:
            names: The names of a list.
            to_lease: Whether to lease.
        """
        plain = names if self.ring is None else self.ring.plain
        groups = [self.consumer(name).group for name in plain]
        own = self._lease_watch if to_lease else self._watch
        found = [group.lease_watch if to_lease else group.watch for group in groups]
        return (own, *found) if self._sources else tuple(found)

    def walking(self, names: Sequence[str], *, to_lease: bool) -> Walking:
        """Return the walks of a transaction's attempts.

        Args:
            names: The names of a list.
            to_lease: Whether items are to be leased.
        """
        if self._in_turn and self.last in names:
            at = names.index(self.last) + 1
            names = [*names[at:], *names[:at]]
        return Walking(self.ring, names, in_turn=self._in_turn, to_lease=to_lease)

    def depend(self, tr: Transaction) -> None:
        """Let a transaction depend on there being no member that has something to take."""
        for source in self._sources:
            tr.add_read_conflict_range(*source.keys.bounds)
            tr.add_read_conflict_key(source.keys.paused)

    def has_items(self, tr: Transaction, names: Sequence[str] = (), *, to_lease: bool) -> bool:
        """Tell whether a queue may have something to pop, or to lease.

        So as long as there are rows of members that had nothing: the next take replaces these, and
        only then there is a moment or a change to wait for.
        """
        if self._find(tr, READ_AT_ONCE, names, to_lease=to_lease):
            return True
        return (
            bool(self._sources) and begin_index_look(tr, self._sources, to_lease=to_lease)().is_now
        )

    def take_each(
        self,
        database: Database,
        end: End,
        requests: Sequence[SeveralRequest],
        also: Callable[[Transaction], None] | None = None,
    ) -> Served:
        """Take items for several requests of one thread, in one transaction.

        Args:
            database: Where.
            end: At which end.
            requests: How many, and what is made of each.
            also: Writes something in the same transaction, before anything is taken.

        Returns:
            What those were given that it served; none of them has a queue to take from instead.

        Raises:
            Contended: With ``also``, on an engine without reservations: it conflicted, and nothing
                was done.
        """
        return self.poppers[end].take_each(database, requests, also)

    def find(self, database: Database, requests: Sequence[SeveralRequest]) -> Served:
        """Find queues that may have something, and deal them to requests; none if there are none.

        Nothing is taken.
        """
        first = requests[0]
        look = functools.partial(
            self._find, count=len(requests), names=first.names, to_lease=first.leases
        )
        found = run(database, look, read_only=True)
        dealt = zip(requests, itertools.cycle(found), strict=False) if found else ()
        return Served([*dealt])

    def _find(
        self, tr: Transaction, count: int, names: Sequence[str], *, to_lease: bool
    ) -> list[str]:
        """Return queues that may have something, in order the first; none if there is none."""
        found: list[str] = []
        with self.walking(names, to_lease=to_lease) as walking:
            walk = walking.begin(tr)
            most = count if walk.in_turn else 1
            ahead, looks = READ_AT_ONCE if walk.is_strict else count, 0
            while looks < MAX_LOOKS and not found:
                hints = walk.next(min(ahead, READ_AT_ONCE))
                if not hints:
                    break
                looks, ahead = looks + len(hints), 2 * ahead
                consumers = [self.consumer(hint.name) for hint in hints]
                begun = zip(hints, looks_at(tr, consumers), strict=True)
                for hint, (consumer, look) in begun:
                    if len(found) == most:
                        walk.again(hint)
                    elif _is_now(walk, consumer, look, to_lease=to_lease):
                        found.append(hint.name)
        return found

    def later(self, tr: Transaction, names: Sequence[str] = ()) -> list[Consumer]:
        """Return the queues of a list; of families the members that may have something later.

        Of these the first, ``MAX_LOOKS`` at most.
        """
        rows = [
            row
            for source in self._sources
            for row in source.keys.rows(
                tr.snapshot.get_range(*source.keys.later(None, LAST_MOMENT), limit=MAX_LOOKS)
            )
            if source.fits(row.name)
        ]
        plain = names if self.ring is None else self.ring.plain
        found = [*dict.fromkeys([*plain, *[row.name for row in rows]])]
        return [self.consumer(name) for name in found[:MAX_LOOKS]]


def _is_now(walk: Walk | ListWalk, consumer: Consumer, look: Look, *, to_lease: bool) -> bool:
    """Tell whether a queue may have something; a member of another format has nothing."""
    try:
        return look.settle().prospect(to_lease=to_lease).is_now
    except FormatMismatch as error:
        if not walk.passes_over(consumer.taker.store.tables.member, consumer.name, error):
            raise
        return False


def _fitting(requests: Sequence[SeveralRequest]) -> list[SeveralRequest]:
    """Return the first requests: at most ``ROUND_ITEMS`` items, or one request of more.

    Only of the same queues, and only pops or only leases, because a limit may hold these alone:
    where they find nothing, pops would not have looked.
    """
    first = requests[0]
    alike = [one for one in requests if (one.leases, one.names) == (first.leases, first.names)]
    room = ROUND_ITEMS
    for index, one in enumerate(alike):
        room -= one.count
        if index and room < 0:
            return alike[:index]
    return alike
