r"""The special keys that tell what a transaction has written so far.

Under ``\xff\xff/transaction/write_conflict_range/`` a cluster's client shows the write
conflict ranges of the transaction that reads there, merged: the key of each begin holds
``b"1"``, that of each end ``b"0"`` ("Special Keys" in FoundationDB's documentation). Only
this range is there, and only as a range between keys.
"""

from __future__ import annotations

from fdbqueue.engines.embedded.commit_draft import CommitDraft
from fdbqueue.engines.embedded.limits import SYSTEM_KEYS_END
from fdbqueue.engines.embedded.ranges import Range, RangeSet, after
from fdbqueue.engines.embedded.selectors import KeySelector, first_after_prefix
from fdbqueue.engines.embedded.view import RangeRead
from fdbqueue.engines.embedded.writes import STAMP_BYTES, stamped

WRITE_CONFLICT_RANGES = b"\xff\xff/transaction/write_conflict_range/"

_LAST = first_after_prefix(WRITE_CONFLICT_RANGES)


def covers(begin: KeySelector, end: KeySelector) -> bool:
    """Tell whether a read is one of these keys alone."""
    return (
        min(begin.key, end.key) >= WRITE_CONFLICT_RANGES
        and max(begin.key, end.key) <= _LAST
        and begin.offset == end.offset == 1
    )


def read(draft: CommitDraft, begin: bytes, end: bytes, limit: int, *, reverse: bool) -> RangeRead:
    """Read the rows of ``[begin, end)``, without a snapshot and without a read conflict.

    Args:
        limit: The most rows; 0 for no limit.
    """
    rows = []
    for written_begin, written_end in _written(draft):
        rows.append((WRITE_CONFLICT_RANGES + written_begin, b"1"))
        if written_end < SYSTEM_KEYS_END:
            rows.append((WRITE_CONFLICT_RANGES + written_end, b"0"))
    rows = [row for row in rows if begin <= row[0] < end]
    if reverse:
        rows.reverse()
    more = 0 < limit <= len(rows)
    return RangeRead(rows[:limit] if more else rows, more, None)


def _written(draft: CommitDraft) -> RangeSet:
    return RangeSet.of(
        [*draft.write_conflicts, *(_stamped(key, draft) for key in draft.versionstamped_keys)]
    )


def _stamped(key: bytes, draft: CommitDraft) -> Range:
    """Return the keys that a versionstamped key may become."""
    least = (draft.read_version or 0).to_bytes(8, "big").ljust(STAMP_BYTES, b"\x00")
    end = after(stamped(key, b"\xff" * STAMP_BYTES))
    return stamped(key, least), min(end, draft.options.keys_end)
