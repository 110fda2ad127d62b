"""Take all items off a queue, many at a time: to another queue, or to be kept elsewhere."""

from __future__ import annotations

import functools
import itertools
import logging
import os
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from fdbqueue.exceptions import CorruptItem, InvalidInput, ItemNotFound
from fdbqueue.service import instrumentation
from fdbqueue.service.bulk.batches import OWNER_BYTES, Batch, Batches
from fdbqueue.service.bulk.move import check_move, entry_for
from fdbqueue.service.bulk.remove import REMOVED_AT_ONCE, remove, remove_all
from fdbqueue.service.burying import Burying
from fdbqueue.service.consume.leases import MAX_SECONDS, duration
from fdbqueue.service.consume.poppers import patient
from fdbqueue.service.consume.requests import TakeRequest
from fdbqueue.service.items import Priority
from fdbqueue.service.storage.reader import End
from fdbqueue.service.storage.store import STATES
from fdbqueue.service.transactions import run

if TYPE_CHECKING:
    from fdbqueue.service.base import Queue

logger = logging.getLogger(__name__)


class Draining(Burying):
    """The parts of a queue that take everything off it."""

    # Batches

    def lease_batch(
        self,
        count: int,
        *,
        end: End = "min",
        seconds: float = 60,
        owner: bytes | None = None,
    ) -> Batch:
        """Lease items from one end under one token, for whoever moves them elsewhere.

        Several times as fast as :meth:`lease_many`. They count as ready until they are
        acknowledged, and are shown in no state. Given back, or when the time is over, they
        go back to their places as they were, with no attempt counted.

        Args:
            count: The most to take, up to 10,000.
            end: ``"min"`` or ``"max"``.
            seconds: How long, by the clocks of the clients.
            owner: Sixteen bytes by which :meth:`settle_batch` finds it; an owner has one
                batch at a time. None for nobody's.

        Returns:
            The items, in order; empty when the queue is.

        Raises:
            CorruptItem: One of them cannot be decoded; all stay where they are.
            OutcomeUnknown: It is not known whether they were leased; then they come back.
        """
        self._check_count(count)
        self._check_end(end)
        lasting = duration(self.name, "seconds", seconds)
        owner = os.urandom(OWNER_BYTES) if owner is None else owner
        effect = self._batches.effect(owner, lasting)
        request = TakeRequest(end, count, effect, requeue=self._return_patiently)
        items = instrumentation.observed(
            "lease_batch", self.name, lambda: self._poppers.take(request, self.database)
        )
        return items if isinstance(items, Batch) else Batch.empty()

    def _return_patiently(self, batch: Batch) -> None:
        give_back = functools.partial(self._batches.give_back, batch=batch)
        run(patient(self.database), give_back, wrote=lambda _: True)

    def ack_batch(self, batch: Batch, *, tr: Any = None) -> None:
        """Remove a batch's items for good.

        Also after its time, as long as nobody has brought them back.

        Raises:
            LeaseLost: It is not held any more; all its items are back in the queue, or
                with somebody else.
        """

        def ack(transaction: Any) -> int:
            self._batches.ack(transaction, batch)
            return len(batch)

        if batch:
            self._transact("ack_batch", tr, ack)

    def return_batch(self, batch: Batch, *, tr: Any = None) -> None:
        """Put a batch's items back to their places as they were.

        Raises:
            LeaseLost: It is not held any more.
        """

        def give_back(transaction: Any) -> int:
            self._batches.give_back(transaction, batch)
            return len(batch)

        if batch:
            self._transact("return_batch", tr, give_back)

    def settle_batch(self, owner: bytes, done_ids: Iterable[str] = ()) -> int:
        """Finish what an owner left behind who died: remove what is done, put back the rest.

        The items that are done are removed wherever they are by now. That is all in one
        transaction as long as the batch is held; later there is one for each 500 items.

        Args:
            owner: Whose batch.
            done_ids: The items that need not be done again; others than the batch's too.

        Returns:
            How many were removed.
        """
        done = dict.fromkeys(self._keys.place_named(item_id) for item_id in done_ids)
        settle = functools.partial(self._batches.settle, owner=owner, done=done.keys())
        removed = run(self.database, settle)
        return removed + self._remove_places(done)

    def remove_many(self, item_ids: Iterable[str]) -> int:
        """Remove items for good by their ids, whatever state they are in.

        In transactions of up to 500 items. Who holds a lease of one learns of it by
        :class:`LeaseLost`; so does who holds a batch with one in it.

        Returns:
            How many were there.
        """
        return self._remove_places(self._keys.place_named(item_id) for item_id in item_ids)

    def clear_state(self, state: str, *, on_removed: Callable[[int], None] = lambda _: None) -> int:
        """Remove the items that are in a state when it starts, in bounded transactions.

        Args:
            state: ``"ready"``, ``"leased"``, ``"delayed"`` or ``"dead"``.
            on_removed: Called after each transaction, with how many it removed.

        Returns:
            How many were removed.

        Raises:
            InvalidInput: There is no such state.
        """
        if state != "ready" and state not in STATES:
            raise InvalidInput(queue=self.name, state=state, allowed=", ".join(["ready", *STATES]))
        return remove_all(self.database, self._stock, state, on_removed)

    def bury_corrupt(self, error: CorruptItem) -> bool:
        """Put the item that an error names out of the way of all others.

        Returns:
            Whether it was still there to be moved to the dead letters.
        """
        try:
            self.bury(error.context["id"], reason=f"undecodable: {error.context['reason']}")
        except ItemNotFound:
            return False
        facts = {"queue": self.name, "item": error.context["id"]}
        logger.warning("an item that cannot be decoded was buried", extra=facts)
        return True

    # Moving

    def move_many(
        self,
        target: Queue,
        count: int,
        *,
        end: End = "min",
        priority: Any = None,
        tr: Any = None,
    ) -> int:
        """Move items from one end behind those of another queue, in one transaction.

        They come in the order in which they are taken: from the ``"max"`` end, reversed.

        Args:
            target: The queue they go to, of the same database.
            count: The most to move, up to 10,000.
            end: ``"min"`` or ``"max"``.
            priority: The priority of all of them; None for their own.
            tr: The transaction to take part in.

        Returns:
            How many were moved; 0 when this queue is empty.

        Raises:
            CorruptItem: One cannot be decoded; all stay where they are.
            InvalidInput: The move makes no sense, or the target cannot hold one of them.
        """
        check_move(cast("Queue", self), target, priority)

        def move(transaction: Any) -> int:
            return self.move_some(transaction, target, count, end, priority)[0]

        return self._transact("move", tr, move)

    def move_some(
        self, tr: Any, target: Queue, count: int, end: End, priority: Any
    ) -> tuple[int, int]:
        """Move items in a transaction, and return how many and how long their values are."""
        items = self.pop_many(count, end=end, tr=tr)
        if items:
            target.put_moved(tr, [entry_for(target, item, priority) for item in items])
        return len(items), sum([item.size_bytes for item in items])

    # Waiting

    def wait_for_items(self, seconds: float) -> bool:
        """Wait until there may be an item to take, or so many seconds are over.

        Returns:
            Whether there may be one.
        """
        watch = self._poppers.watch
        seen = watch.generation
        deadline = time.monotonic() + min(seconds, MAX_SECONDS)
        while not self._has_items():
            if time.monotonic() >= deadline:
                return False
            watch.wait(seen, deadline, database=self.database)
            seen = watch.generation
        return True

    def _has_items(self) -> bool:
        try:
            return bool(self.peek_many(1))
        except CorruptItem:
            return True

    # What they share

    @functools.cached_property
    def _batches(self) -> Batches:
        return Batches(self._stock)

    def _remove_places(self, places: Iterable[bytes]) -> int:
        rest = iter(places)
        removed = 0
        while some := list(itertools.islice(rest, REMOVED_AT_ONCE)):
            step = functools.partial(remove, stock=self._stock, places=some)
            removed += run(self.database, step)
        return removed

    def coerce_priority(self, priority: Any) -> Priority | None:
        """Return a priority in the queue's type.

        Raises:
            InvalidPriority: It does not fit.
        """
        return self._coerce(priority)
