"""Take items from the queues on a walk, in one transaction, for one request or for many.

:mod:`fdbqueue.service.consume.families` says how a take goes.
"""

from __future__ import annotations

import copy
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import FormatMismatch
from fdbqueue.service.clock import now_us
from fdbqueue.service.combiner import SharedOperation
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.consumer import Consumer
from fdbqueue.service.consume.head import Order
from fdbqueue.service.consume.prospect import NEVER, prospect_of
from fdbqueue.service.consume.ring import Hint, Walk
from fdbqueue.service.consume.round import Requeue, Round, RoundResult, TakeRequest
from fdbqueue.service.items import Item
from fdbqueue.service.limits import BATCH_BYTES
from fdbqueue.service.storage.families import Prospect
from fdbqueue.service.storage.rows import End

#: How many requests of a process that are in line together a queue serves in its turn, so that its
#: reads are shared.
REQUESTS_A_TURN = 8
#: How many queues' reads are under way at the same time.
READ_AT_ONCE = 25
#: A transaction of its own ends after so many looks, or seconds.
MAX_LOOKS, _MAX_SECONDS = 1_000, 1.0
#: The size of a transaction is asked for once the values that it has taken are so long.
_MEASURED_BYTES = 100_000
#: About what an item sends besides its value.
_ITEM_BYTES = 500


class MemberRequest(SharedOperation):
    """The request of one thread, to whichever member's turn it is.

    Attributes:
        count: The most items.
        leases: Whether it leases them.
        make: Makes the request to a queue.
        requeue: Requeues what it was given.
        source: What gave it.
    """

    __slots__ = ("count", "leases", "make", "requeue", "source")

    def __init__(
        self, count: int, make: Callable[[Consumer], TakeRequest], *, leases: bool
    ) -> None:
        self.count = count
        self.leases = leases
        self.make = make
        self.requeue: Requeue | None = None
        self.source: Consumer | None = None


#: A request; and its items, its error, or the queue to take them from.
Result = tuple[MemberRequest, "list[Item] | Exception | Consumer"]


@dataclass
class Served:
    """What a transaction did for some requests.

    Attributes:
        results: The requests that it served.
        gave: From which queue those have their items that got any.
        wrote: Whether anything was written.
        expired: What had expired and was requeued, with the name of its queue.
    """

    results: list[Result] = field(default_factory=list)
    gave: dict[MemberRequest, Consumer] = field(default_factory=dict)
    wrote: bool = False
    expired: list[tuple[str, expiry.ExpiredCounts]] = field(default_factory=list)


class _Look(NamedTuple):
    """A look at one queue: who asks, by which request, in which round."""

    hint: Hint
    consumer: Consumer
    asked: dict[TakeRequest, MemberRequest]
    round: Round


