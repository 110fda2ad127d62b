"""Idempotency keys: the same call under the same key has its effect once."""

from __future__ import annotations

import datetime
import random

import pytest

from fdbqueue.exceptions import (
    BatchTooLarge,
    CorruptItem,
    IdempotencyKeyReused,
    InvalidInput,
    InvalidPriority,
    InvalidValue,
    LeaseLost,
    OutcomeUnknown,
    ValueTooLarge,
)
from fdbqueue.service import FifoQueue, IdempotencyKey, Push, run
from fdbqueue.service import clock as service_clock
from fdbqueue.service.clock import moment
from tests.cases import cases
from tests.concurrency.census import assert_counted
from tests.concurrency.clients import together
from tests.concurrency.kinds import KINDS
from tests.contract.test_contention import fill
from tests.contract.unsure import unsure_database
from tests.covering import pairs
from tests.engines.children import wait_until

MILLION = 1_000_000
ANSWER, FORGET = b"\xff\x11", b"\xff\x12"
TAKES = ["pop_many", "lease_many"]
#: One of each order, codec and type of priority.
SOME = [kind for kind in KINDS if kind.name in {"fifo-bytes", "ints-commit-bytes", "ints-shards"}]
ENDS = ["min", "max"]


@pytest.fixture
def kept(everything):
    """How many keys hold answers, and how many say when one is not kept any longer."""

    def count():
        keys = everything()
        return tuple(sum(key.startswith(table) for key in keys) for table in (ANSWER, FORGET))

    return count


def texts(kind, items):
    """Return the texts of items."""
    return [kind.text(item.value) for item in items]


def batch(kind, count=4, **options):
    """Return pushes of different values, at each priority."""
    given = kind.priorities
    return [
        Push(kind.value(str(n)), given[n % len(given)], **options) if n else Push(kind.value("0"))
        for n in range(count)
    ]


# Pushing


@pytest.mark.parametrize("when", ["at once", "delay", "not_before"])
def test_a_push_made_again_returns_its_item(kind, queue, rival, clock, when):
    """All fields are equal, whoever makes it again and however late; it is there once."""
    not_before = moment(service_clock.now_us() + 500_000_000)
    options = {"at once": {}, "delay": {"delay": 500}, "not_before": {"not_before": not_before}}
    arguments = (kind.value("a"), kind.priorities[-1])
    queue.push(kind.value("before"), kind.priorities[-1])
    once = IdempotencyKey("key")
    item = queue.push(*arguments, **options[when], once=once)
    assert not once.replayed
    assert item.id
    queue.push(kind.value("behind"), kind.priorities[-1])
    clock.advance(400)
    for one in (queue, rival):
        again = IdempotencyKey("key")
        assert one.push(*arguments, **options[when], once=again) == item
        assert again.replayed
    assert queue.push(*arguments, **options[when], once="key") == item
    held = assert_counted(queue)
    assert texts(kind, held["ready"]) == ["before", "a", "behind"][:: 1 if when == "at once" else 2]
    (found,) = [one for one in (*held["ready"], *held["delayed"]) if kind.text(one.value) == "a"]
    assert found == item


@pytest.mark.parametrize("delay", [None, 500])
def test_a_batch_made_again_returns_its_items(kind, queue, rival, clock, delay):
    """In their order, all fields equal; they are there once."""
    pushes = batch(kind, delay=delay)
    once = IdempotencyKey("key")
    items = queue.push_batch(pushes, once=once)
    assert not once.replayed
    assert [kind.text(item.value) for item in items] == ["0", "1", "2", "3"]
    clock.advance(400)
    again = IdempotencyKey("key")
    assert rival.push_batch(batch(kind, delay=delay), once=again) == items
    assert again.replayed
    held = assert_counted(queue)
    found = {item.id: item for item in (*held["ready"], *held["delayed"])}
    assert found == {item.id: item for item in items}


def test_a_push_made_again_after_its_item_was_taken_pushes_nothing(kind, queue):
    """The item was there once; its answer says so still."""
    item = queue.push(kind.value("a"), kind.priorities[0], once="key")
    assert queue.pop().id == item.id
    assert queue.push(kind.value("a"), kind.priorities[0], once="key") == item
    assert queue.pop() is None
    assert not any(assert_counted(queue).values())


