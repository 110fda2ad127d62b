"""Looking into a queue: pages, cursors, single items, and counts of what it costs."""

from __future__ import annotations

import pytest

from fdbqueue.exceptions import InvalidInput, InvalidPriority
from fdbqueue.service import FifoQueue, Undecodable


def walk(queue, **options):
    """Return the values of all pages, and how many pages there were."""
    values, cursor, pages = [], None, 0
    while True:
        page = queue.page(after=cursor, **options)
        values += [item.value for item in page.items]
        pages += 1
        if page.cursor is None:
            return values, pages
        cursor = page.cursor


def test_a_full_last_page_is_followed_by_an_empty_one(fifo):
    """A cursor is given whenever the limit ended the page."""
    fifo.push_many(range(4))
    assert walk(fifo, limit=2) == ([0, 1, 2, 3], 3)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"min_priority": 2}, [2, 3, 4]),
        ({"max_priority": 1}, [0, 1]),
        ({"min_priority": 1, "max_priority": 3}, [1, 2, 3]),
        ({"min_priority": 3, "max_priority": 1}, []),
        ({"min_priority": 9}, []),
    ],
)
def test_a_page_keeps_to_a_range_of_priorities(ints, bounds, expected):
    """Bounds are inclusive, and hold from page to page."""
    ints.push_many([(n, n) for n in range(5)])
    assert walk(ints, limit=2, **bounds)[0] == expected
    assert walk(ints, limit=2, end="max", **bounds)[0] == expected[::-1]


def test_a_bound_must_fit_the_priority_type(ints, fifo):
    """A fraction is no bound of an int queue, and a FIFO queue has none."""
    with pytest.raises(InvalidPriority):
        ints.page(min_priority=0.5)
    with pytest.raises(InvalidPriority):
        fifo.page(max_priority=1)


def test_pages_stay_right_while_others_push_and_pop(fifo):
    """A page starts behind the item before it, also when that was popped meanwhile."""
    fifo.push_many(range(6))
    first = fifo.page(limit=3)
    fifo.pop_many(4)
    fifo.push(6)
    second = fifo.page(after=first.cursor, limit=10)
    assert [item.value for item in second.items] == [4, 5, 6]


def test_iteration_yields_everything_in_order(fifo):
    """A queue longer than one page is iterated whole, from either end or from an item."""
    fifo.push_many(range(1203))
    assert [item.value for item in fifo] == list(range(1203))
    assert [item.value for item in fifo.iterate(end="max")] == list(range(1202, -1, -1))
    start = fifo.page(limit=1000).items[-1].id
    assert [item.value for item in fifo.iterate(after=start)] == list(range(1000, 1203))


def test_an_empty_queue_has_nothing_to_give(ints):
    """Empty is None or an empty list, never an error."""
    assert (ints.pop(), ints.pop_max(), ints.peek(), ints.peek_max()) == (None,) * 4
    assert (ints.pop_many(5), ints.peek_many(5), ints.page().items) == ([], [], [])


def test_an_item_has_one_id(ints):
    """Another text of the same bytes is refused, on all versions of Python."""
    pushed = ints.push({"a": 1}, 3)
    for wrong in (
        f"{pushed.id}=",
        f"{pushed.id}!",
        f"\n{pushed.id}",
        f"{pushed.id[:-1]}\t{pushed.id[-1]}",
    ):
        with pytest.raises(InvalidInput):
            ints.get(wrong)


def test_an_id_of_another_kind_of_queue_is_refused(ints, database, subspace):
    """The place of a FIFO item is no place in a priority queue."""
    pushed = FifoQueue(database, subspace["other"]).push("x")
    with pytest.raises(InvalidInput):
        ints.get(pushed.id)
    with pytest.raises(InvalidInput):
        ints.page(after=pushed.id)


def test_pages_go_past_foreign_keys(ints, database, subspace):
    """A key that is no item's is shown, has a page after it, and can be looked at."""
    ints.push("first", 1)
    transaction = database.create_transaction()
    for number in range(3):
        transaction[subspace.pack(("foreign", number))] = b"x"
        transaction[subspace.key() + b"\x02\xff\xff%d" % number] = b"y"
    transaction.commit().wait()
    ints.push("last", 2)
    values, pages = walk(ints, limit=1)
    assert pages == 9
    assert [v for v in values if isinstance(v, str)] == ["first", "last"]
    foreign = [item for item in ints if isinstance(item.value, Undecodable)]
    assert [ints.get(item.id) for item in foreign] == foreign


def test_a_page_shows_what_cannot_be_decoded(ints, database, subspace):
    """A corrupt value takes its place on the page as its bytes and the reason."""
    ints.push("fine", 1)
    transaction = database.create_transaction()
    transaction[subspace.pack((2, 0, b"r"))] = b"\xff\xfe"
    transaction.commit().wait()
    shown = ints.page().items
    assert shown[0].value == "fine"
    assert isinstance(shown[1].value, Undecodable)
    assert (shown[1].value.raw, shown[1].priority, shown[1].size_bytes) == (b"\xff\xfe", 2, 2)
    assert ints.get(shown[1].id).value == shown[1].value


def test_one_operation_returns_a_bounded_number_of_bytes(fifo):
    """A pop and a page of large values stop at about five million bytes."""
    fifo.push_many(["x" * 90_000] * 70)
    page = fifo.page(limit=70)
    assert 50 < len(page.items) < 60
    assert page.cursor is not None
    popped = fifo.pop_many(70)
    assert 50 < len(popped) < 60
    assert len(list(fifo)) == 70 - len(popped)


def test_clear_empties_the_queue_and_nothing_else(fifo, database, subspace):
    """All items go in one transaction; a neighbour's stay."""
    neighbour = FifoQueue(database, subspace["next"])
    neighbour.push("stays")
    queue = FifoQueue(database, subspace["this"])
    queue.push_many(range(500))
    queue.clear()
    assert list(queue) == []
    assert neighbour.peek().value == "stays"
