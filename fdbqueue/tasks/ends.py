"""An attempt at a task: how its end is decided, noted and committed.

There is one :class:`Attempt` from the lease to the end. :func:`retry_seconds` decides whether there
is another one after a failure. What was decided is noted as an :class:`AttemptEnd`, which another
thread may commit (:class:`AttemptEnds`): it does not change, but for what became of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import (
    BatchTooLarge,
    EngineError,
    ItemNotFound,
    LeaseLost,
    OutcomeUnknown,
    is_a,
    message_of,
    path_of,
    traceback_of,
)
from fdbqueue.logs import get_logger
from fdbqueue.service import (
    MAX_SECONDS,
    AlternatingLeases,
    Item,
    Queue,
    ack_in_several,
    error_code,
    microseconds,
    now_us,
    run,
)
from fdbqueue.steady import monotonic
from fdbqueue.tasks.compat import Task
from fdbqueue.tasks.exceptions import Retry, TaskAborted, TaskExpired, TaskUnknown, WorkerDied
from fdbqueue.tasks.function_counters import first_wait
from fdbqueue.tasks.notes import NOTED, Notes
from fdbqueue.tasks.options import BACKENDS, BackendOptions, FdbQueueTask, function_of
from fdbqueue.tasks.records import (
    FAILED,
    NO_ATTEMPTS,
    SUCCESSFUL,
    AttemptFailure,
    Attempts,
    EndedTask,
    Records,
    TaskCall,
    encoded,
    is_abort_asked,
    is_ahead,
    item_place,
    pending,
    stored,
    unknown_call,
    wishes_in,
)
from fdbqueue.tasks.states import error_in, was_redriven
from fdbqueue.tasks.trees import PartEnd, note_ends

T = TypeVar("T")
logger = get_logger(__name__)

#: What an attempt fails with whose function the worker does not know, and a task that has expired.
UNKNOWN, EXPIRED = path_of(TaskUnknown), path_of(TaskExpired)
_NO_CALL = unknown_call("")
#: Codes of what the client refuses before it sends anything: to try it again would not help.
_REFUSALS = range(2000, 3000)
#: How long the first pause is between attempts to commit an end, and the longest.
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.1, 5.0


@dataclasses.dataclass(slots=True)
class AttemptEnd:
    """How an attempt ends.

    Attributes:
        call: What was called.
        queue: The queue that its item is in.
        item: Its item.
        attempts: The attempts, this one and its error included.
        moment: When it ended, in microseconds.
        result: The task's result, as it was when the attempt began.
        value: The return value, normalised, or as it is stored.
        failure: How it failed, None if it did not.
        reason: Why, for the dead letter: the class of the exception, and its message on a new line.
        retry_seconds: When the task runs again after a failure, None for never.
        noted: What the attempt has noted, as a record has it.
        at_end: What else is to be done in the transaction of a success.
        asked: What the task has raised to run again, if it does.
        kept_attempts: The attempts that count, if it does.
        is_aborted: Whether it ends because it was aborted.
        is_done: Whether it has been committed.
        is_unsure: Whether it may have been: the outcome of a commit is not known.
    """

    call: TaskCall
    queue: Queue
    item: Item
    attempts: Attempts
    moment: int
    result: Any
    value: Any = None
    failure: AttemptFailure | None = None
    reason: str = ""
    retry_seconds: float | None = None
    noted: dict[str, Any] | None = None
    at_end: Sequence[Callable[[Transaction], Any]] = ()
    asked: Retry | None = None
    kept_attempts: Attempts = NO_ATTEMPTS
    is_aborted: bool = False
    is_done: bool = False
    is_unsure: bool = False

    @property
    def is_success(self) -> bool:
        """Whether the task has ended as it should."""
        return self.failure is None

    @property
    def message(self) -> str:
        """What the exception said; its class if it said nothing."""
        return self.reason.partition("\n")[2]


@dataclasses.dataclass(slots=True, eq=False)
class Attempt:
    """An attempt at a task, which its worker has leased.

    Attributes:
        queue: The queue that its item is in.
        item: The leased item.
        until: Until when it is surely held, by the monotonic clock.
        leased: When its lease was asked for, likewise.
        has_begun: Whether the attempt has begun. From then on the following are set.
        call: What is called.
        attempts: This attempt, and all before.
        result: The task's result, as it is when the attempt begins.
        is_unnoted: Whether the record is to say when the attempt began.
        notes: What the task has noted; None as long as that is nothing.
        end: How it ends, once that is decided.
        is_begun_here: Whether its function was called.
        over_seconds: Its time limit, once that is over and only the end of the process keeps it.
        is_over_noted: Whether the record says so.
        coroutine: What runs its function in the loop; None if it is not async, or was left.
        has_left: Whether its function has ended.
        limit: What ends its function, as in ``time_limits.py``; None if nothing does.
        row: The number of its row in the memory that the process shares with its parent.
        looked: When it was looked up last whether it was aborted, likewise; -inf is never.
        is_abort_asked: Whether it was, while it waited for a thread.
    """

    queue: Queue
    item: Item
    until: float
    leased: float = dataclasses.field(default_factory=monotonic)
    has_begun: bool = False
    call: TaskCall = _NO_CALL
    attempts: Attempts = NO_ATTEMPTS
    result: Any = None
    is_unnoted: bool = False
    notes: Notes | None = None
    end: AttemptEnd | None = None
    is_begun_here: bool = False
    over_seconds: float | None = None
    is_over_noted: bool = False
    coroutine: asyncio.Task[Any] | None = None
    has_left: bool = False
    limit: Any = None
    row: int | None = None
    looked: float = -math.inf
    is_abort_asked: bool = False

    @property
    def is_called(self) -> bool:
        """Whether its function runs."""
        return self.is_begun_here and not self.has_left

    @property
    def is_ahead(self) -> bool:
        """Whether it was leased before it could begin, so that its lease alone counts nothing."""
        return is_ahead(self.item.worker)

    def has_notes(self) -> bool:
        """Tell whether something is noted of it that is not written."""
        is_over_unnoted = self.over_seconds is not None and not self.is_over_noted
        return is_over_unnoted or (self.notes is not None and self.notes.is_changed)

    def without_notes(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return a pending record without the notes that it writes again, or has outlived."""
        if was_redriven(record, self.item):
            return pending(*item_place(record)) | wishes_in(record)
        gone = NOTED if self.notes is not None else NOTED[1:]
        return {name: value for name, value in record.items() if name not in gone}

    def fails(
        self, error: BaseException, retry_seconds: float | None, *, is_noted: bool = False
    ) -> None:
        """Note that it has failed, and after how many seconds there is another attempt.

        The attempts of ``is_noted`` have the failure already.
        """
        failure = AttemptFailure(path_of(type(error)), traceback_of(error))
        asked = None if retry_seconds is None else _asked_by(error)
        kept = self.attempts.unspent() if asked is not None and not asked.spend else None
        if not is_noted:
            self.attempts = self.attempts.failed(failure)
        self.ends(
            failure=failure,
            reason=f"{failure.exception}\n{message_of(error)}",
            retry_seconds=retry_seconds,
            asked=asked,
            kept_attempts=kept or self.attempts,
            is_aborted=is_a(error, TaskAborted),
        )

    def ends(self, **facts: Any) -> None:
        """Note how it ends at this moment, given fields of its end."""
        if self.notes is not None:
            facts["noted"], _ = self.notes.stored()
        facts.setdefault("kept_attempts", self.attempts)
        self.is_unnoted = False
        self.end = AttemptEnd(
            self.call, self.queue, self.item, self.attempts, now_us(), self.result, **facts
        )


