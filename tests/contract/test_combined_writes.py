"""Pushes, acks, nacks and extends of several threads, which share transactions."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from fdbqueue.deadlines import TimedDatabase
from fdbqueue.exceptions import InvalidValue, LeaseLost, OutcomeUnknown, ValueTooLarge
from fdbqueue.service import FifoQueue, PriorityQueue, Push, run
from fdbqueue.service.writes import _IN_FLIGHT
from tests.concurrency.census import assert_counted
from tests.contract.conftest import Meddled
from tests.engines.children import wait_until

SOON_SECONDS = 60


class Held(Meddled):
    """A database that counts commits, and holds them up while a gate is closed."""

    def __init__(self, database):
        super().__init__(database)
        self.begun = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)
        self.is_open = False
        self.commits = 0
        self.meddle = self._wait

    def _wait(self):
        self.commits += 1
        if not self.is_open:
            self.begun.release()
            assert self.gate.acquire(timeout=SOON_SECONDS)

    def open(self):
        self.is_open = True
        self.gate.release(100)


class Reads:
    """A database that notes what is read by snapshots: keys, and where ranges begin."""

    def __init__(self, database):
        self.keys, self.ranges = [], []
        self._database = database

    def create_transaction(self):
        reads, transaction = self, self._database.create_transaction()

        class Snapshot:
            def __getitem__(self, key):
                reads.keys.append(key)
                return transaction.snapshot[key]

            def get_range(self, begin, *arguments, **options):
                reads.ranges.append(begin)
                return transaction.snapshot.get_range(begin, *arguments, **options)

        class Wrapped:
            snapshot = Snapshot()

            def __getattr__(self, name):
                return getattr(transaction, name)

            def __setitem__(self, key, value):
                transaction[key] = value

        return Wrapped()


@pytest.fixture
def held(database, pool):  # the pool outlives it
    """The database, with commits that wait for a gate."""
    held = Held(database)
    yield held
    held.open()


def writes(queue):
    """Return what combines the writes of a queue."""
    return queue.parts.group.writes.combiner


def counted(queue):
    """Return the items by state, once all writes have ended; they are counted right."""
    wait_until(lambda: not writes(queue).is_busy and not writes(queue).in_line)
    return assert_counted(queue)


def fill(pool, held, queue):
    """Let as many pushes be in flight as there may be."""
    first = []
    for number in range(_IN_FLIGHT):
        first.append(pool.submit(queue.push, f"first {number}"))
        assert held.begun.acquire(timeout=SOON_SECONDS)
    return first


def in_line(pool, queue, *calls):
    """Let calls wait in line, in their order, and return their futures."""
    futures = []
    before = writes(queue).in_line
    for number, (call, *arguments) in enumerate(calls, 1):
        futures.append(pool.submit(call, *arguments))
        wait_until(lambda number=number: writes(queue).in_line == before + number)
    return futures


def results(futures):
    return [future.result(SOON_SECONDS) for future in futures]


def test_an_engine_that_makes_one_commit_at_a_time(held, subspace, pool):
    """One transaction is in flight, and the next has all who have come meanwhile."""
    held.commits_one_at_a_time = True
    queue = FifoQueue(held, subspace)
    first = pool.submit(queue.push, "first")
    assert held.begun.acquire(timeout=SOON_SECONDS)
    others = in_line(pool, queue, *[(queue.push, f"later {n}") for n in range(10)])
    assert held.commits == 1
    held.open()
    results([first, *others])
    assert held.commits == 2
    assert [item.value for item in queue] == ["first", *(f"later {n}" for n in range(10))]


@pytest.mark.parametrize("kind", [FifoQueue, PriorityQueue])
@pytest.mark.parametrize("order", ["count", "commit"])
def test_pushes_in_line_are_committed_together(held, subspace, pool, kind, order):
    """One commit for ten of them, in the order they came; each caller has its own item."""
    queue = kind(held, subspace, order=order)
    first = fill(pool, held, queue)
    others = in_line(pool, queue, *[(queue.push, f"later {n}") for n in range(10)])
    held.open()
    results(first)
    items = results(others)
    assert held.commits == _IN_FLIGHT + 1
    assert [item.value for item in items] == [f"later {n}" for n in range(10)]
    assert len({item.id for item in items}) == 10
    stored = list(queue)
    assert [item for item in stored if item.value.startswith("later")] == items
    assert not any(counted(queue)[state] for state in ("leased", "delayed", "dead"))


def test_what_pushes_under_many_priorities_read(held, subspace, pool):
    """Each priority's tail once, and once the highest place of hidden items."""
    reads = Reads(held)
    queue = PriorityQueue(reads, subspace)
    first = fill(pool, held, queue)
    later = in_line(pool, queue, *[(queue.push, "later", n % 5) for n in range(20)])
    reads.keys.clear()
    reads.ranges.clear()
    held.open()
    results([*first, *later])
    tails = [queue.parts.store.keys.level(n)[0] for n in range(5)]
    assert [begin for begin in reads.ranges if begin in tails] == tails
    assert reads.keys == [queue.parts.store.tables.high]
    assert held.commits == _IN_FLIGHT + 1


