"""How many waiters an item wakes, and that no waiter sleeps while there is one.

Waiters look by themselves after five seconds. Here they do not, so that nothing hides a wake-up
that was lost.
"""

from __future__ import annotations

import functools
import threading

import pytest

from fdbqueue.service import FifoQueue
from fdbqueue.service.consume import waiting
from tests.concurrency.clients import another
from tests.engines.children import wait_until

pytestmark = pytest.mark.usefixtures("only_woken")

LONG_SECONDS = 60
WAITERS = 40


def asleep(queue):
    """How many wait, once that is being watched."""
    watch = queue.parts.group.watch
    return watch.waiting if watch.is_watched() else -1


def test_a_push_wakes_few(observed, database, subspace, pool):
    """One has the item, those it wakes find nothing, and the others are not asked."""
    queue, pusher = FifoQueue(observed, subspace), FifoQueue(another(database), subspace)
    waiters = [pool.submit(queue.pop, wait=LONG_SECONDS) for _ in range(WAITERS)]
    wait_until(lambda: asleep(queue) == WAITERS)
    for number in range(3):
        before = observed.transactions
        pusher.push(number)
        left = WAITERS - number - 1
        wait_until(lambda left=left: asleep(queue) == left)
        assert observed.transactions - before <= WAITERS // 2  # three look, and set the watch
    assert sum(waiter.done() for waiter in waiters) == 3
    pusher.push_many(range(3, WAITERS))
    assert sorted(waiter.result(LONG_SECONDS).value for waiter in waiters) == list(range(WAITERS))


def test_items_that_come_at_once_wake_as_many(database, subspace, pool):
    """Each that has an item wakes two others."""
    queue = FifoQueue(database, subspace)
    waiters = [pool.submit(queue.lease, wait=LONG_SECONDS) for _ in range(WAITERS)]
    wait_until(lambda: asleep(queue) == WAITERS)
    FifoQueue(another(database), subspace).push_many(range(WAITERS))
    assert sorted(waiter.result(LONG_SECONDS).value for waiter in waiters) == list(range(WAITERS))


def test_who_only_asks_whether_there_are_items_wakes_the_others(database, subspace, pool):
    """They take nothing, so the item is there for each of them."""
    queue = FifoQueue(database, subspace)
    waiters = [pool.submit(queue.wait_for_items, LONG_SECONDS) for _ in range(WAITERS)]
    wait_until(lambda: asleep(queue) == WAITERS)
    FifoQueue(another(database), subspace).push("x")
    assert all(waiter.result(LONG_SECONDS) for waiter in waiters)


@pytest.mark.parametrize("ends", ["gives up", "fails"])
def test_who_is_woken_and_does_not_take_wakes_another(database, subspace, pool, ends):
    """The oldest waiter is woken first; where its call ends otherwise, the next is."""
    queue = FifoQueue(database, subspace)
    is_over = threading.Event()

    def wants():
        if is_over.is_set() and ends == "fails":
            raise ZeroDivisionError
        return not is_over.is_set()

    first = pool.submit(queue.pop_many, 1, wait=LONG_SECONDS, waits_while=wants)
    wait_until(lambda: asleep(queue) == 1)
    others = [pool.submit(queue.pop, wait=LONG_SECONDS) for _ in range(3)]
    wait_until(lambda: asleep(queue) == 4)
    is_over.set()
    FifoQueue(another(database), subspace).push_many("abc")
    assert sorted(other.result(LONG_SECONDS).value for other in others) == ["a", "b", "c"]
    if ends == "fails":
        with pytest.raises(ZeroDivisionError):
            first.result(LONG_SECONDS)
    else:
        assert first.result(LONG_SECONDS) == []


class Watch:
    """A watch that reports nothing, and notes that it was cancelled."""

    is_cancelled = False

    def on_ready(self, callback):
        """Never call it."""

    def cancel(self):
        """Note it."""
        self.is_cancelled = True


def test_a_watch_that_two_threads_have_set_is_not_left_behind(database, monkeypatch):
    """Setting it may take longer than others rely on; then the first one is cancelled."""
    monkeypatch.setattr(waiting, "UNWOKEN_LOOK_SECONDS", 0.0)
    watch = waiting.ItemWatch(database, lambda tr: None)
    watch.enter(lambda: None, 0)
    assert watch.claim()
    assert watch.claim()
    first, second = Watch(), Watch()
    watch.arm(first, 60.0)
    watch.arm(second, 60.0)
    assert (first.is_cancelled, second.is_cancelled) == (True, False)
    watch.leave(next(iter(watch._wakes)))
    assert second.is_cancelled


@pytest.mark.parametrize(("seconds", "told"), [(1.0, 1), (1e9, 0)])
def test_who_leaves_hands_on_when_to_look(database, seconds, told):
    """Only who set the watch knows that something expires before the others look again."""
    woken = []
    watch = waiting.ItemWatch(database, lambda tr: None)
    setter, other = functools.partial(woken.append, 1), functools.partial(woken.append, 2)
    watch.enter(setter, 0)
    watch.claim()
    watch.enter(other, 0)
    asleep_until = watch.next_look(other)
    watch.arm(Watch(), seconds)
    watch.leave(setter)
    watch.wake_others()
    assert woken == [2] * told
    assert watch.is_asleep(other)
    assert (watch.next_look(other) < asleep_until) is bool(told)


@pytest.mark.parametrize("ends", ["a wait", "the watch"])
def test_a_notice_is_told_and_takes_no_waiters_turn(database, subspace, pool, ends):
    """Beside it a waiter sleeps until the item is due, whatever ends meanwhile, and has it."""
    queue = FifoQueue(database, subspace)
    watch = queue.parts.group.watch
    item = queue.push("x", delay=1)
    notice = waiting.Notice((watch,))
    notice.begin(notice.seen())
    assert not notice.may_be()
    waiter = pool.submit(queue.pop, wait=LONG_SECONDS)
    wait_until(lambda: asleep(queue) == 1)
    if ends == "a wait":
        watch.wake_others()
    else:
        watch._watch.cancel()
    assert waiter.result(LONG_SECONDS).id == item.id
    assert notice.may_be()
    notice.close()
    wait_until(lambda: not watch._notices)


def test_a_notice_keeps_the_watch_of_waiters_that_have_left(database, subspace):
    """Until it takes part no longer."""
    queue = FifoQueue(database, subspace)
    watch = queue.parts.group.watch
    notice = waiting.Notice((watch,))
    notice.begin(notice.seen())
    assert queue.pop(wait=0.01) is None
    assert watch.is_watched()
    FifoQueue(another(database), subspace).push("x")
    wait_until(notice.may_be)
    assert queue.pop().value == "x"
    notice.begin(notice.seen())
    notice.close()
    assert not watch.is_watched()
