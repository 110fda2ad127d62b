"""Each operation for event loops does what the one without the ``a`` does."""

from __future__ import annotations

import asyncio
import contextvars
import inspect

import pytest

from fdbqueue.exceptions import (
    IdempotencyKeyReused,
    InvalidInput,
    InvalidPriority,
    InvalidValue,
    LeaseLost,
)
from fdbqueue.service import FifoQueue, IdempotencyKey, Push, Queue, arun
from fdbqueue.service.codecs import JsonCodec
from fdbqueue.service.storage.counts import Counts
from tests.cases import cases
from tests.concurrency.census import assert_counted, values
from tests.contract.awaiting.gates import DEADLINE_SECONDS

#: Verbs that commands, pages and operators use, and :func:`arun` or a thread serves well.
WITHOUT_TWIN = {
    "adopt_settings",
    "bury",
    "bury_corrupt",
    "by_priority",
    "clear",
    "clear_state",
    "dead_by_reason",
    "get",
    "give_back",
    "has_item",
    "held_until",
    "history",
    "move_many",
    "oldest",
    "page",
    "pause",
    "paused",
    "prepare",
    "prepare_batch",
    "recount",
    "redrive",
    "remove",
    "remove_many",
    "resume",
    "run_now",
    "sweep",
    "wait_for_items",
}


def operations():
    """Return the names of the public methods of all queues that are no twins."""
    names = {name for name, _ in inspect.getmembers(Queue, inspect.isfunction) if name[0] != "_"}
    twins = {name for name in names if name[0] == "a" and name[1:] in names}
    return sorted(names - twins)


def parameters(method, *left_out):
    """Return the parameters of a method but some: names, kinds and defaults."""
    found = inspect.signature(method).parameters.values()
    return [(one.name, one.kind, one.default) for one in found if one.name not in left_out]


@cases("name", sorted(set(operations()) - WITHOUT_TWIN))
def test_every_operation_can_be_awaited(name):
    """It takes what the other takes, but no transaction and nothing to be called meanwhile."""
    method, twin = getattr(Queue, name), getattr(Queue, f"a{name}")
    left_out = ("priority",) if name == "push" else ()
    others = ("tr", "waits_while", "on_removed", "on_redriven", "on_undecodable", "beside")
    assert parameters(twin, *left_out) == parameters(method, *left_out, *others)
    assert twin.__doc__.splitlines()[0].endswith((".", "``"))
    assert inspect.iscoroutinefunction(twin) or name in {"iterate", "leased"}


def test_what_cannot_be_awaited_exists():
    """The list of exceptions holds nothing that is not there any more."""
    assert set(operations()) >= WITHOUT_TWIN


def test_pushing_and_popping(kind, database, subspace, in_loop):
    """From both ends, by one and by many, with what was pushed as it was."""
    queue = kind.open(database, subspace)

    async def work():
        texts = [kind.value(text) for text in "abcd"]
        one = await queue.apush(texts[0], kind.priorities[0])
        assert (one.value, one.priority, one.state) == (texts[0], kind.priorities[0], "ready")
        assert await queue.apush_many(kind.pairs(texts[1:3], [kind.priorities[0]] * 2)) == 2
        (batched,) = await queue.apush_batch([Push(texts[3], kind.priorities[0])])
        assert batched.id
        assert values(await queue.apeek_many(9)) == texts
        assert values(await queue.apeek_many(9, end="max")) == texts[::-1]
        assert (await queue.apeek()).id == (await queue.apeek_min()).id == one.id
        assert (await queue.apeek_max()).id == batched.id
        assert (await queue.apop_max()).id == batched.id
        assert (await queue.apop_min()).id == one.id
        assert values(await queue.apop_many(9)) == texts[1:3]
        assert await queue.apop() is None
        assert await queue.apop_many(3, wait=0.01) == []
        assert await queue.apeek() is None

    in_loop(work())
    assert not any(assert_counted(queue).values())


def test_leasing(fifo, in_loop):
    """Leased items are acknowledged, given up and extended, by themselves and by tokens."""

    async def work():
        await fifo.apush_many(range(7))
        first = await fifo.alease(seconds=30)
        second = await fifo.alease_min()
        last = await fifo.alease_max()
        assert values([first, second, last]) == [0, 1, 6]
        assert first.state == "leased"
        several = await fifo.alease_many(2, end="max", seconds=30)
        assert values(several) == [5, 4]
        await fifo.aack(first)
        assert await fifo.aack_many(item for item in several) == 2
        longer = await fifo.aextend(second.lease, 3_600)
        assert longer.until > second.until
        await fifo.anack(second, delay=None, reason="busy")
        await fifo.anack(last, delay=3_600)
        assert await fifo.acounts() == Counts(ready=3, leased=0, delayed=1, dead=0)
        assert (await fifo.apop()).attempts == 1
        returned = await fifo.alease(seconds=30)
        await fifo.arequeue(returned)
        assert (await fifo.apeek()).attempts == 0
        both = await fifo.alease_many(2, seconds=30)
        for _ in range(2):
            assert await fifo.aextend_many(both, 60, once="extend") == 2
            assert (await fifo.anack_many(both, reason="busy", once="nack")).lost == ()
        assert [item.attempts for item in await fifo.apeek_many(2)] == [1, 1]
        with pytest.raises(LeaseLost):
            await fifo.aack(first)
        with pytest.raises(LeaseLost):
            await fifo.aextend(first)

    in_loop(work())
    assert_counted(fifo)


