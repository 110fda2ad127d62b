"""Ask other processes for help, collect what they give, and take over when none does."""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import time
from collections.abc import Callable, Sequence

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import CorruptItem, OutcomeUnknown
from fdbqueue.service.clock import now_us
from fdbqueue.service.combiner import CombinedBatch
from fdbqueue.service.consume.contention import MAX_HELP_SECONDS, Contended, Contention, Race
from fdbqueue.service.consume.head import begin_state, parse_state
from fdbqueue.service.consume.round import (
    MAX_ASKED_KEYS_BYTES,
    MAX_ASKED_LEASES,
    Portion,
    Result,
    RoundResult,
    Taker,
    TakeRequest,
    fitting,
    remaining,
)
from fdbqueue.service.items import Item
from fdbqueue.service.sizes import MAX_ENDS_BYTES
from fdbqueue.service.storage.counts import ready_and_taken, taken_at
from fdbqueue.service.storage.handoffs import (
    Handoff,
    HelpRequest,
    begin_handoff,
    packed_lease_keys,
    parse_handoff,
    read_request,
    remove_handoff,
    unpacked_lease_keys,
    write_request,
)
from fdbqueue.service.storage.item_keys import End
from fdbqueue.service.storage.tables import HANDOFF_NAME_BYTES
from fdbqueue.service.transactions import run
from fdbqueue.steady import monotonic

#: Threads that are in line again within this many moments share a help request.
_MOMENTS, _MOMENT_SECONDS = 3, 0.0005
#: After an error a help request is withdrawn, within this time or not at all.
_WITHDRAWAL_MS = 1_000
#: A process whose request is the oldest takes over when no process has taken anything for as long
#: as this many commits take; and the bounds of that time in seconds.
_PATIENCE_COMMITS = 4.0
_MIN_PATIENCE_SECONDS, _MAX_PATIENCE_SECONDS = 0.004, 0.5
#: When to look for a handoff, in parts of the time it usually takes.
_FIRST_LOOK, _NEXT_LOOK = 0.6, 0.25
#: How much a new measurement counts in a running mean.
_WEIGHT = 0.2

#: Takes items in a round, as ``EndPoppers._take`` does.
TakeRound = Callable[..., "RoundResult | None"]


def alike(batch: Sequence[TakeRequest]) -> list[TakeRequest]:
    """Return the first request, and others that can share a help request with it."""
    lease_us = batch[0].shared_lease_us if batch else 0
    alike = [one for one in batch if one.shared_lease_us == lease_us]
    alike = [one for one in alike if not lease_us or one.worker == batch[0].worker]
    if not lease_us:
        return alike
    found: list[TakeRequest] = []
    ending: set[bytes] = set()
    size = count = sent = 0
    for one in alike:
        keys = one.ends
        size += len(packed_lease_keys(keys))
        count += one.count
        sent += one.ends_bytes
        if found and (
            size > MAX_ASKED_KEYS_BYTES or count > MAX_ASKED_LEASES or sent > MAX_ENDS_BYTES
        ):
            break
        places = {place for place, _ in keys}
        if not ending & places:  # else its lease ends for another thread first
            ending |= places
            found.append(one)
    return found


