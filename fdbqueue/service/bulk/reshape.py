"""Move the ready items of a queue to the keys that another number of shards gives them.

1. One transaction writes a format that no process has: from then on whatever reads or writes items
   raises ``FormatMismatch``, under the old setting and under the new. A process that has pushed
   before does not read the format again when it pushes: so the processes are stopped first.
2. Then the rows of ready items are gone through in the order of their keys, some in each
   transaction. A row has its place in its key under either setting, and is written again under the
   key that the new one gives it, if that is another. Ids, counts, leases and unique keys know the
   place alone, and stay.
3. The last transaction writes the format of the new setting.

If it ends in the middle, the queue stays closed, no item is lost or there twice, and it is called
again: rows that have moved already are where they belong.
"""

from __future__ import annotations

import functools

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.service.limits import BATCH_BYTES
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.transactions import run

_ROWS_AT_ONCE = 500


def reshape(database: Database, store: ItemStore) -> int:
    """Make the queue one of this setting; return how many ready items have moved.

    Args:
        database: Anything with ``create_transaction()``.
        store: Its items, as the new setting has them.
    """
    moved = 0
    if run(database, store.format.begin_move, wrote=bool):
        begin: bytes | None = store.keys.bounds[0]
        while begin is not None:
            begin, count = run(database, functools.partial(_move, store=store, begin=begin))
            moved += count
    run(database, store.format.replace, wrote=lambda _: True)
    return moved


def _move(tr: Transaction, store: ItemStore, begin: bytes) -> tuple[bytes | None, int]:
    """Move the next rows; return where to continue, None at the end, and how many it moved."""
    keys = store.keys
    size = seen = moved = 0
    key = begin
    for row in tr.get_range(begin, keys.bounds[1], limit=_ROWS_AT_ONCE):
        key, seen = bytes(row.key), seen + 1
        where = keys.key(keys.place_in_any(key))
        if where != key:
            tr[where] = row.value
            tr.clear(key)
            moved += 1
            size += len(row.value) + 2 * len(key)
        if size > BATCH_BYTES:
            return key + b"\x00", moved
    return (key + b"\x00" if seen == _ROWS_AT_ONCE else None), moved
