"""Take items for other processes, in the round in which this process takes its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fdbqueue.exceptions import CorruptItem
from fdbqueue.service.consume.acks import Ack, Token
from fdbqueue.service.consume.allowance import Allowance
from fdbqueue.service.consume.head import Head, TransactionBudget
from fdbqueue.service.consume.leases import LEASE_KEY_BYTES, Leases
from fdbqueue.service.sizes import STEP_BYTES
from fdbqueue.service.storage.counts import CountChange
from fdbqueue.service.storage.handoffs import (
    MAX_LEASE_KEYS_BYTES,
    Handoff,
    HelpRequest,
    answer,
    hand_over,
    packed_lease_keys,
    remove_request,
    unpacked_lease_keys,
)
from fdbqueue.service.storage.item_keys import Loaded, Row
from fdbqueue.service.writes import SharedTransaction

#: The most items that a transaction takes for other processes, with the leases that it ends for
#: them; the first request may be larger.
_HELPED_ITEMS = 1_000


class _Helped(NamedTuple):
    """A help request to serve, and the leases that end with it."""

    request: HelpRequest
    ends: Ack | None


class Giving:
    """The items that one transaction takes for other processes.

    Args:
        leases: The queue's leases.
        count_change: What the transaction changes.

    Attributes:
        asked: How many items the served requests wanted.
        took: How many items were taken for them.
        wrote: Whether anything was written.
    """

    def __init__(self, leases: Leases, count_change: CountChange) -> None:
        self._store = leases.store
        self._leases = leases
        self._tables = leases.store.tables
        self._tr = count_change.tr
        self._count_change = count_change
        self._helped: list[_Helped] = []
        self.asked = self.took = 0
        self.wrote = False

    def begin(self, requests: Iterable[HelpRequest], ending: Iterable[bytes]) -> None:
        """Begin to read the leases that end with the requests to serve.

        A request waits for the next round if one of its leases ends in this one already.

        Args:
            requests: The open requests at this end, the oldest first.
            ending: The places of the leases that the transaction ends already.
        """
        taken = {*ending}
        asked = 0
        for request in requests:
            keys = unpacked_lease_keys(request.lease_keys)
            if keys is None:
                continue
            asked += request.wanted + len(keys)
            if self._helped and asked > _HELPED_ITEMS:
                break
            ends = None
            if keys:
                ends = Ack(self._store, [Token(*key, "") for key in keys])
                if ends.places & taken:
                    continue
                taken |= ends.places
                shared = SharedTransaction(self._tr, self._store, self._count_change)
                ends.begin_reads(shared)
            self._helped.append(_Helped(request, ends))

    def ends(self) -> list[Ack]:
        """Return the leases that end with the requests."""
        return [one.ends for one in self._helped if one.ends is not None]

    def serve(
        self,
        head: Head,
        budget: TransactionBudget,
        allowance: Allowance | None,
        *,
        more_due: bool,
        retried: bool,
    ) -> None:
        """Take items for the requests, as many as fit.

        Args:
            head: The rows, behind those that this process takes.
            budget: What the transaction has taken.
            allowance: What the queue's limits allow it to take; None if it has none.
            more_due: Whether more items have expired than it requeues.
            retried: Whether attempts may be in rows of their own.
        """
        size = 0
        for request, ends in self._helped:
            self.asked += request.wanted
            if ends is not None and ends.check() is not None:
                self._refuse(request)
                continue
            if ends is not None and not budget.reserve_ends(ends.sent_bytes):
                break  # the next round serves it
            # The items of a handoff are written as a copy, and may be leased when it is collected.
            count, leases = request.wanted, request.lease_us > 0
            if allowance is not None:
                ending = 0 if ends is None else len(ends.places)
                count = allowance.grant(count, leases=leases, ends=ending)
            rows = head.take(
                count,
                leased=True,
                kept=not request.lease_us,
                facts_bytes=len(request.worker),
            )
            head.finish()
            size += sum([len(row.value) for row in rows])
            is_held = len(rows) == count < request.wanted  # then there is no more for it
            is_cut = (budget.is_full or more_due) and not is_held
            took = self.took
            goes_on = self._serve(request, ends, rows, is_cut, retried)
            if allowance is not None:
                allowance.note(self.took - took, leases=leases)
            if not goes_on or size >= STEP_BYTES:
                break

    def _serve(
        self,
        request: HelpRequest,
        ends: Ack | None,
        rows: list[Row],
        is_cut: bool,
        retried: bool,
    ) -> bool:
        """Hand rows over, or lease them; tell whether to go on with the next request.

        A request that ends leases gets all that it wants, or all there is, or nothing.
        """
        short = len(rows) < request.wanted
        if is_cut and (not rows or (short and ends is not None)):
            self._store.write_rows(self._tr, rows)
            return False  # the next round serves it
        sound = self._sound(rows, retried=retried)
        is_sound = len(sound) == len(rows)
        is_refused = ends is not None and not is_sound
        if is_refused or (rows and not sound) or _is_long(request, rows):
            self._store.write_rows(self._tr, [one.row for one in sound])
            self._refuse(request)
            return False
        self.wrote = True
        self.took += len(sound)
        empty = short and not is_cut and is_sound
        if request.lease_us:
            self._lease(request._replace(empty=empty), ends, sound)
        else:
            for one in sound:
                self._store.note_hidden(self._count_change, one.position)
            handoff = Handoff([one.row for one in sound], empty, retried)
            hand_over(self._tr, self._tables, request, handoff)
        return is_sound

    def _sound(self, rows: list[Row], *, retried: bool) -> list[Loaded]:
        """Return the items before the first that is corrupt; requeue the other rows."""
        loaded = self._store.load(self._tr, rows, retried=retried)
        for index, one in enumerate(loaded):
            if isinstance(one.item, CorruptItem):
                self._store.write_rows(self._tr, rows[index:])
                return loaded[:index]
        return loaded

    def _lease(self, request: HelpRequest, ends: Ack | None, loaded: Sequence[Loaded]) -> None:
        """Lease items for a request, and end the leases that it names."""
        held = self._leases.lease(self._count_change, loaded, request.lease_us, request.worker)
        if ends is not None:
            ends.end(self._count_change)
        keys = packed_lease_keys([(lease.row.place, lease.secret) for lease in held])
        answer(self._tr, self._tables, request._replace(lease_keys=keys))

    def _refuse(self, request: HelpRequest) -> None:
        """Let the owner of a request find out by itself why it cannot be served."""
        self.wrote = True
        if request.lease_us:
            answer(self._tr, self._tables, request._replace(refused=True, lease_keys=b""))
        else:
            remove_request(self._tr, self._tables, request.name)


def _is_long(request: HelpRequest, rows: Sequence[Row]) -> bool:
    """Tell whether the row of a request has no room for the keys of the leases."""
    size = sum([len(row.place) + LEASE_KEY_BYTES for row in rows]) if request.lease_us else 0
    return size > MAX_LEASE_KEYS_BYTES
