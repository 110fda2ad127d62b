"""What a queue holds, counted one by one, against what it says that it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from fdbqueue.service import Item, Queue, run

STATES = ("ready", "leased", "delayed", "dead")


def rows(queue: Queue, state: str = "ready") -> Iterator[Item]:
    """Yield every item in a state, a page at a time."""
    after = None
    while True:
        page = queue.page(state=state, after=after, limit=500)
        yield from page.items
        after = page.cursor
        if after is None:
            return


def census(queue: Queue) -> dict[str, list[Item]]:
    """Return all items of a queue, by their state."""
    return {state: list(rows(queue, state)) for state in STATES}


def with_failures(queue: Queue) -> set[str]:
    """Return the ids of the items that have failures stored."""
    store = queue.parts.store
    begin = store.tables.failure(b"", 0)[:-1]
    rows = run(queue.database, lambda tr: list(tr.get_range(begin, begin + b"\xff")))
    return {store.keys.id_of(bytes(row.key)[len(begin) : -1]) for row in rows}


def assert_counted(queue: Queue) -> dict[str, list[Item]]:
    """Check that a queue at rest counts what it holds, and return what that is.

    At rest: nobody works on it, and no claim is waiting for its owner.
    """
    held = census(queue)
    counts: Any = queue.counts()
    assert {state: getattr(counts, state) for state in STATES} == {
        state: len(items) for state, items in held.items()
    }
    assert queue.size() == len(held["ready"])
    groups = Counter(str(item.reason).strip().partition("\n")[0][:200] for item in held["dead"])
    assert {one.reason: one.count for one in queue.dead_by_reason()} == groups
    tried = {item.id for items in held.values() for item in items if item.attempts}
    assert with_failures(queue) <= tried
    if queue.kind == "priority":
        levels = Counter(item.priority for item in held["ready"])
        assert queue.by_priority() == sorted(levels.items())
        if queue.codec.keeps_metadata:
            oldest = min((item.pushed_at for item in held["ready"]), default=None)
            assert queue.oldest() == oldest
    return held
