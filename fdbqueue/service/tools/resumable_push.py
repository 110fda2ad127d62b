"""Push from a source, and resume after an interruption.

The progress of a push is recorded under a name in the transactions that write its items. So
exactly the items of the record are in the queue. The record says how much of the source was
read and holds a digest of that, so that another source is not mistaken for it. It stays after
the last item: when the push is started again, it finds nothing to do.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import fdb.tuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import PushTaken
from fdbqueue.service import tuples
from fdbqueue.service.clock import now_us
from fdbqueue.service.entries import Entry
from fdbqueue.service.items import Item
from fdbqueue.service.queues import Queue
from fdbqueue.service.transactions import run

_NAME_BYTES = 16
_RUN_BYTES = 8
_SHOWN_CHARACTERS = 500
_SWEPT_AT_ONCE = 500


class SourceMark(NamedTuple):
    """How far a source was read.

    Attributes:
        size_bytes: How many bytes were read.
        lines: How many lines were read.
        digest: The digest of these bytes.
        pushed: How many items were pushed from them.
    """

    size_bytes: int
    lines: int
    digest: bytes
    pushed: int


def entry_of(queue: Queue, value: Any, priority: Any) -> Entry:
    """Check and encode a value for :meth:`ResumablePush.push_all`.

    Raises:
        InvalidInput: The queue does not take it.
    """
    return queue.parts.pusher.encoder.entry(value, priority)


def moved_entry_of(queue: Queue, item: Item, priority: Any) -> Entry:
    """Check and encode an item of another queue, with its time and its attempts.

    Args:
        queue: The queue it goes to.
        item: The item. A delayed one stays hidden until its time; others become ready.
        priority: Its priority in this queue; None for its own.

    Raises:
        InvalidInput: The queue cannot hold it.
    """
    return queue.parts.pusher.encoder.of_moved(item, priority)


class ResumablePush:
    """Push one source, from its beginning or from where another process stopped.

    Args:
        queue: The queue.
        name: The name of the source, for the record; None keeps no record.
    """

    def __init__(self, queue: Queue, name: str | None) -> None:
        self._queue = queue
        self._name = name
        self._run = os.urandom(_RUN_BYTES)
        self._key = b"" if name is None else queue.parts.store.tables.progress(_digest(name))
        self._stored = run(queue.database, self._read, read_only=True)
        #: The last two entries that were read: one of them ends the current batch.
        self._latest: deque[tuple[Entry, Callable[[], SourceMark]]] = deque(maxlen=2)

    @property
    def begun(self) -> SourceMark | None:
        """How far the source was pushed before; None when there is no record."""
        return None if self._stored is None else _mark(self._stored)

    def push_all(
        self,
        entries: Iterable[tuple[Entry, Callable[[], SourceMark]] | None],
        *,
        pushed: Callable[[int], None] = lambda _: None,
    ) -> int:
        """Push entries, in transactions as ``push_many`` does.

        Args:
            entries: The entries, each with a function that returns how far the source was
                read with it; None if those before it are not to wait for more.
            pushed: Called after each transaction, with the number of items it pushed.

        Returns:
            How many items were pushed.

        Raises:
            PushInterrupted: As for ``push_many``; when another process pushes under the same
                name, its cause is :class:`PushTaken`.
        """
        beside = functools.partial(self._beside, pushed=pushed)
        return self._queue.parts.pusher.put_all(self._noted(entries), beside)

    def _noted(
        self, entries: Iterable[tuple[Entry, Callable[[], SourceMark]] | None]
    ) -> Iterator[Entry | None]:
        for pair in entries:
            if pair is not None:
                self._latest.append(pair)
            yield None if pair is None else pair[0]

    def _beside(
        self, tr: Transaction, batch: Sequence[Entry], pushed: Callable[[int], None]
    ) -> Callable[[], None]:
        """Write the record of a batch; return a function to call after the commit."""
        stored = None if self._name is None else self._record(tr, batch, self._name)

        def committed() -> None:
            self._stored = stored
            pushed(len(batch))

        return committed

    def _record(self, tr: Transaction, batch: Sequence[Entry], name: str) -> bytes:
        if self._read(tr) != self._stored:
            raise PushTaken(queue=self._queue.name, source=name)
        (mark,) = [mark() for entry, mark in self._latest if entry is batch[-1]]
        stored = fdb.tuple.pack((self._run, now_us(), name[:_SHOWN_CHARACTERS], *mark))
        tr[self._key] = stored
        return stored

    def _read(self, tr: Transaction) -> bytes | None:
        if self._name is None:
            return None
        value = tr[self._key]
        return bytes(value) if value.present() else None


class Stopped(NamedTuple):
    """The record of a push: its source, how far it came, and when."""

    key: bytes
    source: str
    mark: SourceMark
    moment: int


def recorded(queue: Queue, *, older_than_seconds: float = -math.inf) -> list[Stopped]:
    """Return the records of pushes, read some at a time; rows that are not records are skipped."""
    latest = now_us() - older_than_seconds * 1_000_000
    return [one for page in _pages(queue, latest, clear=False) for one in page]


def sweep(queue: Queue, *, older_than_seconds: float) -> int:
    """Remove the records of pushes that have written nothing for a time.

    Returns:
        How many were removed.
    """
    latest = now_us() - older_than_seconds * 1_000_000
    return sum(len(page) for page in _pages(queue, latest, clear=True))


def _pages(queue: Queue, latest: float, *, clear: bool) -> Iterator[list[Stopped]]:
    """Yield the records last written before a moment, in order; clear them if asked to."""
    begin, stop = queue.parts.store.tables.progresses
    while True:
        read = functools.partial(_page, begin=begin, stop=stop, latest=latest, clear=clear)
        found, last = run(queue.database, read, wrote=lambda page: clear and bool(page[0]))
        yield found
        if last is None:
            return
        begin = last + b"\x00"


def _page(
    tr: Transaction, begin: bytes, stop: bytes, latest: float, clear: bool
) -> tuple[list[Stopped], bytes | None]:
    """Return the next records, clear them if asked to, and return the last key that was read.

    The key is None at the end.
    """
    rows = list(tr.snapshot.get_range(begin, stop, limit=_SWEPT_AT_ONCE))
    stopped = [_stopped(bytes(row.key), bytes(row.value)) for row in rows]
    found = [one for one in stopped if one is not None and one.moment < latest]
    for one in found if clear else []:
        tr.add_read_conflict_key(one.key)  # the push may be resumed right now
        tr.clear(one.key)
    return found, bytes(rows[-1].key) if len(rows) == _SWEPT_AT_ONCE else None


def _stopped(key: bytes, stored: bytes) -> Stopped | None:
    """Return the record in a row, None when the row is not the record of a push."""
    try:
        _, moment, source, *_ = tuples.unpack(stored)
        mark = _mark(stored)
    except (ValueError, TypeError):
        return None
    return Stopped(key, str(source), mark, moment) if isinstance(moment, int) else None


def _mark(stored: bytes) -> SourceMark:
    return SourceMark(*tuples.unpack(stored)[3:])


def _digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode(errors="surrogateescape"), digest_size=_NAME_BYTES).digest()
