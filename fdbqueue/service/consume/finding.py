"""Find which queue of a list gives; and what calls on the same queues share in a process."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import FormatMismatch
from fdbqueue.service.clock import LAST_MOMENT
from fdbqueue.service.combiner import CombinedBatch, Combiner, SharedOperation
from fdbqueue.service.consume.consumer import Consumer, first_with_items, looks_at
from fdbqueue.service.consume.poppers import restarts_after_fork
from fdbqueue.service.consume.ring import Ring, begin_index_look
from fdbqueue.service.consume.several_poppers import SeveralPoppers
from fdbqueue.service.consume.visits import MAX_LOOKS
from fdbqueue.service.consume.waiting import ItemWatch
from fdbqueue.service.storage.item_keys import ENDS, End
from fdbqueue.service.transactions import run, unlimited


class FindRequest(SharedOperation):
    """One thread asks for a queue of a list that may have something.

    Attributes:
        names: The names of the list.
        leases: Whether it leases.
    """

    __slots__ = ("leases", "names")

    def __init__(self, names: tuple[str, ...], *, leases: bool) -> None:
        self.names = names
        self.leases = leases


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
        finder: Finds the queue of a list.
        poppers: What takes from families, at each end.
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
        self.finder = ListFinder(self)
        self.poppers: dict[End, SeveralPoppers] = {}
        if ring is not None:
            made = functools.partial(SeveralPoppers, self.database, open_queue, ring)
            self.poppers = {end: made(end) for end in ENDS}
        look = functools.partial(begin_index_look, sources=self._sources)
        watch = functools.partial(ItemWatch, self.database, is_told=True)
        self._watch = watch(functools.partial(look, to_lease=False))
        self._lease_watch = watch(functools.partial(look, to_lease=True))
        restarts_after_fork(self)

    def restart_after_fork(self) -> None:
        """Start again in a forked process."""
        self.finder.combiner.restart_after_fork()
        for poppers in self.poppers.values():
            poppers.restart_after_fork()
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


class ListFinder:
    """Find queues of lists that may have something, for the threads of this process.

    The result of a request is the name of a queue, empty if none has anything.

    Args:
        group: What the threads share.
    """

    def __init__(self, group: SeveralGroup) -> None:
        self._group = group
        self.combiner = Combiner(self)

    # The combiner's work

    def alone(self, operation: FindRequest) -> bool:
        """Find a queue for one thread, in that thread."""
        operation.conclude(*self._find(operation.database, [operation]))
        return True

    def together(self, batch: CombinedBatch) -> None:
        """Find a queue for each thread in line that asks alike."""
        waiting: list[FindRequest] = batch.waiting()
        asked = [(one.names, one.leases) for one in waiting]
        alike = [one for one, facts in zip(waiting, asked, strict=True) if facts == asked[0]]
        requests = batch.take_up(alike)
        if requests:
            found = self._find(self._group.database, requests)
            batch.finish([*zip(requests, found, strict=True)])

    def undo(self, operation: FindRequest) -> None:
        """Do nothing: nothing was taken."""

    def _find(self, database: Database, requests: Sequence[FindRequest]) -> list[str]:
        """Return a queue for each request: in turn another one, else the first."""
        group, first = self._group, requests[0]

        def look(tr: Transaction) -> list[str]:
            found: list[str] = []
            names = group.in_order(first.names)
            looks = looks_at(tr, [*map(group.consumer, names)])
            try:
                for name, (_, seen) in zip(names, looks, strict=True):
                    if seen.settle().prospect(to_lease=first.leases).is_now:
                        found.append(name)
                        if not group.in_turn or len(found) == len(requests):
                            break
            except FormatMismatch:
                if not found:
                    raise
            return found

        found = run(database, look, read_only=True) or [""]
        return [*itertools.islice(itertools.cycle(found), len(requests))]
