"""Dead letters grouped by their reasons: counted as they die, and redriven by reason."""

from __future__ import annotations

import datetime

import pytest

from fdbqueue.exceptions import InvalidInput
from fdbqueue.service import DeadReason, FifoQueue, group_digest, run
from fdbqueue.service.storage.tables import State
from tests.concurrency.census import assert_counted


@pytest.fixture
def queue(kind, database, subspace, clock):
    """A queue of ten items, for which the time stands still."""
    queue = kind.open(database, subspace, max_attempts=1)
    values = [kind.value(str(number)) for number in range(10)]
    queue.push_many(kind.pairs(values, [kind.priorities[0]] * 10))
    return queue


def counts(queue, **arguments):
    """Return the groups as pairs."""
    return [(one.reason, one.count) for one in queue.dead_by_reason(**arguments)]


def kill(queue, *reasons):
    """Let the first items die, one of each reason; return their ids."""
    items = queue.lease_many(len(reasons))
    for item, reason in zip(items, reasons, strict=True):
        queue.nack(item, reason=reason)
    return [item.id for item in items]


def test_the_most_frequent_reason_is_the_first(queue):
    """Then by their texts; at most as many as asked for."""
    assert counts(queue) == []
    kill(queue, "b", "a", "c", "b", "c", "b")
    assert counts(queue) == [("b", 3), ("c", 2), ("a", 1)]
    assert counts(queue, limit=2) == [("b", 3), ("c", 2)]
    assert queue.dead_by_reason(limit=1) == [DeadReason("b", 3)]
    assert_counted(queue)


def test_a_group_is_the_first_line(queue):
    """Of at most 200 characters; two that differ behind it are one."""
    kill(queue, "KeyError: 'a'\nTraceback 1", "KeyError: 'a'\nTraceback 2", "  \nKeyError: 'a' ")
    kill(queue, "x" * 200 + "y", "x" * 200 + "z", "x" * 200, "")
    assert counts(queue) == [("KeyError: 'a'", 3), ("x" * 200, 3), ("", 1)]
    assert queue.redrive(reason="x" * 300) == 3
    assert queue.redrive(reason="KeyError: 'a'\nTraceback 3") == 3
    assert counts(queue) == [("", 1)]


@pytest.mark.parametrize("way", ["redrive", "redrive one", "remove", "remove_many", "clear_state"])
def test_every_way_back_is_counted(queue, everything, way):
    """And no count of zero is left."""
    ids = kill(queue, "a", "b", "a")
    {
        "redrive": queue.redrive,
        "redrive one": lambda: [queue.redrive([item_id]) for item_id in ids],
        "remove": lambda: [queue.remove(item_id) for item_id in ids],
        "remove_many": lambda: queue.remove_many(ids),
        "clear_state": lambda: queue.clear_state("dead"),
    }[way]()
    assert counts(queue) == []
    assert not any(key.startswith(b"\xff\x15") for key in everything())
    assert_counted(queue)


def test_clear_forgets_them(queue):
    """As everything."""
    kill(queue, "a")
    queue.clear()
    assert counts(queue) == []


def test_those_of_one_reason_are_removed(queue):
    """All, or the first that match, however few of the dead letters do."""
    ids = kill(queue, "a", "b", "b", "a", "a", "b")
    told = []
    assert queue.clear_state("dead", reason="a", limit=2, on_removed=told.append) == 2
    assert sum(told) == 2
    assert [item.id for item in queue.page(state="dead").items] == [ids[n] for n in (1, 2, 4, 5)]
    assert counts(queue) == [("b", 3), ("a", 1)]
    assert queue.clear_state("dead", reason="c") == 0
    assert queue.clear_state("dead", reason="b\nTraceback") == 3
    assert counts(queue) == [("a", 1)]
    with pytest.raises(InvalidInput):
        queue.clear_state("ready", reason="a")
    assert queue.size() == 4
    assert_counted(queue)


def test_any_number_of_one_reason_among_others(fifo):
    """In several transactions, those of the other reason between them left alone."""
    fifo.push_many(range(450))
    for item in list(fifo):
        fifo.bury(item.id, reason="odd" if item.value % 2 else "even")
    assert fifo.redrive(reason="odd", limit=220) == 220
    assert fifo.redrive(reason="odd") == 5
    assert [item.value for item in assert_counted(fifo)["ready"]] == list(range(1, 450, 2))


def test_of_one_reason_many_die_without_conflicts(fifo, database):
    """The counts are added to, and nothing is read."""
    items = [fifo.push(number) for number in range(3)]
    transactions = [database.create_transaction() for _ in items]
    for item, transaction in zip(items, transactions, strict=True):
        fifo.bury(item.id, reason="a", tr=transaction)
    for transaction in transactions:
        transaction.commit().wait()
    assert counts(fifo) == [("a", 3)]


