r"""The keys of work that outlives the process that began it: drains and pushes.

Two more tables of a queue, beside those of :mod:`fdbqueue.service.keyspace.meta`:

    20  BATCH     owner                         which claim a drain holds, and until when
    21  PROGRESS  name                          how far a push has come
"""

from __future__ import annotations

from fdbqueue.service.keyspace.items import Bounds
from fdbqueue.service.keyspace.meta import MetaKeys

_BATCH, _PROGRESS, _END = b"\x20", b"\x21", b"\x22"


class JobKeys:
    """The keys of one queue's drains and pushes.

    Args:
        meta: The keys of its other tables.
    """

    def __init__(self, meta: MetaKeys) -> None:
        begin, _ = meta.bounds
        self._batches = begin + _BATCH
        self._progress = begin + _PROGRESS
        self._end = begin + _END

    def batch(self, owner: bytes) -> bytes:
        """Return the key that says what a drain holds."""
        return self._batches + owner

    def batches(self) -> Bounds:
        """Return the range of what all drains hold."""
        return self._batches, self._progress

    def progress(self, name: bytes) -> bytes:
        """Return the key that says how far a push has come."""
        return self._progress + name

    def progresses(self) -> Bounds:
        """Return the range of how far all pushes have come."""
        return self._progress, self._end
