"""The limits of a queue: how many items are leased at a time, and how many are taken in a time."""

from __future__ import annotations

import asyncio
import datetime
import threading
import time
from fractions import Fraction

import fdb.tuple
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fdbqueue.exceptions import CorruptItem
from fdbqueue.service import (
    Batcher,
    Catalog,
    FifoQueue,
    Mover,
    PriorityQueue,
    QueueSpec,
    Worker,
    error_code,
    run,
)
from fdbqueue.service.consume.head import parse_state
from fdbqueue.service.options import QueueOptions, parse_rate
from fdbqueue.service.storage.counts import CountChange
from fdbqueue.service.storage.tables import State
from tests.concurrency.census import assert_counted, values
from tests.concurrency.clients import another
from tests.concurrency.clock import Clock
from tests.concurrency.requests import ask, requests_of
from tests.engines.children import wait_until

LONG_SECONDS = 60
MINUTE_US = 60_000_000
ENDS = ("min", "max")
#: What the engines call a conflict.
NOT_COMMITTED = 1020


@pytest.fixture(params=[FifoQueue, PriorityQueue])
def open_queue(request, database, subspace):
    """Open a queue of the test's own subspace, filled at first."""

    def open_queue(on=database, *, count=0, **options):
        queue = request.param(on, subspace["queue"], **options)
        if count:
            is_fifo = request.param is FifoQueue
            queue.push_many(range(count) if is_fifo else [(n, n) for n in range(count)])
        return queue

    return open_queue


def pop(queue, end="min", **options):
    """Pop one item from an end, None if there is none."""
    return next(iter(queue.pop_many(1, end=end, **options)), None)


def lease(queue, end="min", **options):
    """Lease one item from an end, None if there is none."""
    return next(iter(queue.lease_many(1, end=end, **options)), None)


def push(queue, number):
    """Push a number, as its own priority if there are any."""
    queue.push(*((number,) if isinstance(queue, FifoQueue) else (number, number)))


def conflicts(transaction):
    """Tell whether a transaction conflicts when it commits."""
    try:
        transaction.commit().wait()
    except Exception as error:
        if error_code(error) != NOT_COMMITTED:
            raise
        return True
    return False


def seconds_left(queue, **options):
    """Return for how many seconds a limit keeps items back, None if there is nothing to keep."""
    until = queue.held_until(**options)
    now = datetime.datetime.now(datetime.timezone.utc)
    return None if until is None else (until - now).total_seconds()


# The options


@pytest.mark.parametrize(
    ("text", "items", "seconds", "burst"),
    [
        ("100/s", 100, 1, 100),
        ("600/m", 600, 60, 10),
        ("1/min", 1, 60, 1),
        ("90/hour", 90, 3_600, 1),
        ("1000000/day", 1_000_000, 86_400, 11),
    ],
)
def test_a_rate_and_its_burst(text, items, seconds, burst):
    """The burst is what the rate gives in a second, at least one, unless it is given."""
    rate = parse_rate(text)
    assert (rate.items, rate.period_us, rate.burst) == (items, seconds * 1_000_000, burst)
    assert QueueOptions.checked("q", {"rate": text}).burst == burst
    assert QueueOptions.checked("q", {"rate": text, "burst": 7}).burst == 7
    assert QueueOptions.checked("q", {"rate": None, "burst": None}).burst is None


def test_without_limits_nothing_is_read_or_stored(observed, database, open_queue):
    """Each limit costs one read, which is begun together with the others."""
    reads = {}
    for options in ({}, {"max_leased": 9}, {"rate": "9/s"}, {"max_leased": 9, "rate": "9/s"}):
        queue = open_queue(observed, count=3, **options)
        queue.lease()  # it reads the format once
        before = len(observed.reads)
        queue.lease()
        reads[len(options)] = len(observed.reads) - before
        queue.clear()
    assert reads == {0: reads[0], 1: reads[0] + 1, 2: reads[0] + 2}
    queue = open_queue(count=3)
    queue.pop()
    tokens, tr = queue.parts.store.tables.tokens, database.create_transaction()
    assert not tr[tokens].present()
    open_queue(rate="1/s").pop()
    tr = database.create_transaction()
    assert tr[tokens].present()


# At most so many leases


