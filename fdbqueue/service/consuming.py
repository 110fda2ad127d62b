"""Take items from a queue: pop them, or lease them until they are acknowledged."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from fdbqueue.exceptions import ConfigurationError, InvalidInput
from fdbqueue.service import observing
from fdbqueue.service.answers import Call, Once
from fdbqueue.service.browsing import MAX_ITEMS, Browsing, one
from fdbqueue.service.codecs import Codec
from fdbqueue.service.contention import Crowd, crowd
from fdbqueue.service.counters import Tally
from fdbqueue.service.items import Item
from fdbqueue.service.keyspace import ItemKeys
from fdbqueue.service.leases import MAX_SECONDS, Leases, reason_of, token_of
from fdbqueue.service.reading import End, Loaded
from fdbqueue.service.rounds import take
from fdbqueue.service.transactions import run
from fdbqueue.service.wants import Effect, Want

CONTENTION = ("strict", "relaxed")


class Consuming(Browsing):
    """The parts of a queue that take items from it.

    Args:
        database: Anything with ``create_transaction()``.
        keys: The keys of its items.
        codec: ``"json"``, ``"bytes"``, ``"tuple"``, or a :class:`Codec`.
        name: What errors call the queue.
        contention: ``"strict"`` or ``"relaxed"``.
        claim_timeout_seconds: When items go back that were taken for a popper by another
            and not collected.
        max_attempts: How many failed leases make an item dead; None for no limit.
    """

    def __init__(
        self,
        database: Any,
        keys: ItemKeys,
        *,
        codec: str | Codec,
        name: str | None,
        contention: str,
        claim_timeout_seconds: float,
        max_attempts: int | None,
    ) -> None:
        relaxed = contention == "relaxed"
        super().__init__(
            database, keys, codec=codec, name=name, relaxed=relaxed, max_attempts=max_attempts
        )
        if contention not in CONTENTION:
            raise ConfigurationError(
                queue=self.name, contention=contention, allowed=", ".join(CONTENTION)
            )
        if max_attempts is not None and not _is_number(max_attempts, int, 1, 1_000_000):
            raise ConfigurationError(
                queue=self.name, max_attempts=max_attempts, allowed="None, or 1 to 1,000,000"
            )
        if not _is_number(claim_timeout_seconds, int | float, 0.1, 86_400):
            raise ConfigurationError(
                queue=self.name,
                claim_timeout_seconds=claim_timeout_seconds,
                allowed="0.1 to 86,400",
            )
        self.contention = contention
        self.claim_timeout_seconds = claim_timeout_seconds
        self._leases = Leases(self._stock, max_attempts)
        options = (contention, claim_timeout_seconds, max_attempts)
        self._crowd: Crowd = crowd(
            database,
            self._taker,
            claim_timeout_seconds,
            (self.subspace.key(), type(self), codec, *options),
        )

    # Popping

    def pop(self, *, wait: float | None = None, tr: Any = None) -> Item | None:
        """Take the item at the min end, as :meth:`pop_min` does."""
        return self.pop_min(wait=wait, tr=tr)

    def pop_min(self, *, wait: float | None = None, tr: Any = None) -> Item | None:
        """Take the first item: the earliest pushed of the lowest priority.

        Strict, unless the queue is relaxed: it was the first when it was taken off the
        ready ones, and was so at some moment of this call. Threads of a process take
        together; processes that meet at one end take for each other.

        Args:
            wait: For how many seconds to wait for an item where there is none.
            tr: The transaction to take part in; then there is no waiting.

        Returns:
            The item, or None when the queue is empty.

        Raises:
            CorruptItem: The item cannot be decoded; it stays where it is.
            OutcomeUnknown: It is not known whether the item was taken.
        """
        return one(self.pop_many(1, end="min", wait=wait, tr=tr))

    def pop_max(self, *, wait: float | None = None, tr: Any = None) -> Item | None:
        """Take the last item: the latest pushed of the highest priority.

        The other end of the order of :meth:`pop_min`, with the same promises.
        """
        return one(self.pop_many(1, end="max", wait=wait, tr=tr))

    def pop_many(
        self,
        count: int,
        *,
        end: End = "min",
        wait: float | None = None,
        waits_while: Callable[[], bool] | None = None,
        once: Once | str | None = None,
        tr: Any = None,
    ) -> list[Item]:
        """Take items from one end in one transaction: all of them, or none.

        Args:
            count: The most to take, up to 10,000.
            end: ``"min"`` or ``"max"``.
            wait: For how many seconds to wait where there is none; it takes what there is
                as soon as there is one.
            waits_while: Asked each time before it takes, and about once a second while it
                waits; False ends the call, and nothing is taken or kept under the key.
            once: An idempotency key. The same call under the same key returns the same
                items for a day, none of them too, and takes them once; ``wait`` may differ.
            tr: The transaction to take part in; then there is no waiting.

        Returns:
            The items in the order single pops would have given; empty when the queue is.
            Fewer than asked when the queue holds fewer, or after 5,000,000 stored bytes;
            under a key, which keeps a copy of them, after about 4,500,000.

        Raises:
            CorruptItem: One of them cannot be decoded; all stay where they are.
            IdempotencyKeyReused: The key was another call's; nothing was taken.
            OutcomeUnknown: It is not known whether they were taken; the same call under its
                key finds out.
        """
        want = self._wanted_pop(count, end, once, self._remove)
        return self._consume(want, wait, waits_while, tr)

    def _wanted_pop(self, count: int, end: End, once: Once | str | None, effect: Effect) -> Want:
        self._check(count, end)
        return Want(end, count, effect, self._answers.call(once, "pop", end, count))

    def _remove(self, tr: Any, tally: Tally, loaded: Sequence[Loaded]) -> list[Item]:
        items = []
        for found in loaded:
            self._stock.remove(tr, tally, found)
            assert isinstance(found.item, Item)
            items.append(found.item)
        return items

    # Leasing

    def lease(
        self, *, seconds: float = 60, wait: float | None = None, tr: Any = None
    ) -> Item | None:
        """Lease the item at the min end, as :meth:`lease_min` does."""
        return self.lease_min(seconds=seconds, wait=wait, tr=tr)

    def lease_min(
        self, *, seconds: float = 60, wait: float | None = None, tr: Any = None
    ) -> Item | None:
        """Hide the first item until it is acknowledged, given up, or the time is over.

        Where the time runs out first, the item goes back to its place with its attempts
        one higher, or to the dead letters, once somebody consumes.

        Args:
            seconds: How long, by the clocks of the clients: keep it long against their skew.
            wait: For how many seconds to wait for an item where there is none.
            tr: The transaction to take part in; then there is no waiting.

        Returns:
            The item, its :attr:`Item.lease` being what :meth:`ack` wants; None when the
            queue is empty.

        Raises:
            CorruptItem: The item cannot be decoded; it stays where it is.
            OutcomeUnknown: It is not known whether it was leased; then it comes back.
        """
        return one(self.lease_many(1, end="min", seconds=seconds, wait=wait, tr=tr))

    def lease_max(
        self, *, seconds: float = 60, wait: float | None = None, tr: Any = None
    ) -> Item | None:
        """Lease the last item: the other end of the order of :meth:`lease_min`."""
        return one(self.lease_many(1, end="max", seconds=seconds, wait=wait, tr=tr))

    def lease_many(
        self,
        count: int,
        *,
        end: End = "min",
        seconds: float = 60,
        wait: float | None = None,
        waits_while: Callable[[], bool] | None = None,
        once: Once | str | None = None,
        tr: Any = None,
    ) -> list[Item]:
        """Lease items from one end in one transaction, each under a token of its own.

        Takes what :meth:`pop_many` and :meth:`lease_min` take, but no more at once than one
        transaction can write: some thousands. What is returned again under
        a key are the same tokens, whether the leases are still held or not.
        """
        want = self._wanted_lease(count, end, seconds, once)
        return self._consume(want, wait, waits_while, tr)

    def _wanted_lease(self, count: int, end: End, seconds: float, once: Once | str | None) -> Want:
        effect = self._leases.effect(seconds)
        self._check(count, end)
        call = self._answers.call(once, "lease", end, count, float(seconds))
        return Want(end, count, effect, call, leases=True)

    def ack(self, lease: Item | str, *, tr: Any = None) -> None:
        """Remove a leased item for good.

        Also after its time, as long as nobody has brought it back.

        Args:
            lease: The item, or its token.
            tr: The transaction to take part in.

        Raises:
            LeaseLost: It is not held any more; somebody else may have the item.
            InvalidInput: It is no lease's token of this queue.
        """
        token = token_of(lease)
        self._transact("ack", tr, lambda transaction: self._leases.ack_one(transaction, token))

    def ack_many(self, leases: Iterable[Item | str], *, tr: Any = None) -> int:
        """Remove leased items for good, in one transaction.

        Args:
            leases: The items, or their tokens, up to 10,000.
            tr: The transaction to take part in.

        Returns:
            How many were still held, and are gone now.
        """
        tokens = list(dict.fromkeys(token_of(lease) for lease in leases))
        if not tokens:
            return 0
        self._check_count(len(tokens))

        def ack(transaction: Any) -> int:
            return len(tokens) - len(self._leases.ack(transaction, tokens))

        return self._transact("ack", tr, ack)

    def nack(
        self,
        lease: Item | str,
        *,
        delay: float | None = None,
        reason: str = "given up",
        tr: Any = None,
    ) -> None:
        """Give a leased item up: it goes back to its place with its attempts one higher.

        The last attempt of a queue with ``max_attempts`` sends it to the dead letters.

        Args:
            lease: The item, or its token.
            delay: For how many seconds to keep it hidden.
            reason: What the dead letter says, clipped at 1,000 characters.
            tr: The transaction to take part in.

        Raises:
            LeaseLost: It is not held any more.
        """
        token, reason = token_of(lease), reason_of(self.name, reason)
        self._transact(
            "nack", tr, lambda transaction: self._leases.nack(transaction, token, delay, reason)
        )

    def extend(self, lease: Item | str, seconds: float = 60, *, tr: Any = None) -> Item:
        """Let a lease run for so many seconds from now on.

        Returns:
            The item, under the same token.

        Raises:
            LeaseLost: It is not held any more.
        """
        token = token_of(lease)
        return self._transact(
            "extend", tr, lambda transaction: self._leases.extend(transaction, token, seconds)
        )

    @contextlib.contextmanager
    def leased(
        self, *, end: End = "min", seconds: float = 60, wait: float | None = None
    ) -> Iterator[Item | None]:
        """Lease an item for the length of a ``with`` block.

        It is acknowledged at the end of the block, and given up where the block raises.

        Raises:
            LeaseLost: The block took longer than the lease, and somebody brought the item
                back; raised at its end.
        """
        item = one(self.lease_many(1, end=end, seconds=seconds, wait=wait))
        if item is None:
            yield None
            return
        try:
            yield item
        except BaseException as error:
            with contextlib.suppress(Exception):  # what the block raised matters more
                self.nack(item, reason=reason_for(error))
            raise
        self.ack(item)

    # What they share

    def _check(self, count: int, end: str) -> None:
        self._check_count(count)
        self._check_end(end)

    def _consume(
        self,
        want: Want,
        wait: float | None,
        waits_while: Callable[[], bool] | None,
        tr: Any,
    ) -> list[Item]:
        deadline = self._deadline(wait)
        if tr is not None:
            if wait is not None:
                raise InvalidInput(queue=self.name, reason="a transaction cannot wait")
            return take(self._taker, tr, want)
        while waits_while is None or waits_while():
            rung = self._crowd.bell.rung
            items = self._take_together(want)
            if items or is_answered(want.call):
                return items
            if time.monotonic() >= deadline:
                return self._found_empty(want, want.call)
            if not self._crowd.bell.wait(rung, deadline, waits_while):
                break
        return []

    def _deadline(self, wait: float | None) -> float:
        """Return when to give up waiting, by :func:`time.monotonic`."""
        if wait is not None and not _is_number(wait, int | float, 0, math.inf):
            raise InvalidInput(queue=self.name, wait=wait, allowed="a number of seconds")
        return time.monotonic() + min(wait or 0, MAX_SECONDS)

    def _take_together(self, want: Want) -> list[Item]:
        """Take items in a transaction that other threads may share."""
        verb = "lease" if want.leases else "pop"
        return observing.observed(verb, self.name, lambda: self._crowd.take(want))

    def _found_empty(self, want: Want, call: Call | None) -> list[Item]:
        """Return that there is nothing; where that is an answer to be kept, look again."""
        if call is None:
            return []
        return run(
            self.database,
            lambda tr: take(self._taker, tr, want),
            wrote=lambda _: not is_answered(call),
        )


def is_answered(call: Call | None) -> bool:
    """Tell whether a call returned what was kept of an earlier one."""
    return call is not None and call.replayed


def reason_for(error: BaseException) -> str:
    """Return why an item was given up, for an error of who worked on it."""
    return f"{type(error).__name__}: {error}"


def _is_number(value: Any, kind: Any, least: float, most: float) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and least <= value <= most


__all__ = ["CONTENTION", "MAX_ITEMS", "Consuming"]
