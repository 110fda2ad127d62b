"""What several clients did to one queue, with the times of each call and return."""

from __future__ import annotations

import base64
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fdbqueue.service import Item, Queue
from tests.concurrency.kinds import Kind


class Call(NamedTuple):
    """One call: when it was made, when it returned, and what it did.

    Attributes:
        start: A moment before it began, in nanoseconds; all processes share the clock.
        end: A moment after it returned; infinity where nobody knows.
        name: ``push``, ``push_many``, ``pop_min``, ``pop_max``, ``pop_many_min``,
            ``pop_many_max``, ``peek_min`` or ``peek_max``.
        argument: The pairs of priority and text that a push puts in; how many a pop asks.
        result: The texts that came out, in order.
        places: The texts that were seen, and where the queue says that they are: it tells
            what to try first when an order is searched.
    """

    start: float
    end: float
    name: str
    argument: Any
    result: tuple[str, ...] = ()
    places: tuple[tuple[str, str], ...] = ()


class Recorder:
    """A client that works on a queue at random and records its calls.

    Args:
        kind: The queue's kind.
        queue: The queue.
        name: Different for each client.
        dice: What decides.
        names: What it draws from.
    """

    def __init__(
        self, kind: Kind, queue: Queue, name: object, dice: random.Random, names: Sequence[str]
    ) -> None:
        self.calls: list[Call] = []
        self._kind = kind
        self._queue = queue
        self._name = name
        self._dice = dice
        self._names = names
        self._count = 0

    def work(self, calls: int) -> list[Call]:
        """Make so many calls, and return them."""
        for _ in range(calls):
            name = self._dice.choice(self._names)
            if name.startswith("push"):
                self._push(name)
            elif name.startswith("pop_many"):
                self._take(name, self._dice.randint(1, 3))
            else:
                self._take(name, 1)
        return self.calls

    def _push(self, name: str) -> None:
        count = 1 if name == "push" else self._dice.randint(1, 3)
        texts = [f"{self._name}.{self._count + number}" for number in range(count)]
        self._count += count
        priorities = [self._dice.choice(self._kind.priorities) for _ in texts]
        values = [self._kind.value(text) for text in texts]
        if name == "push":
            self._record(
                name, [*zip(priorities, texts, strict=True)], self._push_one, values, priorities
            )
        else:
            pairs = self._kind.pairs(values, priorities)
            self._record(name, [*zip(priorities, texts, strict=True)], self._queue.push_many, pairs)

    def _push_one(self, values: list[Any], priorities: list[Any]) -> Item:
        return self._queue.push(values[0], priorities[0])

    def _take(self, name: str, count: int) -> None:
        if name.startswith("pop_many"):
            self._record(name, count, self._queue.pop_many, count, end=name.rpartition("_")[2])
        else:
            self._record(name, count, getattr(self._queue, name))

    def _record(
        self, name: str, argument: Any, function: Callable[..., Any], *args: Any, **options: Any
    ) -> None:
        start = time.monotonic_ns()
        result = function(*args, **options)
        end = time.monotonic_ns()
        items = result if isinstance(result, list) else [result]
        seen = [item for item in items if isinstance(item, Item)]
        places = tuple((self._kind.text(item.value), _place(item)) for item in seen)
        texts = () if name.startswith("push") else tuple(text for text, _ in places)
        self.calls.append(Call(start, end, name, argument, texts, places))


def _place(item: Item) -> str:
    """Return an item's place in digits that sort as the items do."""
    assert item.id is not None
    return base64.urlsafe_b64decode(item.id + "=" * (-len(item.id) % 4)).hex()
