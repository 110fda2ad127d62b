"""Several queues as one: take from the first that has items, or from each in turn.

:mod:`fdbqueue.service.consume.several_take` says how a take goes, and what is guaranteed at each
step.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypedDict, TypeVar

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import CorruptItem, InvalidInput
from fdbqueue.service.aio import take_in_thread
from fdbqueue.service.browse import counts_of
from fdbqueue.service.clock import duration, in_seconds, moment
from fdbqueue.service.consume.consumer import Consumer, first, held_until
from fdbqueue.service.consume.finding import SeveralGroup
from fdbqueue.service.consume.leases import worker_of
from fdbqueue.service.consume.several_take import Listed, SeveralResponses, SeveralTake
from fdbqueue.service.consume.waiting import ItemWait, deadline_after
from fdbqueue.service.idempotency import IdempotencyKey, Responses, make_call
from fdbqueue.service.items import Duration, Held, Item
from fdbqueue.service.names import is_among
from fdbqueue.service.queues import Queue
from fdbqueue.service.sizes import LEASE_SECONDS, MAX_ITEMS_A_CALL
from fdbqueue.service.storage.item_keys import ENDS, End
from fdbqueue.service.transactions import run
from fdbqueue.steady import monotonic

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = ParamSpec("P")
T = TypeVar("T")

#: The most names that are given, and the most queues that they stand for.
MAX_QUEUES = 1_000
#: For how long the queues that fit a pattern are kept.
_KEPT_SECONDS = 5.0
#: The most names that a message shows.
_SHOWN_NAMES = 5


#: Names, each with the patterns that it fits.
Matching = Iterator[tuple[str, list[str]]]


class PopKeywords(TypedDict, total=False):
    """The keywords of a pop: ``end`` is "min" by default."""

    end: End
    wait: float | None
    once: IdempotencyKey | str | None


class PopInKeywords(PopKeywords, total=False):
    """Those of one that may take part in a transaction."""

    tr: Transaction | None


class PopManyInKeywords(PopInKeywords, total=False):
    """Those of one of many items."""

    waits_while: Callable[[], bool] | None


class LeaseKeywords(PopKeywords, total=False):
    """The keywords of a lease: ``seconds`` are 60 by default."""

    seconds: Duration
    worker: str | None


class LeaseInKeywords(LeaseKeywords, total=False):
    """Those of one that may take part in a transaction."""

    tr: Transaction | None


class LeaseManyInKeywords(LeaseInKeywords, total=False):
    """Those of one of many items."""

    waits_while: Callable[[], bool] | None


class Directory(Protocol):
    """Where queues are found by name: the catalog."""

    database: Database
    responses: Responses

    def queue(self, name: str) -> Queue:
        """Return the queue with a name."""

    def matching(self, patterns: Sequence[str]) -> Matching:
        """Yield the names that exist and fit a pattern, sorted, each with the patterns it fits."""


def _of_its_queue(
    verb: Callable[Concatenate[Queue, Item, P], T],
) -> Callable[Concatenate[SeveralQueues, Item, P], T]:
    """Return a verb that calls one on the queue that its item was taken from."""

    @functools.wraps(verb)
    def call(self: SeveralQueues, item: Item, /, *args: P.args, **options: P.kwargs) -> T:
        return verb(self.queue_of(item), item, *args, **options)

    return call


class SeveralQueues:
    """Take from the first of several queues that has items, or from each in turn.

    All items of a call come from one queue, :attr:`Item.queue`. Made by :meth:`Catalog.several`. A
    paused queue has nothing to take.

    *In turn by a pattern* (``fair`` is true, and one of the names is a pattern): each process goes
    round in circles over the queues that have something to take, and gives each one turn in a
    circle, in which up to eight calls take all they ask for. It finds them by the indexes of the
    families, of any size; a plain queue that fits or is named has its turn as well. A new queue is
    noticed at once. No items means that no queue had any, at one moment; each when it was looked
    at, if there are more than a thousand that have just become empty. A member that was written
    under other settings is passed over.

    *Without a pattern in turn*, each call begins after the queue that gave last in this process.
    *Not in turn*, the queues are looked at in the order of the names. Both are strict when they are
    looked at, a moment before the take: then the queues before the one that gives have nothing to
    take. With ``tr`` or ``once`` they have nothing when the transaction commits. Queues that fit a
    pattern are looked at in the order of their names, 1,000 at most. They are kept for five
    seconds: a queue that is new is noticed within that time, by callers that wait, too.

    The arguments ``tr``, ``once``, ``end``, ``count``, ``wait``, ``waits_while``, ``seconds`` and
    ``worker`` mean what they mean for one queue (:class:`Queue`). Under a key, the response is
    saved in one place for all calls on several queues of the catalog, whichever gave; calls on one
    queue have their keys apart. The same call has the same names, too. ``CorruptItem`` names the
    queue whose item cannot be decoded; nothing is taken from any queue then.

    Args:
        directory: Finds queues.
        names: Names of queues, and patterns with ``*``; each queue counts at its first place.
        group: What all calls of this process on these names share.

    Attributes:
        names: As given, each once.
        name: The names, for messages.
    """

    acks_with_leases = False

    def __init__(
        self,
        directory: Directory,
        names: tuple[str, ...],
        group: SeveralGroup,
    ) -> None:
        self.names = names
        self.name = _shown(names)
        self.database = directory.database
        self._directory = directory
        self._responses = SeveralResponses(directory.responses, self._consumer)
        self._group = group
        self._by_index = group.ring is not None
        self._kept = Listed()
        if not self._by_index:
            is_known = not any("*" in name for name in names)
            self._kept = Listed(names) if is_known else Listed((), 0.0)

    def __repr__(self) -> str:
        return f"<SeveralQueues {self.name}>"

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and is_among(name, self.names)

    # Pop

    def pop(self, **options: Unpack[PopInKeywords]) -> Item | None:
        """Take an item from the first queue that has one, None if none has."""
        return first(self.pop_many(1, **options))

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
            The items, all of one queue; empty if all queues are.
        """
        return self._take("pop", count, end, once).take(wait, tr, waits_while)

    async def apop(self, **options: Unpack[PopKeywords]) -> Item | None:
        """Take an item, as :meth:`pop` does."""
        return first(await self.apop_many(1, **options))

    async def apop_many(
        self,
        count: int,
        *,
        end: End = "min",
        wait: float | None = None,
        once: IdempotencyKey | str | None = None,
    ) -> list[Item]:
        """Take items, as :meth:`pop_many` does; cancelled, as :meth:`Queue.apop_many`."""
        return await self._await(self._take("pop", count, end, once), wait, once)

    # Lease

    def lease(self, **options: Unpack[LeaseInKeywords]) -> Item | None:
        """Lease an item of the first queue that has one, None if none has."""
        return first(self.lease_many(1, **options))

    def lease_many(
        self,
        count: int,
        *,
        end: End = "min",
        seconds: Duration = LEASE_SECONDS,
        wait: float | None = None,
        worker: str | None = None,
        waits_while: Callable[[], bool] | None = None,
        once: IdempotencyKey | str | None = None,
        tr: Transaction | None = None,
    ) -> list[Item]:
        """Lease items of the first queue that has any, as :meth:`Queue.lease_many` does of one.

        Returns:
            The items, all of one queue; empty if all queues are.
        """
        return self._lease(count, end, seconds, worker, once).take(wait, tr, waits_while)

    async def alease(self, **options: Unpack[LeaseKeywords]) -> Item | None:
        """Lease an item, as :meth:`lease` does."""
        return first(await self.alease_many(1, **options))

    async def alease_many(
        self,
        count: int,
        *,
        end: End = "min",
        seconds: Duration = LEASE_SECONDS,
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

    ack = _of_its_queue(Queue.ack)
    """Remove a leased item for good, as :meth:`Queue.ack` does."""
    aack = _of_its_queue(Queue.aack)
    """Remove a leased item for good, as :meth:`Queue.ack` does."""
    requeue = _of_its_queue(Queue.requeue)
    """Requeue a leased item as it was, as :meth:`Queue.requeue` does."""
    nack = _of_its_queue(Queue.nack)
    """Give a leased item up, as :meth:`Queue.nack` does."""
    anack = _of_its_queue(Queue.anack)
    """Give a leased item up, as :meth:`Queue.nack` does."""
    extend = _of_its_queue(Queue.extend)
    """Extend a lease to end that many seconds from now, as :meth:`Queue.extend` does."""
    aextend = _of_its_queue(Queue.aextend)
    """Extend a lease to end that many seconds from now, as :meth:`Queue.extend` does."""

    def extend_many(self, items: Iterable[Item], seconds: Duration = LEASE_SECONDS) -> Held:
        """Extend leases, one transaction for each queue, as :meth:`Queue.extend_many`."""
        given = list(items)
        of_queues: dict[str, list[Item]] = {}
        for item in given:
            of_queues.setdefault(self.queue_of(item).name, []).append(item)
        lost: list[str] = []
        for some in of_queues.values():
            lost += self.queue_of(some[0]).extend_many(some, seconds).lost
        return Held(len(given) - len(lost), lost)

    def bury_corrupt(self, error: CorruptItem) -> bool:
        """Move the item that an error names to the dead letters; tell whether it was there."""
        return self._directory.queue(error.context["queue"]).bury_corrupt(error)

    # Wait, and look

    def wait_for_items(
        self,
        seconds: float,
        *,
        to_lease: bool = False,
        waits_while: Callable[[], bool] | None = None,
    ) -> bool:
        """Wait as :meth:`Queue.wait_for_items` does, for an item of any of the queues."""
        wait = ItemWait(self._group.watches(self._kept.names, to_lease=to_lease))

        def look() -> bool:
            return self.look_in(wait, to_lease=to_lease)

        deadline = deadline_after(self.name, seconds)
        return bool(wait.until(look, deadline, waits_while, self.database))

    def look_in(self, wait: ItemWait, *, to_lease: bool) -> bool:
        """Look whether a queue may have an item for a popper, and say where to wait."""
        names, wait.look_at = self._listed()
        wait.watches = self._group.watches(names, to_lease=to_lease)
        has_items = functools.partial(self._group.has_items, names=names, to_lease=to_lease)
        return run(self.database, has_items, read_only=True)

    def held_until(
        self, *, to_lease: bool = False, tr: Transaction | None = None
    ) -> datetime.datetime | None:
        """Return the earliest :meth:`Queue.held_until` of the queues, None if none has one.

        Of families, at most a thousand members are asked: those that a take has found held.
        """

        def read(transaction: Transaction) -> int | None:
            asked = self._group.later(transaction, self._listed().names)
            return held_until(transaction, asked, to_lease=to_lease)

        found = run(self.database, read, read_only=True) if tr is None else read(tr)
        return None if found is None else moment(found)

    def queues(self, *, limit: int | None = None) -> list[Queue]:
        """Return the queues in their order, those included that fit a pattern by now.

        Args:
            limit: The most queues; None for all.
        """
        names = self._expanded() if self._by_index else self._listed().names
        return [self._directory.queue(name) for name in itertools.islice(names, limit)]

    def size(self, *, tr: Transaction | None = None) -> int:
        """Return how many items are ready in all of them, without counting them.

        Without ``tr``, of 1,000 queues at a time.
        """
        if tr is None:
            return self.count("ready")
        return sum([max(0, counts.ready) for counts in counts_of(tr, self.queues())])

    def limited_to(self, allows: Callable[[str], bool]) -> SeveralQueues:
        """Return the same, with those queues alone that a function allows by their names.

        It is asked about the queues that fit a pattern, whenever they are looked up: these are
        1,000 at most, because they are not found by an index. The names that are no patterns stay.

        Args:
            allows: Tells whether a queue with this name may be taken from.
        """
        directory = _AllowedOnly(self._directory, allows)
        return SeveralQueues(directory, self.names, self._group)

    # Word from others than the worker

    def give_back(
        self,
        *,
        worker: str | None = None,
        spend: bool = True,
        leased_before: datetime.datetime | None = None,
        limit: int | None = None,
        on_given_back: Callable[[int], None] = lambda _: None,
    ) -> int:
        """Give back what is leased of all of them, as :meth:`Queue.give_back` does; count it."""
        give_back = functools.partial(
            Queue.give_back,
            worker=worker,
            spend=spend,
            leased_before=leased_before,
            on_given_back=on_given_back,
        )
        return self._in_each("leased", give_back, limit)

    def run_now(
        self,
        *,
        due_before: datetime.datetime | None = None,
        limit: int | None = None,
        on_ready: Callable[[int], None] = lambda _: None,
    ) -> int:
        """Make delayed items of all of them ready, as :meth:`Queue.run_now` does; count them."""
        run_now = functools.partial(Queue.run_now, due_before=due_before, on_ready=on_ready)
        return self._in_each("delayed", run_now, limit)

    def count(self, state: str) -> int:
        """Return how many items are in a state in all of them, without counting them."""
        return sum(number for _queue, number in self.counted(state))

    def _in_each(self, state: str, verb: Callable[..., int], limit: int | None) -> int:
        """Call a verb of each queue that has items in a state, up to a limit of items."""
        done = 0
        for queue, _number in self.counted(state):
            if limit is not None and done >= limit:
                break
            done += verb(queue, limit=None if limit is None else limit - done)
        return done

    def counted(self, state: str) -> Iterator[tuple[Queue, int]]:
        """Yield the queues that have items in a state, each with the number; 1,000 at a time."""
        names = iter(self._expanded() if self._by_index else self._listed().names)
        while some := [*map(self._directory.queue, itertools.islice(names, MAX_QUEUES))]:
            read = functools.partial(counts_of, queues=some)
            counts = run(self.database, read, read_only=True)
            for queue, one in zip(some, counts, strict=True):
                if (number := getattr(one, state)) > 0:
                    yield queue, number

    # What the takes share

    def _lease(
        self,
        count: int,
        end: End,
        seconds: Duration,
        worker: str | None,
        once: IdempotencyKey | str | None,
    ) -> SeveralTake:
        duration(self.name, "seconds", seconds)
        if worker is not None:
            worker_of(self.name, worker)
        who = () if worker is None else (worker,)
        facts = in_seconds(seconds), *who
        return self._take("lease", count, end, once, *facts, seconds=seconds, worker=worker)

    def _take(
        self,
        verb: str,
        count: int,
        end: End,
        once: IdempotencyKey | str | None,
        *facts: Any,
        **how: Any,
    ) -> SeveralTake:
        """Return a take; under a key it is the call that has these facts, too."""
        if type(count) is not int or not 1 <= count <= MAX_ITEMS_A_CALL:
            raise InvalidInput(queues=self.name, count=count, allowed=f"1 to {MAX_ITEMS_A_CALL}")
        if end not in ENDS:
            raise InvalidInput(queues=self.name, end=end, allowed="min, max")
        call = None
        if once is not None:
            given = *self.names, end, count, *facts, *self._group.facts
            call = make_call(self.name, once, f"{verb} from", *given)
        return SeveralTake(
            self._group,
            self._listed,
            verb,
            self.name,
            self.names[0],
            self.database,
            end,
            count,
            operator.methodcaller(f"{verb}_request", end, count, once=None, **how),
            self._responses,
            call,
        )

    async def _await(
        self, take: SeveralTake, wait: float | None, once: IdempotencyKey | str | None
    ) -> list[Item]:
        requeue = take.requeue if once is None else None
        take_once = functools.partial(take_in_thread, queue=self.name, requeue=requeue)
        return [*await take.take_in_loop(wait, take_once)]

    def _listed(self) -> Listed:
        """Return the names of the queues; of a pattern as of the last five seconds."""
        kept = self._kept
        if kept.stale_at <= monotonic():
            stale_at = monotonic() + _KEPT_SECONDS
            kept = self._kept = Listed(tuple(self._expanded()), stale_at)
        return kept

    def _expanded(self) -> Iterable[str]:
        """Return the names of the queues, each once.

        Raises:
            InvalidInput: They are more than 1,000, and not taken from by an index.
        """
        fitting: dict[str, list[str]] = {name: [] for name in self.names if "*" in name}
        found = set(self.names) - set(fitting)
        for name, patterns in self._directory.matching(tuple(fitting)):
            for pattern in patterns:
                fitting[pattern].append(name)
            found.add(name)
            if not self._by_index and len(found) > MAX_QUEUES:
                raise InvalidInput(queues=self.name, allowed=f"at most {MAX_QUEUES} queues")
        named = (fitting.get(name, (name,)) for name in self.names)
        return dict.fromkeys(itertools.chain.from_iterable(named))

    def _consumer(self, name: str) -> Consumer:
        return self._directory.queue(name).parts.consumer


class _AllowedOnly:
    """A directory in which patterns find only what a function allows."""

    def __init__(self, directory: Directory, allows: Callable[[str], bool]) -> None:
        self.database = directory.database
        self.queue = directory.queue
        self.responses = directory.responses
        self._directory = directory
        self._allows = allows

    def matching(self, patterns: Sequence[str]) -> Matching:
        """Yield the names that exist, are allowed and fit a pattern, each with these patterns."""
        return (one for one in self._directory.matching(patterns) if self._allows(one[0]))


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


def is_fair(names: Iterable[str], fair: bool | None) -> bool:
    """Tell whether queues take turns: as given, or for None if one of the names is a pattern."""
    return any("*" in name for name in names) if fair is None else bool(fair)


def _shown(names: tuple[str, ...]) -> str:
    more = len(names) - _SHOWN_NAMES
    return ", ".join(names[:_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")
