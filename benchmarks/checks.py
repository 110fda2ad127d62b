"""Checks that what many clients pushed or took is right: no item lost, taken twice, or too late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from benchmarks.queues import Load, Ours
from fdbqueue.service import Counts

#: The number of an operation that found the queue empty.
NOTHING = -1


class Operation(NamedTuple):
    """One push or pop: the number of its item, :data:`NOTHING` for none, and when."""

    number: int
    begun_at: float
    ended_at: float


class ItemsWentWrong(Exception):
    """An item was taken twice or too late, or is gone, or was not found."""


def check_pushes(load: Load, pushes: list[Operation], held: int, clients: int, queue: Ours) -> None:
    """Check that each pushed item is in the queue once, and each client's in their order.

    Args:
        load: How the queue was pushed to.
        pushes: The pushes; the numbers of a client's items differ by ``clients``.
        held: How many items the queue held before, numbered from 0.
        clients: How many clients pushed.
        queue: The queue.

    Raises:
        ItemsWentWrong: They are not.
    """
    found = queue.numbers()
    expected = [*range(held), *(push.number for push in pushes)]
    wrong = {
        **_difference(expected, found),
        "out of order": _misplaced(load, (number for number in found if number >= held), clients),
        "counted wrongly": queue.queue.counts() != Counts(len(expected), 0, 0, 0),
    }
    _refuse(wrong, f"{load}: of {held} and {len(pushes)} pushed")


def check_pops(load: Load, pops: list[Operation], count: int, queue: Ours) -> None:
    """Check that each item was either taken once or is left, and that none was overtaken.

    Args:
        load: How the queue was popped.
        pops: The pops, or leases; items that were to be acknowledged are not leased any more.
        count: How many items the queue held before, numbered from 0.
        queue: The queue.

    Raises:
        ItemsWentWrong: That is not so.
    """
    taken = [pop for pop in pops if pop.number != NOTHING]
    left = queue.numbers()
    leased = len(taken) if load.method == "lease" else 0
    wrong = {
        **_difference(range(count), [*left, *(pop.number for pop in taken)]),
        "pops that found none": len(left) and len(pops) - len(taken),
        "taken too late": _overtaken(load, taken) if taken and load.is_strict else 0,
        "counted wrongly": queue.queue.counts() != Counts(len(left), leased, 0, 0),
    }
    _refuse(wrong, f"{load}: of {count}")


def check_numbers(name: str, expected: Iterable[int], found: Iterable[int]) -> None:
    """Check that each of the expected numbers was found once, and no others.

    Raises:
        ItemsWentWrong: That is not so.
    """
    _refuse(_difference(expected, found), name)


def _refuse(wrong: dict[str, int | bool], what: str) -> None:
    if any(wrong.values()):
        raise ItemsWentWrong(f"{what}: {wrong}")


def _difference(expected: Iterable[int], found: Iterable[int]) -> dict[str, int | bool]:
    """Count the numbers that are missing, and those found too often or not expected at all."""
    wanted, there = Counter(expected), Counter(found)
    return {"gone": (wanted - there).total(), "there twice": (there - wanted).total()}


def _misplaced(load: Load, numbers: Iterable[int], clients: int) -> int:
    """Count the items that are before one that the same client pushed earlier."""
    misplaced, last = 0, dict[int, int]()
    for number in numbers:
        place = load.place(number)
        misplaced += place < last.get(number % clients, place)
        last[number % clients] = place
    return misplaced


def _overtaken(load: Load, pops: list[Operation]) -> int:
    """Count the pops that began when an item behind theirs had been taken already."""
    ended = iter(sorted(pops, key=lambda pop: pop.ended_at))
    late, last_ended, furthest = 0, next(ended), -1
    for pop in sorted(pops, key=lambda pop: pop.begun_at):
        while last_ended.ended_at < pop.begun_at:
            furthest = max(furthest, load.place(last_ended.number))
            last_ended = next(ended)
        late += load.place(pop.number) < furthest
    return late
