"""The upkeep of groups and chains: what ended long ago is removed, what waits is enqueued.

An index beside the trees (:mod:`fdbqueue.tasks.trees`) says when each is to be looked at: an hour
after it was enqueued, and then each hour until it has ended; at last when the retention since its
end is over. It goes with one range.

A look at a tree that has not ended enqueues what still waits for that: the task that does it may
have failed for good. If it has not, both take turns. A crash, or a look that is stopped, leaves
what the next look does. A tree is moved in the index when its look is over, so one that was not
reached comes first the next time.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from fdb.subspace_impl import Subspace

from fdbqueue.engines.protocols import Transaction
from fdbqueue.tasks.tree_keys import TreeKeys, range_of

#: How long rows are kept that no tree has begun with.
UNBEGUN_SECONDS = 86_400
#: How long there is between two looks at a tree that has not ended.
LOOK_SECONDS = 3_600
#: How many trees one transaction looks at.
_LOOKS = 20


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


def is_under_way(tr: Any, backend: Any, tree: str) -> bool:
    """Tell whether a tree has begun and not ended."""
    keys = TreeKeys(backend.records.prefix, tree)
    return bool(tr[keys.branch(0)].present()) and not tr[keys.outcome(0)].present()


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