class Asking:
    """Ask other processes to take items from one end, for the waiting threads of this one.

    Args:
        database: Anything with ``create_transaction()``, without a time limit.
        taker: Takes the queue's items.
        end: Which end.
        contention: What takes at this end have met.
        take: Takes items in a round, for the given requests alone if a help request is given.
    """

    def __init__(
        self,
        database: Database,
        taker: Taker,
        end: End,
        contention: Contention,
        take: TakeRound,
    ) -> None:
        self._database = database
        self._taker = taker
        self._tables = taker.store.tables
        self._end: End = end
        self._contention = contention
        self._take_round = take
        self.restart_after_fork()

    def restart_after_fork(self) -> None:
        """Start again in a forked process."""
        self._commit_seconds = 0.002
        self._helped_seconds = 0.005  # from a request to its handoff
        self._company = 0  # how many asked together the last time
        #: The name of the last request for leases, whose row is still there.
        self.served: bytes | None = None
        self._was_refused = False

    def take(self, combined: CombinedBatch) -> bool:
        """Take items for the requests in line, as many as fit; tell whether a process helped."""
        batch = self._gathered(combined)
        if not batch:
            return True
        name = os.urandom(HANDOFF_NAME_BYTES)
        ends_leases = False
        try:
            batch, request = self._ask(combined, name, batch)
            ends_leases = bool(request.lease_keys)
            return not batch or self._follow_up(combined, request, batch)
        except BaseException as error:
            self._withdraw(name)
            if ends_leases:  # whatever failed here, another process may have ended the leases
                vars(error)["outcome_known"] = False
            raise

    def remove_served(self, tr: Transaction) -> None:
        """Remove the row of the last request for leases; set ``served`` to None once committed."""
        if self.served is not None:
            tr.clear(self._tables.request(self.served))

    def _gathered(self, combined: CombinedBatch) -> list[TakeRequest]:
        """Return the requests to ask for, after threads just served could join the line again."""
        for _ in range(_MOMENTS):
            if len(combined.waiting()) >= self._company:
                break
            time.sleep(_MOMENT_SECONDS)
        combined.finish([(one, Contended()) for one in combined.waiting() if _is_own(one)])
        batch = combined.waiting()
        self._company = len(batch)
        return fitting(alike(batch))

    def _ask(
        self, combined: CombinedBatch, name: bytes, batch: list[TakeRequest]
    ) -> tuple[list[TakeRequest], HelpRequest]:
        """Write a help request for the requests without a result yet; return both."""
        taker = self._taker
        lease_us = batch[0].shared_lease_us
        until = now_us() + taker.store.options.help_lasting_us
        # The process that helps reads the leases that are to end; after a refusal this one does.
        reads_nothing = lease_us > 0 and not self._was_refused

        def ask(tr: Transaction) -> tuple[RoundResult, list[TakeRequest], HelpRequest]:
            count_change = taker.store.count_change(tr)
            reads = {} if reads_nothing else taker.begin_reads(count_change, batch)
            concluded = taker.concluded(reads)
            rest = batch if reads_nothing else remaining(batch, reads, concluded)
            if lease_us and any(one.ends for one in rest):
                rest = combined.take_up(rest)
            ends = [key for one in rest for key in one.ends] if lease_us else []
            request = HelpRequest(
                name,
                self._end,
                sum([one.count for one in rest]),
                until,
                lease_us=lease_us,
                lease_keys=packed_lease_keys(ends),
                worker=batch[0].worker if lease_us else b"",
            )
            if rest:
                write_request(tr, self._tables, request)
                self.remove_served(tr)
            return RoundResult([*concluded.items()], wrote=bool(rest)), rest, request

        began = monotonic()
        responses, rest, request = run(self._database, ask, wrote=lambda found: found[0].wrote)
        self._commit_seconds += _WEIGHT * (monotonic() - began - self._commit_seconds)
        self._was_refused = False
        if rest:
            self.served = None
        combined.finish(responses.results, is_over=not request.lease_keys)
        return rest, request

    def _follow_up(
        self, combined: CombinedBatch, request: HelpRequest, batch: Sequence[TakeRequest]
    ) -> bool:
        """Collect the handoff, or take over when no process helps; tell whether one did."""
        wait = HandoffWait(self._helped_seconds, self._commit_seconds)
        while True:
            wait.pause()
            look = run(
                self._database,
                lambda tr: self._look(tr, combined, request, batch),
                wrote=lambda look: isinstance(look, RoundResult) and look.wrote,
            )
            if isinstance(look, RoundResult):
                combined.finish(look.results)
                if request.lease_us:
                    self.served = request.name
                self._helped_seconds += _WEIGHT * (wait.seconds - self._helped_seconds)
                return look.is_helped
            if not request.lease_keys:
                combined.let_go()
            place = functools.partial(self._place, request)
            if wait.is_over(look, place) and self._take_over(combined, request, batch, wait):
                return False

    def _look(
        self,
        tr: Transaction,
        combined: CombinedBatch,
        request: HelpRequest,
        batch: Sequence[TakeRequest],
    ) -> RoundResult | int:
        """Collect the handoff, or the leases that were taken; see what is left if it has expired.

        Else return how many items were ever taken.
        """
        key = self._tables.request(request.name)
        pieces = () if request.lease_us else begin_handoff(tr, self._tables, request.name)
        row, counts = tr.snapshot[key], tr.snapshot[self._tables.ready_taken_wakes]
        handoff = parse_handoff(pieces)
        if handoff is not None:
            return self.collect(tr, combined.take_up(batch), request, handoff)
        if not row.present():
            return RoundResult(self._errors_of_gone(tr, batch, request))
        found = read_request(self._tables, key, bytes(row))
        if found is not None and found.refused:
            self._was_refused = True
            return RoundResult()
        if found is not None and found.is_handed:
            return self._leased(tr, batch, found)
        taken = ready_and_taken(bytes(counts) if counts.present() else b"")[1]
        return taken_at(self._end, taken)

    def collect(
        self, tr: Transaction, batch: Sequence[TakeRequest], request: HelpRequest, handoff: Handoff
    ) -> RoundResult:
        """Deliver the items of a handoff to the requests of this process, and remove it.

        Items of a request whose thread has gone, or whose call was made meanwhile, go to the
        next request; the rest is requeued. So are those that may not be leased now.
        """
        taker = self._taker
        count_change = taker.store.count_change(tr)
        check_format = taker.store.format.begin_read(tr)
        reads = taker.begin_reads(count_change, batch)
        check_format()
        remove_handoff(tr, self._tables, request)
        concluded = taker.concluded(reads)
        portions: list[Portion] = []
        start = 0
        allowance = None
        if taker.limits is not None:  # who helped has spent the tokens
            allowance = taker.limits.begin(tr, self._tables, now_us(), is_paid=True).settle()
        for one in remaining(batch, reads, concluded):
            rows, leases = handoff.rows[start : start + one.count], one.lease_us > 0
            start += one.count
            count = len(rows)
            if allowance is not None:
                count = allowance.grant(count, leases=leases, ends=len(one.ends))
                allowance.note(count, leases=leases)
                taker.store.requeue_rows(count_change, rows[count:])
            if rows or handoff.empty:
                portions.append((one, rows[:count]))
        taker.store.requeue_rows(count_change, handoff.rows[start:])
        results, _ = taker.deliver(count_change, portions, retried=handoff.retried)
        count_change.write()
        if allowance is not None:
            allowance.write(took=0)
        return RoundResult([*concluded.items(), *results], wrote=True, is_helped=True)

    def _place(self, request: HelpRequest) -> int:
        """Return how many open requests at this end are older."""

        def read(tr: Transaction) -> list[HelpRequest]:
            now, taker = now_us(), self._taker
            rows = begin_state(taker.store, tr, now)
            return parse_state(taker.store, tr, now, rows, at_random=taker.choices > 0).requests

        requests = run(self._database, read, read_only=True)
        in_line = [one.name for one in requests if one.end == self._end]
        return in_line.index(request.name) if request.name in in_line else 0

    def _leased(
        self, tr: Transaction, batch: Sequence[TakeRequest], served: HelpRequest
    ) -> RoundResult:
        """Return the requests for which items were leased, each with the items.

        An item that this process cannot decode is requeued. It is the error of its request, if that
        has no other item and has ended no lease.
        """
        leases = unpacked_lease_keys(served.lease_keys) or []
        items = self._taker.leases.items_of(tr, leases)
        result = RoundResult(is_helped=True)
        start = 0
        for one in batch:
            keys = leases[start : start + one.count]
            start += one.count
            found = [items[key] for key in keys if key in items]
            held = [item for item in found if isinstance(item, Item)]
            errors = [item for item in found if isinstance(item, CorruptItem)]
            result.wrote = result.wrote or bool(errors)
            if held or served.empty or (errors and one.ends):
                result.results.append((one, held))
            elif errors:
                result.results.append((one, copy.copy(errors[0])))
            elif keys:  # all were lost before they were seen: it asks again
                one.note_acknowledged()
        return result

    def _errors_of_gone(
        self, tr: Transaction, batch: Sequence[TakeRequest], request: HelpRequest
    ) -> list[Result]:
        """Return the errors of requests whose help request is gone.

        What was handed over was requeued, and they take again. But if none of the leases that were
        to end is held, they may have ended: then the outcome is unknown for those who hold them.
        """
        keys = unpacked_lease_keys(request.lease_keys)
        if not keys or self._taker.leases.any_held(tr, keys):
            return []
        results: list[Result] = []
        for one in batch:
            if one.ends:
                error = OutcomeUnknown(reason="the help request has expired")
                vars(error)["outcome_known"] = False
                results.append((one, error))
        return results

    def _take_over(
        self,
        combined: CombinedBatch,
        request: HelpRequest,
        batch: Sequence[TakeRequest],
        wait: HandoffWait,
    ) -> bool:
        """Take items for all help requests, as no process does; tell whether that worked.

        Once it has waited for too long, it races as if there were no help.
        """
        race = Race(self._contention, wait.is_too_long)
        result = self._take_round(self._database, batch, combined, request, race)
        if result is None or result.is_helped:
            return False
        combined.finish(result.results)
        return True

    def _withdraw(self, name: bytes) -> None:
        """Remove a help request, and requeue what was taken for it, if that can be done at once."""
        with contextlib.suppress(Exception):
            run(self._database, functools.partial(self._remove, name=name), wrote=True)

    def _remove(self, tr: Transaction, name: bytes) -> None:
        """Remove a help request, and requeue what was taken for it."""
        tr.options.set_timeout(_WITHDRAWAL_MS)
        key = self._tables.request(name)
        row = tr[key]
        self._taker.store.format.check(tr)
        handoff = parse_handoff(begin_handoff(tr, self._tables, name))
        found = read_request(self._tables, key, bytes(row)) if row.present() else None
        if found is not None:
            remove_handoff(tr, self._tables, found)
        store = self._taker.store
        count_change = store.count_change(tr)
        store.requeue_rows(count_change, [] if handoff is None else handoff.rows)
        count_change.write()
        if found is not None and found.is_handed:
            self._taker.leases.requeue_keys(tr, unpacked_lease_keys(found.lease_keys) or [])


