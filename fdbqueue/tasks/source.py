"""Where a worker's tasks come from, and how each of them ends.

The :class:`~fdbqueue.service.tools.worker.Worker` leases items, calls a function with each, extends
the leases and ends them. What that is for tasks are three functions of :class:`TaskSource`. The
protocol, for one task:

1. **Lease.** One commit, of several tasks if they are short: as many as the latest say that take
   a tenth of a second (``service/tools/line.py``). The item's state is the task's status: it is
   RUNNING from now on as long as the lease is held. A lease of a worker that may have more of
   them than threads is *ahead*, and its worker's name says so: by itself it counts no attempt.
   What waits for a thread is requeued as it was when all threads are at work for longer, and when
   the worker is to end.
   Limited tasks (``key_limit_queues.py``) are leased by turns with others. Only if a lease has
   ended before, :meth:`TaskSource.begin_later_attempt` reads what is known of it,
   notes the workers that died, and that this attempt begins.
2. **Run.** Unless it or its group was aborted while it waited, or it has expired
   (:meth:`TaskSource.has_expired`): its time is over before any attempt has begun. Whether what
   waits was aborted is looked up for all of it at once, a tenth of a second ago at most
   (``aborts.py``). The lease is
   extended after each third of its time, and that of what waits as well; the first extension notes
   when the attempt began. If it was leased ahead, that is after a tenth of a second
   (:meth:`TaskSource.settle`); before it begins if the task may run once only. What the
   function decides is in memory alone: an :class:`AttemptEnd`. What it notes is written
   with extensions (:mod:`fdbqueue.tasks.notes`).
3. **End.** One commit, all of it or nothing:
   - *success*: the ack, the final record and its entry in the index; together with the next lease
     if that can be; without one if other processes take items, or if a task is in a group or a
     chain (:mod:`fdbqueue.tasks.trees`); by itself if it has functions for its end (``at_end``);
   - *failure, another attempt*: the nack with its delay, and the error in the pending record;
   - *failure, the last attempt*: the item becomes a dead letter, the error likewise, and an entry
     in the index;
   - *abort*: the ack, and a final record that says FAILED.

Each of these needs the lease. So of two workers that run a task, because one was taken for dead,
at most one ends it, and there is one result. What is left behind by

- *a crash or a kill before the commit*: a lease that expires; the task runs again. It has one
  attempt more, unless the lease was ahead and nothing notes that it has begun: nobody else pays
  for a task that kills its worker, and it is itself spared once at most, because its next attempt
  is noted before it begins. Three lost leases ahead may hide that an attempt had begun before, as
  a queue keeps no more failures of an item: a task that may run once only is not run then;
- *a crash behind it*: a task that has ended;
- *an unknown outcome*: the commit's receipt tells (``service/transactions.py``). If it cannot,
  the end is tried again; if the lease is gone then, the record tells whether it was this end that
  took it;
- *an engine that does not answer*: the end is tried again for as long as the lease may be held,
  since the task need not run twice because of it;
- *a task that takes longer than its time limit*: an end like that of any failure, which its
  process notes, or the one that replaces it (``time_limits.py``);
- *a signal*: it comes to the main thread, which only waits; other threads lease, run and end;
- *a pause of the process*: the lease expires, the end fails, the task runs elsewhere.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import LeaseLost, text_of_error
from fdbqueue.logs import get_logger
from fdbqueue.own_threads import WorkerThreads
from fdbqueue.service import (
    AlternatingLeases,
    Contended,
    Held,
    Item,
    Leases,
    Queue,
    SeveralQueues,
    ahead,
    moment,
    now_us,
    run,
)
from fdbqueue.steady import monotonic
from fdbqueue.tasks.ends import Attempt, AttemptEnd, AttemptEnds, is_refusal
from fdbqueue.tasks.notes import NotesWriter, as_stored
from fdbqueue.tasks.records import (
    Records,
    TaskCall,
    is_abort_asked,
    is_pending,
    item_place,
    pending,
    unpacked,
    wishes_in,
)
from fdbqueue.tasks.states import TaskState, deadline, state_of
from fdbqueue.tasks.time_limits import LeftAttempt, ParentWatch

logger = get_logger(__name__)

#: For how long acks and leases go apart after other processes were in the way.
_APART_SECONDS = 0.25
#: The longest pause of a task that the engine did not let run.
_MAX_REST_SECONDS = 60.0
#: How many tasks one transaction gives back.
_GIVEN_BACK_TOGETHER = 100
#: How long a worker that ends at once waits for leases that are under way.
_CLOSING_SECONDS = 5.0
#: For how many seconds of work a worker leases tasks, and after how long it notes what has begun.
AHEAD_SECONDS = 0.1
#: The most tasks that a worker leases for each thread, the one that runs included.
MAX_LEASED_PER_THREAD = 16


class TaskSource:
    """Lease tasks from one queue or several, and end them.

    Args:
        queue: The queue, or several.
        records: The records of tasks.
        lease_seconds: How long leases are.
        threads: How many tasks run at a time: what is leased beyond that is leased ahead.
        keeps_successful: Whether the results of successful tasks are kept.
        backend: The backend of the tasks, for those in groups and chains.
        beside: The families of limited tasks (``key_limit_queues.py``); None for none.
        watch: What is shared with a parent, to which each task that is held is told; None for none.
    """

    def __init__(
        self,
        queue: Queue | SeveralQueues,
        records: Records,
        *,
        lease_seconds: float,
        threads: int = 1,
        keeps_successful: bool = True,
        backend: Any = None,
        beside: AlternatingLeases | None = None,
        watch: ParentWatch | None = None,
    ) -> None:
        self._queue = queue
        self._watch = watch
        self._beside = beside
        self._records = records
        self._lease_seconds = lease_seconds
        self._ends = AttemptEnds(records, keeps_successful=keeps_successful, backend=backend)
        #: Under ``_mutex``: the attempts that this worker is not done with, by their leases; how
        #: many calls lease at this moment, and how many tasks; whether nothing may be leased or
        #: begun any more.
        self._held: dict[str | None, Attempt] = {}
        self._threads = threads
        self._leasing = self._asked = 0
        self._is_closed = False
        self._mutex = threading.Lock()
        self._has_leased = threading.Condition(self._mutex)
        self._apart_until = 0.0
        #: Given a leased task with attempts, ends it if these are used up, and tells whether so; it
        #: may not raise.
        self.ends_spent: Callable[[Item], bool] = lambda _: False
        #: The threads of its worker; what has notes written, once a task has noted something.
        self.threads: WorkerThreads | None = None
        self._notes: NotesWriter | None = None

    def _queue_of(self, item: Item) -> Queue:
        if isinstance(self._queue, Queue) and item.queue == self._queue.name:
            return self._queue
        several: Any = self._beside or self._queue
        return several.queue_of(item)

    # What is noted of a task

    def begin(self, item: Item) -> Attempt:
        """Begin an attempt, if its lease is surely held.

        Raises:
            LeaseLost: It was given back, or has not been extended in time.
        """
        with self._mutex:
            attempt = self._held.get(item.lease)
            if attempt is None or self._is_closed or monotonic() >= attempt.until:
                raise LeaseLost(queue=item.queue, item=item.id)
            attempt.has_begun = True
            return attempt

    def check(self, attempt: Attempt) -> None:
        """Check that a lease is surely held.

        Raises:
            LeaseLost: It has not been extended in time, or could not be.
        """
        if monotonic() >= attempt.until:
            raise LeaseLost(queue=attempt.item.queue, item=attempt.item.id)

    def begin_later_attempt(self, item: Item, result_id: str) -> TaskState:
        """Return the state of a task that was leased before, and note that this attempt begins.

        Notes the attempts whose workers died in its record, too. So each attempt after the first is
        counted, and a task that kills its worker at once is spared once at most.

        Raises:
            LeaseLost: Its lease is not held any more.
            ItemNotFound: It has ended meanwhile.
        """

        def begin(tr: Transaction) -> TaskState:
            state = self._state(tr, item, result_id)
            record, found, over = state.record, state.item, state.over
            if found is None or found.state != "leased" or found.attempts != item.attempts:
                raise LeaseLost(queue=item.queue, item=item.id)
            if record:
                now, more = now_us(), wishes_in(record) | as_stored(state.metadata, None)
                begun = over._replace(started=over.started or now, latest=now)
                again = pending(*item_place(record), begun, running=item.attempts, **more)
                self._records.write(tr, result_id, again)
            return state

        return run(self._queue.database, begin)

    def has_expired(self, item: Item, call: TaskCall) -> bool:
        """Tell whether the time is over by which a task must have begun, and it has not.

        One that was redriven need not: somebody has asked for it.

        Raises:
            ItemNotFound: It has ended meanwhile.
        """
        at = deadline(call, item.pushed_at)
        if at is None or moment(now_us()) <= at:
            return False
        return not self.read_state(item, call.id).was_begun

    def read_state(self, item: Item, result_id: str) -> TaskState:
        """Return the state of a task, as :meth:`_state` does, in a transaction of its own."""
        read = functools.partial(self._state, item=item, result_id=result_id)
        return run(self._queue.database, read, read_only=True)

    def _state(self, tr: Transaction, item: Item, result_id: str) -> TaskState:
        """Read the state of a task; of one without a pending record only what its item says.

        Raises:
            ItemNotFound: It has ended meanwhile.
        """
        record = self._records.read(tr, result_id)
        if record is None or not is_pending(record):
            record = {}
        found = self._queue_of(item).get(item.id, tr=tr)
        return state_of(result_id, record, found, self._lease_seconds)

    def take_over(self, left: LeftAttempt) -> Item:
        """Hold the task of an attempt that ran when its process was ended.

        Raises:
            LeaseLost: Its lease is not held any more.
        """
        queue = self._queue_of(Item(None, None, "", queue=left.queue))
        until = monotonic() + self._lease_seconds
        item = queue.extend(left.lease, self._lease_seconds)
        self._hold([Attempt(queue, item, until)])
        return item

    def _hold(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            if self._watch is not None:
                attempt.row = self._watch.hold(attempt.item.queue, attempt.item.lease)
        with self._mutex:
            self._held.update({attempt.item.lease: attempt for attempt in attempts})

    def _drop(self, item: Item) -> Attempt | None:
        with self._mutex:
            attempt = self._held.pop(item.lease, None)
        if attempt is not None and attempt.row is not None and self._watch is not None:
            self._watch.release(attempt.row)
        return attempt

    # The three functions of a worker

    def leases(self, worker: str) -> Leases:
        """Return what the worker with an id does with tasks."""
        lease = functools.partial(self.lease, seconds=self._lease_seconds, worker=worker)
        return Leases(lease, self.extend, self.end, isinstance(self._queue, Queue))

    def lease(
        self, count: int, done: Sequence[Item] = (), *, seconds: float, worker: str
    ) -> list[Item]:
        """Lease tasks, and end others in the same transaction.

        Raises:
            LeaseLost: One of those to end is not held any more; nothing was ended or leased.
        """
        ending = [end for end in map(self._end_of, done) if not end.is_done]
        with self._mutex:
            is_closed = self._is_closed
            self._leasing += not is_closed
            self._asked += 0 if is_closed else count
            most = len(self._held) - len(done) + self._asked
        if is_closed:
            self._ends.commit_all(ending)
            return []
        try:
            while True:
                now = monotonic()
                name = ahead(worker) if most > self._threads else worker
                items = self._leased_by_turns(count, seconds, name, ending)
                self._hold(
                    [Attempt(self._queue_of(item), item, now + seconds, now) for item in items]
                )
                left = [one for one in items if not (one.attempts and self.ends_spent(one))]
                if left or not items:
                    return left
                ending = []
        finally:
            with self._mutex:
                self._leasing -= 1
                self._asked -= count
                if self._is_closed:
                    self._has_leased.notify_all()

    def _leased_by_turns(
        self, count: int, seconds: float, worker: str, ending: Sequence[AttemptEnd]
    ) -> list[Item]:
        """Lease tasks of the queues or, in turn, limited ones; end others in any case."""
        beside = self._beside
        if beside is None or not beside.may_be():
            return self._leased(self._queue, count, seconds, worker, ending)
        if beside.is_first():
            items = self._leased(beside, count, seconds, worker, ending)
            return items or self._leased(self._queue, count, seconds, worker, ())
        if limited := [end for end in ending if end.queue.is_part]:
            self._ends.commit_all(limited)
            ending = [end for end in ending if not end.is_done]
        seen = beside.seen()
        if items := self._leased(self._queue, count, seconds, worker, ending):
            return items
        beside.note_empty(seen)
        return beside.lease(count, seconds=seconds, worker=worker)

    def _leased(
        self,
        source: Queue | SeveralQueues | AlternatingLeases,
        count: int,
        seconds: float,
        worker: str,
        ending: Sequence[AttemptEnd],
    ) -> list[Item]:
        """Lease tasks, and end others: in one transaction if that can be."""
        verb = source.lease if isinstance(source, AlternatingLeases) else source.lease_many
        lease: Callable[..., list[Item]]
        lease = functools.partial(verb, count, seconds=seconds, worker=worker)
        if self._may_share(source, ending):
            also: dict[str, Any]
            if isinstance(source, AlternatingLeases):
                also = {"also": self._ends.together(ending)}
            else:
                ack = [end.item for end in ending]
                also = {"ack": ack, "beside": self._ends.writes_of(ending)}
            try:
                items = self._ends.commit_with(ending, functools.partial(lease, **also))
            except Contended:
                self._apart_until = monotonic() + _APART_SECONDS
                items = None
            if items is not None:
                return items
        self._ends.commit_all(ending)
        return lease()

    def _may_share(
        self, source: Queue | SeveralQueues | AlternatingLeases, ending: Sequence[AttemptEnd]
    ) -> bool:
        """Tell whether ends may be in a lease's transaction: not if they push, or are elsewhere."""
        if not ending or monotonic() < self._apart_until:
            return False
        is_beside = source is self._beside
        for end in ending:
            if end.call.place is not None or not (is_beside or end.queue is source):
                return False
        return True

    def settle(self, waiting: Sequence[Item]) -> None:
        """Note which tasks that were leased ahead have begun, and requeue the waiting ones.

        These return as they were, so that other workers run them.
        """
        latest = now_us() - int(AHEAD_SECONDS * 1_000_000)
        of_queues: dict[str, list[Attempt]] = {}
        with self._mutex:
            for attempt in self._held.values():
                began = attempt.attempts.latest
                if attempt.is_unnoted and attempt.is_ahead and began and began <= latest:
                    of_queues.setdefault(attempt.item.queue, []).append(attempt)
            given = [self._held[item.lease] for item in waiting if item.lease in self._held]
        for some in of_queues.values():
            self.note_begun(some)
        for start in range(0, len(given), _GIVEN_BACK_TOGETHER):
            self._give_back(given[start : start + _GIVEN_BACK_TOGETHER], "")

    def note_begun(self, begun: Sequence[Attempt]) -> None:
        """Note which attempts of one queue have begun, and extend their leases."""
        self._extend(begun)

    def extend(self, items: Sequence[Item]) -> Held:
        """Extend the leases of tasks, one transaction for each queue.

        The first time, notes when the attempt began.
        """
        of_queues: dict[str | None, list[Attempt]] = {}
        with self._mutex:
            for item in items:
                if (attempt := self._held.get(item.lease)) is not None:
                    of_queues.setdefault(item.queue, []).append(attempt)
        lost: list[str] = []
        for some in of_queues.values():
            lost += self._extend(some)
        return Held(len(items) - len(lost), lost)

    def _extend(self, extended: Sequence[Attempt]) -> Sequence[str]:
        """Extend the leases of tasks of one queue in one transaction; return those lost."""
        queue, seconds = extended[0].queue, self._lease_seconds
        unnoted = [one for one in extended if one.is_unnoted or one.has_notes()]
        until = monotonic() + seconds
        noted = [({}, 0) if one.notes is None else one.notes.stored() for one in unnoted]

        def extend(tr: Transaction) -> Held:
            found = queue.extend_many([attempt.item for attempt in extended], seconds, tr=tr)
            reads = [
                (attempt, notes, self._records.begin_read(tr, attempt.call.id))
                for attempt, (notes, _) in zip(unnoted, noted, strict=True)
                if attempt.item.lease not in found.lost
            ]
            for attempt, notes, read in reads:
                if (record := read()) is not None and is_pending(record):
                    known, running = attempt.attempts, attempt.item.attempts
                    times = {"started": known.started, "latest": known.latest, "running": running}
                    kept = attempt.without_notes(record)
                    late = attempt.over_seconds
                    over = {} if late is None else {"over": [running + 1, late]}
                    more = {**kept, **times, **over, **notes}
                    self._records.write(tr, attempt.call.id, more)
            return found

        lost = run(queue.database, extend).lost
        for attempt in extended:
            attempt.until = 0.0 if attempt.item.lease in lost else until
        for attempt, (_, changes) in zip(unnoted, noted, strict=True):
            attempt.is_unnoted, attempt.is_over_noted = False, attempt.over_seconds is not None
            if attempt.notes is not None:
                attempt.notes.note_written(changes)
        return lost

    def note_change(self) -> None:
        """Have written what a task has noted, or that its time is over, about a second later."""
        with self._mutex:
            if self._notes is None:
                self._notes = NotesWriter(self._write_notes, self.threads)
        self._notes.note_change()

    def _write_notes(self) -> bool:
        """Write what tasks have noted, with an extension of their leases; tell if any is left."""
        with self._mutex:
            if self._is_closed:
                return False
            held = [one for one in self._held.values() if one.end is None and one.has_notes()]
        is_left = False
        for attempt in held:  # each by itself: its value may be long, and it may end meanwhile
            try:
                self._extend([attempt])
            except Exception as error:  # noqa: BLE001  # its end has it, or the next second
                facts = {"id": attempt.call.id, "error": type(error).__name__}
                logger.warning("what a task noted is written later", extra=facts)
                is_left = True
        return is_left

    def waiting(self) -> list[Attempt]:
        """Return the attempts that have not begun, in the order of their leases."""
        with self._mutex:
            return [attempt for attempt in self._held.values() if not attempt.has_begun]

    def called(self) -> list[Attempt]:
        """Return the attempts whose functions run."""
        with self._mutex:
            return [attempt for attempt in self._held.values() if attempt.is_called]

    # The end of the worker

    def give_back(self, worker: str) -> list[Item]:
        """Give up all tasks that this process holds, so that others run them at once.

        Nothing is leased or begun from now on. What is decided already, a result or a failure, is
        committed; the items of these are returned. An attempt counts only if it has begun: what was
        leased ahead is requeued as it was, unless its end was asked for: then it is given up.
        """
        with self._mutex:
            self._is_closed = True
            self._has_leased.wait_for(lambda: not self._leasing, _CLOSING_SECONDS)
            held = [(attempt, attempt.end) for attempt in self._held.values()]
        left = [attempt for attempt, end in held if end is None]
        ended = [attempt.item for attempt, end in held if end is not None and self._has_ended(end)]
        count = 0
        for start in range(0, len(left), _GIVEN_BACK_TOGETHER):
            count += self._give_back(left[start : start + _GIVEN_BACK_TOGETHER], worker)
        if count:
            logger.warning("running tasks were given back", extra={"tasks": count})
        return ended

    def _has_ended(self, end: AttemptEnd) -> bool:
        """Commit the end of an attempt; tell whether it took effect."""
        if not end.is_done:
            with contextlib.suppress(Exception):  # then its lease expires
                self._ends.commit(end)
        return end.is_done

    def _give_back(self, given: Sequence[Attempt], worker: str) -> int:
        """Give up tasks in one transaction, in several if it would be too large; count them."""
        give_up = functools.partial(self._give_up, given=given, worker=worker)
        try:
            count: int = run(self._queue.database, give_up)
        except Exception as error:  # noqa: BLE001  # then their leases expire
            if len(given) > 1 and is_refusal(error):
                half = len(given) // 2
                return sum(self._give_back(some, worker) for some in (given[:half], given[half:]))
            logger.warning("tasks were not given back", extra={"error": type(error).__name__})
            return 0
        for attempt in given:
            self._drop(attempt.item)
        return count

    def _give_up(self, tr: Transaction, given: Sequence[Attempt], worker: str) -> int:
        calls = [None if one.has_begun else unpacked(one.item.value) for one in given]
        reads = [None if call is None else self._records.begin_read(tr, call.id) for call in calls]
        count = 0
        for attempt, read in zip(given, reads, strict=True):
            item, record = attempt.item, None if read is None else read()
            queue = attempt.queue
            with contextlib.suppress(LeaseLost):
                if attempt.has_begun or is_abort_asked(record):
                    queue.nack(item, reason=f"The worker {worker} was stopped.", tr=tr)
                elif self._beside is not None and attempt.queue.is_part:
                    self._beside.give_back(tr, item)
                else:
                    queue.requeue(item, tr=tr)
                count += 1
        return count

    # Ends

    def _end_of(self, item: Item) -> AttemptEnd:
        """Return how an attempt ends; raise LeaseLost if it was given back."""
        attempt = self._held.get(item.lease)
        if attempt is None or attempt.end is None:
            raise LeaseLost(queue=item.queue, item=item.id)
        return attempt.end

    def forget(self, item: Item) -> tuple[bool, AttemptEnd | None]:
        """Keep nothing of a task that the worker is done with.

        Returns:
            Whether anything was kept, and the end of its attempt.
        """
        attempt = self._drop(item)
        return attempt is not None, None if attempt is None else attempt.end

    def end(self, item: Item, error: BaseException | None = None) -> None:
        """End an attempt, again while the engine does not answer and the lease may be held.

        Args:
            item: Its item.
            error: Why it has failed, if it has; that the engine has, if its end is not decided.

        Raises:
            LeaseLost: Its lease is not held any more.
            AtEndFailed: A function that the task gave to ``at_end`` has failed.
        """
        attempt = self._held.get(item.lease)
        if attempt is None:  # it was given back
            raise LeaseLost(queue=item.queue, item=item.id)
        if attempt.end is not None:
            if not attempt.end.is_done:
                self._ends.commit_surely(attempt.end, self._lease_seconds)
        elif attempt.has_begun:  # the engine has failed before it ran
            pause = min(_MAX_REST_SECONDS, 2.0**item.attempts)
            reason = "" if error is None else text_of_error(error)
            attempt.queue.nack(item, reason=reason, delay=pause)
        else:
            attempt.queue.requeue(item)
            raise LeaseLost(queue=item.queue, item=item.id)