def test_objects_of_one_queue_keep_their_own_limits(database, subspace):
    """Whichever was made first: one with the limits of a row, one without limits."""
    row = subspace["limits"].key()
    run(database, lambda tr: tr.set(row, b'{"max_leased": 1}'))
    for place, limited_first in (("a", True), ("b", False)):
        made = [
            FifoQueue(database, subspace[place], name="x", limits_at=row if is_limited else None)
            for is_limited in (limited_first, not limited_first)
        ]
        limited, free = made if limited_first else made[::-1]
        free.push_many(range(6))
        assert [bool(limited.lease()) for _ in range(3)] == [True, False, False]
        assert [bool(free.lease()) for _ in range(3)] == [True] * 3


def test_a_lease_that_is_over_at_once_is_a_lease(open_queue, clock):
    """It counts until the next call requeues its item, which that call may lease."""
    queue = open_queue(count=5, max_leased=2)
    assert len(queue.lease_many(5, seconds=0)) == 2
    assert queue.counts().leased == 2
    clock.advance(1)
    assert [(item.value, item.attempts) for item in queue.lease_many(5, seconds=0)] == [
        (0, 1), (1, 1)
    ]  # fmt: skip
    assert queue.counts().leased == 2


def test_a_lower_limit_waits_for_leases_to_end(open_queue):
    """Nothing is leased until fewer are, and leases that are held stay."""
    queue = open_queue(count=9, max_leased=5)
    held = queue.lease_many(5)
    lower = open_queue(max_leased=2)
    for item in held[:3]:
        assert lower.lease() is None
        lower.ack(item)
    assert lower.lease() is None
    lower.ack(held[3])
    assert lower.lease().value == 5
    assert lower.lease() is None
    assert values(queue.lease_many(9)) == [6, 7, 8]  # each process has its own limit


@pytest.mark.parametrize("ends", [("min", "max"), ("max", "min"), ("min", "min")])
def test_two_transactions_that_lease_conflict(open_queue, database, ends):
    """Even at different ends, or they might lease too many together."""
    queue = open_queue(count=9, max_leased=1)
    one, other = database.create_transaction(), database.create_transaction()
    assert lease(queue, end=ends[0], tr=one) is not None
    assert lease(queue, end=ends[1], tr=other) is not None
    one.commit().wait()
    assert conflicts(other)
    assert len(assert_counted(queue)["leased"]) == 1


def test_nothing_else_conflicts_with_a_lease(open_queue, database):
    """Acks, nacks, extends, pushes and pops at the other end take effect beside it."""
    queue = open_queue(count=9, max_leased=5)
    held = queue.lease_many(4)
    tr = database.create_transaction()
    assert queue.lease(tr=tr) is not None
    queue.ack(held[0])
    queue.nack(held[1], delay=60)
    queue.extend(held[2], 60)
    push(queue, 9)
    pop(queue, end="max")
    tr.commit().wait()
    assert len(assert_counted(queue)["leased"]) == 3


def test_under_an_idempotency_key(open_queue):
    """The same call returns the same items, at the limit, too."""
    queue = open_queue(count=9, max_leased=2)
    found = queue.lease_many(5, once="a")
    assert values(found) == [0, 1]
    assert queue.lease_many(5, once="a") == found
    assert queue.lease_many(5, once="b") == []
    queue.ack(found[0])
    assert queue.lease_many(5, once="b") == []
    assert values(queue.lease_many(5, once="c")) == [2]


def test_a_wrong_count_is_mended_by_a_recount(open_queue, database):
    """What a foreign writer has done to the count makes the limit wrong by as much."""
    queue = open_queue(count=9, max_leased=2)
    held = queue.lease_many(2)
    assert len(held) == 2

    def miscount(tr, by):
        change = CountChange(queue.parts.store.tables, tr)
        change.correct_hidden(State.LEASED, by)
        change.write()

    run(database, lambda tr: miscount(tr, 1), wrote=lambda _: True)
    queue.ack(held[0])
    assert queue.lease() is None
    assert seconds_left(queue, to_lease=True) > 0
    queue.recount()
    assert queue.lease() is not None
    run(database, lambda tr: miscount(tr, -3), wrote=lambda _: True)
    assert len(queue.lease_many(9)) == 3
    queue.recount()
    queue.ack(held[1])
    assert queue.lease() is None


# At most so many in a time


