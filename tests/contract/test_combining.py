"""Threads that one transaction serves, and what becomes of those that leave."""

from __future__ import annotations

import linecache
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fdbqueue.deadlines import TimedDatabase
from fdbqueue.exceptions import (
    BatchTooLarge,
    CorruptItem,
    DeadlineExceeded,
    EngineUnavailable,
    OutcomeUnknown,
)
from fdbqueue.service import FifoQueue, PriorityQueue, run
from fdbqueue.service.storage.handoffs import begin_handoff, parse_handoff
from fdbqueue.service.tools.examination import Examiner
from tests.concurrency.census import assert_counted
from tests.concurrency.requests import ask
from tests.contract.conftest import Meddled
from tests.contract.test_combined_writes import Held
from tests.engines.children import wait_until

SOON_SECONDS = 60


@pytest.fixture
def ten(database, subspace):
    """A queue of ten items."""
    queue = FifoQueue(database, subspace)
    queue.push_many(range(10))
    return queue


@pytest.fixture
def held(database, ten):
    """The database, with commits that wait for a gate."""
    return Held(database)


def begun(held):
    """Wait until a commit has begun."""
    assert held.begun.acquire(timeout=SOON_SECONDS)


def patient_and_not(held, subspace, seconds):
    """Return one queue without a limit, and one whose calls give up after a time."""
    hurried = TimedDatabase(held, lambda: seconds)
    return FifoQueue(held, subspace), FifoQueue(hurried, subspace)


def test_who_gives_up_in_line_has_taken_nothing(held, subspace, pool, ten):
    """It says so, and what comes later gets the items."""
    patient, hurried = patient_and_not(held, subspace, 0.05)
    first = pool.submit(patient.pop)
    begun(held)
    with pytest.raises(DeadlineExceeded) as caught:
        hurried.pop()
    assert caught.value.outcome_known is True
    held.gate.release()
    assert first.result(SOON_SECONDS).value == 0
    assert [item.value for item in ten.pop_many(10)] == list(range(1, 10))


@pytest.mark.parametrize("operation", ["pop", "lease"])
def test_what_was_taken_for_who_has_given_up_goes_back(held, subspace, pool, ten, operation):
    """Its outcome was unknown to it; the helper puts it back to its place."""
    patient, hurried = patient_and_not(held, subspace, 1.5)

    first = pool.submit(patient.pop)
    begun(held)
    second = pool.submit(getattr(hurried, operation))
    wait_until(lambda: patient.parts.group.poppers["min"].combiner.in_line == 1)
    held.gate.release()
    assert first.result(SOON_SECONDS).value == 0
    begun(held)  # the helper takes for the second, and cannot commit yet
    with pytest.raises(OutcomeUnknown) as caught:
        second.result(SOON_SECONDS)
    assert caught.value.outcome_known is False
    held.meddle = lambda: None
    held.gate.release()
    combiner = patient.parts.group.poppers["min"].combiner
    wait_until(lambda: not combiner.is_busy and len(list(ten)) == 9)
    assert [item.value for item in ten] == list(range(1, 10))
    held_now = assert_counted(ten)
    assert not held_now["leased"]
    assert [item.attempts for item in ten.pop_many(10)] == [0] * 9


def test_a_thread_that_comes_again_while_a_helper_begins(held, subspace, pool, ten):
    """The helper holds the lock that it waited for, which was the thread's: that is no handler."""
    queue = FifoQueue(held, subspace)
    combiner = queue.parts.group.poppers["min"].combiner
    waits, holds, may_go_on = threading.Event(), threading.Event(), threading.Event()

    def at_line(frame, event, _):
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if line.startswith("with taken"):
            waits.set()
        if line.startswith("pass"):
            holds.set()
            assert may_go_on.wait(SOON_SECONDS)
        return at_line

    def at_call(frame, event, _):
        return at_line if frame.f_code.co_name == "_await_turn" else None

    with ThreadPoolExecutor(1) as same:
        first = same.submit(queue.pop)
        begun(held)
        threading.settrace(at_call)
        try:
            other = pool.submit(queue.pop)
            assert waits.wait(SOON_SECONDS)
            held.open()
            assert holds.wait(SOON_SECONDS)
        finally:
            threading.settrace(None)
        again = same.submit(queue.pop)
        wait_until(lambda: combiner.in_line == 2 or again.done())
        may_go_on.set()
        taken = [future.result(SOON_SECONDS).value for future in (first, other, again)]
    assert taken == [0, 1, 2]


def test_an_error_of_the_engine_is_given_to_each_who_waited(database, subspace, pool, ten):
    """Each has one of its own, which says that nothing was taken; later calls go on."""
    broken = threading.Event()
    held = Held(database)
    create = held.create_transaction

    class Breaking:
        def create_transaction(self):
            if broken.is_set():
                raise ConnectionError("the engine is away")
            return create()

    queue = FifoQueue(Breaking(), subspace)
    first = pool.submit(queue.pop)
    begun(held)
    others = [pool.submit(queue.pop) for _ in range(3)]
    wait_until(lambda: queue.parts.group.poppers["min"].combiner.in_line == 3)
    broken.set()
    held.gate.release()
    assert first.result(SOON_SECONDS).value == 0
    errors = [other.exception(SOON_SECONDS) for other in others]
    assert {type(error) for error in errors} == {ConnectionError}
    assert len({id(error) for error in errors}) == 3
    broken.clear()
    held.meddle = lambda: None
    assert queue.pop().value == 1