def test_an_empty_batch_is_a_call_like_another(kind, queue, kept):
    """It pushes nothing; under a key it is remembered."""
    assert queue.push_batch([]) == []
    assert kept() == (0, 0)
    once = IdempotencyKey("key")
    assert queue.push_batch([], once=once) == queue.push_batch([], once=once) == []
    assert once.replayed
    with pytest.raises(IdempotencyKeyReused):
        queue.push_batch(batch(kind), once="key")
    with pytest.raises(InvalidInput):
        queue.push_batch([], once="")
    assert not any(assert_counted(queue).values())


def test_a_batch_is_all_or_nothing(kind, queue, stored):
    """What is wrong with one of its pushes is raised, with its place among them."""
    good = kind.value("good")
    nan = float("nan")
    wrong = [
        (Push(object()), InvalidValue),
        (Push(kind.value("x" * 100_001)), ValueTooLarge),
        (Push(good, "high"), InvalidPriority),
        (Push(good, delay=-1), InvalidInput),
        (Push(good, delay=nan), InvalidInput),
        (Push(good, delay=1, not_before=moment(0)), InvalidInput),
        (Push(good, not_before=datetime.datetime(2030, 1, 1)), InvalidInput),  # noqa: DTZ001  # no zone
    ]
    for push, error in wrong:
        for index in (0, 2):
            pushes = batch(kind)
            pushes[index] = push
            with pytest.raises(error) as caught:
                queue.push_batch(pushes, once="key")
            assert caught.value.context["index"] == index
            assert stored() == {}


# Taking


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("take", TAKES)
def test_items_taken_again_are_the_same(kind, queue, rival, clock, take, end):
    """All fields are equal, tokens and times too; they are taken once."""
    fill(kind, queue, 10)
    queue.nack(queue.lease(), reason="so that one has an attempt")
    once, again = IdempotencyKey("key"), IdempotencyKey("key")
    items = getattr(queue, take)(3, end=end, once=once)
    assert not once.replayed
    assert len(items) == 3
    clock.advance(300)  # the leases run out
    assert getattr(rival, take)(3, end=end, once=again) == items
    assert again.replayed
    assert getattr(queue, take)(3, end=end, once=again, wait=600) == items
    held = assert_counted(queue)
    assert len(held["ready"]) == (7 if take == "pop_many" else 10)


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("wait", [None, 0, 0.01])
def test_that_there_was_nothing_is_an_answer(kind, queue, rival, take, wait):
    """It is returned again when there are items, at once, however long that would wait."""
    once = IdempotencyKey("key")
    assert getattr(queue, take)(2, once=once, wait=wait) == []
    assert not once.replayed
    fill(kind, queue, 3)
    for one in (queue, rival):
        again = IdempotencyKey("key")
        assert getattr(one, take)(2, once=again, wait=600) == []
        assert again.replayed
    assert len(assert_counted(queue)["ready"]) == 3
    assert len(getattr(queue, take)(2, once="another")) == 2


def test_who_waits_under_a_key_gets_what_comes(kind, database, subspace):
    """What it got is kept, not that there was nothing at first."""
    queue = kind.open(database, subspace)

    def work(thread):
        if thread == 0:
            return queue.pop_many(2, once="key", wait=60)
        wait_until(lambda: queue.parts.group.watch.waiting == 1)
        queue.push(kind.value("a"), kind.priorities[0])
        return None

    items = together(2, work)[0]
    assert texts(kind, items) == ["a"]
    assert queue.pop_many(2, once="key") == items


def test_a_lease_taken_again_is_the_same_lease(kind, queue):
    """Held, it can be acknowledged once by whoever has the answer; then it is lost."""
    fill(kind, queue, 3)
    leased = queue.lease_many(2, once="key", seconds=60)
    assert queue.lease_many(2, once="key", seconds=60) == leased
    queue.ack(queue.lease_many(2, once="key", seconds=60)[0])
    queue.nack(leased[1])
    again = queue.lease_many(2, once="key", seconds=60)
    assert again == leased
    for one in again:
        with pytest.raises(LeaseLost):
            queue.ack(one)
    assert len(assert_counted(queue)["ready"]) == 2


