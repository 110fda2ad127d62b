"""order="commit": strictly in the order the pushes are committed in."""

from __future__ import annotations

import asyncio

import pytest

from fdbqueue.exceptions import InvalidInput
from fdbqueue.service import FifoQueue, PriorityQueue
from tests.concurrency.census import assert_counted
from tests.concurrency.clients import together

CASES = [(kind, codec) for kind in ("fifo", "priority") for codec in ("json", "bytes")]


@pytest.fixture(params=CASES, ids="-".join)
def case(request):
    """Both kinds of queues, with both kinds of codecs."""
    return request.param


@pytest.fixture
def queue(case, database, subspace):
    """An empty queue in commit order."""
    return opened(case, database, subspace)


def opened(case, database, subspace, order="commit"):
    """Return a queue of a kind with a codec."""
    kind, codec = case
    return {"fifo": FifoQueue, "priority": PriorityQueue}[kind](
        database, subspace, codec=codec, order=order, name=kind
    )


def encoded(queue, text):
    """Return a value that the queue takes."""
    return text.encode() if queue.codec.name == "bytes" else text


def push(queue, text, **options):
    """Push one of priority 1, where there are any."""
    return queue.push(encoded(queue, text), None if queue.kind == "fifo" else 1, **options)


def push_all(queue, texts, **options):
    """Push many of priority 1, where there are any."""
    values = [encoded(queue, text) for text in texts]
    return queue.push_many(
        values if queue.kind == "fifo" else [(value, 1) for value in values], **options
    )


def texts(items):
    """Return the texts of items."""
    return [item.value.decode() if isinstance(item.value, bytes) else item.value for item in items]


def test_a_pushed_item_is_known_by_its_id(queue):
    """push returns the id that the commit gave it, whether it is ready or delayed."""
    first, later, second = push(queue, "a"), push(queue, "b", delay=60), push(queue, "c")
    assert len({first.id, later.id, second.id}) == 3
    for item in (first, later, second):
        assert queue.get(item.id) == item
    assert [item.id for item in queue] == [first.id, second.id]
    assert queue.pop() == first
    assert queue.pop_max() == second


def test_the_order_is_that_of_the_commits(queue, database):
    """Not that in which the pushes were prepared."""
    prepared = []
    for text in "abc":
        transaction = database.create_transaction()
        push(queue, text, tr=transaction)
        prepared.append(transaction)
    for index in (2, 0, 1):
        prepared[index].commit().wait()
    push(queue, "d")
    assert texts(queue) == ["c", "a", "b", "d"]
    assert texts(queue.pop_many(2, end="max")) == ["d", "b"]
    assert texts(queue.pop_many(2)) == ["c", "a"]


def test_many_are_pushed_in_their_order(queue):
    """Also when they are more than one transaction takes."""
    values = [f"{number:05}" for number in range(6_000)]
    assert push_all(queue, values) == 6_000
    push(queue, "last")
    assert texts(queue.pop_many(7_000)) == [*values, "last"]


def test_pushes_of_one_transaction_keep_their_order(queue, database):
    """In the caller's, too; their ids are only decided by its commit."""
    transaction = database.create_transaction()
    items = [push(queue, text, tr=transaction) for text in "ab"]
    assert [item.id for item in items] == ["", ""]
    assert push_all(queue, "cdef", tr=transaction) == 4
    push(queue, "g", tr=transaction)
    push(queue, "late", tr=transaction, delay=60)
    transaction.commit().wait()
    assert texts(queue) == list("abcdefg")
    assert len({item.id for item in queue}) == 7
    assert texts(assert_counted(queue)["delayed"]) == ["late"]


def test_a_push_reads_its_format_alone(case, observed, subspace):
    """No tail has to be looked for, of however many items."""
    queue = opened(case, observed, subspace)
    push_all(queue, "xy")
    push(queue, "z")  # has seen the queue's format
    observed.reads.clear()
    observed.transactions = 0
    push(queue, "a")
    push_all(queue, "bcd")
    push(queue, "e", delay=60)
    assert observed.reads == ["get"] * 3
    assert observed.transactions == 3


def test_what_a_transaction_pushed_it_cannot_read(queue, database, engine):
    """Its place is not known yet: FoundationDB's accessed_unreadable says so."""
    transaction = database.create_transaction()
    push(queue, "a", tr=transaction)
    with pytest.raises(engine.error) as caught:
        queue.pop(tr=transaction)
    assert caught.value.code == 1036


