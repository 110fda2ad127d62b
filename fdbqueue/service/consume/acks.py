"""Acknowledge, give up and extend leases: one or many, under an idempotency key or without."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import fdb.tuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import BatchTooLarge, InvalidInput, LeaseLost
from fdbqueue.service.clock import duration
from fdbqueue.service.consume.leases import Leases, reason_of, token_of
from fdbqueue.service.idempotency import Call, IdempotencyKey, SavedResponses, is_replayed
from fdbqueue.service.items import Held, Item
from fdbqueue.service.limits import MAX_ITEMS, MAX_SENT_BYTES
from fdbqueue.service.runner import Runner
from fdbqueue.service.storage.reader import Loaded
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.storage.tables import State

#: A nack and an extend write the stored values anew, one after the other.
_MAX_REWRITTEN = 1_000


class Acks:
    """End and extend the leases of one queue.

    Args:
        runner: Runs its operations.
        store: Its items.
        leases: Its leases.
        responses: The saved responses of calls with an idempotency key.
    """

    def __init__(
        self, runner: Runner, store: ItemStore, leases: Leases, responses: SavedResponses
    ) -> None:
        self._runner = runner
        self._queue = store.queue
        self._store = store
        self._leases = leases
        self._responses = responses

    # Ending leases

    def ack(
        self, lease: Item | str, once: IdempotencyKey | str | None, tr: Transaction | None
    ) -> None:
        """Remove a leased item for good."""
        token = token_of(lease)
        call = None if once is None else self._call(once, "ack", [token])

        def ack(transaction: Transaction) -> bytes:
            self._leases.ack_one(transaction, token)
            return b""

        self._write_once("ack", call, tr, ack)

    def ack_many(
        self,
        leases: Iterable[Item | str],
        once: IdempotencyKey | str | None,
        tr: Transaction | None,
    ) -> Held:
        """Remove leased items for good, in one transaction."""
        tokens = _tokens_of(leases)
        ack = functools.partial(self._leases.ack, tokens=tokens)
        return self._end_many("ack", tokens, once, (), ack, tr, limit=MAX_ITEMS)

    def nack(
        self,
        lease: Item | str,
        delay: float | None,
        reason: str,
        once: IdempotencyKey | str | None,
        tr: Transaction | None,
    ) -> None:
        """Give a leased item up."""
        token, reason = token_of(lease), reason_of(self._queue, reason)
        call = None
        if once is not None:
            call = self._call(once, "nack", [token], self._delay(delay), _packable(reason))

        def nack(transaction: Transaction) -> bytes:
            self._leases.nack(transaction, token, delay, reason)
            return b""

        self._write_once("nack", call, tr, nack)

    def nack_many(
        self,
        leases: Iterable[Item | str],
        delay: float | None,
        reason: str,
        once: IdempotencyKey | str | None,
        tr: Transaction | None,
    ) -> Held:
        """Give leased items up, in one transaction."""
        tokens, reason = _tokens_of(leases), reason_of(self._queue, reason)
        arguments = self._delay(delay), _packable(reason)

        def nack(transaction: Transaction, token: str) -> None:
            self._leases.nack(transaction, token, delay, reason)

        each = functools.partial(self._each_held, tokens=tokens, change=nack)
        return self._end_many("nack", tokens, once, arguments, each, tr, limit=_MAX_REWRITTEN)

    # Extending leases

    def extend(
        self,
        lease: Item | str,
        seconds: float,
        once: IdempotencyKey | str | None,
        tr: Transaction | None,
    ) -> Item:
        """Extend a lease to end the given number of seconds from now."""
        token = token_of(lease)
        lasting = duration(self._queue, "seconds", seconds)
        call = None if once is None else self._call(once, "extend", [token], lasting)

        def extend(transaction: Transaction) -> Item:
            if call is not None:
                asked = self._responses.ask(transaction, call)
                for item in self._responses.recalled_items(asked, call) or ():
                    return item
            item = self._leases.extend(transaction, token, seconds)
            if call is not None:
                self._responses.save_items(
                    transaction, call, self._loaded(transaction, item), [item]
                )
            return item

        return self._runner.write("extend", tr, extend, wrote=lambda _: not is_replayed(call))

    def extend_many(
        self,
        leases: Iterable[Item | str],
        seconds: float,
        once: IdempotencyKey | str | None,
        tr: Transaction | None,
    ) -> Held:
        """Extend leases to end the given number of seconds from now, in one transaction."""
        tokens, lasting = _tokens_of(leases), duration(self._queue, "seconds", seconds)

        def extend(transaction: Transaction, token: str) -> None:
            self._leases.extend(transaction, token, seconds)

        each = functools.partial(self._each_held, tokens=tokens, change=extend)
        return self._end_many("extend", tokens, once, (lasting,), each, tr, limit=_MAX_REWRITTEN)

    # What they share

    def _delay(self, delay: float | None) -> int | None:
        """Return the delay of a nack in microseconds, None where there is none."""
        return None if delay is None else duration(self._queue, "delay", delay)

    def _call(
        self, once: IdempotencyKey | str, verb: str, tokens: Sequence[str], *arguments: Any
    ) -> Call | None:
        """Return the call of a verb with these leases."""
        return self._responses.call(once, verb, tuple(map(_packable, tokens)), *arguments)

    def _write_once(
        self,
        verb: str,
        call: Call | None,
        tr: Transaction | None,
        function: Callable[[Transaction], bytes],
    ) -> bytes:
        """Run what writes, unless the call was made before; return its response."""
        if call is None:
            return self._runner.write(verb, tr, function)
        made = call

        def answer(transaction: Transaction) -> bytes:
            found = self._responses.recall(self._responses.ask(transaction, made), made)
            if found is not None:
                return found[0]
            payload = function(transaction)
            self._responses.save(transaction, made, payload)
            return payload

        return self._runner.write(verb, tr, answer, wrote=lambda _: not made.replayed)

    def _end_many(
        self,
        verb: str,
        tokens: Sequence[str],
        once: IdempotencyKey | str | None,
        arguments: Sequence[Any],
        end: Callable[[Any], Sequence[str]],
        tr: Transaction | None,
        *,
        limit: int,
    ) -> Held:
        """Do something to many leases in one transaction; ``end`` returns the lost tokens."""
        if len(tokens) > limit:
            raise InvalidInput(queue=self._queue, count=len(tokens), allowed=f"1 to {limit}")
        call = None if once is None else self._call(once, f"{verb}_many", tokens, *arguments)
        if not tokens and call is None:
            return Held(0)
        payload = self._write_once(
            verb, call, tr, lambda transaction: fdb.tuple.pack(tuple(end(transaction)))
        )
        lost = fdb.tuple.unpack(payload)
        return Held(len(tokens) - len(lost), lost)

    def _each_held(
        self, tr: Transaction, tokens: Sequence[str], change: Callable[[Transaction, str], None]
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
            if size > MAX_SENT_BYTES:
                raise BatchTooLarge(queue=self._queue, size_bytes=size, limit_bytes=MAX_SENT_BYTES)
        return lost

    def _loaded(self, tr: Transaction, item: Item) -> list[Loaded]:
        """Return a leased item as it is stored, whole."""
        hidden = self._store.find(tr, State.LEASED, self._store.keys.place_named(item.id))
        return self._store.reader.load(tr, [hidden.row] if hidden else [], retried=False)


def _tokens_of(leases: Iterable[Item | str]) -> list[str]:
    """Return the tokens of leases, each once."""
    return list(dict.fromkeys(token_of(lease) for lease in leases))


def _packable(text: str) -> bytes:
    """Return any text as bytes: the tuple layer has no halves of surrogate pairs."""
    return text.encode(errors="surrogatepass")
