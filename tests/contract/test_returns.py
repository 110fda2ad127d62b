"""Give back what workers hold, and run now what waits for its time, at somebody else's word."""

from __future__ import annotations

import sys

import pytest

from fdbqueue.exceptions import InvalidInput, LeaseLost, OutcomeUnknown
from fdbqueue.service import GIVEN_BACK, Counts, FifoQueue, ahead, moment, now_us
from fdbqueue.service.instrumentation import Observer, add, remove
from tests import forked
from tests.cases import cases
from tests.concurrency.census import assert_counted
from tests.concurrency.clients import together
from tests.concurrency.kinds import KINDS, MEMBERS
from tests.contract.test_removing_many import queue
from tests.contract.unsure import unsure_database
from tests.engines.children import wait_until

__all__ = ["queue"]

NAIVE = moment(0).replace(tzinfo=None)
#: One of each order, codec and type of priority.
SOME = [kind for kind in KINDS if kind.name in {"fifo-bytes", "ints-commit-bytes", "ints-shards"}]
LEASE_ENDS = {
    "ack": lambda queue, lease: queue.ack(lease),
    "nack": lambda queue, lease: queue.nack(lease),
    "extend": lambda queue, lease: queue.extend(lease, 60),
    "requeue": lambda queue, lease: queue.requeue(lease),
}


def ids(items):
    """Return the ids of items."""
    return [item.id for item in items]


# Give back


def test_what_a_worker_holds_is_given_back(kind, queue):
    """Its items are at their places with an attempt more; another worker's stay leased."""
    before = queue.page().items
    queue.lease_many(3, worker="dead:1", seconds=1_800)
    queue.lease_many(2, worker="alive:2", seconds=1_800)
    told = []
    assert queue.give_back(worker="dead:1", on_given_back=told.append) == 3
    assert told == [3]
    held = assert_counted(queue)
    assert kind.texts(held["ready"]) == "abcf"
    assert [item.attempts for item in held["ready"]] == [1, 1, 1, 0]
    assert ids(held["ready"]) == [*ids(before[:3]), before[5].id]
    assert {item.worker for item in held["leased"]} == {"alive:2"}
    (failure,) = queue.get(before[0].id).failures
    assert (failure.worker, failure.reason, failure.attempt) == ("dead:1", GIVEN_BACK, 1)
    assert queue.give_back(worker="dead:1") == 0


def test_without_an_attempt_items_are_as_they_were(kind, queue):
    """Nothing says that they were leased."""
    before = queue.page().items
    queue.lease_many(4, worker="dead:1")
    assert queue.give_back(worker="dead:1", spend=False) == 4
    assert queue.page().items == before
    assert all(not queue.get(item.id).failures for item in before)
    assert_counted(queue)


def test_some_are_given_back_by_their_ids(kind, queue):
    """Those named and leased, each once; others are passed over."""
    leased = queue.lease_many(3, worker="dead:1")
    ready = queue.peek()
    named = [leased[2].id, ready.id, leased[0].id, leased[2].id]
    assert queue.give_back(iter(named)) == 2
    assert queue.give_back(ids=named) == 0
    assert ids(assert_counted(queue)["leased"]) == [leased[1].id]
    assert queue.give_back([]) == 0


def test_all_are_given_back(queue):
    """If neither ids nor a worker are named; at most as many as the limit says."""
    queue.lease_many(5)
    assert queue.give_back(limit=2) == 2
    assert queue.give_back() == 3
    assert queue.counts() == Counts(6, 0, 0, 0)
    assert_counted(queue)


def test_the_last_attempt_makes_a_dead_letter(kind, queue):
    """As a lease that expires does; without an attempt it does not."""
    queue.nack(queue.lease(worker="first"), reason="no address")
    queue.lease(worker="dead:1")
    assert queue.give_back(worker="dead:1", spend=False) == 1
    queue.lease(worker="dead:1")
    assert queue.give_back(worker="dead:1") == 1
    (dead,) = assert_counted(queue)["dead"]
    assert (dead.reason, dead.attempts) == ("it was given back", 2)
    assert [one.worker for one in dead.failures] == ["first", "dead:1"]


