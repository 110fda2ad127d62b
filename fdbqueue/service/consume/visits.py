"""Take items from the members on a walk, in one transaction, for one request or for many."""

from __future__ import annotations

import copy
import itertools
import math
import operator
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import FormatMismatch
from fdbqueue.service.clock import now_us
from fdbqueue.service.combiner import SharedOperation
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.consumer import Consumer
from fdbqueue.service.consume.head import Order
from fdbqueue.service.consume.prospect import READ_AT_ONCE, begin_dues, prospect_of
from fdbqueue.service.consume.ring import Hint, Ring, Walk
from fdbqueue.service.consume.round import Requeue, Round, RoundResult, TakeRequest
from fdbqueue.service.items import Item
from fdbqueue.service.sizes import STEP_BYTES
from fdbqueue.service.storage.family_index import NEVER, Prospect
from fdbqueue.service.storage.item_keys import End
from fdbqueue.service.storage.tables import Due
from fdbqueue.steady import monotonic

_COUNT = operator.attrgetter("count")
#: How many requests of a process that are in line together a queue serves in its turn, so that its
#: reads are shared.
REQUESTS_A_TURN = 8
#: A transaction of its own ends after so many looks, or seconds.
MAX_LOOKS, _MAX_SECONDS = 1_000, 1.0
#: The size of a transaction is asked for once the values that it has taken are so long.
_MEASURED_BYTES = 100_000
#: About what an item sends besides its value.
_ITEM_BYTES = 500
#: How much of what a transaction has met is remembered for the next one.
_OLD_WEIGHT = 0.5


class SeveralRequest(SharedOperation):
    """The request of one thread, to whichever queue gives to it.

    Attributes:
        count: The most items.
        leases: Whether it leases them.
        make: Makes the request to a queue.
        requeue: Requeues what it was given.
    """

    __slots__ = ("count", "leases", "make", "requeue")

    def __init__(
        self,
        count: int,
        make: Callable[[Consumer], TakeRequest],
        *,
        leases: bool,
    ) -> None:
        self.count = count
        self.leases = leases
        self.make = make
        self.requeue: Requeue | None = None


#: A request; and its items, its error, or the name of the queue to take them from.
Result = tuple[SeveralRequest, "list[Item] | Exception | str"]


@dataclass
class Served:
    """What a transaction did for some requests.

    Attributes:
        results: The requests that it served.
        gave: From which queue those have their items that got any.
        wrote: Whether anything was written.
        expired: What had expired and was requeued, with what the log calls its queue.
    """

    results: list[Result] = field(default_factory=list)
    gave: dict[SeveralRequest, str] = field(default_factory=dict)
    wrote: bool = False
    expired: list[tuple[str, expiry.ExpiredCounts]] = field(default_factory=list)


@dataclass
class _Look:
    """A look at one queue: in which round, who asks by which request; whether there is more."""

    hint: Hint
    consumer: Consumer
    round: Round
    asked: dict[TakeRequest, SeveralRequest]
    is_unfinished: bool = False

    @property
    def leases(self) -> bool:
        """Whether items are to be leased."""
        return any(one.leases for one in self.asked.values())

    def is_at_limit(self) -> bool:
        """Tell whether its limits let it give nothing more."""
        allowance = self.round.allowance
        return allowance is not None and allowance.is_spent(leases=self.leases)


class VisitEstimate:
    """What the transactions of a process have met, by which the next one begins its reads.

    A hint: if it is wrong, members are looked at for nothing and come again, or one after another.

    Attributes:
        turn: How many requests a member can serve in its turn.
        late: How many requests join a transaction.
    """

    def __init__(self) -> None:
        self.turn = float(REQUESTS_A_TURN)
        self.late = 0.0

    def note(self, turns: Sequence[int], most: int, late: int) -> None:
        """Note what a transaction has met.

        Args:
            turns: How many requests each member served that left others to the next.
            most: The most that one served.
            late: How many requests joined.
        """
        met = max(1.0, sum(turns) / len(turns)) if turns else max(self.turn, most)
        self.turn = self.turn * _OLD_WEIGHT + met * (1 - _OLD_WEIGHT)
        self.late = self.late * _OLD_WEIGHT + late * (1 - _OLD_WEIGHT)


