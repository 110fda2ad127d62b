"""The items that a worker has leased, and what it does with them.

:class:`Leases` are the three functions by which it leases items, extends their leases and ends
them: those of a queue, or what a kind of worker makes of these.

:class:`Line` has those that wait for a thread, and says how many may: a fixed number for each
thread, or a moment's work, which is what the latest items say of the next. When they turn out to
take longer, the line is too long, and its end is put back, so that other workers take it. When all
threads are at work for longer than the moment, nothing may wait. :class:`LeaseExtender` extends all
leases, of what waits, too.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import queue as queues
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fdbqueue.exceptions import BatchTooLarge, LeaseLost, text_of_error
from fdbqueue.logs import get_logger
from fdbqueue.service.items import Held, Item
from fdbqueue.service.storage.item_keys import End
from fdbqueue.steady import monotonic

logger = get_logger(__name__)

#: An item takes at least as long, with its end; the mean is about that of so many.
_LEAST_SECONDS, _OF_ITEMS = 0.001, 8
#: How many times as long as it should be a line is before its end is put back.
_TOO_LONG = 2
#: The share of a lease's time after which it is extended.
_EXTENDED_AFTER = 1 / 3
_MIN_PAUSE_SECONDS = 0.05
#: How many leases one transaction extends. More are hardly faster, and the end of any makes it
#: conflict: so those leased first, which end meanwhile, come last, and no others wait for them.
_EXTENDED_TOGETHER = 25


class Leased(NamedTuple):
    """How many items were leased, and the one that the thread that collects keeps, if any."""

    number: int
    kept: Item | None


class Leases(NamedTuple):
    """What a worker does with its items: three functions.

    Attributes:
        lease: Given a number and the items that are done, leases so many at most, and ends these in
            the same transaction; if one is not held any more, it raises LeaseLost, and ends none.
        extend: Given items, extends their leases.
        end: Given an item and its error, or None if it is done, ends it; raises LeaseLost if it is
            not held any more.
        ends_with_leases: Whether ``lease`` is given items that are done.
    """

    lease: Callable[[int, Sequence[Item]], list[Item]]
    extend: Callable[[Sequence[Item]], Held]
    end: Callable[[Item, BaseException | None], None]
    ends_with_leases: bool


def leases_of(
    queue: Any, end: End, seconds: float, worker: str, retry_delay_seconds: float
) -> Leases:
    """Return what a worker does with the items of a queue: an end is an ack, or a nack."""

    def end_item(item: Item, error: BaseException | None) -> None:
        if error is None:
            queue.ack(item)
        else:
            queue.nack(item, delay=retry_delay_seconds, reason=text_of_error(error))

    how = {"end": end, "seconds": seconds, "worker": worker}
    may_ack = queue.acks_with_leases
    return Leases(
        lambda count, done: queue.lease_many(count, **how, **({"ack": done} if may_ack else {})),
        lambda items: queue.extend_many(items, seconds),
        end_item,
        may_ack,
    )


class Collect:
    """In the line: acknowledge what is done, and lease the next items, if no other thread does."""


class Line(queues.SimpleQueue["Item | Collect | None"]):
    """What the threads of a worker are to do, the first first: None ends one.

    Args:
        threads: How many they are.
        prefetch: How many items are leased for each of them at most.
        ahead_seconds: For how many seconds of work they are leased; None for ``prefetch`` items.

    Attributes:
        is_ahead: Whether more items are leased than there are threads.
        is_asked: Whether a :class:`Collect` waits for a thread.
    """

    def __init__(self, threads: int, prefetch: int, ahead_seconds: float | None) -> None:
        super().__init__()  # which gevent's own needs
        self._threads = threads
        self._most = threads * prefetch
        self._ahead_seconds = ahead_seconds
        self.is_ahead = prefetch > 1
        self.is_asked = False
        #: How long an item takes, of late; endless before the first has ended.
        self._item_seconds = math.inf
        #: When the items began that run, by their leases.
        self._begun: dict[str | None, float] = {}

    def ask(self) -> None:
        """Ask the next free thread to collect, once."""
        if not self.is_asked:
            self.is_asked = True
            self.put(Collect())

    def most(self) -> int:
        """Return how many items may be leased at this moment, including items at work."""
        if self._ahead_seconds is None:
            return self._most
        seconds = self._item_seconds
        begun = [*self._begun.values()]
        if len(begun) >= self._threads:  # all are at work, perhaps for long
            seconds = max(seconds, monotonic() - max(begun))
        ahead = self._ahead_seconds * self._threads / max(seconds, _LEAST_SECONDS)
        return max(self._threads, int(min(ahead, self._most)))

    def next_count(self, done: int, running: int) -> int:
        """Return how many items to lease, for free threads or as some are done."""
        if not done:
            return self.most() - running
        if self._ahead_seconds is None:
            return done
        return max(1, self.most() - running + done)

    def begin(self, item: Item) -> float:
        """Note that an item has begun, and return when."""
        began = self._begun[item.lease] = monotonic()
        return began

    def end(self, item: Item, began: float) -> None:
        """Note that an item has ended."""
        del self._begun[item.lease]
        seconds = monotonic() - began
        known = seconds if self._item_seconds == math.inf else self._item_seconds
        self._item_seconds = known + (seconds - known) / _OF_ITEMS

    def emptied(self) -> list[Item | Collect | None]:
        """Take out all that is in the line."""
        line = []
        with contextlib.suppress(queues.Empty):
            while True:
                line.append(self.get_nowait())
        return line

    def taken_back(self, *, is_ending: bool) -> list[Item]:
        """Take the items out of the line that are not to wait in it: all if the work is to end."""
        kept = 0
        if not is_ending:
            kept = _TOO_LONG * (self.most() - self._threads)
            is_free = len(self._begun) < self._threads
            if self._ahead_seconds is None or is_free or self.qsize() <= kept:
                return []
        line = self.emptied()
        items = [task for task in line if isinstance(task, Item)]
        for task in line:
            if not isinstance(task, Item):
                self.put(task)
        for item in items[:kept]:
            self.put(item)
        return items[kept:]


class LeaseExtender:
    """Extend the leases of what a worker holds.

    Args:
        extend: Extends the leases of items.
        seconds: How long leases are.
        held: Returns, by their leases, the items that run or wait for a thread.
        is_over: Set when the work ends.
        facts: Returns an item's facts for the log.
    """

    def __init__(
        self,
        extend: Callable[[Sequence[Item]], Held],
        seconds: float,
        held: Callable[[], dict[str | None, Item]],
        is_over: threading.Event,
        facts: Callable[[Item], dict[str, Any]],
    ) -> None:
        self._extend_all, self._seconds, self._held = extend, seconds, held
        self._is_over, self._facts = is_over, facts

    def run(self) -> None:
        """Extend leases until the work ends."""
        known: set[str | None] = set()
        pause, began = max(self._seconds * _EXTENDED_AFTER, _MIN_PAUSE_SECONDS), monotonic()
        while not self._is_over.wait(max(0.0, began + pause - monotonic())):
            began = monotonic()
            held = self._held()
            items = [item for lease, item in held.items() if lease in known]
            for start in reversed(range(0, len(items), _EXTENDED_TOGETHER)):
                self._extend(items[start : start + _EXTENDED_TOGETHER])
            known = set(held)

    def _extend(self, items: Sequence[Item]) -> None:
        """Extend leases in one transaction, in several if it would be too large."""
        failed: Sequence[str | None] = ()
        kind = LeaseLost.__name__
        try:
            failed = self._extend_all(items).lost
        except Exception as error:  # noqa: BLE001  # the items' acks report lost leases
            if len(items) > 1 and isinstance(error, BatchTooLarge):
                half = len(items) // 2
                self._extend(items[:half])
                self._extend(items[half:])
                return
            failed, kind = [item.lease for item in items], type(error).__name__
        held = self._held()  # those that have ended meanwhile are not lost
        for lease in failed:
            if lease in held:  # its ack reports that, too
                facts = {**self._facts(held[lease]), "error": kind}
                logger.warning("a lease could not be extended", extra=facts)


def check_done(result: Any) -> None:
    """Refuse the result of a function that has not done anything yet.

    Raises:
        TypeError: The result is an awaitable or a generator.
    """
    if result is None:
        return
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if hasattr(result, "close"):
            result.close()
        raise TypeError(f"the function returned a {type(result).__name__}, and did nothing")