def test_every_way_of_taking_counts(open_queue, database, subspace, clock):
    """Pops and leases at either end, moves, drains, and what is taken again."""
    queue = open_queue(count=40, rate="10/s", burst=10)
    other = type(queue)(database, subspace["other"])
    queue.pop()
    queue.pop_many(2, end="max")
    leased = queue.lease()
    queue.nack(leased)
    assert lease(queue, end="min").value == leased.value
    queue.lease_many(1, end="max")
    queue.lease_many(2)
    assert queue.move_many(other, 5) == 2
    for end in ENDS:
        assert pop(queue, end=end) is lease(queue, end=end) is None
        assert queue.move_many(other, 5, end=end) == 0
        assert queue.lease_many(5, end=end) == []
    clock.advance(0.1)
    assert len(Batcher(queue).next()) == 1
    clock.advance(0.2)
    assert Mover(queue, other).next() == 2
    assert other.size() == 4


def test_an_item_that_cannot_be_decoded_costs_no_token(open_queue, database):
    """The error is raised as often as the item is met, in place of an empty result."""
    queue = open_queue(count=3, rate="1/h", burst=1)
    store = queue.parts.store
    first = queue.peek()
    key = store.keys.key(store.keys.place_named(first.id))
    run(database, lambda tr: tr.set(key, b"\xff"), wrote=lambda _: True)
    for _ in range(3):
        with pytest.raises(CorruptItem):
            queue.pop()
    queue.remove(first.id)
    assert queue.pop().value == 1
    assert queue.pop() is None


def test_a_clock_that_is_behind(open_queue, clock):
    """It takes what is left, adds nothing, and takes no time away from others."""
    queue = open_queue(count=40, rate="1/s", burst=10)
    queue.pop_many(8)
    clock.advance(-30)
    assert values([queue.pop()]) == [8]
    clock.advance(30)
    assert values(queue.pop_many(9)) == [9]
    clock.advance(2)
    assert len(queue.pop_many(9)) == 2


def test_a_clock_that_is_ahead(open_queue, clock):
    """It gets a burst; others get nothing new until theirs are there, for a minute at most."""
    queue = open_queue(count=60, rate="1/s", burst=10)
    queue.pop_many(10)
    clock.advance(50)
    assert len(queue.pop_many(40)) == 10
    clock.advance(-50)
    assert queue.pop() is None
    clock.advance(50)
    assert queue.pop() is None
    clock.advance(1)
    assert len(queue.pop_many(40)) == 1
    clock.advance(1_000_000)  # a wrong clock
    assert len(queue.pop_many(40)) == 10
    clock.advance(-1_000_000)
    assert queue.pop() is None
    assert (queue.held_until() - datetime.datetime.fromtimestamp(
        clock.time_ns() / 1e9, datetime.timezone.utc
    )).total_seconds() == pytest.approx(1, abs=0.1)  # fmt: skip


@pytest.mark.parametrize("burst", [1, 3])
def test_a_clock_far_ahead_stops_no_queue(open_queue, clock, burst):
    """Others take that time to be wrong, and have their tokens from then on, one by one."""
    queue = open_queue(count=20, rate="1/s", burst=burst)
    clock.advance(3_600)
    assert len(queue.pop_many(9)) == burst
    clock.advance(-3_600)
    assert queue.wait_for_items(0)  # to look takes nothing, so what follows is a take
    assert queue.pop() is None
    assert not queue.wait_for_items(0)
    for _ in range(4):
        clock.advance(0.5)
        assert queue.pop() is None
        clock.advance(0.5)
        assert queue.wait_for_items(0)
        assert len(queue.pop_many(9)) == 1


def test_a_row_of_tokens_that_cannot_be_read(open_queue, database):
    """Counts as none: the next take writes it again."""
    queue = open_queue(count=9, rate="1/h", burst=2)
    assert len(queue.pop_many(9)) == 2
    tokens = queue.parts.store.tables.tokens
    run(database, lambda tr: tr.set(tokens, b"what"), wrote=lambda _: True)
    assert len(queue.pop_many(9)) == 2
    assert queue.pop() is None
    queue.clear()
    queue = open_queue(count=9, rate="1/h", burst=2)
    assert len(queue.pop_many(9)) == 2


