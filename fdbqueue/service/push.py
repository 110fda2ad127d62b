"""Push items: one, several in one transaction, or any number split into transactions.

How a push goes: the :class:`~fdbqueue.service.entries.Encoder` checks and encodes the values.
:class:`PushWrite` is the one operation that pushes them. It goes to the combiner of the queue's
writes (:mod:`fdbqueue.service.writes`), and may share its transaction with those of other
threads. Under an idempotency key it has a transaction of its own, which looks for the saved
response first. Either way the transaction reads where the queue ends (in the recipes' order
alone, by a snapshot read), and writes the items and the counts. Pushes never conflict, but for
those of one unique key or idempotency key.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import InvalidInput, KeyTooLarge, OutcomeUnknown, PushInterrupted
from fdbqueue.service import instrumentation
from fdbqueue.service.clock import moment
from fdbqueue.service.entries import Encoder, Entry
from fdbqueue.service.idempotency import (
    IdempotencyKey,
    KeyedCall,
    Placed,
    SavedResponses,
    make_call,
    packed_places,
    unpacked_places,
)
from fdbqueue.service.items import Duration, Item, Priority, Push
from fdbqueue.service.sizes import CHUNK_BYTES, MAX_KEY_BYTES
from fdbqueue.service.storage.counts import HIGHEST, high_of
from fdbqueue.service.storage.item_keys import Place, Row
from fdbqueue.service.storage.tables import Hidden, State
from fdbqueue.service.transactions import run, run_stamped
from fdbqueue.service.uniques import UniqueKeys, tag_of
from fdbqueue.service.writes import Runner, SharedTransaction, Write

T = TypeVar("T")

#: What the keys of the queue's tables have more than those of its items.
_TABLE_BYTES = 16

#: Writes something in the transaction that pushes some entries, and returns what to do once
#: that is committed.
Beside = Callable[[Transaction, list[Entry]], Callable[[], None]]
#: Writes something more in the transaction that pushes an item, given the item's id.
BesideItem = Callable[[Transaction, str], None]
#: Pushes what was prepared, in the transaction it is given, or in one of its own for None.
Prepared = Callable[[Transaction | None], list[Item]]


def push_portions(queue: str, portions: Iterable[list[T]], put: Callable[[list[T]], int]) -> int:
    """Push portions, each in a transaction of its own, and return how many items they were.

    Args:
        queue: The queue's name, for errors.
        portions: The portions.
        put: Pushes one, and returns how many it is.

    Raises:
        PushInterrupted: Something failed when some were pushed already, or may be.
    """
    pushed = 0
    begun: list[T] = []
    try:
        for portion in portions:
            begun = portion
            pushed += put(portion)
            begun = []
    except BaseException as error:
        unknown = 0 if getattr(error, "outcome_known", False) else len(begun)
        if not isinstance(error, Exception):
            vars(error)["outcome_known"] = not pushed and not unknown
        elif pushed or isinstance(error, OutcomeUnknown):
            counts = {"pushed": pushed, **({"unknown": unknown} if unknown else {})}
            raise PushInterrupted(queue=queue, **counts) from error
        raise
    return pushed


class PushWrite(Write):
    """The push of some items, which may share its transaction.

    Attributes:
        placed: Where the items were written, by the last attempt or by an earlier call; in place
            of one whose unique key an item has, that item's place.
    """

    __slots__ = ("_entries", "_pusher", "_pushes", "placed")

    def __init__(
        self,
        pusher: Pusher,
        pushes: Sequence[Push],
        entries: list[Entry],
        size_bytes: int = 0,
        beside: BesideItem | None = None,
    ) -> None:
        super().__init__(pusher.store, size_bytes, beside=beside)
        self._pusher = pusher
        self._pushes = pushes
        self._entries = entries
        self.placed: list[Placed] = []

    def begin_reads(self, shared: SharedTransaction) -> None:
        """Ask which items have the unique keys, where each priority ends, and for the format.

        For the ends in the recipes' order only, and by snapshot reads, so that pushes never
        conflict but for those of one unique key. A queue with shards needs the read version
        instead.
        """
        pusher, tails = self._pusher, shared.tails
        for entry in self._entries:
            if entry.tag:
                pusher.uniques.begin(shared, entry.tag)
            if entry.priority in tails or pusher.in_commit_order:
                continue
            if pusher.has_shards:
                if shared.version is None:
                    shared.version = shared.tr.get_read_version()
                continue
            snapshot = shared.tr.snapshot
            if shared.high is None:
                shared.high = snapshot[self.store.tables.high]
            begin, stop = self.store.keys.level(entry.priority)
            tails[entry.priority] = snapshot.get_range(begin, stop, limit=1, reverse=True)
        shared.begin_format()

    def apply(self, shared: SharedTransaction) -> None:
        """Write the items after the ones that are there.

        Raises:
            KeyTooLarge: The subspace's prefix leaves no room for a key.
            CorruptItem: What is at the tail is no item.
            InvalidInput: What is at the tail was pushed in commit order, and this is not.
        """
        uniques = self._pusher.uniques if shared.uniques else None
        new = self._entries if uniques is None else uniques.new(shared, self._entries)
        placed: list[Placed] = []
        for entry in new:  # all of them, before anything is written
            place = self._place(shared, entry)
            # A comprehension would be one more call of each push.
            placed.append(Placed(place, entry.pushed_at, entry.until))
        if new and shared.lacks_format:
            shared.adopt()
        for entry, (place, *_) in zip(new, placed, strict=True):
            self._write(shared, entry, place)
        shared.count_change.pushes += len(new)
        if uniques is not None:
            placed = uniques.merged(shared, self._entries, placed)
        self.placed = placed
        if self.beside is not None:
            for place, _, _, existing in placed:
                if existing is None:
                    is_known = place.stamp_at is None
                    self.beside(shared.tr, self.store.keys.item_id(place.data) if is_known else "")

    def _place(self, shared: SharedTransaction, entry: Entry) -> Place:
        keys = self.store.keys
        chunks = max(1, -(-len(entry.value) // CHUNK_BYTES))
        if self._pusher.in_commit_order:
            place = keys.place_in_commit_order(entry.priority, chunks, entry.tag)
        elif shared.version is not None:
            version = int(shared.version.wait())
            place = keys.place(entry.priority, version, entry.random, chunks)
        else:
            index = shared.following.get(entry.priority)
            if index is None:
                index = self._behind(shared, entry.priority)
            shared.following[entry.priority] = index + 1
            place = keys.place(entry.priority, index, entry.random, chunks)
        if len(place.data) > self._pusher.max_place_bytes:
            size = len(keys.key(place.data)) + _TABLE_BYTES
            raise KeyTooLarge(queue=self.store.queue, size_bytes=size, limit_bytes=MAX_KEY_BYTES)
        return place

    def _behind(self, shared: SharedTransaction, priority: Priority | None) -> int:
        """Return the next index above all that are ready or hidden."""
        keys = self.store.keys
        following: int | None = keys.first_index
        for row in shared.tails[priority]:  # first, because it comes last: then one wait blocks
            sequence = keys.usual_sequence(row.key, priority)
            if sequence is None:
                sequence = self.store.sequence(keys.place_of(row.key))
            following = sequence + 1 if isinstance(sequence, int) else None
        above = high_of(shared.high) + 1
        if following is None or above > HIGHEST:
            reason = "it has held items in commit order: push with order='commit', or clear it"
            raise InvalidInput(queue=self.store.queue, reason=reason)
        return max(above, following)

    def _write(self, shared: SharedTransaction, entry: Entry, place: Place) -> None:
        store, tr = self.store, shared.tr
        value = entry.value
        if len(value) > CHUNK_BYTES:
            value = store.write_chunks(tr, place, value)
        keeps_metadata = store.codec.keeps_metadata
        pushed_at = entry.pushed_at if keeps_metadata else None
        if entry.until is None:
            place.set(tr, store.keys.prefix_of(place.data), value)
            if entry.attempts and not keeps_metadata:
                store.write_attempts(tr, place, entry.attempts)
            shared.count_change.enter(place, entry.priority, pushed_at)
        else:
            row = Row(place.data, value)
            hidden = Hidden(State.DELAYED, row, entry.until, entry.attempts, pushed_at)
            store.hide(shared.count_change, hidden, place=place)

    def result_from(self, stamp: bytes) -> list[Item]:
        """Return the items that were pushed or found."""
        keys, keeps_metadata = self.store.keys, self.store.codec.keeps_metadata
        items = []
        for push, entry, placed in zip(self._pushes, self._entries, self.placed, strict=True):
            place, pushed_at, until, existing = placed
            if place.stamp_at is None:
                item_id = keys.item_id(place.data)
            else:
                item_id = keys.item_id(place.stamped(stamp)) if stamp else ""
            if existing is not None:
                items.append(self._pusher.uniques.existing_item(placed, existing, item_id))
                continue
            item = Item(
                value=push.value,
                priority=entry.priority,
                id=item_id,
                pushed_at=moment(pushed_at or 0) if keeps_metadata else None,
                size_bytes=len(entry.value),
                state="ready" if until is None else "delayed",
                until=None if until is None else moment(until),
                queue=self.store.queue,
            )
            items.append(item)
        return items


class Pusher:
    """Push items to one queue.

    Args:
        runner: Runs its operations.
        encoder: Checks and encodes what is pushed.
        responses: The saved responses of calls with an idempotency key.
    """

    def __init__(self, runner: Runner, encoder: Encoder, responses: SavedResponses) -> None:
        self._runner = runner
        self._responses = responses
        self.store = store = encoder.store
        self._queue = store.queue
        self.uniques = UniqueKeys(store)
        self.has_shards = store.keys.shards > 0
        self.in_commit_order = store.options.in_commit_order
        #: The longest place whose keys FoundationDB takes.
        self.max_place_bytes = MAX_KEY_BYTES - _TABLE_BYTES - len(store.keys.prefix_of(b""))
        self.encoder = encoder

    # Some items in one transaction

    def prepare(
        self, push: Push, once: IdempotencyKey | str | None, beside: BesideItem | None = None
    ) -> Prepared:
        """Check and encode a value now, to be pushed later, and something more beside it."""
        return self._prepared("push", [push], [self._entry(push)], once, beside)

    def prepare_batch(self, pushes: Sequence[Push], once: IdempotencyKey | str | None) -> Prepared:
        """Check and encode values now, to be pushed later in one transaction."""
        pushes, entries = list(pushes), []
        for index, push in enumerate(pushes):
            try:
                entries.append(self._entry(push))
            except InvalidInput as error:
                raise type(error)(**error.context, index=index) from error
        self.encoder.check_fits_transaction(entries)
        if not entries and once is None:
            return lambda _: []
        return self._prepared("push_batch", pushes, entries, once)

    def _entry(self, push: Push) -> Entry:
        unique = push.unique
        tag = b"" if unique is None else tag_of(self._queue, unique, push.unique_while)
        return self.encoder.of_push(push, tag)

    def _prepared(
        self,
        verb: str,
        pushes: Sequence[Push],
        entries: list[Entry],
        once: IdempotencyKey | str | None,
        beside: BesideItem | None = None,
    ) -> Prepared:
        write = PushWrite(self, pushes, entries, self.encoder.sent_bytes(entries), beside)
        if once is None:
            return functools.partial(self._runner.share, "push", write)
        call = make_call(self._queue, once, verb, *map(self.encoder.facts, pushes, entries))
        return functools.partial(self._push_once, write, call)

    def _push_once(self, write: PushWrite, call: KeyedCall, tr: Transaction | None) -> list[Item]:
        """Push in one transaction unless the call was made before; return the items."""

        def put(tr: Transaction) -> bytes | None:
            """Return the stamp of the commit that pushed them before, None if there is none."""
            found = self._responses.recall(self._responses.begin_recall(tr, call), call)
            if found is not None:
                write.placed = unpacked_places(found[0])
                return found[1]
            write.apply_alone(tr)
            places = packed_places(write.placed)
            self._responses.save(tr, call, places, stamped=self.in_commit_order)
            return None

        def push() -> list[Item]:
            earlier, stamp = run_stamped(
                self._runner.database,
                put,
                wrote=lambda earlier: earlier is None,
                stamped=self.in_commit_order,
            )
            return write.result_from(earlier or stamp)

        if tr is not None:
            return write.result_from(put(tr) or b"")
        return instrumentation.observed("push", self._queue, push)

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
            tr.get_read_version().wait()  # as Write.do_in() does
            return len(self.put(tr, list(entries)))
        return self.put_all(entries)

    def put_all(self, entries: Iterable[Entry | None], beside: Beside | None = None) -> int:
        """Write any number of entries in as many transactions as that takes.

        Args:
            entries: The entries; None if those before it are not to wait for more.
            beside: Writes something else in each transaction.

        Returns:
            How many were written.

        Raises:
            PushInterrupted: Something failed when some were written already, or may be.
        """

        def put(batch: list[Entry]) -> int:
            observed = instrumentation.observed
            return observed("push_many", self._queue, self._put_batch, batch, beside)

        return push_portions(self._queue, self.encoder.split(entries), put)

    def _put_batch(self, entries: list[Entry], beside: Beside | None) -> int:
        """Write entries in a transaction of its own, and return how many."""

        def put(tr: Transaction) -> Callable[[], None] | None:
            """Write entries and what goes beside them; return what to do after the commit."""
            committed = None if beside is None else beside(tr, entries)
            self.put(tr, list(entries))
            return committed

        committed = run(self._runner.database, put, wrote=True)
        if committed is not None:
            committed()
        return len(entries)

    def put(self, tr: Transaction, entries: list[Entry]) -> list[Placed]:
        """Write entries as :class:`PushWrite` does, and return their places."""
        write = PushWrite(self, (), entries)
        write.apply_alone(tr)
        return write.placed
