"""Acknowledge, give up and extend leases: one or many, under an idempotency key or without.

One lease is changed by a write that may share its transaction with others
(:mod:`fdbqueue.service.writes`); many, or under a key, by the same writes in a transaction of their
own. The steps within are in :mod:`leases`, because a take may ack, too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import fdb.tuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import BatchTooLarge, InvalidInput, LeaseLost
from fdbqueue.service.clock import duration
from fdbqueue.service.consume.leases import (
    Ack,
    BesideEnds,
    Leases,
    Token,
    distinct,
    reason_of,
    token_of,
)
from fdbqueue.service.idempotency import IdempotencyKey, KeyedCall, SavedResponses, make_call
from fdbqueue.service.items import Duration, Held, Item
from fdbqueue.service.limits import CHUNK_BYTES, MAX_ITEMS_A_CALL, MAX_SENT_BYTES
from fdbqueue.service.storage.counts import CountChange
from fdbqueue.service.storage.hidden import Hidden
from fdbqueue.service.storage.tables import State
from fdbqueue.service.writes import Runner, SharedTransaction, Write

#: A nack and an extend write the stored values again, some at a time.
_MAX_REWRITTEN = 1_000
_READ_AT_ONCE = 25

#: Changes a lease that is held, in a transaction, and returns what it has become.
Change = Callable[[CountChange, Hidden], "Hidden | None"]


class _ChangeWrite(Write):
    """The nack, the extend or the requeue of one lease: its item is read, and written again.

    Its result is the lease's item, if it is still leased. Only an extend is sure to write no ready
    item (``ends`` is false).
    """

    __slots__ = ("_change", "_ends", "_item", "_leases", "_read", "_token")

    def __init__(self, leases: Leases, token: Token, change: Change, *, ends: bool = True) -> None:
        super().__init__(leases.store, CHUNK_BYTES + leases.ack_bytes, frozenset((token.place,)))
        self._leases = leases
        self._token = token
        self._change = change
        self._ends = ends
        self._read: Any = None
        self._item: Item | None = None

    def begin_reads(self, shared: SharedTransaction) -> None:
        self._read = self.store.begin_read(shared.tr, State.LEASED, self._token.place)
        if self._ends or not self.store.format.known_key:
            shared.begin_format()

    def apply(self, shared: SharedTransaction) -> None:
        held = self._leases.held(self._token, self._read)
        changed = self._change(shared.count_change, held)
        if changed is not None:
            self._item = self._leases.shown(shared.tr, self._token, changed)
            shared.read_bytes += self._item.size_bytes

    def result_from(self, _: bytes) -> Item | None:
        return self._item


class Acks:
    """End and extend the leases of one queue.

    Args:
        runner: Runs its operations.
        leases: Its leases.
        responses: The saved responses of calls with an idempotency key.
    """

    def __init__(self, runner: Runner, leases: Leases, responses: SavedResponses) -> None:
        self._runner = runner
        self._store = leases.store
        self._queue = leases.store.queue
        self._leases = leases
        self._responses = responses

    # Ending leases

    def ack(
        self,
        lease: Item | str,
        once: IdempotencyKey | str | None,
        tr: Transaction | None,
        beside: BesideEnds | None = None,
    ) -> None:
        """Remove a leased item for good; ``beside`` writes something more as it ends."""
        text = token_of(lease)
        call = None if once is None else self._call(once, "ack", [text])
        write = Ack(self._leases, [self._leases.parse(text)], beside)
        if call is None:
            self._runner.share("ack", write, tr)
        else:
            self._write_once("ack", call, tr, lambda tr: write.do_in(tr) or b"")

    def ack_many(
        self,
        leases: Iterable[Item | str],
        once: IdempotencyKey | str | None,
        tr: Transaction | None,
    ) -> Held:
        """Remove leased items for good, in one transaction."""
        tokens = _tokens_of(leases)
        return self._end_many("ack", tokens, once, (), self._ack_all, tr, limit=MAX_ITEMS_A_CALL)

    def begin_ack(self, tr: Transaction, leases: Iterable[Item | str]) -> Callable[[], list[str]]:
        """Begin to remove leased items for good, in a transaction.

        So the reads of several queues are under way before the first is awaited.

        Returns:
            What removes those that are held, and returns the tokens of the others.

        Raises:
            BatchTooLarge: The transaction can take no more; what is returned raises it, too.
        """
        tokens = [self._leases.parse(token) for token in _tokens_of(leases)]
        end = self._begin_ack(tr, distinct(tokens))
        return lambda: [token.text for token in end()]

    def nack(
        self,
        lease: Item | str,
        delay: Duration | None,
        reason: str,
        once: IdempotencyKey | str | None,
        tr: Transaction | None,
        *,
        retry: bool = True,
    ) -> None:
        """Give a leased item up; if ``retry`` is false, it is a dead letter."""
        text, reason = token_of(lease), reason_of(self._queue, reason)
        delay_us = self._delay(delay)
        call = None
        if once is not None:
            last = () if retry else ("dead",)
            call = self._call(once, "nack", [text], delay_us, _packable(reason), *last)
        change = functools.partial(
            self._leases.give_up, delay_us=delay_us or 0, reason=reason, retry=retry
        )
        write = _ChangeWrite(self._leases, self._leases.parse(text), change)
        if call is None:
            self._runner.share("nack", write, tr)
        else:
            self._write_once("nack", call, tr, lambda tr: write.do_in(tr) or b"")

    def nack_many(
        self,
        leases: Iterable[Item | str],
        delay: Duration | None,
        reason: str,
        once: IdempotencyKey | str | None,
        tr: Transaction | None,
    ) -> Held:
        """Give leased items up, in one transaction."""
        tokens, reason = _tokens_of(leases), reason_of(self._queue, reason)
        delay_us = self._delay(delay)
        arguments = delay_us, _packable(reason)
        change = functools.partial(self._leases.give_up, delay_us=delay_us or 0, reason=reason)
        each = functools.partial(self._change_all, change=change)
        return self._end_many("nack", tokens, once, arguments, each, tr, limit=_MAX_REWRITTEN)

    def requeue(self, lease: Item | str, tr: Transaction | None) -> None:
        """Requeue a leased item as it was: no attempt is counted."""
        token = self._leases.parse(token_of(lease))
        write = _ChangeWrite(self._leases, token, self._leases.put_back)
        self._runner.share("return", write, tr)

    # Extending leases

    def extend(
        self,
        lease: Item | str,
        seconds: Duration,
        once: IdempotencyKey | str | None,
        tr: Transaction | None,
    ) -> Item:
        """Extend a lease to end the given time from now."""
        text = token_of(lease)
        lasting = duration(self._queue, "seconds", seconds)
        change = functools.partial(self._leases.extend, lasting_us=lasting)
        token = self._leases.parse(text)
        write = _ChangeWrite(self._leases, token, change, ends=False)
        if once is None:
            extended: Item = self._runner.share("extend", write, tr)
            return extended
        call = self._call(once, "extend", [text], lasting)

        def extend(transaction: Transaction) -> Item:
            reads = self._responses.begin_recall(transaction, call)
            for item in self._responses.recalled_items(reads, call) or ():
                return item
            item = write.do_in(transaction)
            hidden = self._store.find(transaction, State.LEASED, token.place)
            rows = [hidden.row] if hidden else []  # as it is stored, whole
            loaded = self._store.load(transaction, rows, retried=False)
            self._responses.save_items(transaction, call, loaded, [item])
            return item

        return self._runner.write("extend", tr, extend, wrote=lambda _: not call.replayed)

    def extend_many(
        self,
        leases: Iterable[Item | str],
        seconds: Duration,
        once: IdempotencyKey | str | None,
        tr: Transaction | None,
    ) -> Held:
        """Extend leases to end the given time from now, in one transaction."""
        tokens, lasting = _tokens_of(leases), duration(self._queue, "seconds", seconds)
        change = functools.partial(self._leases.extend, lasting_us=lasting)
        each = functools.partial(self._change_all, change=change, ends=False)
        return self._end_many("extend", tokens, once, (lasting,), each, tr, limit=_MAX_REWRITTEN)

    # What they share

    def _delay(self, delay: Duration | None) -> int | None:
        """Return the delay of a nack in microseconds, None if there is none."""
        return None if delay is None else duration(self._queue, "delay", delay)

    def _call(
        self, once: IdempotencyKey | str, verb: str, tokens: Sequence[str], *arguments: Any
    ) -> KeyedCall:
        """Return the call of a verb with these leases."""
        return make_call(self._queue, once, verb, tuple(map(_packable, tokens)), *arguments)

    def _write_once(
        self,
        verb: str,
        call: KeyedCall,
        tr: Transaction | None,
        function: Callable[[Transaction], bytes],
    ) -> bytes:
        """Run what writes, unless the call was made before; return its response."""

        def respond(transaction: Transaction) -> bytes:
            found = self._responses.recall(self._responses.begin_recall(transaction, call), call)
            if found is not None:
                return found[0]
            payload = function(transaction)
            self._responses.save(transaction, call, payload)
            return payload

        return self._runner.write(verb, tr, respond, wrote=lambda _: not call.replayed)

    def _end_many(
        self,
        verb: str,
        tokens: Sequence[str],
        once: IdempotencyKey | str | None,
        arguments: Sequence[Any],
        end: Callable[[Transaction, list[Token]], list[Token]],
        tr: Transaction | None,
        *,
        limit: int,
    ) -> Held:
        """Do something to many leases in one transaction; ``end`` returns the lost ones."""
        if len(tokens) > limit:
            raise InvalidInput(queue=self._queue, count=len(tokens), allowed=f"1 to {limit}")
        call = None if once is None else self._call(once, f"{verb}_many", tokens, *arguments)
        if not tokens and call is None:
            return Held(0)

        parsed = [self._leases.parse(token) for token in tokens]

        def end_all(transaction: Transaction) -> bytes:
            lost = {token[:2] for token in end(transaction, distinct(parsed))}
            return fdb.tuple.pack(tuple(token.text for token in parsed if token[:2] in lost))

        if call is None:
            payload = self._runner.write(verb, tr, end_all)
        else:
            payload = self._write_once(verb, call, tr, end_all)
        lost = fdb.tuple.unpack(payload)
        return Held(len(tokens) - len(lost), lost)

    def _ack_all(self, tr: Transaction, tokens: list[Token]) -> list[Token]:
        """End the leases that are held, and return the tokens of the others."""
        return self._begin_ack(tr, tokens)()

    def _begin_ack(self, tr: Transaction, tokens: list[Token]) -> Callable[[], list[Token]]:
        """Begin to end leases; what is returned ends those held, and returns the others' tokens.

        Raises:
            BatchTooLarge: The transaction can take no more.
        """
        shared, ack = SharedTransaction(tr, self._store), Ack(self._leases, tokens)
        ack.check_size(MAX_SENT_BYTES)
        ack.begin_reads(shared)

        def end() -> list[Token]:
            shared.check_format()
            lost = ack.lost()
            ack.check_size(MAX_SENT_BYTES)
            ack.end(shared.count_change)
            shared.count_change.write()
            return lost

        return end

    def _change_all(
        self, tr: Transaction, tokens: list[Token], change: Change, *, ends: bool = True
    ) -> list[Token]:
        """Change the leases that are held, 25 at a time; return the tokens of the others.

        Raises:
            BatchTooLarge: The transaction can take no more.
        """

        def change_one(count_change: CountChange, held: Hidden) -> None:
            change(count_change, held)  # what it has become is not returned

        shared, lost = SharedTransaction(tr, self._store), []
        for start in range(0, len(tokens), _READ_AT_ONCE):
            some = tokens[start : start + _READ_AT_ONCE]
            writes = [_ChangeWrite(self._leases, token, change_one, ends=ends) for token in some]
            for write in writes:
                write.begin_reads(shared)
            shared.check_format()
            for token, write in zip(some, writes, strict=True):
                try:
                    write.apply(shared)
                except LeaseLost:
                    lost.append(token)
            size = tr.get_approximate_size().wait()
            if size > MAX_SENT_BYTES:
                raise BatchTooLarge(queue=self._queue, size_bytes=size, limit_bytes=MAX_SENT_BYTES)
        shared.count_change.write()
        return lost


def _tokens_of(leases: Iterable[Item | str]) -> list[str]:
    """Return the tokens of leases, each once."""
    return list(dict.fromkeys(token_of(lease) for lease in leases))


def _packable(text: str) -> bytes:
    """Return any text as bytes: the tuple layer has no halves of surrogate pairs."""
    return text.encode(errors="surrogatepass")
