"""Take items from a queue: pop them, or lease them until they are acknowledged."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import fdb.tuple

from fdbqueue.exceptions import (
    BatchTooLarge,
    ConfigurationError,
    InvalidInput,
    LeaseLost,
    text_of_error,
)
from fdbqueue.service import instrumentation
from fdbqueue.service.browse import MAX_ITEMS, Browsing, one
from fdbqueue.service.codecs import Codec
from fdbqueue.service.consume.leases import MAX_SECONDS, Leases, duration, reason_of, token_of
from fdbqueue.service.consume.poppers import PopperGroup, group
from fdbqueue.service.consume.requests import Effect, TakeRequest
from fdbqueue.service.consume.requeue import Requeuer, pop
from fdbqueue.service.consume.round import take
from fdbqueue.service.idempotency import Call, Once
from fdbqueue.service.items import Held, Item
from fdbqueue.service.storage.keys import ItemKeys
from fdbqueue.service.storage.reader import End, Loaded
from fdbqueue.service.storage.tables import State
from fdbqueue.service.transactions import run

CONTENTION = ("strict", "relaxed")

#: A nack and an extend write the stored values anew, one after the other.
_MAX_REWRITTEN = 1_000
#: FoundationDB's limit of what a transaction sends is 10,000,000 bytes.
_MAX_SENT_BYTES = 9_000_000


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
        self._requeuer = Requeuer(database, self._stock, self._leases)
        options = (contention, claim_timeout_seconds, max_attempts)
        self._poppers: PopperGroup = group(
            database,
            self._taker,
            claim_timeout_seconds,
            (self.subspace.key(), self.name, type(self), codec, *options),
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
        request = self._pop_request(count, end, once, functools.partial(pop, self._stock))
        return self._consume(request, wait, waits_while, tr)

    def _pop_request(
        self, count: int, end: End, once: Once | str | None, effect: Effect
    ) -> TakeRequest:
        self._check(count, end)
        call = self._answers.call(once, "pop", end, count)
        return TakeRequest(end, count, effect, call, requeue=self._requeuer.requeue_popped)

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
        request = self._lease_request(count, end, seconds, once)
        return self._consume(request, wait, waits_while, tr)

    def _lease_request(
        self, count: int, end: End, seconds: float, once: Once | str | None
    ) -> TakeRequest:
        effect = self._leases.effect(seconds)
        self._check(count, end)
        call = self._answers.call(once, "lease", end, count, float(seconds))
        return TakeRequest(
            end, count, effect, call, requeue=self._requeuer.requeue_leased, leases=True
        )

    def ack(self, lease: Item | str, *, once: Once | str | None = None, tr: Any = None) -> None:
        """Remove a leased item for good.

        Also after its time, as long as nobody has brought it back.

        Args:
            lease: The item, or its token.
            once: An idempotency key. The same call under the same key succeeds again for a
                day, and removes nothing more.
            tr: The transaction to take part in.

        Raises:
            LeaseLost: It is not held any more; somebody else may have the item.
            InvalidInput: It is no lease's token of this queue.
            IdempotencyKeyReused: The key was another call's; nothing was changed.
        """
        token = token_of(lease)
        call = self._lease_call(once, "ack", [token])

        def ack(transaction: Any) -> bytes:
            self._leases.ack_one(transaction, token)
            return b""

        self._transact_once("ack", call, tr, ack)

    def ack_many(
        self, leases: Iterable[Item | str], *, once: Once | str | None = None, tr: Any = None
    ) -> Held:
        """Remove leased items for good, in one transaction.

        Args:
            leases: The items, or their tokens, up to 10,000.
            once: An idempotency key, as for :meth:`ack`.
            tr: The transaction to take part in.

        Returns:
            How many were still held, and are gone now; its ``lost`` names the others.

        Raises:
            InvalidInput: One is no lease's token of this queue; nothing was changed.
            BatchTooLarge: One transaction cannot remove as many, ``context["most"]`` being how
                many it can; nothing was changed.
            IdempotencyKeyReused: The key was another call's; nothing was changed.
        """
        tokens = _tokens_of(leases)
        ack = functools.partial(self._leases.ack, tokens=tokens)
        return self._end_many("ack", tokens, once, (), ack, tr, limit=MAX_ITEMS)

    def nack(
        self,
        lease: Item | str,
        *,
        delay: float | None = None,
        reason: str = "given up",
        once: Once | str | None = None,
        tr: Any = None,
    ) -> None:
        """Give a leased item up: it goes back to its place with its attempts one higher.

        The last attempt of a queue with ``max_attempts`` sends it to the dead letters.

        Args:
            lease: The item, or its token.
            delay: For how many seconds to keep it hidden.
            reason: What the dead letter says, clipped at 1,000 characters.
            once: An idempotency key. The same call under the same key succeeds again for a
                day, and gives nothing more up.
            tr: The transaction to take part in.

        Raises:
            LeaseLost: It is not held any more.
            InvalidInput: It is no lease's token of this queue.
            IdempotencyKeyReused: The key was another call's; nothing was changed.
        """
        token, reason = token_of(lease), reason_of(self.name, reason)
        call = self._lease_call(once, "nack", [token], self._delay(delay), _packable(reason))

        def nack(transaction: Any) -> bytes:
            self._leases.nack(transaction, token, delay, reason)
            return b""

        self._transact_once("nack", call, tr, nack)

    def nack_many(
        self,
        leases: Iterable[Item | str],
        *,
        delay: float | None = None,
        reason: str = "given up",
        once: Once | str | None = None,
        tr: Any = None,
    ) -> Held:
        """Give leased items up in one transaction, as :meth:`nack` does.

        Args:
            leases: The items, or their tokens, up to 1,000.
            delay: For how many seconds to keep them hidden.
            reason: What the dead letters say, clipped at 1,000 characters.
            once: An idempotency key, as for :meth:`nack`.
            tr: The transaction to take part in; not to be committed after an error.

        Returns:
            How many were still held, and are given up now; its ``lost`` names the others.

        Raises:
            InvalidInput: One is no lease's token of this queue; nothing was changed.
            BatchTooLarge: Their values are over about 8,500,000 bytes together, too much for
                one transaction; nothing was changed.
            IdempotencyKeyReused: The key was another call's; nothing was changed.
        """
        tokens, reason = _tokens_of(leases), reason_of(self.name, reason)
        arguments = self._delay(delay), _packable(reason)

        def nack(transaction: Any, token: str) -> None:
            self._leases.nack(transaction, token, delay, reason)

        each = functools.partial(self._each_held, tokens=tokens, change=nack)
        return self._end_many("nack", tokens, once, arguments, each, tr, limit=_MAX_REWRITTEN)

    def extend(
        self,
        lease: Item | str,
        seconds: float = 60,
        *,
        once: Once | str | None = None,
        tr: Any = None,
    ) -> Item:
        """Extend a lease to end the given number of seconds from now.

        Args:
            lease: The item, or its token.
            seconds: How long.
            once: An idempotency key. The same call under the same key returns the same item
                for a day, and extends its lease once. A copy of the item is kept for that.
            tr: The transaction to take part in.

        Returns:
            The item, under the same token.

        Raises:
            LeaseLost: It is not held any more.
            InvalidInput: It is no lease's token of this queue.
            IdempotencyKeyReused: The key was another call's; nothing was changed.
        """
        token = token_of(lease)
        lasting = duration(self.name, "seconds", seconds)
        call = self._lease_call(once, "extend", [token], lasting)

        def extend(transaction: Any) -> Item:
            if call is not None:
                asked = self._answers.ask(transaction, call)
                for item in self._answers.recalled_items(asked, call) or ():
                    return item
            item = self._leases.extend(transaction, token, seconds)
            if call is not None:
                self._answers.keep_items(transaction, call, self._loaded(transaction, item), [item])
            return item

        return self._transact("extend", tr, extend, wrote=lambda _: not is_answered(call))

    def extend_many(
        self,
        leases: Iterable[Item | str],
        seconds: float = 60,
        *,
        once: Once | str | None = None,
        tr: Any = None,
    ) -> Held:
        """Extend leases to end the given number of seconds from now, in one transaction.

        Args:
            leases: The items, or their tokens, up to 1,000.
            seconds: How long.
            once: An idempotency key. The same call under the same key returns the same for a
                day, and extends the leases once.
            tr: The transaction to take part in; not to be committed after an error.

        Returns:
            How many were still held, and are for longer now; its ``lost`` names the others.

        Raises:
            InvalidInput: One is no lease's token of this queue; nothing was changed.
            BatchTooLarge: They are too much for one transaction, as for :meth:`nack_many`.
            IdempotencyKeyReused: The key was another call's; nothing was changed.
        """
        tokens, lasting = _tokens_of(leases), duration(self.name, "seconds", seconds)

        def extend(transaction: Any, token: str) -> None:
            self._leases.extend(transaction, token, seconds)

        each = functools.partial(self._each_held, tokens=tokens, change=extend)
        return self._end_many("extend", tokens, once, (lasting,), each, tr, limit=_MAX_REWRITTEN)

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
                self.nack(item, reason=text_of_error(error))
            raise
        self.ack(item)

    # Ending leases

    def _delay(self, delay: float | None) -> int | None:
        """Return the delay of a nack in microseconds, None where there is none."""
        return None if delay is None else duration(self.name, "delay", delay)

    def _lease_call(
        self, once: Once | str | None, verb: str, tokens: Sequence[str], *arguments: Any
    ) -> Call | None:
        """Return the call of a verb with these leases, None where it has no key."""
        return self._answers.call(once, verb, tuple(map(_packable, tokens)), *arguments)

    def _transact_once(
        self, verb: str, call: Call | None, tr: Any, function: Callable[[Any], bytes]
    ) -> bytes:
        """Run what writes, unless the call was made before; return its answer."""

        def answer(transaction: Any) -> bytes:
            if call is None:
                return function(transaction)
            found = self._answers.recall(self._answers.ask(transaction, call), call)
            if found is not None:
                return found[0]
            payload = function(transaction)
            self._answers.keep(transaction, call, payload)
            return payload

        return self._transact(verb, tr, answer, wrote=lambda _: not is_answered(call))

    def _end_many(
        self,
        verb: str,
        tokens: Sequence[str],
        once: Once | str | None,
        arguments: Sequence[Any],
        end: Callable[[Any], Sequence[str]],
        tr: Any,
        *,
        limit: int,
    ) -> Held:
        """Do something to many leases in one transaction; ``end`` returns the lost tokens."""
        if len(tokens) > limit:
            raise InvalidInput(queue=self.name, count=len(tokens), allowed=f"1 to {limit}")
        call = self._lease_call(once, f"{verb}_many", tokens, *arguments)
        if not tokens and call is None:
            return Held(0)
        payload = self._transact_once(
            verb, call, tr, lambda transaction: fdb.tuple.pack(tuple(end(transaction)))
        )
        lost = fdb.tuple.unpack(payload)
        return Held(len(tokens) - len(lost), lost)

    def _each_held(
        self, tr: Any, tokens: Sequence[str], change: Callable[[Any, str], None]
    ) -> list[str]:
        """Change one lease after the other, and return the tokens of those not held any more.

        Raises:
            BatchTooLarge: The transaction can take no more.
        """
        lost = []
        for token in tokens:
            try:
                change(tr, token)
            except LeaseLost:
                lost.append(token)
            size = tr.get_approximate_size().wait()
            if size > _MAX_SENT_BYTES:
                raise BatchTooLarge(queue=self.name, size_bytes=size, limit_bytes=_MAX_SENT_BYTES)
        return lost

    def _loaded(self, tr: Any, item: Item) -> list[Loaded]:
        """Return a leased item as it is stored, whole."""
        hidden = self._stock.find(tr, State.LEASED, self._keys.place_named(item.id))
        return self._reader.load(tr, [hidden.row] if hidden else [], retried=False)

    # What they share

    def _check(self, count: int, end: str) -> None:
        self._check_count(count)
        self._check_end(end)

    def _consume(
        self,
        request: TakeRequest,
        wait: float | None,
        waits_while: Callable[[], bool] | None,
        tr: Any,
    ) -> list[Item]:
        deadline = self._deadline(wait)
        if tr is not None:
            if wait is not None:
                raise InvalidInput(queue=self.name, reason="a transaction cannot wait")
            return [*take(self._taker, tr, request)]
        watch = self._poppers.watch
        while waits_while is None or waits_while():
            seen = watch.generation
            items = self._take_together(request)
            if items or is_answered(request.call):
                return [*items]
            if time.monotonic() >= deadline:
                return self._found_empty(request, request.call)
            if not watch.wait(seen, deadline, waits_while, database=self.database):
                break
        return []

    def _deadline(self, wait: float | None) -> float:
        """Return when to give up waiting, by :func:`time.monotonic`."""
        if wait is not None and not _is_number(wait, int | float, 0, math.inf):
            raise InvalidInput(queue=self.name, wait=wait, allowed="a number of seconds")
        return time.monotonic() + min(wait or 0, MAX_SECONDS)

    def _take_together(self, request: TakeRequest) -> list[Item]:
        """Take items in a transaction that other threads may share."""
        verb = "lease" if request.leases else "pop"
        return instrumentation.observed(
            verb, self.name, lambda: self._poppers.take(request, self.database)
        )

    def _found_empty(self, request: TakeRequest, call: Call | None) -> list[Item]:
        """Return that there is nothing; where that is an answer to be kept, look again."""
        if call is None:
            return []
        return run(
            self.database,
            lambda tr: take(self._taker, tr, request),
            wrote=lambda _: not is_answered(call),
        )


def is_answered(call: Call | None) -> bool:
    """Tell whether a call returned what was kept of an earlier one."""
    return call is not None and call.replayed


def _tokens_of(leases: Iterable[Item | str]) -> list[str]:
    """Return the tokens of leases, each once."""
    return list(dict.fromkeys(token_of(lease) for lease in leases))


def _packable(text: str) -> bytes:
    """Return any text as bytes: the tuple layer has no halves of surrogate pairs."""
    return text.encode(errors="surrogatepass")


def _is_number(value: Any, kind: Any, least: float, most: float) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and least <= value <= most


__all__ = ["CONTENTION", "MAX_ITEMS", "Consuming"]
