"""The items of one queue: read them, decode them, and move them between their states.

Each move is a few writes in the caller's transaction, the counts among them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from fdbqueue.engines.protocols import SnapshotTransaction, Transaction
from fdbqueue.exceptions import CorruptItem, InvalidInput, message_of
from fdbqueue.service.clock import moment
from fdbqueue.service.codecs import Codec
from fdbqueue.service.items import Item, Page, Undecodable
from fdbqueue.service.options import QueueOptions
from fdbqueue.service.sizes import CHUNK_BYTES, MAX_RETURNED_BYTES
from fdbqueue.service.storage.counts import HIGHEST, CountChange
from fdbqueue.service.storage.failures import FAILURES_BYTES, Failures, group_of_stored
from fdbqueue.service.storage.format import Format
from fdbqueue.service.storage.item_keys import (
    ENDS,
    UNTIL_TAKEN,
    WANT_ALL,
    End,
    ItemKeys,
    Loaded,
    Place,
    Position,
    Row,
    begin_rows,
)
from fdbqueue.service.storage.tables import (
    META_TAIL,
    STATE_NAMES,
    VALUE_TAIL,
    Hidden,
    Kind,
    State,
    TableKeys,
    chunk_tail,
    described,
    packed_facts,
    unpacked_facts,
)

STATES = {name: state for state, name in STATE_NAMES.items()}
_NOWHERE = Position(None, 0, 1)
_KINDS = {State.LEASED: Kind.LEASE, State.DELAYED: Kind.DELAY}


def check_state(state: str, queue: str) -> None:
    """Refuse the name of a state that does not exist.

    Raises:
        InvalidInput: It is neither ``"ready"`` nor a hidden state.
    """
    if state != "ready" and state not in STATES:
        raise InvalidInput(queue=queue, state=state, allowed=", ".join(["ready", *STATES]))


class ItemStore:
    """Read, decode and move the items of one queue: ready, leased, delayed and dead.

    Args:
        keys: The keys of its ready items.
        tables: The keys of its tables.
        codec: The queue's codec.
        format: What decides how its bytes are read.
        queue: The queue's name, for errors.
        options: The queue's options, for all of its parts.

    Attributes:
        home: What the log calls the queue: that which it is a part of, if a catalog says so.
    """

    def __init__(
        self,
        keys: ItemKeys,
        tables: TableKeys,
        codec: Codec,
        format: Format,
        queue: str,
        options: QueueOptions,
    ) -> None:
        self.keys = keys
        self.tables = tables
        self.codec = codec
        self.format = format
        self.queue = self.home = queue
        self.options = options
        self.failures = Failures(tables)
        #: Returns an empty change of the queue's counts, for a transaction.
        self.count_change = functools.partial(CountChange, tables)

    # Ready items that are taken: the caller clears their rows

    def remove_taken(self, count_change: CountChange, loaded: Loaded) -> None:
        """Remove an item that was taken; the caller has cleared its row, or its handoff."""
        tr = count_change.tr
        self._leave(count_change, loaded)
        if loaded.position.tag:
            self._free_key(tr, loaded.row.place, loaded.position.tag)
        if loaded.position.chunks > 1:
            tr.clear_range(*self.tables.chunks(loaded.row.place))
        if not isinstance(loaded.item, Item) or loaded.item.attempts:
            self.failures.remove(tr, loaded.row.place)
        count_change.pops += 1

    def requeue_taken(
        self,
        count_change: CountChange,
        loaded: Loaded,
        failures: Iterable[Any] = (),
        until: int | None = None,
    ) -> None:
        """Write a popped item again, as it was; the history still counts it as popped.

        Args:
            count_change: What the transaction changes in the counts.
            loaded: The item.
            failures: The rows of its failures, which its removal has removed.
            until: When its delay ends; None to make it ready.
        """
        assert isinstance(loaded.item, Item)
        tr = count_change.tr
        place = Place(loaded.row.place)
        first = self.write_chunks(tr, place, loaded.data)
        self.failures.restore(tr, failures)
        if until is not None:
            row, attempts = Row(place.data, first), loaded.item.attempts
            delayed = Hidden(State.DELAYED, row, until, attempts, loaded.pushed_at)
            self.hide(count_change, delayed)
            self.take_key_again(tr, place.data)
            return
        place.set(tr, self.keys.prefix_of(place.data), first)
        if loaded.has_attempts:
            self.write_attempts(tr, place, loaded.item.attempts)
        self.take_key_again(tr, place.data)
        count_change.enter(place, loaded.position.priority, loaded.pushed_at)

    def write_chunks(self, tr: Transaction, place: Place, data: bytes) -> bytes:
        """Write the chunks of a value except the first, and return the first."""
        rest = data[CHUNK_BYTES:]
        for number, start in enumerate(range(0, len(rest), CHUNK_BYTES)):
            piece = rest[start : start + CHUNK_BYTES]
            place.set(tr, self.tables.chunk_prefix, piece, chunk_tail(number))
        return data[:CHUNK_BYTES]

    def lease(
        self,
        count_change: CountChange,
        loaded: Loaded,
        until: int,
        secret: bytes,
        worker: bytes,
        began: int,
    ) -> Hidden:
        """Write a taken item to the table of leases; the caller clears its row."""
        assert isinstance(loaded.item, Item)
        self._leave(count_change, loaded)
        attempts = loaded.item.attempts
        lease = Hidden(
            State.LEASED, loaded.row, until, attempts, loaded.pushed_at, secret, worker, b"", began
        )
        self.hide(count_change, lease, position=loaded.position)
        return lease

    def bury(self, count_change: CountChange, loaded: Loaded, now: int, reason: str) -> None:
        """Write a ready item, or a row that is not an item, to the dead letters.

        The caller clears its row.
        """
        attempts = loaded.item.attempts if isinstance(loaded.item, Item) else 0
        self._leave(count_change, loaded)
        self.hide(
            count_change,
            Hidden(
                State.DEAD,
                loaded.row,
                now,
                attempts,
                loaded.pushed_at,
                reason=reason.encode(errors="replace"),
            ),
        )

    def _leave(self, count_change: CountChange, loaded: Loaded) -> None:
        count_change.leave(loaded.row.place, loaded.position.priority, loaded.pushed_at)
        if loaded.has_attempts:
            count_change.tr.clear(self.tables.attempts(loaded.row.place))

    # Into the hidden items and out of them

    def hide(
        self,
        count_change: CountChange,
        hidden: Hidden,
        *,
        place: Place | None = None,
        position: Position | None = None,
    ) -> None:
        """Write a hidden item.

        Args:
            count_change: What the transaction changes in the counts.
            hidden: The item.
            place: Its place, when the commit decides it.
            position: The parts of its place, when they are known.
        """
        tr = count_change.tr
        place = place or Place(hidden.row.place)
        prefix = self.tables.states[hidden.state]
        place.set(tr, prefix, packed_facts(hidden), META_TAIL)
        place.set(tr, prefix, hidden.row.value, VALUE_TAIL)
        kind = _KINDS.get(hidden.state)
        if kind is not None:
            place.set(tr, self.tables.due_prefix(hidden.until, kind), b"")
        if hidden.state is State.DELAYED:
            count_change.wakes += 1
            if self.tables.member is not None:
                count_change.come_at(hidden.until)
        elif hidden.state is State.DEAD:
            count_change.die(group_of_stored(hidden.reason), 1)
            died = self.tables.death(hidden.until, place.data)
            if died is not None:
                tr[died] = b""
        count_change.hide(hidden)
        if place.stamp_at is not None:
            count_change.high = HIGHEST
            return
        position = position or self.position(place.data)
        self.note_hidden(count_change, position)
        if position is not None and position.tag and _frees_key(hidden.state, position.tag):
            self._free_key(tr, place.data, position.tag)

    def note_hidden(self, count_change: CountChange, position: Position | None) -> None:
        """Note the place of an item that may be requeued, so that later pushes come after it."""
        if position is not None:
            in_commit_order = not isinstance(position.sequence, int)
            count_change.high = max(
                count_change.high, HIGHEST if in_commit_order else position.sequence
            )

    def reveal(self, count_change: CountChange, hidden: Hidden) -> None:
        """Remove a hidden item from its table; the caller writes it elsewhere, or not."""
        tr = count_change.tr
        for key in self.tables.hidden_keys(hidden.state, hidden.row.place):
            tr.clear(key)
        kind = _KINDS.get(hidden.state)
        if kind is not None:
            tr.clear(self.tables.due(hidden.until, kind, hidden.row.place))
        else:
            count_change.die(group_of_stored(hidden.reason), -1)
            died = self.tables.death(hidden.until, hidden.row.place)
            if died is not None:
                tr.clear(died)
        count_change.reveal(hidden)

    def requeued_row(self, tr: Transaction, hidden: Hidden, attempts: int) -> Row:
        """Return the row that requeues a hidden item with this number of attempts.

        When the stored value cannot hold the attempts, they are written to a row of their own.
        """
        if attempts == hidden.attempts == 0:
            return hidden.row
        row = self.with_attempts(hidden.row, attempts)
        if row is None and (attempts or self.codec.keeps_metadata):  # the value may say others
            self.write_attempts(tr, Place(hidden.row.place), attempts)
        return row or hidden.row

    def write_attempts(self, tr: Transaction, place: Place, attempts: int) -> None:
        """Write the attempts of a ready item to a row of their own, which its value cannot hold."""
        place.set(tr, self.tables.attempts(b""), attempts.to_bytes(4, "big"))
        tr[self.tables.retried] = b""

    def with_attempts(self, row: Row, attempts: int) -> Row | None:
        """Return the row with the attempts in its value, None when the value cannot hold them."""
        position = self.position(row.place)
        if not self.codec.keeps_metadata or position is None or position.chunks > 1:
            return None
        try:
            changed = self.codec.with_attempts(row.value, attempts)
        except (ValueError, TypeError):  # a buried row need not be an item
            return None
        return Row(row.place, changed) if len(changed) <= CHUNK_BYTES else None

    def write_rows(self, tr: Transaction, rows: Iterable[Row]) -> None:
        """Write rows again that this transaction itself has taken."""
        for row in rows:
            tr[self.keys.key(row.place)] = row.value

    def requeue_rows(self, count_change: CountChange, rows: Sequence[Row]) -> None:
        """Write the rows of handoffs again, which still count as ready."""
        if rows:
            self.write_rows(count_change.tr, rows)
            count_change.wakes += len(rows)  # those who wait for items look for them
            count_change.news_at = 0

    def requeue_hidden(self, count_change: CountChange, hidden: Hidden, row: Row) -> None:
        """Write the row of an item that :meth:`reveal` has removed, and count it as ready."""
        count_change.tr[self.keys.key(row.place)] = row.value
        self.count_ready(count_change, hidden)

    def count_ready(self, count_change: CountChange, hidden: Hidden) -> None:
        """Count an item that is ready again."""
        position = self.position(hidden.row.place)
        priority = None if position is None else position.priority
        count_change.enter(Place(hidden.row.place), priority, hidden.pushed_at)

    def remove_hidden(self, count_change: CountChange, hidden: Hidden) -> None:
        """Remove a hidden item for good."""
        tr = count_change.tr
        self.reveal(count_change, hidden)
        if hidden.attempts or hidden.state is State.DEAD:
            self.failures.remove(tr, hidden.row.place)
        position = self.position(hidden.row.place)
        if position is None:
            return
        if position.tag:
            self._free_key(tr, hidden.row.place, position.tag)
        if position.chunks > 1:
            tr.clear_range(*self.tables.chunks(hidden.row.place))

    # Unique keys (fdbqueue.service.uniques)

    def _free_key(self, tr: Transaction, place: bytes, tag: bytes) -> None:
        """Free the unique key of an item, if the item has it."""
        tr.compare_and_clear(self.tables.unique(tag), place)

    def take_key_again(self, tr: Transaction, place: bytes) -> bool:
        """Give an item that returns its unique key; False if another item has it."""
        position = self.position(place)
        if position is None or not position.tag:
            return True
        key = self.tables.unique(position.tag)
        found = tr[key]
        if found.present():
            return bytes(found) == place
        tr[key] = place
        return True

    # Reading the hidden items

    def begin_read(
        self, tr: Transaction | SnapshotTransaction, state: State, place: bytes
    ) -> tuple[Any, Any]:
        """Begin to read a hidden item; a transaction depends on it, a snapshot does not."""
        facts, value = self.tables.hidden_keys(state, place)
        return tr[facts], tr[value]

    def parse(self, state: State, place: bytes, read: tuple[Any, Any | None]) -> Hidden | None:
        """Return the hidden item that was read, None if there is none."""
        facts, value = read
        if not facts.present():
            return None
        if value is None:  # it was not read
            return unpacked_facts(state, Row(place, b""), bytes(facts))
        if not value.present():
            return None
        return unpacked_facts(state, Row(place, bytes(value)), bytes(facts))

    def find(self, tr: Transaction, state: State, place: bytes) -> Hidden | None:
        """Return the hidden item at a place, None when there is none."""
        return self.parse(state, place, self.begin_read(tr, state, place))

    def begin_facts(
        self, tr: Transaction | SnapshotTransaction, state: State, place: bytes
    ) -> tuple[Any, None]:
        """Begin to read a hidden item without its value."""
        return tr[self.tables.states[state] + place + META_TAIL], None

    def facts(
        self, tr: Transaction | SnapshotTransaction, state: State, places: Sequence[bytes]
    ) -> list[Hidden | None]:
        """Return hidden items without their values, None if there is none."""
        read = [self.begin_facts(tr, state, place) for place in places]
        return [self.parse(state, place, one) for place, one in zip(places, read, strict=True)]

    def shown(self, tr: Transaction, hidden: list[Hidden]) -> list[Item]:
        """Return hidden items, also items that cannot be decoded.

        Dead ones have their failures, which are read together with the rest.
        """
        failures = [
            self.failures.begin_read(tr, found.row.place)
            if found.state is State.DEAD and found.attempts
            else ()
            for found in hidden
        ]
        items = self.shown_rows(tr, [found.row for found in hidden], retried=False)
        return [
            described(item, found, self.failures.parse(rows))
            for item, found, rows in zip(items, hidden, failures, strict=True)
        ]

    def hidden_page(
        self, tr: Transaction, state: State, places: tuple[bytes, bytes], limit: int, end: End
    ) -> Page:
        """Return the hidden items in a state between two places, in their order."""
        prefix = self.tables.states[state]
        begin, stop = (prefix + place for place in places)
        found: list[Hidden] = []
        rows = size = 0
        before: tuple[bytes, bool, bytes] | None = None
        for row in begin_rows(tr, begin, stop, 2 * limit, end):
            rows += 1
            place, is_value = self.tables.hidden_place(state, row.key)
            if is_value:
                size += self.size_of(Row(place, row.value))
            if before is None or before[:2] != (place, not is_value):  # its other row follows
                before = (place, is_value, row.value)
                continue
            facts, value = (before[2], row.value) if is_value else (row.value, before[2])
            found.append(unpacked_facts(state, Row(place, value), facts))
            if state is State.DEAD:
                size += FAILURES_BYTES * bool(found[-1].attempts)
            before = None
            if len(found) == limit or size >= MAX_RETURNED_BYTES:
                break
        items = self.shown(tr, found)
        is_cut = bool(items) and (rows == 2 * limit or size >= MAX_RETURNED_BYTES)
        return Page(items, items[-1].id if is_cut else None)

    def last_place(self, tr: Transaction, state: State) -> bytes | None:
        """Return the place of the last hidden item in a state, None if there is none."""
        for row in tr.snapshot.get_range(*self.tables.state_bounds(state), limit=1, reverse=True):
            return self.tables.hidden_place(state, row.key)[0]
        return None

    def places(
        self,
        tr: Transaction,
        state: State,
        after: bytes | None,
        limit: int,
        last: bytes | None = None,
    ) -> list[bytes]:
        """Return the places of the next hidden items in a state, up to the last if one is given."""
        begin, stop = self.tables.state_bounds(state)
        if after is not None:
            begin = self.tables.hidden_keys(state, after)[1] + b"\x00"
        rows = tr.snapshot.get_range(begin, stop, limit=2 * limit)
        found = dict.fromkeys(self.tables.hidden_place(state, row.key)[0] for row in rows)
        return [place for place in found if last is None or place <= last]

    def ends(self, tr: Transaction) -> list[Position | None]:
        """Return the parts of the places of the first and the last ready item, if there are any."""
        reads = [begin_rows(tr.snapshot, *self.keys.bounds, 1, end) for end in ENDS]
        return [self.position(self.keys.place_of(row.key)) for rows in reads for row in rows]

    def position(self, place: bytes) -> Position | None:
        """Return the parts of a place, None when it is not an item's."""
        try:
            return self.keys.position(place)
        except (ValueError, TypeError):
            return None

    # Reading ready items, and decoding rows

    def size_of(self, row: Row) -> int:
        """Return about how long a row's value is, all chunks included."""
        size = len(row.value)
        if size < CHUNK_BYTES:
            return size
        position = self._position_of(row.place)
        return size * (1 if isinstance(position, CorruptItem) else position.chunks)

    def load(self, tr: Transaction, rows: Sequence[Row], *, retried: bool) -> list[Loaded]:
        """Return the items of rows, with the chunks and attempts that are stored apart.

        All reads are sent before the first is awaited.

        Args:
            tr: The transaction.
            rows: The rows.
            retried: Whether attempts may be stored in rows of their own.

        Raises:
            FormatMismatch: The queue was written under other settings.
        """
        if rows and not self.format.known_key:
            self.format.check(tr)
        begun = []
        for row in rows:
            try:
                position: Position | CorruptItem = self.keys.position(row.place)
            except (ValueError, TypeError) as error:
                position = self._corrupt(row.place, error)
            chunks = None
            if not isinstance(position, CorruptItem) and position.chunks > 1:
                bounds = self.tables.chunks(row.place)
                chunks = tr.get_range(*bounds, streaming_mode=WANT_ALL)
            attempts = tr[self.tables.attempts(row.place)] if retried else None
            begun.append((row, position, chunks, attempts))
        loaded = []
        for parts in begun:  # a comprehension would be one more call of each pop
            loaded.append(self._load(*parts))  # noqa: PERF401
        return loaded

    def _load(
        self, row: Row, position: Position | CorruptItem, chunks: Any, attempts: Any
    ) -> Loaded:
        has_attempts = attempts is not None and attempts.present()
        if isinstance(position, CorruptItem):
            return Loaded(row, _NOWHERE, position, None, has_attempts)
        data = row.value
        try:
            if chunks is not None:
                data += _joined(chunks, position.chunks - 1)
            stored = self.codec.decode(data)
        except (ValueError, TypeError) as error:
            corrupt = self._corrupt(row.place, error)
            pushed_at = self.codec.pushed_at(data)
            return Loaded(row, position, corrupt, pushed_at, has_attempts)
        item = Item(
            value=stored.value,
            priority=position.priority,
            id=self.keys.item_id(row.place),
            pushed_at=None if stored.pushed_at is None else moment(stored.pushed_at),
            attempts=int.from_bytes(bytes(attempts), "big") if has_attempts else stored.attempts,
            size_bytes=len(data),
            queue=self.queue,
        )
        return Loaded(row, position, item, stored.pushed_at, has_attempts, data)

    def shown_rows(self, tr: Transaction, rows: Sequence[Row], *, retried: bool) -> list[Item]:
        """Return the items of rows, also items that cannot be decoded."""
        return [self.shown_item(loaded) for loaded in self.load(tr, rows, retried=retried)]

    def ready_page(self, tr: Transaction, begin: bytes, stop: bytes, limit: int, end: End) -> Page:
        """Return the ready items between two places, and where the next page starts."""
        retried = tr.snapshot[self.tables.retried]
        rows: list[Row] = []
        size = 0
        for row in self.keys.begin_ready(tr, begin, stop, limit, end):
            rows.append(Row(self.keys.place_of(row.key), row.value))
            size += self.size_of(rows[-1])
            if size >= MAX_RETURNED_BYTES:
                break
        items = self.shown_rows(tr, rows, retried=retried.present())
        more = len(rows) == limit or size >= MAX_RETURNED_BYTES
        return Page(items, items[-1].id if more else None)

    def sequence(self, place: bytes) -> Any:
        """Return the order of a place among its equals.

        Raises:
            CorruptItem: It is not the place of an item.
        """
        position = self._position_of(place)
        if isinstance(position, CorruptItem):
            try:
                raise position
            finally:
                del position  # its traceback holds this frame, and with it the caller's items
        return position.sequence

    def _position_of(self, place: bytes) -> Position | CorruptItem:
        try:
            return self.keys.position(place)
        except (ValueError, TypeError) as error:
            return self._corrupt(place, error)

    def _corrupt(self, place: bytes, error: Exception) -> CorruptItem:
        return CorruptItem(queue=self.queue, id=self.keys.id_of(place), reason=message_of(error))

    def shown_item(self, loaded: Loaded) -> Item:
        """Return a decoded item, or what stands for one that cannot be decoded."""
        if isinstance(loaded.item, Item):
            return loaded.item
        return Item(
            value=Undecodable(loaded.row.value, loaded.item.context["reason"]),
            priority=loaded.position.priority,
            id=self.keys.id_of(loaded.row.place),
            pushed_at=None if loaded.pushed_at is None else moment(loaded.pushed_at),
            size_bytes=len(loaded.row.value),
            queue=self.queue,
        )


def _frees_key(state: State, tag: bytes) -> bool:
    """Tell whether an item that enters a hidden state gives its unique key up, given its tag."""
    return tag[:1] == UNTIL_TAKEN if state is State.LEASED else state is State.DEAD


def _joined(chunks: Iterable[Any], count: int) -> bytes:
    values = [chunk.value for chunk in chunks]
    if len(values) != count:
        raise ValueError(f"{len(values)} of its {count} later chunks are there")
    return b"".join(values)
