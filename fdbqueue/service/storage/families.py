r"""The keys of the index of a family: which of its members may have something to take, and when.

A *family* is a pattern among the queues of a catalog; its *members* are the queues that fit it. Its
index is in a subspace of its own, with a byte for each table:

    01  READY   2 bytes of a hash of the name, name   it may have something to take now
    02  LATER   moment, name                          it may have something to take from then on
    03  WAKE    0 to 15                               changed with each row that is written for news
    04  PAUSED                                        since when no member gives anything, and why

What is true after every commit: if a member has something to take now, it has a row READY, or a row
LATER of a moment that is over. If it will have something at a moment, it has a row READY, or a row
LATER of that moment or an earlier one. A row too many, or of too early a moment, costs one look.

Whoever gives a member something new to take writes its row without reading any, in the transaction
that does so (:meth:`Member.write`): so pushes depend on no row, and never conflict. Only a take
from the family removes rows (:mod:`fdbqueue.service.consume.families`), and depends on those that
it removes: if a row is written again meanwhile, that take conflicts. So it must also if it has
written the row itself before: it gave from the member, requeued what had expired or ended leases
there, and found nothing when the member's turn came again. A read conflict on a key that the same
transaction has *set* before is dropped, by the engines' rules: what it would read there is its own.
So rows are written by an atomic addition, which depends on what is stored: the conflict stays. It
would not if the transaction had cleared the row before it, but nothing writes rows after the
corrections of a take, which are its last step.

A family of any size is paused by the one key PAUSED, which is no row of the index. Each transaction
that takes from a member reads it, beside what it reads of the member; a queue outside any family
has none to read. While it is there, no row is removed, and writers write theirs as ever: so once it
is cleared, every member that has something is found.

The hash spreads the members over the range of READY, so that processes that begin anywhere seldom
meet, and so do their storage servers.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from fdbqueue.engines.protocols import SnapshotTransaction, Transaction

_READY, _LATER, _WAKE, _PAUSED = b"\x01", b"\x02", b"\x03", b"\x04"
_MOMENT = struct.Struct(">Q")
_HASH_BYTES = 2
#: A waiter watches so many keys, and each member changes one of them.
_WAKES = 16
_ONE = (1).to_bytes(8, "little")
#: Moments that writers note are rounded down to the second, so that a member whose items are
#: delayed by any moments has one row for each second at most.
_ROUNDED_US = 1_000_000


class IndexRow(NamedTuple):
    """A row of the index: the member's name, and since when or from when; 0 for now."""

    name: str
    moment: int
    key: bytes


class FamilyKeys:
    """The keys of one family's index.

    Args:
        prefix: The bytes of its subspace.
        family: The family's name.

    Attributes:
        family: As given.
        paused: The key that says that the family is paused.
        ready: The range of the members that may have something to take now.
        wakes: The keys that a waiter watches.
        bounds: The range of all rows.
    """

    def __init__(self, prefix: bytes, family: str) -> None:
        self.family = family
        self.paused = prefix + _PAUSED
        self._ready, self._later = prefix + _READY, prefix + _LATER
        self.ready = self._ready, self._later
        self.wakes = tuple(prefix + _WAKE + bytes((number,)) for number in range(_WAKES))
        self.bounds = prefix + _READY, prefix + _WAKE

    def member(self, name: str) -> Member:
        """Return the rows of a member."""
        data = name.encode()
        digest = hashlib.blake2b(data, digest_size=_HASH_BYTES).digest()
        wake = self.wakes[digest[-1] % _WAKES]
        return Member(self, self._ready + digest + data, self._later, data, wake)

    def ready_at(self, hashed: bytes) -> bytes:
        """Return the key in :attr:`ready` at which the members with a hash begin."""
        return self._ready + hashed

    def later(self, since: bytes | None, until: int) -> tuple[bytes, bytes]:
        """Return the range of the rows LATER behind a key, up to a moment."""
        begin = self._later if since is None else since + b"\x00"
        return begin, self._later + _MOMENT.pack(until + 1)

    def first_later(self, tr: SnapshotTransaction) -> Any:
        """Begin to read the first row LATER."""
        return tr.get_range(self._later, self.wakes[0], limit=1)

    def rows(self, found: Iterable[Any]) -> Iterable[IndexRow]:
        """Yield the rows that were read, in either table."""
        ready, later = len(self._ready) + _HASH_BYTES, len(self._later) + _MOMENT.size
        for row in found:
            key = bytes(row.key)
            if key.startswith(self._ready):
                yield IndexRow(key[ready:].decode("ascii", "replace"), 0, key)
            elif key.startswith(self._later):
                (moment,) = _MOMENT.unpack_from(key, len(self._later))
                yield IndexRow(key[later:].decode("ascii", "replace"), moment, key)


class Member:
    """The rows of one member in the index of its family.

    Attributes:
        family: The family's name.
        paused: The key that says that the family is paused.
        ready: The key that says that it may have something to take now.
        gives_at_end: Whether it may give something new when a lease ends, because a limit of it
            keeps the rest back.
    """

    __slots__ = ("_later", "_name", "_wake", "family", "gives_at_end", "paused", "ready")

    def __init__(
        self, keys: FamilyKeys, ready: bytes, later: bytes, name: bytes, wake: bytes
    ) -> None:
        self.family = keys.family
        self.paused = keys.paused
        self.ready = ready
        self.gives_at_end = False
        self._later = later
        self._name = name
        self._wake = wake

    def write(self, tr: Transaction, moment: int) -> None:
        """Write that there may be something to take from a moment on, and wake who waits.

        Nothing is read, and nothing but what reads the row can conflict.

        Args:
            tr: The transaction that makes it so.
            moment: From when, in microseconds; 0 for now.
        """
        _add_row(tr, self.ready if moment == 0 else self._at(moment - moment % _ROUNDED_US))
        tr.add(self._wake, _ONE)

    def correct(self, tr: Transaction, moment: int | None, later: Iterable[bytes]) -> None:
        """Write when there is something to take next, by the caller who saw that there is nothing.

        The transaction depends on the rows that it removes: if someone writes one of them, it
        conflicts.

        Args:
            tr: The transaction that saw it.
            moment: From when there is something, in microseconds; None for never.
            later: The keys of rows LATER of the member whose moments are over.
        """
        for key in (self.ready, *later):
            tr.add_read_conflict_key(key)
            tr.clear(key)
        if moment is not None:
            _add_row(tr, self._at(moment))

    def promote(self, tr: Transaction, later: Iterable[bytes]) -> None:
        """Write one row READY in place of rows LATER whose moments are over."""
        _add_row(tr, self.ready)
        for key in later:
            tr.clear(key)

    def is_noted(self, tr: SnapshotTransaction, moment: int) -> bool:
        """Tell whether a row says that there is something from a moment on, or from before."""
        exact, rounded = self._at(moment), self._at(moment - moment % _ROUNDED_US)
        reads = [tr[key] for key in (self.ready, exact, rounded)]
        if any(read.present() for read in reads):
            return True
        rows = tr.get_range(self._later, self._later + _MOMENT.pack(moment + 1))
        return any(bytes(row.key)[len(self._later) + _MOMENT.size :] == self._name for row in rows)

    def _at(self, moment: int) -> bytes:
        return self._later + _MOMENT.pack(moment) + self._name


def _add_row(tr: Transaction, key: bytes) -> None:
    """Write a row so that the transaction may still come to depend on it: see the module."""
    tr.add(key, b"\x00")
