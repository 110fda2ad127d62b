"""Values longer than FoundationDB takes: split over several keys, and whole everywhere."""

from __future__ import annotations

import string

import pytest

from fdbqueue.exceptions import CorruptItem, ValueTooLarge
from fdbqueue.service import FifoQueue, PriorityQueue, Undecodable
from fdbqueue.service.storage.tables import TableKeys
from tests.cases import cases
from tests.concurrency.census import assert_counted

MILLION = 1_000_000
#: The tables that have one key each, whatever the queue holds, and the history.
LASTING = {b"\xff" + bytes((table,)) for table in (0x01, 0x02, 0x05, 0x07, 0x0F)}
LONG = string.printable[:36].encode() * 25_000 + b"end."  # no two chunks of it are alike
KINDS = {
    "fifo": (FifoQueue, {"codec": "bytes"}),
    "fifo-json": (FifoQueue, {"codec": "json"}),
    "priority-commit": (PriorityQueue, {"codec": "bytes", "order": "commit"}),
    "priority-json": (PriorityQueue, {"codec": "json", "max_attempts": 3}),
}


@pytest.fixture(params=KINDS)
def queue(request, database, subspace, clock):
    """A queue for a million bytes, which once held a short value, and still holds one."""
    return opened(request.param, database, subspace)


def opened(kind, database, subspace):
    """Return a queue that has been in use."""
    factory, options = KINDS[kind]
    queue = factory(database, subspace, max_value_bytes=MILLION, name=kind, **options)
    queue.push(value(queue, b"short"))
    queue.nack(queue.lease())
    queue.pop()
    queue.push(value(queue, b"short"))
    return queue


def value(queue, data):
    """Return what the queue takes for bytes."""
    return data if queue.codec.name == "bytes" else data.decode("latin-1")


def whole(queue, item, data=LONG):
    """Tell whether an item has all of a value."""
    return item.value == value(queue, data) and item.size_bytes >= len(data)


def bare(everything):
    """Return the keys of a queue that belong to its items, and no help requests for leases."""
    return {key for key in everything() if key[:2] not in {*LASTING, b"\xff\x03"}}


def test_without_being_asked_for_no_value_is_long(database, subspace, everything):
    """Over 100,000 bytes is refused by the queue's name and the size; nothing is written."""
    queue = FifoQueue(database, subspace, codec="bytes", name="plain")
    with pytest.raises(ValueTooLarge) as caught:
        queue.push(bytes(100_001))
    assert caught.value.context == {"queue": "plain", "size_bytes": 100_001, "limit_bytes": 100_000}
    assert "plain" in str(caught.value)
    assert everything() == set()


@cases("codec", ["bytes", "json", "tuple"])
@cases("limit", [1, 100, 150_000, MILLION])
def test_the_limit_is_of_the_encoded_value(database, subspace, everything, codec, limit):
    """One byte more is refused, by every push."""
    queue = FifoQueue(database, subspace, codec=codec, max_value_bytes=limit)
    for operation in (
        lambda: queue.push(value(queue, b"x" * (limit + 1))),
        lambda: queue.push(value(queue, b"x" * (limit + 1)), delay=5),
        lambda: queue.push_many([value(queue, b"x" * (limit + 1))]),
    ):
        with pytest.raises(ValueTooLarge) as caught:
            operation()
        assert caught.value.context["limit_bytes"] == limit
        assert caught.value.context["size_bytes"] > limit
    assert everything() == set()


