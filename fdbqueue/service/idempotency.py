"""Save the response of a call under its idempotency key, so that the call has its effect once.

A call with a key saves its response in the transaction that has its effect, and that
transaction conflicts with any other that saves one under the same key. A repeated call returns
the saved response and changes nothing: after a lost response, after a crash of the first
caller, and when two callers make the call at the same moment. A digest of the arguments is
saved too, so a different call under the same key is refused.

A response expires after a day by the clients' clocks, unless the call says otherwise. An hour
after that, later calls with keys on the same queue remove it, some responses at a time, so a
queue in use never holds many more than were made in that time. On an idle queue, ``sweep()``
removes them. The hour protects against clients whose clock is ahead: they do not remove a
response early.
"""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import fdb.tuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import CorruptItem, IdempotencyKeyReused, InvalidInput, message_of
from fdbqueue.service.clock import microseconds, moment, now_us
from fdbqueue.service.items import Item
from fdbqueue.service.sizes import (
    DEFAULT_RESPONSE_SECONDS,
    MAX_IDEMPOTENCY_CHARACTERS,
    MAX_RESPONSE_SECONDS,
    SENT_BY_CLEAR,
    SENT_BY_READ,
)
from fdbqueue.service.storage.item_keys import Loaded, Place
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.storage.tables import RESPONSE_NAME_BYTES, TableKeys

_PIECE_BYTES = 90_000
_STAMP_BYTES = 10
#: The versionstamp of the commit, the call's digest, and when the response expires.
_HEADER = struct.Struct(f">{_STAMP_BYTES}s16sQ")
#: Where the values start in the response of a call that took items.
_LENGTH = struct.Struct(">I")
#: In place of such a response: the call has ended leases, and waits for items.
_ACKNOWLEDGED = b""
#: One call in 100 removes expired responses: at most 200, and at most 400,000 bytes of keys.
_SWEPT_BY_ONE_IN, _SWEPT_AT_ONCE, _MAX_SWEPT_BYTES = 100, 200, 400_000
_COUNTED_AT_ONCE = 1_000
_KEYS_SENT = SENT_BY_READ + 2 * SENT_BY_CLEAR
#: Responses are removed an hour after they expire, by the clock of the client that removes them.
_SWEPT_LATER_US = 3_600_000_000


@dataclass
class IdempotencyKey:
    """An idempotency key: the call that is given it has its effect once.

    Attributes:
        key: Names the call, unlike any other call on its queue; at most 1,000 characters. Choose
            one that no other caller can choose.
        kept_seconds: How long the response is kept; at most a year.
        replayed: Whether the call returned a saved response and changed nothing.
    """

    key: str
    kept_seconds: float = DEFAULT_RESPONSE_SECONDS
    replayed: bool = field(default=False, init=False)


class Existing(NamedTuple):
    """What a push under a unique key has found stored: also who has leased it."""

    data: bytes
    state: str
    attempts: int
    worker: str | None = None


class Placed(NamedTuple):
    """The place of a pushed item, when it was pushed, and when it becomes ready.

    ``existing`` is None for an item that was pushed; else nothing was, because this item has the
    same unique key.
    """

    place: Place
    pushed_at: int | None
    until: int | None
    existing: Existing | None = None


@dataclass(eq=False)
class KeyedCall:
    """A call under a key: the name of its saved response, and a digest of its arguments.

    ``replayed`` belongs to this call; other calls may use its :class:`IdempotencyKey` too.
    ``has_acknowledged`` says that the call was made before, and has ended leases, but has no
    response yet: it goes on to lease.
    """

    once: IdempotencyKey
    name: bytes
    digest: bytes
    replayed: bool = False
    has_acknowledged: bool = False

    def note_replayed(self, replayed: bool) -> None:
        """Note whether the call returns a saved response; a retry may change that."""
        self.replayed = self.once.replayed = replayed


