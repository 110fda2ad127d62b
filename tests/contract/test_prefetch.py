"""Workers that lease more items than they have threads."""

from __future__ import annotations

import signal
import threading

import pytest

from fdbqueue.service import FifoQueue, Worker
from fdbqueue.service.tools import line
from tests.concurrency.census import assert_counted
from tests.engines.children import wait_until
from tests.engines.interrupts import Interrupt, Preemption

ITEMS = 60


@pytest.fixture
def queue(database, subspace):
    """A queue of numbers."""
    queue = FifoQueue(database, subspace, name="numbers")
    queue.push_many(range(ITEMS))
    return queue


def test_items_come_in_their_order(queue):
    """One thread sees what one that leases item by item does."""
    done = []
    worker = Worker(queue, lambda item: done.append(item.value), prefetch=7)
    worker.run()
    assert done == list(range(ITEMS))
    assert worker.handled == ITEMS
    assert not any(assert_counted(queue).values())


@pytest.mark.parametrize("failing", [{0}, {ITEMS - 1}, {7, 8, 9}, set(range(ITEMS))])
@pytest.mark.parametrize("follow", [False, True])
def test_items_that_fail_leave_none_behind(queue, failing, follow):
    """Whatever their places: what is done is acknowledged, also where the last one fails."""

    def work(item):
        if item.value in failing:
            raise LookupError

    worker = Worker(queue, work, prefetch=8, follow=follow, retry_delay_seconds=600)
    thread = threading.Thread(target=worker.run)
    thread.start()
    wait_until(lambda: queue.counts().leased == queue.counts().ready == 0)
    worker.stop()
    thread.join(60)
    assert not thread.is_alive()
    assert (worker.handled, worker.failed) == (ITEMS - len(failing), len(failing))
    assert queue.counts().delayed == len(failing)


def test_what_is_done_does_not_wait_for_an_item_that_takes_long(queue):
    """It is acknowledged meanwhile, and the leases of those that wait are held."""
    gate = threading.Event()

    def work(item):
        if item.value == 3:
            assert gate.wait(60)

    worker = Worker(queue, work, prefetch=6)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        wait_until(lambda: worker.handled == 3)
        assert sorted(item.value for item in worker.running())[:3] == [3, 4, 5]
    finally:
        gate.set()
        thread.join(60)
    assert worker.handled == ITEMS


def test_the_leases_of_the_last_are_extended_first(queue, monkeypatch):
    """The first end meanwhile, which makes their transaction conflict: no others wait for it."""
    monkeypatch.setattr(line, "_EXTENDED_AFTER", 0)
    monkeypatch.setattr(line, "_EXTENDED_TOGETHER", 2)
    gate, extended, extend_many = threading.Event(), [], queue.extend_many

    def noted(items, seconds):
        extended.append([item.value for item in items])
        return extend_many(items, seconds)

    monkeypatch.setattr(queue, "extend_many", noted)
    worker = Worker(queue, lambda _: gate.wait(60), prefetch=5, limit=5)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        wait_until(lambda: [4] in extended)
        at = extended.index([4])
        wait_until(lambda: len(extended) >= at + 3)
    finally:
        gate.set()
        thread.join(60)
    assert extended[at : at + 3] == [[4], [2, 3], [0, 1]]


def test_a_stopped_worker_finishes_what_it_has_leased(queue):
    """And leases nothing more."""
    done = []

    def work(item):
        done.append(item.value)
        worker.stop()

    worker = Worker(queue, work, prefetch=5, follow=True)
    worker.run()
    assert done == list(range(5))
    assert queue.size() == ITEMS - 5


