"""Recounts: what foreign writers did to the counts is put right, while others go on."""

from __future__ import annotations

import pytest

from fdbqueue.service import FifoQueue, PriorityQueue, run
from fdbqueue.service.bulk import recount
from fdbqueue.service.storage.counts import Counts
from fdbqueue.service.storage.tables import TableKeys
from tests.concurrency.census import assert_counted
from tests.contract.conftest import Meddled
from tests.contract.recipes import JavaPriorityQueue, PythonPriorityQueue, PythonQueue
from tests.wrapped import WrappedDatabase, WrappedTransaction

KINDS = ["fifo", "priority"]


@pytest.fixture(params=KINDS)
def kind(request):
    """FIFO and priority queues."""
    return request.param


@pytest.fixture
def ours(kind, database, subspace):
    """A queue of ours at the recipes' place."""
    return opened(kind, database, subspace)


@pytest.fixture
def theirs(kind, database, subspace):
    """The recipe at the place of ours."""
    return recipe(kind, database, subspace)


def opened(kind, database, subspace):
    """Return a queue of ours."""
    queue = FifoQueue if kind == "fifo" else PriorityQueue
    return queue(database, subspace, codec="bytes", max_attempts=2)


def recipe(kind, database, subspace):
    """Return push and pop of the recipe."""
    if kind == "fifo":
        queue = PythonQueue(database, subspace)
        return lambda value, _: queue.enqueue(value), queue.dequeue
    queue = PythonPriorityQueue(database, subspace)
    return queue.push, queue.pop


def push_ours(kind, queue, value, priority):
    """Push with a priority, where there are any."""
    queue.push(value, None if kind == "fifo" else priority)


def overwrite(database, rows):
    """Set keys, as a bug or a hand might."""

    def write(tr):
        for key, value in rows.items():
            if value is None:
                tr.clear(key)
            else:
                tr[key] = value

    run(database, write, wrote=lambda _: True)


def test_what_the_recipes_did_is_counted_by_a_recount(kind, ours, theirs):
    """Their pushes and pops make the counts wrong; then they are right, by priority too."""
    push, pop = theirs
    for number in range(6):
        push_ours(kind, ours, b"ours", number % 2)
        push(b"theirs", 2)
    assert pop() is not None
    assert ours.size() == 6
    assert ours.recount() == Counts(11, 0, 0, 0)
    assert_counted(ours)
    assert len(ours.pop_many(4)) == 4
    for _ in range(7):
        assert pop() is not None
    assert pop() is None
    assert ours.recount() == Counts(0, 0, 0, 0)
    assert not any(assert_counted(ours).values())


def test_a_priority_that_seemed_less_than_empty_is_put_right(database, subspace):
    """Ours popped more of it than were counted."""
    theirs = JavaPriorityQueue(database, subspace)
    ours = PriorityQueue(database, subspace, codec="tuple")
    for priority in (1, 1, 1, 2):
        theirs.push("x", priority)
    ours.pop_many(2)
    ours.pop_max()
    assert ours.size() == -3
    assert ours.recount() == Counts(1, 0, 0, 0)
    assert ours.by_priority() == [(1, 1)]
    ours.pop()
    assert ours.by_priority() == []


def test_a_recount_of_what_is_right_changes_nothing(kind, ours, everything):
    """Neither of an empty queue, nor of one in use."""
    assert ours.recount() == Counts(0, 0, 0, 0)
    assert everything() == set()
    for number in range(9):
        push_ours(kind, ours, b"x", number)
    leased = ours.lease_many(2)
    ours.nack(leased[0])
    before = everything()
    assert ours.recount() == Counts(8, 1, 0, 0)
    assert everything() == before
    assert_counted(ours)


def test_hidden_items_are_counted_too(kind, ours, database, subspace, clock):
    """Each state is found as it is, whatever the counts said."""
    for number in range(10):
        push_ours(kind, ours, b"x", number % 3)
    ours.push(b"later", None if kind == "fifo" else 1, delay=10)
    leased = ours.lease_many(3)
    for _ in range(2):
        ours.nack(ours.lease())
    ours.bury(ours.page().items[0].id)
    expected = ours.counts()
    assert expected == Counts(5, 3, 1, 2)
    tables = TableKeys(subspace.key())
    for value in (None, b"\x05" + bytes(23), b"\xff" * 24):
        levels = dict.fromkeys([tables.level(p) for p in range(5)] if kind == "priority" else ())
        overwrite(database, {tables.ready_taken_wakes: value, tables.hidden: value, **levels})
        assert ours.counts() != expected
        assert ours.recount() == expected
        assert_counted(ours)
    ours.ack_many(leased)
    clock.advance(60)
    assert len(ours.pop_many(9)) == 6
    assert ours.recount() == Counts(0, 0, 0, 2)
    assert_counted(ours)


def test_of_two_recounts_at_once_one_begins_again(ours, theirs, kind, database, subspace):
    """Else both would add what is missing."""
    push, _ = theirs
    for number in range(4):
        push(b"%d" % number, 1)
    meddled, others = Meddled(database), []

    def recount_before():
        if not others:
            others.append(ours.recount())

    queue = opened(kind, meddled, subspace)
    meddled.meddle = recount_before
    queue.recount()
    assert others
    assert len(assert_counted(ours)["ready"]) == 4


