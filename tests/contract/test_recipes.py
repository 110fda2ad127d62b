"""Queues written by FoundationDB's recipes are queues here, and ours are queues there."""

from __future__ import annotations

import json

import pytest

from fdbqueue.service import FifoQueue, PriorityQueue
from tests.contract.recipes import JavaPriorityQueue, PythonPriorityQueue, PythonQueue

PUSHES = [(b"five", 5), (b"one", 1), (b"five again", 5), (b"minus", -3), (b"one again", 1)]


def test_we_pop_what_the_queue_recipe_pushed(database, subspace):
    """A FIFO queue at the recipe's subspace takes its items in their order."""
    theirs = PythonQueue(database, subspace)
    for number in range(12):
        theirs.enqueue(b"%d" % number)
    ours = FifoQueue(database, subspace, codec="bytes")
    assert [item.value for item in ours.pop_many(100)] == [b"%d" % n for n in range(12)]


def test_the_queue_recipe_pops_what_we_pushed(database, subspace):
    """The recipe takes items of ours in the order they were pushed."""
    ours = FifoQueue(database, subspace, codec="bytes")
    ours.push(b"first")
    ours.push_many([b"second", b"third"])
    theirs = PythonQueue(database, subspace)
    assert [theirs.dequeue() for _ in range(4)] == [b"first", b"second", b"third", None]


@pytest.mark.parametrize("end", ["min", "max"])
def test_both_pop_a_priority_queue_that_both_pushed_to(database, subspace, end):
    """Pushes of both sides stand in one order, and each side pops it alike."""
    theirs = PythonPriorityQueue(database, subspace)
    ours = PriorityQueue(database, subspace, codec="bytes")
    for number, (value, priority) in enumerate(PUSHES):
        if number % 2:
            theirs.push(value, priority)
        else:
            ours.push(value, priority)
    order = [b"minus", b"one", b"one again", b"five", b"five again"]
    if end == "max":
        order.reverse()
    assert theirs.peek(max=end == "max") == order[0]
    popped = [ours.pop_many(1, end=end)[0].value, theirs.pop(max=end == "max")]
    popped += [item.value for item in ours.pop_many(2, end=end)]
    popped.append(theirs.pop(max=end == "max"))
    assert popped == order
    assert theirs.pop() is None
    assert ours.pop() is None


def test_keys_and_values_are_the_recipes_byte_for_byte(database, subspace, rows):
    """But for the random element, one side's rows are the other's."""
    theirs, ours = subspace["theirs"], subspace["ours"]
    recipe = PythonPriorityQueue(database, theirs)
    queue = PriorityQueue(database, ours, codec="bytes")
    for value, priority in PUSHES:
        recipe.push(value, priority)
        queue.push(value, priority)

    def stored(space):
        begin, end = space.range().start, space.range().stop
        found = database.create_transaction().get_range(begin, end)
        return [
            (space.unpack(row.key)[:2], len(space.unpack(row.key)[2]), row.value) for row in found
        ]

    assert stored(theirs) == stored(ours)


def test_the_java_recipe_and_the_tuple_codec_read_each_other(database, subspace):
    """Values packed by the Java recipe are ours with codec tuple, and the other way round."""
    theirs = JavaPriorityQueue(database, subspace)
    ours = PriorityQueue(database, subspace, codec="tuple")
    theirs.push("caf\u00e9", 2)
    ours.push(2**70, 1)
    assert theirs.pop() == 2**70
    assert ours.pop().value == "caf\u00e9"


def test_the_java_recipe_reads_the_text_of_a_json_value(database, subspace):
    """Element 0 of what the json codec stores is the JSON text."""
    ours = PriorityQueue(database, subspace)
    ours.push({"n": 10**30, "s": "\u0000caf\u00e9"}, 1)
    assert json.loads(JavaPriorityQueue(database, subspace).pop()) == {
        "n": 10**30,
        "s": "\u0000caf\u00e9",
    }


def test_a_json_text_pushed_by_the_java_recipe_is_a_value(database, subspace):
    """A tuple of the text alone decodes, without metadata."""
    JavaPriorityQueue(database, subspace).push('{"a":[1,2]}', 7)
    item = PriorityQueue(database, subspace).pop_max()
    assert (item.value, item.priority, item.pushed_at, item.attempts) == ({"a": [1, 2]}, 7, None, 0)
