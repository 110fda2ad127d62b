"""Lease from families beside a queue, or beside several: in turn, and without a look in vain.

A worker takes from its own queues as ever. Beside them there may be members of families, which have
items now and then. It leases from both by turns, a call each; and from the one that has something
if the other has nothing. So neither can keep the other back, whatever is in it. What the caller has
to write, such as the ends of other items, may be in the transaction that leases from the families.

Whether the families may have something is noted (:class:`Notice`) by the watch that waiters have:
once a look has found nothing, there is no other until a row of the index is written, the moment of
the first row LATER comes, or five seconds are over. Members whose limits keep their items back have
such a row. So items that wait for a limit cost nothing until it gives again. For the same reason
each lease reads the index again, a short page of it: what is left of the last one's page names
members that others have brought to their limits since. It goes on where the last lease has ended.
After a conflict it goes on at any place: the process that was in the way takes what comes next
here. That a single other queue is empty is noted likewise.

Who waits does so at the watches of both, whose generations a notice compares: it takes no waiter's
turn. Nothing is stored; a fork or a crash leaves nothing.
"""

from __future__ import annotations

import datetime
import functools
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import CorruptItem, LeaseLost
from fdbqueue.service import instrumentation
from fdbqueue.service.clock import moment, now_us
from fdbqueue.service.consume.consumer import Consumer, first_with_items, held_until
from fdbqueue.service.consume.finding import SeveralGroup
from fdbqueue.service.consume.ring import Ring, Source
from fdbqueue.service.consume.round import TakeRequest
from fdbqueue.service.consume.visits import SeveralRequest
from fdbqueue.service.consume.waiting import ItemWait, Notice, deadline_after
from fdbqueue.service.instrumentation import Operation
from fdbqueue.service.items import Item
from fdbqueue.service.queues import Queue
from fdbqueue.service.several import Directory, SeveralQueues
from fdbqueue.service.tools.family import Family
from fdbqueue.service.transactions import run
from fdbqueue.steady import monotonic

#: How many items of a member a lease of many takes, so that it takes some of others, too; one of
#: fewer than eight takes each of another.
_FROM_EACH, _MEMBERS = 4, 8
#: How many members it reads of at a time that may have something.
_PAGE_ROWS = 32