@pytest.mark.parametrize("take", TAKES)
def test_a_corrupt_item_is_no_answer(kind, queue, database, subspace, take, kept):
    """Nothing is taken or kept; the same call takes the others once it is out of the way."""
    if kind.options.get("codec") == "bytes":
        queue = kind.open(database, subspace, codec="json")
        queue.push_batch([Push([f"{n:04}"]) for n in range(3)])
    else:
        fill(kind, queue, 3)
    corrupt = queue.page().items[0].id
    key = queue.parts.store.keys.key(queue.parts.store.keys.place_named(corrupt))
    run(database, lambda tr: tr.set(key, b"\xff"))
    once = IdempotencyKey("key")
    for _ in range(2):
        with pytest.raises(CorruptItem) as caught:
            getattr(queue, take)(3, once=once)
        assert caught.value.context["id"] == corrupt
        assert kept() == (0, 0)
    queue.bury(corrupt)
    items = getattr(queue, take)(3, once=once)
    assert len(items) == 2
    assert not once.replayed
    assert getattr(queue, take)(3, once=once) == items
    assert_counted(queue)


def test_an_answer_that_another_codec_cannot_read_is_corrupt(database, subspace):
    """It is neither lost nor mistaken for an answer that is not there."""
    queue = FifoQueue(database, subspace, codec="bytes")
    queue.push_batch([Push(b"\xff"), Push(b"\xff")])
    items = queue.pop_many(1, once="key")
    other = FifoQueue(database, subspace, codec="json")
    other.adopt_settings()
    with pytest.raises(CorruptItem) as caught:
        other.pop_many(1, once="key")
    assert caught.value.context["id"] == items[0].id
    queue.adopt_settings()
    assert queue.pop_many(1, once="key") == items
    assert queue.size() == 1


# Another call


def test_another_call_under_a_key_is_refused(kind, queue, stored):
    """Each argument makes it another, but for the wait; nothing changes."""
    later = moment(service_clock.now_us() + 900_000_000)
    value, priority = kind.value("a"), kind.priorities[0]
    fill(kind, queue, 3)
    calls = {
        "push": lambda key: queue.push(value, priority, once=key),
        "value": lambda key: queue.push(kind.value("b"), priority, once=key),
        "delay": lambda key: queue.push(value, priority, delay=5, once=key),
        "longer": lambda key: queue.push(value, priority, delay=6, once=key),
        "not_before": lambda key: queue.push(value, priority, not_before=later, once=key),
        "two": lambda key: queue.push_batch(2 * [Push(value, priority)], once=key),
        "pop": lambda key: queue.pop_many(1, once=key),
        "more": lambda key: queue.pop_many(2, once=key),
        "end": lambda key: queue.pop_many(1, end="max", once=key),
        "lease": lambda key: queue.lease_many(1, once=key),
        "count": lambda key: queue.lease_many(2, once=key),
        "lease end": lambda key: queue.lease_many(1, end="max", once=key),
        "seconds": lambda key: queue.lease_many(1, seconds=61, once=key),
    }
    if not kind.is_fifo:
        calls["priority"] = lambda key: queue.push(value, kind.priorities[1], once=key)
    for key, call in calls.items():
        call(key)
    before = stored()
    for key in calls:
        for name, call in calls.items():
            if name != key:
                with pytest.raises(IdempotencyKeyReused):
                    call(key)
    assert stored() == before
    assert_counted(queue)


def test_numbers_that_are_equal_make_the_same_call(kind, queue):
    """Whether a delay or a time is written as an integer or not."""
    item = queue.push(kind.value("a"), kind.priorities[0], delay=5, once="push")
    assert queue.push(kind.value("a"), kind.priorities[0], delay=5.0, once="push") == item
    fill(kind, queue, 2)
    leased = queue.lease_many(1, seconds=5, once="lease")
    assert queue.lease_many(1, seconds=5.0, once="lease") == leased
    assert_counted(queue)


def test_a_key_may_be_used_again_elsewhere_by_the_same_object(kind, database, subspace):
    """What it says of one queue's answer has no part in what is kept on another."""
    one, other = (kind.open(database, subspace[name]) for name in ("one", "other"))
    once = IdempotencyKey("key")
    assert one.pop_many(1, once=once) == one.pop_many(1, once=once) == []
    assert once.replayed
    assert other.pop_many(1, once=once) == []
    assert not once.replayed
    other.push(kind.value("a"), kind.priorities[0])
    assert other.pop_many(1, once=once) == []
    assert once.replayed


@pytest.mark.parametrize(
    "keys",
    [
        ["x" * 1_000, "x" * 999],
        ["\ud800", "\udfff", "?"],
        ["\x00", "\x00\x00"],
        ["\u00e9", "e\u0301"],
    ],
)
def test_keys_that_differ_at_all_are_different(fifo, keys):
    """Any text will do, also what no UTF-8 can hold."""
    fifo.push_many(range(len(keys)))
    taken = [fifo.pop_many(1, once=key) for key in keys]
    assert [item.value for (item,) in taken] == list(range(len(keys)))
    assert [fifo.pop_many(1, once=key) for key in keys] == taken


