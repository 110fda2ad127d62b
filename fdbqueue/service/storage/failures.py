"""The last three failures of each item: when, which worker, and why.

A failure is written without a read, over the one of three attempts before, where a lease is given
up or expires. All are removed where the item leaves the queue for good or is redriven, and only
for items that have attempts: one that was never tried costs nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service.clock import now_us
from fdbqueue.service.items import Failure, moment
from fdbqueue.service.storage.tables import FAILURES_KEPT, TableKeys

#: About the most bytes that the failures of one item take, reasons of ASCII characters assumed.
FAILURES_BYTES = FAILURES_KEPT * 1_250

#: The attempt, when it failed, and the length of the worker's name; the name and the reason
#: follow, both in UTF-8.
_FACTS = struct.Struct(">IQH")


class Failures:
    """Write, read and remove the failures of one queue's items.

    Args:
        tables: The keys of its tables.
    """

    def __init__(self, tables: TableKeys) -> None:
        self._tables = tables

    def note(
        self, tr: Transaction, place: bytes, attempt: int, worker: bytes, reason: bytes
    ) -> None:
        """Write the failure of an attempt, in place of the one of three attempts before."""
        facts = _FACTS.pack(attempt, now_us(), len(worker))
        tr[self._tables.failure(place, attempt)] = facts + worker + reason

    def remove(self, tr: Transaction, place: bytes) -> None:
        """Remove the failures of an item."""
        tr.clear_range(*self._tables.failures(place))

    def begin_read(self, tr: Transaction, place: bytes) -> Any:
        """Begin to read the failures of an item, for :meth:`parse`; nothing depends on them."""
        return tr.snapshot.get_range(*self._tables.failures(place))

    def parse(self, rows: Iterable[Any]) -> tuple[Failure, ...]:
        """Return the failures that were read, the latest last."""
        found = [_unpacked(bytes(row.value)) for row in rows]
        return tuple(sorted(found, key=lambda failure: failure.attempt))


def _unpacked(data: bytes) -> Failure:
    attempt, at, size = _FACTS.unpack_from(data)
    middle = _FACTS.size + size
    worker = data[_FACTS.size : middle].decode(errors="replace")
    return Failure(moment(at), worker or None, data[middle:].decode(errors="replace"), attempt)
