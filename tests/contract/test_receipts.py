"""Receipts: what a writing operation leaves to be found, and how little of it."""

from __future__ import annotations

import math

import fdb.tuple
import pytest

import fdbqueue
from fdbqueue.exceptions import InvalidInput
from fdbqueue.service import FifoQueue, run, transactions
from fdbqueue.service.tools.examination import sweep as sweep_receipts
from tests.concurrency.clients import another, together
from tests.engines.children import Child
from tests.wrapped import WrappedTransaction

THREADS = 4


@pytest.fixture
def receipted(database, subspace):
    """A client whose receipts are kept in the test's own subspace."""
    client = another(database)
    transactions.keep_receipts_at(client, subspace["receipts"])
    return client


@pytest.fixture
def queue(receipted, subspace):
    """A queue of that client."""
    return FifoQueue(receipted, subspace["queue"])


@pytest.fixture
def left(database, subspace):
    """Return the receipts: client, slot, and the version at which it was written."""

    def read():
        found = subspace["receipts"].range()
        rows = database.create_transaction().get_range(found.start, found.stop)
        return [
            (*fdb.tuple.unpack(row.key[len(subspace["receipts"].key()) :]), bytes(row.value))
            for row in rows
        ]

    return read


class Later:
    """A database object around another, whose versions are those of a later time."""

    def __init__(self, database, seconds):
        self._database = database
        self._versions = seconds * 1_000_000

    def create_transaction(self):
        outer, transaction = self, self._database.create_transaction()

        class Version:
            def wait(self):
                return transaction.get_read_version().wait() + outer._versions

        class Wrapped(WrappedTransaction):
            def get_read_version(self):
                return Version()

        return Wrapped(transaction)


def later(database, subspace, seconds):
    """Return the database as it will be, with the receipts of the test."""
    found = Later(database, seconds)
    transactions.keep_receipts_at(found, subspace["receipts"])
    return found


# What leaves one


def test_what_only_reads_leaves_no_receipt(receipted, queue, left):
    """Neither a look at the queue, nor a pop of an empty one, nor a wait in vain."""

    @fdbqueue.transactional
    def look(tr):
        assert queue.pop(tr=tr) is None
        return queue.size(tr=tr), tr[b"nowhere"].present()

    for operation in (
        queue.pop,
        queue.pop_max,
        queue.lease,
        lambda: queue.pop_many(5),
        lambda: queue.pop(wait=0.01),
        queue.peek,
        lambda: queue.peek_many(3, end="max"),
        queue.page,
        lambda: queue.page(state="dead"),
        lambda: list(queue),
        queue.size,
        queue.counts,
        queue.by_priority,
        queue.oldest,
        queue.history,
        lambda: queue.push_many([]),
        lambda: queue.ack_many([]),
        queue.redrive,
        queue.give_back,
        queue.run_now,
        lambda: look(receipted),
        lambda: run(receipted, lambda tr: tr[b"nowhere"].present()),
    ):
        operation()
        assert left() == []


def test_a_look_at_a_queue_in_use_leaves_no_receipt(database, queue, subspace, left):
    """Also when there are items in every state."""
    filler = FifoQueue(database, subspace["queue"])
    filler.push_many(range(5))
    leased = filler.lease()
    filler.bury(filler.peek().id)
    filler.push("x", delay=0.000001)
    for operation in (queue.peek, queue.page, queue.counts, lambda: queue.get(leased.id)):
        assert operation() is not None
    assert left() == []


def test_every_write_leaves_one_in_the_same_place(queue, left):
    """One thread uses one slot, whatever it does; each write is a new receipt in it."""
    values = []
    leased = []
    for operation in (
        lambda: queue.push("a"),
        lambda: queue.push_many(range(6)),
        lambda: queue.push("x", delay=60),
        queue.pop,
        lambda: queue.pop_many(2),
        lambda: leased.extend(queue.lease_many(3)),
        lambda: queue.ack(leased[0]),
        lambda: queue.nack(leased[1]),
        lambda: queue.extend(leased[2]),
        lambda: queue.bury(queue.peek().id),
        queue.redrive,
        queue.clear,
    ):
        operation()
        assert len(left()) == 1
        values.append(left()[0][2])
    assert values == sorted(set(values))


def test_a_function_that_writes_leaves_one(receipted, subspace, left):
    """A transactional one of the caller's, by whatever kind of write."""
    key = subspace["own"].key()
    for write in (
        lambda tr: tr.set(key, b"1"),
        lambda tr: tr.clear(key),
        lambda tr: tr.clear_range(key, key + b"\xff"),
        lambda tr: tr.add(key, b"\x01"),
        lambda tr: tr.set_versionstamped_value(key, bytes(14)),
    ):
        before = left()
        run(receipted, write)
        assert len(left()) == 1
        assert left() != before


