"""Flows: what is pushed to a queue all the time, and what its workers do with it."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable
from typing import Any

import fdbqueue
from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import CorruptItem
from fdbqueue.service import HISTORY_MINUTES, End, Item, Push, now_us, run

#: Pushes come and go like tides, so that the charts have waves: how long one takes, and how high
#: it is.
_TIDE_MINUTES, _TIDE = 23, 0.5


@dataclasses.dataclass(frozen=True)
class Flow:
    """What goes into one queue of the demo, and out of it.

    Attributes:
        name: The queue's name.
        pushes: How many items are pushed in a minute, on average.
        push: Makes an item to push.
        takes: How many items are taken in a minute.
        depth: With more ready items than this, workers take more than is pushed.
        end: The end that items are taken from.
        lease_seconds: For how long workers lease items; None if they pop them.
        held: How many leases the workers hold at a time.
        failure: Returns the reason why a worker fails with a value, None if it does not.
        retry_seconds: After how many seconds a failed item is tried again.
    """

    name: str
    pushes: float
    push: Callable[[random.Random], Push]
    takes: float = 0
    depth: int = 0
    end: End = "min"
    lease_seconds: float | None = None
    held: int = 0
    failure: Callable[[Any], str | None] = lambda _: None
    retry_seconds: float = 60


class Stream:
    """The work on one queue, as its flow says.

    Args:
        flow: The flow.
        chance: Decides what happens next.
    """

    def __init__(self, flow: Flow, chance: random.Random) -> None:
        self.flow = flow
        self.queue = fdbqueue.queue(flow.name)
        self._chance = chance
        #: The leases that the workers hold, the earliest first.
        self.held: list[Item] = []

    def is_new(self) -> bool:
        """Tell whether the queue has no item, and none came or went in a day."""
        counts = self.queue.counts()
        events = self.queue.history(HISTORY_MINUTES)
        return not any(dataclasses.astuple(counts)) and not any(m.pushes + m.pops for m in events)

    def step(self, minutes: float) -> None:
        """Do the work of some minutes, in a transaction of its own."""
        self.held = run(self.queue.database, lambda tr: self.work(tr, minutes))

    def work(self, tr: Transaction, minutes: float) -> list[Item]:
        """Take, finish and push items; return the leases held then, for ``held`` after a commit."""
        size = self.queue.size(tr=tr)
        pushed = self._some(self.flow.pushes * minutes * self._tide())
        takes = self.flow.takes * minutes
        if size > self.flow.depth:
            takes = max(takes, 1.2 * pushed)
        held = self.held + self._take(tr, min(self._some(takes), size))
        finished = max(0, len(held) - self.flow.held)
        for item in held[:finished]:
            self._finish(tr, item)
        self.queue.push_batch([self.flow.push(self._chance) for _ in range(pushed)], tr=tr)
        return held[finished:]

    def _tide(self) -> float:
        """Return how many times the average is pushed now; each queue has its own tide."""
        turns = now_us() / (_TIDE_MINUTES * 60e6) + len(self.flow.name) / 7
        return 1 + _TIDE * math.sin(2 * math.pi * turns)

    def _some(self, mean: float) -> int:
        """Return a whole number, 0.6 to 1.4 times the mean."""
        return int(mean * (0.6 + 0.8 * self._chance.random()) + self._chance.random())

    def _take(self, tr: Transaction, count: int) -> list[Item]:
        """Pop or lease items; return the leased ones.

        An item that cannot be decoded blocks all: then one is taken, which may be in front of it.
        """
        flow = self.flow
        if not count or not flow.takes:
            return []
        try:
            if flow.lease_seconds is None:
                self.queue.pop_many(count, end=flow.end, tr=tr)
                return []
            worker = f"worker-{self._chance.randint(1, 3)}.example.org"
            return self.queue.lease_many(
                count, end=flow.end, seconds=flow.lease_seconds, worker=worker, tr=tr
            )
        except CorruptItem:
            return self._take(tr, 1) if count > 1 else []

    def _finish(self, tr: Transaction, item: Item) -> None:
        """Acknowledge a leased item, or give it up for the reason that its value has."""
        reason = self.flow.failure(item.value)
        if reason is None:
            self.queue.ack_many([item], tr=tr)
        else:
            self.queue.nack_many([item], delay=self.flow.retry_seconds, reason=reason, tr=tr)
