"""The upkeep of groups and chains: lost parts have failed, and what ended long ago is removed.

An index beside the trees (:mod:`fdbqueue.tasks.trees`) says when each is to be looked at: an hour
after it was enqueued, and then each hour until it has ended; at last when the retention since its
end is over. It goes with one range.

A part is *lost* if its task was enqueued, no end of it was noted, and its item is not in its queue:
it was removed, purged or cleared, or another program has popped it. Such a part has failed; its
record goes, since it has no task to tell of. So what follows with ``always`` comes, and the rest
has failed as after any failure. Each look at a tree

1. reads its parts in portions, and what seems lost, without depending on it;
2. reads that again in the transaction that notes the ends of what is lost, and depends on it: an
   end that a worker commits meanwhile makes it conflict, and then nothing is lost;
3. enqueues what still waits to be enqueued: the task that would do it may be lost, too. If it is
   not, both take turns.

What is left behind by

- *a crash, or a look that is stopped*: parts that the next look finds. A tree is moved in the index
  when its look is over, so one that was not reached comes first the next time;
- *two looks at once*: the same, as each part is failed in one commit that has read its end;
- *a queue that the setting lacks for now*: nothing in it is lost;
- *an item that was moved to another queue*: its part has failed. If it runs there and succeeds,
  that is noted as for a dead letter that was redriven.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from fdb.subspace_impl import Subspace

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import QueueNotFound
from fdbqueue.service import Catalog
from fdbqueue.tasks.records import TreePlace, is_pending, item_place
from fdbqueue.tasks.tree_keys import TreeKeys, range_of
from fdbqueue.tasks.trees import Tree

#: How long rows are kept that no tree has begun with.
UNBEGUN_SECONDS = 86_400
#: How long there is between two looks at a tree that has not ended.
LOOK_SECONDS = 3_600
#: How many trees one transaction looks at, and how many parts.
_LOOKS, _PARTS = 20, 100
#: Why a lost part has failed.
LOST = "The item of the task was removed from its queue, and its end was not noted."


class DueLook(NamedTuple):
    """A tree, and when it is to be looked at, in microseconds."""

    moment: int
    tree: str


def due_key(prefix: tuple[Any, ...], backend: str, due: DueLook) -> bytes:
    """Return the key that says when to look at a tree."""
    key: bytes = _index(prefix, backend).pack(due)
    return key


def _index(prefix: tuple[Any, ...], backend: str) -> Subspace:
    return Subspace((*prefix, "tasks", "trees", backend))


def has_lost_item(tr: Transaction, catalog: Catalog, record: dict[str, Any]) -> bool:
    """Tell whether a record is pending, and its item is not in its queue."""
    if not is_pending(record):
        return False
    name, item_id = item_place(record)
    try:
        return not catalog.queue(name).has_item(item_id, tr=tr)
    except QueueNotFound:  # the setting lacks it for now, and what is in it is kept
        return False


# What has not ended


def begun(tr: Transaction, backend: Any, after: DueLook | None) -> tuple[list[str], DueLook | None]:
    """Return some trees that have begun and not ended, and after which of all to go on.

    Reads without depending on them.
    """
    index = _index(backend.records.prefix, backend.alias)
    begin, end = range_of(index)
    if after is not None:
        begin = index.pack(after) + b"\x00"
    rows = list(tr.snapshot.get_range(begin, end, limit=_LOOKS))
    found = [DueLook(*index.unpack(row.key)) for row in rows]
    trees = [due.tree for due in found if is_under_way(tr.snapshot, backend, due.tree)]
    return trees, found[-1] if len(rows) == _LOOKS else None


def is_under_way(tr: Any, backend: Any, tree: str) -> bool:
    """Tell whether a tree has begun and not ended."""
    keys = TreeKeys(backend.records.prefix, tree)
    return bool(tr[keys.branch(0)].present()) and not tr[keys.outcome(0)].present()


def seem_lost(
    tr: Transaction, backend: Any, catalog: Catalog, tree: str, after: bytes | None
) -> tuple[list[TreePlace], bytes | None]:
    """Return which of some parts of a tree seem lost, and from which key on to go on."""
    known = Tree(tr, backend, tree)
    parts = known.keys.all["part"]
    begin, end = range_of(parts)
    rows = list(tr.get_range(after or begin, end, limit=_PARTS))
    enqueued = [row.key for row in rows if json.loads(row.value).get("enqueued")]
    places = [known.place(*parts.unpack(key)) for key in enqueued]
    lost = [place for place in places if _lost_task(tr, backend, catalog, known, place)]
    return lost, bytes(rows[-1].key) + b"\x00" if len(rows) == _PARTS else None


def fail_lost(tr: Transaction, backend: Any, catalog: Catalog, places: Sequence[TreePlace]) -> int:
    """Have those parts of a tree fail that are lost, with all that follows; return how many."""
    tree = Tree(tr, backend, places[0].tree)
    count = 0
    for place in places:
        task = _lost_task(tr, backend, catalog, tree, place)
        if task is not None:
            backend.records.remove(tr, task)
            tree.fail(place, LOST)
            count += 1
    tree.note(())
    return count


def _lost_task(
    tr: Transaction, backend: Any, catalog: Catalog, tree: Tree, place: TreePlace
) -> str | None:
    """Return the id of the task of a part that is lost, None if it is not."""
    part = tree.part(place.branch, place.at)
    if part is None or not part.get("enqueued") or tree.has_ended(place):
        return None
    record = backend.records.read(tr, part["id"])
    is_lost = record is None or has_lost_item(tr, catalog, record)
    return part["id"] if is_lost else None


# What is due


class Looked(NamedTuple):
    """What a transaction found that were due.

    Attributes:
        looks: How many trees it looked at.
        begun: Those that have begun and not ended, which stay due.
    """

    looks: int
    begun: list[DueLook]


def clear_old(tr: Transaction, backend: Any, now: int, kept_seconds: float | None) -> Looked:
    """Remove trees that ended long ago, or were never begun.

    Args:
        tr: The transaction.
        backend: The backend.
        now: The moment, in microseconds.
        kept_seconds: How long trees are kept that have ended; None for ever.
    """
    prefix = backend.records.prefix
    index = _index(prefix, backend.alias)
    begin, end = index.range().start, index.pack((now,))
    found = [DueLook(*index.unpack(row.key)) for row in tr.get_range(begin, end, limit=_LOOKS)]
    begun = []
    for due in found:
        if is_under_way(tr, backend, due.tree):
            begun.append(due)
            continue
        keys = TreeKeys(prefix, due.tree)
        tr.clear(index.pack(due))
        again = _kept_until(tr, keys, now, kept_seconds)
        if again is None:
            tr.clear_range(*range_of(keys.all))
        else:
            tr[index.pack((again, due.tree))] = b""
    return Looked(len(found), begun)


def look_again(tr: Transaction, backend: Any, due: DueLook, now: int) -> None:
    """Have a tree looked at an hour later."""
    prefix, alias = backend.records.prefix, backend.alias
    tr.clear(due_key(prefix, alias, due))
    again = DueLook(now + LOOK_SECONDS * 1_000_000, due.tree)
    tr[due_key(prefix, alias, again)] = b""


def _kept_until(
    tr: Transaction, keys: TreeKeys, now: int, kept_seconds: float | None
) -> int | None:
    """Return when to look again at a tree that is not under way; None if it is to be removed."""
    row = tr[keys.outcome(0)]
    if not row.present():  # it was never begun
        return None
    if kept_seconds is None:
        return now + UNBEGUN_SECONDS * 1_000_000
    until: int = json.loads(bytes(row))["ended"] + int(kept_seconds * 1_000_000)
    return until if until > now else None
