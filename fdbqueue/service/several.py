"""Several queues as one: take from the first that has items, or from each in turn.

:mod:`fdbqueue.service.consume.several` says how a take goes, and what is guaranteed at each step.
"""

from __future__ import annotations

import fnmatch
import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import CorruptItem, InvalidInput
from fdbqueue.service.aio import take_in_thread
from fdbqueue.service.clock import duration, in_seconds
from fdbqueue.service.consume.consumer import Consumer
from fdbqueue.service.consume.requests import TakeRequest
from fdbqueue.service.consume.several import SeveralTake, first_with_items
from fdbqueue.service.consume.turns import Consumers, Turns
from fdbqueue.service.consume.waiting import ItemWait, deadline_after
from fdbqueue.service.idempotency import Call, IdempotencyKey, make_call
from fdbqueue.service.items import Duration, Item, first
from fdbqueue.service.limits import MAX_ITEMS
from fdbqueue.service.overview import counts_of
from fdbqueue.service.queues import Queue
from fdbqueue.service.storage.reader import ENDS, End
from fdbqueue.service.transactions import run

#: The most names that are given, and the most queues that they stand for.
MAX_QUEUES = 1_000
#: For how long the queues that fit a pattern are kept.
_KEPT_SECONDS = 5.0
#: The most names that a message shows.
_SHOWN_NAMES = 5


class Directory(Protocol):
    """Where queues are found by name: the catalog."""

    database: Database

    def queue(self, name: str) -> Queue:
        """Return the queue with a name."""

    def fitting(self, pattern: str, tr: Transaction | None = None) -> Iterator[str]:
        """Yield the names that fit a pattern and exist, sorted."""

    def calls_key(self, name: bytes) -> bytes:
        """Return a key on which calls of one name conflict. Nothing is stored there."""


