"""Unique keys: of each key one item at a time, and no key stays taken."""

from __future__ import annotations

import asyncio
import base64
from concurrent.futures import ThreadPoolExecutor

import pytest
from fdb.subspace_impl import Subspace

from fdbqueue.exceptions import (
    BatchTooLarge,
    IdempotencyKeyReused,
    InvalidInput,
    ItemNotFound,
    LeaseLost,
    ValueTooLarge,
)
from fdbqueue.service import FifoQueue, IdempotencyKey, Push, Undecodable, run
from fdbqueue.service.transactions import error_code
from tests.concurrency.census import assert_counted, unique_keys
from tests.concurrency.kinds import KINDS
from tests.contract.recipes import PythonQueue
from tests.contract.test_combining import Held
from tests.engines.children import wait_until
from tests.wrapped import WrappedTransaction

SOON_SECONDS = 60
WHILES = ["ready", "pending"]


@pytest.fixture(params=KINDS, ids=str)
def open_queue(request, database, subspace):
    """Open a queue of any kind."""
    return lambda **options: request.param.open(database, subspace, **options)


@pytest.fixture
def queue(open_queue):
    """A queue of any kind, in which the second failed lease kills."""
    return open_queue(max_attempts=2)


def value(queue, text="v"):
    """Return a value that a queue takes."""
    return text.encode() if queue.codec.name == "bytes" else [text]


def put(queue, key="k", unique_while="pending", **options):
    """Push under a unique key."""
    return queue.push(value(queue, key), unique=key, unique_while=unique_while, **options)


# One item of a key


@pytest.mark.parametrize("unique_while", WHILES)
def test_a_second_push_returns_the_item_that_is_there(queue, unique_while):
    """And says so; the value, priority and time are those of the first."""
    first = put(queue, unique_while=unique_while)
    assert not first.existing
    again = queue.push(value(queue, "other"), unique="k", unique_while="ready")
    assert again.existing
    assert again == queue.push(value(queue, "third"), unique="k")
    assert (again.id, again.value, again.priority) == (first.id, first.value, first.priority)
    assert again.pushed_at == first.pushed_at
    assert again.state == "ready"
    assert queue.size() == 1
    assert [item.id for item in queue] == [first.id]
    assert queue.get(first.id).value == first.value
    assert sum(minute.pushes for minute in queue.history()) == 1


def test_each_queue_has_keys_of_its_own(database, subspace):
    """The same key in another queue is another."""
    for number in range(3):
        assert not FifoQueue(database, subspace[number]).push("a", unique="k").existing


# Freeing


def leased_with_next(queue):
    """Acknowledge an item with the next lease."""
    queue.lease_many(1, ack=[queue.lease()])


def dead_by_nack(queue):
    """Give an item up for the last time."""
    queue.nack(queue.lease())
    queue.nack(queue.lease())


def moved(queue):
    """Move an item to another queue."""
    place = Subspace(rawPrefix=queue.subspace.key() + b"\xff\xfe")
    target = FifoQueue(queue.database, place, codec=queue.codec.name)
    assert queue.move_many(target, 1) == 1
    (item,) = target.pop_many(5)
    assert not unique_keys(target)
    assert item.value == value(queue, "k")


FREEING = {
    "pop": lambda queue: queue.pop(),
    "pop at the other end": lambda queue: queue.pop_max(),
    "pop under a key": lambda queue: queue.pop_many(1, once="o"),
    "ack": lambda queue: queue.ack(queue.lease()),
    "ack under a key": lambda queue: queue.ack(queue.lease(), once="o"),
    "ack of many": lambda queue: queue.ack_many(queue.lease_many(1)),
    "ack with the next lease": leased_with_next,
    "death": dead_by_nack,
    "burial": lambda queue: queue.bury(queue.peek().id),
    "removal": lambda queue: queue.remove_many([queue.peek().id]),
    "removal of a leased one": lambda queue: queue.remove_many([queue.lease().id]),
    "removal of all ready ones": lambda queue: queue.clear_state("ready"),
    "removal of all": lambda queue: queue.clear(),
    "move": moved,
    "transaction": lambda queue: run(queue.database, lambda tr: queue.pop(tr=tr)),
}


@pytest.mark.parametrize("unique_while", WHILES)
@pytest.mark.parametrize("freeing", FREEING)
def test_a_key_is_free_when_its_item_is_done(queue, freeing, unique_while):
    """In the transaction that takes, acknowledges, buries, removes or moves it."""
    put(queue, unique_while=unique_while)
    FREEING[freeing](queue)
    assert not unique_keys(queue)
    assert not put(queue).existing
    assert_counted(queue)


