"""Staging: a process whose rounds conflict asks other processes to take items for it.

It writes a help request for those who wait in it, in one commit. The process that takes items
at that end next takes for the oldest requests too, in the same transaction, and hands the
items over. The asker looks for its handoff after the time that this usually takes, then ever
again, and collects it in a transaction of its own. When no process has taken anything for a
while, the first in line takes for all requests itself: so one process leads for as long as it
takes items, and the first in line follows it.

Until a transaction collects a handoff, nothing has been taken for those who wait: they may
leave at any moment. What was taken for them goes back to its place in the transaction that
collects the rest. What a process that died has not collected goes back when it expires.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.service.clock import now_us
from fdbqueue.service.combiner import CombinedBatch
from fdbqueue.service.consume.head import Order
from fdbqueue.service.consume.requests import RoundResult, TakeRequest
from fdbqueue.service.consume.round import fitting
from fdbqueue.service.consume.taker import Taker
from fdbqueue.service.storage.counts import taken_at
from fdbqueue.service.storage.handoffs import (
    HelpRequest,
    ask_handoff,
    parse_handoff,
    remove_pieces,
    remove_request,
    write_request,
)
from fdbqueue.service.storage.reader import End
from fdbqueue.service.storage.tables import HANDOFF_NAME_BYTES
from fdbqueue.service.transactions import Conflict, run

#: How long no process must have taken anything before the first in line takes over, in
#: times that a commit takes; and in seconds, at least and at most.
_PATIENCE_COMMITS = 2.0
_MIN_PATIENCE_SECONDS, _MAX_PATIENCE_SECONDS = 0.004, 0.5
#: Whatever others take, those who have waited this long take over.
_MAX_WAIT_SECONDS = 1.0
#: When to look for a handoff, in parts of the time it usually takes.
_FIRST_LOOK, _NEXT_LOOK = 0.4, 0.15
#: Threads that are back within this many moments ask together.
_MOMENTS, _MOMENT_SECONDS = 3, 0.0005
#: After an error a request is taken back, if that can be done at once.
_WITHDRAWAL_MS = 1_000
#: How much a new measurement counts in a running mean.
_WEIGHT = 0.2

#: Takes items in a round, as ``EndPoppers._round`` does.
TakeOver = Callable[..., RoundResult]


class Staging:
    """Ask other processes to take from one end of a queue, for those who wait in this one.

    Args:
        database: Anything with ``create_transaction()``, without a time limit.
        taker: Takes the queue's items.
        end: Which end.
        timeout_seconds: For how long a request holds, and after it the handoff.
        take_over: Takes items in a round.
    """

    def __init__(
        self,
        database: Database,
        taker: Taker,
        end: End,
        timeout_seconds: float,
        take_over: TakeOver,
    ) -> None:
        self._database = database
        self._taker = taker
        self._tables = taker.store.tables
        self._end: End = end
        self._timeout_us = int(timeout_seconds * 1_000_000)
        self._take_over_round = take_over
        self.forget()

    def forget(self) -> None:
        """Start anew, in a forked process."""
        self._commit_seconds = 0.002
        self._helped_seconds = 0.005  # from a request to its handoff
        self._company = 0  # how many asked together the last time

    def take(self, combined: CombinedBatch) -> bool:
        """Take for those in line; tell whether another process helped.

        The first of them, and as many as their request has room for.
        """
        batch = self._gathered(combined)
        if not batch:
            return True
        name = os.urandom(HANDOFF_NAME_BYTES)
        try:
            batch, request = self._ask(combined, name, batch)
            return not batch or self._follow_up(combined, request, batch)
        except BaseException:
            self._withdraw(name)
            raise

    def _gathered(self, combined: CombinedBatch) -> list[TakeRequest]:
        """Return those who ask together; those who were just served have a moment to be back."""
        for _ in range(_MOMENTS):
            if len(combined.waiting()) >= self._company:
                break
            time.sleep(_MOMENT_SECONDS)
        batch = combined.waiting()
        self._company = len(batch)
        return fitting(batch)

    def _ask(
        self, combined: CombinedBatch, name: bytes, batch: list[TakeRequest]
    ) -> tuple[list[TakeRequest], HelpRequest]:
        """Ask for those whose calls were not made before; return them, and the request."""
        taker = self._taker

        def ask(tr: Transaction) -> tuple[RoundResult, list[TakeRequest], HelpRequest]:
            asked = taker.ask_before(tr, batch)
            answered = taker.answered(asked)
            rest = taker.unanswered(batch, asked, answered)
            wanted = sum([one.count for one in rest])
            request = HelpRequest(name, self._end, wanted, self._timeout_us)
            if rest:
                write_request(tr, self._tables, request)
            return RoundResult([*answered.items()], wrote=bool(rest)), rest, request

        began = time.monotonic()
        responses, rest, request = run(self._database, ask, wrote=lambda asked: asked[0].wrote)
        self._commit_seconds += _WEIGHT * (time.monotonic() - began - self._commit_seconds)
        combined.finish(responses.results)
        return rest, request

    def _follow_up(
        self, combined: CombinedBatch, request: HelpRequest, batch: Sequence[TakeRequest]
    ) -> bool:
        """Collect what others take, or take it when no other does; tell whether one did."""
        progress = _Progress(self._helped_seconds, self._patience())
        while True:
            progress.pause()
            look = run(
                self._database,
                lambda tr: self._look(tr, combined, request, batch),
                wrote=lambda look: isinstance(look, RoundResult),
            )
            if isinstance(look, RoundResult):
                combined.finish(look.results)
                self._helped_seconds += _WEIGHT * (progress.seconds - self._helped_seconds)
                return True
            combined.let_go()
            if look is None:  # it has expired, and what was taken for it went back
                return True
            if progress.is_over(*look) and self._take_over(combined, request, batch):
                return False

    def _look(
        self,
        tr: Transaction,
        combined: CombinedBatch,
        request: HelpRequest,
        batch: Sequence[TakeRequest],
    ) -> RoundResult | tuple[int, int] | None:
        """Collect the handoff, or return how far others are, and the place in line.

        None when there is neither a handoff nor the request any more.
        """
        asked = ask_handoff(tr, self._tables, request.name)
        waits = tr.snapshot[self._tables.request(request.name)]
        now = now_us()
        rows = self._taker.ask_state(tr, now)
        handoff = parse_handoff(asked)
        if handoff is not None:
            return self._taker.collect(tr, combined.take_up(batch), request, handoff)
        if not waits.present():
            return None
        state = self._taker.parse_state(tr, now, rows)
        in_line = [one.name for one in state.requests if one.end == self._end]
        place = in_line.index(request.name) if request.name in in_line else 0
        return taken_at(self._end, state.taken), place

    def _take_over(
        self, combined: CombinedBatch, request: HelpRequest, batch: Sequence[TakeRequest]
    ) -> bool:
        """Take for all who asked, because no other process does; tell whether that worked."""
        try:
            result = self._take_over_round(
                self._database,
                batch,
                lambda: (batch, len(batch)),
                own=request,
                order=Order.AS_SEEN,
                take_up=combined.take_up,
            )
        except Conflict:
            combined.let_go()
            return False
        combined.finish(result.results)
        return not result.is_helped

    def _withdraw(self, name: bytes) -> None:
        """Take a request back, with what was taken for it, if that can be done at once."""
        with contextlib.suppress(Exception):
            tr = self._database.create_transaction()
            tr.options.set_timeout(_WITHDRAWAL_MS)
            handoff = parse_handoff(ask_handoff(tr, self._tables, name))
            remove_request(tr, self._tables, name)
            remove_pieces(tr, self._tables, name)
            self._taker.store.requeue(tr, [] if handoff is None else handoff.rows)
            tr.commit().wait()

    def _patience(self) -> float:
        seconds = _PATIENCE_COMMITS * self._commit_seconds
        return min(max(seconds, _MIN_PATIENCE_SECONDS), _MAX_PATIENCE_SECONDS)


class _Progress:
    """Decide when to look for a handoff, and when no process seems to be at work.

    Args:
        usual_seconds: How long it took until now.
        patience_seconds: For how long no process must have taken anything.
    """

    def __init__(self, usual_seconds: float, patience_seconds: float) -> None:
        self._patience = patience_seconds
        self._pause = usual_seconds * _FIRST_LOOK
        self._next_pause = usual_seconds * _NEXT_LOOK
        self._taken: int | None = None
        self._began = self._since = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return time.monotonic() - self._began

    def pause(self) -> None:
        """Sleep until it is worth looking."""
        time.sleep(min(self._pause, _MAX_PATIENCE_SECONDS))
        self._pause = self._next_pause
        self._next_pause *= 1.2

    def is_over(self, taken: int, in_line: int) -> bool:
        """Tell whether for too long no process has taken anything, or nothing for this one."""
        now = time.monotonic()
        if taken != self._taken:
            self._taken, self._since = taken, now
        is_late = now - self._began > _MAX_WAIT_SECONDS
        return is_late or now - self._since > self._patience * (1 + in_line)