def max_attempts(options: BackendOptions, task: Task[..., Any] | None, call: TaskCall) -> int:
    """Return how many times a task runs at most; what its call says, if its code is gone."""
    own = call.max_attempts
    if task is not None:
        own = task.max_attempts if isinstance(task, FdbQueueTask) else None
    return options.max_attempts if own is None else own


def retry_seconds(
    options: BackendOptions, task: Task[..., Any] | None, error: BaseException, attempt: Attempt
) -> float | None:
    """Return how many seconds after a failure a task runs again, None for never."""
    is_last = len(attempt.attempts.workers) >= max_attempts(options, task, attempt.call)
    if (asked := _asked_by(error)) is not None:
        return None if is_last and asked.spend else asked.seconds
    backoff = task.backoff if isinstance(task, FdbQueueTask) else BACKENDS
    backoff = options.backoff if backoff is BACKENDS else backoff
    if backoff is None or is_last or is_a(error, TaskAborted, TaskExpired, WorkerDied):
        return None
    try:
        seconds = function_of(backoff)(error, attempt.result)
        return None if seconds is None else min(max(0.0, float(seconds)), MAX_SECONDS)
    except BaseException:
        with contextlib.suppress(BaseException):  # one that cannot be shown
            logger.exception("a backoff has failed", extra={"task": attempt.call.task})
        return None