@cases("seconds", [0, -1, 31_536_001, float("nan"), float("inf"), True, "60", None])
def test_the_time_an_answer_is_kept_is_bounded(fifo, stored, seconds):
    """More than none, up to a year."""
    with pytest.raises(InvalidInput):
        fifo.push("a", once=IdempotencyKey("key", kept_seconds=seconds))
    assert stored() == {}


# How long answers are kept


def test_an_answer_is_kept_for_its_time(kind, queue, clock):
    """Just before its end it is returned; just after, the key may be used for another call."""
    once = IdempotencyKey("key", kept_seconds=10)
    item = queue.push(kind.value("a"), kind.priorities[0], once=once)
    clock.advance(9.999)
    assert queue.push(kind.value("a"), kind.priorities[0], once="key") == item
    clock.advance(0.002)
    items = queue.pop_many(1, once=once)
    assert [item.id for item in items] == [item.id]
    assert not once.replayed
    clock.advance(9.999)
    assert queue.pop_many(1, once=once) == items
    assert once.replayed
    clock.advance(0.002)
    assert queue.pop_many(1, once=once) == []
    assert not once.replayed
    assert queue.pop_many(1, once=once) == []
    assert once.replayed
    assert not any(assert_counted(queue).values())


def test_a_key_used_anew_leaves_nothing_of_its_old_answer(database, subspace, clock, kept):
    """Neither the pieces of a longer one, nor when it was to be forgotten."""
    queue = FifoQueue(database, subspace, codec="bytes", max_value_bytes=MILLION)
    once = IdempotencyKey("key", kept_seconds=10)
    queue.push(bytes(MILLION))
    queue.pop_many(1, once=once)
    assert kept() > (5, 1)
    clock.advance(11)
    assert queue.pop_many(1, once=once) == []
    assert kept() == (1, 1)
    clock.advance(11)
    item = queue.push(b"x", once=once)
    assert kept() == (1, 1)
    assert queue.push(b"x", once=once) == item


@pytest.mark.parametrize("kind", SOME, ids=str)
def test_few_answers_are_left_of_many_calls(kind, queue, clock, kept):
    """Those that have run out are removed by later calls, without any daemon."""
    random.seed(1)
    for turn in range(1_200):
        once = IdempotencyKey(f"key {turn}", kept_seconds=5)
        if turn % 2:
            assert len(queue.pop_many(1, once=once)) == 1
        else:
            queue.push(kind.value("a"), kind.priorities[0], once=once)
        clock.advance(600)  # they are removed an hour after they have run out
    assert max(kept()) < 600
    assert not any(assert_counted(queue).values())


def test_what_is_kept_meanwhile_is_not_removed(fifo, database, engine, clock):
    """Who removes an answer that ran out conflicts with who uses its key anew."""
    fifo.push("a", once=IdempotencyKey("key", kept_seconds=1))
    clock.advance(3_602)
    sweeping = database.create_transaction()
    assert fifo.parts.responses.sweep(sweeping) == 1
    item = fifo.push("b", once="key")
    with pytest.raises(engine.error) as caught:
        sweeping.commit().wait()
    assert caught.value.code == 1020
    once = IdempotencyKey("key")
    assert fifo.push("b", once=once) == item
    assert once.replayed


def test_a_clock_that_is_ahead_removes_no_answer_early(fifo, clock):
    """For an hour after it has run out by one client's clock it is there for the others."""
    once = IdempotencyKey("key", kept_seconds=10)
    item = fifo.push("a", once=once)
    clock.advance(10 + 3_599)
    assert fifo.sweep() == 0
    clock.advance(-3_600)
    assert fifo.push("a", once=once) == item
    assert once.replayed
    clock.advance(3_602)
    assert fifo.sweep() == 1


def test_clear_removes_answers(kind, queue, everything):
    """Nothing is left of the queue, and its keys may be used for other calls."""
    once = IdempotencyKey("key")
    queue.push(kind.value("a"), kind.priorities[0], once=once)
    queue.pop_many(1, once="another")
    queue.clear()
    assert everything() == {queue.parts.store.format.key[len(queue.subspace.key()) :]}
    assert queue.pop_many(1, once=once) == []
    assert not once.replayed


