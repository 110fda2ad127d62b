"""Receipts: how the retry loop learns what became of a commit whose outcome is unknown.

A transaction that writes also sets one key, its client thread's slot, to a number that no
other attempt has. A call that does not know whether its commit took effect reads the slot. The
attempt depends on the slot too, so whatever changes the slot first keeps it from taking effect.
:mod:`fdbqueue.service.transactions` says how a call goes.

A slot is used again by its thread's next operation, and by other threads after that: there
are as many as a process ever had operations under way at once, and one more for each call whose
outcome stayed unknown. Those of processes that have ended stay until they are swept.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import fdb.tuple
from fdb.subspace_impl import Subspace

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import InvalidInput
from fdbqueue.service.storage.keys import bounds

#: Where the receipts of a database are that no catalog has said more about.
DEFAULT_SUBSPACE = Subspace(("fdbqueue", "receipt"))

#: The least age of what may be swept: its owner may yet want to know.
MIN_SWEPT_SECONDS = 600

_STAMP_BYTES = 10
_NUMBER_BYTES = 8
#: Versions advance by about a million a second, and by a hundred million when a cluster recovers.
_VERSIONS_PER_SECOND = 1_000_000
#: A receipt that is younger by the database's versions is not swept.
MIN_SWEPT_VERSIONS = MIN_SWEPT_SECONDS * _VERSIONS_PER_SECOND
_SWEPT_AT_ONCE = 1_000

_places: weakref.WeakKeyDictionary[Any, Subspace] = weakref.WeakKeyDictionary()
_numbers = itertools.count(1)


class Found(NamedTuple):
    """What a slot holds: which attempt wrote it, and its commit's versionstamp."""

    number: int
    stamp: bytes


def keep_at(database: Database, subspace: Subspace) -> None:
    """Keep the receipts of operations on a database in a subspace."""
    _places[database] = subspace


def place_of(database: Database) -> Subspace:
    """Return the subspace in which a database's receipts are kept."""
    try:
        return _places.get(database, DEFAULT_SUBSPACE)
    except TypeError:  # somebody's own database, of a class without weak references
        return DEFAULT_SUBSPACE


class _Slots:
    """The slots of this process: those that nobody is using.

    A slot is the packed tuple of the client's name and a number: the end of its key.
    """

    def __init__(self) -> None:
        self._client = os.urandom(16)
        self.free: deque[bytes] = deque()
        self._numbers = itertools.count()

    def take(self) -> bytes:
        try:
            return self.free.pop()
        except IndexError:
            return fdb.tuple.pack((self._client, next(self._numbers)))


_slots = _Slots()


def _forget_slots() -> None:
    global _slots  # noqa: PLW0603  # a forked process is another client
    _slots = _Slots()


os.register_at_fork(after_in_child=_forget_slots)


class Receipt:
    """One slot, for the attempts of one call."""

    def __init__(self, database: Database) -> None:
        self._slots = _slots
        self._slot = self._slots.take()
        self._key: bytes = place_of(database).key() + self._slot

    @property
    def is_own(self) -> bool:
        """Whether it is this process's, and not of one that this process was forked from."""
        return self._slots is _slots

    def write(self, tr: Transaction) -> int:
        """Let a transaction leave a receipt, and return its number."""
        number = next(_numbers)
        tr.add_read_conflict_key(self._key)
        tr.set_versionstamped_value(
            self._key, bytes(_STAMP_BYTES) + number.to_bytes(_NUMBER_BYTES, "big") + bytes(4)
        )
        return number

    def read(self, tr: Transaction) -> Found | None:
        """Return what the slot holds; the transaction then depends on it."""
        value = tr[self._key]
        return _found(bytes(value)) if value.present() else None

    def release(self) -> None:
        """Let another call have the slot."""
        self._slots.free.append(self._slot)


def sweep(database: Database, *, older_than_seconds: float = 86_400) -> int:
    """Remove the receipts of clients that have not written for a time.

    In bounded transactions. A client that lives on loses nothing by it: its next
    operation writes its slot anew, and a call that may miss its receipt says so.

    Args:
        database: Anything with ``create_transaction()``.
        older_than_seconds: How long ago the last operation must have been, by the
            database's versions; at least 600. A call that was cut off from the database for
            600, right after a commit of unknown outcome, and finds no receipt, ends with
            ``OutcomeUnknown``.

    Returns:
        How many were removed.

    Raises:
        InvalidInput: The time is too short.
    """
    return _walk(database, older_than_seconds, _clear)


def count_stale(database: Database, *, older_than_seconds: float = 86_400) -> int:
    """Return how many receipts :func:`sweep` would remove."""
    return _walk(database, older_than_seconds, lambda *_: None)


def _walk(
    database: Database, older_than_seconds: float, visit: Callable[[Any, list[bytes]], None]
) -> int:
    """Visit the keys of receipts that are old, some in each transaction; return how many."""
    from fdbqueue.service.transactions import run  # which leaves receipts itself

    if not MIN_SWEPT_SECONDS <= older_than_seconds < math.inf:
        raise InvalidInput(older_than_seconds=older_than_seconds, least=MIN_SWEPT_SECONDS)
    begin, end = bounds(place_of(database))
    age = int(older_than_seconds * _VERSIONS_PER_SECOND)

    def visit_some(tr: Transaction, begin: bytes) -> tuple[int, bytes | None]:
        newest = tr.get_read_version().wait() - age
        rows = list(tr.snapshot.get_range(begin, end, limit=_SWEPT_AT_ONCE))
        stale = [row.key for row in rows if _version(bytes(row.value)) < newest]
        visit(tr, stale)
        more = len(rows) == _SWEPT_AT_ONCE
        return len(stale), rows[-1].key + b"\x00" if more else None

    total = 0
    following: bytes | None = begin
    while following is not None:
        count, following = run(database, functools.partial(visit_some, begin=following))
        total += count
    return total


def _clear(tr: Transaction, keys: list[bytes]) -> None:
    for key in keys:
        tr.add_read_conflict_key(key)
        tr.clear(key)


def _found(value: bytes) -> Found | None:
    if len(value) != _STAMP_BYTES + _NUMBER_BYTES:
        return None
    return Found(int.from_bytes(value[_STAMP_BYTES:], "big"), value[:_STAMP_BYTES])


def _version(value: bytes) -> int:
    return int.from_bytes(value[:8], "big")