def test_what_is_undone_comes_before_later_pushes(held, subspace, pool, ten):
    """Also where the queue was empty meanwhile."""
    patient, hurried = patient_and_not(held, subspace, 1.5)
    first = pool.submit(patient.pop_many, 8)
    begun(held)
    second = pool.submit(hurried.pop_many, 5)
    wait_until(lambda: patient.parts.group.poppers["min"].combiner.in_line == 1)
    held.gate.release()
    assert len(first.result(SOON_SECONDS)) == 8
    begun(held)
    with pytest.raises(OutcomeUnknown):
        second.result(SOON_SECONDS)
    hidden = threading.Event()

    def push_before_the_undo():
        hidden.set()
        ten.push("later")

    held.meddle = push_before_the_undo
    held.gate.release()
    combiner = patient.parts.group.poppers["min"].combiner
    wait_until(lambda: not combiner.is_busy and len(list(ten)) == 3)
    assert hidden.is_set()
    assert [item.value for item in ten] == [8, 9, "later"]


def test_a_signal_handler_is_refused_at_once(database, subspace, ten):
    """In the middle of a pop of its thread, which goes on after it."""
    queue = FifoQueue(Meddled(database), subspace)
    refused = []

    def pop_in_between():
        queue.database.meddle = lambda: None
        with pytest.raises(EngineUnavailable, match="signal handler") as caught:
            queue.pop()
        refused.append(caught.value.outcome_known)

    queue.database.meddle = pop_in_between
    assert queue.pop().value == 0
    assert refused == [True]
    assert queue.pop().value == 1


def test_ends_do_not_wait_for_each_other(held, subspace, pool, ten):
    """A pop at one end goes on while the commit of one at the other is held up."""
    queue = FifoQueue(held, subspace)
    first = pool.submit(queue.pop_min)
    begun(held)
    held.meddle = lambda: None
    assert queue.pop_max().value == 9
    held.gate.release()
    assert first.result(SOON_SECONDS).value == 0


@pytest.mark.parametrize("count", [1, 2])
def test_nobody_gets_past_a_corrupt_item_by_being_helped(database, subspace, ten, count):
    """Neither what lies behind it, nor what another process asked for before it was seen."""
    corrupt = ten.page().items[count].id
    key = subspace.key() + ten.parts.store.keys.place_named(corrupt)
    run(database, lambda tr: tr.set(key, b"\xff"))
    requests = [ask(ten, "min", 1) for _ in range(4)]
    with pytest.raises(CorruptItem):
        ten.pop_many(count + 1)
    assert [len(item.id) > 0 for item in ten.page().items] == [True] * 10  # all are there
    assert [item.value for item in ten.pop_many(count)] == list(range(count))
    asked = [
        begin_handoff(database.create_transaction(), ten.parts.store.tables, one.name)
        for one in requests
    ]
    assert [parse_handoff(one) for one in asked] == [None] * 4
    assert ten.page().items[0].id == corrupt


# What is too much for one transaction


def test_handoffs_of_the_dead_come_back_however_many(database, subspace, clock):
    """A bounded number of bytes in each transaction, by what is sent, keys and all."""
    place = subspace["x" * 2_000]
    queue = FifoQueue(database, place)
    queue.push_many(range(2_400))
    found = []
    for _ in range(8):
        ask(queue, "min", 290, seconds=1)
        found.append(queue.pop().value)
    assert queue.counts().ready > len(list(queue))
    clock.advance(2)
    first = queue.peek().value
    found.append(queue.pop().value)
    assert found[-1] == first
    while items := queue.pop_many(500):
        found += [item.value for item in items]
    assert sorted(found) == list(range(2_400))
    assert_counted(queue)


def test_leases_under_the_longest_names_come_back(database, subspace, clock):
    """As many in a transaction as it can send."""
    place = subspace["x" * 9_000]
    queue = FifoQueue(database, place)
    queue.push_many(range(60))
    while queue.lease_many(40, seconds=1):
        pass
    assert queue.counts().leased == 60
    clock.advance(2)
    found = []
    while items := queue.pop_many(10):
        found += [item.value for item in items]
    assert sorted(found) == list(range(60))
    assert_counted(queue)


def test_what_is_overdue_is_repaired_however_much(database, subspace, clock):
    """In as many transactions as that takes."""
    queue = FifoQueue(database, subspace["x" * 2_000])
    queue.push_many(range(1_600))
    while queue.lease_many(320, seconds=1):
        pass
    clock.advance(2)
    assert Examiner(queue).requeue_expired() == 1_600
    assert [item.value for item in queue.pop_many(3)] == [0, 1, 2]


def test_too_many_acks_for_one_transaction_are_refused(database, subspace):
    """By how many it could have been; nothing is changed."""
    queue = PriorityQueue(database, subspace["x" * 1_000])
    queue.push_many((n, 1) for n in range(900))
    leases = []
    while items := queue.lease_many(300):
        leases += items
    with pytest.raises(BatchTooLarge) as caught:
        queue.ack_many(leases)
    most = caught.value.context["most"]
    assert 300 < most < 900
    assert queue.counts().leased == 900
    assert queue.ack_many(leases[:most]) == most
    assert queue.counts().leased == 900 - most