def test_what_was_leased_ahead_is_the_workers_too(queue):
    """Its name in those leases ends with a mark; a long name is cut before it."""
    for name in ("w" * 200, "dead:1"):
        queue.lease_many(2, worker=name)
        queue.lease_many(1, worker=ahead(name))
        assert queue.give_back(worker=name, spend=False) == 3


@pytest.mark.parametrize("end", sorted(LEASE_ENDS))
@pytest.mark.parametrize("spend", [True, False])
@pytest.mark.parametrize("again", [False, True], ids=["free", "leased again"])
def test_a_late_end_of_the_lease_finds_it_lost(queue, end, spend, again):
    """As that of a lease that has expired; whoever has leased the item since keeps it."""
    lease = queue.lease(worker="dead:1")
    queue.give_back(worker="dead:1", spend=spend)
    new = queue.lease(worker="alive:2") if again else None
    held = assert_counted(queue)
    with pytest.raises(LeaseLost):
        LEASE_ENDS[end](queue, lease)
    assert queue.ack_many([lease]).lost == (lease.lease,)
    assert assert_counted(queue) == held
    if new is not None:
        queue.ack(new)


def test_a_bound_leaves_what_was_leased_since(queue, clock):
    """The same word twice does nothing to the lease of the next worker."""
    lease = queue.lease(worker="dead:1")
    bound = moment(now_us() + 1)
    clock.advance(10)
    assert queue.give_back([lease.id], leased_before=bound, spend=False) == 1
    queue.lease(worker="alive:2")
    assert queue.give_back([lease.id], leased_before=bound) == 0
    assert queue.give_back(leased_before=bound) == 0
    assert queue.give_back(leased_before=moment(now_us() + 1)) == 1


def test_an_extended_lease_began_when_it_began(queue, clock):
    """So a bound has it still."""
    lease = queue.lease(worker="dead:1")
    bound = moment(now_us() + 1)
    clock.advance(10)
    queue.extend(lease, 600)
    assert queue.give_back(worker="dead:1", leased_before=bound) == 1


@cases("way", ["give_back", "run_now", "redrive"])
@cases("value", ["yesterday", NAIVE])
def test_bounds_know_their_time_zone(queue, way, value):
    """Anything else is refused."""
    name = {"give_back": "leased_before", "run_now": "due_before", "redrive": "died_before"}[way]
    with pytest.raises(InvalidInput, match="time zone"):
        getattr(queue, way)(**{name: value})


@cases("worker", ["", "a\nb", "x" * 201, 5])
def test_wrong_names_of_workers_are_refused(queue, worker):
    """As where they lease."""
    with pytest.raises(InvalidInput):
        queue.give_back(worker=worker)


@cases("verb", ["give_back", "run_now"])
def test_ids_of_other_queues_are_refused(queue, verb):
    """Nothing is changed."""
    with pytest.raises(InvalidInput):
        getattr(queue, verb)(["?"])


def test_unique_keys_are_taken_again(fifo):
    """An item that returns as it was has its key, unless another has it; else it has none.

    That is how a requeue and a nack leave them.
    """
    for spend, has_key in ((False, True), (True, False)):
        item = fifo.push("x", unique="key", unique_while="ready")
        fifo.lease(worker="dead:1")
        assert fifo.give_back(worker="dead:1", spend=spend) == 1
        assert fifo.push("y", unique="key", unique_while="ready").existing is has_key
        fifo.clear_state("ready")
    item = fifo.push("x", unique="key", unique_while="ready")
    fifo.lease(worker="dead:1")
    other = fifo.push("y", unique="key", unique_while="ready")
    assert (other.existing, fifo.give_back(worker="dead:1", spend=False)) == (False, 1)
    assert fifo.push("z", unique="key", unique_while="ready").id == other.id
    assert ids(fifo) == [item.id, other.id]


def test_the_next_of_a_limited_queue_is_found_at_once(database, subspace):
    """The lease counts no more; a token of the rate stays spent."""
    limited = FifoQueue(database, subspace["leased"], max_leased=1)
    limited.push_many("ab")
    limited.lease(worker="dead:1", seconds=1_800)
    assert limited.lease() is None
    limited.give_back(worker="dead:1")
    assert limited.lease(seconds=60).value == "a"
    rated = FifoQueue(database, subspace["rated"], rate="1/h", burst=1)
    rated.push_many("ab")
    rated.lease(worker="dead:1")
    rated.give_back(worker="dead:1", spend=False)
    assert rated.lease() is None


