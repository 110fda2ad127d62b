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

import itertools
import os
import weakref
from collections import deque
from typing import Any, NamedTuple

import fdb.tuple
from fdb.subspace_impl import Subspace

from fdbqueue.engines.protocols import Database, Transaction

#: Where the receipts of a database are kept unless a ``Catalog`` says otherwise.
DEFAULT_SUBSPACE = Subspace(("fdbqueue", "receipt"))

#: The least age of what may be swept: its owner may yet want to know.
MIN_SWEPT_SECONDS = 600

_STAMP_BYTES = 10
_NUMBER_BYTES = 8
#: Versions advance by about a million a second, and by a hundred million when a cluster recovers.
VERSIONS_PER_SECOND = 1_000_000
#: A receipt that is younger by the database's versions is not swept.
MIN_SWEPT_VERSIONS = MIN_SWEPT_SECONDS * VERSIONS_PER_SECOND

_places: weakref.WeakKeyDictionary[Any, Subspace] = weakref.WeakKeyDictionary()
_numbers = itertools.count(1)


class StoredReceipt(NamedTuple):
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
    except TypeError:  # an engine's database of a class without weak references
        return DEFAULT_SUBSPACE


class _Slots:
    """The free receipt slots of this process.

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

    def read(self, tr: Transaction) -> StoredReceipt | None:
        """Return what the slot holds; the transaction then depends on it."""
        value = tr[self._key]
        return _found(bytes(value)) if value.present() else None

    def release(self) -> None:
        """Let another call have the slot."""
        self._slots.free.append(self._slot)


def _found(value: bytes) -> StoredReceipt | None:
    if len(value) != _STAMP_BYTES + _NUMBER_BYTES:
        return None
    return StoredReceipt(int.from_bytes(value[_STAMP_BYTES:], "big"), value[:_STAMP_BYTES])


def version_of(value: bytes) -> int:
    """Return the version of the commit that wrote a receipt, from the stored value."""
    return int.from_bytes(value[:8], "big")