class Responses:
    """Save and find the responses of calls, as bytes.

    Each method takes part in the transaction it is given.

    Args:
        tables: The keys under which they are.
        name: What errors call the queue, or the queues.
    """

    def __init__(self, tables: TableKeys, name: str) -> None:
        self._tables = tables
        self._name = name

    def begin_recall(self, tr: Transaction, call: KeyedCall) -> Any:
        """Begin to read the saved response; the transaction depends on it."""
        return tr.get_range(*self._tables.response_bounds(call.name))

    def recall(self, rows: Any, call: KeyedCall) -> tuple[bytes, bytes] | None:
        """Return the saved response and its versionstamp, None when there is none.

        Raises:
            IdempotencyKeyReused: The response is that of a different call.
        """
        call.note_replayed(False)
        data = b"".join([row.value for row in rows])
        if len(data) < _HEADER.size:
            return None
        stamp, digest, until = _HEADER.unpack_from(data)
        if until <= now_us():
            return None
        if digest != call.digest:
            raise IdempotencyKeyReused(queue=self._name)
        call.note_replayed(True)
        return data[_HEADER.size :], stamp

    def save(
        self, tr: Transaction, call: KeyedCall, payload: bytes, *, stamped: bool = False
    ) -> None:
        """Save a response in place of none, or of an expired one.

        Args:
            tr: The transaction that has the call's effect.
            call: The call.
            payload: Its response.
            stamped: Whether to save the commit's versionstamp with it.
        """
        call.note_replayed(False)
        self._remove_old(tr, call)
        until = now_us() + int(call.once.kept_seconds * 1_000_000)
        data = _HEADER.pack(bytes(_STAMP_BYTES), call.digest, until) + payload
        for piece, start in enumerate(range(0, len(data), _PIECE_BYTES)):
            key, value = self._tables.response(call.name, piece), data[start : start + _PIECE_BYTES]
            if stamped and not piece:
                tr.set_versionstamped_value(key, value + bytes(4))
            else:
                tr[key] = value
        tr[self._tables.response_expiry(until, call.name)] = b""
        if random.randrange(_SWEPT_BY_ONE_IN) == 0:
            self.sweep(tr)

    def _remove_old(self, tr: Transaction, call: KeyedCall) -> None:
        begin, end = self._tables.response_bounds(call.name)
        for row in tr.get_range(begin, end, limit=1):
            tr.clear_range(begin, end)
            if len(row.value) >= _HEADER.size:
                tr.clear(self._tables.response_expiry(_HEADER.unpack_from(row.value)[2], call.name))

    def sweep(self, tr: Transaction) -> int:
        """Remove some of the responses that expired an hour ago, and return how many."""
        sent = _KEYS_SENT * len(self._tables.response_expiry(0, bytes(RESPONSE_NAME_BYTES)))
        limit = max(1, min(_SWEPT_AT_ONCE, _MAX_SWEPT_BYTES // sent))
        rows = self._expired(tr, limit)
        for row in rows:
            name = self._tables.expiring_response(row.key)
            tr.add_read_conflict_key(self._tables.response(name, 0))  # a call may save a new one
            tr.clear_range(*self._tables.response_bounds(name))
            tr.clear(row.key)
        return len(rows)

    def count_expired(self, tr: Transaction) -> int:
        """Return how many responses expired an hour ago, counted up to 1,000."""
        return len(self._expired(tr, _COUNTED_AT_ONCE))

    def _expired(self, tr: Transaction, limit: int) -> list[Any]:
        bounds = self._tables.response_expiries(now_us() - _SWEPT_LATER_US)
        return list(tr.snapshot.get_range(*bounds, limit=limit))


class SavedResponses(Responses):
    """Save and find the responses of calls on one queue, also responses with items.

    Args:
        store: The queue's items.
    """

    def __init__(self, store: ItemStore) -> None:
        super().__init__(store.tables, store.queue)
        self._store = store

    def call(self, once: IdempotencyKey | str | None, *arguments: Any) -> KeyedCall | None:
        """Return the call with these arguments, None when it has no key.

        Args:
            once: The key.
            arguments: Values that the FDB tuple layer can pack.

        Raises:
            InvalidInput: The key is not a string of 1 to 1,000 characters, or
                ``kept_seconds`` is out of range.
        """
        if once is None:
            return None
        return make_call(self._store.queue, once, *arguments)

    def recalled_items(self, rows: Any, call: KeyedCall) -> list[Item] | None:
        """Return the items that the call took, None when no response is saved.

        Raises:
            IdempotencyKeyReused: The response is that of a different call.
            CorruptItem: The queue's codec can no longer read an item.
        """
        found = self.recall(rows, call)
        call.has_acknowledged = found is not None and found[0] == _ACKNOWLEDGED
        if found is None:
            return None
        if call.has_acknowledged:
            call.note_replayed(False)
            return None
        return self.unpacked_items(found[0])

    def unpacked_items(self, payload: bytes) -> list[Item]:
        """Return the items that :meth:`packed_items` packed.

        Raises:
            CorruptItem: The queue's codec can no longer read one of them.
        """
        (at,) = _LENGTH.unpack_from(payload)
        items = []
        for place, size, *facts in fdb.tuple.unpack(payload[_LENGTH.size : at]):
            items.append(self._item(place, payload[at : at + size], *facts))
            at += size
        return items

    def save_acknowledged(self, tr: Transaction, call: KeyedCall) -> None:
        """Save, until the call has its response, that it has ended leases and took nothing yet.

        So a call that ends while it waits for items can be made again.
        """
        self.save(tr, call, _ACKNOWLEDGED)

    def save_items(
        self, tr: Transaction, call: KeyedCall, loaded: Sequence[Loaded], items: Sequence[Item]
    ) -> None:
        """Save the items that a call took."""
        self.save(tr, call, self.packed_items(loaded, items))

    @staticmethod
    def packed_items(loaded: Sequence[Loaded], items: Sequence[Item]) -> bytes:
        """Return items that were taken as the response of a call."""
        facts = (
            (
                found.row.place,
                len(found.data),
                item.attempts,
                item.lease,
                None if item.until is None else microseconds(item.until),
                *([item.worker] if item.worker else []),
            )
            for found, item in zip(loaded, items, strict=True)
        )
        packed = fdb.tuple.pack(tuple(facts))
        # The values stay outside the tuple, because it doubles each zero byte.
        start = _LENGTH.pack(_LENGTH.size + len(packed))
        return b"".join([start, packed, *[found.data for found in loaded]])

    def _item(
        self,
        place: bytes,
        data: bytes,
        attempts: int,
        lease: str | None,
        until: int | None,
        worker: str | None = None,
    ) -> Item:
        try:
            stored = self._store.codec.decode(data)
            position = self._store.keys.position(place)
        except (ValueError, TypeError) as error:
            item_id = self._store.keys.id_of(place)
            raise CorruptItem(
                queue=self._store.queue, id=item_id, reason=message_of(error)
            ) from error
        return Item(
            value=stored.value,
            priority=position.priority,
            id=self._store.keys.item_id(place),
            pushed_at=None if stored.pushed_at is None else moment(stored.pushed_at),
            attempts=attempts,
            size_bytes=len(data),
            state="ready" if lease is None else "leased",
            lease=lease,
            until=None if until is None else moment(until),
            queue=self._store.queue,
            worker=worker,
        )


def make_call(queue: str, once: IdempotencyKey | str, *arguments: Any) -> KeyedCall:
    """Return the call with these arguments, as :meth:`SavedResponses.call` does.

    Args:
        queue: What errors call its queue.
        once: The key.
        arguments: Values that the FDB tuple layer can pack.
    """
    if isinstance(once, str):
        once = IdempotencyKey(once)
    if not isinstance(once, IdempotencyKey) or not isinstance(once.key, str):
        raise InvalidInput(queue=queue, once=once, allowed="a text")
    if not 1 <= len(once.key) <= MAX_IDEMPOTENCY_CHARACTERS:
        allowed = f"1 to {MAX_IDEMPOTENCY_CHARACTERS} characters"
        raise InvalidInput(queue=queue, once=once.key[:100], allowed=allowed)
    seconds = once.kept_seconds
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds <= MAX_RESPONSE_SECONDS:
        allowed = f"up to {MAX_RESPONSE_SECONDS} seconds"
        raise InvalidInput(queue=queue, kept_seconds=seconds, allowed=allowed)
    name = _digest(once.key.encode(errors="surrogatepass"), RESPONSE_NAME_BYTES)
    return KeyedCall(once, name, _digest(fdb.tuple.pack(arguments)))


def is_replayed(call: KeyedCall | None) -> bool:
    """Tell whether a call returned a saved response."""
    return call is not None and call.replayed


def packed_places(placed: Iterable[Placed]) -> bytes:
    """Return the response of a push, as bytes."""
    return fdb.tuple.pack(
        tuple(
            (*place, pushed_at, until, *(existing or ()))
            for place, pushed_at, until, existing in placed
        )
    )


def unpacked_places(payload: bytes) -> list[Placed]:
    """Return the places that :func:`packed_places` packed."""
    return [
        Placed(Place(data, stamp_at), pushed_at, until, Existing(*found) if found else None)
        for data, stamp_at, pushed_at, until, *found in fdb.tuple.unpack(payload)
    ]


def _digest(data: bytes, size: int = 16) -> bytes:
    return hashlib.blake2b(data, digest_size=size).digest()