def test_a_block_acknowledges_or_gives_up(fifo, in_loop):
    """As ``with queue.leased()`` does; where there is nothing the block gets None."""

    async def work():
        async with fifo.aleased() as nothing:
            assert nothing is None
        await fifo.apush("x")
        with pytest.raises(ValueError, match="no"):
            async with fifo.aleased(seconds=30) as item:
                raise ValueError("no")
        async with fifo.aleased(wait=1) as item:
            assert (item.value, item.attempts) == ("x", 1)
        assert await fifo.acounts() == Counts(0, 0, 0, 0)
        await fifo.apush("y")
        with pytest.raises(LeaseLost):
            async with fifo.aleased() as item:
                await fifo.aack(item)

    in_loop(work())


def test_iterating(floats, in_loop, monkeypatch):
    """All items in order, page by page, from either end; and the loop may be left."""
    monkeypatch.setattr("fdbqueue.service.aio.ITERATED_ITEMS", 2)

    async def work():
        await floats.apush_many([(number, number % 3) for number in range(7)])
        in_order = [0, 3, 6, 1, 4, 2, 5]
        assert [item.value async for item in floats] == in_order
        assert [item.value async for item in floats.aiterate(end="max")] == in_order[::-1]
        found = [item.value async for item in floats.aiterate(min_priority=1, max_priority=1)]
        assert found == [1, 4]
        iterator = floats.aiterate()
        assert (await anext(iterator)).value == 0
        await iterator.aclose()

    in_loop(work())


def test_looking(floats, in_loop):
    """Peeks and counts are those of the other operations."""

    async def work():
        pushed = await floats.apush_batch([Push("a", 1), Push("b", 2, delay=3_600), Push("c", 2)])
        assert len(pushed) == 3
        assert values(await floats.apeek_many(1, end="max")) == ["c"]
        assert await floats.asize() == 2
        assert await floats.acounts() == Counts(ready=2, leased=0, delayed=1, dead=0)

    in_loop(work())


def test_errors_are_raised_where_they_are_awaited(fifo, floats, in_loop):
    """What is wrong with an argument, and what is wrong with the queue."""

    async def work():
        with pytest.raises(InvalidValue):
            await fifo.apush({1})
        with pytest.raises(InvalidPriority):
            await floats.apush("x", float("nan"))
        with pytest.raises(InvalidPriority):
            await fifo.apush("x", 1)
        with pytest.raises(InvalidInput):
            await fifo.apop_many(0)
        with pytest.raises(InvalidInput):
            await fifo.apop(wait=-1)
        with pytest.raises(InvalidInput) as caught:
            await floats.apush_batch([Push("x"), Push({1})])
        assert caught.value.context["index"] == 1

    in_loop(work())
    assert fifo.size() == floats.size() == 0


def test_a_push_takes_the_value_as_it_is_at_the_call(fifo, in_loop):
    """What is done to the object while the push is under way changes nothing."""

    async def work():
        value = ["before"]
        push = asyncio.ensure_future(fifo.apush(value))
        await asyncio.sleep(0)
        value.append("after")
        await push

    in_loop(work())
    assert fifo.pop().value == ["before"]


def test_keys_are_the_same_for_both(fifo, in_loop):
    """A call made again under its key is found, whichever way it was made first."""

    async def work():
        item = fifo.push("x", once="push")
        assert await fifo.apush("x", once="push") == item
        once = IdempotencyKey("batch")
        (pushed,) = await fifo.apush_batch([Push("y")], once=once)
        assert not once.replayed
        assert fifo.push_batch([Push("y")], once="batch") == [pushed]
        popped = await fifo.apop_many(1, once="pop")
        assert fifo.pop_many(1, once="pop") == popped == [item]
        leased = fifo.lease_many(1, once="lease")
        assert await fifo.alease_many(1, once="lease") == leased
        assert await fifo.apop_many(1, once="nothing") == []
        await fifo.apush("z")
        assert await fifo.apop_many(1, once="nothing") == []
        with pytest.raises(IdempotencyKeyReused):
            await fifo.apop_many(2, once="pop")

    in_loop(work())
    assert fifo.counts() == Counts(ready=1, leased=1, delayed=0, dead=0)


def test_a_transaction_of_its_own(database, subspace, in_loop):
    """What a function does in its transaction commits as one, and its result is returned."""
    fifo, key = FifoQueue(database, subspace["queue"]), subspace["note"].key()

    def hand_over(tr):
        item = fifo.pop(tr=tr)
        fifo.push([item.value, "again"], tr=tr)
        tr[key] = b"done"
        return item.value

    async def work():
        await fifo.apush("x")
        assert await arun(database, hand_over) == "x"
        with pytest.raises(ZeroDivisionError):
            await arun(database, lambda tr: (fifo.clear(tr=tr), 1 / 0))

    in_loop(work())
    assert fifo.pop().value == ["x", "again"]
    transaction = database.create_transaction()
    assert bytes(transaction[key]) == b"done"


def test_context_variables_are_the_tasks(database, subspace, in_loop):
    """What runs in another thread sees those of the task that awaits it."""
    variable = contextvars.ContextVar("variable", default="none")
    seen = []

    class Codec(JsonCodec):
        def decode(self, data):
            seen.append(variable.get())
            return super().decode(data)

    queue = FifoQueue(database, subspace, codec=Codec())

    async def peek(value):
        variable.set(value)
        await queue.apeek()

    async def work():
        await queue.apush("x")
        await asyncio.gather(*[peek(number) for number in range(5)])

    in_loop(work())
    assert sorted(seen) == list(range(5))
    assert variable.get() == "none"


def test_several_event_loops_share_the_queue(fifo):
    """Each thread may have a loop of its own; what one pushes another is woken by."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(lambda: asyncio.run(fifo.apop(wait=DEADLINE_SECONDS)))
        pool.submit(lambda: asyncio.run(fifo.apush("x")))
        assert waiting.result(DEADLINE_SECONDS).value == "x"
