"""Queues: every verb, checked here and handed to the part that does it.

Each verb runs in a transaction of its own, or takes part in the caller's when it is given
``tr``: then nothing is committed here, the verb sees what the transaction has written, and
its effect is the caller's to commit with whatever else the transaction writes.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fdb.subspace_impl import Subspace

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import CorruptItem, InvalidInput, text_of_error
from fdbqueue.service.aio import AsyncVerbs
from fdbqueue.service.assembly import QueueParts, assemble
from fdbqueue.service.browse import Overview
from fdbqueue.service.bulk.move import check_move, move_now
from fdbqueue.service.bulk.recount import recount
from fdbqueue.service.bulk.remove import (
    clear,
    remove_all,
    remove_one,
    remove_places,
)
from fdbqueue.service.bulk.reshape import reshape
from fdbqueue.service.clock import moment
from fdbqueue.service.codecs import Codec, codec_named
from fdbqueue.service.consume.consumer import first, first_with_items, held_until
from fdbqueue.service.consume.dead_letters import ChosenDead
from fdbqueue.service.consume.pauses import Pause
from fdbqueue.service.consume.waiting import deadline_after
from fdbqueue.service.entries import NoPriorities, Priorities, PriorityType
from fdbqueue.service.idempotency import IdempotencyKey
from fdbqueue.service.items import NOT_GIVEN, DeadReason, Duration, Held, Item, Page, Priority, Push
from fdbqueue.service.moments import Order
from fdbqueue.service.options import QueueKeywords, QueueOptions
from fdbqueue.service.push import Prepared
from fdbqueue.service.sizes import ITERATED_ITEMS, LEASE_SECONDS, MAX_ITEMS_A_CALL
from fdbqueue.service.storage.counts import HISTORY_MINUTES, Counts, Minute
from fdbqueue.service.storage.family_index import Member
from fdbqueue.service.storage.item_keys import ENDS, End, FifoKeys, ItemKeys, PriorityKeys
from fdbqueue.service.transactions import run

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")


class Queue(AsyncVerbs):
    """What FIFO queues and priority queues have in common.

    What arguments mean in every verb that has them:

    - ``tr``: the transaction to take part in, which the caller commits; None for one of its own.
    - ``once``: an idempotency key. The same call under the same key returns the same for a day and
      takes effect once, also after an unknown outcome, unless the queue is cleared meanwhile.
      ``IdempotencyKeyReused`` is raised, and nothing changed, where another call has used the key.
    - ``end``: ``"min"`` or ``"max"``. ``count``: the most items, up to 10,000.
    - ``wait``: for how many seconds to wait for an item where there is none; not with ``tr``.
    - ``waits_while``: called each time before it takes, and about once a second while it waits;
      False ends the call, and nothing is taken or saved under the key.
    - ``seconds`` of a lease: a number or a ``timedelta``, up to ten years. By the clocks of the
      clients, so keep it long against their skew.
    - ``worker``: who leases, a text of 1 to 200 printable characters. :attr:`Item.worker` shows
      it while the lease is held, :attr:`Item.failures` afterwards. It belongs to the call.
    - ``delay``, ``not_before``: for how long (as ``seconds``), or until when (with its time zone),
      to hide items. Then the next pop or lease puts them at the places that the push gave them.
      Under a key, 5 and ``timedelta(seconds=5)`` are the same call.

    And errors: ``InvalidInput``, for arguments, means that nothing was changed. ``OutcomeUnknown``:
    it is not known whether the commit took effect; a lease then expires. ``CorruptItem``: an item
    cannot be decoded; all stay where they are. ``FormatMismatch``: the queue was written under
    other settings that decide how (kind, codec, priority type, order, shards); nothing was changed.
    Whatever writes, reads, removes or buries items may raise it; acks and extends do not.

    Attributes:
        database: Where it is.
        subspace: Its own place.
        name: What errors, observers and pages call it.
        home: The name of the queue that it is a part of, which only a catalog says; else its own.
        owner: The app that alone pushes and takes its items; None for the project.
        label_of: Returns what readers call it, by its name, which only a catalog says.
        workers: The rows of workers (:class:`Presences`), which only a catalog has; else None.
        kind: ``"fifo"`` or ``"priority"``.
        codec: How its values become bytes.
        priority_type: ``"int"`` or ``"float"``; None where there are no priorities.
        options: Its options.
        parts: What it is made of, for what is built over queues.
    """

    kind: str
    _keys: type[ItemKeys]
    #: Whether :meth:`lease_many` can acknowledge other items in its transaction.
    acks_with_leases = True

    def __init__(
        self,
        database: Database,
        subspace: Subspace,
        *,
        name: str | None = None,
        member: Member | None = None,
        limits_at: bytes | None = None,
        **options: Unpack[QueueKeywords],
    ) -> None:
        self.database = database
        self.subspace = subspace
        self.name = self.home = name if name is not None else repr(subspace.key())
        self.owner: str | None = None
        self.label_of: Callable[[str], str] = str
        self.workers: Any = None
        self.options = checked = QueueOptions.checked(self.name, options)
        codec = checked.codec
        self.codec: Codec = codec_named(codec) if isinstance(codec, str) else codec
        keys = self._keys(subspace, checked.shards or 0)
        self._priorities: Priorities = NoPriorities(self.name)
        if keys.has_priorities:
            self._priorities = PriorityType(checked.priority_type, self.name)
        self.priority_type = self._priorities.name
        self.parts: QueueParts = assemble(
            database,
            keys,
            self.name,
            self.kind,
            self.codec,
            self._priorities,
            checked,
            member,
            limits_at,
        )
        self._store = self.parts.store
        self._runner = self.parts.runner
        self._pusher = self.parts.pusher
        self._browser = self.parts.browser
        self._counters = self.parts.counters
        self._consumer = self.parts.consumer
        self._acks = self.parts.acks

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @property
    def label(self) -> str:
        """What readers call it: its name, unless it is a part of another queue."""
        return self.label_of(self.name)

    @property
    def is_part(self) -> bool:
        """Whether it is a part of another queue, its home."""
        return self.home != self.name

    # Push

    def push(
        self,
        value: Any,
        priority: Any = NOT_GIVEN,
        *,
        delay: Duration | None = None,
        not_before: datetime.datetime | None = None,
        unique: str | None = None,
        unique_while: str = "pending",
        once: IdempotencyKey | str | None = None,
        tr: Transaction | None = None,
    ) -> Item:
        """Push a value at the end of the queue, after the items of the same priority.

        Args:
            value: What the codec can encode, in at most ``max_value_bytes``.
            priority: A number that fits the queue's priority type: not NaN, infinity or a
                boolean, not an integer beyond 64 bits, not a fraction in an int queue; 0
                where it is not given. A FIFO queue has no priorities.
            unique: A key of 1 to 1,000 bytes in UTF-8, which at most one item of the queue has
                at a time; None for none. Only pushes of one key conflict with each other.
            unique_while: How long the item has its key: ``"ready"``, until a pop or a lease
                takes it, or ``"pending"``, until it is done: popped, acknowledged, dead, removed or
                moved. Of an item that returns without its key there may be a second one.

        Returns:
            The item as pushed, its priority in the queue's type. Where an item has the unique
            key, that item, its :attr:`Item.existing` true, and nothing was pushed.

        Raises:
            InvalidPriority: The priority does not fit; nothing was written.
            InvalidValue: The codec cannot encode the value; nothing was written.
            ValueTooLarge: The encoded value is too long; nothing was written.
        """
        push = Push(value, priority, delay, not_before, unique, unique_while)
        return self._pusher.prepare(push, once)(tr)[0]

    def push_many(
        self,
        items: Iterable[Any],
        *,
        delay: Duration | None = None,
        not_before: datetime.datetime | None = None,
        tr: Transaction | None = None,
    ) -> int:
        """Put values at the end of the queue, in their order, and return how many.

        They go in as few transactions as FoundationDB's limits allow, each all or nothing;
        other clients may push in between. With ``tr`` all go into that one, and its limits
        (10,000,000 bytes) are the caller's to keep.

        Args:
            items: Any number of values, read as they are needed; for a priority queue,
                ``(value, priority)`` pairs.

        Raises:
            PushInterrupted: It failed when some were in the queue already, or a commit's
                outcome is unknown; the context says how many are in.
            InvalidInput: The queue does not take one of them, and none was pushed.
        """
        return self._pusher.push_many(items, delay, not_before, tr)

    def push_batch(
        self,
        pushes: Sequence[Push],
        *,
        once: IdempotencyKey | str | None = None,
        tr: Transaction | None = None,
    ) -> list[Item]:
        """Put values into the queue in one transaction: all of them in their order, or none.

        Args:
            pushes: The values, each with what belongs to it; at most 5,000,000 bytes together
                once encoded, and about 9,000,000 with their keys. An item that is found by its
                unique key counts in place of its value.

        Raises:
            InvalidInput: The queue does not take one of them, ``context["index"]``.
            BatchTooLarge: They are too large together; nothing was written.
        """
        return self._pusher.prepare_batch(pushes, once)(tr)

    def prepare(
        self,
        push: Push,
        *,
        once: IdempotencyKey | str | None = None,
        beside: Callable[[Transaction, str], None] | None = None,
    ) -> Prepared:
        """Check and encode a value now, to be pushed later.

        Later changes of the value's object have no effect. A delay, and the time at which the
        item says that it was pushed, are counted from this call.

        Args:
            beside: Writes something more in the transaction that pushes: both are committed, or
                neither. Called with that transaction, in which pushes of other threads may take
                part, and the id of the item (empty in a queue in commit order, which gives the id
                with the commit); not if an item with the unique key, or the saved response of the
                call, is found. It may only write, to keys that no other call writes, and it may
                run again. What it raises prevents the push.

        Returns:
            A function to call once: with the transaction to take part in, or None for one of
            its own. It pushes the value, and returns a list of the one item.
        """
        return self._pusher.prepare(push, once, beside)

    def prepare_batch(
        self, pushes: Sequence[Push], *, once: IdempotencyKey | str | None = None
    ) -> Prepared:
        """Check and encode values now, to be pushed later in one transaction.

        As :meth:`prepare` and :meth:`push_batch` say.
        """
        return self._pusher.prepare_batch(pushes, once)

    # Pop

    def pop_min(self, *, wait: float | None = None, tr: Transaction | None = None) -> Item | None:
        """Take the first item, None when the queue is empty.

        It is the earliest pushed of the lowest priority. Strict, unless the queue has shards: it
        was the first when it was taken, at some moment of this call. Threads of a process share
        transactions; processes that meet at one end take items for each other.
        """
        request = self._consumer.pop_request("min", 1, None)
        return first(self._consumer.take(request, wait, tr))

    pop = pop_min

    def pop_max(self, *, wait: float | None = None, tr: Transaction | None = None) -> Item | None:
        """Take the last item: the latest pushed of the highest priority.

        The other end of the order of :meth:`pop_min`, with the same promises.
        """
        request = self._consumer.pop_request("max", 1, None)
        return first(self._consumer.take(request, wait, tr))

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
        """Take items from one end in one transaction: all of them, or none.

        Under a key ``wait`` may differ, and that there were no items is saved, too.

        Returns:
            The items in the order single pops would have given; empty when the queue is.
            Fewer than asked when the queue holds fewer, or after 5,000,000 stored bytes;
            under a key, which keeps a copy of them, after about 4,500,000. With ``tr`` empty, too,
            if the first 11,000 leases that have expired were all the last of their items.
        """
        self._check(count, end)
        request = self._consumer.pop_request(end, count, once)
        return self._consumer.take(request, wait, tr, waits_while)

    # Lease

    def lease_min(
        self,
        *,
        seconds: Duration = LEASE_SECONDS,
        wait: float | None = None,
        worker: str | None = None,
        tr: Transaction | None = None,
    ) -> Item | None:
        """Hide the first item until it is acknowledged, given up, or the time is over.

        Where the lease expires, the next pop or lease returns the item to its place with its
        attempts one higher, or moves it to the dead letters.

        Returns:
            The item, its :attr:`Item.lease` being what :meth:`ack` takes; None when the
            queue is empty.
        """
        request = self._consumer.lease_request("min", 1, seconds, None, worker=worker)
        return first(self._consumer.take(request, wait, tr))

    lease = lease_min

    def lease_max(
        self,
        *,
        seconds: Duration = LEASE_SECONDS,
        wait: float | None = None,
        worker: str | None = None,
        tr: Transaction | None = None,
    ) -> Item | None:
        """Lease the last item: the other end of the order of :meth:`lease_min`."""
        request = self._consumer.lease_request("max", 1, seconds, None, worker=worker)
        return first(self._consumer.take(request, wait, tr))

    def lease_many(
        self,
        count: int,
        *,
        end: End = "min",
        seconds: Duration = LEASE_SECONDS,
        wait: float | None = None,
        waits_while: Callable[[], bool] | None = None,
        worker: str | None = None,
        ack: Iterable[Item | str] = (),
        beside: Callable[[Transaction], None] | None = None,
        once: IdempotencyKey | str | None = None,
        tr: Transaction | None = None,
    ) -> list[Item]:
        """Lease items from one end in one transaction, each under a token of its own.

        At most as many as one transaction can write: some thousands. The same call under the same
        key returns the same tokens, whether the leases are still held or not.

        Args:
            ack: Up to 1,000 leased items, or their tokens, that are done: they are removed for
                good in the transaction that leases. If there is nothing to lease, they are removed
                before the call waits. What ends the wait by an error then has ``outcome_known``
                False and ``acknowledged`` True, and the same call under its key goes on to lease.
            beside: Writes something more in the transaction that removes the items of
                ``ack``, as in :meth:`ack`.

        Raises:
            LeaseLost: One of ``ack`` is not held any more; nothing was removed or leased.
            Contended: With ``beside``: other processes take items, and cannot write what this one
                can; nothing was removed or leased. Acknowledge and lease apart.
            BatchTooLarge: ``ack`` is more than one transaction can remove, which is
                ``context["most"]``; nothing was removed or leased.
            OutcomeUnknown: With ``acknowledged`` True: they were removed, and an error came before
                anything was leased.
        """
        self._check(count, end)
        request = self._consumer.lease_request(end, count, seconds, once, ack, worker, beside)
        return self._consumer.take(request, wait, tr, waits_while)

    def ack(
        self,
        lease: Item | str,
        *,
        beside: Callable[[Transaction], None] | None = None,
        once: IdempotencyKey | str | None = None,
        tr: Transaction | None = None,
    ) -> None:
        """Remove a leased item, given as the item or its token, for good.

        Also after its time, as long as no pop or lease has returned it to the queue.

        Args:
            beside: Writes something more in the transaction that removes it: both are committed,
                or neither. Called with that transaction, in which calls of other threads may take
                part, once the lease is known to be held. It may only write, to keys that no other
                call writes, and it may run again. What it raises prevents the ack.

        Raises:
            LeaseLost: It is not held any more; another worker may have the item.
            InvalidInput: It is not a lease's token of this queue.
        """
        self._acks.ack(lease, once, tr, beside)

    def ack_many(
        self,
        leases: Iterable[Item | str],
        *,
        once: IdempotencyKey | str | None = None,
        tr: Transaction | None = None,
    ) -> Held:
        """Remove up to 10,000 leased items for good, in one transaction.

        Returns:
            How many were still held, and are gone now; its ``lost`` names the others.

        Raises:
            InvalidInput: One is not a lease's token of this queue; nothing was changed.
            BatchTooLarge: They are more than one transaction can remove, which is
                ``context["most"]``; nothing was changed.
        """
        return self._acks.ack_many(leases, once, tr)

    def nack(
        self,
        lease: Item | str,
        *,
        delay: Duration | None = None,
        reason: str = "given up",
        retry: bool = True,
        once: IdempotencyKey | str | None = None,
        tr: Transaction | None = None,
    ) -> None:
        """Give a leased item up: it returns to its place with its attempts one higher.

        The last attempt of a queue with ``max_attempts`` moves it to the dead letters.

        Args:
            lease: The item, or its token.
            delay: For how long to keep it hidden.
            reason: What the dead letter says, clipped at 1,000 characters.
            retry: False moves it to the dead letters at once.

        Raises:
            LeaseLost: It is not held any more.
            InvalidInput: It is not a lease's token of this queue.
        """
        self._acks.nack(lease, delay, reason, once, tr, retry=retry)

    def requeue(self, lease: Item | str, *, tr: Transaction | None = None) -> None:
        """Requeue a leased item as it was: it returns to its place, and no attempt is counted.

        For work that has not begun; all else is :meth:`nack`, or it would come back for ever.

        Raises:
            LeaseLost: It is not held any more.
            InvalidInput: It is not a lease's token of this queue.
        """
        self._acks.requeue(lease, tr)

    def nack_many(
        self,
        leases: Iterable[Item | str],
        *,
        delay: Duration | None = None,
        reason: str = "given up",
        once: IdempotencyKey | str | None = None,
        tr: Transaction | None = None,
    ) -> Held:
        """Give up to 1,000 leased items up in one transaction, as :meth:`nack` does.

        A ``tr`` is not to be committed after an error.

        Returns:
            How many were still held, and are given up now; its ``lost`` names the others.

        Raises:
            InvalidInput: One is not a lease's token of this queue; nothing was changed.
            BatchTooLarge: Their values are over about 8,500,000 bytes together, too much for
                one transaction; nothing was changed.
        """
        return self._acks.nack_many(leases, delay, reason, once, tr)

    def extend(
        self,
        lease: Item | str,
        seconds: Duration = LEASE_SECONDS,
        *,
        once: IdempotencyKey | str | None = None,
        tr: Transaction | None = None,
    ) -> Item:
        """Extend a lease to end the given time from now.

        A key keeps a copy of the item.

        Returns:
            The item, under the same token.

        Raises:
            LeaseLost: It is not held any more.
            InvalidInput: It is not a lease's token of this queue.
        """
        return self._acks.extend(lease, seconds, once, tr)

    def extend_many(
        self,
        leases: Iterable[Item | str],
        seconds: Duration = LEASE_SECONDS,
        *,
        once: IdempotencyKey | str | None = None,
        tr: Transaction | None = None,
    ) -> Held:
        """Extend up to 1,000 leases to end the given time from now.

        In one transaction; a ``tr`` is not to be committed after an error.

        Returns:
            How many were still held, and end later now; its ``lost`` names the others.

        Raises:
            InvalidInput: One is not a lease's token of this queue; nothing was changed.
            BatchTooLarge: They are too much for one transaction, as for :meth:`nack_many`.
        """
        return self._acks.extend_many(leases, seconds, once, tr)

    @contextlib.contextmanager
    def leased(
        self,
        *,
        end: End = "min",
        seconds: Duration = LEASE_SECONDS,
        wait: float | None = None,
        worker: str | None = None,
    ) -> Iterator[Item | None]:
        """Lease an item for the length of a ``with`` block.

        It is acknowledged at the end of the block, and given up where the block raises.

        Raises:
            LeaseLost: The block took longer than the lease, and the item has returned to the
                queue; raised at the end of the block.
        """
        item = first(self.lease_many(1, end=end, seconds=seconds, wait=wait, worker=worker))
        if item is None:
            yield None
            return
        try:
            yield item
        except BaseException as error:
            with contextlib.suppress(Exception):  # what the block raised matters more
                self.nack(item, reason=text_of_error(error))
            raise
        self.ack(item)

    def wait_for_items(
        self,
        seconds: float,
        *,
        to_lease: bool = False,
        waits_while: Callable[[], bool] | None = None,
    ) -> bool:
        """Wait until there may be an item to take, at most this many seconds; tell whether so.

        To lease it (``to_lease``), also while ``max_leased`` keeps items back.
        """
        consumer, deadline = self._consumer, deadline_after(self.name, seconds)
        item_wait = consumer.lease_wait if to_lease else consumer.item_wait
        find = functools.partial(first_with_items, consumers=(consumer,), to_lease=to_lease)
        look = functools.partial(self._runner.read, None, find)
        return item_wait.until(look, deadline, waits_while, self.database) is not None

    def held_until(
        self, *, to_lease: bool = False, tr: Transaction | None = None
    ) -> datetime.datetime | None:
        """Return until when the queue's limits keep back items that are ready.

        At the ``rate`` when there is a token; at ``max_leased`` when the next lease expires, though
        one may end before. A moment that is over if they keep nothing back. By this client's clock.

        Args:
            to_lease: Whether to look at ``max_leased``, too, which keeps back from leases alone.

        Returns:
            The moment; None if the queue has no limits, is empty, or is paused.
        """
        held = functools.partial(held_until, consumers=(self._consumer,), to_lease=to_lease)
        found = self._runner.read(tr, held)
        return None if found is None else moment(found)

    # Pause

    def pause(self, *, reason: str | None = None, tr: Transaction | None = None) -> Pause:
        """Let pops and leases find nothing, until the queue is resumed; pushes go on.

        Strict: what is taken was taken before; items that a process had taken for another by then,
        which count as ready, are still given to it. Pops and leases that wait go on waiting. Leases
        that are held can be acknowledged, given up and extended; those that expire, and delays that
        end, are seen to once the queue is resumed. Peeks and pages show the items. Removing all
        items leaves the queue paused.

        Args:
            reason: Why, clipped at 1,000 characters. A queue that is paused already keeps its time
                and, unless a new one is given, its reason.
        """
        return self.parts.pausing.pause(reason, tr)

    def resume(self, *, tr: Transaction | None = None) -> bool:
        """Let pops and leases take items again, and wake poppers; tell if it was paused."""
        return self.parts.pausing.resume(tr)

    def paused(self, *, tr: Transaction | None = None) -> Pause | None:
        """Return since when and why the queue is paused, None where it is not."""
        return self.parts.pausing.paused(tr)

    # Look at items

    def peek_min(self, *, tr: Transaction | None = None) -> Item | None:
        """Return the first item, None when the queue is empty.

        It is what ``pop_min`` would take; with shards a pop takes one near it.
        """
        return first(self.peek_many(1, end="min", tr=tr))

    peek = peek_min

    def peek_max(self, *, tr: Transaction | None = None) -> Item | None:
        """Return the last item, as :meth:`peek_min` returns the first."""
        return first(self.peek_many(1, end="max", tr=tr))

    def peek_many(
        self, count: int, *, end: End = "min", tr: Transaction | None = None
    ) -> list[Item]:
        """Return the first items from one end, in strict order, and leave them where they are.

        Those are included whose lease or delay has expired, and that no pop or lease has
        returned to their places yet: as many as the next would return, 100 at most, or the first
        that becomes ready if there is nothing else. It is looked for among 1,000 of them in a
        transaction: without ``tr`` in as many as it takes, with ``tr`` only among the first, so
        that there may seem to be none if these are all dead letters from the next pop on.
        """
        self._check(count, end)
        peek = functools.partial(self._browser.peek, count=count, end=end)
        items, passed = self._runner.read(tr, peek)
        while passed is not None and tr is None:
            items, passed = self._runner.read(None, functools.partial(peek, passed=passed))
        return items

    def get(self, item_id: str, *, tr: Transaction | None = None) -> Item:
        """Return the item with an id, whatever state it is in, with its last failures.

        Its value is :class:`Undecodable` where the codec cannot read it.

        Raises:
            InvalidInput: It is not an item's id in this queue.
            ItemNotFound: The item is not there, or not any more.
        """
        place = self._store.keys.place_named(item_id)
        read = functools.partial(self._browser.get, place=place, item_id=item_id)
        return self._runner.read(tr, read)

    def has_item(self, item_id: str, *, tr: Transaction | None = None) -> bool:
        """Tell whether an item is in the queue, whatever state it is in.

        Unlike :meth:`get` it also finds one on its way to a popper: by a snapshot read of all
        handoffs, if it is nowhere else.

        Raises:
            InvalidInput: It is not an item's id in this queue.
        """
        place = self._store.keys.place_named(item_id)
        return self._runner.read(tr, functools.partial(self._browser.has_item, place=place))

    def page(
        self,
        *,
        end: End = "min",
        after: str | None = None,
        limit: int = 100,
        min_priority: Any = None,
        max_priority: Any = None,
        state: str = "ready",
        order: Order = "place",
        tr: Transaction | None = None,
    ) -> Page:
        """Return some items in order, from one end or after a given item.

        Its cost depends on the number of items returned, not on the length of the queue.
        Pages stay right while other clients push and pop: an item is on the page its place
        falls on when the page is read.

        Args:
            end: Which end the order starts from.
            after: The id of the item before the first (not in the order of time), or the cursor
                of the page before; the item need not exist any more.
            limit: The most items, up to 10,000; a page ends after 5,000,000 stored bytes.
            min_priority: The lowest priority to show, itself included.
            max_priority: The highest priority to show, itself included.
            state: ``"ready"``, ``"leased"``, ``"delayed"`` or ``"dead"``. Expired leases and
                delays stay where they are until the next pop or lease.
            order: ``"place"``, or ``"time"``: leased and delayed items by when that ends, dead
                letters by when they died; from the end ``"min"`` the earliest is the first.

        Raises:
            InvalidInput: ``after`` is not of this list, there is no such state, it does not have
                this order, or a FIFO queue was given a priority.
            InvalidPriority: A bound does not fit the queue's priority type.
        """
        self._check(limit, end)
        read = self._browser.page(end, after, limit, min_priority, max_priority, state, order)
        return Page([], None) if read is None else self._runner.read(tr, read)

    def iterate(
        self, *, end: End = "min", after: str | None = None, **bounds: Any
    ) -> Iterator[Item]:
        """Yield all items in order, a page at a time, each in a transaction of its own.

        The whole is not a snapshot: it shows each place as it was when it was reached. Takes
        the bounds and the state of :meth:`page`.
        """
        while True:
            page = self.page(end=end, after=after, limit=ITERATED_ITEMS, **bounds)
            yield from page.items
            if page.cursor is None:
                return
            after = page.cursor

    def __iter__(self) -> Iterator[Item]:
        return self.iterate()

    # Count

    def size(self, *, tr: Transaction | None = None) -> int:
        """Return how many items are ready, without counting them.

        Items whose lease or delay has expired are not, until the next pop or lease.
        """
        return self._runner.read(tr, self._counters.size)

    def counts(self, *, tr: Transaction | None = None) -> Counts:
        """Return how many items are ready, leased, delayed and dead, without counting them."""
        return self._runner.read(tr, lambda transaction: self._counters.begin_counts(transaction)())

    def by_priority(
        self, *, after: Any = None, limit: int = 1_000, tr: Transaction | None = None
    ) -> list[tuple[Priority, int]]:
        """Return the priorities of ready items, lowest first, each with their number.

        At most ``limit`` of them, up to 10,000, and only those above ``after``.
        """
        self._check(limit, "min")
        above = self._priorities.bound(after)
        count = functools.partial(self._counters.by_priority, after=above, limit=limit)
        return self._runner.read(tr, count)

    def oldest(self, *, tr: Transaction | None = None) -> datetime.datetime | None:
        """Return when the oldest ready item was pushed.

        In a FIFO queue that is the first item that says when it was pushed; an item whose value
        cannot be decoded may say it, too. None when there are no items, or where it is not known:
        none of the first 100 says it, or the codec keeps no such record. A queue that was written
        under other settings is not noticed: it is the oldest item that these show.
        """
        return self._runner.read(tr, lambda reading: self.overview.begin_oldest(reading)()())

    def history(self, minutes: int = 60, *, tr: Transaction | None = None) -> list[Minute]:
        """Return how many items were pushed and taken in each of the last minutes.

        In order, the present minute last, and those without any work included.

        Args:
            minutes: How many, up to 1,440: a day.
        """
        if isinstance(minutes, bool) or not isinstance(minutes, int):
            raise InvalidInput(queue=self.name, minutes=minutes, allowed="a number")
        if not 1 <= minutes <= HISTORY_MINUTES:
            raise InvalidInput(queue=self.name, minutes=minutes, allowed=f"1 to {HISTORY_MINUTES}")
        return self._runner.read(tr, functools.partial(self._counters.history, minutes=minutes))

    @property
    def overview(self) -> Overview:
        """Begins to read figures of this queue, so that many queues can be read at once."""
        return Overview(self._store, self._counters, self.parts.taker.limits)

    # Dead letters

    def bury(self, item_id: str, *, reason: str = "buried", tr: Transaction | None = None) -> None:
        """Move a ready item to the dead letters, even one that cannot be decoded.

        Raises:
            ItemNotFound: No item has this id.
            ItemNotReady: It is leased, delayed or dead.
            InvalidInput: It is not an item's id in this queue.
        """
        self.parts.dead_letters.bury(item_id, reason, tr)

    def bury_corrupt(self, error: CorruptItem) -> bool:
        """Move the item that an error names to the dead letters; tell whether it was there."""
        return self.parts.dead_letters.bury_corrupt(error)

    def redrive(
        self,
        item_ids: Iterable[str] | None = None,
        *,
        limit: int | None = None,
        reason: str | None = None,
        died_before: datetime.datetime | None = None,
        on_redriven: Callable[[int], None] = lambda _: None,
        on_undecodable: Callable[[Sequence[str]], None] = lambda _: None,
    ) -> int:
        """Return dead letters to their places, as if they had never been tried; count them.

        In transactions of up to 200 items, each all or nothing; ``on_redriven`` is called after
        each, with how many it returned. One whose unique key another item has by now stays dead.
        So does one that cannot be decoded, unless ``item_ids`` names it: it would block the queue.

        Args:
            item_ids: Which; None for all that are dead when it starts. Of those that die meanwhile,
                some may be among them: those whose places are before the last of these.
            limit: The most to return.
            reason: Only dead letters of this reason, as :meth:`dead_by_reason` names it.
            died_before: Only those whose :attr:`Item.died_at` is before this moment.
            on_undecodable: Called after a transaction that met letters that cannot be decoded, with
                their ids.
        """
        chosen = ChosenDead(self.name, reason, died_before)
        redrive = self.parts.dead_letters.redrive
        return redrive(item_ids, limit, chosen, on_redriven, on_undecodable)

    def dead_by_reason(
        self, *, limit: int = 100, tr: Transaction | None = None
    ) -> list[DeadReason]:
        """Return the reasons of dead letters, each with their number, the most first.

        Without reading the dead letters. Two reasons with the same first line, or the same first
        200 characters of it, are one. Of more than 10,000 reasons only the first 10,000 in the
        order of their texts are looked at.

        Args:
            limit: The most reasons, up to 10,000.
        """
        self._check(limit, "min")
        count = functools.partial(self._counters.dead_by_reason, limit=limit)
        return self._runner.read(tr, count)

    # Word from others than the worker

    def give_back(
        self,
        ids: Iterable[str] | None = None,
        *,
        worker: str | None = None,
        spend: bool = True,
        leased_before: datetime.datetime | None = None,
        limit: int | None = None,
        on_given_back: Callable[[int], None] = lambda _: None,
    ) -> int:
        """Give back leased items to their places, without their tokens; count them.

        For what a dead worker holds. One that lives learns by :class:`LeaseLost`, and others may do
        the same work meanwhile. In transactions of up to 200 items, each all or nothing.

        Args:
            ids: Which items; None for all that are leased when it begins.
            worker: Only what the worker with this name holds, what it has leased ahead included.
            spend: Whether the attempt counts, as of a lease that expires: its failure is noted, and
                the last one of ``max_attempts`` makes a dead letter. False for as they were.
            leased_before: Only leases that began before this moment.
            limit: The most to give back.
            on_given_back: Called after each transaction, with how many it gave back.

        Raises:
            InvalidInput: One is not an item's id in this queue, or the worker has no valid name.
        """
        give_back = self.parts.returns.give_back
        return give_back(ids, worker, leased_before, limit, on_given_back, spend=spend)

    def run_now(
        self,
        ids: Iterable[str] | None = None,
        *,
        due_before: datetime.datetime | None = None,
        limit: int | None = None,
        on_ready: Callable[[int], None] = lambda _: None,
    ) -> int:
        """Make delayed items ready before their time, at their own places; count them.

        Their attempts stay, and the queue's limits hold. In transactions as :meth:`give_back`.

        Args:
            ids: Which items; None for all that are delayed when it begins.
            due_before: Only those whose delay ends before this moment.
            limit: The most to make ready.
            on_ready: Called after each transaction, with how many it made ready.

        Raises:
            InvalidInput: One is not an item's id in this queue.
        """
        return self.parts.returns.run_now(ids, due_before, limit, on_ready)

    # Many items at a time

    def move_many(
        self,
        target: Queue,
        count: int,
        *,
        end: End = "min",
        priority: Any = None,
        tr: Transaction | None = None,
    ) -> int:
        """Move items from one end to another queue, after its items, in one transaction.

        They come in the order in which they are taken: from the ``"max"`` end, reversed.

        Args:
            target: The queue they go to, of the same database.
            priority: The priority of all of them; None for their own.

        Returns:
            How many were moved; 0 when this queue is empty.

        Raises:
            InvalidInput: The move makes no sense, or the target cannot hold one of them.
        """
        self._check(count, end)
        check_move(self.parts, target.parts, priority)

        return move_now(self.parts, target.parts, count, end, priority, tr)[0]

    def remove(self, item_id: str, *, tr: Transaction | None = None) -> None:
        """Remove the item with an id for good, whatever state it is in.

        The worker that holds its lease, or the owner of a batch with it, learns of it by
        :class:`LeaseLost`.

        Raises:
            ItemNotFound: The item is not there, or not any more.
            InvalidInput: It is not an item's id in this queue.
        """
        place = self._store.keys.place_named(item_id)
        delete = functools.partial(remove_one, store=self._store, place=place, item_id=item_id)
        self._runner.write("remove", tr, delete)

    def remove_many(self, item_ids: Iterable[str]) -> int:
        """Remove items for good by their ids, whatever state they are in; count them.

        In transactions of up to 500 items. The worker that holds a lease of one learns of it
        by :class:`LeaseLost`.
        """
        places = (self._store.keys.place_named(item_id) for item_id in item_ids)
        return remove_places(self.database, self._store, places)

    def clear_state(
        self,
        state: str,
        *,
        limit: int | None = None,
        reason: str | None = None,
        died_before: datetime.datetime | None = None,
        on_removed: Callable[[int], None] = lambda _: None,
    ) -> int:
        """Remove the items that are in a state when it starts, and return how many.

        And of those that come to it meanwhile, those whose places are before the last of these. In
        bounded transactions; ``on_removed`` is called after each, with how many it removed.

        Args:
            state: ``"ready"``, ``"leased"``, ``"delayed"`` or ``"dead"``.
            limit: The most to remove, the first in their order; None for all.
            reason: Only dead letters of this reason, as :meth:`redrive` chooses them.
            died_before: Only those that died before, likewise.

        Raises:
            InvalidInput: There is no such state, or items in it have not died.
        """
        chosen = ChosenDead(self.name, reason, died_before)
        return remove_all(self.database, self._store, state, on_removed, limit, chosen)

    def clear(self, *, tr: Transaction | None = None) -> None:
        """Remove all items, in whatever state, and the counts, in one transaction.

        Any number of them. Leases that are held are lost. The saved responses of calls under a key
        are removed, too: the same call takes effect again. A paused queue stays paused.
        """
        self._runner.write("clear", tr, functools.partial(clear, store=self._store))

    # Maintain

    def recount(self) -> Counts:
        """Count the items, correct the counts and the order of deaths, and return the counts.

        Other programs' pushes and pops keep no counts. In transactions of a bounded length. Exact
        while other clients push and pop, as long as a FIFO queue, or each priority, can be read in
        one transaction (some 100,000 items); beyond that, the counts may be wrong by what is pushed
        and popped meanwhile.
        """
        recount(self.database, self.parts.taker)
        return self.counts()

    def adopt_settings(self) -> int:
        """Store that the items are written under the settings that this queue object has.

        Then :class:`FormatMismatch` is raised no more here, but wherever the former settings are,
        also by writes that were under way. Ready items move to their shards, in bounded
        transactions: if that is interrupted, call it again. They are not changed else. If the
        settings are stored already, it moves items that lie in other shards all the same.

        Returns:
            How many items have moved.
        """
        return reshape(self.database, self._store)

    def sweep(self) -> int:
        """Remove the saved responses of calls under a key that expired an hour ago; count them.

        By this client's clock, which may be an hour ahead of others'. 200 in a transaction.
        """
        sweep = self.parts.responses.sweep
        return sum(iter(lambda: run(self.database, sweep, wrote=bool), 0))

    def _check(self, count: int, end: str) -> None:
        if type(count) is not int or not 1 <= count <= MAX_ITEMS_A_CALL:
            raise InvalidInput(queue=self.name, count=count, allowed=f"1 to {MAX_ITEMS_A_CALL}")
        if end not in ENDS:
            raise InvalidInput(queue=self.name, end=end, allowed="min, max")


class FifoQueue(Queue):
    """A queue whose items are taken in the order they were pushed in.

    Pushes never conflict. Pushes that ran at the same moment have no order among
    themselves. Recipe: "Queues".

    Args:
        database: Anything with ``create_transaction()``: either engine's database, or one
            opened with the FoundationDB binding.
        subspace: The queue's own place; items are at ``subspace[index][random]``.
        name: What errors call the queue.
        member: Its rows in the index of its family, which the catalog knows; None for none.
        options: As in :class:`QueueOptions`; ``ConfigurationError`` says which is wrong.
    """

    kind = "fifo"
    _keys = FifoKeys


class PriorityQueue(Queue):
    """A queue whose items are taken from either end of their priorities.

    ``pop_min`` takes the lowest priority and ``pop_max`` the highest; among equals
    ``pop_min`` takes the earliest pushed and ``pop_max`` the latest: the two ends of one
    order. Pushes never conflict. Recipe: "Priority Queues".

    Args:
        database: As for :class:`FifoQueue`.
        subspace: The queue's own place; items are at ``subspace[priority][count][random]``.
        name: As for :class:`FifoQueue`.
        member: As for :class:`FifoQueue`.
        priority_type: ``"int"`` or ``"float"``; all priorities are kept in this type.
        **options: As for :class:`FifoQueue`.
    """

    kind = "priority"
    _keys = PriorityKeys

    def __init__(
        self,
        database: Database,
        subspace: Subspace,
        *,
        name: str | None = None,
        priority_type: str | type = "int",
        member: Member | None = None,
        limits_at: bytes | None = None,
        **options: Unpack[QueueKeywords],
    ) -> None:
        given: Any = {**options, "priority_type": priority_type}
        super().__init__(database, subspace, name=name, member=member, limits_at=limits_at, **given)
