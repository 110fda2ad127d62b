"""Correct the counts of a queue, in bounded transactions, while others push and pop.

And its row in the index of its family, because those who keep no counts do not write it either.

The items and the counts are read at one version, and the difference is added to the counts, so
concurrent changes do not matter: they change both alike. Ready items are counted a priority at a
time, so the result is exact for each priority that one transaction can read.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.service.consume.prospect import Look
from fdbqueue.service.consume.round import Taker
from fdbqueue.service.items import Priority
from fdbqueue.service.storage.counts import Counters
from fdbqueue.service.storage.failures import group_of_stored
from fdbqueue.service.storage.item_keys import EVERY_PLACE, Bounds, Row
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.storage.tables import State, unpacked_facts
from fdbqueue.service.storage.whereabouts import handed_over
from fdbqueue.service.transactions import run
from fdbqueue.steady import monotonic

#: How long one transaction counts; FoundationDB ends it after five seconds.
_SECONDS = 2.0
_ROWS_AT_ONCE = 5_000
_AGES_AT_ONCE = 500
_LEVELS_AT_ONCE = 5_000
_REASONS_AT_ONCE = 5_000


class _Reach(NamedTuple):
    """How far the ready items have been counted.

    Attributes:
        place: Where to continue.
        low: The priority that the place is in, as the key of its count; None at the beginning,
            and in FIFO queues.
        carried: How many items of that priority were counted by earlier transactions.
        foreign: How many rows were found that are not items.
        is_done: Whether all were counted.
    """

    place: bytes
    low: bytes | None
    carried: int
    foreign: int
    is_done: bool


def recount(database: Database, taker: Taker) -> None:
    """Count everything in a queue, and correct its counts.

    Raises:
        FormatMismatch: The queue was written under other settings.
    """
    store = taker.store
    run(database, store.format.check, read_only=True)
    for state in State:
        _recount_hidden(database, store, state)
    while not _recount_reasons(database, store):
        pass
    reach = _Reach(EVERY_PLACE[0], None, 0, 0, False)
    while not reach.is_done:
        reach = run(database, functools.partial(_count_ready, store=store, reach=reach))
    if store.keys.has_priorities:
        run(database, functools.partial(_add_up, store=store, foreign=reach.foreign))
        _remove_ghosts(database, store)
    run(database, functools.partial(_forget_attempts, store=store))
    write_row(database, taker)


def write_row(database: Database, taker: Taker) -> None:
    """Write in the index of a queue's family from when it has something to take, if it has."""
    member = taker.store.tables.member
    if member is None:
        return

    def write(tr: Transaction) -> bool:
        found = Look(tr, taker, of_index=True).settle().prospect(to_lease=False)
        if found.moment is None:
            return False
        # a moment by this clock may be wrong: the next take says it
        member.announce(tr, found.moment if found.since is None else 0)
        return True

    run(database, write, wrote=bool)


def _recount_hidden(database: Database, store: ItemStore, state: State) -> None:
    def correct(tr: Transaction, number: int) -> None:
        difference = number - Counters(store.tables).hidden(tr)[state]
        count_change = _guarded(tr, store, difference)
        count_change.correct_hidden(state, difference)
        count_change.write()

    def is_value(row: Any) -> bool:
        return store.tables.hidden_place(state, row.key)[1]

    _count_rows(database, store.tables.state_bounds(state), is_value, correct)


def _count_rows(
    database: Database,
    bounds: Bounds,
    is_counted: Callable[[Any], bool],
    correct: Callable[[Transaction, int], None],
) -> None:
    """Count rows of a range, and correct in the last transaction what says how many there are."""
    begin, stop = bounds
    found = 0

    def count(tr: Transaction) -> tuple[bytes, int, bool]:
        key, number, deadline = begin, 0, _deadline(tr)
        for row in _rows(tr, begin, stop):
            key = row.key + b"\x00"
            number += is_counted(row)
            if monotonic() > deadline:
                return key, number, False
        correct(tr, found + number)
        return key, number, True

    is_done = False
    while not is_done:
        begin, number, is_done = run(database, count)
        found += number


def _deadline(tr: Transaction) -> float:
    """Return until when a transaction counts; an engine may take long to begin it."""
    tr.get_read_version().wait()
    return monotonic() + _SECONDS


def _recount_reasons(database: Database, store: ItemStore) -> bool:
    """Count the dead letters by reason; tell whether all counts are right now.

    One transaction corrects at most 5,000 counts; then all are counted again.
    """
    begin, stop = store.tables.state_bounds(State.DEAD)
    found: Counter[bytes] = Counter()

    def count(tr: Transaction) -> tuple[bytes, Counter[bytes], bool | None]:
        key, groups, deadline = begin, Counter[bytes](), _deadline(tr)
        for row in _rows(tr, begin, stop):
            key = row.key + b"\x00"
            place, is_value = store.tables.hidden_place(State.DEAD, row.key)
            if not is_value:
                hidden = unpacked_facts(State.DEAD, Row(place, b""), row.value)
                groups[group_of_stored(hidden.reason)] += 1
            if monotonic() > deadline:
                return key, groups, None
        differences = found + groups
        differences.subtract(Counters(store.tables).by_reason(tr))
        wrong = [(group, change) for group, change in differences.items() if change]
        count_change = _guarded(tr, store, wrong)
        for group, change in wrong[:_REASONS_AT_ONCE]:
            count_change.die(group, change)
        count_change.write()
        return key, groups, len(wrong) <= _REASONS_AT_ONCE

    is_right = None
    while is_right is None:
        begin, groups, is_right = run(database, count)
        found += groups
    return is_right