# Items that return


@pytest.mark.parametrize("unique_while", WHILES)
@pytest.mark.parametrize("operation", ["pop", "lease"])
def test_what_was_taken_for_a_thread_that_has_gone_takes_its_key_again(
    queue, operation, unique_while
):
    """Where it is free; where another item has it, both are there, because none may be lost."""
    for another_has_it in (False, True):
        first = put(queue, unique_while=unique_while)
        request = (
            queue.parts.consumer.pop_request("min", 1, None)
            if operation == "pop"
            else queue.parts.consumer.lease_request("min", 1, 60, None)
        )
        (items,) = queue.parts.consumer.take_now(request)
        is_free = operation == "pop" or unique_while == "ready"
        if another_has_it and is_free:
            second = put(queue, unique_while=unique_while)
            assert not second.existing
        request.requeue(items)
        assert put(queue).id == (second.id if another_has_it and is_free else first.id)
        taken = queue.pop_many(5)
        assert first.id in [item.id for item in taken]
        assert len(taken) == 1 + (another_has_it and is_free)
        assert not unique_keys(queue)


def test_a_cancelled_pop_gives_the_key_back(fifo):
    """A task that is cancelled while items are popped requeues them."""
    first = put(fifo)

    async def cancel():
        task = asyncio.create_task(fifo.apop_many(1))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(cancel())
    if fifo.size():
        assert put(fifo).id == first.id
    assert_counted(fifo)


# Many at once


def test_only_pushes_of_one_key_conflict(queue):
    """Others commit side by side."""
    transactions = [queue.database.create_transaction() for _ in range(4)]
    keys = ["a", "b", "b", None]
    for tr, key in zip(transactions, keys, strict=True):
        queue.push(value(queue), unique=key, tr=tr)
    codes = []
    for tr in transactions:
        try:
            tr.commit().wait()
            codes.append(0)
        except Exception as error:  # noqa: BLE001  # each engine has its own class
            codes.append(error_code(error))
    assert codes == [0, 0, 1020, 0]
    assert queue.size() == 3


def test_a_push_that_found_an_item_conflicts_with_what_frees_the_key(fifo):
    """Its transaction may write other things that depend on it."""
    put(fifo)
    tr = fifo.database.create_transaction()
    assert put(fifo, tr=tr).existing
    tr[fifo.subspace["other"].key()] = b""
    fifo.pop()
    with pytest.raises(Exception, match=r"1020|conflict"):
        tr.commit().wait()


def test_a_batch_puts_one_item_of_each_key(queue):
    """The second of a key in the batch is that of the first; the others come in their order."""
    there = put(queue, "there")
    keys = ["a", None, "a", "there", "b", None]
    items = queue.push_batch([Push(value(queue, str(key)), unique=key) for key in keys])
    assert [item.existing for item in items] == [False, False, True, True, False, False]
    assert items[0].id == items[2].id
    assert items[3].id == there.id
    assert len({item.id for item in items}) == 5
    assert queue.size() == 5
    assert sorted(item.id for item in queue) == sorted({item.id for item in items} | {there.id})
    assert_counted(queue)


# In transactions, under idempotency keys, in event loops


def test_in_a_transaction_of_the_callers(database, subspace):
    """It sees what the transaction has written."""
    queue = FifoQueue(database, subspace)

    def work(tr):
        items = [put(queue, tr=tr), put(queue, tr=tr)]
        popped = queue.pop(tr=tr)
        return [*items, popped, put(queue, tr=tr)]

    first, again, popped, third = run(database, work)
    assert (first.existing, again.existing, third.existing) == (False, True, False)
    assert first.id == again.id == popped.id
    assert queue.get(third.id).value == third.value
    assert put(queue).id == third.id


def test_in_commit_order_an_item_is_found_after_a_push(database, subspace):
    """The push of another item hides only what its own transaction has written."""
    queue = FifoQueue(database, subspace["q"], order="commit")
    has_it = queue.push("has it", unique="k")
    FifoQueue(database, subspace["o"]).push("last")
    transaction = database.create_transaction()
    queue.push("another", tr=transaction)
    found = queue.push("too late", unique="k", tr=transaction)
    transaction.commit().wait()
    assert (found.id, found.value, found.existing) == (has_it.id, "has it", True)
    assert [item.value for item in queue] == ["has it", "another"]


