"""Take items from a family: from each member that has something, in turn.

The index (:mod:`fdbqueue.service.storage.families`) says which members may have something to take,
and its docstring what is true of its rows. So a take reads some rows and looks at those members,
however many others there are. A member is not looked at because of its name's place, or of how many
items it has: it has one turn in each *circle*, the way over all members that have a row.

How a take goes, without a transaction of the caller's:

1. **Combine.** The threads of a process submit their requests to the combiner of the names and the
   end (:class:`FamilyPoppers`), which works as for one queue: alone if no other thread is at work,
   else a helper takes for all in line, in one transaction.
2. **Walk** (:mod:`ring`). The transaction goes on where the last one of this process stopped: it
   takes the names that were left of the page read last, then pages of rows from there on, each with
   the rows LATER whose moments are over. The process began anywhere, so processes seldom meet.
   Names that are no patterns are a page of their own. All of this is only a hint: a member that has
   nothing costs one look.
3. **Visit** (:mod:`visits`). In its turn a member gives to up to eight requests that are in line
   together, so that they share its reads; to more if all members were met. A request whose member
   had nothing goes on to another, together with as many others as the last members have served on
   the average, and where nothing is found at all to more and more at once. In each member a round
   (:mod:`round`) is served, as for one queue, and the reads of 25 are under way before the first is
   awaited. All items of one request come from one member, in its order.
4. **Correct.** The rows of a member that gave nothing are removed in the same transaction, or its
   row says when it has something next (:mod:`prospect`): when the first of its leases, delays and
   batches ends, when its rate has a token, in a second if other processes have yet to collect from
   it; never while it is paused by itself. If a limit keeps back what is ready, another row says so
   to consumers that this limit does not hold. The transaction depends on the rows that it removes,
   even if it has written them itself. Whatever gives the member something new writes one of them,
   so then it conflicts, and no row is ever missing. The rows of a member that gave stay.
5. **Commit**, all or nothing: items, counts, rows. After a conflict the members that it met come
   again behind the others of the page, and nothing is corrected, so that only takes of the same
   items can conflict twice. If the engine has reservations, the next attempt reserves the file, and
   so do those of a quarter of a second. Otherwise, after two conflicts, each thread takes from the
   member that it was given by that member's own
   :class:`~fdbqueue.service.consume.poppers.ProcessGroup`, where processes help each other, and for
   a quarter of a second a transaction that only reads chooses the members.
6. **None** is returned after a whole circle in one transaction: at its read version there was no
   row whose moment was over, or it looked at all these members, and none had anything. A
   transaction ends after 1,000 looks, a second, a megabyte, or if a member has more to requeue than
   it takes; its corrections are committed, and 1 begins again. So if there are more than 1,000 such
   rows, each member had nothing when it was looked at.
7. **Wait** at one watch for all members, pops at another than leases: sixteen keys of each family,
   of which every writer of a row changes one, and the moment of the first row LATER. Who sets it
   looks at the index in the same transaction. As ever, who waits looks again after five seconds.

In a transaction of the caller's there is 2, 3 and 6, without a bound. Nothing is corrected, and
nothing helps other processes, because the caller's transaction may fail by what it does itself.
That there was nothing makes it depend on the whole index. Under an idempotency key a thread does 2
to 6 by itself, again after each conflict; the response is saved in one place for all queues of the
catalog, and names the member that gave.

What is left behind by

- *an error of one member* (an item that cannot be decoded): its request gets it, nothing is taken
  for that one, and the requests of the other members are not concerned;
- *a member of another format*: it is set aside for a minute (:mod:`ring`), and its rows stay;
- *any other error, a deadline, a refused commit*: nothing. The names that were taken from the page
  return to it, or the circle misses them once if the thread is interrupted just then: they have
  their turn in the next;
- *an unknown commit*: the receipt tells whether it took effect, rows included, before anything else
  is done;
- *a signal, an interrupt, a thread or task that leaves*: as :mod:`several` says. A helper requeues
  what was taken for it, and that writes the member's row again;
- *a fork*: the child begins a walk of its own, without threads in line or a watch;
- *a crash*: its transaction with its rows, or nothing. Members whose items it leased have a row
  from when the first lease ends, at the latest once someone has found them empty; until then the
  row READY;
- *a pause of a member* removes the row when the member is looked at; resuming writes it;
- *a pause of the family* is one key, whatever the number of members. It conflicts with every take
  that has not committed, so nothing is taken once it has returned. A walk passes over the family,
  and removes no row; who takes from a member by its name reads the key, too. Who waits watches the
  key, and all are woken when it is cleared. Nothing is written for any member by either, and
  leases, delays and counts go on as in a queue that is paused. A crash leaves it paused or not;
- *a clock that is far ahead*: rows of moments that are too late. Others look at these members at
  once (CLOCK);
- *a stopped process, a cluster that was away*: nothing waits for another process here. A walk that
  goes on later finds old hints, and looks in vain.

Writers that do not know the catalog (a queue opened over its subspace, the recipes) write no row:
``recount`` writes it, and ``queue_doctor`` finds rows that are missing.
"""