# How many


def test_as_many_are_left_as_threads_worked_at_once(queue, left):
    """500 operations by 4 threads leave 4 at most, all of this client."""

    def work(number):
        for turn in range(42):
            queue.push([number, turn])
            item = queue.lease()
            queue.ack(item)

    together(THREADS, work)
    assert 1 <= len(left()) <= THREADS
    assert len({client for client, _, _ in left()}) == 1
    together(THREADS, work)
    assert len(left()) <= THREADS


def test_two_databases_of_a_process_keep_apart(database, subspace):
    """Each has its receipts where it was told to."""
    clients = [another(database), another(database)]
    for number, client in enumerate(clients):
        transactions.keep_receipts_at(client, subspace[number])
        FifoQueue(client, subspace["queue"]).push(number)
    for number, client in enumerate(clients):
        assert transactions.receipts_of(client).key() == subspace[number].key()
        found = subspace[number].range()
        assert len(list(client.create_transaction().get_range(found.start, found.stop))) == 1


def test_without_being_told_they_have_a_place(database):
    """Of the package's own, outside of all queues."""
    for client in (another(database), object()):
        assert transactions.receipts_of(client).key() == transactions.DEFAULT_SUBSPACE.key()


# Sweeping


def forge(database, subspace, clients, *, seconds=0):
    """Leave the receipts of other clients, written so many seconds from now."""
    transaction = database.create_transaction()  # held until the version is there
    version = transaction.get_read_version().wait() + seconds * 1_000_000
    stamp = version.to_bytes(8, "big") + bytes(2)

    def write(tr):
        for number in clients:
            key = subspace["receipts"].pack((b"other%d" % number, 0))
            tr[key] = stamp + bytes(8)

    run(database, write)


def test_only_old_receipts_are_swept(database, subspace, queue, left):
    """Those whose last operation was as long ago as is said, and no others."""
    queue.push("x")
    forge(database, subspace, range(3))
    forge(database, subspace, range(3, 5), seconds=500)
    future = later(database, subspace, 1_000)
    assert sweep_receipts(future) == 0
    assert sweep_receipts(future, older_than_seconds=1_100) == 0
    assert sweep_receipts(future, older_than_seconds=900) == 4
    kept = {client for client, _, _ in left()}
    assert {b"other3", b"other4"} <= kept
    assert not kept & {b"other0", b"other1", b"other2"}


def test_many_are_swept_in_bounded_transactions(database, subspace, left):
    """More than one transaction takes, without one of them being left."""
    forge(database, subspace, range(2_500))
    future = later(database, subspace, 90_000)
    assert sweep_receipts(future) >= 2_500  # its own looks old, too
    assert not any(client.startswith(b"other") for client, _, _ in left())


def test_who_lives_on_loses_nothing_by_a_sweep(database, subspace, queue, left):
    """Its next operations are as they were."""
    queue.push("a")
    assert sweep_receipts(later(database, subspace, 100_000)) == 1
    queue.push("b")
    assert [item.value for item in queue.pop_many(3)] == ["a", "b"]
    assert 1 <= len(left()) <= 2


@pytest.mark.parametrize("seconds", [599, 0, -1, math.nan, math.inf])
def test_what_may_be_needed_is_not_swept(database, subspace, queue, left, seconds):
    """Under 600 seconds somebody may still want to know."""
    queue.push("x")
    before = left()
    with pytest.raises(InvalidInput):
        sweep_receipts(later(database, subspace, 1_000), older_than_seconds=seconds)
    assert left() == before


def test_600_seconds_are_enough(database, subspace, queue):
    """The least that may be asked for."""
    queue.push("x")
    assert sweep_receipts(later(database, subspace, 1_000), older_than_seconds=600) == 1


# Forks

_FORKS = """
from fdb.subspace_impl import Subspace
from fdbqueue.service import (FifoQueue, transactions)

subspace = Subspace(rawPrefix=bytes.fromhex(sys.argv[2]))
transactions.keep_receipts_at(database, subspace["receipts"])
queue = FifoQueue(database, subspace["queue"])
queue.push("before")
queue.lease()
pid = os.fork()
if pid == 0:
    for number in range(3):
        queue.push(["child", number])
    say(queue.pop_max().value == ["child", 2])
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
queue.push("parent")
say("done")
"""


@pytest.mark.parametrize("engine", ["embedded"], indirect=True)
def test_a_forked_process_is_another_client(database, subspace, left):
    """It never writes into the slots of its parent."""
    with Child(database.path, _FORKS, subspace.key().hex()) as child:
        assert child.end() == ["True", "done"]
    clients = [client for client, _, _ in left()]
    assert len(clients) == len(set(clients)) == 2
    found = FifoQueue(database, subspace["queue"])
    assert [item.value for item in found] == [["child", 0], ["child", 1], "parent"]
