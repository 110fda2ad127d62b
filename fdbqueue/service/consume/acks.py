"""Acknowledge, give up and extend leases: one or many, under an idempotency key or without."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import fdb.tuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import BatchTooLarge, InvalidInput, LeaseLost
from fdbqueue.service.clock import duration, moment, now_us
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.leases import Leases, reason_of
from fdbqueue.service.idempotency import IdempotencyKey, KeyedCall, SavedResponses, make_call
from fdbqueue.service.items import Duration, Held, Item
from fdbqueue.service.sizes import (
    CHUNK_BYTES,
    MAX_ENDS_BYTES,
    MAX_ITEMS_A_CALL,
    MAX_SENT_BYTES,
    SENT_BY_CLEAR,
    SENT_BY_READ,
    SENT_BY_SET,
)
from fdbqueue.service.storage.counts import CountChange
from fdbqueue.service.storage.handoffs import LeaseKey
from fdbqueue.service.storage.item_keys import LONGEST_RANDOM, RANDOM_BYTES, data_of
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.storage.tables import Hidden, State
from fdbqueue.service.writes import Runner, SharedTransaction, Write

#: A nack and an extend write the stored values again, some at a time.
_MAX_REWRITTEN = 1_000
_READ_AT_ONCE = 25

#: An ack clears three keys, and reads one; that of an item with attempts clears its failures, too.
_ACK_KEYS_SENT = 3 * SENT_BY_CLEAR + SENT_BY_READ
_FAILURES_SENT = SENT_BY_CLEAR
#: That of an item with a unique key frees it, too.
_FREED_SENT = SENT_BY_SET + 1

#: Writes something more in the transaction that ends leases, which other threads may share: it may
#: only write, to keys that no other call writes, and it may run again.
BesideEnds = Callable[[Transaction], None]
#: Changes a lease that is held, in a transaction, and returns what it has become.
Change = Callable[[CountChange, Hidden], "Hidden | None"]

#: Without calls of Python code, because each ack makes them.
_PLACE, _KEY = operator.itemgetter(0), operator.itemgetter(0, 1)


class Token(NamedTuple):
    """What names a lease: the item's place, the lease's secret; and both as text."""

    place: bytes
    secret: bytes
    text: str


def parsed_token(store: ItemStore, token: str) -> Token:
    """Return what a token says.

    Raises:
        InvalidInput: It is not the token of a lease.
    """
    item_id, _, text = token.rpartition(".")
    try:
        secret = data_of(text)
    except ValueError as error:
        raise InvalidInput(lease=token, reason="it is not the token of a lease") from error
    return Token(store.keys.place_named(item_id), secret, token)


def token_of(lease: Item | str) -> str:
    """Return the token of a lease, given as the item or as the token itself.

    Raises:
        InvalidInput: The item was not leased, or it is neither.
    """
    token = lease.lease if isinstance(lease, Item) else lease
    if not isinstance(token, str):
        raise InvalidInput(reason="a leased item or its token is needed")
    return token


def distinct(tokens: Iterable[Token]) -> list[Token]:
    """Return one token of each lease, however it is spelled."""
    return [*{token[:2]: token for token in tokens}.values()]


class Ack(Write):
    """The ack of leases: of one, of many, or in the transaction that takes the next items.

    Args:
        store: The queue's items.
        tokens: Their tokens, one of each lease.
        beside: Writes something more where the leases end; None for nothing.

    Attributes:
        lease_keys: The leases.
    """

    __slots__ = ("_held", "_reads", "_tokens", "lease_keys")

    def __init__(
        self, store: ItemStore, tokens: Sequence[Token], beside: BesideEnds | None = None
    ) -> None:
        self._tokens = tokens
        self.lease_keys: tuple[LeaseKey, ...] = tuple(map(_KEY, tokens))
        places = frozenset(map(_PLACE, tokens))
        super().__init__(store, _ACK_KEYS_SENT * store.keys.size_bytes, places, beside)
        self._reads: list[Any] = []
        self._held: list[Hidden] = []

    def begin_reads(self, shared: SharedTransaction) -> None:
        """Begin to read the leases, and the format if this process has not seen it."""
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
            if hidden is not None and hidden.secret == token.secret:
                self._held.append(hidden)
            else:
                lost.append(token)
        return lost

    def check(self) -> LeaseLost | BatchTooLarge | None:
        """Take what was read; return the error if a lease is not held any more.

        Or if they are too many, because their items have attempts.
        """
        for token in self.lost():
            return _lease_lost(self.store, token)
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
            return self.size_bytes
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
            raise _lease_lost(self.store, token)
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


class _ChangeWrite(Write):
    """The nack, the extend or the requeue of one lease: its item is read, and written again.

    Its result is the lease's item, if it is still leased. Only an extend is sure to write no ready
    item (``ends`` is false).
    """

    __slots__ = ("_change", "_ends", "_item", "_read", "_token")

    def __init__(
        self, store: ItemStore, token: Token, change: Change, *, ends: bool = True
    ) -> None:
        size_bytes = CHUNK_BYTES + _ACK_KEYS_SENT * store.keys.size_bytes
        super().__init__(store, size_bytes, frozenset((token.place,)))
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
        token = self._token
        held = self.store.parse(State.LEASED, token.place, self._read)
        if held is None or held.secret != token.secret:
            raise _lease_lost(self.store, token)
        changed = self._change(shared.count_change, held)
        if changed is not None:
            (item,) = self.store.shown(shared.tr, [changed])
            until = moment(changed.until)
            self._item = replace(item, lease=token.text, until=until, leased_at=None)
            shared.read_bytes += item.size_bytes

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
        write = Ack(self._store, [parsed_token(self._store, text)], beside)
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
        tokens = [parsed_token(self._store, token) for token in _tokens_of(leases)]
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
        change = functools.partial(self.give_up, delay_us=delay_us or 0, reason=reason, retry=retry)
        write = _ChangeWrite(self._store, parsed_token(self._store, text), change)
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
        change = functools.partial(self.give_up, delay_us=delay_us or 0, reason=reason)
        each = functools.partial(self._change_all, change=change)
        return self._end_many("nack", tokens, once, arguments, each, tr, limit=_MAX_REWRITTEN)

    def requeue(self, lease: Item | str, tr: Transaction | None) -> None:
        """Requeue a leased item as it was: no attempt is counted."""
        token = parsed_token(self._store, token_of(lease))
        write = _ChangeWrite(self._store, token, self._leases.put_back)
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
        change = functools.partial(self._extend, lasting_us=lasting)
        token = parsed_token(self._store, text)
        write = _ChangeWrite(self._store, token, change, ends=False)
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
        change = functools.partial(self._extend, lasting_us=lasting)
        each = functools.partial(self._change_all, change=change, ends=False)
        return self._end_many("extend", tokens, once, (lasting,), each, tr, limit=_MAX_REWRITTEN)

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
        max_attempts = self._store.options.max_attempts if retry else attempts
        expiry.note_failure(self._store, tr, held, attempts, reason)
        if delay_us and not expiry.dies(held, attempts, max_attempts):
            self._store.reveal(count_change, held)
            delayed = held._replace(
                state=State.DELAYED,
                row=self._store.with_attempts(held.row, attempts) or held.row,
                until=now_us() + delay_us,
                attempts=attempts,
                secret=b"",
                worker=b"",
            )
            self._store.hide(count_change, delayed)
            return
        row = expiry.take_out_or_bury(
            self._store, count_change, held, attempts, max_attempts, reason
        )
        if row is not None:
            tr[self._store.keys.key(row.place)] = row.value

    def _extend(self, count_change: CountChange, held: Hidden, lasting_us: int) -> Hidden:
        """Let a lease end that many microseconds from now, and return it."""
        self._store.reveal(count_change, held)
        extended = held._replace(until=now_us() + lasting_us)
        self._store.hide(count_change, extended)
        count_change.wakes += 1  # waiting poppers may have to look sooner
        return extended

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

        parsed = [parsed_token(self._store, token) for token in tokens]

        def end_all(transaction: Transaction) -> Held:
            gone = {token[:2] for token in end(transaction, distinct(parsed))}
            lost = [token.text for token in parsed if token[:2] in gone]
            return Held(len(tokens) - len(lost), lost)

        if call is None:
            return self._runner.write(verb, tr, end_all)
        saved = self._write_once(
            verb, call, tr, lambda transaction: fdb.tuple.pack(end_all(transaction).lost)
        )
        lost = fdb.tuple.unpack(saved)
        return Held(len(tokens) - len(lost), lost)

    def _ack_all(self, tr: Transaction, tokens: list[Token]) -> list[Token]:
        """End the leases that are held, and return the tokens of the others."""
        return self._begin_ack(tr, tokens)()

    def _begin_ack(self, tr: Transaction, tokens: list[Token]) -> Callable[[], list[Token]]:
        """Begin to end leases; what is returned ends those held, and returns the others' tokens.

        Raises:
            BatchTooLarge: The transaction can take no more.
        """
        shared, ack = SharedTransaction(tr, self._store), Ack(self._store, tokens)
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
            writes = [_ChangeWrite(self._store, token, change_one, ends=ends) for token in some]
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


def _lease_lost(store: ItemStore, token: Token) -> LeaseLost:
    """Return the error of a lease that is not held any more."""
    return LeaseLost(queue=store.queue, lease=token.text)
