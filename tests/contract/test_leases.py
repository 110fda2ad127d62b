"""Leases: hidden while somebody works, gone once acknowledged, back in place when not."""

from __future__ import annotations

import datetime

import fdb.tuple
import pytest

from fdbqueue.exceptions import CorruptItem, InvalidInput, LeaseLost
from fdbqueue.service import Catalog, FifoQueue, PriorityQueue, QueueSpec, browse, run
from fdbqueue.service.clock import moment
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.expiry import MAX_EXPIRED
from fdbqueue.service.tools.streams import Mover
from tests.concurrency.census import assert_counted
from tests.contract.conftest import Observed


@pytest.fixture
def queue(kind, database, subspace, clock):
    """A queue of a, b and c, of one priority, for which the time stands still."""
    return filled(kind, database, subspace)


def filled(kind, database, subspace, texts="abc", **options):
    """Return a queue that holds these, of one priority."""
    queue = kind.open(database, subspace, **options)
    priorities = [kind.priorities[0]] * len(texts)
    queue.push_many(kind.pairs([kind.value(text) for text in texts], priorities))
    return queue


def now(clock):
    """Return the time that stands still."""
    return moment(clock.time_ns() // 1000)


def after(clock, seconds):
    """Return the time so many seconds later."""
    return now(clock) + datetime.timedelta(seconds=seconds)


# Taking and acknowledging


def test_an_empty_queue_leases_nothing(fifo):
    """None, or no items; nothing is counted."""
    assert fifo.lease() is None
    assert fifo.lease_max() is None
    assert fifo.lease_many(3) == []
    assert_counted(fifo)


def test_a_corrupt_item_is_not_leased(fifo, database, subspace, rows):
    """It is reported, and stays with those that were to be leased with it."""
    fifo.push("sound")
    transaction = database.create_transaction()
    transaction[subspace.pack((2, b"r"))] = b"\xff"
    transaction.commit().wait()
    before = rows()
    with pytest.raises(CorruptItem):
        fifo.lease_many(2)
    with pytest.raises(CorruptItem):
        fifo.lease_max()
    assert rows() == before
    assert fifo.counts().leased == 0


# Giving up


# Running on and running out


def test_a_late_acknowledgement_counts_while_nobody_brought_it_back(kind, queue, clock):
    """So does a late extension; each is as if it had come in time."""
    first, second = queue.lease_many(2, seconds=10)
    clock.advance(60)
    queue.ack(first)
    queue.extend(second, 10)
    assert kind.texts(queue.pop_many(3)) == "c"
    queue.ack(second)
    assert not any(assert_counted(queue).values())


def test_a_lease_of_no_time_is_brought_back_at_once(queue):
    """It has run out when it begins."""
    leased = queue.lease(seconds=0)
    again = queue.lease(seconds=0)
    assert (again.id, again.attempts) == (leased.id, 1)


# The with block


def test_a_block_acknowledges_at_its_end(kind, queue):
    """Inside it the item is leased from the end that was asked for."""
    with queue.leased(end="max", seconds=30) as item:
        assert kind.texts([item]) == "c"
        assert queue.counts().leased == 1
    assert kind.texts(assert_counted(queue)["ready"]) == "ab"
    assert queue.counts().leased == 0


@pytest.mark.parametrize("error", [LookupError, KeyboardInterrupt, SystemExit])
def test_a_block_that_raises_gives_up(kind, queue, error):
    """The error goes through; the item is in its place, with one attempt."""
    with pytest.raises(error), queue.leased():
        raise error
    assert kind.texts(assert_counted(queue)["ready"]) == "abc"
    assert queue.peek().attempts == 1


def test_a_block_may_have_no_item(fifo):
    """An empty queue gives None, and its block is run all the same."""
    with fifo.leased() as item:
        assert item is None
    with pytest.raises(LookupError), fifo.leased():
        raise LookupError


def test_a_block_that_took_too_long_says_so(queue, clock):
    """Its item was brought back, so it must not be thought done."""

    def work():
        with queue.leased(seconds=1) as item:
            clock.advance(2)
            assert queue.pop().id == item.id

    with pytest.raises(LeaseLost):
        work()
    assert len(assert_counted(queue)["ready"]) == 2


def test_what_a_block_raised_matters_more_than_a_lost_lease(queue, clock):
    """The block's own error goes through."""

    def work():
        with queue.leased(seconds=1):
            clock.advance(2)
            queue.pop()
            raise LookupError

    with pytest.raises(LookupError):
        work()


# Tokens


def test_an_item_that_was_not_leased_is_no_lease(fifo):
    """What push, peek, pop and get return has no token, also while it is leased."""
    pushed = fifo.push("x")
    peeked, leased = fifo.peek(), fifo.lease()
    for item in (pushed, peeked, fifo.get(leased.id), *fifo.page(state="leased").items):
        with pytest.raises(InvalidInput):
            fifo.ack(item)
    assert fifo.counts().leased == 1


def test_a_token_of_another_item_is_worth_nothing(fifo):
    """Neither the id alone nor another item's secret acknowledges."""
    fifo.push_many("ab")
    first, second = fifo.lease_many(2)
    secret = second.lease.rpartition(".")[2]
    for token in (f"{first.id}.{secret}", f"{first.id}.AAAAAAAAAAA", f"{first.id}."):
        with pytest.raises((LeaseLost, InvalidInput)):
            fifo.ack(token)
        assert fifo.counts().leased == 2
    assert fifo.ack_many([first, second]) == 2


def test_a_token_of_another_queue_is_worth_nothing(database, subspace):
    """Of another kind it is no token at all; of the same kind it is not held."""
    one, two = (FifoQueue(database, subspace[name]) for name in "ab")
    other = PriorityQueue(database, subspace["c"])
    one.push("x")
    leased = one.lease()
    with pytest.raises(LeaseLost):
        two.ack(leased)
    with pytest.raises(InvalidInput):
        other.ack(leased)
    one.ack(leased)


def test_tokens_are_told_nobody_and_repeat_never(database, subspace):
    """200 leases of one item have 200 tokens."""
    fifo = FifoQueue(database, subspace, max_attempts=None)
    fifo.push("x")
    tokens = set()
    for _ in range(200):
        item = fifo.lease()
        tokens.add(item.lease)
        fifo.nack(item)
    assert len(tokens) == 200


# In the caller's transaction


def test_two_cannot_end_one_lease(fifo, database, engine):
    """Of two transactions that acknowledge and give up the same lease, one conflicts."""
    fifo.push("x")
    leased = fifo.lease()
    acking, nacking = database.create_transaction(), database.create_transaction()
    fifo.ack(leased, tr=acking)
    fifo.nack(leased, tr=nacking)
    acking.commit().wait()
    with pytest.raises(engine.error) as caught:
        nacking.commit().wait()
    assert caught.value.code == 1020
    assert not any(assert_counted(fifo).values())


# Many


# Dead letters


def test_the_last_attempt_is_the_death(kind, database, subspace, clock):
    """After max_attempts leases given up or run out, whichever, the item is dead."""
    queue = filled(kind, database, subspace, max_attempts=3)
    queue.nack(queue.lease())
    queue.lease(seconds=1)
    clock.advance(2)
    leased = queue.lease()
    assert (kind.texts([leased]), leased.attempts) == ("a", 2)
    queue.nack(leased, delay=60, reason="no such address")
    (dead,) = assert_counted(queue)["dead"]
    assert (dead.id, dead.state, dead.attempts) == (leased.id, "dead", 3)
    assert (dead.reason, dead.until, dead.lease) == ("no such address", None, None)
    assert queue.get(dead.id) == dead
    clock.advance(120)
    assert kind.texts(queue.pop_many(9)) == "bc"


def test_a_block_says_what_it_died_of(fifo, database, subspace):
    """The reason of the death is the error, clipped at 1,000 characters."""
    queue = FifoQueue(database, subspace, max_attempts=1)
    queue.push("x")
    with pytest.raises(LookupError), queue.leased():
        raise LookupError("w" * 2_000)
    (dead,) = queue.page(state="dead").items
    assert dead.reason.startswith("LookupError: www")
    assert len(dead.reason) == 1_000


def test_without_a_limit_nothing_dies(database, subspace):
    """An item may be given up as often as it takes."""
    queue = FifoQueue(database, subspace, max_attempts=None)
    queue.push("x")
    for _ in range(30):
        queue.nack(queue.lease())
    assert queue.pop().attempts == 30


def test_the_limit_is_20_where_none_is_given(fifo):
    """An item that always fails is tried 20 times."""
    pushed = fifo.push("x")
    for _ in range(20):
        assert fifo.counts().dead == 0
        fifo.nack(fifo.lease())
    assert (fifo.get(pushed.id).state, fifo.get(pushed.id).attempts) == ("dead", 20)


# Many that ran out


def expired(kind, database, subspace, clock, count=250, **options):
    """Return a queue in which so many leases have run out."""
    queue = kind.open(database, subspace, **options)
    priorities = [kind.priorities[n % len(kind.priorities)] for n in range(count)]
    queue.push_many(kind.pairs([kind.value(str(n)) for n in range(count)], priorities))
    assert len(queue.lease_many(count, seconds=1)) == count
    clock.advance(2)
    return queue


def test_one_transaction_brings_back_no_more_than_100(kind, database, subspace, clock):
    """A consumer does its share, and the next ones the rest."""
    queue = expired(kind, database, subspace, clock)
    sizes = []
    for _ in range(3):
        queue.pop()
        sizes.append(queue.counts().leased)
    assert all(before - after <= 100 for before, after in zip([250, *sizes], sizes, strict=False))
    assert sizes[-1] == 0
    assert_counted(queue)


def test_large_items_that_ran_out_come_back_in_transactions_of_a_bounded_size(
    database, subspace, clock
):
    """Ten million bytes of them are more than one transaction takes."""
    queue = FifoQueue(database, subspace, codec="bytes")
    queue.push_many(b"%03d" % number * 30_000 for number in range(120))
    leased = []
    while items := queue.lease_many(40, seconds=1):
        leased += items
    assert len(leased) == 120
    clock.advance(2)
    found = []
    while item := queue.pop():
        found.append(int(item.value[:3]))
    assert sorted(found) == list(range(120))
    assert_counted(queue)


def test_a_pop_goes_on_when_all_it_brought_back_are_dead(database, subspace, clock):
    """The deaths of the first hundred do not hide those behind them that come back."""
    queue = FifoQueue(database, subspace, max_attempts=1)
    queue.push_many(range(150))
    queue.lease_many(150, seconds=1)
    queue.push("back again", delay=1.5)
    clock.advance(2)
    assert queue.peek().value == "back again"
    assert queue.pop().value == "back again"
    assert queue.pop() is None


def died(queue, clock, count):
    """Fill a queue with items that are leased, and will have died."""
    queue.push_many(range(count))
    leased = 0
    while leased < count:
        leased += len(queue.lease_many(1_000, seconds=10))
    clock.advance(30)


_TAKES_IN = {
    "pop": lambda catalog, tr: catalog.queue("q-1").pop_many(3, tr=tr),
    "pop_max": lambda catalog, tr: catalog.queue("q-1").pop_many(3, end="max", tr=tr),
    "lease": lambda catalog, tr: catalog.queue("q-1").lease_many(3, tr=tr),
    "pop of a list": lambda catalog, tr: catalog.several(["other", "q-1"]).pop_many(3, tr=tr),
    "lease of a family": lambda catalog, tr: catalog.several(["q-*"]).lease_many(3, tr=tr),
}


@pytest.mark.parametrize("take", _TAKES_IN)
@pytest.mark.parametrize("shards", [None, 3])
def test_a_take_in_a_transaction_of_many_leases_whose_items_die(
    database, subspace, clock, monkeypatch, take, shards
):
    """It buries a bounded number, and yet finds the one that comes back, or that none does."""
    monkeypatch.setattr(expiry, "_MORE", 50)
    specs = [QueueSpec("q-*", "fifo", max_attempts=1, shards=shards), QueueSpec("other", "fifo")]
    catalog = Catalog(database, fdb.tuple.unpack(subspace.key()), specs)
    queue = catalog.queue("q-1")
    died(queue, clock, 400)
    assert run(database, lambda tr: _TAKES_IN[take](catalog, tr)) == []
    assert 50 < queue.counts().dead <= MAX_EXPIRED + 50
    queue.push("delayed", delay=1)
    clock.advance(5)
    (found,) = run(database, lambda tr: _TAKES_IN[take](catalog, tr))
    assert found.value == "delayed"
    assert queue.counts().dead < 400
    assert_counted(queue)


@pytest.mark.parametrize("how", ["move_many", "move_many in a transaction", "Mover"])
def test_a_move_of_many_leases_whose_items_die(database, subspace, clock, monkeypatch, how):
    """It finds the one that comes back; by itself also behind more than one transaction buries."""
    monkeypatch.setattr(expiry, "_MORE", 20)
    monkeypatch.setattr(expiry, "_LOOKS", 2)
    queue = FifoQueue(database, subspace["q"], max_attempts=1)
    other = FifoQueue(database, subspace["other"])
    died(queue, clock, 400)
    queue.push("delayed", delay=1)
    clock.advance(5)
    if how == "Mover":
        assert Mover(queue, other).next() == 1
    elif how == "move_many":
        assert queue.move_many(other, 3) == 1
    else:
        moved = []
        while not moved or not moved[-1]:
            moved.append(run(database, lambda tr: queue.move_many(other, 3, tr=tr)))
            assert len(moved) < 5
        assert moved[-1] == 1
    assert other.pop().value == "delayed"
    assert_counted(queue)


def test_a_take_in_a_transaction_of_thousands_of_leases_whose_items_die(database, subspace, clock):
    """Its transaction is not too large."""
    queue = FifoQueue(database, subspace, max_attempts=1)
    died(queue, clock, 12_000)
    assert run(database, lambda tr: queue.pop(tr=tr)) is None
    assert 100 < queue.counts().dead < 2_000


def test_a_peek_passes_over_leases_whose_items_die(database, subspace, clock, monkeypatch):
    """It looks at a bounded number in each transaction, and finds the one that becomes ready."""
    monkeypatch.setattr(browse, "_MAX_PASSED", 150)
    observed = Observed(database)
    queue = FifoQueue(observed, subspace, max_attempts=1)
    queue.push_many(range(500))
    queue.lease_many(500, seconds=10)
    queue.push("delayed", delay=20)
    clock.advance(30)
    before = observed.transactions
    observed.reads.clear()
    assert queue.peek().value == "delayed"
    transactions = observed.transactions - before
    assert 4 <= transactions <= 5
    assert len(observed.reads) <= 500 + 2 * MAX_EXPIRED + 10 * transactions
    assert queue.peek_many(5)[0].value == "delayed"
    assert queue.wait_for_items(0)
    assert run(database, lambda tr: queue.peek(tr=tr)) is None
    assert queue.pop().value == "delayed"
    assert queue.counts().dead == 500


def test_a_peek_at_nothing_but_leases_whose_items_die(database, subspace, clock, monkeypatch):
    """It ends, and says that there is nothing."""
    monkeypatch.setattr(browse, "_MAX_PASSED", 150)
    queue = FifoQueue(database, subspace, max_attempts=1)
    queue.push_many(range(450))
    queue.lease_many(450, seconds=10)
    clock.advance(30)
    assert queue.peek() is None
    assert queue.peek_many(3, end="max") == []
    assert queue.pop() is None
    assert not queue.wait_for_items(0)
