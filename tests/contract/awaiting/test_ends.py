"""Loops, coroutines and processes that end while something is awaited."""

from __future__ import annotations

import asyncio
import functools
import gc
import queue as queues
import threading

import pytest

from fdbqueue.service import FifoQueue, arun
from fdbqueue.service.threads import THREADS
from tests.concurrency.census import assert_counted, values
from tests.contract.awaiting.gates import DEADLINE_SECONDS, Gated
from tests.engines.children import Child, wait_until

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

LATER = """
import asyncio
from fdb.subspace_impl import Subspace
from fdbqueue.service import FifoQueue

queue = FifoQueue(database, Subspace(("end",)))
"""

#: The event loop's thread goes on after the main thread, whose end closes the pool.
OUTLIVES = (
    LATER
    + """
async def work():
    threading.main_thread().join()
    await queue.apush("x")
    item = await queue.alease(wait=30)
    await queue.aack(item)
    say(item.value)
    say(await queue.apop(wait=0))


threading.Thread(target=lambda: asyncio.run(work())).start()
"""
)

#: Until the end of the first loop there are as many threads as there may be.
CANNOT_START = (
    LATER
    + """
def refuse(*_, **__):
    raise RuntimeError("can't start new thread")


async def work():
    await queue.apush("a")
    return (await queue.apop()).value


queue.push("b")
name = "_start_joinable_thread"
name = name if hasattr(threading, name) else "_start_new_thread"
start = getattr(threading, name)
setattr(threading, name, refuse)
say(asyncio.run(work()))
setattr(threading, name, start)
say(asyncio.run(queue.asize()))
"""
)


def closed_with(operation, until):
    """Begin an operation in a loop, and close the loop when something has happened.

    Returns its task, which will not go on.
    """
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # it says that the task was destroyed

    async def work():
        task = asyncio.ensure_future(operation())
        await asyncio.sleep(0)
        assert await loop.run_in_executor(None, until)
        return task

    try:
        return loop.run_until_complete(work())
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


@pytest.mark.parametrize("operation", ["apop", "alease"])
@pytest.mark.parametrize("is_kept", [True, False])
def test_a_loop_closed_during_a_take_loses_nothing(database, subspace, operation, is_kept):
    """The items are back, with no attempt counted, whether or not its task is still referenced."""
    gated = Gated(database, after=True)
    queue = FifoQueue(gated, subspace)
    before = [queue.push("x")]
    gated.shut()
    task = closed_with(getattr(queue, operation), lambda: gated.reached.wait(DEADLINE_SECONDS))
    if not is_kept:
        del task
    gated.open()
    wait_until(queue.peek)
    gc.collect()
    assert assert_counted(queue)["ready"] == before


def test_a_coroutine_closed_during_a_pop_loses_nothing(database, subspace, in_loop):
    """As when its task is cancelled, though nobody can wait for that."""
    gated = Gated(database, after=True)
    queue = FifoQueue(gated, subspace)
    before = [queue.push("x")]

    async def work():
        gated.shut()
        popping = queue.apop()
        popping.send(None)
        assert await asyncio.to_thread(gated.reached.wait, DEADLINE_SECONDS)
        popping.close()
        gated.open()
        await asyncio.to_thread(wait_until, queue.peek)

    in_loop(work())
    assert assert_counted(queue)["ready"] == before


def test_a_closed_loop_begins_nothing_more(database, subspace):
    """What waited for a thread is not done when one is free."""
    queue = FifoQueue(database, subspace)
    queue.push("x")
    opened, all_busy = threading.Event(), threading.Barrier(THREADS + 1)

    def occupy(tr):
        all_busy.wait(DEADLINE_SECONDS)
        opened.wait(DEADLINE_SECONDS)

    async def work():
        busy = [arun(database, occupy) for _ in range(THREADS)]
        await asyncio.gather(*busy, queue.apush("y"), queue.apop())

    task = closed_with(work, lambda: all_busy.wait(DEADLINE_SECONDS) is not None)
    opened.set()
    assert asyncio.run(queue.asize()) == 1  # after the calls that waited before it
    del task
    gc.collect()
    assert values(assert_counted(queue)["ready"]) == ["x"]


@pytest.mark.usefixtures("only_woken")
def test_waiters_of_a_closed_loop_let_no_other_sleep_on(observed, subspace):
    """A push that would have woken them wakes a thread that waits after them."""
    queue = FifoQueue(observed, subspace)
    watch = queue.parts.group.watch

    async def work():
        await asyncio.gather(*[queue.apop(wait=DEADLINE_SECONDS) for _ in range(3)])

    def are_waiting(count):
        wait_until(lambda: watch.waiting == count)
        return observed.watching.wait(DEADLINE_SECONDS)

    task = closed_with(work, lambda: are_waiting(3))
    found = queues.Queue()
    pop = functools.partial(queue.pop, wait=60 * DEADLINE_SECONDS)
    threading.Thread(target=lambda: found.put(pop()), daemon=True).start()
    are_waiting(4)
    queue.push("x")
    assert found.get(timeout=DEADLINE_SECONDS).value == "x"
    del task


@pytest.mark.parametrize(
    ("script", "said"), [(OUTLIVES, ["x", "None"]), (CANNOT_START, ["b", "1"])]
)
def test_a_loop_goes_on_without_threads(tmp_path, script, said):
    """Its own thread makes each call, once."""
    with Child(tmp_path / "q.sqlite3", script) as child:
        for word in said:
            child.expect(word)
