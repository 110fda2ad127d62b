"""Looking through a bounded part of a queue."""

from __future__ import annotations

import pytest

from fdbqueue.exceptions import InvalidInput
from fdbqueue.service import run
from fdbqueue.service.tools.streams import scan


def look(queue, matches=lambda item: True, found=10, looked_at=100, **bounds):
    """Scan a queue in a transaction of its own."""
    return run(
        queue.database,
        lambda tr: scan(
            queue, matches, tr=tr, most_found=found, most_looked_at=looked_at, **bounds
        ),
        read_only=True,
    )


def values(result):
    """Return what was found, with how many were passed by before."""
    return [(passed, item.value) for passed, item in result.found]


@pytest.mark.parametrize("end", ["min", "max"])
def test_what_fits_is_found_with_its_place(fifo, end):
    """In the order of the end, each with the number of items before it."""
    fifo.push_many(range(20))
    result = look(fifo, lambda item: item.value % 5 == 0, end=end)
    found = [(0, 0), (5, 5), (10, 10), (15, 15)]
    assert values(result) == (found if end == "min" else [(19 - p, v) for p, v in found[::-1]])
    assert (result.looked_at, result.cursor) == (20, None)


def test_a_scan_ends_where_enough_was_found(fifo):
    """The next one goes on right behind it, and nothing is passed by."""
    fifo.push_many(range(30))
    found, after = [], None
    while True:
        result = look(fifo, lambda item: item.value % 2 == 0, found=4, after=after)
        found += [item.value for _, item in result.found]
        if result.cursor is None:
            break
        after = result.cursor
    assert found == list(range(0, 30, 2))


def test_a_scan_ends_where_enough_was_looked_at(fifo):
    """It says how far it looked, and where to go on."""
    fifo.push_many(range(2_500))
    result = look(fifo, lambda item: item.value == 2_100, looked_at=2_000)
    assert (result.found, result.looked_at) == ([], 2_000)
    again = look(fifo, lambda item: item.value == 2_100, looked_at=2_000, after=result.cursor)
    assert values(again) == [(100, 2_100)]
    assert (again.looked_at, again.cursor) == (500, None)


@pytest.mark.parametrize("size", [99, 100, 101])
def test_there_is_a_cursor_only_where_there_is_more(fifo, size):
    """A full page of all there is leads to no empty one."""
    fifo.push_many(range(size))
    result = look(fifo, found=100)
    assert (result.looked_at, result.cursor is None) == (min(size, 100), size <= 100)


def test_a_scan_reads_a_bounded_number_of_bytes(fifo):
    """It ends before it has looked at all of the largest values, and can go on."""
    fifo.push_many("x" * 90_000 for _ in range(120))
    result = look(fifo, lambda item: False, looked_at=1_000)
    assert 50 <= result.looked_at < 120
    looked_at = result.looked_at
    while result.cursor is not None:
        result = look(fifo, lambda item: False, looked_at=1_000, after=result.cursor)
        looked_at += result.looked_at
    assert looked_at == 120


def test_a_scan_costs_few_reads(observed, subspace, fifo):
    """Two thousand items are looked at in two pages, each with the queue's format."""
    fifo.push_many(range(2_500))
    fifo.peek()  # has seen the queue's format
    fifo.database = observed
    look(fifo, lambda item: False, looked_at=2_000)
    assert len(observed.reads) == 6


@pytest.mark.parametrize("state", ["leased", "delayed", "dead"])
def test_hidden_items_are_looked_at_too(fifo, state):
    """Those of the state that was asked for."""
    if state == "delayed":
        fifo.push_many(range(5), delay=600)
    else:
        fifo.push_many(range(5))
        if state == "leased":
            fifo.lease_many(5)
        else:
            for item in fifo.page().items:
                fifo.bury(item.id)
    assert values(look(fifo, state=state, found=2)) == [(0, 0), (1, 1)]
    assert look(fifo).found == []


def test_a_position_of_another_queue_is_refused(fifo, ints):
    """A cursor means a place in one queue."""
    item = ints.push("x", 1)
    with pytest.raises(InvalidInput):
        look(fifo, after=item.id)


def test_a_scan_ends_when_it_is_late(fifo):
    """It has looked at one read's worth at least, and goes on from there."""
    fifo.push_many(range(2_500))
    result = look(fifo, lambda item: item.value == 2_100, looked_at=10_000, is_late=lambda: True)
    assert (result.found, result.looked_at) == ([], 1_001)
    asked = iter([False, True])
    again = look(
        fifo,
        lambda item: item.value == 2_100,
        looked_at=10_000,
        after=result.cursor,
        is_late=lambda: next(asked),
    )
    assert values(again) == [(1_099, 2_100)]
    assert (again.looked_at, again.cursor) == (1_499, None)


def test_a_scan_may_read_more_bytes(fifo):
    """As many as it is allowed, in reads that become shorter where values are large."""
    fifo.push_many("x" * 90_000 for _ in range(120))
    asked = []
    result = look(
        fifo,
        lambda item: False,
        looked_at=1_000,
        most_bytes=20_000_000,
        is_late=lambda: asked.append(1) or False,
    )
    assert (result.looked_at, result.cursor) == (120, None)
    assert len(asked) >= 4