def test_who_helps_leases_as_many_as_may_be(open_queue, database):
    """For itself and for another process, together; the other one is told that there is no more."""
    queue = open_queue(count=20, max_leased=5)
    held = queue.lease_many(2)
    ask(queue, "min", 4, lease_us=MINUTE_US)
    assert values(queue.lease_many(1)) == [2]
    assert values(assert_counted(queue)["leased"]) == [0, 1, 2, 3, 4]
    (served,) = requests_of(queue)
    assert (served.is_handed, served.empty, served.refused) == (True, True, False)
    ask(queue, "min", 1, lease_us=MINUTE_US)
    assert queue.pop().value == 5
    assert all(one.is_handed and one.empty for one in requests_of(queue))
    assert len(queue.lease_many(9, ack=held)) == 2


def test_who_helps_takes_no_more_than_the_rate(open_queue, clock):
    """Tokens are spent for both, and a handoff may be empty."""
    queue = open_queue(count=20, rate="1/s", burst=5)
    ask(queue, "min", 4)
    assert values(queue.pop_many(3)) == [0, 1, 2]
    (served,) = requests_of(queue)
    assert served.is_handed
    ask(queue, "min", 4, lease_us=MINUTE_US)
    assert queue.pop() is None
    assert all(one.is_handed for one in requests_of(queue))
    assert queue.counts().leased == 0
    assert queue.counts().ready == 17  # two of them are handed over
    clock.advance(2)
    assert values(queue.pop_many(9)) == [5, 6]


# Waiting


@pytest.mark.usefixtures("only_woken")
@pytest.mark.parametrize("end", ["ack", "nack", "expire"])
def test_the_end_of_a_lease_wakes_who_waits_to_lease(open_queue, database, pool, end):
    """In another process, too, and long before anybody would look by itself."""
    queue = open_queue(count=5, max_leased=1)
    item = queue.lease(seconds=1 if end == "expire" else 600)
    waiting = [pool.submit(queue.lease, wait=LONG_SECONDS) for _ in range(2)]
    far = open_queue(another(database), max_leased=1)
    watch = queue.parts.group.lease_watch
    wait_until(lambda: watch.waiting == 2 and watch.is_watched())
    if end == "ack":
        far.ack(item)
    elif end == "nack":
        far.nack(item)
    wait_until(lambda: any(one.done() for one in waiting))
    (first,) = [one.result() for one in waiting if one.done()]
    assert first.value == (1 if end == "ack" else 0)
    far.ack(first)
    (second,) = [one.result() for one in waiting if one.result() is not first]
    assert second.value == first.value + 1


def test_tasks_wait_without_a_thread(open_queue, in_loop):
    """For a token, and for a lease to end."""
    queue = open_queue(count=40, rate="20/s", burst=1, max_leased=2)

    async def work():
        began = time.monotonic()
        popped = await asyncio.gather(*[queue.apop(wait=LONG_SECONDS) for _ in range(4)])
        leased = [await queue.alease(wait=LONG_SECONDS) for _ in range(2)]
        assert time.monotonic() - began >= 5 / 20
        assert await queue.alease(wait=0.2) is None
        third = asyncio.ensure_future(queue.alease(wait=LONG_SECONDS))
        watch = queue.parts.group.lease_watch
        while watch.waiting == 0 or not watch.is_watched():
            await asyncio.sleep(0.01)
        await queue.aack(leased[0])
        return values(popped), values(leased), (await third).value

    popped, leased, third = in_loop(work())
    assert (sorted(popped), leased, third) == ([0, 1, 2, 3], [4, 5], 6)


def test_until_when_items_are_held(open_queue):
    """Nothing is held in an empty queue, in a paused one, or in one without limits."""
    assert open_queue(count=3).held_until(to_lease=True) is None
    queue = open_queue(max_leased=1, rate="1/h", burst=2)
    assert seconds_left(queue) <= 0
    item = queue.lease(seconds=600)
    assert seconds_left(queue) <= 0
    assert 500 < seconds_left(queue, to_lease=True) <= 600
    queue.pop()
    assert 3_500 < seconds_left(queue) <= 3_600
    assert 3_500 < seconds_left(queue, to_lease=True) <= 3_600
    assert not queue.wait_for_items(0)
    queue.pause()
    assert queue.held_until() is None
    queue.resume()
    queue.ack(item)
    queue.clear_state("ready")
    assert queue.held_until(to_lease=True) is None


def test_waiting_for_items_to_lease(open_queue):
    """While as many are leased as may be, there are items to pop, and none to lease."""
    queue = open_queue(count=3, max_leased=1)
    item = queue.lease()
    assert queue.wait_for_items(0)
    assert not queue.wait_for_items(0.05, to_lease=True)
    queue.ack(item)
    assert queue.wait_for_items(0, to_lease=True)


