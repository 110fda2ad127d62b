"""Dead letters: what was given up too often, or buried, and how it comes back."""

from __future__ import annotations

import pytest

from fdbqueue.exceptions import CorruptItem, ItemNotFound
from fdbqueue.service import FifoQueue, Undecodable, run
from fdbqueue.service.storage.tables import State, TableKeys
from tests.concurrency.census import assert_counted
from tests.contract.test_removing_many import queue

__all__ = ["queue"]


def bury(kind, queue, chosen):
    """Bury the items with these texts, in this order, and return their ids."""
    ids = {kind.text(item.value): item.id for item in queue}
    for text in chosen:
        queue.bury(ids[text])
    return [ids[text] for text in chosen]


def store(database, rows):
    """Write rows as somebody does who knows nothing of this package."""
    transaction = database.create_transaction()
    for key, value in rows.items():
        transaction[key] = value
    transaction.commit().wait()


# Burying


def test_a_buried_item_is_dead(kind, queue):
    """It is in nobody's way, and known with the reason."""
    item = queue.peek_many(2)[1]
    queue.bury(item.id, reason="not for us")
    (dead,) = assert_counted(queue)["dead"]
    assert (dead.id, dead.value, dead.priority) == (item.id, item.value, item.priority)
    assert (dead.state, dead.reason, dead.attempts) == ("dead", "not for us", 0)
    assert (dead.until, dead.pushed_at) == (None, item.pushed_at)
    assert queue.get(item.id) == dead
    assert queue.counts().dead == 1
    assert kind.texts(queue.pop_many(9)) == "acdef"


@pytest.mark.parametrize("state", ["leased", "delayed", "dead", "gone"])
def test_only_ready_items_are_buried(fifo, state):
    """Any other is not found, and stays what it is."""
    pushed = fifo.push("x", delay=60 if state == "delayed" else None)
    if state == "leased":
        fifo.lease()
    elif state == "dead":
        fifo.bury(pushed.id)
    elif state == "gone":
        fifo.pop()
    counts = fifo.counts()
    with pytest.raises(ItemNotFound):
        fifo.bury(pushed.id)
    assert fifo.counts() == counts
    assert_counted(fifo)


@pytest.mark.parametrize("codec", ["json", "tuple"])
def test_a_corrupt_item_is_buried_out_of_the_way(database, subspace, codec):
    """Pops go on behind it; it is shown with its bytes, and comes back if it is named."""
    queue = FifoQueue(database, subspace, codec=codec)
    queue.push("first")
    queue.push("last")
    corrupt, *_ = queue.page().items
    store(database, {subspace.key() + queue.parts.store.keys.place_named(corrupt.id): b"\xff\xfe"})
    with pytest.raises(CorruptItem) as caught:
        queue.pop()
    queue.bury(caught.value.context["id"], reason="corrupt")
    (dead,) = queue.page(state="dead").items
    assert isinstance(dead.value, Undecodable)
    assert (dead.value.raw, dead.reason) == (b"\xff\xfe", "corrupt")
    assert_counted(queue)
    told = []
    assert queue.redrive(on_undecodable=told.extend) == 0
    assert queue.peek().value == "last"
    assert queue.redrive([dead.id], on_undecodable=told.extend) == 1
    assert told == [dead.id] * 2
    with pytest.raises(CorruptItem):
        queue.pop()
    assert_counted(queue)
    assert queue.pop_max().value == "last"


@pytest.mark.parametrize("key", [("text", 0, b"r"), (1,), (1, 2, b"r", "more")])
def test_a_foreign_key_is_buried_out_of_the_way(ints, database, subspace, key):
    """A key that is no item's goes to the dead letters, and back to where it was."""
    ints.push("ours", 5)
    foreign = subspace.pack(key)
    store(database, {foreign: b"theirs"})
    ints.recount()
    (found,) = [item for item in ints if isinstance(item.value, Undecodable)]
    ints.bury(found.id)
    (dead,) = ints.page(state="dead").items
    assert (dead.id, dead.value.raw) == (found.id, b"theirs")
    assert ints.get(dead.id) == dead
    assert assert_counted(ints)["ready"] == [ints.peek()]
    assert [item.value for item in ints.pop_many(9)] == ["ours"]
    assert ints.redrive([dead.id]) == 1
    assert [item.id for item in ints] == [found.id]
    assert ints.size() == 1


def test_of_a_pop_and_a_burial_one_takes_effect(fifo, database, engine):
    """The other conflicts."""
    pushed = fifo.push("x")
    burying = database.create_transaction()
    fifo.bury(pushed.id, tr=burying)
    fifo.pop()
    with pytest.raises(engine.error) as caught:
        burying.commit().wait()
    assert caught.value.code == 1020
    assert not any(assert_counted(fifo).values())


def test_a_reason_is_clipped(fifo):
    """At 1,000 characters."""
    fifo.bury(fifo.push("x").id, reason="\u00e9" * 5_000)
    assert fifo.page(state="dead").items[0].reason == "\u00e9" * 1_000


# Putting back


def test_some_come_back_by_their_ids(kind, queue):
    """Those named, and only the dead among them are counted, each once."""
    buried = bury(kind, queue, "abcd")
    ready = queue.peek().id
    leased = queue.lease_max()
    named = [buried[2], ready, buried[0], leased.id, buried[2]]
    assert queue.redrive(named) == 2
    assert queue.redrive(iter(named)) == 0
    held = assert_counted(queue)
    assert kind.texts(held["ready"]) == "ace"
    assert kind.texts(held["dead"]) == "bd"
    assert kind.texts(held["leased"]) == "f"
    assert queue.redrive([]) == 0


@pytest.mark.parametrize("way", ["redrive", "clear_state"])
def test_what_dies_behind_the_last_stays(database, subspace, way):
    """So a queue whose items die all the time is not gone through for ever."""
    queue = FifoQueue(database, subspace)
    items = [queue.push(number) for number in range(700)]
    for item in items[:600]:
        queue.bury(item.id)
    late = iter(items[600:])

    def die(_):
        queue.bury(next(late).id)

    if way == "redrive":
        assert queue.redrive(on_redriven=die) == 600
    else:
        assert queue.clear_state("dead", on_removed=die) == 600
    assert 1 <= queue.counts().dead < 10


def test_a_limit_counts_those_that_come_back(kind, queue):
    """Ids of items that are not dead do not use it up."""
    buried = bury(kind, queue, "bc")
    assert queue.redrive([queue.peek().id, *buried], limit=1) == 1
    assert kind.texts(assert_counted(queue)["ready"]) == "abdef"


# Looking


@pytest.mark.parametrize("end", ["min", "max"])
@pytest.mark.parametrize("half", [0, 1], ids=["facts", "value"])
def test_half_of_an_item(kind, queue, database, end, half):
    """Where one of an item's two rows is gone, all other items are shown, each as it is."""
    bury(kind, queue, "abcdef")
    table = TableKeys(queue.subspace.key())
    stop = table.state_bounds(State.DEAD)[1]
    rows = run(database, lambda tr: list(tr.get_range(table.state_bounds(State.DEAD)[0], stop)))
    run(database, lambda tr: [tr.clear(rows[2 * number + half].key) for number in (1, 2, 5)])
    found, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page = queue.page(state="dead", end=end, after=cursor, limit=2)
        found, cursor, pages = [*found, *page.items], page.cursor, pages + 1
        assert pages < 10
    assert kind.texts(found) == ("ade" if end == "min" else "eda")