def test_in_commit_order_a_transaction_pushes_a_key_once(database, subspace):
    """The place of what it has pushed is not known yet; after another push nothing is changed."""
    queue = FifoQueue(database, subspace, order="commit")
    tr = database.create_transaction()
    assert put(queue, tr=tr).id == ""
    with pytest.raises(InvalidInput, match="only once"):
        put(queue, tr=tr)
    first = put(queue)
    tr = database.create_transaction()
    assert put(queue, tr=tr).id == first.id


@pytest.mark.parametrize("batch", [False, True])
def test_the_same_call_under_an_idempotency_key_returns_the_same(queue, batch):
    """The item that was found, as it was found, though it has changed since."""
    put(queue, "k")
    leased = queue.lease()

    def call(text, key):
        if not batch:
            return [queue.push(value(queue, text), unique="k", once=key)]
        return queue.push_batch(
            [Push(value(queue, text), unique="k"), Push(value(queue))], once=key
        )

    key = IdempotencyKey("o")
    items = call("x", key)
    assert [item.existing for item in items][:1] == [True]
    assert not key.replayed
    queue.ack(leased)
    assert call("x", key) == items
    assert key.replayed
    assert items[0].value == leased.value
    assert items[0].state == "leased"
    with pytest.raises(IdempotencyKeyReused):
        queue.push(value(queue, "x"), unique="other", once="o")
    if not batch:
        with pytest.raises(IdempotencyKeyReused):
            queue.push(value(queue, "x"), unique="k", unique_while="ready", once="o")
    assert_counted(queue)


def test_saved_responses_are_bounded(database, subspace):
    """Found items and pushed ones fit into one transaction together, or nothing is pushed."""
    queue = FifoQueue(database, subspace, max_value_bytes=1_000_000)
    for key in "abcd":
        queue.push("x" * 900_000, unique=key)
    found = [Push("a", unique=key) for key in "abcd"]
    for once in ("o", None):
        with pytest.raises(BatchTooLarge):
            queue.push_batch([*found, Push("y" * 900_000), Push("y" * 900_000)], once=once)
    assert queue.size() == 4
    items = queue.push_batch([*found, Push("y" * 900_000)])
    assert [item.existing for item in items] == [True] * 4 + [False]


@pytest.mark.parametrize("way", ["of many items", "of one item", "in a transaction"])
def test_a_batch_does_not_read_long_items_without_end(engine, observed, subspace, way):
    """It is refused before anything is written; each item of it may be asked for by itself."""
    queue = FifoQueue(observed, subspace, codec="bytes", max_value_bytes=1_000_000)
    for number in range(20):
        queue.push(bytes(900_000), unique=f"k{number}")
    keys = ["k7" if way == "of one item" else f"k{number}" for number in range(20)]
    pushes = [Push(b"new"), *[Push(b"s", unique=key) for key in keys]]
    tr = engine.database.create_transaction() if way == "in a transaction" else None
    observed.reads.clear()
    with pytest.raises(BatchTooLarge) as caught:
        queue.push_batch(pushes, tr=tr)
    assert caught.value.context["limit_bytes"] == 5_000_000
    assert observed.reads.count("get_range") <= 8  # of the chunks of six items, and the tail
    if tr is not None:
        tr.commit().wait()
    assert queue.size() == 20
    found = queue.push_batch([Push(b"s", unique=key) for key in keys[:5]])
    assert [(item.existing, item.size_bytes) for item in found] == [(True, 900_000)] * 5


class Measured(Held):
    """A database whose commits are held up, and that tells how much each transaction has read."""

    commits_one_at_a_time = True

    def __init__(self, database):
        super().__init__(database)
        self.most_bytes = 0

    def create_transaction(self):
        outer, transaction = self, super().create_transaction()
        read = 0

        class Wrapped(WrappedTransaction):
            def get_range(self, *arguments, **options):
                nonlocal read
                rows = list(transaction.get_range(*arguments, **options))
                read += sum([len(row.value) for row in rows])
                outer.most_bytes = max(outer.most_bytes, read)
                return rows

        return Wrapped(transaction)


