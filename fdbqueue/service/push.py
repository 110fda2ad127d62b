"""Push items: one, several in one transaction, or any number split into transactions.

How a push goes: the :class:`~fdbqueue.service.entries.Encoder` checks and encodes the values.
:class:`Pusher` submits them to the queue's :class:`~fdbqueue.service.writes.SharedWrites` (made
in :mod:`fdbqueue.service.consume.process_group`), where they share transactions with those of
other threads. Under an idempotency key it runs a transaction of its own, which looks for the
saved response first. Either way the transaction reads where the queue ends (in the recipes' order
alone, by a snapshot read), and writes the items and the counts. Pushes never conflict.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import InvalidInput, KeyTooLarge, OutcomeUnknown, PushInterrupted
from fdbqueue.service import instrumentation
from fdbqueue.service.entries import Encoder, Entry
from fdbqueue.service.idempotency import (
    Call,
    IdempotencyKey,
    Placed,
    SavedResponses,
    packed_places,
    unpacked_places,
)
from fdbqueue.service.items import Duration, Item, Push, moment
from fdbqueue.service.limits import MAX_KEY_BYTES, MAX_VALUE_BYTES
from fdbqueue.service.runner import Runner
from fdbqueue.service.storage.counts import HIGHEST, CountChange, high_of
from fdbqueue.service.storage.hidden import Hidden
from fdbqueue.service.storage.item_keys import Place
from fdbqueue.service.storage.reader import Row
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.storage.tables import State
from fdbqueue.service.transactions import run, run_stamped
from fdbqueue.service.uniques import UniqueKeys, mark_of
from fdbqueue.service.writes import SharedTransaction, Write

#: What the keys of the queue's tables have more than those of its items.
_TABLE_BYTES = 16

#: Writes something in the transaction that pushes some entries, and returns what to do once
#: that is committed.
Beside = Callable[[Transaction, list[Entry]], Callable[[], None]]
#: Writes something more in the transaction that pushes, given the places of the items.
BesidePlaces = Callable[[Transaction, list[Placed]], None]
#: Pushes what was prepared, in the transaction it is given, or in one of its own for None.
Prepared = Callable[[Transaction | None], list[Item]]


class _Pushed(NamedTuple):
    """Where items were written, now or by an earlier call: then ``stamp`` is that commit's."""

    placed: list[Placed]
    stamp: bytes | None


def _is_new(pushed: _Pushed) -> bool:
    return pushed.stamp is None


def _nothing() -> None:
    """Do nothing."""


class _PushWrite(Write):
    """The push of some items, which may share its transaction."""

    __slots__ = ("_beside", "_entries", "_placed", "_pusher", "_pushes")

    def __init__(
        self,
        pusher: Pusher,
        pushes: Sequence[Push],
        entries: list[Entry],
        size_bytes: int,
        beside: BesidePlaces | None,
    ) -> None:
        super().__init__(size_bytes)
        self._beside = beside
        self._pusher = pusher
        self._pushes = pushes
        self._entries = entries
        self._placed: list[Placed] = []

    def begin_reads(self, shared: SharedTransaction) -> None:
        self._pusher.begin_reads(shared, self._entries)

    def apply(self, shared: SharedTransaction) -> None:
        self._placed = self._pusher.apply(shared, self._entries)
        if self._beside is not None:
            self._beside(shared.tr, self._placed)

    def result_from(self, stamp: bytes) -> list[Item]:
        return self._pusher.items(self._pushes, self._entries, self._placed, stamp)