def test_long_values_and_attempts_apart(database, subspace):
    """Values of several keys, and of a codec that keeps no attempts, return whole."""
    queue = FifoQueue(database, subspace, codec="bytes", max_value_bytes=1_000_000)
    value = b"x\x00" * 150_000
    queue.push_many([value, b"short"])
    queue.lease_many(2, worker="dead:1")
    assert queue.give_back(worker="dead:1") == 2
    assert [(item.value, item.attempts) for item in queue] == [(value, 1), (b"short", 1)]
    assert_counted(queue)


def test_many_go_in_portions(database, subspace, monkeypatch):
    """Of two hundred, or a megabyte; all of them, and the limit is kept."""
    queue = FifoQueue(database, subspace)
    queue.push_many(range(450))
    queue.lease_many(450, worker="dead:1")
    told = []
    assert queue.give_back(worker="dead:1", limit=300, on_given_back=told.append) == 300
    assert told == [200, 100]
    assert queue.give_back(worker="dead:1", on_given_back=told.append) == 150
    assert [item.value for item in queue] == [*range(450)]
    big = FifoQueue(database, subspace["big"])
    big.push_many(["x" * 90_000] * 30)
    big.lease_many(30, worker="dead:1")
    told.clear()
    assert big.give_back(worker="dead:1", on_given_back=told.append) == 30
    assert len(told) == 3
    assert_counted(big)


def test_only_portions_with_something_are_written(database, subspace, observed):
    """A worker that holds one of a thousand leases costs one transaction that writes."""
    queue = FifoQueue(observed, subspace)
    queue.push_many(range(1_000))
    queue.lease_many(999, worker="alive:2")
    queue.lease(worker="dead:1")
    before = observed.transactions
    assert queue.give_back(worker="dead:1") == 1
    assert observed.transactions - before == 1 + 6 + 1  # the last place, the portions, the change


# Run now


def test_delayed_items_run_now(kind, queue):
    """They are ready at their places; whoever waits is woken."""
    before = queue.page().items
    for _ in range(2):
        queue.nack(queue.lease(), delay=600, reason="busy")
    late = queue.push(kind.value("z"), kind.priorities[0], delay=1_000)
    told = []
    assert queue.run_now([before[0].id], on_ready=told.append) == 1
    assert queue.run_now([before[0].id]) == 0
    assert queue.run_now(on_ready=told.append) == 2
    assert told == [1, 2]
    held = assert_counted(queue)
    assert kind.texts(held["ready"]) == "abcdefz"
    assert [item.attempts for item in held["ready"]] == [1, 1, 0, 0, 0, 0, 0]
    assert [one.reason for one in queue.get(before[0].id).failures] == ["busy"]
    assert held["ready"][-1].id == late.id


def test_a_bound_leaves_what_waits_longer(queue, clock):
    """An item that has run and waits again is beyond it."""
    item = queue.lease()
    queue.nack(item, delay=100)
    bound = moment(now_us() + 100_000_001)
    assert queue.run_now([item.id], due_before=bound) == 1
    clock.advance(1)
    again = queue.lease()
    assert again.id == item.id
    queue.requeue(again)
    queue.nack(queue.lease(), retry=True, delay=100)
    assert queue.counts().delayed == 0  # its second attempt was its last
    other = queue.lease()
    queue.nack(other, delay=100)
    assert queue.run_now(due_before=bound) == 0
    assert queue.run_now(limit=5) == 1


def test_what_waits_for_an_item_is_woken(fifo, only_woken, pool):
    """By a run now, and by a give back."""
    fifo.push("x", delay=600)
    waits = pool.submit(fifo.lease, wait=30, worker="dead:1", seconds=600)
    wait_until(fifo.parts.group.lease_watch.is_watched)
    assert fifo.run_now() == 1
    first = waits.result(30)
    waits = pool.submit(fifo.lease, wait=30, seconds=600)
    wait_until(fifo.parts.group.lease_watch.is_watched)
    assert fifo.give_back(worker="dead:1") == 1
    assert waits.result(30).id == first.id