def _is_own(one: TakeRequest) -> bool:
    """Tell whether only this process may serve a request."""
    return one.acknowledges is not None and one.acknowledges.beside is not None


class HandoffWait:
    """Decide when to look for a handoff, and when no process seems to be at work.

    Args:
        usual_seconds: How long it took until now.
        commit_seconds: How long a commit takes.
    """

    def __init__(self, usual_seconds: float, commit_seconds: float) -> None:
        patience = _PATIENCE_COMMITS * commit_seconds
        #: For how long no process must have taken anything.
        self._patience = min(max(patience, _MIN_PATIENCE_SECONDS), _MAX_PATIENCE_SECONDS)
        self._pause = usual_seconds * _FIRST_LOOK
        self._next_pause = usual_seconds * _NEXT_LOOK
        self._taken: int | None = None
        self._began = self._since = monotonic()

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return monotonic() - self._began

    def is_too_long(self) -> bool:
        """Tell whether nobody seems to serve the request."""
        return self.seconds > MAX_HELP_SECONDS

    def pause(self) -> None:
        """Sleep until it is worth looking."""
        time.sleep(min(self._pause, _MAX_PATIENCE_SECONDS))
        self._pause = self._next_pause
        self._next_pause *= 1.2

    def is_over(self, taken: int, place: Callable[[], int]) -> bool:
        """Tell whether for too long no process has taken anything, or nothing for this one.

        Args:
            taken: How many items were ever taken.
            place: Returns how many help requests are older; each has its time to take over.
        """
        now = monotonic()
        if taken != self._taken:
            self._taken, self._since = taken, now
        if self.is_too_long():
            return True
        idle = now - self._since
        return idle > self._patience and idle > self._patience * (1 + place())