# Workers, several queues


@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize("prefetch", [1, 5])
def test_a_worker_keeps_the_limits(open_queue, follow, prefetch):
    """It has no more at a time than may be leased, and ends when the queue is empty, not before."""
    queue = open_queue(count=30, max_leased=2, rate="60/s", burst=4)
    running, most, done = set(), [], []

    def work(item):
        running.add(item.value)
        most.append(queue.counts().leased)
        time.sleep(0.002)
        running.discard(item.value)
        done.append(item.value)
        if follow and len(done) == 30:
            worker.stop()

    worker = Worker(queue, work, threads=4, prefetch=prefetch, follow=follow)
    began = time.monotonic()
    worker.run()
    assert sorted(done) == list(range(30))
    assert max(most) <= 2
    assert time.monotonic() - began >= 26 / 60
    assert not any(assert_counted(queue).values())


@pytest.fixture
def catalog(database, subspace):
    """Two queues with limits, and one without."""
    specs = [
        QueueSpec("leased", "fifo", max_leased=1),
        QueueSpec("paced", "fifo", rate="1/h", burst=2),
        QueueSpec("free", "fifo"),
    ]
    return Catalog(database, fdb.tuple.unpack(subspace.key()), specs)


@pytest.mark.parametrize("fair", [True, False])
def test_a_queue_at_its_limit_is_passed_over(catalog, fair):
    """By a take from several: the next queue gives."""
    several = catalog.several(["leased", "paced", "free"], fair=fair)
    for name in ("leased", "paced", "free"):
        catalog.queue(name).push_many(range(9))
    found = [several.lease() for _ in range(5)]
    queues = [one.queue for one in found]
    assert (queues.count("leased"), queues.count("paced")) == (1, 2)
    assert several.pop().queue == ("leased" if not fair else several.queues()[0].name)
    assert seconds_left(several, to_lease=True) > 0
    assert several.wait_for_items(0, to_lease=True)


# Many threads


def test_who_comes_late_is_not_told_of_a_limit_that_was(open_queue, database, pool, monkeypatch):
    """A round has read the count; then a lease ends, and then a thread joins the round."""
    queue, far = open_queue(max_leased=1), open_queue(another(database), count=3, max_leased=1)
    item = far.lease()
    combiner = queue.parts.group.poppers["min"].combiner
    reading, gate = threading.Semaphore(0), threading.Semaphore(0)

    def parse(*args, **options):
        state = parse_state(*args, **options)
        reading.release()
        assert gate.acquire(timeout=LONG_SECONDS)
        return state

    monkeypatch.setattr("fdbqueue.service.consume.round.parse_state", parse)
    alone = pool.submit(queue.lease)
    assert reading.acquire(timeout=LONG_SECONDS)
    early = pool.submit(queue.lease)
    wait_until(lambda: combiner.in_line == 1)
    gate.release()
    assert alone.result(LONG_SECONDS) is None
    assert reading.acquire(timeout=LONG_SECONDS)
    monkeypatch.undo()
    far.ack(item)
    late = pool.submit(queue.lease)
    wait_until(lambda: combiner.in_line == 2)
    gate.release()
    assert early.result(LONG_SECONDS) is None
    assert late.result(LONG_SECONDS).value == 1


@pytest.mark.parametrize("limits", [{"max_leased": 1}, {"rate": "1/h", "burst": 1}], ids=str)
def test_who_waits_at_a_limit_rests(observed, open_queue, pool, limits):
    """Items are ready all the time, and nobody looks at them over and over."""
    queue = open_queue(observed, count=9, **limits)
    assert queue.lease() is not None
    waiting = [pool.submit(queue.lease, wait=1.5) for _ in range(4)]
    watch = queue.parts.group.lease_watch
    wait_until(lambda: watch.waiting == 4 and watch.is_watched())
    before = observed.transactions
    assert not queue.wait_for_items(0.5, to_lease=True)
    assert [one.result(LONG_SECONDS) for one in waiting] == [None] * 4
    assert observed.transactions - before < 20


# Against a model