class Visit:
    """One transaction that takes from the queues on its walk.

    Args:
        open_queue: Returns what takes from the queue with a name.
        tr: The transaction.
        walk: Its walk.
        end: Which end to take from.
        owns: Whether it is nobody else's: then it is bounded, and helps other processes.
        corrects: Whether it corrects the rows of those that gave nothing.
    """

    def __init__(
        self,
        open_queue: Callable[[str], Consumer],
        tr: Transaction,
        walk: Walk,
        end: End,
        *,
        owns: bool,
        corrects: bool,
    ) -> None:
        self._open = open_queue
        self._tr = tr
        self._walk = walk
        self._end: End = end
        self._owns = owns
        self._corrects = corrects
        # At the min end a round as seen depends on what it takes and what is before; who found
        # nothing depends on the row that it corrects.
        self._order = Order.AS_SEEN if owns and end == "min" else Order.STRICT
        self._until = time.monotonic() + _MAX_SECONDS
        self._looks = 0
        self._taken_bytes = self._sent_bytes = 0
        #: Those that gave all that they were asked for; and whether one of them cannot be asked
        #: again, because its help requests have versionstamps of this transaction.
        self._generous: list[Hint] = []
        self._gives_more = False
        self._empty: list[tuple[_Look, RoundResult]] = []
        #: Whether the transaction ends although there may be more.
        self.is_cut = False
        self.served = Served()

    def begin_with(self, also: Callable[[Transaction], None] | None) -> None:
        """Write something else first, if anything."""
        if also is None:
            return
        also(self._tr)
        self.served.wrote = True
        self._sent_bytes = self._tr.get_approximate_size().wait()

    def serve(self, requests: Sequence[MemberRequest]) -> Served:
        """Take items for the requests, as far as there are any; correct what gave nothing."""
        waiting = deque(requests)
        wanted = -(-len(waiting) // REQUESTS_A_TURN)
        while waiting and not self.is_cut:
            hints = self._walk.next(min(wanted, READ_AT_ONCE))
            if not hints:
                hints = self._generous[:READ_AT_ONCE]
                del self._generous[:READ_AT_ONCE]
            if not hints:
                break
            count = len(waiting)
            self._look_at(hints, waiting)
            served = count - len(waiting)
            if served:  # those that go on are as many at a queue as these have served
                wanted = min(len(waiting), -(-len(waiting) * len(hints) // served))
            else:
                wanted = max(len(waiting), 2 * len(hints))
        if not (self.is_cut or self._gives_more):
            self.served.results += [(one, []) for one in waiting]
        if self._corrects:
            self._correct()
        return self.served

    def _look_at(self, hints: Sequence[Hint], waiting: deque[MemberRequest]) -> None:
        """Serve rounds in some queues, and deal the requests to them.

        If there are more queues than requests, the rest are asked only if the others had nothing.
        """
        dealt = [*waiting]
        waiting.clear()
        looks = []
        for place, hint in enumerate(hints):
            consumer = self._open(hint.name)
            own = dealt[place :: len(hints)] or [dealt[place % len(dealt)]]
            asked = {one.make(consumer): one for one in own}
            pause = self._walk.begin_pause(consumer.taker.store.tables.member)
            begun = Round(
                consumer.taker, self._tr, self._end, [*asked], self._order, family_pause=pause
            )
            looks.append(_Look(hint, consumer, asked, begun))
        left: dict[MemberRequest, None] = dict.fromkeys(dealt)
        unasked = []
        for look in looks:
            if self.is_cut or not any(one in left for one in look.asked.values()):
                unasked.append(look.hint)
                continue
            rest = self._serve(look)
            for one in look.asked.values():
                if one not in rest:
                    left.pop(one, None)
        for hint in reversed(unasked):
            self._walk.again(hint)
        waiting.extendleft(reversed(left))

    def _serve(self, look: _Look) -> list[MemberRequest]:
        """Serve the round of one queue; return the requests that go on to the next."""
        self._looks += 1
        served = self.served
        try:
            result = look.round.serve(helps=self._owns, sent_bytes=self._sent_bytes)
        except FormatMismatch as error:
            if look.consumer.taker.store.tables.member is not None:
                self._walk.set_aside(look.hint.name, error)
                self._check_bounds(has_expired=False)
                return [*look.asked.values()]
            served.results += [(one, copy.copy(error)) for one in look.asked.values()]
            return []
        served.wrote = served.wrote or result.wrote
        if result.expired is not None:
            served.expired.append((look.consumer.name, result.expired))
        found = dict(result.results)
        rest: list[MemberRequest] = []
        gave = False
        for request, one in look.asked.items():
            items = found.get(request)
            if isinstance(items, Exception):
                served.results.append((one, items))
            elif items:
                gave = True
                self._taken_bytes += sum([item.size_bytes + _ITEM_BYTES for item in items])
                one.requeue, one.source = request.requeue, look.consumer
                served.gave[one] = look.consumer
                served.results.append((one, items))
            else:
                rest.append(one)
        self._note(look, result, gave=gave, is_short=bool(rest))
        if len(found) < len(look.asked):  # there is more, for which it had no room
            self.is_cut = self._owns
            self._walk.again(look.hint)
        self._check_bounds(has_expired=result.expired is not None)
        return rest

    def _note(self, look: _Look, result: RoundResult, *, gave: bool, is_short: bool) -> None:
        """Note what becomes of the queue's rows, and whether it may have more."""
        if not is_short and result.awaits_others and self._owns:
            self._gives_more = True
        elif not is_short:
            self._generous.append(look.hint._replace(passing=()))
        member = look.consumer.taker.store.tables.member
        if gave and look.hint.passing and member is not None:
            member.promote(self._tr, look.hint.passing)
        if result.is_with_family:  # its rows stay: to resume a family writes none
            return
        if len(result.results) == len(look.asked) and not any(has for _, has in result.results):
            self._empty.append((look, result))

    def _check_bounds(self, *, has_expired: bool) -> None:
        if has_expired or self._taken_bytes > _MEASURED_BYTES:
            self._sent_bytes = self._tr.get_approximate_size().wait()
        if self._owns and not self.is_cut:
            self.is_cut = (
                self._sent_bytes > BATCH_BYTES
                or self._looks >= MAX_LOOKS
                or time.monotonic() > self._until
            )

    def _correct(self) -> None:
        """Correct the rows of the members that gave nothing."""
        reads = []
        for look, result in self._empty:
            tables = look.consumer.taker.store.tables
            if tables.member is not None:
                first = self._tr.snapshot.get_range(*tables.dues, limit=1)
                reads.append((look, result, tables.member, first))
        now = now_us()
        for look, result, member, first in reads:
            prospect = _prospect(look, result, first, now)
            if prospect.moment is None or prospect.moment > now:
                member.correct(self._tr, prospect, look.hint.passing)
                self.served.wrote = True


def _prospect(look: _Look, result: RoundResult, first: Iterable[Any], now: int) -> Prospect:
    """Return when a member that gave nothing has something."""
    if result.is_paused:
        return NEVER
    parse = look.consumer.taker.store.tables.parse_due
    dues = [parse(bytes(row.key)) for row in first]
    return prospect_of(
        look.round.allowance,
        [due.moment for due in dues if due is not None],
        now,
        is_ready=look.round.leaves_items,
        awaits_others=result.awaits_others,
        to_lease=any(one.leases for one in look.asked.values()),
    )