def _count_ready(tr: Transaction, store: ItemStore, reach: _Reach) -> _Reach:
    """Continue to count, and correct the priorities that were counted to their end."""
    found: Counter[bytes | None] = Counter()
    foreign = reach.foreign
    if reach.carried:
        found[reach.low] = reach.carried
    deadline = _deadline(tr)
    last, begins_at, stopped = reach.low, reach.place, False
    for place in _ready_places(tr, store, reach.place):
        position = store.position(place)
        if position is None:
            foreign += 1
            continue
        level = _level(store, position.priority)
        if level != last:
            if len(found) >= _LEVELS_AT_ONCE:
                return _corrected(tr, store, found, reach, place, level, foreign)
            last, begins_at = level, place
        found[level] += 1
        if monotonic() > deadline:
            stopped = True
            break
    if not stopped:
        _correct(tr, store, found, foreign, reach.low, None)
        return _Reach(reach.place, None, 0, foreign, True)
    carried = found.pop(last)
    if found or last != reach.low:  # the next transaction counts it again, with all its time
        return _corrected(tr, store, found, reach, begins_at, last, reach.foreign)
    return _Reach(place + b"\x00", last, carried, foreign, False)


def _corrected(
    tr: Transaction,
    store: ItemStore,
    found: Counter[bytes | None],
    reach: _Reach,
    place: bytes,
    high: bytes | None,
    foreign: int,
) -> _Reach:
    """Correct the priorities below ``high``, and continue from there."""
    _correct(tr, store, found, foreign, reach.low, high)
    return _Reach(place, high, 0, foreign, False)


def _level(store: ItemStore, priority: Priority | None) -> bytes | None:
    return None if priority is None else store.tables.level(priority)


def _correct(
    tr: Transaction,
    store: ItemStore,
    found: Counter[bytes | None],
    foreign: int,
    low: bytes | None,
    high: bytes | None,
) -> None:
    """Correct the counts of the priorities from ``low`` to below ``high``; None for no bound."""
    for row in handed_over(tr, store):
        position = store.position(row.place)
        if position is None:
            foreign += not store.keys.has_priorities
            continue
        level = _level(store, position.priority)
        if level is None or ((low or b"") <= level and (high is None or level < high)):
            found[level] += 1
    if not store.keys.has_priorities:
        difference = found[None] + foreign - Counters(store.tables).size(tr)
        count_change = _guarded(tr, store, difference)
        count_change.ready = difference
        count_change.write()
        return
    found.subtract(Counters(store.tables).levels(tr, low, high))
    count_change = _guarded(tr, store, any(found.values()))
    for level, difference in found.items():
        if level is not None and difference:
            count_change.correct(level, difference)
    count_change.write()


def _add_up(tr: Transaction, store: ItemStore, foreign: int) -> None:
    """Make the count of all ready items the sum of those by priority."""
    counters = Counters(store.tables)
    total = sum(counters.levels(tr, None, None).values())
    total += sum(store.position(row.place) is None for row in handed_over(tr, store))
    difference = total + foreign - counters.size(tr)
    count_change = _guarded(tr, store, difference)
    count_change.ready = difference
    count_change.write()


def _guarded(tr: Transaction, store: ItemStore, changes: Any) -> Any:
    """Return a change of the counts; two recounts that write one at once conflict.

    So does one with a change of the format, and then it finds another one.
    """
    store.format.check(tr)
    tr.add_read_conflict_key(store.tables.recounted)
    if changes:
        tr[store.tables.recounted] = b""
    return store.count_change(tr)


def _remove_ghosts(database: Database, store: ItemStore) -> None:
    """Remove the ages of items that foreign poppers have taken."""
    begin: bytes | None = store.tables.ages[0]

    def remove(tr: Transaction, begin: bytes) -> bytes | None:
        rows = list(tr.snapshot.get_range(begin, store.tables.ages[1], limit=_AGES_AT_ONCE))
        handed = {row.place for row in handed_over(tr, store)}
        places = [store.tables.parse_dated(row.key)[1] for row in rows]
        reads = [tr[store.keys.key(place)] for place in places]
        for row, place, value in zip(rows, places, reads, strict=True):
            if not value.present() and place not in handed:
                tr.clear(row.key)
        return rows[-1].key + b"\x00" if len(rows) == _AGES_AT_ONCE else None

    while begin is not None:
        begin = run(database, functools.partial(remove, begin=begin))


def _forget_attempts(tr: Transaction, store: ItemStore) -> None:
    """Clear the row that says that attempts have rows of their own, if they have none."""
    noted = tr.snapshot[store.tables.retried]
    if noted.present() and not any(True for _ in tr.get_range(*store.tables.all_attempts)):
        tr.clear(store.tables.retried)


def _ready_places(tr: Transaction, store: ItemStore, begin: bytes) -> Iterator[bytes]:
    """Yield the places of the ready items from one on, in their order."""
    while True:
        rows = store.keys.begin_ready(tr.snapshot, begin, EVERY_PLACE[1], _ROWS_AT_ONCE, "min")
        some = [store.keys.place_of(row.key) for row in rows]
        yield from some
        if len(some) < _ROWS_AT_ONCE:
            return
        begin = some[-1] + b"\x00"


def _rows(tr: Transaction, begin: bytes, stop: bytes) -> Iterator[Any]:
    while True:
        some = list(tr.snapshot.get_range(begin, stop, limit=_ROWS_AT_ONCE))
        yield from some
        if len(some) < _ROWS_AT_ONCE:
            return
        begin = some[-1].key + b"\x00"