def test_batches_and_delayed_items_are_committed_with_others(held, subspace, pool):
    """A push of several, and one with a delay, share the transaction too."""
    queue = FifoQueue(held, subspace)
    fill(pool, held, queue)
    several, delayed, one = in_line(
        pool,
        queue,
        (queue.push_batch, [Push(1), Push(2), Push(3)]),
        (lambda: queue.push("delayed", delay=600),),
        (queue.push, 4),
    )
    held.open()
    assert [item.value for item in several.result(SOON_SECONDS)] == [1, 2, 3]
    assert delayed.result(SOON_SECONDS).state == "delayed"
    assert one.result(SOON_SECONDS).value == 4
    assert held.commits == _IN_FLIGHT + 1
    assert [item.value for item in queue][-4:] == [1, 2, 3, 4]
    assert counted(queue)["delayed"][0].value == "delayed"


def find_behind_a_push(database, held, subspace, pool):
    """Push, and read items of earlier commits in writes that wait behind; return the commits."""
    plain, queue = (
        FifoQueue(one, subspace, order="commit", max_value_bytes=200_000)
        for one in (database, held)
    )
    has_it = plain.push("has it", unique="k", delay=600)
    long = plain.push("x" * 150_000)
    leased = plain.lease(seconds=600)
    fill(pool, held, queue)
    before = held.commits
    calls = in_line(
        pool,
        queue,
        (queue.push, "y" * 150_000),
        (lambda: queue.push("too late", unique="k"),),
        (queue.extend, leased, 900),
        (lambda: queue.push("later", delay=600),),
        (lambda: queue.push("too late", unique="k"),),
    )
    held.open()
    pushed, found, extended, _, again = results(calls)
    assert pushed.value == "y" * 150_000
    assert (found.id, found.existing) == (again.id, again.existing) == (has_it.id, True)
    assert (extended.id, extended.value) == (long.id, long.value)
    commits = held.commits - before
    assert [item.value for item in counted(queue)["delayed"]] == ["has it", "later"]
    return commits


def test_what_is_found_behind_a_push_in_commit_order(engine, database, held, subspace, pool):
    """A push hides no item of an earlier commit from the writes that share its transaction."""
    allowed = {1} if engine.name == "embedded" else {1, 5}
    assert find_behind_a_push(database, held, subspace, pool) in allowed


class Hiding(Meddled):
    """A database whose stamped keys hide all items, as they do those of the very last commit."""

    def create_transaction(self):
        transaction = super().create_transaction()
        state = transaction._state

        class Unknowing(type(transaction)):
            def set_versionstamped_key(self, key, value):
                state.read_version.known = None
                transaction.set_versionstamped_key(key, value)

        return Unknowing(transaction)


@pytest.mark.parametrize("engine", ["embedded"], indirect=True)
def test_what_may_be_hidden_by_a_push_in_commit_order(database, subspace, pool):
    """Items of the very last commit: then each write is committed by itself."""
    held = Held(Hiding(database))
    assert find_behind_a_push(database, held, subspace, pool) == 5


def test_each_fails_alone(held, database, subspace, pool):
    """A lost lease is the error of the one who held it; the others take effect."""
    plain, queue = FifoQueue(database, subspace), FifoQueue(held, subspace)
    plain.push_many(range(5))
    acked, nacked, extended, *lost = (plain.lease(seconds=600) for _ in range(5))
    plain.ack_many(lost)
    fill(pool, held, queue)
    calls = in_line(
        pool,
        queue,
        (queue.ack, lost[0]),
        (queue.push, "pushed"),
        (queue.ack, acked),
        (queue.extend, lost[1], 10),
        (lambda: queue.nack(nacked, delay=600),),
        (queue.extend, extended, 900),
    )
    held.open()
    errors = [call.exception(SOON_SECONDS) for call in calls]
    assert [type(error) for error in errors] == [LeaseLost, type(None), type(None), LeaseLost] + [
        type(None)
    ] * 2
    assert errors[0] is not errors[3]
    assert errors[0].outcome_known is True
    assert held.commits == _IN_FLIGHT + 1
    assert calls[5].result().until > extended.until
    assert calls[5].result().lease == extended.lease
    found = counted(queue)
    assert [item.id for item in found["leased"]] == [extended.id]
    assert [(item.id, item.attempts) for item in found["delayed"]] == [(nacked.id, 1)]
    assert [item.value for item in found["ready"]][-1] == "pushed"


