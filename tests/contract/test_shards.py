"""A queue with shards: its items have many heads, and are taken nearly in order."""

from __future__ import annotations

import bisect
import math
import random
import statistics

import pytest

from fdbqueue.exceptions import FormatMismatch
from fdbqueue.service import FifoQueue, PriorityQueue
from fdbqueue.service.transactions import run
from tests.concurrency.census import assert_counted
from tests.concurrency.clients import another

ORDERS = ["count", "commit"]


def expected_rank(shards, choices):
    """Return how many ready items are before the one that is taken, as ``head`` says."""
    total = 0.0
    for k in range(1, shards):
        share = 1 - math.comb(shards - k, choices) / math.comb(shards, choices)
        total += (1 - share) * (1 + k / (shards * share - k))
    return total


def shard_of(queue, item):
    """Return the byte of the shard that an item is in, or would be."""
    keys = queue.parts.store.keys
    return keys.key(keys.place_named(item.id))[len(queue.subspace.key())]


@pytest.mark.nightly
@pytest.mark.parametrize(("shards", "choices"), [(4, 2), (16, 2), (16, 4), (16, 16)])
def test_items_are_taken_as_far_out_of_order_as_the_formula_says(
    database, subspace, shards, choices
):
    """On average; with as many choices as shards not at all."""
    queue = FifoQueue(database, subspace, shards=shards, choices=choices)
    queue.push_many(range(700))
    left, ranks = list(range(700)), []
    for number in range(700, 3_400):
        queue.push(number)
        left.append(number)
        at = bisect.bisect_left(left, queue.pop().value)
        ranks.append(at)
        del left[at]
    mean, expected = statistics.mean(ranks[200:]), expected_rank(shards, choices)
    assert mean == pytest.approx(expected, rel=0.5, abs=0.0)
    assert max(ranks) <= 40 * expected


@pytest.mark.parametrize("order", ORDERS)
def test_items_are_spread_over_all_shards(database, subspace, order):
    """Whether they were pushed one by one, or together."""
    queue = FifoQueue(database, subspace, shards=8, order=order)
    single = [queue.push(n) for n in range(60)]
    queue.push_many(range(60, 160))
    together = queue.page(limit=1_000).items[60:]
    for items in (single, together):
        assert len({shard_of(queue, item) for item in items}) == 8


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("end", ["min", "max"])
def test_pages_and_peeks_are_in_one_order(database, subspace, order, end):
    """A push that has returned is before those that begin later, whoever made them."""
    queues = [
        FifoQueue(one, subspace, shards=5, order=order) for one in (database, another(database))
    ]
    for number in range(40):
        queues[number % 2].push(number)
    wanted = list(range(40)) if end == "min" else list(range(40))[::-1]
    assert [item.value for item in queues[0].peek_many(40, end=end)] == wanted
    found, after = [], None
    while True:
        page = queues[1].page(end=end, after=after, limit=7)
        found += [item.value for item in page.items]
        after = page.cursor
        if after is None:
            break
    assert found == wanted


def test_pushes_of_one_transaction_keep_their_order(database, subspace):
    """They have one read version, and numbers."""
    queue = FifoQueue(database, subspace, shards=16)

    def push(tr):
        for number in range(30):
            queue.push(number, tr=tr)

    run(database, push)
    queue.push_many(range(30, 60))
    assert [item.value for item in queue.peek_many(60)] == list(range(60))


def test_priorities_come_before_the_order_of_pushes(database, subspace):
    """Pages of a range of priorities have those of all shards."""
    queue = PriorityQueue(database, subspace, shards=6, choices=6)
    rng = random.Random(4)
    pushed = [(n, rng.randrange(-3, 4)) for n in range(80)]
    for number, priority in pushed:
        queue.push(number, priority)
    wanted = [number for number, _ in sorted(pushed, key=lambda pair: (pair[1], pair[0]))]
    assert [item.value for item in queue.peek_many(80)] == wanted
    page = queue.page(min_priority=-1, max_priority=1, limit=100)
    assert {item.priority for item in page.items} == {-1, 0, 1}
    assert len(page.items) == sum(-1 <= priority <= 1 for _, priority in pushed)
    assert [item.value for item in queue.pop_many(40)] == wanted[:40]
    assert [item.value for item in queue.pop_many(40, end="max")] == wanted[40:][::-1]


def test_a_pop_of_many_is_in_order_though_one_shard_has_most_of_them(database, subspace):
    """If it looks at all shards, it does not go on past the rows that it has read of one."""
    queue = FifoQueue(database, subspace, shards=6, choices=6)
    queue.push_many(range(400))
    items = queue.peek_many(400)
    crowded = [item for item in items if shard_of(queue, item) == shard_of(queue, items[0])][:30]
    others = [item for item in items if item not in crowded and item.value > crowded[20].value][:20]
    wanted = sorted([*crowded, *others], key=lambda item: item.value)
    queue.remove_many({item.id for item in items} - {item.id for item in wanted})
    assert queue.pop_many(40) == wanted[:40]
    assert queue.pop_many(40, end="max") == wanted[:39:-1]


