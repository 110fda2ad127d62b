"""Many poppers at one head.

Threads of a process combine: whoever finds nobody at work takes, in one transaction, for all
who wait by then, again and again until its own turn is served, and hands the work on. Alone,
a popper does all of its work itself, with no thread and no wait.

Processes take turns without conflicts, as the recipe's staging does: a process whose
transaction conflicted with another popper's twice asks for help instead. It writes a request
for all of its threads in one commit, and whichever process pops next takes for it too, in the
same transaction as its own. While that goes on, the process asks straight away. When nobody
has taken anything for a while, it takes for all requests itself: so one process leads for as
long as it pops, and the first in line follows it. See docs/decisions for what was compared.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any

from fdbqueue.service import due
from fdbqueue.service.claims import Request, answer_claim, ask_claim, write_request
from fdbqueue.service.clock import now_us
from fdbqueue.service.combining import Line, Waiter
from fdbqueue.service.keyspace.meta import CLAIM_NAME_BYTES
from fdbqueue.service.rounds import Round
from fdbqueue.service.taking import ENDS, Taker
from fdbqueue.service.transactions import Conflict, run
from fdbqueue.service.waiting import Bell
from fdbqueue.service.wants import Served

#: After so many conflicts with another popper in a row, ask for help.
_CONFLICTS = 2
#: Asking costs two commits more, so it helps where a round mostly waits for the database:
#: where its thread works for more than this part of it, processes race instead.
_BUSY_SHARE = 0.3
#: For so long after having been helped, ask again without trying first.
_STAGED_SECONDS = 0.25
#: How long nobody must have taken anything before the first in line takes over, in
#: rounds of this process; and in seconds, at least and at most.
_PATIENCE_ROUNDS = 2.0
_MIN_PATIENCE_SECONDS, _MAX_PATIENCE_SECONDS = 0.004, 0.5
#: When to look for a claim, in parts of the time it usually takes.
_FIRST_LOOK, _NEXT_LOOK = 0.4, 0.15
#: Those who are back within so many moments ask together.
_MOMENTS, _MOMENT_SECONDS = 3, 0.0005
#: An error or an interrupt waits no longer for a request to be taken back.
_WITHDRAWAL_MS = 1_000
#: How much a new measurement counts in a running mean.
_WEIGHT = 0.2


class Crowd(Line):
    """All poppers of one queue in this process.

    Args:
        database: Anything with ``create_transaction()``.
        taker: Takes the queue's items.
        claim_timeout_seconds: After how long what was taken for this process goes back,
            when it does not collect it.
    """

    def __init__(self, database: Any, taker: Taker, claim_timeout_seconds: float) -> None:
        self._database = database
        self._taker = taker
        self._claim_timeout_us = int(claim_timeout_seconds * 1_000_000)
        #: Wakes those who wait for items.
        self.bell = Bell(database, taker.stock)
        self._forget()
        _crowds.add(self)

    def _forget(self) -> None:
        """Start anew, in a forked process: those who waited are in the other one."""
        self._forget_waiting()
        self.bell.forget()
        self._late = 0.0  # how many come while a round reads
        self._asked = 0.0  # how many items other processes ask for in a round
        self._round_seconds = 0.002
        self._busy_share = 1.0
        self._helped_seconds = 0.005  # from a request to its claim
        self._company = 0  # how many asked together the last time
        self._taken: int | None = None
        self._others_pop = False
        self._staged_until = 0.0

    def _step(self) -> None:
        """Serve some of those who wait."""
        if time.monotonic() < self._staged_until:
            self._stage()
            return
        for _ in range(_CONFLICTS):
            try:
                self._settle(self._round(retries_conflicts=False))
            except Conflict:
                continue
            return
        if self._others_pop and self._busy_share < _BUSY_SHARE:
            self._stage()
        else:
            self._settle(self._round())

    def _round(self, *, retries_conflicts: bool = True, own: Request | None = None) -> Served:
        staged = self._batch

        def serve(tr: Any) -> Served:
            with self._mutex:
                early = list(staged if own is not None else self._waiting)
            served = Round(self._taker, tr).serve(
                early, lambda: self._gather(early), own=own, extra=self._extra()
            )
            self._others_pop = self._taken is not None and served.taken != self._taken
            self._taken = served.taken
            return served

        began, worked = time.monotonic(), time.thread_time()
        self._begin_work()
        served = self._committed = run(
            self._database,
            serve,
            wrote=lambda served: served.wrote,
            retries_conflicts=retries_conflicts,
        )
        if served.wrote:
            self._measure(began, worked)
        self._late += _WEIGHT * (served.late - self._late)
        self._asked = max(served.asked, self._asked * (1 - _WEIGHT))
        return served

    def _extra(self) -> int:
        return int(self._late + self._asked + 1)

    def _settle(self, served: Served) -> None:
        super()._settle(served)
        if served.settled is not None:
            due.tell(self._taker.stock.queue, served.settled)
        if served.wrote and self._taken is not None:
            self._taken += served.took

    def _measure(self, began: float, worked: float) -> None:
        """Note how long a transaction took, and for how much of it its thread worked."""
        seconds = time.monotonic() - began
        share = (time.thread_time() - worked) / max(seconds, 1e-6)
        self._round_seconds += _WEIGHT * (seconds - self._round_seconds)
        self._busy_share += _WEIGHT * (share - self._busy_share)

    # Asking others

    def _stage(self) -> None:
        """Ask other processes to take for those who wait, and collect it."""
        batch = self._batch = self._gathered()
        if not batch:
            return
        request = self._request()
        try:
            batch = self._ask(request, batch)
            if batch:
                self._follow_up(request, batch)
        except BaseException:
            self._withdraw(request)
            raise

    def _follow_up(self, request: Request, batch: Sequence[Waiter]) -> None:
        """Collect what others take, or take it when nobody else does."""
        progress = _Progress(self._helped_seconds, self._patience())
        while True:
            progress.pause()
            self._begin_work()
            outcome = run(self._database, lambda tr: self._look(tr, request), wrote=_collected)
            if isinstance(outcome, Served):
                self._committed = outcome
                self._settle(outcome)
                self._helped_seconds += _WEIGHT * (progress.seconds - self._helped_seconds)
                self._staged_until = time.monotonic() + _STAGED_SECONDS
                return
            self._begin_work(at_work=False)
            if outcome is None:  # it ran out, and what was taken for it went back
                return
            if progress.is_over(*outcome) and self._take_over(request):
                return
            self._batch = batch

    def _gathered(self) -> Sequence[Waiter]:
        """Return those who wait, giving those who were just served a moment to be back."""
        for _ in range(_MOMENTS):
            if len(self._waiting) >= self._company:
                break
            time.sleep(_MOMENT_SECONDS)
        with self._mutex:
            self._company = len(self._waiting)
            return list(self._waiting)

    def _request(self) -> Request:
        moment = now_us()
        deadline = moment + self._claim_timeout_us
        return Request(os.urandom(CLAIM_NAME_BYTES), moment, deadline, wanted=(0, 0))

    def _ask(self, request: Request, batch: Sequence[Waiter]) -> Sequence[Waiter]:
        """Ask for those whose calls were not made before, and return them.

        Nothing is taken for the others, not even for a moment.
        """
        taker = self._taker

        def ask(tr: Any) -> tuple[Served, Sequence[Waiter]]:
            asked = taker.ask_answers(tr, batch)
            answered = taker.answered(asked)
            rest = taker.unanswered(batch, asked, answered)
            if rest:
                write_request(tr, taker.stock.meta, request._replace(wanted=_wanted(rest)))
            return Served([*answered.items()], wrote=bool(rest)), rest

        served, rest = run(self._database, ask, wrote=lambda asked: asked[0].wrote)
        if served.results:
            self._settle(served)
        self._batch = rest
        return rest

    def _look(self, tr: Any, request: Request) -> Served | tuple[int, int] | None:
        """Collect the claim, or return how far others are and the place in line.

        None when there is neither a claim nor the request any more.
        """
        meta = self._taker.stock.meta
        asked = ask_claim(tr, meta, request.name)
        waits = tr.snapshot[meta.request(request.moment, request.name)]
        present = self._taker.ask_present(tr, request.moment)
        claim = answer_claim(asked)
        if claim is not None:
            return self._taker.collect(tr, self._batch, request, claim)
        facts = self._taker.parse_present(present)
        if not waits.present():
            return None
        before = [other for other in facts.requests if other.name != request.name]
        return facts.taken, sum(other.moment <= request.moment for other in before)

    def _take_over(self, request: Request) -> bool:
        """Take for all who asked, since nobody else does; tell whether that worked."""
        try:
            served = self._round(retries_conflicts=False, own=request)
        except Conflict:
            return False
        if served.answered:
            self._begin_work(at_work=False)
            return False
        self._settle(served)
        self._staged_until = 0.0
        return True

    def _withdraw(self, request: Request) -> None:
        """Take a request back, with what was taken for it, if that can be done at once."""
        with contextlib.suppress(Exception):
            tr = self._database.create_transaction()
            tr.options.set_timeout(_WITHDRAWAL_MS)
            self._taker.give_back(tr, request)
            tr.commit().wait()

    def _patience(self) -> float:
        seconds = _PATIENCE_ROUNDS * self._round_seconds
        return min(max(seconds, _MIN_PATIENCE_SECONDS), _MAX_PATIENCE_SECONDS)


class _Progress:
    """Decide when to look for a claim, and when nobody seems to be at work.

    Args:
        usual_seconds: How long it took until now.
        patience_seconds: For how long nobody must have taken anything.
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
        """Tell whether nobody has taken anything for too long."""
        now = time.monotonic()
        if taken != self._taken:
            self._taken, self._since = taken, now
        return now - self._since > self._patience * (1 + in_line)