from __future__ import annotations

import functools
import itertools
import logging
import operator
import time
from collections.abc import Callable, Sequence
from typing import Any

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.service.combiner import CombinedBatch, Combiner
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.consumer import Consumer
from fdbqueue.service.consume.contention import Contention
from fdbqueue.service.consume.head import ROUND_ITEMS
from fdbqueue.service.consume.poppers import forget_at_fork, requeue_or_log
from fdbqueue.service.consume.ring import Ring, Source, Walking, begin_index_look
from fdbqueue.service.consume.round import Contended
from fdbqueue.service.consume.several import Outcome, TakeCall, begin_look
from fdbqueue.service.consume.visits import MAX_LOOKS, READ_AT_ONCE, MemberRequest, Served, Visit
from fdbqueue.service.consume.waiting import ItemWait, ItemWatch
from fdbqueue.service.items import LAST_MOMENT, Item
from fdbqueue.service.storage.rows import ENDS, End
from fdbqueue.service.transactions import Conflict, run, unlimited

logger = logging.getLogger(__name__)

_WROTE = operator.attrgetter("wrote")


class FamilyPoppers:
    """Take items at one end of families for the threads of this process, for their combiner.

    Args:
        families: The families.
        end: Which end.
    """

    def __init__(self, families: Families, end: End) -> None:
        self._families = families
        self._end: End = end
        self.combiner = Combiner(self)
        self._contention = Contention(families.database)
        self.forget()

    def forget(self) -> None:
        """Start again in a forked process."""
        self.combiner.forget()
        self._contention.forget()

    # The combiner's work

    def alone(self, operation: MemberRequest) -> bool:
        """Take items for one thread in that thread."""
        for _, items in self.take(operation.database, [operation]).results:
            operation.conclude(items)
            return True
        return False

    def together(self, batch: CombinedBatch) -> None:
        """Take items for the requests in line."""
        requests = _fitting(batch.waiting())
        if requests:
            batch.finish(self.take(self._families.database, requests, batch).results)

    def undo(self, operation: MemberRequest) -> None:
        """Requeue the items of a thread that has gone."""
        items = operation.result
        if isinstance(items, list) and operation.requeue is not None:
            requeue_or_log(items[0].queue, operation.requeue, items)

    def take(
        self,
        database: Database,
        requests: Sequence[MemberRequest],
        batch: CombinedBatch | None = None,
    ) -> Served:
        """Take items, again after a conflict; after two, find who has some."""
        if time.monotonic() < self._contention.helped_until:
            found = self._families.find(database, requests)
            if found.results:
                return found
        conflicts, seen = 0, [Served()]
        while True:
            try:
                return self._attempt(database, requests, batch, None, seen, conflicts)
            except Conflict:
                conflicts += 1
                if batch is not None:
                    batch.let_go()
                if self._contention.met(conflicts, others=bool(seen[-1].gave)) is None:
                    return Served([*seen[-1].gave.items()])

    def take_each(
        self,
        database: Database,
        requests: Sequence[MemberRequest],
        also: Callable[[Transaction], None] | None,
    ) -> Served:
        """Do what :meth:`Families.take_each` does; after a conflict half as much, of others."""
        conflicts, asked = 0, len(requests)
        while True:
            try:
                return self._attempt(database, requests[:asked], None, also, [], conflicts)
            except Conflict:
                conflicts += 1
                self._contention.met(conflicts, others=False)
                if self._contention.has_reservations:
                    continue
                if also is not None:
                    raise Contended from None
                asked = max(1, asked // 2)

    def _attempt(
        self,
        database: Database,
        requests: Sequence[MemberRequest],
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
            if time.monotonic() < self._contention.reserved_until:
                self._contention.reserve(tr)
            walk = walking.begin(tr, to_lease=requests[0].leases)
            open_queue = self._families.consumer
            visit = Visit(open_queue, tr, walk, self._end, owns=True, corrects=not conflicts)
            visit.begin_with(also)
            seen.append(visit.served)
            return visit.serve(requests if batch is None else batch.take_up(requests))

        with self._families.walking() as walking:
            served = run(database, serve, wrote=_WROTE, retries_conflicts=False)
        for name, counts in served.expired:
            expiry.log(name, counts)
        return served


class Families:
    """What the calls of this process share that take from the same names by their index.

    Args:
        database: Where they are.
        open_queue: Returns what takes from the queue with a name.
        plain: The names that are no patterns, and those of plain queues that fit one.
        sources: The families whose members fit a pattern.
        facts: What else such a call must have in common with the one before it.

    Attributes:
        database: As given, without a time limit.
        consumer, facts: As given; ``open_queue`` is ``consumer``.
    """

    def __init__(
        self,
        database: Database,
        open_queue: Callable[[str], Consumer],
        plain: Sequence[str],
        sources: Sequence[Source],
        facts: tuple[bool, ...] = (),
    ) -> None:
        self.facts = facts
        self.database: Database = unlimited(database)
        self.consumer = open_queue
        self._ring = Ring(plain, sources)
        self._sources = self._ring.sources
        self.poppers: dict[End, FamilyPoppers] = {end: FamilyPoppers(self, end) for end in ENDS}
        look = functools.partial(begin_index_look, sources=self._sources)
        self._watch = ItemWatch(self.database, functools.partial(look, to_lease=False))
        self._lease_watch = ItemWatch(self.database, functools.partial(look, to_lease=True))
        self._plain = tuple(plain)
        forget_at_fork(self)

    def forget(self) -> None:
        """Start again in a forked process."""
        for poppers in self.poppers.values():
            poppers.forget()
        self._ring.forget()
        self._watch.forget()
        self._lease_watch.forget()

    def watches(self, *, to_lease: bool) -> tuple[ItemWatch, ...]:
        """Return where to wait for items to pop, or to lease."""
        groups = [self.consumer(name).group for name in self._plain]
        plain = [group.lease_watch if to_lease else group.watch for group in groups]
        own = self._lease_watch if to_lease else self._watch
        return (own, *plain) if self._sources else tuple(plain)

    def walking(self) -> Walking:
        """Return the walks of a transaction."""
        return Walking(self._ring)

    def depend(self, tr: Transaction) -> None:
        """Let a transaction depend on there being no member that has something to take."""
        for source in self._sources:
            tr.add_read_conflict_range(*source.keys.bounds)
            tr.add_read_conflict_key(source.keys.paused)

    def has_items(self, *, to_lease: bool) -> bool:
        """Tell whether a queue may have something to pop, or to lease.

        So as long as there are rows of members that had nothing: the next take corrects these, and
        only then there is a moment or a change to wait for.
        """
        look = functools.partial(self.has_items_in, to_lease=to_lease)
        return run(self.database, look, read_only=True)

    def has_items_in(self, tr: Transaction, *, to_lease: bool) -> bool:
        """Tell in a transaction what :meth:`has_items` tells."""
        if self._find(tr, READ_AT_ONCE, to_lease=to_lease):
            return True
        return begin_index_look(tr, self._sources, to_lease=to_lease, watches=False)().is_now

    def take_each(
        self,
        database: Database,
        end: End,
        requests: Sequence[MemberRequest],
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

    def find(self, database: Database, requests: Sequence[MemberRequest]) -> Served:
        """Find queues that may have something, and deal them to requests; none if there are none.

        Nothing is taken.
        """
        to_lease = requests[0].leases
        look = functools.partial(self._find, count=len(requests), to_lease=to_lease)
        found = run(database, look, read_only=True)
        dealt = zip(requests, itertools.cycle(found), strict=False) if found else ()
        return Served([*dealt])

    def _find(self, tr: Transaction, count: int, *, to_lease: bool) -> list[Consumer]:
        found: list[Consumer] = []
        with self.walking() as walking:
            walk = walking.begin(tr, to_lease=to_lease)
            ahead, looks = count, 0
            while looks < MAX_LOOKS and not found:
                hints = walk.next(min(ahead, READ_AT_ONCE))
                if not hints:
                    break
                looks, ahead = looks + len(hints), 2 * ahead
                begun = []
                for hint in hints:
                    consumer = self.consumer(hint.name)
                    look = begin_look(tr, consumer.taker, to_lease=to_lease)
                    member = consumer.taker.store.tables.member
                    begun.append((hint, consumer, walk.guarded(hint.name, member, look)))
                for hint, consumer, look in begun:
                    if len(found) == count:
                        walk.again(hint)
                    elif look():
                        found.append(consumer)
        return found

    def later(self, tr: Transaction) -> list[Consumer]:
        """Return the first queues that may have something to take later, 1,000 at most."""
        rows = [
            row
            for source in self._sources
            for row in source.keys.rows(
                tr.snapshot.get_range(*source.keys.later(None, LAST_MOMENT), limit=MAX_LOOKS)
            )
            if source.fits(row.name)
        ]
        names = [*dict.fromkeys([*self._plain, *[row.name for row in rows]])]
        return [self.consumer(name) for name in names[:MAX_LOOKS]]


class FamilyTake(TakeCall):
    """One call that takes items from families by their index.

    Args:
        families: What it shares with other calls of the process.
        count: The most items.
        others: As for :class:`TakeCall`.
    """

    def __init__(self, families: Families, count: int, *others: Any) -> None:
        super().__init__(*others)
        self._families = families
        self._count = count
        self._item_wait = ItemWait(families.watches(to_lease=self._leases))

    def _try(self, *, saves: bool) -> list[Item] | Consumer | None:
        if self._call is not None:
            with self._families.walking() as walking:
                attempts = itertools.count()
                return self._in_one_transaction(
                    lambda tr: self._attempt_once(
                        tr, walking, saves=saves, owns=True, corrects=not next(attempts)
                    )
                )
        began = time.perf_counter()
        request = MemberRequest(self._count, self._make, leases=self._leases)
        combiner = self._families.poppers[self._end].combiner
        try:
            found = self._in_flight(combiner.submit, request, self._database)
        except BaseException as error:
            self._report(began, 0, error)
            raise
        if isinstance(found, Consumer):
            self._is_in_flight = False
            return found
        if found and request.source is not None:
            self._taken = request.source, found
            self._request(request.source)  # which requeues for a task that was cancelled
            self._reported = request.source.name
        self._is_in_flight = bool(found)
        self._report(began, len(found), None)
        return found

    def _take_in(self, tr: Transaction) -> list[Item]:
        with self._families.walking() as walking:
            if self._call is not None:
                outcome = self._attempt_once(tr, walking, saves=True, owns=False, corrects=False)
                return outcome.items
            request = MemberRequest(self._count, self._make, leases=self._leases)
            return _result(self._visit(tr, walking, request, owns=False, corrects=False)) or []

    # Under an idempotency key

    def _attempt_once(
        self, tr: Transaction, walking: Walking, *, saves: bool, owns: bool, corrects: bool
    ) -> Outcome:
        """Take items, and save them as the response; or return the saved response.

        Args:
            tr: The transaction.
            walking: Its walks.
            saves: Whether to save that there were no items, too.
            owns: Whether the transaction is this call's own.
            corrects: Whether to correct the index.
        """
        call, responses = self._call, self._responses
        assert call is not None
        outcome = Outcome()
        recalled = responses.recall(tr, call)
        if recalled is not None:
            outcome.items = recalled
            return outcome
        request = MemberRequest(self._count, self._made, leases=self._leases)
        served = self._visit(tr, walking, request, owns=owns, corrects=corrects)
        items = _result(served)
        outcome.wrote, outcome.expired = served.wrote, served.expired
        outcome.is_cut = items is None
        outcome.items, outcome.consumer = items or [], request.source if items else None
        if outcome.consumer is not None:
            self._reported = outcome.consumer.name
        elif saves and not outcome.is_cut:
            responses.save_nothing(tr, call)
            outcome.wrote = True
        return outcome

    # One transaction

    def _visit(
        self,
        tr: Transaction,
        walking: Walking,
        request: MemberRequest,
        *,
        owns: bool,
        corrects: bool,
    ) -> Served:
        walk, open_queue = walking.begin(tr, to_lease=request.leases), self._families.consumer
        visit = Visit(open_queue, tr, walk, self._end, owns=owns, corrects=corrects)
        served = visit.serve([request])
        if not owns and not served.gave:
            self._families.depend(tr)
        return served


def _result(served: Served) -> list[Item] | None:
    """Return the items of the only request, None if it is to be tried again."""
    for _, items in served.results:
        if isinstance(items, Exception):
            try:
                raise items
            finally:
                del items, served  # an error that its own frames refer to keeps them
        assert isinstance(items, list)
        return items
    return None


def _fitting(requests: Sequence[MemberRequest]) -> list[MemberRequest]:
    """Return the first requests: at most 1,000 items, or one request of more.

    Only pops or only leases, because a limit may hold these alone: where they find nothing, pops
    would not have looked.
    """
    alike = [one for one in requests if one.leases == requests[0].leases]
    room = ROUND_ITEMS
    for index, one in enumerate(alike):
        room -= one.count
        if index and room < 0:
            return alike[:index]
    return alike
