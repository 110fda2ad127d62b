"""Tasks that are cancelled: nothing is lost, and nothing goes on behind their backs."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time

import pytest

from fdbqueue.exceptions import EngineUnavailable, LeaseLost, OutcomeUnknown, PushInterrupted
from fdbqueue.service import FifoQueue, Push, arun
from fdbqueue.service.consume.waiting import ItemWait
from fdbqueue.service.threads import THREADS
from tests.concurrency.census import assert_counted, values
from tests.concurrency.clients import another
from tests.concurrency.kinds import KINDS
from tests.contract.awaiting.gates import DEADLINE_SECONDS, Gated, cancellation_of
from tests.engines.children import wait_until
from tests.faulty_database import FaultyDatabase

LONG_SECONDS = 60


async def happens(event):
    """Wait for what happens in another thread."""
    assert await asyncio.to_thread(event.wait, DEADLINE_SECONDS)


async def at_the_gate(gated, operation):
    """Return the task of an operation whose commit has come to the gate."""
    gated.shut()
    task = asyncio.ensure_future(operation)
    await happens(gated.reached)
    return task


async def cancelled_at_the_gate(gated, operation, times=1):
    """Cancel an operation in the middle of its commit, and return its CancelledError.

    It must not end before its commit does.
    """
    task = await at_the_gate(gated, cancellation_of(operation))
    for _ in range(times):
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=0.01)
        assert not done
    gated.open()
    return await task


# Waiting


@pytest.mark.usefixtures("only_woken")
@pytest.mark.parametrize("operation", ["apop", "apop_max", "alease", "alease_max"])
def test_a_cancelled_wait_ends_at_once(observed, subspace, in_loop, operation):
    """Nothing is taken, the watch is gone, and the next item is for somebody else."""
    queue = FifoQueue(observed, subspace)

    async def work():
        task = asyncio.ensure_future(getattr(queue, operation)(wait=LONG_SECONDS))
        await happens(observed.watching)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=LONG_SECONDS)
        assert done
        assert task.cancelled()

    in_loop(work())
    wait_until(lambda: all(watch.is_ready() for watch in observed.watches))
    queue.push("x")
    assert queue.pop().value == "x"


@pytest.mark.usefixtures("only_woken")
@pytest.mark.parametrize("who", ["the loop", "a thread", "another client"])
def test_a_push_wakes_who_waits(observed, database, subspace, in_loop, who):
    """Long before an unasked look, whoever pushes."""
    queue = FifoQueue(observed, subspace)
    pusher = FifoQueue(another(database), subspace) if who == "another client" else queue

    async def work():
        waiting = [asyncio.ensure_future(queue.apop(wait=LONG_SECONDS)) for _ in range(3)]
        await happens(observed.watching)
        if who == "the loop":
            await queue.apush_many("abc")
        else:
            await asyncio.to_thread(pusher.push_many, "abc")
        found = await asyncio.wait_for(asyncio.gather(*waiting), LONG_SECONDS)
        assert sorted(values(found)) == ["a", "b", "c"]

    in_loop(work())
    wait_until(lambda: all(watch.is_ready() for watch in observed.watches))


@pytest.mark.usefixtures("only_woken")
def test_who_is_cancelled_before_it_watches_leaves_that_to_the_others(observed, subspace, in_loop):
    """While all threads are busy two tasks begin to wait, and the first is cancelled."""
    queue = FifoQueue(observed, subspace)
    item_wait = ItemWait((queue.parts.group.watch,))

    async def work():
        deadline = time.monotonic() + LONG_SECONDS
        async with no_thread_free(observed):
            tasks = [asyncio.ensure_future(item_wait.wait_in_loop([0], deadline)) for _ in range(2)]
            await some_turns()
            tasks[0].cancel()
            await asyncio.wait([tasks[0]])
            assert not tasks[1].done()
        await happens(observed.watching)
        await queue.apush("x")
        await asyncio.wait_for(tasks[1], LONG_SECONDS)

    in_loop(work())


def test_who_waits_for_a_thread_keeps_nobody_from_watching(observed, subspace, in_loop):
    """A thread that waits meanwhile has its watch, and asks no more than others do."""
    queue = FifoQueue(observed, subspace)
    item_wait = ItemWait((queue.parts.group.watch,))

    async def work():
        deadline = time.monotonic() + LONG_SECONDS
        async with no_thread_free(observed):
            queued = asyncio.ensure_future(item_wait.wait_in_loop([0], deadline))
            await some_turns()
            before = observed.transactions
            waiting = asyncio.ensure_future(asyncio.to_thread(queue.pop, wait=LONG_SECONDS))
            await happens(observed.watching)
            assert not queued.done()
            queue.push("x")
            assert (await waiting).value == "x"
            assert observed.transactions - before < 20
        await queued

    in_loop(work())
    wait_until(lambda: all(watch.is_ready() for watch in observed.watches))


# Taking


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("end", ["min", "max"])
def test_a_cancelled_pop_puts_its_items_back(kind, gated, subspace, in_loop, end):
    """At their places, as they were, the counts included; later pushes are behind them."""
    queue = kind.open(gated, subspace)
    priority = kind.priorities[-1]
    before = queue.push_batch([Push(kind.value(text), priority) for text in "abc"])

    async def work():
        error = await cancelled_at_the_gate(gated, queue.apop_many(3, end=end))
        assert error.outcome_known
        assert (await queue.apush(kind.value("d"), priority)).id

    in_loop(work())
    held = assert_counted(queue)["ready"]
    assert held[:3] == before
    assert kind.text(held[3].value) == "d"


@pytest.mark.parametrize("codec", ["json", "bytes"])
def test_long_and_retried_items_come_back_whole(gated, subspace, in_loop, codec):
    """All chunks of their values, and their attempts, wherever these are kept."""
    queue = FifoQueue(gated, subspace, codec=codec, max_value_bytes=1_000_000)
    texts = ["x" * 250_000, "short", "y" * 100_000]
    queue.push_many([text.encode() if codec == "bytes" else text for text in texts])
    for _ in range(2):
        for item in queue.lease_many(3):
            queue.nack(item)
    before = list(queue.peek_many(3))
    assert [item.attempts for item in before] == [2, 2, 2]

    async def work():
        error = await cancelled_at_the_gate(gated, queue.apop_many(3))
        assert error.outcome_known

    in_loop(work())
    assert queue.peek_many(3) == before
    assert_counted(queue)
    assert queue.pop_many(3) == before
    assert not any(assert_counted(queue).values())


@pytest.mark.parametrize("kind", KINDS[::2], ids=str)
def test_a_cancelled_lease_gives_its_items_back(kind, gated, subspace, in_loop):
    """At their places, with no attempt counted."""
    queue = kind.open(gated, subspace, max_attempts=2)
    queue.push_batch([Push(kind.value(text), kind.priorities[0]) for text in "abc"])
    queue.nack(queue.lease())
    before = list(queue)

    async def work():
        error = await cancelled_at_the_gate(gated, queue.alease_many(2))
        assert error.outcome_known

    in_loop(work())
    assert assert_counted(queue)["ready"] == before
    assert queue.peek_many(3) == before


@pytest.mark.parametrize("operation", ["apop_many", "alease_many"])
def test_what_a_key_has_taken_stays_taken(gated, subspace, in_loop, operation):
    """A cancelled call under a key can be made again, and returns the same items."""
    queue = FifoQueue(gated, subspace)
    queue.push_many("ab")

    async def work():
        operate = getattr(queue, operation)
        error = await cancelled_at_the_gate(gated, operate(1, once="key"))
        assert not error.outcome_known
        assert values(await operate(1, once="key")) == ["a"]
        assert values(await operate(1)) == ["b"]

    in_loop(work())


def test_more_than_one_transaction_writes_is_put_back(database, subspace, in_loop):
    """A pop may take nearly 6,000,000 bytes, and none of them is lost."""
    gated = Gated(database, after=True)
    queue = FifoQueue(gated, subspace, codec="bytes", max_value_bytes=1_000_000)
    sizes = (*range(980_000, 980_005), 99_900, 1_000_000)
    before = [queue.push(bytes([size % 251]) * size) for size in sizes]

    async def work():
        error = await cancelled_at_the_gate(gated, queue.apop_many(7))
        assert error.outcome_known

    in_loop(work())
    assert queue.counts().ready == 7
    assert [queue.pop() == item for item in before] == [True] * 7


@pytest.mark.parametrize("operation", ["apop_many", "alease_many"])
def test_many_items_are_put_back_in_transactions_that_end(database, subspace, in_loop, operation):
    """As they were, whatever their number; at most 500 in each transaction."""
    gated = Gated(database, after=True)
    queue = FifoQueue(gated, subspace)
    queue.push_many(range(1_203))
    before = values(queue)

    async def work():
        operate = getattr(queue, operation)
        task = await at_the_gate(gated, cancellation_of(operate(1_203)))
        made = gated.commits
        task.cancel()
        gated.open()
        assert (await task).outcome_known
        assert gated.commits - made >= 3

    in_loop(work())
    assert values(assert_counted(queue)["ready"]) == before


def test_a_task_may_be_cancelled_again_and_again(gated, subspace, in_loop):
    """It waits for the outcome all the same, and nothing is lost."""
    queue = FifoQueue(gated, subspace)
    queue.push("x")

    async def work():
        error = await cancelled_at_the_gate(gated, queue.apop(), times=5)
        assert error.outcome_known

    in_loop(work())
    assert values(assert_counted(queue)["ready"]) == ["x"]


def test_items_that_cannot_be_put_back_are_not_lost_silently(database, subspace, in_loop, caplog):
    """Their ids are logged, with the reason, and the outcome is not known."""
    faulty = FaultyDatabase(database)
    gated = Gated(faulty, after=True)
    queue = FifoQueue(gated, subspace, name="mail")
    item = queue.push("secret")

    async def work():
        task = await at_the_gate(gated, queue.apop())
        faulty.is_available = False
        task.cancel()
        gated.open()
        with pytest.raises(asyncio.CancelledError):
            await task

    in_loop(work())
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("ERROR", "fdbqueue.service.aio")
    assert (record.queue, record.items) == ("mail", [item.id])
    assert "secret" not in str(vars(record))
    assert record.exc_info[0] is EngineUnavailable
    assert record.exc_info[1] is not None


@pytest.mark.parametrize("code", [1031, 2101])
def test_an_error_and_a_cancelled_task(database, subspace, in_loop, code):
    """The error is the cause; only after an unknown outcome may items be gone."""
    faulty = FaultyDatabase(database)
    gated = Gated(faulty, after=False)
    queue = FifoQueue(gated, subspace)
    queue.push("x")

    async def work():
        faulty.fail_commits(took_effect=False, code=code)
        error = await cancelled_at_the_gate(gated, queue.apop())
        assert error.outcome_known == (code != 1031)
        assert isinstance(error.__cause__, OutcomeUnknown) == (code == 1031)

    in_loop(work())
    assert values(assert_counted(queue)["ready"]) == ["x"]


# Blocks


def test_a_cancelled_block_gives_its_item_up(fifo, in_loop):
    """As one that raises: an attempt is counted, and the item is back."""

    async def hold(held):
        async with fifo.aleased() as item:
            assert item.value == "x"
            held.set()
            await asyncio.sleep(LONG_SECONDS)

    async def work():
        await fifo.apush("x")
        held = asyncio.Event()
        task = asyncio.ensure_future(hold(held))
        await held.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    in_loop(work())
    (item,) = assert_counted(fifo)["ready"]
    assert item.attempts == 1


def test_a_block_cancelled_while_it_gives_up_has_given_up(gated, subspace, in_loop):
    """The item is not left leased, and the task is cancelled, whatever the block raised."""
    queue = FifoQueue(gated, subspace)
    caught = []

    async def hold():
        try:
            async with queue.aleased():
                gated.shut()
                raise ZeroDivisionError
        except BaseException as error:
            caught.append(error)
            raise

    async def work():
        await queue.apush("x")
        task = asyncio.ensure_future(hold())
        await happens(gated.reached)
        task.cancel()
        gated.open()
        await asyncio.wait([task])
        assert task.cancelled()
        (error,) = caught
        assert isinstance(error, asyncio.CancelledError)
        assert isinstance(error.__cause__, ZeroDivisionError)
        assert not error.outcome_known

    in_loop(work())
    assert values(assert_counted(queue)["ready"]) == ["x"]


# What changes something else


def test_a_cancelled_push_is_over_when_it_ends(gated, subspace, in_loop):
    """It has pushed once, does not say so, and the same call under a key finds out."""
    queue = FifoQueue(gated, subspace)

    async def work():
        error = await cancelled_at_the_gate(gated, queue.apush("x", once="key"))
        assert not error.outcome_known
        assert await queue.asize() == 1
        await queue.apush("x", once="key")

    in_loop(work())
    assert values(assert_counted(queue)["ready"]) == ["x"]


def test_a_cancelled_acknowledgement_is_over_when_it_ends(gated, subspace, in_loop):
    """The lease is not held any more."""
    queue = FifoQueue(gated, subspace)
    queue.push("x")

    async def work():
        item = await queue.alease()
        await cancelled_at_the_gate(gated, queue.aack(item))
        with pytest.raises(LeaseLost):
            await queue.aack(item)

    in_loop(work())


@contextlib.asynccontextmanager
async def no_thread_free(database):
    """Keep all threads busy for the length of a block."""
    opened, all_busy = threading.Event(), threading.Barrier(THREADS + 1)

    def occupy(tr):
        all_busy.wait(DEADLINE_SECONDS)
        opened.wait(DEADLINE_SECONDS)

    busy = [asyncio.ensure_future(arun(database, occupy)) for _ in range(THREADS)]
    await asyncio.to_thread(all_busy.wait, DEADLINE_SECONDS)
    try:
        yield
    finally:
        opened.set()
        await asyncio.gather(*busy)


async def some_turns():
    """Let the other tasks come as far as they can."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("name", ["apush", "apush_many"])