def _asked_by(error: BaseException) -> Retry | None:
    """Return what a task asks for that raised this; None for an exception like any other."""
    if is_a(error, Retry):
        with contextlib.suppress(Exception):  # a subclass has no pause, or a wrong one
            return Retry(error.seconds, spend=error.spend)
    return None


class AtEndFailed(Exception):
    """What a task gave to ``at_end`` has failed with the cause; nothing was written."""


class AttemptEnds:
    """Commit the ends of attempts; each needs the lease of its item.

    Args:
        records: The records of tasks.
        keeps_successful: Whether the results of successful tasks are kept.
        backend: Their backend, for what follows a task of a group or a chain.
    """

    def __init__(self, records: Records, *, keeps_successful: bool, backend: Any = None) -> None:
        self._records = records
        self._backend = backend
        self._keeps_successful = keeps_successful

    def commit(self, end: AttemptEnd) -> None:
        """Commit an end by itself.

        Raises:
            LeaseLost: The lease is not held any more; nothing was written.
            AtEndFailed: The task's own function failed, wrote too much or took too long; nothing
                was written.
        """
        try:
            self._commit(end)
        except (AtEndFailed, LeaseLost):
            raise
        except Exception as error:
            end.is_unsure = end.is_unsure or not getattr(error, "outcome_known", False)
            if end.at_end and (is_refusal(error) or isinstance(error, BatchTooLarge)):
                raise AtEndFailed from error
            raise
        end.is_done = True

    def together(self, ending: Sequence[AttemptEnd]) -> Callable[[Transaction], None]:
        """Return what ends successful attempts in a transaction.

        It raises LeaseLost if one of the leases is not held any more.
        """
        write = self.writes_of(ending)
        of_queues: dict[Queue, list[Item]] = {}
        for end in ending:
            of_queues.setdefault(end.queue, []).append(end.item)
        of_trees = [end for end in ending if end.call.place is not None]

        def end_all(tr: Transaction) -> None:
            ack_in_several(tr, of_queues)
            write(tr)
            note_ends(tr, self._backend, map(_part_end, of_trees))

        return end_all

    def commit_surely(self, end: AttemptEnd, seconds: float) -> None:
        """Commit an end, again while the engine does not answer, for so many seconds.

        Raises:
            LeaseLost: The lease is not held any more.
            AtEndFailed: As :meth:`commit`.
        """
        for pause in pauses_within(seconds):
            try:
                self.commit(end)
                return
            except LeaseLost:
                if end.is_unsure and self.has_taken_effect(end):
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

    def commit_with(self, ending: Sequence[AttemptEnd], commit: Callable[[], T]) -> T | None:
        """Call what commits ends together; None if that is too large for one transaction.

        Raises:
            LeaseLost: One of the leases is not held any more; nothing was written.
        """
        try:
            result = commit()
        except Exception as error:
            for end in ending:
                end.is_unsure = end.is_unsure or not getattr(error, "outcome_known", False)
            if is_refusal(error):
                return None
            raise
        for end in ending:
            end.is_done = True
        return result

    def commit_all(self, ending: Sequence[AttemptEnd]) -> None:
        """Commit the ends of successful attempts, in one transaction if that can be."""
        if len(ending) > 1:
            commit = functools.partial(run, ending[0].queue.database, self.together(ending))
            with contextlib.suppress(Exception):  # each by itself tells what is wrong
                self.commit_with(ending, commit)
        for end in ending:
            if not end.is_done:
                self.commit(end)

    def _commit(self, end: AttemptEnd) -> None:
        if end.failure is None and not end.at_end and end.call.place is None:
            end.queue.ack(end.item, beside=self.writes_of([end]))
        else:
            commit = self._finish if end.is_success else self._fail
            is_long = bool(end.at_end)
            run(end.queue.database, lambda tr: commit(tr, end), wrote=True, may_be_long=is_long)

    def writes_of(self, ending: Sequence[AttemptEnd]) -> Callable[[Transaction], None]:
        """Return what writes all that is kept of some tasks whose items are removed.

        It counts the attempts at their functions, too.
        """
        kept = [(end, self._kept_of(end)) for end in ending]

        def write_all(tr: Transaction) -> None:
            for end, keep in kept:
                keep(tr)
                self._count(tr, end)

        return write_all

    def _kept_of(self, end: AttemptEnd) -> Callable[[Transaction], None]:
        """Return what writes the final record of a task, if one is kept, and else removes it."""
        if not self._keeps(end):
            return functools.partial(self._records.remove, result_id=end.call.id)
        return final_writes(
            self._records,
            end.call,
            end.queue.home,
            end.item,
            end.attempts,
            SUCCESSFUL if end.failure is None else FAILED,
            end.moment,
            end.value,
            end.noted,
        )

    def _keeps(self, end: AttemptEnd) -> bool:
        """Tell whether a record is kept: of a part of a group at least until that has ended."""
        return end.failure is not None or self._keeps_successful or end.call.place is not None

    def _count(self, tr: Transaction, end: AttemptEnd) -> None:
        """Count an attempt at its function."""
        exception = None if end.failure is None else end.failure.exception
        if exception != EXPIRED:  # that is no attempt
            self._records.functions.count(
                tr,
                end.queue.home,
                "" if exception == UNKNOWN else end.call.task,
                end.moment,
                end.attempts.latest,
                failed=exception is not None and not (end.is_aborted or end.asked),
                waited=first_wait(end.attempts, end.item.pushed_at, end.call.run_after),
            )

    def has_taken_effect(self, end: AttemptEnd) -> bool:
        """Tell whether it was this end that took effect, after an outcome that was not known."""
        read = functools.partial(self._records.read, result_id=end.call.id)
        record = run(end.queue.database, read, read_only=True)
        if record is None:
            return not self._keeps(end)
        attempts = end.kept_attempts
        count = len(attempts.workers)
        if tuple(record.get("workers", ()))[:count] != attempts.workers:
            return False
        is_over = record.get("ended") == end.moment
        if is_over or end.retry_seconds is None:
            return is_over
        if attempts is not end.attempts:  # the record has nothing of this one
            return _has_failed(end)
        return error_in(record, count) == (end.attempts.errors[-1] if end.failure else None)

    def _finish(self, tr: Transaction, end: AttemptEnd) -> None:
        end.queue.ack(end.item, tr=tr)
        _call_at_end(tr, end)
        self.writes_of([end])(tr)
        self._note_end(tr, end)

    def _note_end(self, tr: Transaction, end: AttemptEnd) -> None:
        """Bring about what follows the end of a task that is in a group or a chain."""
        if end.call.place is not None:
            note_ends(tr, self._backend, [_part_end(end)])

    def _fail(self, tr: Transaction, end: AttemptEnd) -> None:
        queue = end.queue
        if end.is_aborted or is_abort_asked(self._records.read(tr, end.call.id)):
            end.retry_seconds = None
            self._finish(tr, end)
            return
        seconds = end.retry_seconds
        retry = seconds is not None
        queue.nack(end.item, delay=seconds or None, reason=end.reason, retry=retry, tr=tr)
        self._count(tr, end)
        more = dict(end.noted or {})
        if retry:
            more.pop("progress", None)  # that of the attempt
        else:
            more |= {"dead": end.item.attempts + 1, "ended": end.moment}
        noted = pending(queue.name, end.item.id, end.kept_attempts, **more)
        self._records.write(tr, end.call.id, noted)
        if not retry:
            call = end.call
            entry = EndedTask(queue.home, FAILED, end.moment, call.id, call.task, _tree_of(call))
            tr.set(*self._records.ended_row(entry))
            self._note_end(tr, end)
            if end.queue.is_part and end.failure is not None and end.failure.exception == EXPIRED:
                AlternatingLeases.give_back_token(tr, queue)


