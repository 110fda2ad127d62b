"""Lease items: hide them while a worker processes them, until it acknowledges them.

A lease's token holds the item's place and a random secret. It is valid until the worker
acknowledges it or gives it up, or a popper requeues the item after the lease has expired, by the
clients' clocks.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeGuard

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import BatchTooLarge, CorruptItem, InvalidInput, LeaseLost
from fdbqueue.service.clock import now_us
from fdbqueue.service.consume import expiry
from fdbqueue.service.items import Item, moment
from fdbqueue.service.limits import (
    MAX_ENDS_BYTES,
    MAX_REASON_CHARACTERS,
    MAX_WORKER_CHARACTERS,
    SENT_BY_CLEAR,
    SENT_BY_READ,
    SENT_BY_SET,
)
from fdbqueue.service.storage.counts import CountChange
from fdbqueue.service.storage.handoffs import LeaseKey
from fdbqueue.service.storage.hidden import SECRET_BYTES, Hidden
from fdbqueue.service.storage.item_keys import LONGEST_RANDOM, RANDOM_BYTES, data_of, text_of
from fdbqueue.service.storage.rows import Loaded
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.storage.tables import State
from fdbqueue.service.writes import SharedTransaction, Write

#: What the name of a lease takes in the row of a help request, besides its place.
NAME_BYTES = SECRET_BYTES + 3
#: An ack clears three keys, and reads one; that of an item with attempts clears its failures, too.
_ACK_KEYS_SENT = 3 * SENT_BY_CLEAR + SENT_BY_READ
_FAILURES_SENT = SENT_BY_CLEAR
#: That of an item with a unique key frees it, too.
_FREED_SENT = SENT_BY_SET + 1

#: Writes something more in the transaction that ends leases, which other threads may share: it may
#: only write, to keys that no other call writes, and it may run again.
BesideEnds = Callable[[Transaction], None]


#: Without calls of Python code, because each ack makes them.
_PLACE, _KEY = operator.itemgetter(0), operator.itemgetter(0, 1)


class Token(NamedTuple):
    """What names a lease: the item's place, the lease's secret; and both as text."""

    place: bytes
    secret: bytes
    text: str


class Leases:
    """Lease, acknowledge, give up and extend the items of one queue.

    Each method takes part in the transaction it is given.

    Args:
        store: The queue's items.
    """

    def __init__(self, store: ItemStore) -> None:
        self.store = store
        self._max_attempts = store.options.max_attempts
        #: About how much one ack sends.
        self.ack_bytes = _ACK_KEYS_SENT * store.keys.size_bytes

    def lease(
        self,
        count_change: CountChange,
        loaded: Sequence[Loaded],
        lasting_us: int,
        worker: bytes,
        *,
        is_dated: bool = True,
    ) -> list[Hidden]:
        """Lease items that were taken, from now on; the caller clears their rows.

        Version 1.0.0 cannot read when a lease began: its own do not say so (``is_dated``).
        """
        now = now_us()
        until, size, began = now + lasting_us, SECRET_BYTES, now if is_dated else None
        secrets = os.urandom(size * len(loaded))
        return [
            self.store.lease(
                count_change, one, until, secrets[i * size : (i + 1) * size], worker, began
            )
            for i, one in enumerate(loaded)
        ]

    def lease_items(
        self,
        count_change: CountChange,
        loaded: Sequence[Loaded],
        *,
        lasting_us: int,
        worker: bytes,
    ) -> list[Item]:
        """Lease items as :meth:`lease` does, and return them: the effect of a take request."""
        leases = self.lease(count_change, loaded, lasting_us, worker)
        return [*map(_leased, loaded, leases)]

    def items_of(
        self, tr: Transaction, keys: Sequence[LeaseKey]
    ) -> dict[LeaseKey, Item | CorruptItem]:
        """Return the items of the leases that are still held.

        Those that this process cannot decode, although another has, are requeued as they were, and
        stand there as errors.
        """
        reads = [self.store.begin_read(tr, State.LEASED, place) for place, _ in keys]
        held = {
            (place, secret): lease
            for (place, secret), read in zip(keys, reads, strict=True)
            if _is_held(lease := self.store.parse(State.LEASED, place, read), secret)
        }
        rows = [lease.row for lease in held.values()]
        loaded = self.store.load(tr, rows, retried=False)
        corrupt = [
            key for one, key in zip(loaded, held, strict=True) if isinstance(one.item, CorruptItem)
        ]
        if corrupt:
            self.requeue_keys(tr, corrupt)
        return {
            key: _leased(one, lease) if isinstance(one.item, Item) else one.item
            for one, (key, lease) in zip(loaded, held.items(), strict=True)
        }

    def any_held(self, tr: Transaction, keys: Sequence[LeaseKey]) -> bool:
        """Tell whether one of the leases is held."""
        found = self.store.facts(tr, State.LEASED, [place for place, _ in keys])
        pairs = zip(found, keys, strict=True)
        return any(_is_held(lease, secret) for lease, (_, secret) in pairs)

    # One lease; what changes it takes what held() returned

    def held(self, token: Token, read: Any) -> Hidden:
        """Return the lease that was begun to be read, with its item or without.

        Raises:
            LeaseLost: It is not held any more.
        """
        hidden = self.store.parse(State.LEASED, token.place, read)
        if not _is_held(hidden, token.secret):
            raise self.lease_lost(token)
        return hidden

    def lease_lost(self, token: Token) -> LeaseLost:
        """Return the error of a lease that is not held any more."""
        return LeaseLost(queue=self.store.queue, lease=token.text)

    def give_up(
        self,
        count_change: CountChange,
        held: Hidden,
        delay_us: int,
        reason: str,
        *,
        retry: bool = True,
    ) -> None:
        """Requeue a leased item at its place, at once or after a delay, with one more attempt.

        After its last attempt, or if ``retry`` is false, it is a dead letter.
        """
        tr = count_change.tr
        attempts = held.attempts + 1
        max_attempts = self._max_attempts if retry else attempts
        expiry.note_failure(self.store, tr, held, attempts, reason)
        if delay_us and not expiry.dies(held, attempts, max_attempts):
            self.store.reveal(count_change, held)
            delayed = held._replace(
                state=State.DELAYED,
                row=self.store.with_attempts(held.row, attempts) or held.row,
                until=now_us() + delay_us,
                attempts=attempts,
                secret=b"",
                worker=b"",
            )
            self.store.hide(count_change, delayed)
            return
        row = expiry.release(self.store, count_change, held, attempts, max_attempts, reason)
        if row is not None:
            tr[self.store.keys.key(row.place)] = row.value

    def extend(self, count_change: CountChange, held: Hidden, lasting_us: int) -> Hidden:
        """Let a lease end that many microseconds from now, and return it."""
        self.store.reveal(count_change, held)
        extended = held._replace(until=now_us() + lasting_us)
        self.store.hide(count_change, extended)
        count_change.wakes += 1  # waiting poppers may have to look sooner
        if extended.until < held.until:
            count_change.come_at(extended.until)
            count_change.shortened += 1
        return extended

    def put_back(self, count_change: CountChange, held: Hidden) -> None:
        """Requeue a leased item as it was."""
        tr = count_change.tr
        self.store.reveal(count_change, held)
        self.store.take_key_again(tr, held.row.place)
        row = self.store.requeued_row(tr, held, held.attempts)
        self.store.requeue_hidden(count_change, held, row)

    def shown(self, tr: Transaction, token: Token, held: Hidden) -> Item:
        """Return the item of a lease."""
        (item,) = self.store.shown(tr, [held])
        return replace(item, lease=token.text, until=moment(held.until), leased_at=None)

    def requeue(self, tr: Transaction, tokens: Sequence[str]) -> None:
        """Requeue leased items as they were; those whose lease was lost are skipped."""
        self.requeue_keys(tr, [self.parse(token)[:2] for token in tokens])

    def requeue_keys(self, tr: Transaction, keys: Sequence[LeaseKey]) -> None:
        """Do as :meth:`requeue` does, given the place and the secret of each lease."""
        count_change = self.store.count_change(tr)
        stored = self.store.format.begin_read(tr)
        read = [self.store.begin_read(tr, State.LEASED, place) for place, _ in keys]
        stored()
        for (place, secret), rows in zip(keys, read, strict=True):
            hidden = self.store.parse(State.LEASED, place, rows)
            if _is_held(hidden, secret):
                self.put_back(count_change, hidden)
        count_change.write()

    def parse(self, token: str) -> Token:
        """Return what a token says.

        Raises:
            InvalidInput: It is not the token of a lease.
        """
        item_id, _, text = token.rpartition(".")
        try:
            secret = data_of(text)
        except ValueError as error:
            raise InvalidInput(lease=token, reason="it is not the token of a lease") from error
        return Token(self.store.keys.place_named(item_id), secret, token)


class Ack(Write):
    """The ack of leases: of one, of many, or in the transaction that takes the next items.

    Args:
        leases: The queue's leases.
        tokens: Their tokens, one of each lease.
        beside: Writes something more where the leases end; None for nothing.

    Attributes:
        lease_keys: The leases.
    """

    __slots__ = ("_held", "_leases", "_reads", "_tokens", "lease_keys")

    def __init__(
        self, leases: Leases, tokens: Sequence[Token], beside: BesideEnds | None = None
    ) -> None:
        self._tokens = tokens
        self.lease_keys: tuple[LeaseKey, ...] = tuple(map(_KEY, tokens))
        places = frozenset(map(_PLACE, tokens))
        super().__init__(leases.store, leases.ack_bytes, places, beside)
        self._leases = leases
        self._reads: list[Any] = []
        self._held: list[Hidden] = []

    def begin_reads(self, shared: SharedTransaction) -> None:
        """Begin to read the leases."""
        self._reads = []
        for token in self._tokens:  # a comprehension would be one more call of each ack
            self._reads.append(self.store.begin_facts(shared.tr, State.LEASED, token.place))
        shared.count_change.expect_ends()
        if not self.store.format.known_key:
            shared.begin_format()

    def lost(self) -> list[Token]:
        """Take what was read; return the tokens of leases that are not held any more."""
        self._held, lost = [], []
        for token, read in zip(self._tokens, self._reads, strict=True):
            hidden = self.store.parse(State.LEASED, token.place, read)
            if _is_held(hidden, token.secret):
                self._held.append(hidden)
            else:
                lost.append(token)
        return lost

    def check(self) -> LeaseLost | BatchTooLarge | None:
        """Take what was read; return the error if a lease is not held any more.

        Or if they are too many, because their items have attempts.
        """
        for token in self.lost():
            return self._leases.lease_lost(token)
        try:
            self.check_size(MAX_ENDS_BYTES)
        except BatchTooLarge as error:
            return error
        return None

    def check_size(self, limit_bytes: int) -> None:
        """Refuse more than one transaction can send, as far as what was read says.

        Raises:
            BatchTooLarge: They do not fit.
        """
        count = len(self._tokens)  # of several for one place each is read
        if count == 1:
            return
        most = max(1, (limit_bytes - self._failures_bytes) // self._longest_bytes)
        if count > most:
            raise BatchTooLarge(queue=self.store.queue, leases=count, most=most)

    @property
    def sent_bytes(self) -> int:
        """About how much it sends to end them, once :meth:`check` has found them held."""
        return len(self.places) * self._longest_bytes + self._failures_bytes

    @property
    def _longest_bytes(self) -> int:
        """The most that the ack of one of them sends, besides its failures."""
        longest = max(map(len, self.places), default=0)
        if longest <= LONGEST_RANDOM:  # else it may have a unique key
            return self._leases.ack_bytes
        keys = _ACK_KEYS_SENT + _FREED_SENT
        return keys * (self.store.keys.size_bytes + longest - RANDOM_BYTES)

    @property
    def _failures_bytes(self) -> int:
        """What it sends to clear the failures of items with attempts, as far as is known."""
        tried = sum([held.attempts > 0 for held in self._held])
        return tried * _FAILURES_SENT * self.store.keys.size_bytes

    def apply(self, shared: SharedTransaction) -> None:
        """End all leases, or raise LeaseLost."""
        for token in self.lost():
            raise self._leases.lease_lost(token)
        self.end(shared.count_change)

    def end(self, count_change: CountChange) -> None:
        """Remove the items of the leases that were found held."""
        for held in self._held:
            self.store.remove_hidden(count_change, held)
            count_change.pops += 1
        if self.beside is not None:
            self.beside(count_change.tr)

    def result_from(self, _: bytes) -> None:
        """Return nothing."""


def distinct(tokens: Iterable[Token]) -> list[Token]:
    """Return one token of each lease, however it is spelled."""
    return [*{token[:2]: token for token in tokens}.values()]


def reason_of(queue: str, reason: Any) -> str:
    """Return a reason, clipped at 1,000 characters.

    Raises:
        InvalidInput: It is not a string.
    """
    if not isinstance(reason, str):
        raise InvalidInput(queue=queue, reason=f"a text is needed, not {type(reason).__name__}")
    return reason[:MAX_REASON_CHARACTERS]


def worker_of(queue: str, worker: Any) -> bytes:
    """Return the name of a worker in UTF-8.

    Raises:
        InvalidInput: It is not a text of 1 to 200 characters, all of them printable.
    """
    if (
        isinstance(worker, str)
        and 1 <= len(worker) <= MAX_WORKER_CHARACTERS
        and worker.isprintable()
    ):
        return worker.encode()
    shown = worker[:MAX_WORKER_CHARACTERS] if isinstance(worker, str) else type(worker).__name__
    allowed = f"1 to {MAX_WORKER_CHARACTERS} printable characters"
    raise InvalidInput(queue=queue, worker=shown, allowed=allowed)


def token_of(lease: Item | str) -> str:
    """Return the token of a lease, given as the item or as the token itself.

    Raises:
        InvalidInput: The item was not leased, or it is neither.
    """
    token = lease.lease if isinstance(lease, Item) else lease
    if not isinstance(token, str):
        raise InvalidInput(reason="a leased item or its token is needed")
    return token


def _is_held(lease: Hidden | None, secret: bytes) -> TypeGuard[Hidden]:
    """Tell whether what was read at a place is the lease with a secret."""
    return lease is not None and lease.secret == secret


def _leased(loaded: Loaded, lease: Hidden) -> Item:
    """Return an item that was taken as the item of its lease."""
    item = loaded.item
    assert isinstance(item, Item)
    return Item(  # several times as fast as replace()
        item.value,
        item.priority,
        item.id,
        item.pushed_at,
        lease.attempts,
        item.size_bytes,
        "leased",
        f"{item.id}.{text_of(lease.secret)}",
        moment(lease.until),
        queue=item.queue,
        worker=lease.worker.decode() or None,
    )