def test_the_last_item_is_found_in_whichever_shard(database, subspace):
    """None is returned only if all shards are empty."""
    queue = FifoQueue(database, subspace, shards=100)
    for number in range(20):
        queue.push(number)
        assert queue.pop().value == number
        assert queue.pop() is None
    queue.push_many(range(7))
    assert sorted(item.value for item in queue.pop_many(10)) == list(range(7))
    assert queue.pop_many(10, end="max") == []


def test_that_there_is_nothing_is_true_at_the_commit_of_the_caller(database, subspace):
    """A push into any shard conflicts with it."""
    queue = FifoQueue(database, subspace, shards=16)
    tr = database.create_transaction()
    assert queue.pop(tr=tr) is None
    tr[b"fdbqueue-test-beside"] = b""
    queue.push("first")
    with pytest.raises(Exception, match=r"1020|conflict"):
        tr.commit().wait()


def test_a_peek_in_a_transaction_depends_on_what_is_before(database, subspace):
    """In every shard; not on what is pushed behind."""
    queue = PriorityQueue(database, subspace, shards=16)
    queue.push("b", 2)
    for priority, conflicts in ((3, False), (1, True)):
        tr = database.create_transaction()
        assert queue.peek_min(tr=tr).value == "b"
        tr[b"fdbqueue-test-beside"] = b""
        queue.push("other", priority)
        if conflicts:
            with pytest.raises(Exception, match=r"1020|conflict"):
                tr.commit().wait()
        else:
            tr.commit().wait()
    queue.clear()


def test_a_process_with_other_shards_harms_nothing(database, subspace):
    """Neither fewer, nor more, nor none; with the right number it goes on."""
    queue = FifoQueue(database, subspace, name="mail", shards=4)
    queue.push_many(range(10))
    for shards in (None, 3, 5):
        other = FifoQueue(another(database), subspace, name="mail", shards=shards)
        for call in (other.pop, other.peek, other.lease, other.page, lambda: other.push("x")):  # noqa: B023  # called here
            with pytest.raises(FormatMismatch) as caught:
                call()
            assert "shards" in str(caught.value)
    assert sorted(item.value for item in queue.pop_many(20)) == list(range(10))


def test_a_queue_of_the_recipes_is_not_taken_for_one_with_shards(database, subspace):
    """What is there is refused by the first push."""
    FifoQueue(database, subspace, codec="bytes").push(b"theirs")
    tables = FifoQueue(database, subspace).parts.store.tables
    run(database, lambda tr: tr.clear_range(*tables.bounds))
    with pytest.raises(FormatMismatch):
        FifoQueue(another(database), subspace, codec="bytes", shards=4).push(b"ours")


@pytest.mark.parametrize("shape", [(None, 16), (16, None), (16, 3), (3, 16), (4, 4)], ids=str)
@pytest.mark.parametrize("kind", [FifoQueue, PriorityQueue])
def test_items_move_to_other_shards(database, subspace, kind, shape):
    """Ready, leased, delayed, dead and unique ones: with their ids, and in their order."""
    before, after = shape
    old = kind(database, subspace, shards=before, max_attempts=1)
    for number in range(30):
        old.push(number, **({} if kind is FifoQueue else {"priority": number % 3}))
    old.push("later", delay=3_600)
    dead, held = old.lease(), old.lease()
    old.nack(dead)
    old.push("keyed", unique="k")
    ids = [item.id for item in old.peek_many(100)]
    new = kind(another(database), subspace, shards=after, max_attempts=1)
    new.adopt_settings()
    assert [item.id for item in new.peek_many(100)] == ids
    assert new.push("keyed", unique="k").existing
    new.requeue(held)
    new.redrive()
    assert_counted(new)
    taken = new.pop_many(100)
    assert len({item.id for item in taken}) == len(taken) == len(ids) + 2
    if before != after:
        with pytest.raises(FormatMismatch):
            kind(another(database), subspace, shards=before).pop()


def test_a_move_that_was_interrupted_is_carried_on(database, subspace, monkeypatch):
    """The queue stays closed to both settings until then."""
    old = FifoQueue(database, subspace, shards=8)
    old.push_many(range(1_200))
    new = FifoQueue(another(database), subspace, shards=None)
    replace = new.parts.store.format.replace

    def fail(tr):
        raise KeyboardInterrupt

    monkeypatch.setattr(new.parts.store.format, "replace", fail)
    with pytest.raises(KeyboardInterrupt):
        new.adopt_settings()
    for queue in (old, new):
        with pytest.raises(FormatMismatch, match="moving"):
            queue.pop()
    monkeypatch.setattr(new.parts.store.format, "replace", replace)
    new.adopt_settings()
    assert [item.value for item in new.pop_many(2_000)] == list(range(1_200))


def test_a_purge_and_a_recount_know_all_shards(database, subspace):
    """The first items are purged first; a foreign pop is counted."""
    queue = PriorityQueue(database, subspace, shards=7)
    queue.push_many((n, n % 5) for n in range(100))
    assert queue.clear_state("ready", limit=40) == 40
    assert {item.priority for item in queue.page(limit=100).items} == {2, 3, 4}
    keys = queue.parts.store.keys
    gone = [keys.key(keys.place_named(item.id)) for item in queue.peek_many(5)]

    def clear(tr):
        for key in gone:
            tr.clear(key)

    run(database, clear)
    assert queue.size() == 60
    queue.recount()
    assert queue.size() == 55
    assert_counted(queue)