class AlternatingLeases:
    """Lease items of families, by turns with leases from other queues.

    Args:
        main: The other queues.
        directory: Finds the members' queues.
        families: The families.
        allows: Tells whether to take from a member.
    """

    def __init__(
        self,
        main: Queue | SeveralQueues,
        directory: Directory,
        families: Sequence[Family],
        allows: Callable[[str], bool],
    ) -> None:
        self._main = main
        self._directory = directory

        def source(family: Family) -> Source:
            return Source(family.keys, lambda name: allows(name) and family.has(name))

        self._families = SeveralGroup(
            directory.database,
            lambda name: directory.queue(name).parts.consumer,
            Ring(
                (),
                [source(family) for family in families],
                page_rows=_PAGE_ROWS,
                keeps_hints=False,
            ),
        )
        self._notice = Notice(self._families.watches(to_lease=True))
        watches = (
            () if isinstance(main, SeveralQueues) else (main.parts.consumer.group.lease_watch,)
        )
        self._main_notice = Notice(watches)
        self._is_first = False
        self._one_at_a_time = threading.Lock()
        self.may_be = self._notice.may_be

    def is_first(self) -> bool:
        """Tell whether the families are asked first: each second time, or if the queue is empty."""
        self._is_first = not self._is_first
        return self._is_first or not self._main_notice.may_be()

    def seen(self) -> Sequence[int]:
        """Return what to give to :meth:`note_empty`, before a look into the other queues."""
        return self._main_notice.seen()

    def note_empty(self, seen: Sequence[int]) -> None:
        """Note that a look has found nothing in the other queues; of several that is forgotten."""
        if seen:
            self._main_notice.begin(seen)

    def queue_of(self, item: Item) -> Queue:
        """Return the queue that an item was taken from."""
        return self._directory.queue(item.queue)

    def lease(
        self,
        count: int,
        *,
        seconds: float,
        worker: str,
        also: Callable[[Transaction], None] | None = None,
    ) -> list[Item]:
        """Lease items of the families in one transaction, as many of each member as it may give.

        An item that cannot be decoded becomes a dead letter, because nothing passes it. If the
        thread is interrupted behind the commit, the leases expire. Threads lease one after the
        other: at once they would meet at the same members, and most would lease nothing.

        Args:
            count: The most items.
            seconds: How long they are leased.
            worker: Who leases them.
            also: Writes something else in the same transaction, whether or not there are items.

        Raises:
            Contended: With ``also``, on an engine without reservations: other processes take these
                items, too, and nothing was done.
        """
        seen = self._notice.seen()

        def request(consumer: Consumer) -> TakeRequest:
            return consumer.lease_request("min", most, seconds, None, worker=worker)

        began = monotonic()
        most = min(_FROM_EACH, max(1, count // _MEMBERS))
        requests = [
            SeveralRequest(most, request, leases=True) for _ in range(min(_MEMBERS, count // most))
        ]
        with self._one_at_a_time:
            take_each = self._families.poppers["min"].take_each
            served = take_each(self._directory.database, requests, also)
        items: list[Item] = []
        errors: list[Exception] = []
        for _, found in served.results:
            if isinstance(found, CorruptItem):
                self._directory.queue(found.context["queue"]).bury_corrupt(found)
            elif isinstance(found, Exception):
                errors.append(found)
            elif isinstance(found, list):
                items += found
        took = monotonic() - began
        for name, number in Counter(item.queue for item in items).items():
            instrumentation.report(Operation("lease", name, took, number, None))
        if errors and not items:
            raise errors[0]
        if served.results and not (items or errors):
            self._notice.begin(seen)
        return items

    def give_back(self, tr: Transaction, item: Item) -> None:
        """Requeue a leased item of the families as it was, and give back its token of a rate.

        Raises:
            LeaseLost: Its lease is not held any more.
        """
        queue = self.queue_of(item)
        queue.requeue(item, tr=tr)
        self.give_back_token(tr, queue)

    @staticmethod
    def give_back_token(tr: Transaction, queue: Queue) -> None:
        """Give back the token of a rate that an item took which nobody has begun with."""
        taker = queue.parts.taker
        if taker.limits is not None:
            taker.limits.begin(tr, taker.store.tables, now_us()).settle().give_back(1)

    def bury_corrupt(self, error: CorruptItem) -> bool:
        """Move the item that an error names to the dead letters; tell whether it was there."""
        return self._main.bury_corrupt(error)

    def wait_for_items(
        self, seconds: float, *, waits_while: Callable[[], bool] | None = None, **_: Any
    ) -> bool:
        """Wait until there may be an item to lease in any of the queues, and tell whether so."""
        main = self._main
        watches = self._families.watches(to_lease=True)
        if not isinstance(main, SeveralQueues):
            watches = (main.parts.consumer.group.lease_watch, *watches)
        wait = ItemWait(watches)
        look = functools.partial(self._look, wait)
        deadline = deadline_after(main.name, seconds)
        return bool(wait.until(look, deadline, waits_while, main.database))

    def close(self) -> None:
        """Watch nothing any longer."""
        self._notice.close()
        self._main_notice.close()

    def _look(self, wait: ItemWait) -> bool:
        """Look whether there may be an item, and say where to wait."""
        main, families = self._main, self._families
        if isinstance(main, SeveralQueues):
            found = main.look_in(wait, to_lease=True)
            wait.watches = (*wait.watches, *families.watches(to_lease=True))
            has_items = functools.partial(families.has_items, to_lease=True)
            return found or run(main.database, has_items, read_only=True)
        consumers = (main.parts.consumer,)

        def look(tr: Transaction) -> bool:
            if first_with_items(tr, consumers, to_lease=True) is not None:
                return True
            return families.has_items(tr, to_lease=True)

        return run(main.database, look, read_only=True)

    def held_until(self, **_: Any) -> datetime.datetime | None:
        """Return until when limits keep back items that are ready, None if they keep none.

        That is over if there may be an item of the families: a lease is to look for it.
        """

        def read(tr: Transaction) -> int | None:
            if self._families.has_items(tr, to_lease=True):
                return 0
            return held_until(tr, self._families.later(tr), to_lease=True)

        found = run(self._directory.database, read, read_only=True)
        if found == 0:
            self._notice.expect()
        both = [self._main.held_until(to_lease=True), None if found is None else moment(found)]
        return min([until for until in both if until is not None], default=None)


def ack_in_several(tr: Transaction, of_queues: Mapping[Queue, Sequence[Item]]) -> None:
    """Remove leased items of several queues for good, in a transaction: all of them.

    The reads of all queues are under way before the first is awaited.

    Raises:
        LeaseLost: One is not held any more; the transaction is not to be committed.
        BatchTooLarge: The transaction can take no more.
    """
    begun = [(queue, queue.parts.acks.begin_ack(tr, items)) for queue, items in of_queues.items()]
    for queue, end in begun:
        for lease in end():
            raise LeaseLost(queue=queue.name, lease=lease)
