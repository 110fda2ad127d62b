"""What a queue holds, counted one by one, against what it says that it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from fdbqueue.service import Item, Queue, microseconds, run
from fdbqueue.service.storage.item_keys import UNTIL_DONE

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
    assert_dated(queue, held["dead"])
    tried = {item.id for items in held.values() for item in items if item.attempts}
    assert with_failures(queue) <= tried
    if queue.kind == "priority":
        levels = Counter(item.priority for item in held["ready"])
        assert queue.by_priority() == sorted(levels.items())
        if queue.codec.keeps_metadata:
            oldest = min((item.pushed_at for item in held["ready"]), default=None)
            assert queue.oldest() == oldest
    assert_keyed(queue, held)
    return held


def assert_dated(queue: Queue, dead: list[Item]) -> None:
    """Check that the index of deaths has each dead letter once."""
    tables, keys = queue.parts.store.tables, queue.parts.store.keys
    found = run(queue.database, lambda tr: list(tr.get_range(*tables.deaths)))
    deaths = {
        tables.death(microseconds(item.died_at), keys.place_named(item.id))
        for item in dead
        if item.died_at is not None
    }
    assert {bytes(row.key) for row in found} == deaths


def unique_keys(queue: Queue) -> dict[bytes, bytes]:
    """Return the place of the item that has each unique key."""
    bounds = queue.parts.store.tables.uniques
    found = run(queue.database, lambda tr: list(tr.get_range(*bounds)), read_only=True)
    return {bytes(row.key): bytes(row.value) for row in found}


def assert_keyed(queue: Queue, held: dict[str, list[Item]]) -> None:
    """Check that each unique key is the key of one item that is there, and that none is lost."""
    keys, tables = queue.parts.store.keys, queue.parts.store.tables
    taken = unique_keys(queue)
    pending: dict[bytes, bytes] = {}
    waiting = set()
    for state in ("ready", "leased", "delayed"):
        for item in held[state]:
            place = keys.place_named(item.id)
            mark = b"" if item.id.startswith("~") else keys.position(place).tag
            if mark[:1] == UNTIL_DONE:
                assert tables.unique(mark) not in pending, "two items of one key are pending"
                pending[tables.unique(mark)] = place
            elif mark and state != "leased":
                waiting.add((tables.unique(mark), place))
    assert pending.items() <= taken.items(), "an item has lost its key"
    stays = taken.items() - pending.items() - waiting
    assert not stays, "a key stays taken"


def values(items: Iterable[Any]) -> list[Any]:
    """Return the values of items."""
    return [item.value for item in items]