@pytest.mark.parametrize("take", TAKES)
def test_answers_run_out_under_the_longest_prefixes(database, subspace, clock, take):
    """To remove many of them is never more than a transaction takes."""
    random.seed(4)
    queue = FifoQueue(database, subspace["x" * 8_000])
    for turn in range(500):
        getattr(queue, take)(1, once=IdempotencyKey(f"key {turn}", kept_seconds=1_000))
    clock.advance(4_601)
    for turn in range(300):
        getattr(queue, take)(1, once=IdempotencyKey(f"more {turn}", kept_seconds=1_000))
    assert not any(assert_counted(queue).values())


# What is long, and the limits


LONG = ["bytes", "zeros", "json"]


def long_queue(codec, database, subspace, **options):
    """Return a queue for values of up to 1,000,000 bytes."""
    codec = "json" if codec == "json" else "bytes"
    return FifoQueue(database, subspace, codec=codec, max_value_bytes=MILLION, **options)


def long_value(codec, size):
    """Return a value that is so long once encoded, or a little shorter."""
    if codec == "json":
        return "x" * (size - 100)
    return bytes(size) if codec == "zeros" else bytes(range(1, 251)) * (size // 250)


@pytest.mark.nightly
@pytest.mark.parametrize("order", ["count", "commit"])
@pytest.mark.parametrize("codec", LONG)
def test_long_values_are_kept_whole(database, subspace, everything, kept, codec, order):
    """Those of several keys too, pushed, leased or popped, to the longest that there are."""
    queue = long_queue(codec, database, subspace, order=order)
    for size in (99_900, 350_000, MILLION):
        value = long_value(codec, size)
        item = queue.push(value, once=f"push {size}")
        assert queue.push(value, once=f"push {size}") == item
        leased = queue.lease_many(1, once=f"lease {size}")
        assert [(one.value, one.id) for one in leased] == [(value, item.id)]
        assert queue.lease_many(1, once=f"lease {size}") == leased
        queue.nack(leased[0])
        popped = queue.pop_many(1, once=f"pop {size}")
        assert [(one.value, one.id, one.attempts > 0) for one in popped] == [(value, item.id, True)]
        assert queue.pop_many(1, once=f"pop {size}") == popped
        assert queue.lease_many(1, once=f"lease {size}") == leased
    assert kept()[0] > 30
    assert not any(assert_counted(queue).values())
    assert {key[1] for key in everything()} <= {0x01, 0x02, 0x05, 0x07, 0x0F, 0x11, 0x12}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("kind", "take", "once"),
    pairs([k for k in KINDS if k.name.startswith("ints")], TAKES, [None, "key"]),
    ids=str,
)
def test_many_small_items_are_taken_in_calls_that_each_fit(kind, queue, take, once):
    """As many as one transaction can write, with a key and without."""
    values = [kind.value("x" * 100)] * 10_000
    queue.push_many(kind.pairs(values, [n % 3 for n in range(10_000)]))
    items = getattr(queue, take)(10_000, once=once)
    assert 3_000 < len({item.id for item in items}) == len(items)
    if once is not None:
        assert getattr(queue, take)(10_000, once=once) == items
    counts = queue.counts()
    assert (counts.ready, counts.leased) == (
        10_000 - len(items),
        len(items) if take == "lease_many" else 0,
    )


def test_a_batch_is_bounded_by_its_bytes(database, subspace, stored):
    """5,000,000 bytes are pushed under a key; one more is refused and writes nothing."""
    queue = FifoQueue(database, subspace, codec="bytes", name="queue")
    pushes = [Push(bytes(100_000)) for _ in range(50)]
    with pytest.raises(BatchTooLarge) as caught:
        queue.push_batch([*pushes, Push(b"x")], once="key")
    assert caught.value.context == {
        "queue": "queue",
        "size_bytes": 5_000_001,
        "limit_bytes": 5_000_000,
    }
    assert stored() == {}
    items = queue.push_batch(pushes, once="key")
    assert queue.push_batch(pushes, once="key") == items
    assert len(assert_counted(queue)["ready"]) == 50


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "delay", "size"), pairs(SOME, [None, 60], [1, 1_000]), ids=str)
def test_a_batch_is_bounded_by_its_keys(kind, database, subspace, stored, delay, size):
    """What is taken fits into a transaction, whatever the queue; more is refused."""
    queue = kind.open(database, subspace)
    push = Push(kind.value("x" * size), delay=delay)
    least, most = 0, 20_000
    while most - least > 1:
        middle = (least + most) // 2
        try:
            queue.parts.pusher.encoder.check_fits_transaction(
                [queue.parts.pusher.encoder.of_push(push)] * middle
            )
        except BatchTooLarge:
            most = middle
        else:
            least = middle
    with pytest.raises(BatchTooLarge):
        queue.push_batch([push] * most, once="key")
    assert stored() == {}
    items = queue.push_batch([push] * least, once="key")
    assert queue.push_batch([push] * least, once="key") == items
    counts = queue.counts()
    assert (counts.ready, counts.delayed) == ((least, 0) if delay is None else (0, least))


