"""The checkers themselves: they accept what can have been, and nothing else."""

from __future__ import annotations

import math

from tests.cases import cases
from tests.concurrency.history import Call
from tests.concurrency.linearizable import broken_rules, linearization


def push(start, end, *texts, priority=None):
    """Return a push of texts."""
    name = "push" if len(texts) == 1 else "push_many"
    return Call(start, end, name, [(priority, text) for text in texts])


def pop(start, end, *texts, name="pop_min", count=1):
    """Return a pop that gave texts."""
    return Call(start, end, name, count, texts)


POSSIBLE = {
    "in order": [push(0, 1, "a"), push(2, 3, "b"), pop(4, 5, "a"), pop(6, 7, "b")],
    "pushes at once": [push(0, 2, "a"), push(1, 3, "b"), pop(4, 5, "b"), pop(6, 7, "a")],
    "empty before the push returns": [push(0, 3, "a"), pop(1, 2), pop(4, 5, "a")],
    "popped before the push returns": [push(0, 3, "a"), pop(1, 2, "a"), pop(4, 5)],
    "priorities": [
        push(0, 1, "a", priority=2),
        push(2, 3, "b", priority=1),
        pop(4, 5, "a", name="pop_max"),
        pop(6, 7, "b"),
    ],
    "a push that nobody knows of": [push(0, math.inf, "a"), pop(9, 10, "a")],
    "a push that never was": [push(0, math.inf, "a"), pop(9, 10)],
}
IMPOSSIBLE = {
    "out of order": [push(0, 1, "a"), push(2, 3, "b"), pop(4, 5, "b"), pop(6, 7, "a")],
    "lost": [push(0, 1, "a"), pop(2, 3), pop(4, 5)],
    "twice": [push(0, 1, "a"), pop(2, 3, "a"), pop(4, 5, "a")],
    "before it was pushed": [pop(0, 1, "a"), push(2, 3, "a")],
    "passed over": [
        push(0, 1, "a", priority=1),
        push(0, 1, "b", priority=2),
        pop(2, 3, "b"),
        pop(4, 5, "a"),
    ],
    "not the highest": [
        push(0, 1, "a", priority=1),
        push(0, 1, "b", priority=2),
        pop(2, 3, "a", name="pop_max"),
    ],
    "passed over to the end": [push(0, 1, "a"), push(2, 3, "b"), pop(4, 5, "b")],
}


@cases("calls", POSSIBLE.values())
def test_what_can_have_been_is_accepted(calls):
    """There is an order that explains it, and no rule is broken."""
    assert linearization(calls) is not None
    assert broken_rules(calls) == []


@cases("calls", IMPOSSIBLE.values())
def test_what_cannot_have_been_is_found(calls):
    """No order explains it, and a rule is broken."""
    assert linearization(calls) is None
    assert broken_rules(calls) != []


def test_pops_of_many_are_at_one_moment():
    """All that one call gave was there together, and in this order."""
    pushes = [push(0, 1, "a", "b"), push(2, 3, "c")]
    assert linearization([*pushes, pop(4, 5, "a", "b", name="pop_many_min", count=2)])
    assert linearization([*pushes, pop(4, 5, "c", "b", name="pop_many_max", count=2)])
    assert not linearization([*pushes, pop(4, 5, "a", name="pop_many_min", count=2)])
    assert not linearization([*pushes, pop(4, 5, "b", "c", name="pop_many_max", count=2)])


def test_a_peek_takes_nothing():
    """What was seen is still there."""
    seen = pop(2, 3, "a", name="peek_min")
    assert linearization([push(0, 1, "a"), seen, pop(4, 5, "a")])
    assert not linearization([push(0, 1, "a"), seen, pop(4, 5)])


def test_a_pop_at_the_max_end_may_remove_later_what_it_saw_as_the_last():
    """Not what was not the last at any moment while it ran, and not at the min end."""
    late = [push(0, 1, "a"), push(3, 4, "b"), pop(5, 6, "b", name="pop_max")]
    peek = pop(5, 6, "b", name="peek_max")
    assert linearization([*late, pop(2, 7, "a", name="pop_max")])
    seen = [push(0, 1, "a"), push(3, 4, "b"), peek, pop(7, 8, "a", name="peek_min")]
    assert linearization([*seen, pop(2, 9, "a", name="pop_max"), pop(10, 11, "b")])
    assert not linearization([*seen, pop(4.5, 9, "a", name="pop_max"), pop(10, 11, "b")])
    assert not linearization([push(0, 1, "b"), push(3, 4, "a"), pop(2, 9, "a"), pop(10, 11, "b")])
    empty = [push(3, 4, "b"), pop(5, 6, "b", name="peek_min"), pop(2, 9, name="pop_max")]
    assert linearization(empty)
