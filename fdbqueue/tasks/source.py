"""Where a worker's tasks come from, and how each of them ends.

The :class:`~fdbqueue.service.tools.worker.Worker` leases items, calls a function with each, and
acknowledges it or gives it up. :class:`TaskSource` stands between it and the queues, and makes each
end what it is for a task. The protocol, for one task:

1. **Lease.** One commit. The item's state is the task's status: it is RUNNING from now on, under
   the worker's id, as long as the lease is held. Only where an attempt failed before,
   :meth:`TaskSource.begin_again` reads what is known of it, and notes the workers that died.
2. **Run.** The lease is extended after each third of its time; the first extension notes when the
   attempt began. What the function decides is in memory alone: an :class:`End`.
3. **End.** One commit, all of it or nothing:
   - *success*: the ack, the final record and its entry in the index; together with the next lease
     where that can be, by itself where other processes take items, or where the task has
     functions for its end (``at_end``);
   - *failure, another attempt*: the nack with its delay, and the error in the pending record;
   - *failure, the last attempt*: the item becomes a dead letter, the error likewise, and an entry
     in the index;
   - *abort*: the ack, and a final record that says FAILED.

Each of these needs the lease. So of two workers that run a task, because one was taken for dead,
at most one ends it, and there is one result. What is left behind by

- *a crash or a kill before the commit*: a lease that expires; the task runs again, and has one
  attempt more;
- *a crash behind it*: a task that has ended;
- *an unknown outcome*: the commit's receipt tells (``service/transactions.py``). Where it cannot,
  the end is tried again; if the lease is gone then, the record tells whether it was this end that
  took it;
- *an engine that does not answer*: the end is tried again for as long as the lease may be held,
  since the task need not run twice because of it;
- *a signal*: it is deferred while an end is under way (the worker's threads get none, the main
  thread lets them in only where it waits);
- *a pause of the process*: the lease expires, the end fails, the task runs elsewhere.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import CorruptItem, EngineError, LeaseLost, OutcomeUnknown
from fdbqueue.service import Contended, Item, Queue, SeveralQueues, error_code, run
from fdbqueue.tasks.calls import Call, unpacked
from fdbqueue.tasks.ends import End, Ends, is_refusal
from fdbqueue.tasks.records import Attempts, Records, is_pending, pending
from fdbqueue.tasks.results import attempts_at

logger = logging.getLogger(__name__)

#: For how long acks and leases go apart after other processes were in the way.
_APART_SECONDS = 0.25
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.1, 5.0


class TaskSource:
    """Lease tasks from one queue or several, and end them.

    Has the verbs that a :class:`~fdbqueue.service.tools.worker.Worker` uses of a queue.

    Args:
        queue: The queue, or several.
        records: The records of tasks.
        lease_seconds: How long leases are.
        keeps_successful: Whether the results of successful tasks are kept.
    """

    def __init__(
        self,
        queue: Queue | SeveralQueues,
        records: Records,
        *,
        lease_seconds: float,
        keeps_successful: bool = True,
    ) -> None:
        self._queue = queue
        self._records = records
        self._lease_seconds = lease_seconds
        self._ends = Ends(records, keeps_successful=keeps_successful)
        #: How attempts end that the worker is not done with.
        self._noted: dict[str | None, End] = {}
        #: When the attempts began whose leases were not extended yet.
        self._began: dict[str | None, tuple[Call, Attempts]] = {}
        #: The leases of attempts that have begun, until the worker is done with them.
        self._begun: set[str | None] = set()
        self._apart_until = 0.0
        self.name = queue.name
        self.acks_with_leases = isinstance(queue, Queue)

    def queue_of(self, item: Item) -> Queue:
        """Return the queue that an item came from."""
        return self._queue.queue_of(item) if isinstance(self._queue, SeveralQueues) else self._queue

    # What is noted of a task

    def begun(self, item: Item, call: Call, attempts: Attempts) -> None:
        """Note that an attempt has begun, for the first extension of its lease."""
        self._began[item.lease] = call, attempts
        self._begun.add(item.lease)

    def ends(self, end: End) -> None:
        """Note how an attempt ends; the worker then acknowledges its item, or gives it up."""
        self._began.pop(end.item.lease, None)
        self._noted[end.item.lease] = end

    def begin_again(self, item: Item, result_id: str) -> tuple[Attempts, bool]:
        """Return what is known of the failed attempts at a task, and whether it was aborted.

        Notes the attempts whose workers died in its record.
        """
        queue = self.queue_of(item)

        def begin(tr: Transaction) -> tuple[Attempts, bool]:
            record = self._records.read(tr, result_id)
            if record is None or not is_pending(record):
                return attempts_at({}, queue.get(item.id, tr=tr)), False
            attempts = attempts_at(record, queue.get(item.id, tr=tr))
            if len(attempts.workers) > len(record.get("workers", ())):
                more = {"abort": True} if record.get("abort") else {}
                again = pending(record["queue"], record["item"], attempts, **more)
                self._records.write(tr, result_id, again)
            return attempts, bool(record.get("abort"))

        return run(queue.database, begin)

    # The verbs of a queue

    def wait_for_items(self, seconds: float) -> bool:
        """Wait until there may be a task, at most this many seconds; tell whether so."""
        return self._queue.wait_for_items(seconds)

    def bury_corrupt(self, error: CorruptItem) -> bool:
        """Move the item that an error names to the dead letters; tell whether it was there."""
        return self._queue.bury_corrupt(error)

    def lease_many(
        self, count: int, *, seconds: float, worker: str, ack: Sequence[Item] = (), **_: Any
    ) -> list[Item]:
        """Lease tasks, and end others in the same transaction.

        Raises:
            LeaseLost: One of those to end is not held any more; nothing was ended or leased.
        """
        if isinstance(self._queue, SeveralQueues):
            return self._queue.lease_many(count, seconds=seconds, worker=worker)
        ending = [end for end in map(self._end_of, ack) if not end.is_done]
        if time.monotonic() >= self._apart_until:
            try:
                return self._lease_with(self._queue, count, seconds, worker, ending)
            except Contended:
                self._apart_until = time.monotonic() + _APART_SECONDS
            except Exception as error:
                if not (ending and is_refusal(error)):
                    raise  # else: together they are too large for a transaction
        for end in ending:
            self._ends.commit(end, self._queue)
        return self._queue.lease_many(count, seconds=seconds, worker=worker)

    def _lease_with(
        self, queue: Queue, count: int, seconds: float, worker: str, ending: Sequence[End]
    ) -> list[Item]:
        writes = [self._ends.writes(end) for end in ending]

        def beside(tr: Transaction) -> None:
            for write in writes:
                write(tr)

        consumer = queue.parts.consumer
        request = consumer.lease_request(
            "min",
            count,
            seconds,
            None,
            [end.item for end in ending],
            worker,
            beside if ending else None,
        )
        try:
            items = consumer.take(request, None)
        except Exception as error:
            for end in ending:
                end.is_unsure = end.is_unsure or not getattr(error, "outcome_known", False)
            raise
        for end in ending:
            end.is_done = True
        return items

    def ack(self, item: Item) -> None:
        """End a task that has succeeded, as :meth:`finish` does."""
        self.finish(item)

    def nack(self, item: Item, *, reason: str, **_: Any) -> None:
        """End an attempt that has failed, as :meth:`finish` does."""
        if item.lease in self._noted:
            self.finish(item)
        else:  # nothing has run
            self.queue_of(item).nack(item, reason=reason)

    def extend(self, item: Item, seconds: float) -> None:
        """Extend the lease of a task; the first time, note when the attempt began."""
        queue = self.queue_of(item)
        call, attempts = self._began.get(item.lease, (None, None))
        if call is None or attempts is None:
            queue.extend(item, seconds)
            return

        def extend(tr: Transaction) -> None:
            queue.extend(item, seconds, tr=tr)
            record = self._records.read(tr, call.id)
            if record is not None and is_pending(record):
                times = {"started": attempts.started, "latest": attempts.latest}
                noted = {**record, **times, "running": item.attempts}
                self._records.write(tr, call.id, noted)

        run(queue.database, extend)
        self._began.pop(item.lease, None)

    def give_back(self, items: Iterable[Item], worker: str) -> int:
        """Give up tasks that this process abandons, so that others run them at once; count them.

        An attempt counts only where it has begun: what was leased ahead is requeued as it was. Only
        where its end was asked for is it given up, so that the next worker looks for that.
        """
        count = 0
        for item in items:
            with contextlib.suppress(Exception):  # then its lease expires
                queue = self.queue_of(item)
                has_begun = item.lease in self._begun or item.lease in self._noted
                give_up = functools.partial(
                    self._give_up, item=item, queue=queue, worker=worker, has_begun=has_begun
                )
                run(queue.database, give_up)
                count += 1
        return count

    def _give_up(
        self, tr: Transaction, item: Item, queue: Queue, worker: str, has_begun: bool
    ) -> None:
        call = None if has_begun else unpacked(item.value)
        record = None if call is None else self._records.read(tr, call.id)
        if has_begun or (record is not None and record.get("abort")):
            queue.nack(item, reason=f"The worker {worker} was stopped.", tr=tr)
        else:
            queue.parts.acks.requeue(item, tr)

    # Ends

    def _end_of(self, item: Item) -> End:
        return self._noted[item.lease]

    def forget(self, item: Item) -> End | None:
        """Return the end of an item that the worker is done with, and keep nothing of it."""
        self._began.pop(item.lease, None)
        self._begun.discard(item.lease)
        return self._noted.pop(item.lease, None)

    def finish(self, item: Item) -> None:
        """End an attempt, again while the engine does not answer and the lease may be held.

        Raises:
            LeaseLost: Its lease is not held any more.
            AtEndFailed: A function that the task gave to ``at_end`` has failed.
        """
        end, queue = self._end_of(item), self.queue_of(item)
        if end.is_done:
            return
        for pause in _pauses(self._lease_seconds):
            try:
                self._ends.commit(end, queue)
                return
            except LeaseLost:
                if end.is_unsure and self._ends.has_taken_effect(end, queue):
                    end.is_done = True
                    return
                raise
            except (EngineError, OutcomeUnknown) as error:
                failed: BaseException = error
            except Exception as error:
                if error_code(error) is None:
                    raise
                failed = error
            if pause is None:
                raise failed
            facts = {"task": end.call.task, "id": end.call.id, "error": type(failed).__name__}
            logger.warning("the end of a task is tried again", extra=facts)
            time.sleep(pause)


def _pauses(seconds: float) -> Iterator[float | None]:
    """Yield pauses between attempts that take this many seconds in all, and at last None."""
    deadline = time.monotonic() + seconds
    pause = _FIRST_PAUSE_SECONDS
    while time.monotonic() + pause < deadline:
        yield pause
        pause = min(2 * pause, _MAX_PAUSE_SECONDS)
    yield None