def test_limits_and_a_pause_hold(database, subspace):
    """An item that runs now is ready, and no more."""
    queue = FifoQueue(database, subspace, max_leased=1)
    queue.push_many("ab", delay=600)
    assert queue.run_now() == 2
    assert queue.lease() is not None
    assert queue.lease() is None
    queue.pause()
    assert queue.give_back() == 1
    assert queue.lease() is None
    queue.resume()
    assert queue.lease().value == "a"


# Once, whatever happens


WORK = {
    "give back": lambda queue: queue.give_back(worker="dead:1"),
    "give back as they were": lambda queue: queue.give_back(worker="dead:1", spend=False),
    "run now": lambda queue: queue.run_now(),
}


def prepare(kind, database, subspace):
    """Return a queue in which three are leased and three delayed."""
    queue = kind.open(database, subspace)
    values = [kind.value(text) for text in "abcdef"]
    queue.push_many(kind.pairs(values[:3], [kind.priorities[0]] * 3))
    queue.lease_many(3, worker="dead:1", seconds=600)
    queue.push_many(kind.pairs(values[3:], [kind.priorities[0]] * 3), delay=600)
    return queue


@pytest.mark.parametrize("work", sorted(WORK))
@pytest.mark.parametrize("code", [1021, 1039, 1031])
@pytest.mark.parametrize("kind", SOME, ids=str)
def test_an_unknown_outcome(kind, engine, subspace, work, code):
    """Each item is moved once, and counted once if that can be found out; else it is said."""
    sound = prepare(kind, engine.database, subspace)
    unsure = kind.open(unsure_database(engine.database, code), subspace)
    if code == 1031:
        with pytest.raises(OutcomeUnknown):
            WORK[work](unsure)
    else:
        assert WORK[work](unsure) == 3
    held = assert_counted(sound)
    assert len(held["ready"]) == 3
    assert {item.attempts for item in held["ready"]} == {int(work == "give back")}
    assert WORK[work](sound) == 0
    assert assert_counted(sound) == held


@pytest.mark.parametrize("work", sorted(WORK))
def test_threads_that_say_the_same(kind, database, subspace, work):
    """Each item is moved by one of them."""
    queue = prepare(kind, database, subspace)
    assert sum(together(4, lambda _n: WORK[work](queue))) == 3
    held = assert_counted(queue)
    assert {item.attempts for item in held["ready"]} == {int(work == "give back")}


def test_of_an_ack_and_a_give_back_one_takes_effect(fifo, database, meddled, subspace):
    """The ack commits first: the give back runs again, and finds nothing."""
    fifo.push("x")
    lease = fifo.lease(worker="dead:1")
    rival = FifoQueue(meddled, subspace, name="fifo")
    done = []

    def ack_once():
        if not done:
            done.append(fifo.ack(lease))

    meddled.meddle = ack_once
    assert rival.give_back(worker="dead:1") == 0
    assert done == [None]
    assert not any(assert_counted(fifo).values())


CHILD = """
import sys
from fdb.subspace_impl import Subspace
from fdbqueue.engines import embedded
from fdbqueue.service import FifoQueue
queue = FifoQueue(embedded.open(sys.argv[1]), Subspace(("q",)))
print(queue.give_back(worker="dead:1") if sys.argv[2] == "give" else queue.run_now())
"""


@pytest.mark.parametrize("way", ["give", "run"])
def test_two_processes_say_the_same(tmp_path, way):
    """Each item is moved by one of them, and is there once."""
    from fdb.subspace_impl import Subspace

    from fdbqueue.engines import embedded

    path = tmp_path / "q.sqlite3"
    queue = FifoQueue(embedded.open(path), Subspace(("q",)))
    queue.push_many(range(600), delay=None if way == "give" else 600)
    if way == "give":
        queue.lease_many(600, worker="dead:1", seconds=600)
    command = [sys.executable, "-c", CHILD, str(path), way]
    children = [forked.popen(command, stdout=forked.subprocess.PIPE, text=True) for _ in range(2)]
    counts = [int(child.communicate(timeout=60)[0]) for child in children]
    assert sum(counts) == 600
    held = assert_counted(queue)
    assert [item.value for item in held["ready"]] == [*range(600)]
    assert {item.attempts for item in held["ready"]} == {int(way == "give")}