@pytest.mark.parametrize("size", [99_999, 100_000, 100_001, 200_000, 200_001, 999_999, MILLION])
def test_sizes_around_the_chunks(database, subspace, everything, size):
    """Each comes back whole, and leaves no more keys than it needs."""
    queue = FifoQueue(database, subspace, codec="bytes", max_value_bytes=MILLION)
    queue.push(b"")
    queue.pop()
    before = bare(everything)
    data = LONG * 2
    queue.push(data[:size])
    assert len(bare(everything)) - len(before) == -(-size // 100_000)
    assert queue.peek().value == data[:size]
    assert queue.pop().value == data[:size]
    assert bare(everything) == before


def test_the_longest_there_is(database, subspace, everything):
    """1,000,000 bytes go in and out whole; of more the error says to push the name of a file."""
    queue = FifoQueue(database, subspace, codec="bytes", max_value_bytes=MILLION)
    data = (LONG * 2)[:MILLION]
    assert queue.push_many([data, b"short", data]) == 3
    assert queue.pop().value == data
    transaction = database.create_transaction()
    assert [item.size_bytes for item in queue.pop_many(2, tr=transaction)] == [5, MILLION]
    transaction.commit().wait()
    assert not any(assert_counted(queue).values())
    before = everything()
    with pytest.raises(ValueTooLarge, match=r"Store a file, and push its name: .*=1000000$"):
        queue.push(data + b"x")
    assert everything() == before


@pytest.mark.parametrize("end", ["min", "max"])
def test_pushed_and_popped(queue, everything, end):
    """Every look shows it whole; once it is popped, nothing of it is left."""
    before = bare(everything)
    pushed = queue.push(value(queue, LONG))
    assert pushed.size_bytes >= len(LONG)
    looks = [queue.peek_max(), queue.get(pushed.id), queue.page().items[1], list(queue)[1]]
    for found in looks:
        assert found == pushed
    items = queue.pop_many(2, end=end)
    assert whole(queue, items[1 if end == "min" else 0])
    queue.push(value(queue, b"short"))
    assert len(bare(everything)) == len(before)
    assert_counted(queue)


def test_leased_given_up_and_acknowledged(queue, everything, clock):
    """It comes back whole to its place with its attempts, and goes without a trace."""
    before = bare(everything)
    pushed = queue.push(value(queue, LONG))
    for tried in range(2):
        leased = queue.lease_max(seconds=10)
        assert (leased.id, leased.attempts) == (pushed.id, tried)
        assert whole(queue, leased)
        assert whole(queue, queue.page(state="leased").items[0])
        assert whole(queue, queue.extend(leased, 20))
        if tried:
            clock.advance(30)
        else:
            queue.nack(leased)
        assert queue.peek_max().attempts == tried + 1
    leased = queue.lease_max()
    assert (leased.id, leased.attempts) == (pushed.id, 2)
    assert whole(queue, leased)
    queue.ack(leased)
    assert bare(everything) == before
    assert_counted(queue)


def test_delayed(queue, everything, clock):
    """It comes to its place whole."""
    before = bare(everything)
    pushed = queue.push(value(queue, LONG), delay=10)
    queue.push(value(queue, b"later"))
    assert whole(queue, queue.get(pushed.id))
    clock.advance(10)
    assert whole(queue, queue.peek_many(2)[1])
    assert whole(queue, queue.pop_many(2)[1])
    assert len(bare(everything)) == len(before)
    assert_counted(queue)


def test_buried_and_put_back(queue, everything):
    """Its chunks wait for it while it is dead."""
    before = bare(everything)
    pushed = queue.push(value(queue, LONG))
    queue.bury(pushed.id)
    (dead,) = queue.page(state="dead").items
    assert whole(queue, dead)
    assert dead.state == "dead"
    queue.redrive()
    assert queue.pop_max() == pushed
    assert bare(everything) == before
    assert_counted(queue)


@pytest.mark.parametrize("size", range(99_998, 100_003))
def test_attempts_make_no_value_too_long(database, subspace, everything, clock, size):
    """They are kept elsewhere where the value is as long as FoundationDB takes."""
    queue = FifoQueue(database, subspace, max_value_bytes=MILLION)
    overhead = queue.push("x" * 1_000).size_bytes - 1_000
    queue.pop()
    text = "y" * (size - overhead)
    assert queue.push(text).size_bytes == size
    for tried in range(1, 4):
        queue.nack(queue.lease())
        assert (queue.peek().value, queue.peek().attempts) == (text, tried)
    found = queue.pop()
    assert (found.value, found.attempts) == (text, 3)
    assert bare(everything) == set()


def test_popped_in_a_callers_transaction_that_is_dropped(queue, database):
    """All of it is still there."""
    pushed = queue.push(value(queue, LONG))
    transaction = database.create_transaction()
    assert whole(queue, queue.pop_max(tr=transaction))
    transaction.cancel()
    assert queue.pop_max() == pushed


def test_pushed_in_a_callers_transaction(database, subspace):
    """It is read whole within it, where its place is known."""
    queue = FifoQueue(database, subspace, codec="bytes", max_value_bytes=MILLION)
    transaction = database.create_transaction()
    queue.push(LONG, tr=transaction)
    assert queue.peek(tr=transaction).value == LONG
    assert queue.pop(tr=transaction).value == LONG
    queue.push(LONG[::-1], tr=transaction)
    transaction.commit().wait()
    assert [item.value for item in queue] == [LONG[::-1]]


def test_a_queue_for_short_values_reads_long_ones(database, subspace):
    """The limit is of what is pushed."""
    FifoQueue(database, subspace, codec="bytes", max_value_bytes=MILLION).push(LONG)
    queue = FifoQueue(database, subspace, codec="bytes")
    queue.nack(queue.lease())
    assert queue.pop().value == LONG


@pytest.mark.parametrize("which", [0, 4, -1])
def test_a_missing_chunk_is_found_out(queue, database, subspace, which):
    """The item is corrupt: it is shown as such, is not taken, and can be buried."""
    pushed = queue.push(value(queue, LONG))
    chunks = TableKeys(subspace.key()).chunks(queue.parts.store.keys.place_named(pushed.id))
    transaction = database.create_transaction()
    keys = [row.key for row in transaction.get_range(*chunks)]
    assert len(keys) == 9
    del transaction[keys[which]]
    transaction.commit().wait()
    for operation in (
        queue.pop_max,
        queue.peek_max,
        queue.lease_max,
        lambda: queue.pop_many(2),
        lambda: queue.pop_max(wait=1),
    ):
        with pytest.raises(CorruptItem) as caught:
            operation()
        assert caught.value.context["id"] == pushed.id
    for found in (queue.get(pushed.id), queue.page().items[1]):
        assert isinstance(found.value, Undecodable)
    assert queue.size() == 2
    queue.bury(pushed.id)
    assert isinstance(queue.page(state="dead").items[0].value, Undecodable)
    assert queue.pop() is not None
    assert queue.pop() is None
    assert_counted(queue)


def test_one_operation_returns_a_bounded_number_of_bytes(database, subspace):
    """All chunks count: pops, peeks and pages of long values stop at about five million."""
    queue = FifoQueue(database, subspace, codec="bytes", max_value_bytes=MILLION)
    queue.push_many([LONG] * 16)
    assert 5 <= len(queue.peek_many(16)) <= 7
    page = queue.page(limit=16)
    assert 5 <= len(page.items) <= 7
    assert page.cursor is not None
    leased = queue.lease_many(16)
    assert 5 <= len(leased) <= 7
    assert 5 <= len(queue.page(state="leased").items) <= 7
    popped = queue.pop_many(16)
    assert 5 <= len(popped) <= 7
    assert queue.size() == 16 - len(popped) - len(leased)


def test_pages_of_long_values_go_through_all(queue):
    """Wherever a page ends, the next goes on behind it."""
    queue.pop()
    for number in range(8):
        queue.push(value(queue, b"%d" % number * 800_000))
    found, cursor = [], None
    while True:
        page = queue.page(after=cursor)
        found += page.items
        cursor = page.cursor
        if cursor is None:
            break
    assert [item.value for item in found] == [
        value(queue, b"%d" % number * 800_000) for number in range(8)
    ]


def test_clear_removes_the_chunks(queue, everything):
    """Of items in every state."""
    for _ in range(3):
        queue.push(value(queue, LONG))
    queue.push(value(queue, LONG), delay=60)
    queue.lease_max()
    queue.bury(queue.peek_max().id)
    queue.clear()
    assert everything() == {queue.parts.store.format.key[len(queue.subspace.key()) :]}


def test_what_was_taken_for_a_popper_who_died(queue, ask_and_die, let_expire, everything):
    """It goes back whole."""
    before = bare(everything)
    pushed = queue.push(value(queue, LONG))
    ask_and_die(queue, highest=1)
    queue.push(value(queue, b"last"))
    assert queue.pop_max().value == value(queue, b"last")
    assert queue.size() == 2
    let_expire(queue)
    assert queue.peek_max() == pushed
    assert queue.pop_max() == pushed
    assert bare(everything) == before
    assert_counted(queue)
