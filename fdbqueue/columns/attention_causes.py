"""Does a queue move, and if not, why: the one answer, for pages, commands, health and metrics.

:func:`begin_movement` reads what decides it and writes the causes into the rows of queues, by these
names; :mod:`attention` has the words and the remedy of each.

``blocked``
    The item at an end cannot be decoded.
``lost``, ``no_worker``
    Something could be taken, and all workers of the queue are lost; or none is there, but one was
    within a day. That nobody runs the tasks of an app's queue is said after ten seconds, and so
    is that workers are lost. A worker that has ended as it should may be a job that begins every
    few minutes, so that none is there is said after ``attention_seconds``.
``lost_leases``
    A worker that is lost holds items.
``limit``
    The oldest item waits for ``attention_seconds``, and a limit of the queue allows nothing now.
``idle``, ``untaken``
    Nothing was taken for ``attention_seconds``, though something could be: a worker is alive; or
    no worker is known.
``slow``
    The oldest item waits for ``attention_seconds``, though others were taken.
``paused``
    It is paused.

What was taken is told by the minutes in which items were popped or acknowledged, and by when the
leases began that are held: up to 100 of them. How long something could be taken is told by when the
oldest ready item was pushed, or by when the first lease or delay has ended; if items keep no time,
more are ready than came in that time. Of a queue that is well at most one key of this is read.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fdbqueue.columns.queue_rows import RATE_MINUTES, Cause, QueueRow, keeps_push_times
from fdbqueue.columns.workers_and_reasons import workers_of
from fdbqueue.service import HeldLease, Minute, WorkerRow, Workers, microseconds, moment, now_us

#: What is ready for longer would have been taken by a worker that has nothing to do.
WORKERLESS_SECONDS = 10
#: Of a worker that is lost, a lease may have begun so long after its last sign of life.
_BEAT_SECONDS = 5
#: Who has served a queue, if that was not read.
_NOBODY = Workers([], True)


def begin_movement(tr: Any, rows: Sequence[QueueRow]) -> Callable[[], None]:
    """Begin to read whether queues move.

    To be waited for after the counts, pauses, ends, limits and oldest items of the rows.
    """

    def wait() -> None:
        dues = [
            row.queue.overview.begin_due(tr) if row.counts.leased + row.counts.delayed > 0 else None
            for row in rows
        ]
        looked = [_Movement(row, due and due()) for row, due in zip(rows, dues, strict=True)]
        unclear = [look for look in looked if look.is_unclear]
        _read_workers(tr, unclear)
        minutes = [look.begin_minutes(tr) for look in unclear]
        for look, result in zip(unclear, minutes, strict=True):
            look.minutes = result()
            look.leases = look.row.queue.overview.leases(tr) if look.needs_leases else []
        for look in looked:
            look.row.causes = dict(look.causes())

    return wait


def _read_workers(tr: Any, unclear: Sequence[_Movement]) -> None:
    """Read who serves some queues, and if anybody has gone, who has served them."""
    presences = next((one.row.queue.workers for one in unclear if one.row.queue.workers), None)
    if presences is None:
        return
    present, served = presences.read_in(tr), _NOBODY
    for look in unclear:
        look.workers = workers_of(look.row.queue, present)
        look.knows_all = present.is_complete
        if look.waits and not look.workers and look.knows_all:
            served = presences.served_in(tr) if served is _NOBODY else served
            look.was_served = bool(workers_of(look.row.queue, served))


@dataclass(slots=True)
class _Movement:
    """What is known of one queue, and what it means.

    ``due`` is when the first lease or delay ends. ``knows_all`` says whether all workers were
    read, ``was_served`` whether one that is gone has served the queue.
    """

    row: QueueRow
    due: int | None
    workers: Sequence[WorkerRow] = ()
    knows_all: bool = False
    was_served: bool = False
    minutes: Sequence[Minute] = ()
    leases: Sequence[HeldLease] = field(default_factory=list)

    @property
    def limit(self) -> float:
        """After how many seconds the queue needs attention."""
        return float(self.row.queue.options.attention_seconds)

    @property
    def seconds(self) -> float | None:
        """For how long something could be taken, as far as is known."""
        row = self.row
        known = [] if self.due is None else [_since(moment(self.due))]
        if row.counts.ready > 0 and row.oldest is not None:
            known.append(_since(row.oldest))
        longest = max(known, default=0)
        return longest if longest > 0 else None

    @property
    def has_undated(self) -> bool:
        """Whether items are ready that do not say since when."""
        row = self.row
        return row.counts.ready > 0 and row.oldest is None and not keeps_push_times(row.queue)

    @property
    def waits(self) -> bool:
        """Whether something could be taken for so long that a free worker would have."""
        row = self.row
        if row.pause is not None or row.ends.undecodable:
            return False
        return self.has_undated or (self.seconds or 0) > WORKERLESS_SECONDS

    @property
    def is_unclear(self) -> bool:
        """Whether more must be read."""
        return self.row.ends.mismatch is None and (self.waits or self.row.counts.leased > 0)

    def begin_minutes(self, tr: Any) -> Callable[[], Sequence[Minute]]:
        """Begin to read the minutes in which something may have been taken."""
        if not self.waits:
            return tuple
        most = max(RATE_MINUTES, math.ceil(self.limit / 60) + 1)
        return self.row.queue.overview.begin_history(tr, most)

    @property
    def lost(self) -> list[WorkerRow]:
        """The workers that are lost; none if one of the same name is alive."""
        alive = {one.name for one in self.workers if not one.is_lost}
        return [one for one in self.workers if one.is_lost and one.name not in alive]

    @property
    def needs_leases(self) -> bool:
        """Whether it matters who holds items, and since when."""
        return self.row.counts.leased > 0 and (bool(self.lost) or self.waits_long)

    @property
    def waits_long(self) -> bool:
        """Whether something could be taken for longer than the queue allows."""
        if not self.waits:
            return False
        if self.has_undated and (self.seconds or 0) <= self.limit:
            begun = self.limit + 60
            recent = sum(one.pushes for one in self.minutes if _since(one.at) < begun)
            return self.row.counts.ready > recent
        return (self.seconds or 0) > self.limit

    def is_taken(self, seconds: float, *, grace_seconds: float = 60) -> bool:
        """Tell whether something was taken in the last seconds, as far as is known.

        Args:
            seconds: How many.
            grace_seconds: So much earlier a minute may have begun in which items were popped.
        """
        begun = seconds + grace_seconds
        if any(one.pops and _since(one.at) < begun for one in self.minutes):
            return True
        after = now_us() - seconds * 1_000_000
        return any(one.leased_at > after for one in self.leases)

    def causes(self) -> Iterator[tuple[str, Cause]]:
        """Yield why the queue does not move, by the names of the causes."""
        row = self.row
        if row.ends.mismatch is not None:  # its figures are read under the wrong settings
            return
        if row.ends.undecodable:
            yield "blocked", Cause()
        if self.waits:
            yield from self._waiting(self.seconds)
        held = Counter(one.worker for one in self.leases)
        for worker in self.lost:
            if held[worker.name]:
                yield "lost_leases", Cause(None, worker, held[worker.name])
                break
        if row.pause is not None:
            yield "paused", Cause()

    def _waiting(self, seconds: float | None) -> Iterator[tuple[str, Cause]]:
        """Yield why nothing is taken that could be, or too little."""
        row, waits_long = self.row, self.waits_long
        if self.is_workerless:
            lost = min(self.lost, key=lambda one: one.age_seconds, default=None)
            yield "no_worker" if lost is None else "lost", Cause(seconds, lost)
        elif waits_long and not row.held and not self.is_taken(self.limit):
            alive = next((one for one in self.workers if not one.is_lost), None)
            yield "untaken" if alive is None else "idle", Cause(seconds, alive)
        elif waits_long and not row.held:
            yield "slow", Cause(seconds)
        if row.held and waits_long:
            yield "limit", Cause(seconds)

    @property
    def is_workerless(self) -> bool:
        """Whether no worker is there for what waits.

        Others may take from a queue that no app has, and may have no rows: not if nothing was
        taken since its workers were lost, or for as long as the queue allows. Workers of tasks
        have no rows if they are of an older version: their leases and pops tell of them.
        """
        if not self.knows_all or (self.workers and not all(one.is_lost for one in self.workers)):
            return False
        is_owned = self.row.queue.owner is not None
        if self.workers:
            since = min(one.age_seconds for one in self.workers) - _BEAT_SECONDS
            return is_owned or not self.is_taken(since, grace_seconds=0)
        if is_owned:
            return self.row.counts.leased <= 0 and not any(
                one.pops for one in self.minutes[-RATE_MINUTES:]
            )
        return self.was_served and self.waits_long and not self.is_taken(self.limit)


def _since(at: datetime.datetime) -> float:
    """Return how many seconds ago a moment was, by the clock of the queues."""
    return (now_us() - microseconds(at)) / 1_000_000
