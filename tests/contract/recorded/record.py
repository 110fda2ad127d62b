"""Make a file of queues as one version of fdbqueue writes it, and note what it holds.

``queues-before-the-house.sqlite3.gz`` and ``.json`` were made with the code of commit 47daff0::

    git worktree add --detach /tmp/before 47daff0
    cp -r tests/contract/recorded /tmp/before/tests/contract/
    cd /tmp/before && python -m tests.contract.recorded.record

This uses nothing but verbs that stay, so that it runs with any version. The test that reads the
files imports what both need from here.
"""

from __future__ import annotations

import datetime
import gzip
import hashlib
import json
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from fdb.subspace_impl import Subspace

import fdbqueue.service.clock
from fdbqueue.engines import embedded
from fdbqueue.service import FifoQueue, PriorityQueue

NAME = "queues-before-the-house"
HERE = Path(__file__).resolve().parent
#: When the file was made, and how much later it is read: what is due by then has expired.
MADE_AT = datetime.datetime(2026, 11, 22, 6, 0, 30, tzinfo=datetime.timezone.utc)
LATER_SECONDS = 3_600
STATES = ("ready", "leased", "delayed", "dead")

#: The queues: what they are, and how their values look.
QUEUES: dict[str, tuple[Any, dict[str, Any]]] = {
    "fifo": (FifoQueue, {}),
    "int": (PriorityQueue, {}),
    "float": (PriorityQueue, {"priority_type": "float"}),
    "commit": (FifoQueue, {"order": "commit"}),
    "bytes": (FifoQueue, {"codec": "bytes"}),
    "tuple": (PriorityQueue, {"codec": "tuple", "order": "commit"}),
}
_LONG = "ab" * 125_000


class Clock:
    """Takes the place of the module ``time`` in the service's clock; it stands still."""

    def __init__(self) -> None:
        self.now = MADE_AT

    def time_ns(self) -> int:
        """Return the time, as ``time.time_ns`` does."""
        return int(self.now.timestamp()) * 1_000_000_000

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += datetime.timedelta(seconds=seconds)


def opened(path: Path) -> dict[str, Any]:
    """Return the queues of a file, by name."""
    database = embedded.open(path, durability="normal")
    return {
        name: kind(
            database,
            Subspace(("recorded", name)),
            name=name,
            max_attempts=2,
            max_value_bytes=1_000_000,
            **options,
        )
        for name, (kind, options) in QUEUES.items()
    }


def value_of(name: str, number: int) -> Any:
    """Return the value of an item of a queue; some are longer than one key holds."""
    text = _LONG if number in {3, 6, 8} else "value"
    if name == "bytes":
        return f"{number} {text}".encode()
    return (number, text, None) if name == "tuple" else {"number": number, "text": text}


def pushed(name: str, number: int) -> tuple[Any, ...]:
    """Return what to push: a value, and a priority where there are any."""
    if QUEUES[name][0] is FifoQueue:
        return (value_of(name, number),)
    priority = (number * 7) % 5 - 2
    return value_of(name, number), priority + 0.5 if name == "float" else priority


def facts_of(item: Any) -> list[Any]:
    """Return all that an item says, in JSON's types."""
    value = repr(item.value)
    if len(value) > 100:
        value = hashlib.sha256(value.encode()).hexdigest()
    times = [None if at is None else at.isoformat() for at in (item.pushed_at, item.until)]
    texts = [item.id, value, item.state, item.reason, item.lease]
    return [*texts, item.priority, item.attempts, item.size_bytes, *times]


def facts(queue: Any) -> dict[str, Any]:
    """Return all that a queue says of itself, in JSON's types."""
    counts, oldest = queue.counts(), queue.oldest()
    return {
        **{state: [facts_of(item) for item in queue.iterate(state=state)] for state in STATES},
        "counts": [getattr(counts, state) for state in STATES],
        "size": queue.size(),
        "by_priority": [list(pair) for pair in queue.by_priority()],
        "oldest": None if oldest is None else oldest.isoformat(),
        "history": [
            [minute.at.isoformat(), minute.pushes, minute.pops]
            for minute in queue.history(120)
            if minute.pushes or minute.pops
        ],
    }


def popped(queue: Any) -> list[list[Any]]:
    """Pop all there is, and return it."""
    found = []
    while items := queue.pop_many(3):
        found += [facts_of(item) for item in items]
    return found


def fill(queue: Any, clock: Clock) -> dict[str, Any]:
    """Bring items into every state, and return the responses that were given."""

    def push(number: int, **options: Any) -> Any:
        return queue.push(*pushed(queue.name, number), **options)

    push(0)
    queue.nack(queue.lease(), reason="it failed")
    queue.nack(queue.lease(), reason="it failed again")  # the last attempt: it is dead
    push(1)
    queue.nack(queue.lease())
    queue.bury(push(2).id, reason="buried by hand")
    clock.advance(60)
    keyed = push(3, once="a push")
    for number in (4, 5, 6):
        push(number)
    push(7, delay=90)
    push(8, not_before=MADE_AT + datetime.timedelta(days=30))
    for number in range(10, 15):
        push(number)
    clock.advance(60)
    held = queue.lease_many(1, seconds=86_400, once="a lease")
    queue.lease(seconds=60)
    taken = queue.pop_many(2, once="a pop")
    done = queue.lease()
    queue.ack(done, once="an ack")
    last = queue.lease_max(seconds=86_400)
    queue.nack(queue.lease_max())
    return {
        "push": facts_of(keyed),
        "lease": [facts_of(item) for item in held],
        "pop": [facts_of(item) for item in taken],
        "done": done.lease,
        "last": last.lease,
    }


def record(folder: Path) -> None:
    """Write both files."""
    clock = Clock()
    fdbqueue.service.clock.time = clock
    path = folder / "recorded.sqlite3"
    queues = opened(path)
    said: dict[str, Any] = {}
    for name, queue in queues.items():
        clock.now = MADE_AT
        said[name] = {"responses": fill(queue, clock)}
    for name, queue in queues.items():
        said[name]["facts"] = facts(queue)
    for queue in queues.values():
        queue.database.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    content = path.read_bytes()
    (HERE / f"{NAME}.sqlite3.gz").write_bytes(gzip.compress(content, 9, mtime=0))
    copy = folder / "copy.sqlite3"
    shutil.copyfile(path, copy)
    clock.advance(LATER_SECONDS)
    for name, queue in opened(copy).items():
        said[name]["popped"] = popped(queue)
        said[name]["left"] = facts(queue)
    (HERE / f"{NAME}.json").write_text(json.dumps(said) + "\n", encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        record(Path(scratch))