def _tree_of(call: TaskCall) -> str:
    return "" if call.place is None else call.place.tree


def _part_end(end: AttemptEnd) -> PartEnd:
    """Return an end as the end of a part of a group or a chain."""
    assert end.call.place is not None
    return PartEnd(end.call.place, end.is_success, end.value)


def _call_at_end(tr: Transaction, end: AttemptEnd) -> None:
    """Call the functions that a task gave to ``at_end``.

    Raises:
        AtEndFailed: One has failed.
    """
    try:
        for function in end.at_end:
            function(tr)
    except BaseException as error:
        is_engines = is_a(error, EngineError) or error_code(error) is not None
        if is_engines and not is_refusal(error):
            raise
        raise AtEndFailed from error


def is_refusal(error: BaseException) -> bool:
    """Tell whether the engine refuses what was written, however often it is tried."""
    return error_code(error) in _REFUSALS


def pauses_within(seconds: float) -> Iterator[float | None]:
    """Yield pauses between attempts that take this many seconds in all, and at last None."""
    deadline = monotonic() + seconds
    pause = _FIRST_PAUSE_SECONDS
    while monotonic() + pause < deadline:
        yield pause
        pause = min(2 * pause, _MAX_PAUSE_SECONDS)
    yield None


def _has_failed(end: AttemptEnd) -> bool:
    """Tell whether an item says, among its last failures, that an attempt has ended so."""
    with contextlib.suppress(ItemNotFound):
        for one in end.queue.get(end.item.id).failures:
            if one.attempt == end.item.attempts + 1 and end.reason.startswith(one.reason):
                return True
    return False


def final_writes(
    records: Records,
    call: TaskCall,
    home: str,
    item: Item,
    attempts: Attempts,
    status: str,
    ended: int,
    value: Any = None,
    noted: dict[str, Any] | None = None,
) -> Callable[[Transaction], None]:
    """Return what writes the final record of a task whose item is removed, and its entry."""
    data = encoded(
        {
            "queue": home,
            "task": call.task,
            "args": call.args,
            "kwargs": call.kwargs,
            "backend": call.backend,
            "priority": call.priority,
            "run_after": None if call.run_after is None else call.run_after.isoformat(),
            "enqueued": None if item.pushed_at is None else microseconds(item.pushed_at),
            "ended": ended,
            "status": status,
            "value": value,
            **stored(attempts),
            **(noted or {}),
            **({} if call.place is None else {"tree": call.place.stored()}),
        }
    )
    entry = EndedTask(home, status, ended, call.id, call.task, _tree_of(call))
    entry_key, path = records.ended_row(entry)

    def write(tr: Transaction) -> None:
        records.write_encoded(tr, call.id, data)
        tr[entry_key] = path

    return write
