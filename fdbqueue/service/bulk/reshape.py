"""Move the ready items of a queue to the keys that another number of shards gives them.

1. If the stored format has another number of shards, one transaction writes a format that no
   process has: from then on whatever reads or writes items raises ``FormatMismatch``, under the old
   setting and under the new. What was about to write a ready item conflicts with it, because it
   depends on the row of the format (:mod:`fdbqueue.service.storage.format`): so nothing is written
   under the old setting once the rows are read.
2. Then the rows of ready items are gone through in the order of their keys, some in each
   transaction. A row has its place in its key under any setting, and is written again under the key
   that this one gives it, if that is another. The transaction depends on the rows that it moves
   alone, so a take that is under way takes such a row before, or runs again. Ids, counts, leases
   and unique keys know the place alone, and stay.
3. The last transaction writes the format of the new setting.

Each transaction depends on the row of the format that the first has left: of two moves to different
numbers of shards, the one that began first ends with ``FormatMismatch``.

If it ends in the middle, the queue stays closed, no item is lost or there twice, and it is called
again: rows that have moved already are where they belong. If the number of shards is stored
already, the queue stays open, and step 2 rescues *strays*: rows that lie where this setting does
not look, or not for them, because an earlier version or another program has written them.
"""

from __future__ import annotations

import functools

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.service.sizes import MAX_RETURNED_BYTES, STEP_BYTES
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.transactions import run

_ROWS_AT_ONCE = 500
#: So many rows at both ends of each shard are looked at for strays.
_LOOKED_AT = 10


def count_strays(tr: Transaction, store: ItemStore, most: int) -> int:
    """Count the rows that lie where this setting does not look, up to so many in each such range.

    And of the first and last ten of each shard those that belong to another: a pop would return
    them, and clear another key.
    """
    keys, snapshot = store.keys, tr.snapshot
    reads = [snapshot.get_range(*part, limit=most) for part in keys.elsewhere()]
    for shard in range(keys.shards):
        for reverse in (False, True):
            part = keys.shard_range(shard)
            reads.append(snapshot.get_range(*part, limit=_LOOKED_AT, reverse=reverse))
    found = {bytes(row.key) for rows in reads for row in rows}
    return sum(keys.key(keys.place_in_any(key)) != key for key in found)


def reshape(database: Database, store: ItemStore) -> int:
    """Make the queue one of this setting; return how many ready items have moved.

    Args:
        database: Anything with ``create_transaction()``.
        store: Its items, as the new setting has them.
    """
    moved = 0
    closed = run(database, store.format.begin_move)
    begin: bytes | None = store.keys.bounds[0]
    while begin is not None:
        move = functools.partial(_move, store=store, begin=begin, closed=closed)
        begin, count = run(database, move, wrote=lambda result: result[1] > 0)
        moved += count

    def end(tr: Transaction) -> None:
        store.format.check_move(tr, closed)
        store.format.replace(tr)

    run(database, end, wrote=True)
    return moved


def _move(
    tr: Transaction, store: ItemStore, begin: bytes, closed: bytes | None
) -> tuple[bytes | None, int]:
    """Move the next rows; return where to continue, None at the end, and how many it moved."""
    keys = store.keys
    store.format.check_move(tr, closed)
    seen = read = moved = sent = 0
    key = begin
    for row in tr.snapshot.get_range(begin, keys.bounds[1], limit=_ROWS_AT_ONCE):
        key, seen = bytes(row.key), seen + 1
        read += len(row.value)
        where = keys.key(keys.place_in_any(key))
        if where != key:
            tr.add_read_conflict_key(key)
            tr[where] = row.value
            tr.clear(key)
            moved += 1
            sent += len(row.value) + 2 * len(key)
        if sent > STEP_BYTES or read > MAX_RETURNED_BYTES:
            return key + b"\x00", moved
    return (key + b"\x00" if seen == _ROWS_AT_ONCE else None), moved