def _wanted(batch: Sequence[Waiter]) -> tuple[int, int]:
    """Return how many items from the min end and from the max end they want."""
    lowest, highest = (sum([one.count for one in batch if one.end == end]) for end in ENDS)
    return lowest, highest


def _collected(outcome: Any) -> bool:
    return isinstance(outcome, Served)


_crowds: weakref.WeakSet[Crowd] = weakref.WeakSet()
_shared: weakref.WeakKeyDictionary[Any, weakref.WeakValueDictionary[Any, Crowd]] = (
    weakref.WeakKeyDictionary()
)
_sharing = threading.Lock()


def crowd(database: Any, taker: Taker, claim_timeout_seconds: float, key: Any) -> Crowd:
    """Return the crowd of a queue in this process, the same for all its queue objects."""
    with _sharing:
        try:
            crowds = _shared.setdefault(database, weakref.WeakValueDictionary())
        except TypeError:  # a database of a class without weak references
            return Crowd(database, taker, claim_timeout_seconds)
        found = crowds.get(key)
        if found is None:
            found = crowds[key] = Crowd(database, taker, claim_timeout_seconds)
        return found


def _forget_all() -> None:
    global _sharing  # noqa: PLW0603  # somebody may have held it in the other process
    _sharing = threading.Lock()
    for one in list(_crowds):
        one._forget()  # noqa: SLF001  # of the same module


os.register_at_fork(after_in_child=_forget_all)
