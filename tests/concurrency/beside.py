"""What a process does beside those of another version: it uses only what is public.

It runs by its path, with the package of one version or the other on ``PYTHONPATH``. It says the
same as :mod:`tests.concurrency.worker`, and how many seconds each call took.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from fdb.subspace_impl import Subspace

from fdbqueue.engines import embedded, foundationdb
from fdbqueue.exceptions import LeaseLost
from fdbqueue.service import FifoQueue, PriorityQueue

AWAY_SECONDS = 0.5


class Toiler:
    """One thread that pushes, pops and leases without end."""

    def __init__(self, queue: Any, name: str, priorities: list[Any]) -> None:
        self._queue, self._name, self._priorities = queue, name, priorities
        self._numbers = itertools.count()

    def work(self) -> None:
        """Do any of it, until the process is killed."""
        doings = [self._push, self._push, self._pop, self._pop, self._pop_many, self._lease]
        while True:
            random.choice(doings)()

    def _do(self, doing: str, facts: Any, call: Callable[[], Any]) -> Any:
        """Say what is to be done, and what came of it: the texts that ``call`` returns."""
        self._say(doing, facts, done=False)
        begun = time.monotonic()
        came = call()
        self._say(doing, came, done=True, seconds=time.monotonic() - begun)

    def _say(self, doing: str, facts: Any, **more: Any) -> None:
        fact = {"who": self._name, "doing": doing, "facts": facts, **more}
        os.write(1, json.dumps(fact, separators=(",", ":")).encode() + b"\n")

    def _push(self) -> None:
        texts = [f"{self._name}.{next(self._numbers)}" for _ in range(random.choice([1, 3]))]
        pairs = [([text], random.choice(self._priorities)) for text in texts]
        values = [value for value, _ in pairs] if self._priorities == [None] else pairs

        def push() -> list[str]:
            self._queue.push_many(values)
            return texts

        self._do("push", texts, push)

    def _pop(self) -> None:
        end = random.choice([self._queue.pop_min, self._queue.pop_max])
        self._do("pop", 1, lambda: [item.value[0] for item in [end()] if item is not None])

    def _pop_many(self) -> None:
        self._do("pop", 3, lambda: [item.value[0] for item in self._queue.pop_many(3)])

    def _lease(self) -> None:
        item = self._queue.lease(seconds=AWAY_SECONDS)
        if item is not None and random.random() < 0.8:
            self._do("ack", [item.value[0]], lambda: self._end(item))

    def _end(self, item: Any) -> list[str]:
        try:
            self._queue.ack(item)
        except LeaseLost:
            return []
        return [item.value[0]]


def main(engine: str, place: str, prefix: str, name: str, threads: str, priorities: str) -> None:
    """Open the queue, and let threads toil."""
    database = (embedded if engine == "embedded" else foundationdb).open(place)
    kind = FifoQueue if priorities == "[null]" else PriorityQueue
    subspace = Subspace(rawPrefix=bytes.fromhex(prefix))
    queue = kind(database, subspace, name="beside", handoff_timeout_seconds=AWAY_SECONDS)
    toilers = [Toiler(queue, f"{name}{n}", json.loads(priorities)) for n in range(int(threads))]
    for one in [threading.Thread(target=toiler.work) for toiler in toilers]:
        one.start()


if __name__ == "__main__":
    main(*sys.argv[1:])
