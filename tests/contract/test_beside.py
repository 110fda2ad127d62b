"""What is written beside a push or an ack, and what gives back or looks for one item."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fdbqueue.exceptions import InvalidInput, ItemNotFound, LeaseLost
from fdbqueue.service import Contended, FifoQueue, Push, run
from tests.concurrency.census import assert_counted
from tests.concurrency.clients import another
from tests.concurrency.requests import ask


@pytest.fixture
def key(subspace):
    """A key that is no queue's."""
    return subspace.pack(("beside",))


@pytest.fixture
def fifo(database, subspace):
    """An empty queue beside that key."""
    return FifoQueue(database, subspace["queue"])


@pytest.fixture
def stored(database, key):
    """Return what is stored under the key, None for nothing."""

    def stored():
        found = run(database, lambda tr: tr[key], read_only=True)
        return bytes(found) if found.present() else None

    return stored


def states(queue):
    """Return the values of the items in each state that has any, which are counted right."""
    found = assert_counted(queue)
    return {state: [item.value for item in items] for state, items in found.items() if items}


def test_beside_a_push(fifo, key, stored):
    """Both are committed, and it is told the item's id."""
    push = fifo.prepare(Push("a"), beside=lambda tr, item_id: tr.set(key, item_id.encode()))
    assert stored() is None
    (item,) = push(None)
    assert stored() == item.id.encode()
    assert fifo.get(item.id).value == "a"


def test_beside_a_push_in_the_callers_transaction(fifo, database, key, stored):
    """It is part of that, and is committed with it or not at all."""
    push = fifo.prepare(Push("a"), beside=lambda tr, item_id: tr.set(key, item_id.encode()))
    push(database.create_transaction())
    assert (stored(), states(fifo)) == (None, {})
    (item,) = run(database, push)
    assert stored() == item.id.encode()
    assert states(fifo) == {"ready": ["a"]}


def test_beside_a_push_under_keys(fifo, key):
    """It is called for the push alone: not for the item of a unique key, nor for a saved one."""
    called = []
    for push, once in ((Push("a", unique="u"), None), (Push("b"), "key")):
        for _ in range(2):
            fifo.prepare(push, once=once, beside=lambda _, item_id: called.append(item_id))(None)
    assert sorted(called) == sorted(item.id for item in fifo.peek_many(9))
    assert states(fifo) == {"ready": ["a", "b"]}


def test_beside_a_push_in_commit_order(database, subspace, key, stored):
    """The id is not known before the commit."""
    queue = FifoQueue(database, subspace, order="commit")
    told = []
    (item,) = queue.prepare(Push("a"), beside=lambda _, item_id: told.append(item_id))(None)
    assert item.id
    assert set(told) == {""}


def test_beside_an_ack(fifo, database, key, stored):
    """Both are committed; if the lease is lost, neither is."""
    fifo.push("a")
    item = fifo.lease()
    fifo.ack(item, beside=lambda tr: tr.set(key, b"1"), tr=database.create_transaction())
    assert (stored(), states(fifo)) == (None, {"leased": ["a"]})
    fifo.ack(item, beside=lambda tr: tr.set(key, b"2"), once="key")
    assert (stored(), states(fifo)) == (b"2", {})
    fifo.ack(item, beside=lambda tr: tr.set(key, b"3"), once="key")
    assert stored() == b"2"
    with pytest.raises(LeaseLost):
        fifo.ack(item, beside=lambda tr: tr.set(key, b"4"))
    assert stored() == b"2"


def test_beside_acks_while_leasing(fifo, database, key, stored):
    """All in one transaction, or nothing of it."""
    fifo.push_many("abc")
    done = fifo.lease_many(2)
    fifo.lease_many(
        1, ack=done, beside=lambda tr: tr.set(key, b"1"), tr=database.create_transaction()
    )
    assert (stored(), states(fifo)) == (None, {"ready": ["c"], "leased": ["a", "b"]})
    (item,) = fifo.lease_many(1, ack=done, beside=lambda tr: tr.set(key, b"2"))
    assert (stored(), states(fifo)) == (b"2", {"leased": ["c"]})
    with pytest.raises(LeaseLost):
        fifo.lease_many(1, ack=[item, done[0]], beside=lambda tr: tr.set(key, b"3"))
    assert fifo.lease_many(1, ack=[item], beside=lambda tr: tr.set(key, b"4")) == []
    assert (stored(), states(fifo)) == (b"4", {})
    with pytest.raises(InvalidInput):
        fifo.lease_many(1, beside=lambda tr: tr.set(key, b"5"))
    assert stored() == b"4"


def test_beside_acks_while_other_processes_take_items(database, subspace, key, stored):
    """Nobody else can write that for it, so it says that, and nothing was done."""
    queue = FifoQueue(database, subspace["queue"])
    queue.push_many(range(20))
    (item,) = queue.lease_many(1)
    meddler = FifoQueue(another(database), subspace["queue"])
    stop = threading.Event()

    def take():
        while not stop.is_set():
            if meddler.pop() is None:
                meddler.push_many(range(20))

    refused = 0
    with ThreadPoolExecutor(1) as pool:
        others = pool.submit(take)
        try:
            for _ in range(300):
                try:
                    leased = queue.lease_many(1, ack=[item], beside=lambda tr: tr.set(key, b"1"))
                    (item,) = leased or queue.lease_many(1, wait=60)
                except Contended:
                    refused += 1
                    queue.extend(item)  # it is held
        finally:
            stop.set()
            others.result(60)
    assert (stored() is None) == (refused == 300)


def test_requeue(kind, database, subspace):
    """The item is at its place as it was, and no attempt is counted; its lease is lost."""
    queue = kind.open(database, subspace)
    queue.push_many(kind.pairs([kind.value(text) for text in "ab"], [kind.priorities[0]] * 2))
    item = queue.lease()
    tr = database.create_transaction()
    queue.requeue(item, tr=tr)
    assert queue.size() == 1
    del tr
    queue.requeue(item.lease)
    again = queue.peek()
    assert (again.id, again.attempts, queue.get(item.id).failures) == (item.id, 0, ())
    assert_counted(queue)
    for verb in (queue.requeue, queue.ack):
        with pytest.raises(LeaseLost):
            verb(item)


def test_requeue_takes_the_unique_key_again(fifo):
    """If no other item has it meanwhile."""
    item = fifo.push("a", unique="u", unique_while="ready")
    fifo.requeue(fifo.lease())
    assert fifo.push("b", unique="u", unique_while="ready").id == item.id
    assert states(fifo) == {"ready": ["a"]}


def test_has_item(fifo, database):
    """In every state, and on its way to a popper; not once it is gone."""
    item = fifo.push("a")
    assert fifo.has_item(item.id)
    lease = fifo.lease()
    assert fifo.has_item(item.id)
    fifo.nack(lease, retry=False)
    assert fifo.has_item(item.id)
    fifo.redrive([item.id])
    later = fifo.push("later", delay=3_600)
    assert fifo.has_item(later.id)
    fifo.remove(later.id)
    ask(fifo, "min", 1)  # for a popper that never collects it
    item = fifo.push("b")
    assert fifo.pop().value == "a"
    with pytest.raises(ItemNotFound):
        fifo.get(item.id)
    assert fifo.has_item(item.id)
    assert run(database, lambda tr: fifo.has_item(item.id, tr=tr), read_only=True)
    gone = fifo.push("c")
    fifo.remove(gone.id)
    assert not fifo.has_item(gone.id)
    with pytest.raises(InvalidInput):
        fifo.has_item("no id")