@pytest.mark.parametrize("verb", ["push", "extend"])
def test_threads_that_share_a_transaction_do_not_read_long_items_without_end(
    database, subspace, verb
):
    """Those behind about as much as one operation returns wait for the next transaction."""
    measured, threads = Measured(database), 16
    queue = FifoQueue(measured, subspace, codec="bytes", max_value_bytes=1_000_000)
    plain = FifoQueue(database, subspace, codec="bytes", max_value_bytes=1_000_000)
    leases = []
    for number in range(threads):
        plain.push(bytes(950_000), unique=f"k{number}")
    if verb == "extend":
        leases = [plain.lease() for _ in range(threads)]

    def work(number):
        if verb == "extend":
            return queue.extend(leases[number])
        return queue.push(b"s", unique=f"k{number}")

    with ThreadPoolExecutor(threads + 1) as pool:
        first = pool.submit(queue.push, b"first")
        assert measured.begun.acquire(timeout=SOON_SECONDS)
        found = [pool.submit(work, number) for number in range(threads)]
        try:
            wait_until(lambda: queue.parts.group.writes.combiner.in_line == threads)
        finally:
            measured.meddle = lambda: None
            measured.gate.release()
        assert first.result(SOON_SECONDS)
        assert {one.result(SOON_SECONDS).size_bytes for one in found} == {950_000}
    assert 950_000 < measured.most_bytes < 8_000_000
    assert_counted(plain)


# What others left


def test_a_foreign_popper_leaves_the_key_and_the_next_push_takes_it(database, subspace):
    """A recipe's pop knows no keys."""
    queue = FifoQueue(database, subspace, codec="bytes")
    put(queue)
    assert PythonQueue(database, subspace).dequeue() is not None
    assert unique_keys(queue)
    assert not put(queue).existing
    assert put(queue).existing
    queue.pop()
    assert not unique_keys(queue)


def test_an_item_that_cannot_be_decoded_has_its_key(fifo):
    """It is returned as it is shown; buried, it frees the key."""
    first = put(fifo)
    key = fifo.parts.store.keys.key(fifo.parts.store.keys.place_named(first.id))
    run(fifo.database, lambda tr: tr.set(key, b"\xff junk"), wrote=lambda _: True)
    found = put(fifo)
    assert found.existing
    assert isinstance(found.value, Undecodable)
    assert found.value.raw == b"\xff junk"
    fifo.bury(first.id)
    assert not put(fifo).existing


def test_a_row_that_names_no_place_is_taken_over(fifo):
    """Whatever it holds."""
    put(fifo)
    fifo.pop()
    for row in (b"", b"\x00", b"junk", bytes(200)):
        put(fifo, "other")
        (key,) = unique_keys(fifo)
        fifo.clear()
        run(fifo.database, lambda tr, row=row, key=key: tr.set(key, row), wrote=lambda _: True)
        assert not put(fifo, "other").existing
        fifo.clear()


# Sizes


@pytest.mark.nightly
def test_thousands_are_taken_and_acknowledged_in_one_transaction(fifo):
    """As many as fit, whose keys are longer."""
    for start in range(0, 10_000, 2_500):
        numbers = range(start, start + 2_500)
        fifo.push_batch([Push(n, unique=str(n), unique_while="ready") for n in numbers])
    leased = fifo.lease_many(10_000)
    assert len(leased) > 1_000
    for start in range(0, len(leased), 2_000):
        assert fifo.ack_many(leased[start : start + 2_000])
    popped = fifo.pop_many(10_000)
    assert [item.value for item in leased + popped][:5_000] == list(range(5_000))
    fifo.pop_many(10_000)
    assert not unique_keys(fifo)


def test_an_ack_of_too_many_is_refused(fifo):
    """By their number, before anything is sent."""
    item = put(fifo)
    secrets = (
        base64.urlsafe_b64encode(number.to_bytes(8, "big")).decode() for number in range(9_000)
    )
    tokens = [f"{item.id}.{secret.rstrip('=')}" for secret in secrets]
    with pytest.raises(BatchTooLarge) as refused:
        fifo.ack_many(tokens)
    assert refused.value.context["most"] < 9_000


# Bad input


def test_a_push_that_is_refused_takes_no_key(database, subspace):
    """Too long a value, or a transaction that is not committed."""
    queue = FifoQueue(database, subspace, max_value_bytes=100)
    with pytest.raises(ValueTooLarge):
        queue.push("x" * 200, unique="k")
    tr = database.create_transaction()
    put(queue, tr=tr)
    tr.cancel()
    assert not unique_keys(queue)
    assert not put(queue).existing


def test_ids_of_items_with_keys_are_ids(queue):
    """They are found, acknowledged and refused as others are."""
    item = put(queue)
    assert queue.get(item.id).value == item.value
    with pytest.raises(ItemNotFound):
        queue.bury(queue.pop().id)
    put(queue)
    leased = queue.lease()
    queue.ack(leased)
    with pytest.raises(LeaseLost):
        queue.ack(leased)
