"""What processes do that a test starts: work on a queue, and say what they do.

Each thing said is one line of JSON without spaces, written at once, so that of a process
that is killed every line is whole.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
from collections.abc import Callable
from typing import Any

from fdb.subspace_impl import Subspace

from fdbqueue.engines import foundationdb
from fdbqueue.exceptions import LeaseLost
from fdbqueue.service import Item, Queue
from tests.concurrency.clients import together
from tests.concurrency.kinds import KINDS, Kind
from tests.concurrency.storm import rage

#: How a test starts one; then come the engine, the kind, the subspace's prefix in hex, the
#: name of what to do, and its arguments in JSON.
SCRIPT = "from tests.concurrency import worker; worker.main(database)"

#: The unique keys that these processes push under.
UNIQUE = "abcd"
#: How long what a killed process had leased or was handed stays away.
AWAY_SECONDS = 0.5


def say(fact: Any) -> None:
    """Tell the test something."""
    os.write(1, json.dumps(fact, separators=(",", ":")).encode() + b"\n")


def main(database: Any) -> None:
    """Do what the command line says."""
    engine, kind_name, prefix, task, arguments = sys.argv[2:]
    if engine == "foundationdb":
        database = foundationdb.open(os.environ["FDB_CLUSTER_FILE"])
    kind = next(kind for kind in KINDS if kind.name == kind_name)
    tasks: dict[str, Callable[..., None]] = {
        "toil": toil,
        "pop": pop,
        "storm": storm,
        "acknowledge_and_wait": acknowledge_and_wait,
    }
    subspace = Subspace(rawPrefix=bytes.fromhex(prefix))
    tasks[task](kind, database, subspace, **json.loads(arguments))


def open_queue(kind: Kind, database: Any, subspace: Subspace) -> Queue:
    """Return the queue that all these processes work on."""
    return kind.open(database, subspace, handoff_timeout_seconds=AWAY_SECONDS)


def toil(kind: Kind, database: Any, subspace: Subspace, name: str, threads: int) -> None:
    """Push, pop and lease without end, in several threads."""
    queue = open_queue(kind, database, subspace)
    together(threads, lambda number: _Toiler(kind, queue, f"{name}{number}").work())


def pop(kind: Kind, database: Any, subspace: Subspace, threads: int) -> None:
    """Pop one by one in several threads until the queue is empty."""
    queue = open_queue(kind, database, subspace)
    say("ready")
    sys.stdin.readline()

    def work(_: int) -> None:
        item = queue.pop()
        while item is not None:
            say(kind.text(item.value))
            item = queue.pop()

    together(threads, work)


def storm(kind: Kind, database: Any, subspace: Subspace, **arguments: Any) -> None:
    """Pop while signals come, and say what came of it."""
    say(rage(kind, database, subspace, **arguments))


def acknowledge_and_wait(
    kind: Kind, database: Any, subspace: Subspace, lease: str, once: str
) -> None:
    """Acknowledge an item, and wait for the next one, which never comes."""
    queue = kind.open(database, subspace)
    say("ready")
    queue.lease_many(1, ack=[lease], once=once, wait=600)


class _Toiler:
    """One thread that says what it is about to do, and then what came of it."""

    def __init__(self, kind: Kind, queue: Queue, name: str) -> None:
        self._kind = kind
        self._queue = queue
        self._name = name
        self._dice = random.Random()
        self._numbers = itertools.count()

    def work(self) -> None:
        doings = [
            self._push,
            self._push,
            self._push_many,
            self._push_unique,
            self._pop,
            self._pop_many,
        ]
        doings += [self._lease, self._lease]
        self._go_on(doings)

    def _go_on(self, doings: list[Callable[[], None]]) -> None:
        while True:
            self._dice.choice(doings)()

    def _say(self, doing: str, facts: Any, *, done: bool) -> None:
        say({"who": self._name, "doing": doing, "facts": facts, "done": done})

    def _texts(self, count: int) -> list[str]:
        return [f"{self._name}.{next(self._numbers)}" for _ in range(count)]

    def _push(self) -> None:
        texts = self._texts(1)
        self._say("push", texts, done=False)
        self._queue.push(self._kind.value(texts[0]), self._dice.choice(self._kind.priorities))
        self._say("push", texts, done=True)

    def _push_unique(self) -> None:
        texts = self._texts(1)
        self._say("push", texts, done=False)
        item = self._queue.push(
            self._kind.value(texts[0]), self._dice.choice(self._kind.priorities), **self._key()
        )
        self._say("push", [] if item.existing else texts, done=True)

    def _key(self) -> dict[str, Any]:
        kept = self._dice.choice(["ready", "pending"])
        return {"unique": self._dice.choice(UNIQUE), "unique_while": kept}

    def _push_many(self) -> None:
        texts = self._texts(3)
        priorities = [self._dice.choice(self._kind.priorities) for _ in texts]
        values = [self._kind.value(text) for text in texts]
        self._say("push", texts, done=False)
        self._queue.push_many(self._kind.pairs(values, priorities))
        self._say("push", texts, done=True)

    def _pop(self) -> None:
        self._say("pop", 1, done=False)
        item = self._dice.choice([self._queue.pop_min, self._queue.pop_max])()
        self._say("pop", self._known([] if item is None else [item]), done=True)

    def _pop_many(self) -> None:
        self._say("pop", 3, done=False)
        self._say("pop", self._known(self._queue.pop_many(3)), done=True)

    def _lease(self) -> None:
        item = self._queue.lease(seconds=AWAY_SECONDS)
        if item is None:
            return
        if self._dice.random() < 0.3:
            self._end(self._queue.nack, item)
            return
        while item is not None and self._dice.random() < 0.5:
            item = self._lease_next(item)
        if item is not None:
            texts = self._known([item])
            self._say("ack", texts, done=False)
            self._say("ack", texts if self._end(self._queue.ack, item) else [], done=True)

    def _lease_next(self, item: Item) -> Item | None:
        """Acknowledge an item in the transaction that leases the next one."""
        texts = self._known([item])
        self._say("ack", texts, done=False)
        try:
            items = self._queue.lease_many(1, seconds=AWAY_SECONDS, ack=[item])
        except LeaseLost:
            self._say("ack", [], done=True)
            return None
        self._say("ack", texts, done=True)
        return items[0] if items else None

    def _end(self, ending: Callable[[Item], None], item: Item) -> bool:
        try:
            ending(item)
        except LeaseLost:  # the machine was busy
            return False
        return True

    def _known(self, items: list[Item]) -> list[str]:
        return [self._kind.text(item.value) for item in items]