def test_what_has_not_begun_is_not_done(database, subspace, in_loop, name):
    """A call that waits for a thread is taken back when its task is cancelled."""
    queue = FifoQueue(database, subspace)
    known = []

    async def push():
        try:
            await getattr(queue, name)("x")
        except asyncio.CancelledError as error:
            known.append(error.outcome_known)

    async def work():
        async with no_thread_free(database):
            task = asyncio.ensure_future(push())
            await some_turns()
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=LONG_SECONDS)
            assert done

    in_loop(work())
    assert known == [True]
    assert queue.size() == 0


@pytest.mark.parametrize("operation", ["asize", "apeek", "acounts"])
def test_a_cancelled_read_has_changed_nothing(database, subspace, in_loop, operation):
    """``outcome_known`` is True, also when it is cancelled after it has begun."""
    gated = Gated(database, after=False)
    queue = FifoQueue(gated, subspace)

    async def work():
        error = await cancelled_at_the_gate(gated, getattr(queue, operation)())
        assert error.outcome_known

    in_loop(work())


@pytest.mark.parametrize("ends", ["acked", "lost", "given up"])
def test_a_block_ends_its_lease_even_where_that_has_to_wait(database, subspace, in_loop, ends):
    """Cancelled before a thread is free for it, the task is cancelled when that is done."""
    queue = FifoQueue(database, subspace)
    caught = []

    async def hold(held, leave):
        try:
            async with queue.aleased(seconds=LONG_SECONDS) as item:
                if ends == "lost":
                    queue.ack(item)
                held.set()
                await leave.wait()
                if ends == "given up":
                    raise ZeroDivisionError
        except asyncio.CancelledError as error:
            caught.append(error)
            raise

    async def work():
        await queue.apush("x")
        held, leave = asyncio.Event(), asyncio.Event()
        task = asyncio.ensure_future(hold(held, leave))
        await held.wait()
        async with no_thread_free(database):
            leave.set()
            await some_turns()
            task.cancel()
            await some_turns()
            assert not task.done()
        await asyncio.wait([task])
        assert task.cancelled()

    in_loop(work())
    (error,) = caught
    assert not error.outcome_known
    assert isinstance(error.__cause__, LeaseLost) == (ends == "lost")
    assert values(assert_counted(queue)["ready"]) == ["x"] * (ends == "given up")