class SeveralQueues:
    """Take from the first of several queues that has items, or from each in turn.

    Every take is one transaction, and all its items come from one queue, :attr:`Item.queue`. Made
    by :meth:`Catalog.several`.

    Without ``fair`` the queues are looked at in the order of the names. With it, each call begins
    behind the queue that gave last in this process. Strict: the queues before the one that gave had
    nothing to take; where several clients take at once, that was so when the call looked at them,
    a moment before it took. A paused queue has nothing to take.

    Queues that fit a pattern are looked at in the order of their names. They are kept for five
    seconds: a queue that is new is noticed within that time, by callers that wait, too.

    The arguments ``tr``, ``once``, ``end``, ``count``, ``wait``, ``waits_while``, ``seconds`` and
    ``worker`` mean what they mean for one queue (:class:`Queue`). Under a key, the saved response
    is looked for in all the queues, and saved in the one that gave; that there were no items is
    saved in the first queue, and nowhere where patterns have found no queue at all. The same call
    has the same names, too. ``CorruptItem`` names the queue whose item cannot be decoded; nothing
    is taken from any queue then.

    Args:
        directory: Finds queues.
        names: Names of queues, and patterns with ``*``; each queue counts at its first place.
        turns: What all calls of this process on these names share.

    Attributes:
        names: As given, each once.
        name: The names, for messages.
    """

    acks_with_leases = False

    def __init__(self, directory: Directory, names: tuple[str, ...], turns: Turns) -> None:
        self.names = names
        self.name = _shown(names)
        self.database = directory.database
        self._directory = directory
        self._turns = turns
        self._has_patterns = any("*" in name for name in names)
        self._kept = Consumers((), (), 0.0)
        if not self._has_patterns:
            self._kept = self._found(names, float("inf"))

    def __repr__(self) -> str:
        return f"<SeveralQueues {self.name}>"

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and any(fnmatch.fnmatchcase(name, one) for one in self.names)

    # Pop

    def pop(
        self,
        *,
        end: End = "min",
        wait: float | None = None,
        once: IdempotencyKey | str | None = None,
        tr: Transaction | None = None,
    ) -> Item | None:
        """Take an item from the first queue that has one, None where none has."""
        return first(self.pop_many(1, end=end, wait=wait, once=once, tr=tr))

    def pop_many(
        self,
        count: int,
        *,
        end: End = "min",
        wait: float | None = None,
        waits_while: Callable[[], bool] | None = None,
        once: IdempotencyKey | str | None = None,
        tr: Transaction | None = None,
    ) -> list[Item]:
        """Take items from the first queue that has any, as :meth:`Queue.pop_many` does from one.

        Returns:
            The items, all of one queue; empty where all queues are.
        """
        return self._pop(count, end, once).take(wait, tr, waits_while)

    async def apop(
        self,
        *,
        end: End = "min",
        wait: float | None = None,
        once: IdempotencyKey | str | None = None,
    ) -> Item | None:
        """Take an item, as :meth:`pop` does."""
        return first(await self.apop_many(1, end=end, wait=wait, once=once))

    async def apop_many(
        self,
        count: int,
        *,
        end: End = "min",
        wait: float | None = None,
        once: IdempotencyKey | str | None = None,
    ) -> list[Item]:
        """Take items, as :meth:`pop_many` does; cancelled, as :meth:`Queue.apop_many`."""
        return await self._await(self._pop(count, end, once, for_a_task=True), wait, once)

    # Lease

    def lease(
        self,
        *,
        end: End = "min",
        seconds: Duration = 60,
        wait: float | None = None,
        worker: str | None = None,
        once: IdempotencyKey | str | None = None,
        tr: Transaction | None = None,
    ) -> Item | None:
        """Lease an item of the first queue that has one, None where none has."""
        return first(
            self.lease_many(1, end=end, seconds=seconds, wait=wait, worker=worker, once=once, tr=tr)
        )

    def lease_many(
        self,
        count: int,
        *,
        end: End = "min",
        seconds: Duration = 60,
        wait: float | None = None,
        worker: str | None = None,
        waits_while: Callable[[], bool] | None = None,
        once: IdempotencyKey | str | None = None,
        tr: Transaction | None = None,
    ) -> list[Item]:
        """Lease items of the first queue that has any, as :meth:`Queue.lease_many` does of one.

        Returns:
            The items, all of one queue; empty where all queues are.
        """
        return self._lease(count, end, seconds, worker, once).take(wait, tr, waits_while)

    async def alease(
        self,
        *,
        end: End = "min",
        seconds: Duration = 60,
        wait: float | None = None,
        worker: str | None = None,
        once: IdempotencyKey | str | None = None,
    ) -> Item | None:
        """Lease an item, as :meth:`lease` does."""
        return first(
            await self.alease_many(1, end=end, seconds=seconds, wait=wait, worker=worker, once=once)
        )

    async def alease_many(
        self,
        count: int,
        *,
        end: End = "min",
        seconds: Duration = 60,
        wait: float | None = None,
        worker: str | None = None,
        once: IdempotencyKey | str | None = None,
    ) -> list[Item]:
        """Lease items, as :meth:`lease_many` does; cancelled, as :meth:`Queue.alease_many`."""
        return await self._await(self._lease(count, end, seconds, worker, once), wait, once)

    # What was leased

    def queue_of(self, item: Item) -> Queue:
        """Return the queue that an item was taken from.

        Raises:
            InvalidInput: It is not an item of one of these queues; a lease's token does not say
                which queue it belongs to.
        """
        if not isinstance(item, Item) or item.queue not in self:
            raise InvalidInput(queues=self.name, reason="an item of one of the queues is needed")
        return self._directory.queue(item.queue)

    def ack(self, item: Item, **options: Any) -> None:
        """Remove a leased item for good, as :meth:`Queue.ack` does."""
        self.queue_of(item).ack(item, **options)

    async def aack(self, item: Item, **options: Any) -> None:
        """Remove a leased item for good, as :meth:`Queue.ack` does."""
        await self.queue_of(item).aack(item, **options)

    def nack(self, item: Item, **options: Any) -> None:
        """Give a leased item up, as :meth:`Queue.nack` does."""
        self.queue_of(item).nack(item, **options)

    async def anack(self, item: Item, **options: Any) -> None:
        """Give a leased item up, as :meth:`Queue.nack` does."""
        await self.queue_of(item).anack(item, **options)

    def extend(self, item: Item, seconds: Duration = 60, **options: Any) -> Item:
        """Extend a lease to end that many seconds from now, as :meth:`Queue.extend` does."""
        return self.queue_of(item).extend(item, seconds, **options)

    async def aextend(self, item: Item, seconds: Duration = 60, **options: Any) -> Item:
        """Extend a lease to end that many seconds from now, as :meth:`Queue.extend` does."""
        return await self.queue_of(item).aextend(item, seconds, **options)

    def bury_corrupt(self, error: CorruptItem) -> bool:
        """Move the item that an error names to the dead letters; tell whether it was there."""
        return self._directory.queue(error.context["queue"]).bury_corrupt(error)

    # Wait, and look

    def wait_for_items(self, seconds: float) -> bool:
        """Wait until a queue may have an item, at most this many seconds; tell whether one may."""
        wait = ItemWait(())

        def look() -> bool:
            found = self._queues(None)
            wait.watches, wait.look_at = found.watches, found.stale_at
            has_items = functools.partial(first_with_items, consumers=found.consumers, end="min")
            return run(self.database, has_items, read_only=True) is not None

        deadline = deadline_after(self.name, seconds)
        return bool(wait.until(look, deadline, database=self.database))

    def queues(self) -> list[Queue]:
        """Return the queues in their order, those included that fit a pattern by now."""
        names = [one.name for one in self._queues(None).consumers]
        return [self._directory.queue(name) for name in names]

    def size(self, *, tr: Transaction | None = None) -> int:
        """Return how many items are ready in all of them, without counting them."""
        queues = self.queues()

        def read(transaction: Transaction) -> int:
            return sum([max(0, counts.ready) for counts in counts_of(transaction, queues)])

        return run(self.database, read, read_only=True) if tr is None else read(tr)

    def limited_to(self, allows: Callable[[str], bool]) -> SeveralQueues:
        """Return the same, with those queues alone that a function allows by their names.

        It is asked about the queues that fit a pattern, whenever they are looked up. The names that
        are no patterns stay.
        """
        return SeveralQueues(_Limited(self._directory, allows), self.names, self._turns)

    # What the takes share

    def _pop(
        self,
        count: int,
        end: End,
        once: IdempotencyKey | str | None,
        *,
        for_a_task: bool = False,
    ) -> SeveralTake:
        self._check(count, end)

        def request(consumer: Consumer) -> TakeRequest:
            return consumer.pop_request(end, count, None, for_a_task=for_a_task)

        return self._take("pop", end, request, self._call(once, "pop", end, count))

    def _lease(
        self,
        count: int,
        end: End,
        seconds: Duration,
        worker: str | None,
        once: IdempotencyKey | str | None,
    ) -> SeveralTake:
        self._check(count, end)
        duration(self.name, "seconds", seconds)

        def request(consumer: Consumer) -> TakeRequest:
            return consumer.lease_request(end, count, seconds, None, worker=worker)

        call = self._call(once, "lease", end, count, in_seconds(seconds))
        return self._take("lease", end, request, call)

    def _take(
        self, verb: str, end: End, request: Callable[[Consumer], TakeRequest], call: Call | None
    ) -> SeveralTake:
        queues = functools.partial(self._queues, call=call)
        return SeveralTake(verb, self.name, self.database, queues, self._turns, end, request, call)

    async def _await(
        self, take: SeveralTake, wait: float | None, once: IdempotencyKey | str | None
    ) -> list[Item]:
        requeue = take.requeue if once is None else None
        take_once = functools.partial(take_in_thread, queue=self.name, requeue=requeue)
        return [*await take.take_in_loop(wait, take_once)]

    def _check(self, count: int, end: str) -> None:
        if type(count) is not int or not 1 <= count <= MAX_ITEMS:
            raise InvalidInput(queues=self.name, count=count, allowed=f"1 to {MAX_ITEMS}")
        if end not in ENDS:
            raise InvalidInput(queues=self.name, end=end, allowed="min, max")

    def _call(self, once: IdempotencyKey | str | None, verb: str, *facts: Any) -> Call | None:
        if once is None:
            return None
        return make_call(self.name, once, f"{verb} from", *self.names, *facts)

    def _queues(self, tr: Transaction | None = None, *, call: Call | None = None) -> Consumers:
        """Return the queues; those that fit a pattern as of the last five seconds.

        For a call with an idempotency key, as the transaction sees them: then the response is found
        wherever it was saved. Two such calls conflict even where they see different queues.
        """
        if not self._has_patterns:
            return self._kept
        stale_at = time.monotonic() + _KEPT_SECONDS
        if tr is not None and call is not None:
            key = self._directory.calls_key(call.name)
            tr.add_read_conflict_key(key)
            tr.add_write_conflict_key(key)
            return self._found(self._expanded(tr), stale_at)
        kept = self._kept
        if kept.stale_at <= time.monotonic():
            kept = self._kept = self._found(self._expanded(None), stale_at)
        return kept

    def _expanded(self, tr: Transaction | None) -> Iterable[str]:
        """Return the names of the queues, each once.

        Raises:
            InvalidInput: They are more than 1,000.
        """
        found: dict[str, None] = {}
        for name in self.names:
            for one in self._directory.fitting(name, tr) if "*" in name else (name,):
                found[one] = None
                if len(found) > MAX_QUEUES:
                    raise InvalidInput(queues=self.name, allowed=f"at most {MAX_QUEUES} queues")
        return found

    def _found(self, names: Iterable[str], stale_at: float) -> Consumers:
        consumers = tuple([self._directory.queue(name).parts.consumer for name in names])
        return Consumers(consumers, tuple([one.group.watch for one in consumers]), stale_at)


class _Limited:
    """A directory in which patterns find only what a function allows."""

    def __init__(self, directory: Directory, allows: Callable[[str], bool]) -> None:
        self.database = directory.database
        self.queue = directory.queue
        self.calls_key = directory.calls_key
        self._directory = directory
        self._allows = allows

    def fitting(self, pattern: str, tr: Transaction | None = None) -> Iterator[str]:
        """Yield the names that fit a pattern, exist and are allowed, sorted."""
        return filter(self._allows, self._directory.fitting(pattern, tr))


def checked_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of several queues, each once.

    Raises:
        InvalidInput: They are not 1 to 1,000 texts.
    """
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise InvalidInput(names=names, reason="a list of names is needed")
    given = list(itertools.islice(names, MAX_QUEUES + 1))
    if not 1 <= len(given) <= MAX_QUEUES:
        raise InvalidInput(names=len(given), allowed=f"1 to {MAX_QUEUES} names")
    for name in given:
        if not isinstance(name, str):
            raise InvalidInput(name=name, reason="a name is a text")
    return tuple(dict.fromkeys(given))


def _shown(names: tuple[str, ...]) -> str:
    more = len(names) - _SHOWN_NAMES
    return ", ".join(names[:_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")