# In the caller's transaction


@pytest.mark.parametrize("take", TAKES)
def test_a_call_takes_part_in_the_callers_transaction(kind, queue, database, kept, take):
    """Its effect and its answer are there when that is committed; it is made once in it, too."""
    fill(kind, queue, 4)
    transaction = database.create_transaction()
    once = IdempotencyKey("key")
    items = getattr(queue, take)(2, once=once, tr=transaction)
    assert (len(items), once.replayed) == (2, False)
    assert getattr(queue, take)(2, once=once, tr=transaction) == items
    assert once.replayed
    assert getattr(queue, take)(3, once="other", tr=transaction) != items
    assert getattr(queue, take)(1, once="empty", tr=transaction) == []
    with pytest.raises(IdempotencyKeyReused):
        queue.push(kind.value("a"), kind.priorities[0], once="empty", tr=transaction)
    assert kept() == (0, 0)
    assert len(assert_counted(queue)["ready"]) == 4
    transaction.commit().wait()
    assert getattr(queue, take)(2, once="key") == items
    assert getattr(queue, take)(1, once="empty") == []
    assert len(assert_counted(queue)["ready"]) == 0


def test_a_push_takes_part_in_the_callers_transaction(kind, queue, database):
    """Made again after the commit it returns the item, with the id that the commit gave it."""
    transaction = database.create_transaction()
    pushed = queue.push(kind.value("a"), kind.priorities[0], once="key", tr=transaction)
    transaction.commit().wait()
    item = queue.push(kind.value("a"), kind.priorities[0], once="key")
    (found,) = assert_counted(queue)["ready"]
    assert found == item
    assert pushed.id in ({""} if kind.options.get("order") == "commit" else {item.id})


@pytest.mark.parametrize("operation", ["push", *TAKES])
def test_of_two_transactions_with_the_same_call_one_is_committed(
    kind, queue, database, engine, operation
):
    """The other conflicts; tried again, it gets the same answer, and takes nothing."""
    fill(kind, queue, 4)
    calls = {
        "push": lambda tr: queue.push(kind.value("a"), kind.priorities[0], once="key", tr=tr),
        "pop_many": lambda tr: queue.pop_many(1, once="key", tr=tr),
        "lease_many": lambda tr: queue.lease_many(1, once="key", tr=tr),
    }
    one, other = database.create_transaction(), database.create_transaction()
    calls[operation](one)
    calls[operation](other)
    one.commit().wait()
    with pytest.raises(engine.error) as caught:
        other.commit().wait()
    assert caught.value.code == 1020
    other.on_error(caught.value).wait()
    answer = calls[operation](other)
    other.commit().wait()
    assert calls[operation](None) == answer
    assert len(assert_counted(queue)["ready"]) == (5 if operation == "push" else 3)


# Unknown outcomes


@pytest.mark.parametrize("operation", ["push", "push_batch", *TAKES])
def test_the_same_call_finds_out_what_became_of_one(kind, engine, subspace, operation):
    """After a commit that took effect without saying so it returns what that did, once."""
    queue = kind.open(engine.database, subspace)
    unsure = kind.open(unsure_database(engine.database, 1031), subspace)
    fill(kind, queue, 4)
    calls = {
        "push": lambda queue, once: queue.push(kind.value("a"), kind.priorities[0], once=once),
        "push_batch": lambda queue, once: queue.push_batch(batch(kind), once=once),
        "pop_many": lambda queue, once: queue.pop_many(2, once=once),
        "lease_many": lambda queue, once: queue.lease_many(2, once=once),
    }
    once = IdempotencyKey("key")
    with pytest.raises(OutcomeUnknown):
        calls[operation](unsure, once)
    held = assert_counted(queue)
    answer = calls[operation](unsure, once)
    assert once.replayed
    assert assert_counted(queue) == held
    assert calls[operation](queue, "key") == answer
    assert len(held["ready"]) == {"push": 5, "push_batch": 8}.get(operation, 2)
