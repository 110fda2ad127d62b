"""Put the counts right, in bounded transactions, while others push and pop.

What is counted and what the counts say are read at one version, and the difference is added
to the counts: whatever others change meanwhile changes both alike. Ready items are counted a
priority at a time, so that is exact for each priority that one transaction can read.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.service.items import Priority
from fdbqueue.service.storage.counts import Counters
from fdbqueue.service.storage.handoffs import all_handoffs
from fdbqueue.service.storage.store import Stock
from fdbqueue.service.storage.tables import State
from fdbqueue.service.transactions import run

#: One transaction counts for so long; FoundationDB ends it after five seconds.
_SECONDS = 2.0
_ROWS_AT_ONCE = 5_000
_AGES_AT_ONCE = 500
_LEVELS_AT_ONCE = 5_000


class _Reach(NamedTuple):
    """How far the ready items have been counted.

    Attributes:
        key: Where to go on.
        low: The priority that key is in, as the key of its count; None at the beginning,
            and in FIFO queues.
        carried: How many of that priority were counted by earlier transactions.
        foreign: How many rows were found that are no items.
        is_done: Whether all were counted.
    """

    key: bytes
    low: bytes | None
    carried: int
    foreign: int
    is_done: bool


def recount(database: Database, stock: Stock) -> None:
    """Count everything in a queue, and add to its counts what they lack."""
    for state in State:
        _recount_hidden(database, stock, state)
    reach = _Reach(stock.keys.bounds()[0], None, 0, 0, False)
    while not reach.is_done:
        reach = run(database, functools.partial(_count_ready, stock=stock, reach=reach))
    if stock.keys.has_priorities:
        run(database, functools.partial(_add_up, stock=stock, foreign=reach.foreign))
        _remove_ghosts(database, stock)
    run(database, functools.partial(_forget_attempts, stock=stock))


def _recount_hidden(database: Database, stock: Stock, state: State) -> None:
    begin, stop = stock.meta.state_bounds(state)
    found = 0

    def count(tr: Transaction) -> tuple[bytes, int, bool]:
        key, number, deadline = begin, 0, time.monotonic() + _SECONDS
        for row in _rows(tr, begin, stop):
            key = row.key + b"\x00"
            number += stock.meta.hidden_place(state, row.key)[1]
            if time.monotonic() > deadline:
                return key, number, False
        difference = found + number - Counters(stock.meta).hidden(tr)[state]
        tally = _guarded(tr, stock, difference)
        tally.hide(state, difference)
        tally.write(tr)
        return key, number, True

    is_done = False
    while not is_done:
        begin, number, is_done = run(database, count)
        found += number


def _count_ready(tr: Transaction, stock: Stock, reach: _Reach) -> _Reach:
    """Count on, and correct the priorities that were counted to their end."""
    found: Counter[bytes | None] = Counter()
    foreign = reach.foreign
    if reach.carried:
        found[reach.low] = reach.carried
    deadline = time.monotonic() + _SECONDS
    last, begins_at, stopped = reach.low, reach.key, False
    for row in _rows(tr, reach.key, stock.keys.bounds()[1]):
        place = stock.keys.place_of(row.key)
        position = stock.position(place)
        if position is None:
            foreign += 1
            continue
        level = _level(stock, position.priority)
        if level != last:
            if len(found) >= _LEVELS_AT_ONCE:
                return _corrected(tr, stock, found, reach, row.key, level, foreign)
            last, begins_at = level, row.key
        found[level] += 1
        if time.monotonic() > deadline:
            stopped = True
            break
    if not stopped:
        _correct(tr, stock, found, foreign, reach.low, None)
        return _Reach(reach.key, None, 0, foreign, True)
    carried = found.pop(last)
    if found or last != reach.low:  # it is counted anew, with all the time there is
        return _corrected(tr, stock, found, reach, begins_at, last, reach.foreign)
    return _Reach(row.key + b"\x00", last, carried, foreign, False)


def _corrected(
    tr: Transaction,
    stock: Stock,
    found: Counter[bytes | None],
    reach: _Reach,
    key: bytes,
    high: bytes | None,
    foreign: int,
) -> _Reach:
    """Correct the priorities below one, and go on from there."""
    _correct(tr, stock, found, foreign, reach.low, high)
    return _Reach(key, high, 0, foreign, False)


def _level(stock: Stock, priority: Priority | None) -> bytes | None:
    return None if priority is None else stock.meta.level(priority)


def _correct(
    tr: Transaction,
    stock: Stock,
    found: Counter[bytes | None],
    foreign: int,
    low: bytes | None,
    high: bytes | None,
) -> None:
    """Correct the counts of the priorities from ``low`` up to ``high``, or all of them."""
    for place in _handed(tr, stock):
        position = stock.position(place)
        if position is None:
            foreign += not stock.keys.has_priorities
            continue
        level = _level(stock, position.priority)
        if level is None or ((low or b"") <= level and (high is None or level < high)):
            found[level] += 1
    if not stock.keys.has_priorities:
        difference = found[None] + foreign - Counters(stock.meta).size(tr)
        tally = _guarded(tr, stock, difference)
        tally.ready = difference
        tally.write(tr)
        return
    found.subtract(Counters(stock.meta).levels(tr, low, high))
    tally = _guarded(tr, stock, any(found.values()))
    for level, difference in found.items():
        if level is not None and difference:
            tally.correct(level, difference)
    tally.write(tr)


def _add_up(tr: Transaction, stock: Stock, foreign: int) -> None:
    """Make the count of all ready items the sum of those by priority."""
    counters = Counters(stock.meta)
    total = sum(counters.levels(tr, None, None).values())
    total += sum(stock.position(place) is None for place in _handed(tr, stock))
    difference = total + foreign - counters.size(tr)
    tally = _guarded(tr, stock, difference)
    tally.ready = difference
    tally.write(tr)


def _guarded(tr: Transaction, stock: Stock, changes: Any) -> Any:
    """Return an account that two recounts at once do not both write."""
    tr.add_read_conflict_key(stock.meta.recounted)
    if changes:
        tr[stock.meta.recounted] = b""
    return stock.tally()


def _remove_ghosts(database: Database, stock: Stock) -> None:
    """Remove the ages of items that foreign poppers have taken."""
    begin: bytes | None = stock.meta.ages()[0]

    def remove(tr: Transaction, begin: bytes) -> bytes | None:
        rows = list(tr.snapshot.get_range(begin, stock.meta.ages()[1], limit=_AGES_AT_ONCE))
        handed = set(_handed(tr, stock))
        places = [stock.meta.parse_age(row.key)[1] for row in rows]
        there = [tr[stock.keys.key(place)] for place in places]
        for row, place, value in zip(rows, places, there, strict=True):
            if not value.present() and place not in handed:
                tr.clear(row.key)
        return rows[-1].key + b"\x00" if len(rows) == _AGES_AT_ONCE else None

    while begin is not None:
        begin = run(database, functools.partial(remove, begin=begin))


def _forget_attempts(tr: Transaction, stock: Stock) -> None:
    """Let poppers know when no attempts are kept apart from their items any more."""
    marked = tr.snapshot[stock.meta.retried]
    if marked.present() and not any(True for _ in tr.get_range(*stock.meta.all_attempts())):
        tr.clear(stock.meta.retried)


def _rows(tr: Transaction, begin: bytes, stop: bytes) -> Iterator[Any]:
    while True:
        some = list(tr.snapshot.get_range(begin, stop, limit=_ROWS_AT_ONCE))
        yield from some
        if len(some) < _ROWS_AT_ONCE:
            return
        begin = some[-1].key + b"\x00"


def _handed(tr: Transaction, stock: Stock) -> Iterator[bytes]:
    """Yield the places of what was taken for poppers who have not collected it yet."""
    for _, handoff in all_handoffs(tr, stock.meta):
        yield from (row.place for row in handoff.rows)
