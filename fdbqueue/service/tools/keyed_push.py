"""Push a source in portions, each once, under idempotency keys made of its name and a line.

The key of a portion names the line at which it begins. Its saved response is the mark of its last
line: how much of the source was read, and a digest of that. A push that is repeated goes from key
to key, from the first line on, and skips what the responses say is pushed.

- *The source* is named by the caller: for a file, its path. The digest says whether it is still the
  same: if the bytes that were pushed are others now, nothing is pushed, and no line is skipped in
  silence. The digest is not in the key: then a portion of which one line has changed would be
  pushed again, with all its other lines. A file that only grew goes on with its new lines.
- *Where a portion ends* is in the response alone. So portions may end when a source is slow, and
  other versions may choose other sizes.
- *A crash, an unknown outcome*: the response is saved in the transaction that pushes the portion.
- *Two processes at once*: the later one finds the key of its next portion in use, and stops.
- *Priorities and the like* are not compared: what is pushed stays as it was pushed.
- *After a week* a response expires. Then the source is a new one, pushed from its first line on.
"""

from __future__ import annotations

import functools
import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import fdb.tuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import IdempotencyKeyReused
from fdbqueue.service import tuples
from fdbqueue.service.entries import Entry
from fdbqueue.service.idempotency import IdempotencyKey, KeyedCall, make_call
from fdbqueue.service.items import Item
from fdbqueue.service.queues import Queue
from fdbqueue.service.transactions import run

#: How long it is known what was pushed, from when it was: a weekend, and some days.
KEPT_SECONDS = 7 * 86_400


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


_NOTHING = SourceMark(0, 0, b"", 0)


def entry_of(queue: Queue, value: Any, priority: Any) -> Entry:
    """Check and encode a value for :meth:`KeyedPush.push_all`.

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


class KeyedPush:
    """Push one source, from its beginning or from where another process stopped.

    Args:
        queue: The queue.
        name: The name of the source; None to push without keys.

    Attributes:
        reached: How far the source is pushed, by this process or by others before.
    """

    def __init__(self, queue: Queue, name: str | None) -> None:
        self._queue = queue
        self._name = "" if name is None else _digest(name)
        #: The last two entries that were read: one of them ends the current portion.
        self._latest: deque[tuple[Entry, Callable[[], SourceMark]]] = deque(maxlen=2)
        self.reached = _NOTHING
        if name is not None:
            while (found := run(queue.database, self._following, read_only=True)) is not None:
                self.reached = found

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
                name, its cause is :class:`IdempotencyKeyReused`.
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
        """Save the response of a portion; return a function to call after the commit."""
        (mark,) = [mark() for entry, mark in self._latest if entry is batch[-1]]
        if self._name:
            if self._following(tr) is not None:
                raise IdempotencyKeyReused(queue=self._queue.name)
            self._queue.parts.responses.save(tr, self._next_call(), fdb.tuple.pack(mark))

        def committed() -> None:
            self.reached = mark
            pushed(len(batch))

        return committed

    def _following(self, tr: Transaction) -> SourceMark | None:
        """Return the mark of the next portion, None if it is not pushed."""
        responses, call = self._queue.parts.responses, self._next_call()
        found = responses.recall(responses.begin_recall(tr, call), call)
        return None if found is None else SourceMark(*tuples.unpack(found[0]))

    def _next_call(self) -> KeyedCall:
        key = f"queue_push {self._name} {self.reached.lines + 1}"
        return make_call(self._queue.name, IdempotencyKey(key, KEPT_SECONDS), "queue_push")


def _digest(name: str) -> str:
    """Return a short text for a name; the path of a file may be longer than a key."""
    return hashlib.blake2b(name.encode(errors="surrogateescape"), digest_size=16).hexdigest()