# Dead letters that were not counted


def forget_reasons(queue):
    """Remove the counts, as a queue has none that an earlier version wrote."""
    bounds = queue.parts.store.tables.reasons
    run(queue.database, lambda tr: tr.clear_range(*bounds))


def test_counts_that_were_never_kept_are_not_negative(queue):
    """What is shown is what was counted since; a recount counts the rest."""
    ids = kill(queue, "a", "a", "b")
    forget_reasons(queue)
    assert counts(queue) == []
    queue.redrive([ids[0]])
    assert counts(queue) == []
    kill(queue, "a")
    assert counts(queue) == []
    queue.recount()
    assert counts(queue) == [("a", 2), ("b", 1)]
    queue.recount()
    assert counts(queue) == [("a", 2), ("b", 1)]
    assert_counted(queue)


def test_a_recount_removes_what_nothing_died_of(queue, everything):
    """Counts of letters that others have removed."""
    kill(queue, "a", "b")
    store = queue.parts.store
    run(queue.database, lambda tr: tr.clear_range(*store.tables.state_bounds(State.DEAD)))
    assert counts(queue) == [("a", 1), ("b", 1)]
    queue.recount()
    assert counts(queue) == []
    assert not any(key.startswith(b"\xff\x15") for key in everything())


def test_a_recount_of_more_reasons_than_one_transaction_corrects(fifo, monkeypatch):
    """It goes on until all are right."""
    monkeypatch.setattr("fdbqueue.service.bulk.recount._REASONS_AT_ONCE", 7)
    fifo.push_many(range(30))
    for item in list(fifo):
        fifo.bury(item.id, reason=f"number {item.value % 20}")
    expected = sorted(counts(fifo))
    forget_reasons(fifo)
    fifo.recount()
    assert sorted(counts(fifo)) == expected
    assert_counted(fifo)


def test_a_queue_with_the_longest_prefix(database, subspace):
    """A long reason is no obstacle to a death."""
    prefix = subspace[b"x" * 9_500]
    queue = FifoQueue(database, prefix, max_attempts=1)
    queue.push("x")
    queue.nack(queue.lease(), reason="\u00e9" * 300)
    (found,) = queue.dead_by_reason()
    assert found.count == 1
    assert queue.redrive() == 1
    assert queue.dead_by_reason() == []


@pytest.mark.parametrize("way", ["redrive", "clear_state"])
def test_those_that_died_before_a_moment(queue, clock, way):
    """Of a reason or of any, and at most so many; what dies at the moment or later stays dead."""
    kill(queue, "a", "b", "a")
    clock.advance(1)
    kill(queue, "a", "b")
    moment = queue.page(state="dead", order="time", end="max", limit=1).items[0].died_at
    state = ["dead"] if "clear" in way else []

    def act(**chosen):
        return getattr(queue, way)(*state, died_before=moment, **chosen)

    assert act(reason="a", limit=1) == 1
    assert act(reason="a") == 1
    assert act(reason="a") == 0
    assert counts(queue) == [("b", 2), ("a", 1)]
    assert act() == 1
    assert counts(queue) == [("a", 1), ("b", 1)]
    assert_counted(queue)


def test_a_moment_that_cannot_be_compared_is_refused(queue):
    """So is one for items that have not died."""
    naive = datetime.datetime(2024, 1, 1)  # noqa: DTZ001  # this is what is wrong
    for wrong in (naive, 5, "now"):
        with pytest.raises(InvalidInput, match="time zone"):
            queue.redrive(died_before=wrong)
        with pytest.raises(InvalidInput, match="time zone"):
            queue.clear_state("dead", died_before=wrong)
    aware = naive.replace(tzinfo=datetime.timezone.utc)
    with pytest.raises(InvalidInput, match="moment of death"):
        queue.clear_state("ready", died_before=aware)


def test_the_digest_of_a_reason(queue):
    """It is that of the group, as the reasons that are counted name it, and of no other."""
    reasons = ["", "boom", "boom\rmore", "bo\x00om", "r" * 4_000, "\ud800", "ünï"]
    kill(queue, *reasons)
    digests = {group_digest(one.reason) for one in queue.dead_by_reason()}
    assert digests == {group_digest(reason) for reason in reasons}
    assert len(digests) == len(reasons)
    assert group_digest(" boom \r\nmore") == group_digest("boom")
    assert group_digest("") == group_digest(" \t\n") != group_digest("all")