# Families, and several queues


@pytest.mark.parametrize("kind", MEMBERS, ids=str)
def test_members_of_a_family(kind, database, subspace):
    """A take from the family finds at once what a member was given back, or runs now."""
    catalog = kind.family(database, subspace)
    family = catalog.several(["user-*"])
    for name in ("user-1", "user-2"):
        member = catalog.queue(name)
        member.push(kind.value(name), kind.priorities[0])
        member.push(kind.value(f"{name} later"), kind.priorities[0], delay=600)
    held = [family.lease(worker="dead:1", seconds=1_800) for _ in range(2)]
    assert family.lease() is None
    assert family.give_back(worker="other") == 0
    assert family.give_back(worker="dead:1", limit=1) == 1
    assert family.give_back(worker="dead:1") == 1
    assert sorted(ids([family.pop(), family.pop()])) == sorted(ids(held))
    assert family.pop() is None
    assert family.count("delayed") == 2
    assert family.run_now(due_before=moment(now_us())) == 0
    assert family.run_now() == 2
    assert {kind.text(family.pop().value) for _ in range(2)} == {"user-1 later", "user-2 later"}
    for name in ("user-1", "user-2"):
        assert_counted(catalog.queue(name))


def test_a_limited_members_lease_that_is_given_back_is_news(database, subspace):
    """Another waits for its end in the family, and gets the next item."""
    kind = MEMBERS[0]
    catalog = kind.family(database, subspace, max_leased=1)
    family = catalog.several(["user-*"])
    member = catalog.queue("user-1")
    member.push_many([kind.value("a"), kind.value("b")])
    family.lease(worker="dead:1", seconds=1_800)
    assert family.lease() is None
    assert member.give_back(worker="dead:1") == 1
    assert kind.text(family.lease(seconds=60).value) == "a"


def test_observers_are_told(queue):
    """Of each transaction, under the name of the verb, with its number."""
    seen = []

    class Noting(Observer):
        def operation(self, done):
            seen.append((done.verb, done.items))

    noting = Noting()
    queue.lease_many(2, worker="dead:1")
    add(noting)
    try:
        queue.give_back(worker="dead:1")
        queue.run_now()
    finally:
        remove(noting)
    assert seen == [("give_back", 2)]


KILLED = """
import sys
from fdb.subspace_impl import Subspace
from fdbqueue.engines import embedded
from fdbqueue.service import FifoQueue
queue = FifoQueue(embedded.open(sys.argv[1]), Subspace(("q",)))
def told(count):
    print(count, flush=True)
while True:
    if sys.argv[2] == "give":
        queue.give_back(worker="dead:1", on_given_back=told)
    else:
        queue.run_now(on_ready=told)
"""


@pytest.mark.parametrize("way", ["give", "run"])
def test_a_process_that_is_killed_on_the_way(tmp_path, way):
    """What its transactions have moved stays; the same call does the rest, each item once."""
    from fdb.subspace_impl import Subspace

    from fdbqueue.engines import embedded

    path = tmp_path / "q.sqlite3"
    queue = FifoQueue(embedded.open(path), Subspace(("q",)))
    queue.push_many(range(3_000), delay=None if way == "give" else 600)
    if way == "give":
        for _ in range(3):
            queue.lease_many(1_000, worker="dead:1", seconds=600)
    command = [sys.executable, "-c", KILLED, str(path), way]
    for _ in range(3):
        child = forked.popen(command, stdout=forked.subprocess.PIPE, text=True)
        child.stdout.readline()  # at least one portion is done
        child.kill()
        child.communicate(timeout=60)
        held = assert_counted(queue)
        assert {item.attempts for item in held["ready"]} <= {int(way == "give")}
    rest = queue.give_back(worker="dead:1") if way == "give" else queue.run_now()
    assert rest <= 3_000 - 600
    held = assert_counted(queue)
    assert [item.value for item in held["ready"]] == [*range(3_000)]
    assert {item.attempts for item in held["ready"]} == {int(way == "give")}