class Pusher:
    """Push items to one queue.

    Args:
        runner: Runs its operations.
        store: The queue's items.
        responses: The saved responses of calls with an idempotency key.
        encoder: Checks and encodes what is pushed.
        in_commit_order: Whether items are in the order of their commits, by versionstamps.
    """

    def __init__(
        self,
        runner: Runner,
        store: ItemStore,
        responses: SavedResponses,
        encoder: Encoder,
        *,
        in_commit_order: bool,
    ) -> None:
        self._runner = runner
        self._store = store
        self._responses = responses
        self._keys = store.keys
        self._codec = store.codec
        self._queue = store.queue
        self._uniques = UniqueKeys(store)
        self._in_commit_order = in_commit_order
        #: The longest place whose keys FoundationDB takes.
        self._max_place_bytes = MAX_KEY_BYTES - _TABLE_BYTES - len(store.keys.key(b""))
        self.encoder = encoder

    # Some items in one transaction

    def prepare(self, push: Push, once: IdempotencyKey | str | None) -> Prepared:
        """Check and encode a value now, to be pushed later."""
        return self._prepared("push", [push], [self._entry(push)], once)

    def prepare_beside(self, push: Push, beside: BesidePlaces) -> Prepared:
        """Check and encode a value now, to be pushed later with something more beside it.

        Args:
            push: The value.
            beside: Called in the transaction that pushes, which other threads may share: it may
                only write, to keys that no other call writes, and it may run again.
        """
        return self._prepared("push", [push], [self._entry(push)], None, beside)

    def prepare_batch(self, pushes: Sequence[Push], once: IdempotencyKey | str | None) -> Prepared:
        """Check and encode values now, to be pushed later in one transaction."""
        pushes, entries = list(pushes), []
        for index, push in enumerate(pushes):
            try:
                entries.append(self._entry(push))
            except InvalidInput as error:
                raise type(error)(**error.context, index=index) from error
        self.encoder.check_batch(entries)
        if not entries and once is None:
            return lambda _: []
        return self._prepared("push_batch", pushes, entries, once)

    def _entry(self, push: Push) -> Entry:
        if push.unique is None:
            return self.encoder.of_push(push)
        return self.encoder.of_push(push, mark_of(self._queue, push.unique, push.unique_while))

    def _prepared(
        self,
        verb: str,
        pushes: Sequence[Push],
        entries: list[Entry],
        once: IdempotencyKey | str | None,
        beside: BesidePlaces | None = None,
    ) -> Prepared:
        if once is None:
            size = self.encoder.sent_bytes(entries)
            return lambda tr: self._runner.share(
                "push", tr, _PushWrite(self, pushes, entries, size, beside)
            )
        described = map(self.encoder.facts, pushes, entries)
        call = self._responses.call(once, verb, *described)
        assert call is not None
        return functools.partial(self._push_once, pushes, entries, call)

    def _push_once(
        self, pushes: Sequence[Push], entries: list[Entry], call: Call, tr: Transaction | None
    ) -> list[Item]:
        """Write entries in one transaction unless the call was made before; return the items."""
        if tr is not None:
            pushed = self._put_once(tr, entries, call)
            return self.items(pushes, entries, pushed.placed, pushed.stamp or b"")

        def push() -> list[Item]:
            pushed, stamp = run_stamped(
                self._runner.database,
                functools.partial(self._put_once, entries=entries, call=call),
                wrote=_is_new,
                stamped=self._in_commit_order,
            )
            return self.items(pushes, entries, pushed.placed, pushed.stamp or stamp)

        return instrumentation.observed("push", self._queue, push)

    def _put_once(self, tr: Transaction, entries: list[Entry], call: Call) -> _Pushed:
        """Write entries, unless the call was made before."""
        found = self._responses.recall(self._responses.begin_recall(tr, call), call)
        if found is not None:
            return _Pushed(unpacked_places(found[0]), found[1])
        placed = self.put(tr, entries)
        self._uniques.check_saved(entries, placed)
        self._responses.save(tr, call, packed_places(placed), stamped=self._in_commit_order)
        return _Pushed(placed, None)

    def items(
        self, pushes: Sequence[Push], entries: list[Entry], places: list[Placed], stamp: bytes
    ) -> list[Item]:
        """Return the items that were pushed, given the commit's versionstamp."""
        return [
            self._item(push, entry, placed, stamp)
            for push, entry, placed in zip(pushes, entries, places, strict=True)
        ]

    def _item(self, push: Push, entry: Entry, placed: Placed, stamp: bytes) -> Item:
        place, pushed_at, until, existing = placed
        is_known = place.stamp_at is None or stamp
        item_id = self._keys.item_id(place.stamped(stamp)) if is_known else ""
        if existing is not None:
            return self._uniques.existing_item(placed, existing, item_id)
        return Item(
            value=push.value,
            priority=entry.priority,
            id=item_id,
            pushed_at=moment(pushed_at or 0) if self._codec.keeps_metadata else None,
            size_bytes=len(entry.value),
            state="ready" if until is None else "delayed",
            until=None if until is None else moment(until),
            queue=self._queue,
        )

    # Any number of items

    def push_many(
        self,
        items: Iterable[Any],
        delay: Duration | None,
        not_before: datetime.datetime | None,
        tr: Transaction | None,
    ) -> int:
        """Write values, or pairs of a value and a priority, and return how many."""
        entries = self.encoder.of_many(items, delay, not_before)
        if tr is not None:
            tr.get_read_version().wait()  # as write_in() does
            return len(self.put(tr, list(entries)))
        return self.put_all(entries)

    def put_all(self, entries: Iterable[Entry | None], beside: Beside | None = None) -> int:
        """Write any number of entries in as many transactions as that takes.

        Args:
            entries: The entries; None where those before it are not to wait for more.
            beside: Writes something else in each transaction.

        Returns:
            How many were written.

        Raises:
            PushInterrupted: Something failed when some were written already, or may be.
        """
        pushed = 0
        begun: list[Entry] = []
        try:
            for batch in self.encoder.split(entries):
                begun = batch
                put = functools.partial(self._put_batch, batch, beside)
                pushed += instrumentation.observed("push_many", self._queue, put)
                begun = []
        except BaseException as error:
            unknown = 0 if getattr(error, "outcome_known", False) else len(begun)
            if not isinstance(error, Exception):
                vars(error)["outcome_known"] = not pushed and not unknown
            elif pushed or isinstance(error, OutcomeUnknown):
                counts = {"pushed": pushed, **({"unknown": unknown} if unknown else {})}
                raise PushInterrupted(queue=self._queue, **counts) from error
            raise
        return pushed

    def _put_batch(self, entries: list[Entry], beside: Beside | None) -> int:
        """Write entries in a transaction of its own, and return how many."""
        put = functools.partial(self._put_beside, entries=entries, beside=beside)
        run(self._runner.database, put, wrote=lambda _: True)()
        return len(entries)

    def _put_beside(
        self, tr: Transaction, entries: list[Entry], beside: Beside | None
    ) -> Callable[[], None]:
        """Write entries and what goes beside them; return what to do once it is committed."""
        committed = _nothing if beside is None else beside(tr, entries)
        self.put(tr, entries)
        return committed

    # In a transaction

    def put(self, tr: Transaction, entries: list[Entry]) -> list[Placed]:
        """Write entries behind what is there, and return their places.

        Raises:
            KeyTooLarge: The subspace's prefix leaves no room for a key.
            CorruptItem: What is at the tail is no item.
            InvalidInput: What is at the tail was pushed in commit order, and this is not.
        """
        shared = SharedTransaction(tr, self._store)
        self.begin_reads(shared, entries)
        placed = self.apply(shared, entries)
        shared.count_change.write(tr)
        return placed

    def begin_reads(self, shared: SharedTransaction, entries: list[Entry]) -> None:
        """Ask which items have the unique keys, and where the queue ends for each priority.

        The latter in the recipes' order only, and by snapshot reads, so that pushes never conflict
        but for those of one unique key.
        """
        snapshot = shared.tr.snapshot
        high = None
        for entry in entries:
            if entry.mark:
                self._uniques.begin(shared, entry.mark)
            priority = entry.priority
            if not self._in_commit_order and priority not in shared.tails:
                if high is None:
                    high = snapshot[self._store.tables.high]
                begin, stop = self._keys.level(priority)
                tail = snapshot.get_range(begin, stop, limit=1, reverse=True)
                shared.tails[priority] = high, tail

    def apply(self, shared: SharedTransaction, entries: list[Entry]) -> list[Placed]:
        """Write entries behind what is there, and return their places; as :meth:`put` says.

        In place of an entry whose unique key an item has, that item's place is returned.
        """
        new = self._uniques.new(shared, entries) if shared.uniques else entries
        places = [self._place(shared, entry) for entry in new]
        for entry, place in zip(new, places, strict=True):
            self._write(shared.tr, shared.count_change, entry, place)
        shared.count_change.pushes += len(new)
        placed = [
            Placed(place, entry.pushed_at, entry.until)
            for entry, place in zip(new, places, strict=True)
        ]
        return self._uniques.merged(shared, entries, placed) if shared.uniques else placed

    def _place(self, shared: SharedTransaction, entry: Entry) -> Place:
        chunks = max(1, -(-len(entry.value) // MAX_VALUE_BYTES))
        if self._in_commit_order:
            place = self._keys.place_in_commit_order(entry.priority, chunks, entry.mark)
        else:
            index = shared.following.get(entry.priority)
            if index is None:
                index = self._behind(*shared.tails[entry.priority])
            shared.following[entry.priority] = index + 1
            place = self._keys.place(entry.priority, index, entry.random, chunks)
        if len(place.data) > self._max_place_bytes:
            size = len(self._keys.key(place.data)) + _TABLE_BYTES
            raise KeyTooLarge(queue=self._queue, size_bytes=size, limit_bytes=MAX_KEY_BYTES)
        return place

    def _behind(self, high: Any, tail: Iterable[Any]) -> int:
        """Return the next index above all that are ready or hidden."""
        following = self._keys.first_index
        for row in tail:  # first, because it comes last: then only one wait blocks
            sequence = self._store.reader.sequence(self._keys.place_of(row.key))
            if not isinstance(sequence, int):
                raise self._refusal()
            following = sequence + 1
        above = high_of(high) + 1
        if above > HIGHEST:
            raise self._refusal()
        return max(above, following)

    def _refusal(self) -> InvalidInput:
        return InvalidInput(
            queue=self._queue,
            reason="it has held items in commit order: push with order='commit', or clear it",
        )

    def _write(
        self, tr: Transaction, count_change: CountChange, entry: Entry, place: Place
    ) -> None:
        value = self._store.write_chunks(tr, place, entry.value)
        pushed_at = entry.pushed_at if self._codec.keeps_metadata else None
        if entry.until is None:
            place.set(tr, self._keys.key(b""), value)
            if entry.attempts and not self._codec.keeps_metadata:
                self._store.write_attempts(tr, place, entry.attempts)
            count_change.enter(tr, place, entry.priority, pushed_at)
        else:
            row = Row(place.data, value)
            hidden = Hidden(State.DELAYED, row, entry.until, entry.attempts, pushed_at)
            self._store.hide(tr, count_change, hidden, place=place)
