"""Leases: items that are hidden while somebody works on them, until they are acknowledged.

A lease's token names the item and holds a secret of its own. It is valid for as long as the
lease is held: until it is acknowledged, given up, or taken back by whoever consumes after it
has run out. Moments are by the clients' clocks: keep leases long against their skew.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import BatchTooLarge, InvalidInput, ItemNotFound, LeaseLost
from fdbqueue.service.clock import duration, now_us
from fdbqueue.service.consume import expiry
from fdbqueue.service.items import Item, moment
from fdbqueue.service.limits import BATCH_BYTES, MAX_SENT_BYTES
from fdbqueue.service.storage.counts import Tally
from fdbqueue.service.storage.reader import Loaded, Row
from fdbqueue.service.storage.store import Hidden, Stock
from fdbqueue.service.storage.tables import State

_MARK_BYTES = 8
#: Three keys are cleared, each sent three times with its
#: conflict range, and one is read, which is sent twice.
_ACK_KEYS_SENT = 12
_MAX_REASON = 1_000


class Leases:
    """Lease, acknowledge, give up, extend; and the dead letters.

    Each takes part in the transaction it is given.

    Args:
        stock: The queue's items.
        max_attempts: How many failed leases make an item dead; None for no limit.
    """

    def __init__(self, stock: Stock, max_attempts: int | None) -> None:
        self._stock = stock
        self._max_attempts = max_attempts

    def effect(self, seconds: float) -> Any:
        """Return what leases items that were taken."""
        lasting = duration(self._stock.queue, "seconds", seconds)

        def lease(tr: Transaction, tally: Tally, loaded: Sequence[Loaded]) -> list[Item]:
            until = now_us() + lasting
            marks = os.urandom(_MARK_BYTES * len(loaded))
            return [
                self._lease(tr, tally, one, until, marks[i * _MARK_BYTES : (i + 1) * _MARK_BYTES])
                for i, one in enumerate(loaded)
            ]

        return lease

    def _lease(
        self, tr: Transaction, tally: Tally, loaded: Loaded, until: int, mark: bytes
    ) -> Item:
        self._stock.lease(tr, tally, loaded, until, mark)
        item = loaded.item
        assert isinstance(item, Item)
        return Item(  # several times as fast as replace()
            item.value,
            item.priority,
            item.id,
            item.pushed_at,
            item.attempts,
            item.size_bytes,
            "leased",
            f"{item.id}.{_text(mark)}",
            moment(until),
        )

    def ack(self, tr: Transaction, tokens: Sequence[str]) -> list[str]:
        """Remove leased items for good, and return the tokens of those not held any more.

        Raises:
            BatchTooLarge: They are more than one transaction can remove.
        """
        lost = []
        tally = self._stock.tally()
        parsed = [self._parse(token) for token in tokens]
        most = max(1, MAX_SENT_BYTES // (_ACK_KEYS_SENT * self._stock.keys.size_bytes))
        if len(parsed) > most:
            raise BatchTooLarge(queue=self._stock.queue, leases=len(parsed), most=most)
        found = self._stock.facts(tr, State.LEASED, [place for place, _ in parsed])
        for token, (_, mark), hidden in zip(tokens, parsed, found, strict=True):
            if hidden is None or hidden.mark != mark:
                lost.append(token)
                continue
            self._stock.delete(tr, tally, hidden)
            tally.pops += 1
        tally.write(tr)
        return lost

    def ack_one(self, tr: Transaction, token: str) -> None:
        """Remove a leased item for good.

        Raises:
            LeaseLost: It is not held any more.
        """
        if self.ack(tr, [token]):
            raise LeaseLost(queue=self._stock.queue, lease=token)

    def nack(self, tr: Transaction, token: str, delay_seconds: float | None, reason: str) -> None:
        """Give a leased item up: it goes back to its place, at once or after a delay.

        Raises:
            LeaseLost: It is not held any more.
        """
        delay = 0 if delay_seconds is None else duration(self._stock.queue, "delay", delay_seconds)
        hidden = self._held(tr, token)
        tally = self._stock.tally()
        attempts = hidden.attempts + 1
        if delay and not expiry.dies(hidden, attempts, self._max_attempts):
            self._stock.reveal(tr, tally, hidden)
            delayed = hidden._replace(
                state=State.DELAYED,
                row=self._stock.with_attempts(hidden.row, attempts) or hidden.row,
                until=now_us() + delay,
                attempts=attempts,
                mark=b"",
            )
            self._stock.hide(tr, tally, delayed)
        else:
            row = expiry.release(
                self._stock, tr, tally, hidden, attempts, self._max_attempts, reason
            )
            if row is not None:
                tr[self._stock.keys.key(row.place)] = row.value
        tally.write(tr)

    def give_back(self, tr: Transaction, tokens: Sequence[str]) -> None:
        """Put leased items back to their places as they were, those that are still held."""
        tally = self._stock.tally()
        parsed = [self._parse(token) for token in tokens]
        asked = [self._stock.ask(tr, State.LEASED, place) for place, _ in parsed]
        for (place, mark), rows in zip(parsed, asked, strict=True):
            hidden = self._stock.answer(State.LEASED, place, rows)
            if hidden is None or hidden.mark != mark:
                continue
            self._stock.reveal(tr, tally, hidden)
            row = self._stock.returned(tr, hidden, hidden.attempts)
            self._stock.put_back(tr, tally, hidden, row)
        tally.write(tr)

    def extend(self, tr: Transaction, token: str, seconds: float) -> Item:
        """Let a lease run for so many seconds from now, and return its item.

        Raises:
            LeaseLost: It is not held any more.
        """
        lasting = duration(self._stock.queue, "seconds", seconds)
        hidden = self._held(tr, token)
        tally = self._stock.tally()
        self._stock.reveal(tr, tally, hidden)
        extended = hidden._replace(until=now_us() + lasting)
        self._stock.hide(tr, tally, extended)
        tally.delays += 1  # those who wait may have to look sooner
        tally.write(tr)
        (item,) = self._stock.shown(tr, [extended])
        return replace(item, lease=token, until=moment(extended.until))

    def bury(self, tr: Transaction, place: bytes, item_id: str, reason: str) -> None:
        """Move a ready item, even a corrupt one, to the dead letters.

        Raises:
            ItemNotFound: No ready item is there.
        """
        key = self._stock.keys.key(place)
        value = tr[key]
        if not value.present():
            raise ItemNotFound(queue=self._stock.queue, id=item_id)
        tally = self._stock.tally()
        (loaded,) = self._stock.reader.load(tr, [Row(place, bytes(value))], retried=True)
        tr.clear(key)
        self._stock.bury(tr, tally, loaded, now_us(), reason)
        tally.taken += 1
        tally.write(tr)

    def redrive(self, tr: Transaction, places: Sequence[bytes], most: float) -> tuple[int, int]:
        """Put dead letters back to their places, as if never tried.

        Places without one are passed by. Stops after about 1,000,000 bytes.

        Returns:
            How many were put back, and how many of the places were looked at.
        """
        tally = self._stock.tally()
        count = looked = size = 0
        for place in places:
            if count >= most or size >= BATCH_BYTES:
                break
            looked += 1
            hidden = self._stock.find(tr, State.DEAD, place)
            if hidden is None:
                continue
            self._stock.reveal(tr, tally, hidden)
            self._stock.put_back(tr, tally, hidden, self._stock.returned(tr, hidden, 0))
            count += 1
            size += len(hidden.row.value)
        tally.write(tr)
        return count, looked

    def _held(self, tr: Transaction, token: str) -> Hidden:
        place, mark = self._parse(token)
        hidden = self._stock.find(tr, State.LEASED, place)
        if hidden is None or hidden.mark != mark:
            raise LeaseLost(queue=self._stock.queue, lease=token)
        return hidden

    def _parse(self, token: str) -> tuple[bytes, bytes]:
        item_id, _, mark = token.rpartition(".")
        try:
            secret = base64.b64decode(mark + "=" * (-len(mark) % 4), b"-_", validate=True)
        except ValueError as error:
            raise InvalidInput(lease=token, reason="it is no lease's token") from error
        return self._stock.keys.place_named(item_id), secret


def reason_of(queue: str, reason: Any) -> str:
    """Return a reason, clipped at 1,000 characters.

    Raises:
        InvalidInput: It is no text.
    """
    if not isinstance(reason, str):
        raise InvalidInput(queue=queue, reason=f"a text is needed, not {type(reason).__name__}")
    return reason[:_MAX_REASON]


def token_of(lease: Item | str) -> str:
    """Return the token of a lease, given as the item or as the token itself.

    Raises:
        InvalidInput: The item was not leased, or it is neither.
    """
    token = lease.lease if isinstance(lease, Item) else lease
    if not isinstance(token, str):
        raise InvalidInput(reason="a leased item or its token is needed")
    return token


def _text(mark: bytes) -> str:
    return base64.urlsafe_b64encode(mark).rstrip(b"=").decode()
