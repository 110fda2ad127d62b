"""The failures of items, and the reasons of dead letters.

A failure is written without a read, over the one of three attempts before. All go when the item
leaves the queue for good or is redriven. Dead letters are grouped by the first line of the reason;
another rule needs a recount.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service.clock import moment
from fdbqueue.service.items import Failure
from fdbqueue.service.storage.tables import (
    FAILURES_KEPT,
    Hidden,
    TableKeys,
    packed_worker,
    unpacked_worker,
)

#: The attempt, when it failed, and the length of what follows of the lease: when it began, and the
#: worker's name, as a row of the lease has them. After that comes the reason; texts are in UTF-8.
_FAILURE = struct.Struct(">IQH")
#: About the most bytes that the failures of one item take, reasons of ASCII characters assumed.
FAILURES_BYTES = FAILURES_KEPT * 1_250
#: The longest name of a group of dead letters.
_MAX_GROUP_CHARACTERS = 200
_DIGEST_BYTES = 16


class Failures:
    """Write, read and remove the failures of one queue's items.

    Args:
        tables: The keys of its tables.
    """

    def __init__(self, tables: TableKeys) -> None:
        self._tables = tables

    def note(self, tr: Transaction, lease: Hidden, attempt: int, reason: bytes, at: int) -> None:
        """Write the failure of an attempt, in place of the one of three attempts before."""
        worker = packed_worker(lease)
        facts = _FAILURE.pack(attempt, at, len(worker))
        tr[self._tables.failure(lease.row.place, attempt)] = facts + worker + reason

    def remove(self, tr: Transaction, place: bytes) -> None:
        """Remove the failures of an item."""
        tr.clear_range(*self._tables.failures(place))

    def restore(self, tr: Transaction, rows: Iterable[Any]) -> None:
        """Write failures again that were read before they were removed."""
        for row in rows:
            tr[bytes(row.key)] = bytes(row.value)

    def begin_read(self, tr: Transaction, place: bytes) -> Any:
        """Begin to read the failures of an item, for :meth:`parse`; nothing depends on them."""
        return tr.snapshot.get_range(*self._tables.failures(place))

    def parse(self, rows: Iterable[Any]) -> tuple[Failure, ...]:
        """Return the failures that were read, the latest last."""
        found = [_failure(bytes(row.value)) for row in rows]
        return tuple(sorted(found, key=lambda failure: failure.attempt))


def _failure(data: bytes) -> Failure:
    attempt, at, size = _FAILURE.unpack_from(data)
    middle = _FAILURE.size + size
    name, began = unpacked_worker(data[_FAILURE.size : middle])
    worker, reason = name.decode(errors="replace"), data[middle:].decode(errors="replace")
    return Failure(moment(at), worker or None, reason, attempt, moment(began))


def group_of_stored(reason: bytes) -> bytes:
    """Return the name of the group of a stored reason, in UTF-8 as the reason."""
    return _group_name(reason.decode(errors="replace")).encode()


def group_of_text(reason: str) -> bytes:
    """Return the name of the group that a reason is in, or that it names."""
    return _group_name(reason).encode(errors="replace")


def group_digest(reason: str) -> str:
    """Return 32 hexadecimal digits that stand for the group of a reason, whatever text it has.

    For programs that cannot carry each text: browsers change the line breaks of a form's fields.
    """
    return hashlib.blake2b(group_of_text(reason), digest_size=_DIGEST_BYTES).hexdigest()


def _group_name(reason: str) -> str:
    return reason.strip().partition("\n")[0].rstrip()[:_MAX_GROUP_CHARACTERS].rstrip()
