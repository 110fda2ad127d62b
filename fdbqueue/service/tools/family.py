"""A family: which members have something, which there are; and to pause all of them at once.

Nothing is taken. All is bounded by what the caller asks for, so that it costs the same beside a
million members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service.clock import LAST_MOMENT, now_us
from fdbqueue.service.consume.pauses import Pause, Pausing, parse_pause
from fdbqueue.service.storage.family_index import FamilyKeys

#: So many rows of the index are read at once.
_ROWS = 1_000


class Family:
    """A family, to look at and to pause; :meth:`Catalog.families` returns all.

    Args:
        name: The pattern.
        kind: The kind of its members.
        keys: Its index.
        names: Yields the names of all queues that begin with a text and sort after another.
        has: Tells whether a name is a member's.
        pausing: Pauses and resumes it.
        owner: The app that alone pushes to members and takes from them; None for the project.
        has_parts: Whether its members are parts of other queues, which :attr:`Queue.home` names.
        label: What readers call it.

    Attributes:
        name: As given.
        kind: As given.
        keys: As given.
        has: As given.
        owner: As given.
        has_parts: As given.
        label: As given.
        start: What the names of all members begin with.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        keys: FamilyKeys,
        names: Callable[[str, str], Iterator[str]],
        has: Callable[[str], bool],
        pausing: Pausing,
        owner: str | None,
        *,
        has_parts: bool = False,
        label: str = "",
    ) -> None:
        self.name = name
        self.owner = owner
        self.has_parts = has_parts
        self.label = label or name
        self.kind = kind
        self.has = has
        self.start = name.partition("*")[0]
        self.keys = keys
        self._names = names
        self._pausing = pausing

    # Pause

    def pause(self, *, reason: str | None = None, tr: Transaction | None = None) -> Pause:
        """Let pops and leases find nothing in any member, until the family is resumed.

        One key is written, whatever the number of members, those that are created later included.
        All else is as :meth:`Queue.pause` says, also for who takes from a member by its name. A
        member that is paused by itself stays so when the family is resumed.

        Args:
            reason: Why, clipped at 1,000 characters. A family that is paused already keeps its
                time and, unless a new one is given, its reason.
            tr: The transaction to take part in; None for one of its own.
        """
        return self._pausing.pause(reason, tr)

    def resume(self, *, tr: Transaction | None = None) -> bool:
        """Let pops and leases take from its members again; tell if the family was paused."""
        return self._pausing.resume(tr)

    def paused(self, *, tr: Transaction | None = None) -> Pause | None:
        """Return since when and why the family is paused, None if it is not."""
        return self._pausing.paused(tr)

    def begin_paused(self, tr: Transaction) -> Callable[[], Pause | None]:
        """Begin to read whether it is paused; call the returned function for the result."""
        read = tr.snapshot[self.keys.paused]
        return lambda: parse_pause(read, self.name)

    # Look at its members

    def look_again(
        self,
        tr: Transaction,
        limit: int,
        concerns: Callable[[str], bool],
        *,
        strictly: bool = True,
    ) -> int:
        """Let members be looked at now that wait for a moment, because of what ``tr`` changes.

        Args:
            tr: The transaction.
            limit: The most rows of the index that are read: of members behind them the moment
                stays.
            concerns: Tells whether a member is concerned.
            strictly: Whether to depend on what is read: else one whose moment is noted at the same
                time is left out.

        Returns:
            How many were written.
        """
        reads = tr if strictly else tr.snapshot
        waiting = reads.get_range(*self.keys.later(None, LAST_MOMENT), limit=limit)
        rows = self.keys.rows(waiting)
        names = dict.fromkeys(row.name for row in rows if concerns(row.name) and self.has(row.name))
        for name in names:
            self.keys.member(name).announce(tr, 0)
        return len(names)

    def names(self, *, after: str = "") -> Iterator[str]:
        """Yield the names of the queues that begin as members do, sorted, as they are asked for.

        Those of other queues are among them; :attr:`has` tells. Each costs about two reads.
        """
        return self._names(self.start, after)

    def with_something(
        self,
        tr: Transaction,
        limit: int,
        *,
        with_later: bool = False,
    ) -> list[str]:
        """Return the members that may have something to take, in the order of the index.

        That order has nothing to do with the names. A member from which the last item was taken is
        among them until the next take from the family has looked at it.

        Args:
            tr: The transaction, which depends on nothing that is read.
            limit: The most members.
            with_later: Whether to return those behind them, too, that have something later:
                delayed or leased items.
        """
        found: dict[str, None] = {}
        for name in self._indexed(tr, with_later=with_later):
            if len(found) == limit:
                break
            found[name] = None
        return list(found)

    def _indexed(self, tr: Transaction, *, with_later: bool) -> Iterator[str]:
        """Yield the members that have a row: first the ready ones, then the due ones."""
        first, stop = self.keys.bounds
        if not with_later:
            stop = self.keys.later(None, now_us())[1]
        while True:
            rows = list(self.keys.rows(tr.snapshot.get_range(first, stop, limit=_ROWS)))
            yield from (row.name for row in rows if self.has(row.name))
            if len(rows) < _ROWS:
                return
            first = rows[-1].key + b"\x00"