@pytest.fixture
def interruptible():
    """Let SIGINT raise KeyboardInterrupt in the main thread."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_main_thread():
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


@pytest.mark.parametrize("place", range(6))
def test_an_interrupt_while_it_acknowledges_what_is_done_for_long(queue, interruptible, place):
    """The worker finishes all that it has leased, and raises the interrupt."""
    gate, hung = threading.Event(), threading.Event()

    def work(item):
        if item.value == 6:
            assert gate.wait(60)

    def tell(item, error):
        if item.value == place:  # item 6 holds the only thread up, so this is another one
            interrupt_main_thread()
            gate.set()

    def give_up():
        hung.set()
        gate.set()
        interrupt_main_thread()

    worker = Worker(queue, work, prefetch=20, on_end=tell)
    watchdog = threading.Timer(30, give_up)
    watchdog.start()
    with pytest.raises(KeyboardInterrupt):
        worker.run()
    watchdog.cancel()
    assert not hung.is_set()
    assert worker.handled >= 7
    assert queue.counts().leased == 0
    assert queue.size() == ITEMS - worker.handled


def test_what_has_ended_is_reported_while_the_worker_waits(database, subspace):
    """Also what was done as another thread acknowledged: no end waits for the next item."""
    acknowledges, ended, reported = threading.Event(), [], []

    class Watched(FifoQueue):
        def lease_many(self, *args, ack=(), **options):
            if [item.value for item in ack] == [1]:  # the second is done before that is committed
                acknowledges.set()
                wait_until(lambda: len(worker._done) == 2)
            return super().lease_many(*args, ack=ack, **options)

    def work(item):
        if item.value == 2:
            assert acknowledges.wait(60)

    queue = Watched(database, subspace)
    queue.push_many([1, 2])
    worker = Worker(
        queue,
        work,
        threads=2,
        follow=True,
        on_end=lambda item, error: ended.append(item.value),
        on_free=lambda: reported.extend(ended[len(reported) :]),
    )
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        wait_until(lambda: sorted(reported) == [1, 2])
    finally:
        worker.stop()
        thread.join(60)


@pytest.mark.parametrize("prefetch", [1, 3])
def test_an_interrupt_at_each_place(database, subspace, prefetch):
    """It is raised; all that was leased is done by then, once, and no thread is left."""
    queue = FifoQueue(database, subspace)
    before = workers_threads()

    def run():
        try:
            worker.run()
        except Interrupt as interrupt:
            raised.append(interrupt)
        ended.set()

    was_interrupted, place, done = True, 1, []
    while was_interrupted:
        queue.push_many([place] * 4)
        worker = Worker(queue, lambda item: done.append(item.id), threads=2, prefetch=prefetch)
        raised, ended = [], threading.Event()
        preemption = Preemption(place, within="tools/worker.py")
        threading.Thread(target=preemption.run, args=(run,), daemon=True).start()
        assert ended.wait(60), f"it hangs after an interrupt at place {place}"
        was_interrupted = preemption.was_interrupted
        assert [type(one) for one in raised] == [Interrupt] * was_interrupted
        counts = queue.counts()
        assert (counts.leased, counts.delayed, counts.dead) == (0, 0, 0)
        place += 1
    assert len(done) == len(set(done))
    assert worker.handled == 4
    assert place > 60
    wait_until(lambda: not [one for one in workers_threads() - before if one.is_alive()])


def workers_threads():
    return {one for one in threading.enumerate() if one.name == "fdbqueue-worker"}


def test_what_was_put_back_is_leased_again_while_others_run(queue):
    """A limit that all its items have reached leaves no thread idle once some are put back."""
    long = {ITEMS - 6: threading.Event(), ITEMS - 5: threading.Event()}
    begun, done = threading.Barrier(3), []

    def work(item):
        if item.value in long:
            begun.wait(60)
            assert long[item.value].wait(60)
            if item.value == ITEMS - 5:
                raise LookupError
        done.append(item.value)

    def settle(items):
        for item in items:
            queue.requeue(item)

    worker = Worker(
        queue, work, threads=2, prefetch=16, ahead_seconds=0.1, settle=settle, limit=ITEMS
    )
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        begun.wait(60)
        wait_until(lambda: queue.counts().leased == 2)
        assert queue.counts().ready >= 4
        long[ITEMS - 5].set()
        wait_until(lambda: sorted({*range(ITEMS)} - {*done}) == [ITEMS - 6, ITEMS - 5])
        assert thread.is_alive()
    finally:
        for event in long.values():
            event.set()
        thread.join(60)
    assert not thread.is_alive()
    assert (worker.handled, worker.failed) == (ITEMS - 1, 1)
    assert queue.counts().delayed == 1