def test_a_long_push_stops_between_two_transactions(gated, subspace, in_loop):
    """The cause of the cancellation says how many are in, and these are."""
    queue = FifoQueue(gated, subspace)
    read = []

    def source():
        for number in range(100):
            read.append(number)
            yield "x" * 90_000

    async def work():
        error = await cancelled_at_the_gate(gated, queue.apush_many(source()))
        assert not error.outcome_known
        assert isinstance(error.__cause__, PushInterrupted)
        assert error.__cause__.context["pushed"] == await queue.asize()

    in_loop(work())
    assert 0 < queue.size() < len(read) < 100


# Many


def test_200_tasks_wait_without_threads(database, subspace, in_loop):
    """They starve neither one another nor anything else, and each gets an item of its own."""
    queue, other = FifoQueue(database, subspace["a"]), FifoQueue(database, subspace["b"])

    async def work():
        waiting = [asyncio.ensure_future(queue.apop(wait=LONG_SECONDS)) for _ in range(200)]
        for number in range(20):
            await other.apush(number)
            assert (await other.apop()).value == number
        assert not any(task.done() for task in waiting)
        for number in range(200):
            await queue.apush(number)
        found = await asyncio.gather(*waiting)
        assert sorted(values(found)) == list(range(200))

    in_loop(work())
    ours = [thread for thread in threading.enumerate() if thread.name.startswith("fdbqueue-await")]
    assert ours
    assert len(ours) <= THREADS