class Visit:
    """One transaction that takes from the queues on its walk.

    Args:
        open_queue: Returns what takes from the queue with a name.
        ring: Where the process is.
        tr: The transaction.
        walk: Its walk.
        end: Which end to take from.
        owns: Whether it is nobody else's: then it is bounded, and helps other processes.
        replaces_rows: Whether it replaces the index rows of members with nothing to give.
        estimate: What transactions before it have met; None for one that is by itself.
    """

    def __init__(
        self,
        open_queue: Callable[[str], Consumer],
        ring: Ring,
        tr: Transaction,
        walk: Walk,
        end: End,
        *,
        owns: bool,
        replaces_rows: bool,
        estimate: VisitEstimate | None = None,
    ) -> None:
        self._open = open_queue
        self._ring = ring
        self._tr = tr
        self._walk = walk
        self._end: End = end
        self._owns = owns
        self._replaces_rows = replaces_rows
        self._estimate = estimate or VisitEstimate()
        # At the min end a round as seen depends on what it takes and what is before; who found
        # nothing depends on the row that it removes.
        as_seen = owns and end == "min"
        self._order = Order.AS_SEEN if as_seen else Order.STRICT
        self._until = monotonic() + _MAX_SECONDS
        self._looks = self._late = self._most = 0
        #: How many requests each member has served that left others to the next.
        self._turns: list[int] = []
        self._taken_bytes = self._sent_bytes = 0
        #: Those that gave all that they were asked for.
        self._generous: list[Hint] = []
        #: Those that gave nothing, or all that their limits allow.
        self._spent: list[tuple[_Look, RoundResult]] = []
        #: Whether the transaction ends although there may be more.
        self.is_cut = False
        self.served = Served()

    def begin_with(self, also: Callable[[Transaction], None]) -> None:
        """Write something else first."""
        also(self._tr)
        self.served.wrote = True
        self._sent_bytes = self._tr.get_approximate_size().wait()

    def serve(
        self,
        requests: Sequence[SeveralRequest],
        joined: Callable[[], Sequence[SeveralRequest]] | None = None,
    ) -> Served:
        """Take items for the requests, as far as there are any; replace rows of what gave none.

        Args:
            requests: Those in line when it begins.
            joined: Takes up those that joined the line since; None if there is no line. They get
                items, which the commit verifies; they are not told that there are none.
        """
        waiting = deque(requests)
        estimate = self._estimate
        wanted = math.ceil((len(waiting) + round(estimate.late)) / estimate.turn)
        while waiting and not self.is_cut:
            hints = self._walk.next(min(wanted, READ_AT_ONCE))
            if not hints:
                hints = self._generous[:READ_AT_ONCE]
                del self._generous[:READ_AT_ONCE]
            if not hints:
                break
            count = len(self.served.results)
            self._visit(hints, waiting, joined)
            served = len(self.served.results) - count
            if not waiting and joined is not None:
                self._admit(waiting, joined)
            if served:  # those that go on are as many at a queue as these have served
                wanted = min(len(waiting), -(-len(waiting) * len(hints) // served))
            else:
                wanted = max(len(waiting), 2 * len(hints))
        if self._most:
            self._estimate.note(self._turns, self._most, self._late)
        if waiting and not self.is_cut:
            early = frozenset(requests)
            self.served.results += [(one, []) for one in waiting if one in early]
        if self._replaces_rows and self._spent:
            self._replace_rows()
        return self.served

    def _admit(
        self,
        waiting: deque[SeveralRequest],
        joined: Callable[[], Sequence[SeveralRequest]],
    ) -> None:
        """Let late requests wait, too."""
        late = joined()
        self._late += len(late)
        waiting += late

    def _visit(
        self,
        hints: Sequence[Hint],
        waiting: deque[SeveralRequest],
        joined: Callable[[], Sequence[SeveralRequest]] | None,
    ) -> None:
        """Serve rounds in some members: in its turn each gives to eight requests, as it has items.

        Those that nobody needs any more come again.
        """
        looks = self._begin(hints, waiting)
        again: list[Hint] = []
        for look in looks:
            if not waiting and joined is not None:
                self._admit(waiting, joined)
            if self.is_cut or not waiting:
                again.append(look.hint)
                continue
            items = look.round.first_items() if len(waiting) > 1 else 1
            for one in itertools.islice(waiting, REQUESTS_A_TURN):  # at least one
                look.asked[one.make(look.consumer)] = one
                items -= one.count
                if items <= 0:
                    break
            done = self._serve(look)
            for one in done:
                waiting.remove(one)
            self._most = max(self._most, len(done))
            if waiting:
                self._turns.append(len(done))
            if look.is_unfinished:
                again.append(look.hint)
        for hint in reversed(again):
            self._walk.again(hint)

    def _begin(self, hints: Sequence[Hint], waiting: Iterable[SeveralRequest]) -> list[_Look]:
        """Begin rounds in some members, to read as many items as each gives in its turn."""
        turn = [*itertools.islice(waiting, REQUESTS_A_TURN)]
        items = sum(map(_COUNT, turn)) + min(
            round(self._estimate.late), REQUESTS_A_TURN - len(turn)
        )
        looks = []
        for hint in hints:
            consumer = self._open(hint.name)
            member = consumer.taker.store.tables.member
            pause = None if member is None else self._walk.pauses.get(member.paused)
            begun = Round(
                consumer.taker,
                self._tr,
                self._end,
                (),
                self._order,
                limit=items,
                family_pause=pause,
                is_last=not self._owns,
            )
            looks.append(_Look(hint, consumer, begun, {}))
        return looks

    def _serve(self, look: _Look) -> list[SeveralRequest]:
        """Serve the round of one queue; return the requests that are served with it."""
        self._looks += 1
        served, consumer = self.served, look.consumer
        try:
            result = look.round.serve(
                early=[*look.asked], helps=self._owns, sent_bytes=self._sent_bytes
            )
        except FormatMismatch as error:
            if self._ring.passes_over(consumer.taker.store.tables.member, consumer.name, error):
                self._check_bounds(has_expired=False)
                return []
            served.results += [(one, copy.copy(error)) for one in look.asked.values()]
            return [*look.asked.values()]
        served.wrote = served.wrote or result.wrote
        if result.expired is not None:
            served.expired.append((consumer.taker.store.home, result.expired))
        found = dict(result.results)
        done: list[SeveralRequest] = []
        gave = False
        for request, one in look.asked.items():
            items = found.get(request)
            if not items:
                continue
            done.append(one)
            if isinstance(items, Exception):
                served.results.append((one, items))
                continue
            gave = True
            for item in items:
                self._taken_bytes += item.size_bytes + _ITEM_BYTES
            one.requeue = request.requeue
            served.gave[one] = look.hint.name
            served.results.append((one, items))
        if len(found) < len(look.asked):  # there is more, for which it had no room
            self.is_cut = self._owns
            look.is_unfinished = True
        self._note(look, result, gave=gave, served=len(done))
        self._check_bounds(has_expired=result.expired is not None)
        return done

    def _note(self, look: _Look, result: RoundResult, *, gave: bool, served: int) -> None:
        """Note what becomes of the queue's rows, and whether it may have more."""
        is_spent = gave and look.round.allowance is not None and look.is_at_limit()
        # to resume a family writes no rows: they stay
        if (is_spent or not served) and not (look.is_unfinished or result.is_with_family):
            self._spent.append((look, result))
            if is_spent and self._replaces_rows:
                return
        hint, member = look.hint, look.consumer.taker.store.tables.member
        if served == len(look.asked) and not is_spent:
            self._generous.append(Hint(hint.name, ()) if hint.passing else hint)
        if gave and hint.passing and member is not None:
            member.promote(self._tr, hint.passing)

    def _check_bounds(self, *, has_expired: bool) -> None:
        if has_expired or self._taken_bytes > _MEASURED_BYTES:
            self._sent_bytes = self._tr.get_approximate_size().wait()
        if self._owns and not self.is_cut:
            is_long = self._looks >= MAX_LOOKS or monotonic() > self._until
            self.is_cut = is_long or self._sent_bytes > STEP_BYTES

    def _replace_rows(self) -> None:
        """Replace the rows of the members that gave nothing, or are at their limits now."""
        reads = []
        for look, result in self._spent:
            taker = look.consumer.taker
            if taker.store.tables.member is not None:
                reads.append((look, result, begin_dues(self._tr, taker)))
        for look, result, dues in reads:
            prospect = _prospect(look, result, dues())
            member = look.consumer.taker.store.tables.member
            if member is not None and not prospect.is_now:
                member.replace_rows(self._tr, prospect, look.hint.passing)
                self.served.wrote = True


def _prospect(look: _Look, result: RoundResult, dues: Sequence[Due]) -> Prospect:
    """Return when a member that has nothing to give has something."""
    if result.is_paused:
        return NEVER
    return prospect_of(
        look.round.allowance,
        dues,
        now_us(),
        is_ready=look.round.leaves_items,
        to_lease=look.leases,
    )