@pytest.mark.parametrize("way", [push, push_all])
def test_what_others_pushed_it_can_read(case, database, subspace, way):
    """Also after a push that was the first thing the transaction did; not of the last commit."""
    queue, other = (opened(case, database, subspace[name]) for name in "qo")
    push_all(queue, "abc")
    push(other, "last")
    transaction = database.create_transaction()
    way(queue, "d", tr=transaction)
    assert texts([queue.pop(tr=transaction)]) == ["a"]
    transaction.commit().wait()
    assert texts(assert_counted(queue)["ready"]) == ["b", "c", "d"]


def test_a_transaction_may_pop_before_it_pushes(queue, database):
    """So an item can be moved behind the others."""
    push_all(queue, "abc")
    transaction = database.create_transaction()
    moved = queue.pop(tr=transaction)
    queue.push(moved.value, moved.priority, tr=transaction)
    transaction.commit().wait()
    assert texts(assert_counted(queue)["ready"]) == ["b", "c", "a"]


# Changing over


def test_a_queue_may_be_changed_over_to_commit_order(case, database, subspace):
    """What was pushed before stands before what is pushed from then on."""
    before, after = (opened(case, database, subspace, order) for order in ("count", "commit"))
    push_all(before, "ab")
    after.adopt_settings()
    push(after, "c")
    push_all(after, "de")
    leased = after.lease_many(3)
    push(after, "f")
    for item in leased:
        after.nack(item)
    assert texts(after.pop_many(9)) == list("abcdef")


def test_a_queue_is_not_changed_back_while_it_holds_items(case, database, subspace, rows):
    """A push by count would stand before them: it is refused, and nothing is written."""
    commit, count = (opened(case, database, subspace, order) for order in ("commit", "count"))
    push(commit, "a")
    count.adopt_settings()
    before = rows()
    for operation in (lambda: push(count, "b"), lambda: push_all(count, "bc")):
        with pytest.raises(InvalidInput) as caught:
            operation()
        assert caught.value.context["queue"] == case[0]
        assert "commit" in str(caught.value)
    assert rows() == before
    assert texts([count.pop()]) == ["a"]
    push(count, "b")
    assert texts(count) == ["b"]


def test_hidden_items_keep_a_queue_from_being_changed_back_too(case, database, subspace):
    """What is leased will come back, and must then stand before a later push."""
    commit, count = (opened(case, database, subspace, order) for order in ("commit", "count"))
    push(commit, "a")
    count.adopt_settings()
    leased = count.lease()
    with pytest.raises(InvalidInput):
        push(count, "b")
    count.nack(leased)
    assert texts(count) == ["a"]


@pytest.mark.parametrize("how", ["lease", "delay", "bury"])
def test_what_might_have_come_back_keeps_it_so_until_it_is_cleared(case, database, subspace, how):
    """Although it is gone, and the queue empty: as docs/settings.md says."""
    commit, count = (opened(case, database, subspace, order) for order in ("commit", "count"))
    item = push(commit, "a", delay=0.001 if how == "delay" else None)
    count.adopt_settings()
    if how == "lease":
        count.ack(count.lease())
    elif how == "delay":
        assert count.pop(wait=60).value == item.value
    else:
        count.bury(item.id)
        assert count.remove_many([item.id]) == 1
    assert not any(assert_counted(count).values())
    with pytest.raises(InvalidInput):
        push(count, "b")
    count.clear()
    push(count, "b")
    assert texts(count) == ["b"]


@pytest.mark.parametrize("how", ["pop", "pops", "apop"])
def test_what_was_popped_does_not_keep_a_queue_from_being_changed_back(
    case, database, subspace, how
):
    """Whoever popped it: a thread alone, threads together, or a task."""
    commit, count = (opened(case, database, subspace, order) for order in ("commit", "count"))
    for text in "abcdef":
        push(commit, text)
    count.adopt_settings()
    if how == "apop":
        asyncio.run(count.apop_many(6))
    elif how == "pop":
        count.pop_many(6)
    else:
        together(6, lambda _: count.pop())
    assert not any(assert_counted(count).values())
    push(count, "b")
    assert texts(count) == ["b"]
