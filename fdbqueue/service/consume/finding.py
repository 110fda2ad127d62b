"""Find a queue that may have something, of several: for :mod:`several_take`, which says how."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import FormatMismatch
from fdbqueue.service.clock import LAST_MOMENT
from fdbqueue.service.combiner import CombinedBatch, Combiner, SharedOperation
from fdbqueue.service.consume.consumer import Consumer, first_with_items, looks_at
from fdbqueue.service.consume.poppers import restarts_after_fork
from fdbqueue.service.consume.prospect import READ_AT_ONCE
from fdbqueue.service.consume.ring import PAGE_ROWS, Hint, Ring, Walk, Walking, begin_index_look
from fdbqueue.service.consume.waiting import ItemWatch
from fdbqueue.service.transactions import run, unlimited
from fdbqueue.steady import monotonic

#: A transaction ends after so many looks, or seconds.
MAX_LOOKS, _MAX_SECONDS = 1_000, 1.0


class FindRequest(SharedOperation):
    """One thread asks for a queue that may have something.

    Attributes:
        names: The names of a list of queues; empty for families by their index.
        leases: Whether it leases.
        looks: Whether members are to be looked at before they are named.
    """

    __slots__ = ("leases", "looks", "names")

    def __init__(self, names: tuple[str, ...], *, leases: bool, looks: bool) -> None:
        self.names = names
        self.leases = leases
        self.looks = looks


class Found(NamedTuple):
    """What a transaction has found.

    Attributes:
        names: The queues that may have something, for one request after the other.
        is_over: Whether there are no others.
    """

    names: Sequence[str]
    is_over: bool


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
        finder: Finds the queue to take from.
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
        self.in_turn = in_turn
        self.facts = (*((True,) if in_turn else ()), *facts)
        self.last = ""
        self._sources = () if ring is None else ring.sources
        self.finder = Finder(self)
        look = functools.partial(begin_index_look, sources=self._sources)
        watch = functools.partial(ItemWatch, self.database, is_told=True)
        self._watch = watch(functools.partial(look, to_lease=False))
        self._lease_watch = watch(functools.partial(look, to_lease=True))
        restarts_after_fork(self)

    def restart_after_fork(self) -> None:
        """Start again in a forked process."""
        self.finder.combiner.restart_after_fork()
        if self.ring is not None:
            self.ring.restart_after_fork()
        self._watch.restart_after_fork()
        self._lease_watch.restart_after_fork()

    def _plain(self, names: Sequence[str]) -> Sequence[str]:
        """Return the queues that are known by their names."""
        return names if self.ring is None else self.ring.plain

    def watches(self, names: Sequence[str] = (), *, to_lease: bool) -> tuple[ItemWatch, ...]:
        """Return where to wait for items to pop, or to lease.

        Args:
            names: The names of a list.
            to_lease: Whether to lease.
        """
        groups = [self.consumer(name).group for name in self._plain(names)]
        own = self._lease_watch if to_lease else self._watch
        found = [group.lease_watch if to_lease else group.watch for group in groups]
        return (own, *found) if self._sources else tuple(found)

    def in_order(self, names: Sequence[str]) -> Sequence[str]:
        """Return the names of a list in the order in which a call asks the queues."""
        if self.in_turn and self.last in names:
            at = names.index(self.last) + 1
            return [*names[at:], *names[:at]]
        return names

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
        look = begin_index_look(tr, self._sources, to_lease=to_lease)
        plain = [*map(self.consumer, self._plain(names))]
        return first_with_items(tr, plain, to_lease=to_lease) is not None or look().is_now

    def look_at(
        self, tr: Transaction, walk: Walk, count: int, *, looks: bool, replaces_rows: bool
    ) -> list[Hint]:
        """Look at the next members on a walk, and replace rows of those that have nothing.

        Args:
            tr: The transaction.
            walk: The walk; there is nothing more on it once it is closed.
            count: The most members.
            looks: Whether to look at all; else at those with rows of moments that have come.
            replaces_rows: Whether to replace rows.

        Returns:
            Those that may have something.
        """
        hints = walk.next(count)
        asked = [hint for hint in hints if looks or hint.passing]
        if not asked:
            return hints
        nothing = set()
        begun = looks_at(tr, [self.consumer(hint.name) for hint in asked])
        for hint, (consumer, look) in zip(asked, begun, strict=True):
            member = consumer.taker.store.tables.member
            try:
                prospect = look.settle().prospect(to_lease=walk.to_lease)
            except FormatMismatch as error:
                if not self.passes_over(consumer, error):
                    raise
                nothing.add(hint.name)
                continue
            if not prospect.is_now:
                nothing.add(hint.name)
            if member is None or not replaces_rows:
                continue
            if not prospect.is_now and not look.is_with_family:
                member.replace_rows(tr, prospect, hint.passing)
            elif prospect.is_now and hint.passing:
                member.promote(tr, hint.passing)
        return [Hint(hint.name) for hint in hints if hint.name not in nothing]

    def passes_over(self, consumer: Consumer, error: FormatMismatch) -> bool:
        """Set a member that is not named aside, as :meth:`Ring.set_aside` does; tell whether so."""
        is_member = consumer.taker.store.tables.member is not None
        if self.ring is None or not is_member or consumer.name in self.ring.plain:
            return False
        self.ring.set_aside(consumer.name, error)
        return True

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
        found = [*dict.fromkeys([*self._plain(names), *[row.name for row in rows]])]
        return [self.consumer(name) for name in found[:MAX_LOOKS]]


class Finder:
    """Find queues that may have something for the threads of this process, for their combiner.

    Args:
        group: What the threads share.
    """

    def __init__(self, group: SeveralGroup) -> None:
        self._group = group
        self.combiner = Combiner(self)

    def find(self, request: FindRequest, database: Database) -> str | None:
        """Return a queue that may have something: empty if there is none, None to ask again."""
        ring = self._group.ring
        name = None if ring is None or request.looks else ring.next_name()
        if name is not None:
            return name
        found: str | None = self.combiner.submit(request, database)
        return found

    # The combiner's work

    def alone(self, operation: FindRequest) -> bool:
        """Find a queue for one thread, in that thread."""
        operation.conclude(*self._find(operation.database, [operation]))
        return True

    def together(self, batch: CombinedBatch) -> None:
        """Find a queue for each thread in line that asks alike."""
        waiting: list[FindRequest] = batch.waiting()
        asked = [(one.names, one.leases, one.looks) for one in waiting]
        alike = [one for one, facts in zip(waiting, asked, strict=True) if facts == asked[0]]
        requests = batch.take_up(alike)
        if requests:
            found = self._find(self._group.database, requests)
            batch.finish([*zip(requests, found, strict=True)])

    def undo(self, operation: FindRequest) -> None:
        """Do nothing: nothing was taken."""

    def _find(self, database: Database, requests: Sequence[FindRequest]) -> list[str | None]:
        """Return a queue for each request, as :meth:`find` does."""
        first, ring = requests[0], self._group.ring
        if ring is None:
            look = functools.partial(self._in_list, first=first, count=len(requests))
            found = run(database, look, read_only=True)
        else:
            attempts = itertools.count()
            with Walking(ring, to_lease=first.leases) as walking:
                # If it is not known whether rows were replaced, it is looked again: no receipt.
                found = run(
                    database,
                    lambda tr: self._on_walk(
                        tr, walking.begin(tr), requests, replaces_rows=not next(attempts)
                    ),
                    wrote=False,
                )
        if not found.names:
            return ["" if found.is_over else None] * len(requests)
        return [*itertools.islice(itertools.cycle(found.names), len(requests))]

    def _in_list(self, tr: Transaction, first: FindRequest, count: int) -> Found:
        """Find queues of a list, in its order: for each request one in turn, else the first."""
        group, names = self._group, []
        consumers = [*map(group.consumer, group.in_order(first.names))]
        try:
            for consumer, look in looks_at(tr, consumers):
                if look.settle().prospect(to_lease=first.leases).is_now:
                    names.append(consumer.name)
                    if not group.in_turn or len(names) == count:
                        break
        except FormatMismatch:
            if not names:
                raise
        return Found(names, is_over=True)

    def _on_walk(
        self, tr: Transaction, walk: Walk, requests: Sequence[FindRequest], *, replaces_rows: bool
    ) -> Found:
        """Find members, and plain queues, on a walk; what is not needed comes again."""
        group, looks, count = self._group, requests[0].looks, len(requests)
        at_once = READ_AT_ONCE if looks else PAGE_ROWS
        until = monotonic() + _MAX_SECONDS
        found: list[Hint] = []
        while len(found) < count and not walk.is_over:
            if walk.met >= MAX_LOOKS or monotonic() > until:
                break
            found += group.look_at(tr, walk, at_once, looks=looks, replaces_rows=replaces_rows)
        for hint in reversed(found[count:]):
            walk.again(hint)
        return Found([hint.name for hint in found[:count]], is_over=walk.is_over)