class Model:
    """What a FIFO queue with limits is to do, one operation after the other."""

    def __init__(self, max_leased, rate, burst):
        self.max_leased, self.rate, self.burst = max_leased, rate, burst
        self.ready, self.leased = [], {}
        self.now, self.tokens = Fraction(0), Fraction(burst or 0)

    def advance(self, seconds):
        self.now += seconds
        if self.rate:
            gained = self.tokens + seconds * Fraction(self.rate.items * 10**6, self.rate.period_us)
            self.tokens = min(Fraction(self.burst), gained)

    def take(self, count, end, seconds, acks=()):
        for value in acks:
            del self.leased[value]
        for value in [value for value, until in self.leased.items() if until <= self.now]:
            del self.leased[value]
            self.ready = sorted([*self.ready, value])
        if self.rate:
            count = min(count, int(self.tokens))
        if seconds and self.max_leased:
            count = max(0, min(count, self.max_leased - len(self.leased)))
        found = self.ready[:count] if end == "min" else self.ready[::-1][:count]
        self.ready = [value for value in self.ready if value not in found]
        self.tokens -= len(found)
        if seconds:
            self.leased |= dict.fromkeys(found, self.now + seconds)
        return found


OPERATIONS = st.one_of(
    st.tuples(st.just("push"), st.integers(1, 5)),
    st.tuples(st.just("pop"), st.integers(1, 4), st.sampled_from(ENDS), st.booleans()),
    st.tuples(st.just("lease"), st.integers(1, 4), st.sampled_from(ENDS), st.booleans()),
    st.tuples(st.just("swap"), st.integers(1, 4), st.integers(1, 2)),
    st.tuples(st.just("ack"), st.integers(0, 9)),
    st.tuples(st.just("nack"), st.integers(0, 9)),
    st.tuples(st.just("advance"), st.sampled_from([0.05, 0.25, 1, 3, 31, 61])),
)


@given(
    max_leased=st.sampled_from([None, 1, 2, 5]),
    rate=st.sampled_from([None, ("4/s", None), ("4/s", 1), ("2/s", 7), ("60/m", 3)]),
    steps=st.lists(OPERATIONS, max_size=40),
)
@settings(max_examples=60, suppress_health_check=list(HealthCheck), deadline=None)
def test_against_a_model(database, subspace, max_leased, rate, steps):
    """Whatever is done one after the other, it takes exactly what the limits allow."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fdbqueue.service.clock.time", clock)
        text, burst = rate or (None, None)
        queue = FifoQueue(
            database, subspace, max_leased=max_leased, rate=text, burst=burst, max_attempts=None
        )
        queue.clear()
        model = Model(max_leased, parse_rate(text), queue.options.burst)
        held, pushed = {}, 0
        for verb, *facts in steps:
            if verb == "push":
                queue.push_many(range(pushed, pushed + facts[0]))
                model.ready += range(pushed, pushed + facts[0])
                pushed += facts[0]
            elif verb == "advance":
                clock.advance(facts[0])
                model.advance(Fraction(str(facts[0])))
            elif verb in {"pop", "lease"}:
                count, end, in_transaction = facts
                seconds = 30 if verb == "lease" else 0
                options = {"seconds": seconds} if seconds else {}
                take = queue.lease_many if seconds else queue.pop_many
                if in_transaction:
                    found = run(
                        database,
                        lambda tr: take(count, end=end, tr=tr, **options),  # noqa: B023  # called here
                        wrote=lambda _: True,
                    )
                else:
                    found = take(count, end=end, **options)
                assert values(found) == model.take(count, end, seconds)
                held |= {item.value: item for item in found if seconds}
            else:
                held = {value: item for value, item in held.items() if value in model.leased}
                if not held:
                    continue
                chosen = sorted(held)[facts[0] % len(held)] if verb != "swap" else None
                if verb == "ack":
                    queue.ack(held.pop(chosen))
                    del model.leased[chosen]
                elif verb == "nack":
                    queue.nack(held.pop(chosen))
                    del model.leased[chosen]
                    model.ready = sorted([*model.ready, chosen])
                else:
                    acks = sorted(held)[: facts[1]]
                    found = queue.lease_many(facts[0], seconds=30, ack=[held.pop(n) for n in acks])
                    assert values(found) == model.take(facts[0], "min", 30, acks)
                    held |= {item.value: item for item in found}
            counts = queue.counts()
            assert (counts.ready, counts.leased) == (len(model.ready), len(model.leased))
            assert max_leased is None or counts.leased <= max_leased
