"""How an attempt at a task ends, and the commit that ends it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import EngineError, LeaseLost
from fdbqueue.service import Item, Queue, error_code, run
from fdbqueue.tasks.calls import Call
from fdbqueue.tasks.compat import TaskResultStatus
from fdbqueue.tasks.records import Attempts, Ended, Failure, Records, pending
from fdbqueue.tasks.results import final_record, microseconds

SUCCESSFUL = TaskResultStatus.SUCCESSFUL.value
FAILED = TaskResultStatus.FAILED.value
#: Codes of what the client refuses before it sends anything: to try it again would not help.
_REFUSALS = range(2000, 3000)
#: How long a transaction lasts; what takes longer is run again.
_TRANSACTION_SECONDS = 5.0
#: How often the functions for the end may take longer than that.
_SLOW_CALLS = 3


@dataclasses.dataclass(slots=True)
class End:
    """How an attempt ends.

    Attributes:
        call: What was called.
        item: Its item.
        attempts: The attempts, this one and its error included.
        moment: When it ended, in microseconds.
        result: The task's result, as it is then.
        value: The return value, normalised.
        failure: How it failed, None where it did not.
        reason: Why, for the dead letter.
        retry_seconds: When the task runs again after a failure, None for never.
        at_end: What else is to be done in the transaction of a success.
        is_aborted: Whether it ends because it was aborted.
        is_done: Whether it has been committed.
        is_unsure: Whether it may have been: the outcome of a commit is not known.
        slow_calls: How often ``at_end`` has taken longer than a transaction lasts.
    """

    call: Call
    item: Item
    attempts: Attempts
    moment: int
    result: Any
    value: Any = None
    failure: Failure | None = None
    reason: str = ""
    retry_seconds: float | None = None
    at_end: Sequence[Callable[[Transaction], Any]] = ()
    is_aborted: bool = False
    is_done: bool = False
    is_unsure: bool = False
    slow_calls: int = 0

    @property
    def is_success(self) -> bool:
        """Whether the task has ended as it should."""
        return self.failure is None

    @property
    def failure_kept(self) -> Failure | None:
        """How it failed, as a record has it."""
        return self.attempts.errors[-1] if self.failure is not None else None

    @property
    def is_plain(self) -> bool:
        """Whether it only removes the item, and writes keys that nobody else writes."""
        return self.failure is None and not self.at_end


class AtEndFailed(Exception):
    """What a task gave to ``at_end`` has failed with the cause; nothing was written."""


class Ends:
    """Commit the ends of attempts; each needs the lease of its item.

    Args:
        records: The records of tasks.
        keeps_successful: Whether the results of successful tasks are kept.
    """

    def __init__(self, records: Records, *, keeps_successful: bool) -> None:
        self._records = records
        self._keeps_successful = keeps_successful

    def commit(self, end: End, queue: Queue) -> None:
        """Commit an end by itself.

        Raises:
            LeaseLost: The lease is not held any more; nothing was written.
            AtEndFailed: The task's own function failed, or wrote too much; nothing was written.
        """
        try:
            self._commit(end, queue)
        except (AtEndFailed, LeaseLost):
            raise
        except Exception as error:
            end.is_unsure = end.is_unsure or not getattr(error, "outcome_known", False)
            if end.at_end and is_refusal(error):
                raise AtEndFailed from error
            raise
        end.is_done = True

    def _commit(self, end: End, queue: Queue) -> None:
        if end.is_plain:
            queue.parts.acks.ack(end.item, None, None, self.writes(end))
        else:
            commit = self._succeed if end.is_success else self._fail
            run(queue.database, lambda tr: commit(tr, queue, end))

    def writes(self, end: End) -> Callable[[Transaction], None]:
        """Return what writes all that is kept of a task whose item is removed."""
        if end.is_success and not self._keeps_successful:
            return lambda tr: self._records.remove(tr, end.call.id)
        record = final_record(
            end.call,
            end.item.queue,
            end.attempts,
            status=SUCCESSFUL if end.is_success else FAILED,
            enqueued=microseconds(end.item.pushed_at),
            ended=end.moment,
            value=end.value,
        )
        rows, (key, value) = self._records.rows(end.call.id, record), self._entry(end)

        def write(tr: Transaction) -> None:
            self._records.write_rows(tr, end.call.id, rows)
            tr[key] = value

        return write

    def has_taken_effect(self, end: End, queue: Queue) -> bool:
        """Tell whether it was this end that took effect, after an outcome that was not known."""
        record = run(queue.database, lambda tr: self._records.read(tr, end.call.id), read_only=True)
        if record is None:
            return end.is_success and not self._keeps_successful
        workers = tuple(record.get("workers", ()))
        count = len(end.attempts.workers)
        if workers[:count] != end.attempts.workers:
            return False
        if record.get("ended") == end.moment:
            return True
        return end.retry_seconds is not None and _error_at(record, count) == end.failure_kept

    def _succeed(self, tr: Transaction, queue: Queue, end: End) -> None:
        queue.ack(end.item, tr=tr)
        if end.at_end:
            _call_at_end(tr, end)
        self.writes(end)(tr)

    def _fail(self, tr: Transaction, queue: Queue, end: End) -> None:
        record = self._records.read(tr, end.call.id) or {}
        if end.is_aborted or record.get("abort"):
            queue.ack(end.item, tr=tr)
            self.writes(end)(tr)
            return
        seconds = end.retry_seconds
        retry = seconds is not None
        queue.nack(end.item, delay=seconds or None, reason=end.reason, retry=retry, tr=tr)
        more = {} if retry else {"dead": end.item.attempts + 1, "ended": end.moment}
        noted = pending(queue.name, end.item.id, end.attempts, **more)
        self._records.write(tr, end.call.id, noted)
        if not retry:
            key, value = self._entry(end)
            tr[key] = value

    def _entry(self, end: End) -> tuple[bytes, bytes]:
        status = SUCCESSFUL if end.is_success else FAILED
        entry = Ended(end.item.queue, status, end.moment, end.call.id, end.call.task)
        return self._records.ended_row(entry)


def _call_at_end(tr: Transaction, end: End) -> None:
    """Call the functions that a task gave to ``at_end``.

    Raises:
        AtEndFailed: One has failed, or they take too long each time.
    """
    began = time.monotonic()
    try:
        for function in end.at_end:
            function(tr)
    except BaseException as error:
        is_engines = isinstance(error, EngineError) or error_code(error) is not None
        if is_engines and not is_refusal(error) and not _is_too_slow(end, began):
            raise
        raise AtEndFailed from error
    if _is_too_slow(end, began):
        raise AtEndFailed from TimeoutError("at_end takes longer than a transaction: 5 seconds")


def _is_too_slow(end: End, began: float) -> bool:
    """Note how long ``at_end`` has taken; tell whether it was too long, and often enough."""
    end.slow_calls += time.monotonic() - began > _TRANSACTION_SECONDS
    return end.slow_calls >= _SLOW_CALLS


def is_refusal(error: BaseException) -> bool:
    """Tell whether the engine refuses what was written, however often it is tried."""
    code = error_code(error)
    return code is not None and code in _REFUSALS


def _error_at(record: dict[str, Any], attempt: int) -> Failure | None:
    """Return how an attempt failed, counted from 1; None where a record does not have that."""
    errors = record.get("errors", ())
    failed = len(record.get("workers", ())) - (record.get("status") == SUCCESSFUL)
    index = attempt - 1 - (failed - len(errors))
    return Failure(*errors[index]) if 0 <= index < len(errors) else None
