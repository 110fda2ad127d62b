"""Push from a source that may be interrupted, and go on where it was.

How far a push has come is written in the same transaction as the items, under a name: so what
the record says was pushed is in the queue, and nothing else of that source is. The record says
how much of the source was read and what that looked like, so that another source is not taken
for it. It stays when all is pushed: started again, the push then finds nothing to do.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import fdb.tuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import PushTaken
from fdbqueue.service import tuples
from fdbqueue.service.clock import now_us
from fdbqueue.service.entries import Entry
from fdbqueue.service.queues import Queue
from fdbqueue.service.storage.tables import JobKeys
from fdbqueue.service.transactions import run

_NAME_BYTES = 16
_RUN_BYTES = 8
_SHOWN_CHARACTERS = 500
_SWEPT_AT_ONCE = 500


class Mark(NamedTuple):
    """How far a source was read.

    Attributes:
        size_bytes: How many bytes.
        lines: How many lines.
        digest: Of these bytes.
        pushed: How many items they gave.
    """

    size_bytes: int
    lines: int
    digest: bytes
    pushed: int


class Load:
    """One push of a source, from its beginning or from where another process stopped.

    Args:
        queue: The queue.
        name: What the source is known by; None keeps no record.
    """

    def __init__(self, queue: Queue, name: str | None) -> None:
        self._queue = queue
        self._name = name
        self._run = os.urandom(_RUN_BYTES)
        self._key = b"" if name is None else _keys(queue).progress(_digest(name))
        self._stored = run(queue.database, self._read, read_only=True)
        #: The last two entries that were read: one of them ends the batch under way.
        self._latest: deque[tuple[Entry, Callable[[], Mark]]] = deque(maxlen=2)

    @property
    def begun(self) -> Mark | None:
        """How far the source was pushed before; None where that is not known."""
        return None if self._stored is None else _mark(self._stored)

    def push_all(
        self,
        entries: Iterable[tuple[Entry, Callable[[], Mark]]],
        *,
        pushed: Callable[[int], None] = lambda _: None,
    ) -> int:
        """Push entries, each with what tells how far the source is read with it.

        In transactions as those of ``push_many``.

        Args:
            entries: The entries.
            pushed: Called after each transaction, with how many it pushed.

        Returns:
            How many were pushed.

        Raises:
            PushInterrupted: As for ``push_many``; where another process pushes under the
                same name, its cause is :class:`PushTaken`.
        """
        beside = functools.partial(self._beside, pushed=pushed)
        return self._queue.parts.writer.put_all(self._noted(entries), beside)

    def _noted(self, entries: Iterable[tuple[Entry, Callable[[], Mark]]]) -> Iterator[Entry]:
        for pair in entries:
            self._latest.append(pair)
            yield pair[0]

    def _beside(
        self, tr: Transaction, batch: Sequence[Entry], pushed: Callable[[int], None]
    ) -> Callable[[], None]:
        """Write how far the batch comes; return what to do once that is committed."""
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
    """A push on record: of which source, how far it came, and when."""

    key: bytes
    source: str
    mark: Mark
    moment: int


def recorded(queue: Queue, *, older_than_seconds: float = -math.inf) -> list[Stopped]:
    """Return the pushes on record, read some at a time; what is no record is passed by."""
    latest = now_us() - older_than_seconds * 1_000_000
    return [one for page in _pages(queue, latest, forget=False) for one in page]


def sweep(queue: Queue, *, older_than_seconds: float) -> int:
    """Remove the records of pushes that have written nothing for a time.

    Returns:
        How many were removed.
    """
    latest = now_us() - older_than_seconds * 1_000_000
    return sum(len(page) for page in _pages(queue, latest, forget=True))


def _pages(queue: Queue, latest: float, *, forget: bool) -> Iterator[list[Stopped]]:
    """Yield the pushes that wrote last before a moment, in the order of their keys."""
    begin, stop = _keys(queue).progresses()
    while True:
        read = functools.partial(_page, begin=begin, stop=stop, latest=latest, forget=forget)
        found, last = run(queue.database, read, wrote=lambda page: forget and bool(page[0]))
        yield found
        if last is None:
            return
        begin = last + b"\x00"


def _page(
    tr: Transaction, begin: bytes, stop: bytes, latest: float, forget: bool
) -> tuple[list[Stopped], bytes | None]:
    """Return the next of them, and the last key that was read; None at the end."""
    rows = list(tr.snapshot.get_range(begin, stop, limit=_SWEPT_AT_ONCE))
    stopped = [_stopped(bytes(row.key), bytes(row.value)) for row in rows]
    found = [one for one in stopped if one is not None and one.moment < latest]
    for one in found if forget else []:
        tr.add_read_conflict_key(one.key)  # it may just be going on
        tr.clear(one.key)
    return found, bytes(rows[-1].key) if len(rows) == _SWEPT_AT_ONCE else None


def _stopped(key: bytes, stored: bytes) -> Stopped | None:
    """Return what a row says, None where it is no record of a push."""
    try:
        _, moment, source, *_ = tuples.unpack(stored)
        mark = _mark(stored)
    except (ValueError, TypeError):
        return None
    return Stopped(key, str(source), mark, moment) if isinstance(moment, int) else None


def _mark(stored: bytes) -> Mark:
    return Mark(*tuples.unpack(stored)[3:])


def _keys(queue: Queue) -> JobKeys:
    return JobKeys(queue.parts.store.tables)


def _digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode(errors="surrogateescape"), digest_size=_NAME_BYTES).digest()