def test_two_acks_of_one_lease(held, database, subspace, pool):
    """They do not share a transaction: one of them finds the lease gone."""
    plain, queue = FifoQueue(database, subspace), FifoQueue(held, subspace)
    plain.push_many(range(2))
    item = plain.lease(seconds=600)
    fill(pool, held, queue)
    calls = in_line(pool, queue, *[(queue.ack, item)] * 3, (queue.push, "pushed"))
    held.open()
    errors = [type(call.exception(SOON_SECONDS)) for call in calls]
    assert errors == [type(None), LeaseLost, LeaseLost, type(None)]
    assert not counted(queue)["leased"]


def test_what_cannot_be_pushed_joins_nothing(held, subspace, pool):
    """A value that cannot be encoded, or is too long, fails before it waits for others."""
    queue = FifoQueue(held, subspace)
    fill(pool, held, queue)
    with pytest.raises(InvalidValue):
        queue.push(object())
    with pytest.raises(ValueTooLarge):
        queue.push("x" * 6_000_000)
    assert writes(queue).in_line == 0


def test_more_than_one_transaction_takes_is_split(held, subspace, pool):
    """Twenty values of 90 kB are pushed in more than one transaction, each once."""
    queue = FifoQueue(held, subspace)
    first = fill(pool, held, queue)
    calls = in_line(pool, queue, *[(queue.push, f"{n:02}" * 45_000) for n in range(20)])
    held.open()
    results([*first, *calls])  # the first ones may conflict, and then come after the others
    assert _IN_FLIGHT + 2 <= held.commits <= _IN_FLIGHT + 5 + _IN_FLIGHT
    assert Counter(item.value[:2] for item in queue.peek_many(100)) == Counter(
        ["fi"] * _IN_FLIGHT + [f"{n:02}" for n in range(20)]
    )


class Refusing:
    """A database that refuses commits that write more than a few items, for good."""

    def __init__(self, database, most_bytes):
        self._database = database
        self._most_bytes = most_bytes

    def create_transaction(self):
        tr = self._database.create_transaction()
        tr.options.set_size_limit(self._most_bytes)
        return tr


def test_a_refused_transaction_is_done_one_by_one(held, subspace, pool):
    """Only the push that is too large by itself has the error (2101)."""
    queue = FifoQueue(Refusing(held, 5_000), subspace)
    first = fill(pool, held, queue)
    sizes = [10, 20, 6_000, 30, 40]
    calls = in_line(pool, queue, *[(queue.push, "x" * size) for size in sizes])
    held.open()
    results(first)
    errors = [call.exception(SOON_SECONDS) for call in calls]
    assert [getattr(error, "code", None) for error in errors] == [None, None, 2101, None, None]
    assert [len(item.value) for item in queue][_IN_FLIGHT:] == [10, 20, 30, 40]


def test_who_gives_up_in_flight_does_not_know(held, subspace, pool):
    """The commit has begun: it may take effect, and does."""
    queue = FifoQueue(held, subspace)
    hurried = FifoQueue(TimedDatabase(held, lambda: 1.5), subspace)
    fill(pool, held, queue)
    (late,) = in_line(pool, queue, (hurried.push, "late"))
    held.gate.release()
    assert held.begun.acquire(timeout=SOON_SECONDS)  # a helper commits it
    with pytest.raises(OutcomeUnknown) as caught:
        late.result(SOON_SECONDS)
    assert caught.value.outcome_known is False
    held.open()
    wait_until(lambda: "late" in [item.value for item in queue])
    assert not any(counted(queue)[state] for state in ("leased", "delayed", "dead"))


@pytest.mark.parametrize("error", [KeyError("no"), InvalidValue(reason="no")], ids=["own", "ours"])
def test_what_fails_beside_a_write(database, held, subspace, pool, error):
    """It prevents its own write alone; half of it is not committed with those that share."""
    key = subspace.pack(("beside",))

    def fail(tr, *_):
        tr[key] = b"half"
        raise error

    queue = FifoQueue(held, subspace["queue"])
    FifoQueue(database, subspace["queue"]).push("leased")
    item = FifoQueue(database, subspace["queue"]).lease()
    first = fill(pool, held, queue)
    failed, second, acked = in_line(
        pool,
        queue,
        (queue.prepare(Push("failed"), beside=fail), None),
        (queue.push, "second"),
        (lambda: queue.ack(item, beside=fail),),
    )
    held.open()
    results([*first, second])
    for call in (failed, acked):
        with pytest.raises(type(error)):
            call.result(SOON_SECONDS)
    assert not run(database, lambda tr: tr[key].present(), read_only=True)
    found = counted(queue)
    assert [one.value for one in found["leased"]] == ["leased"]
    assert len(found["ready"]) == _IN_FLIGHT + 1