def test_what_was_taken_for_a_popper_is_counted_as_ready(
    kind, ours, theirs, ask_and_die, let_expire
):
    """Until it is collected or goes back, as pops count it."""
    push, _ = theirs
    for number in range(8):
        push_ours(kind, ours, b"x", number)
    push(b"theirs", 9)
    ask_and_die(ours, lowest=4)
    assert ours.pop() is not None
    assert len(list(ours)) == 4
    assert ours.recount() == Counts(8, 0, 0, 0)
    if kind == "priority":
        assert ours.by_priority() == [(n, 1) for n in (*range(1, 8), 9)]
    let_expire(ours)
    assert ours.pop_max() is not None
    assert ours.recount() == Counts(7, 0, 0, 0)
    assert len(assert_counted(ours)["ready"]) == 7


def test_attempts_survive_a_recount(kind, ours):
    """Wherever they are kept, and whether or not any are."""
    for number in range(3):
        push_ours(kind, ours, b"x", number)
    for tried in (1, 2, 3):
        ours.recount()
        first = ours.lease()
        assert first.attempts == (tried - 1) % 2
        ours.recount()
        ours.nack(first)
        ours.recount()
        if tried % 2 == 0:
            assert ours.redrive() == 1
        assert ours.peek().attempts == tried % 2
    assert [item.attempts for item in ours.pop_many(3)] == [1, 0, 0]
    assert ours.recount() == Counts(0, 0, 0, 0)


def test_a_foreign_key_is_taken_for_no_popper(ints, database, subspace, ask_and_die):
    """It stays where it is, and is counted like any other that is not an item's."""
    ints.push("ours", 1)
    overwrite(database, {subspace.pack(("text", 0, b"r")): b"theirs"})
    ask_and_die(ints, highest=1)
    assert ints.pop_max().value == "ours"
    assert len(list(ints)) == 1
    assert ints.recount().ready == 1


def test_keys_that_are_no_items_are_counted_with_the_ready_ones(ints, fifo, database, subspace):
    """They are shown, and have to be buried before anybody gets past them."""
    ints.push("ours", 1)
    overwrite(database, {subspace.pack(("text", n, b"r")): b"theirs" for n in range(3)})
    assert ints.recount().ready == 4
    assert ints.by_priority() == [(1, 1)]
    assert len(list(ints)) == 4


def test_many_items_are_counted_in_bounded_reads(database, subspace):
    """More than one read returns."""
    queue = PriorityQueue(database, subspace, codec="bytes")
    queue.push_many((b"", number % 2) for number in range(11_000))
    tables = TableKeys(subspace.key())
    overwrite(database, {tables.ready_taken_wakes: None, tables.level(0): None})
    assert queue.recount() == Counts(11_000, 0, 0, 0)
    assert queue.by_priority() == [(0, 5_500), (1, 5_500)]


@pytest.mark.parametrize("order", ["count", "commit"])
@pytest.mark.parametrize("ghosts", [5, 150])
def test_the_oldest_is_found_past_what_others_took(database, subspace, clock, order, ghosts):
    """Foreign poppers leave the ages of what they took; recounts remove them."""
    queue = PriorityQueue(database, subspace, order=order)
    queue.push_many([("x", 1)] * ghosts)
    clock.advance(10)
    left = queue.push("left", 2)
    theirs = PythonPriorityQueue(database, subspace)
    for _ in range(ghosts):
        theirs.pop()
    assert queue.oldest() == left.pushed_at
    queue.recount()
    assert queue.oldest() == left.pushed_at
    tables = TableKeys(subspace.key())
    assert len(list(database.create_transaction().get_range(*tables.ages))) == 1


def test_a_recount_forgets_no_age_that_is_needed(
    database, subspace, clock, ask_and_die, let_expire
):
    """Neither of what is ready, nor of what was taken for a popper and comes back."""
    queue = PriorityQueue(database, subspace)
    first = queue.push("first", 5)
    clock.advance(10)
    queue.push_many([("x", 6), ("y", 1)])
    ask_and_die(queue, lowest=1)
    assert queue.pop().value == "y"
    queue.recount()
    let_expire(queue)
    assert queue.pop_max().value == "x"
    assert queue.oldest() == first.pushed_at
    assert_counted(queue)


class Late(WrappedTransaction):
    """A transaction that an engine takes ten seconds to begin."""

    now = 0.0
    has_begun = False

    def __getattr__(self, name):
        if not self.has_begun and name in {"get_read_version", "get_range", "snapshot"}:
            self.has_begun = True
            Late.now += 10.0
        return super().__getattr__(name)


def test_a_queue_is_counted_in_one_transaction_however_late_it_begins(
    database, subspace, monkeypatch
):
    """What others do between two transactions of one count would be counted wrong for good."""
    FifoQueue(database, subspace).push_many("abcde")
    began = []

    def wrap(transaction):
        began.append(Late(transaction))
        return began[-1]

    late = FifoQueue(WrappedDatabase(database, wrap), subspace)
    late.recount()
    usual = len(began)
    monkeypatch.setattr(recount, "monotonic", lambda: Late.now)
    late.recount()
    assert len(began) == 2 * usual
