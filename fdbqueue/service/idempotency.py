"""Saved responses: a call that is made again under its key has its effect once.

A call under an idempotency key leaves what it returned, in the transaction that has its
effect, and depends on nothing being there yet. Made again, it returns that and changes
nothing: after a lost response, after the death of its process, and where two make it at the
same moment. A digest of its arguments is kept too: another call under the key is refused.

A response is kept for a day unless the call says otherwise, by the clients' clocks. An hour
later it is removed by later calls with keys on the same queue, some at a time, so that a queue
in use has never many more than were made in that time; on a queue that is not, by
``sweep()``. The hour is for the client whose clock is ahead: it removes no response early.
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
from fdbqueue.service.clock import now_us
from fdbqueue.service.items import Item, microseconds, moment
from fdbqueue.service.limits import SENT_BY_CLEAR, SENT_BY_READ
from fdbqueue.service.storage.keys import Place
from fdbqueue.service.storage.reader import Loaded
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.storage.tables import RESPONSE_NAME_BYTES

MAX_KEY_CHARACTERS = 1_000
#: SavedResponses are kept this long at most: a year.
MAX_KEPT_SECONDS = 31_536_000

_PIECE_BYTES = 90_000
_STAMP_BYTES = 10
#: The versionstamp of the commit, the call's digest, when it is not kept any longer.
_HEADER = struct.Struct(f">{_STAMP_BYTES}s16sQ")
#: Where the values start in the answer of a call that took items.
_LENGTH = struct.Struct(">I")
#: One in so many calls removes responses that have run out: up to so many, and up to so
#: many bytes of keys.
_SWEPT_BY_ONE_IN, _SWEPT_AT_ONCE, _MAX_SWEPT_BYTES = 100, 200, 400_000
_KEYS_SENT = SENT_BY_READ + 2 * SENT_BY_CLEAR
#: SavedResponses are removed an hour after they have run out, by the clock of who removes them.
_SWEPT_LATER_US = 3_600_000_000


@dataclass
class IdempotencyKey:
    """An idempotency key: the call that is given it has its effect once.

    Attributes:
        key: Names the call among all on its queue; up to 1,000 characters, and nothing that
            another caller might choose, too.
        kept_seconds: For how long the answer is kept, up to a year.
        replayed: Whether the call returned what was kept, and changed nothing.
    """

    key: str
    kept_seconds: float = 86_400
    replayed: bool = field(default=False, init=False)


class Placed(NamedTuple):
    """Where a push has put an item, when, and when it becomes ready."""

    place: Place
    pushed_at: int
    until: int | None


@dataclass(eq=False)
class Call:
    """A call under a key: the name its answer is kept under, and which call it is.

    ``replayed`` is this call's own; its :class:`IdempotencyKey` may be in use by others.
    """

    once: IdempotencyKey
    name: bytes
    digest: bytes
    replayed: bool = False

    def mark(self, *, replayed: bool) -> None:
        """Note whether it returns what was kept, as it looks at the moment."""
        self.replayed = self.once.replayed = replayed


class SavedResponses:
    """Keep the responses of calls on one queue, and find them again.

    Each takes part in the transaction it is given.

    Args:
        store: The queue's items.
    """

    def __init__(self, store: ItemStore) -> None:
        self._store = store
        self._tables = store.tables

    def call(self, once: IdempotencyKey | str | None, *arguments: Any) -> Call | None:
        """Return the call with these arguments, None where it has no key.

        Args:
            once: The key.
            arguments: What the FDB tuple layer can pack.

        Raises:
            InvalidInput: The key, or the time, is not acceptable.
        """
        if once is None:
            return None
        if isinstance(once, str):
            once = IdempotencyKey(once)
        if not isinstance(once, IdempotencyKey) or not isinstance(once.key, str):
            raise InvalidInput(queue=self._store.queue, once=once, allowed="a text")
        if not 1 <= len(once.key) <= MAX_KEY_CHARACTERS:
            allowed = f"1 to {MAX_KEY_CHARACTERS} characters"
            raise InvalidInput(queue=self._store.queue, once=once.key[:100], allowed=allowed)
        seconds = once.kept_seconds
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not is_number or not 0 < seconds <= MAX_KEPT_SECONDS:
            allowed = f"up to {MAX_KEPT_SECONDS} seconds"
            raise InvalidInput(queue=self._store.queue, kept_seconds=seconds, allowed=allowed)
        name = _digest(once.key.encode(errors="surrogatepass"), RESPONSE_NAME_BYTES)
        return Call(once, name, _digest(fdb.tuple.pack(arguments)))

    def ask(self, tr: Transaction, call: Call) -> Any:
        """Ask for what is kept, without waiting for it; the transaction depends on it."""
        return tr.get_range(*self._tables.response_bounds(call.name))

    def recall(self, asked: Any, call: Call) -> tuple[bytes, bytes] | None:
        """Return what is kept and its versionstamp, None where the call was not made yet.

        Raises:
            IdempotencyKeyReused: What is kept is another call's.
        """
        call.mark(replayed=False)
        data = b"".join([row.value for row in asked])
        if len(data) < _HEADER.size:
            return None
        stamp, digest, until = _HEADER.unpack_from(data)
        if until <= now_us():
            return None
        if digest != call.digest:
            raise IdempotencyKeyReused(queue=self._store.queue)
        call.mark(replayed=True)
        return data[_HEADER.size :], stamp

    def save(self, tr: Transaction, call: Call, payload: bytes, *, stamped: bool = False) -> None:
        """Keep an answer; nothing is kept under this name yet, or not any longer.

        Args:
            tr: The transaction that has the call's effect.
            call: The call.
            payload: Its answer.
            stamped: Whether to keep the commit's versionstamp with it.
        """
        call.mark(replayed=False)
        self._remove_old(tr, call)
        until = now_us() + int(call.once.kept_seconds * 1_000_000)
        data = _HEADER.pack(bytes(_STAMP_BYTES), call.digest, until) + payload
        for piece, start in enumerate(range(0, len(data), _PIECE_BYTES)):
            key, value = self._tables.response(call.name, piece), data[start : start + _PIECE_BYTES]
            if stamped and not piece:
                tr.set_versionstamped_value(key, value + bytes(4))
            else:
                tr[key] = value
        tr[self._tables.forget(until, call.name)] = b""
        if random.randrange(_SWEPT_BY_ONE_IN) == 0:
            self.sweep(tr)

    def _remove_old(self, tr: Transaction, call: Call) -> None:
        begin, end = self._tables.response_bounds(call.name)
        for row in tr.get_range(begin, end, limit=1):
            tr.clear_range(begin, end)
            if len(row.value) >= _HEADER.size:
                tr.clear(self._tables.forget(_HEADER.unpack_from(row.value)[2], call.name))

    def sweep(self, tr: Transaction) -> int:
        """Remove some of the responses that ran out an hour ago, and return how many."""
        sent = _KEYS_SENT * len(self._tables.forget(0, bytes(RESPONSE_NAME_BYTES)))
        limit = max(1, min(_SWEPT_AT_ONCE, _MAX_SWEPT_BYTES // sent))
        bounds = self._tables.forgets(now_us() - _SWEPT_LATER_US)
        rows = list(tr.snapshot.get_range(*bounds, limit=limit))
        for row in rows:
            name = self._tables.forgotten_name(row.key)
            tr.add_read_conflict_key(self._tables.response(name, 0))  # it may be written anew
            tr.clear_range(*self._tables.response_bounds(name))
            tr.clear(row.key)
        return len(rows)

    # What responses say

    def recalled_items(self, asked: Any, call: Call) -> list[Item] | None:
        """Return the items that the call took, None where it was not made yet.

        Raises:
            IdempotencyKeyReused: What is kept is another call's.
            CorruptItem: The queue's codec cannot read them any more.
        """
        found = self.recall(asked, call)
        if found is None:
            return None
        payload = found[0]
        (at,) = _LENGTH.unpack_from(payload)
        items = []
        for place, size, *facts in fdb.tuple.unpack(payload[_LENGTH.size : at]):
            items.append(self._item(place, payload[at : at + size], *facts))
            at += size
        return items

    def save_items(
        self, tr: Transaction, call: Call, loaded: Sequence[Loaded], items: Sequence[Item]
    ) -> None:
        """Keep the items that a call took."""
        facts = (
            (
                found.row.place,
                len(found.data),
                item.attempts,
                item.lease,
                None if item.until is None else microseconds(item.until),
            )
            for found, item in zip(loaded, items, strict=True)
        )
        packed = fdb.tuple.pack(tuple(facts))
        # The values are not packed: the tuple layer makes two bytes of each that is zero.
        start = _LENGTH.pack(_LENGTH.size + len(packed))
        self.save(tr, call, b"".join([start, packed, *[found.data for found in loaded]]))

    def _item(
        self, place: bytes, data: bytes, attempts: int, lease: str | None, until: int | None
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
        )


def is_replayed(call: Call | None) -> bool:
    """Tell whether a call returned the response that was saved of an earlier one."""
    return call is not None and call.replayed


def packed_places(placed: Iterable[Placed]) -> bytes:
    """Return the answer of a push."""
    return fdb.tuple.pack(tuple((*place, *times) for place, *times in placed))


def unpacked_places(payload: bytes) -> list[Placed]:
    """Return what :func:`packed_places` was given."""
    return [
        Placed(Place(data, stamp_at), pushed_at, until)
        for data, stamp_at, pushed_at, until in fdb.tuple.unpack(payload)
    ]


def _digest(data: bytes, size: int = 16) -> bytes:
    return hashlib.blake2b(data, digest_size=size).digest()
