"""Combine the operations of a process's threads: one transaction does the work of many.

An operation that finds nobody in line and a free *turn*, a lock that the working thread holds, is
done by its own thread. Writes have three turns on a cluster; all else has one. Others join the
*line*, and their threads sleep; *helper* threads use the free turns. In line, or claimed by one
batch, an operation is

- WAITING: nothing was done for it, and nothing will be if its thread leaves.
- IN_FLIGHT: a transaction has taken it up. If its thread leaves, the outcome is unknown; what was
  done is undone later, if it can be.
- DONE: it has its result or its error. If its thread does not return a result, a helper undoes it.
- LEFT: its thread has gone.

Signals end no batch: handlers run in the main thread, which does none unless no helper can be
started. An exception in one thread blocks no other: locks are held by ``with`` alone, and who joins
the line makes sure that there is a helper. A handler that uses a queue while its thread has a turn
is refused. A forked child begins with an empty line.
"""

from __future__ import annotations

import copy
import enum
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from fdbqueue.engines.protocols import Database
from fdbqueue.exceptions import DeadlineExceeded, EngineUnavailable, OutcomeUnknown
from fdbqueue.locks import IN_A_HANDLER, RLock
from fdbqueue.own_threads import OwnThread
from fdbqueue.steady import monotonic

#: The name of the helper threads.
HELPER = "fdbqueue-helper"
#: How long an idle helper stays.
_IDLE_SECONDS = 1.0
#: Threads served together come back within this time, and join the line straight away.
_CROWDED_SECONDS = 0.002
#: How often a thread that cannot have a helper looks whether its operation was done for it.
_LOOK_SECONDS = 0.01


class OperationState(enum.IntEnum):
    """The state of an operation."""

    WAITING = 0
    IN_FLIGHT = 1
    DONE = 2
    LEFT = 3


class SharedOperation:
    """An operation of one thread, and its result.

    Attributes:
        state: Whether it waits, is in flight, is done, or its thread has left.
        result: What it returns.
        error: What it raises, None if it returns.
        database: Where its own thread does it; its transactions may have a time limit.
        gate: Opened when it is done; None unless it was in line.
        batch: The batch that has claimed it, None for none.
        left_in: Its state when its thread left.
    """

    # Of the class, because a signal may come before submit() has set them.
    state = left_in = OperationState.WAITING
    result: Any = None
    error: BaseException | None = None
    gate: threading.Lock | None = None
    batch: Any = None
    database: Any = None

    def conclude(self, result: Any) -> None:
        """Note the result; an error says whether anything was done, unless it does already."""
        if not isinstance(result, BaseException):
            self.result = result
            return
        self.error = result
        if not hasattr(result, "outcome_known"):
            vars(result)["outcome_known"] = True  # also if the class forbids attributes


class Work(Protocol):
    """How a combiner's operations are done."""

    def alone(self, operation: Any) -> bool:
        """Do one operation in its own thread, and note its result; tell whether it is done.

        It is not if other processes interfere; then a helper does it. What is raised has an
        attribute ``outcome_known``, unless its outcome is unknown.
        """

    def together(self, batch: CombinedBatch) -> None:
        """Do some of the operations in line, in a helper."""

    def undo(self, operation: Any) -> None:
        """Undo an operation that is done and whose thread has gone, in a helper.

        It raises nothing.
        """


class Combiner:
    """The operations of this process that share transactions.

    Args:
        work: Does them.
        turns: How many transactions may be in flight.
    """

    def __init__(self, work: Work, turns: int = 1) -> None:
        self._work = work
        self._most = turns
        self.restart_after_fork()

    def restart_after_fork(self) -> None:
        """Start again in a forked process, where no thread waits."""
        #: Reentrant, because a signal handler may run in the thread that holds it.
        self.mutex = RLock()
        #: The lock of each turn.
        self._turns = [threading.Lock() for _ in range(self._most)]
        #: The threads that have begun a turn by its lock, and not left it. A helper that waits for
        #: a turn holds its lock for a moment, too, after that thread has left.
        self._workers: dict[threading.Lock, int] = {}
        #: The operations that no batch has claimed.
        self.line: dict[SharedOperation, None] = {}
        #: The operations that are done, and whose threads have gone.
        self.orphans: list[SharedOperation] = []
        self._batches: list[CombinedBatch] = []
        self._helpers = self._idle_helpers = 0
        #: Released to wake a helper.
        self._wake = threading.Lock()
        self._crowded_until = 0.0

    def submit(self, operation: SharedOperation, database: Database) -> Any:
        """Do an operation, together with other threads' operations; return its result.

        Whatever is raised has an attribute ``outcome_known``: True if nothing was done.

        Args:
            operation: The operation.
            database: Where to do it. Its ``time_limit()``, if it has one, is how many
                seconds the operation may wait in line.

        Raises:
            DeadlineExceeded: Its time was over before it was done; nothing was changed.
            OutcomeUnknown: It is not known whether it was done.
        """
        turn = threading.Lock()
        try:
            operation.state = operation.left_in = OperationState.WAITING
            operation.result = operation.error = operation.gate = operation.batch = None
            operation.database = database
            with turn:
                is_done = self._may_work(turn)
                if is_done:
                    operation.state = OperationState.IN_FLIGHT
                    try:
                        is_done = self._work.alone(operation)
                    except BaseException as error:
                        if getattr(error, "outcome_known", False):
                            operation.state = OperationState.WAITING
                        elif operation.result is not None:  # it came after the result was noted
                            operation.state = OperationState.DONE
                        raise
                    operation.state = OperationState.DONE if is_done else OperationState.WAITING
            self._workers.pop(turn, None)
            if not is_done:
                self._wait_in_line(operation)
        except BaseException as error:
            self._workers.pop(turn, None)
            vars(error)["outcome_known"] = self._leave(operation)
            raise
        own, operation.error = operation.error, None
        if own is None:
            return operation.result
        try:
            raise own
        finally:
            del own  # an error that its own frames refer to keeps all of them

    def _may_work(self, own: threading.Lock) -> bool:
        """Tell whether a thread may do its operation itself: no others wait or work.

        Raises:
            EngineUnavailable: A signal handler asks, and its thread is at work.
        """
        with self.mutex:
            is_first = not (self.line or self._batches or self.orphans)
            is_first = is_first and monotonic() >= self._crowded_until
            if is_first and self._begin_turn(own):
                return True
            me = threading.get_ident()
            workers = list(self._workers.items())  # threads leave without the mutex
            if any(worker == me and turn.locked() for turn, worker in workers):
                raise EngineUnavailable(reason=IN_A_HANDLER)
            return False

    def _begin_turn(self, own: threading.Lock) -> bool:
        """Take a free turn, and tell whether there is one; called under the mutex.

        It lasts as long as the lock ``own`` is held.
        """
        for number, turn in enumerate(self._turns):
            if not turn.locked():
                self._workers[own] = threading.get_ident()
                self._turns[number] = own
                return True
        return False

    def _wait_in_line(self, operation: SharedOperation) -> None:
        limit = getattr(operation.database, "time_limit", None)
        seconds = -1 if limit is None else min(max(limit(), 0.0), threading.TIMEOUT_MAX)
        gate = operation.gate = threading.Lock()
        gate.acquire()
        with self.mutex:
            self.line[operation] = None
        if not self._call_helper():
            self._work_as_helper(operation)
            return
        if gate.acquire(timeout=seconds):
            return
        with self.mutex:
            if operation.state is OperationState.DONE:
                return
            is_known = self._leave(operation)
        if is_known:
            raise DeadlineExceeded
        raise OutcomeUnknown(reason="the time was over before the commit was")

    def _leave(self, operation: SharedOperation) -> bool:
        """Withdraw an operation whose thread leaves; tell whether it never takes effect."""
        with self.mutex:
            self.line.pop(operation, None)
            if operation.batch is not None:
                operation.batch.members.pop(operation, None)
            state, operation.state = operation.state, OperationState.LEFT
            if state is not OperationState.LEFT:
                operation.left_in = state
            is_orphan = state is OperationState.DONE and operation.error is None
            if is_orphan:
                self.orphans.append(operation)
        if is_orphan:
            self._call_helper()
        return operation.left_in is OperationState.WAITING

    def adopt(self, operation: SharedOperation) -> None:
        """Undo an operation that its thread had done by itself, and that has no thread any more."""
        with self.mutex:
            self.orphans.append(operation)
        self._call_helper()

    @property
    def in_line(self) -> int:
        """How many operations of threads that wait are not done yet."""
        with self.mutex:
            return len(self.line) + sum(len(batch.members) for batch in self._batches)

    @property
    def is_busy(self) -> bool:
        """Whether a thread is at work."""
        return any(turn.locked() for turn in self._turns)

    # The helpers

    def _call_helper(self) -> bool:
        """Wake or start a helper; tell whether there is one."""
        with self.mutex:
            if self._idle_helpers:
                if self._wake.locked():
                    self._wake.release()
                return True
            if self._helpers == self._most:
                return True  # they look again before they are idle
        try:
            OwnThread(self._help, name=HELPER).start()
        except RuntimeError:  # the process is ending, or has as many threads as it may
            return self._helpers > 0
        return True

    def _help(self) -> None:
        """Do the line's work until there has been none for a while."""
        with self.mutex:
            if self._helpers == self._most:
                return
            self._helpers += 1
        try:
            self._work_off_the_line()
        except BaseException:  # a defect of this module: another helper continues
            with self.mutex:
                self._helpers -= 1
            self._call_helper()
            raise

    def _work_off_the_line(self) -> None:
        while True:
            while self.line or self.orphans:
                self._do_batch()
                if self._most > 1:  # a round gathers late requests itself
                    time.sleep(0)  # let the threads just served join the line first
            with self.mutex:
                if self.line or self.orphans:
                    continue
                self._idle_helpers += 1
            is_called = self._wake.acquire(timeout=_IDLE_SECONDS)
            with self.mutex:  # a thread that joins the line after this starts a helper
                self._idle_helpers -= 1
                if not (is_called or self.line or self.orphans):
                    self._helpers -= 1
                    return

    def _work_as_helper(self, operation: SharedOperation) -> None:
        """Do the line's work until an operation is done, if no thread can be started."""
        while operation.state < OperationState.DONE:
            self._do_batch()
            if operation.gate is not None and operation.gate.acquire(timeout=_LOOK_SECONDS):
                return

    def _do_batch(self) -> None:
        own = threading.Lock()
        try:
            with own:
                self._await_turn(own)
                self._undo_orphans()
                self._do_claimed(CombinedBatch(self))
        finally:
            self._workers.pop(own, None)

    def _do_claimed(self, batch: CombinedBatch) -> None:
        with self.mutex:
            self._batches.append(batch)
            served = len(batch.waiting())
        try:
            if served:
                self._work.together(batch)
        except BaseException as error:  # noqa: BLE001  # each waiting thread raises it
            batch.fail(error)
        finally:
            with self.mutex:
                self._batches.remove(batch)
                batch.disclaim()
                if served > 1:
                    self._crowded_until = monotonic() + _CROWDED_SECONDS

    def _await_turn(self, own: threading.Lock) -> None:
        while True:
            with self.mutex:
                if self._begin_turn(own):
                    return
                taken = self._turns[0]
            with taken:
                pass  # it is over

    def _undo_orphans(self) -> None:
        while self.orphans:
            operation = self.orphans.pop()
            if operation.error is None and operation.result:
                self._work.undo(operation)


class CombinedBatch:
    """The operations that one transaction of a helper does.

    Args:
        combiner: Whose they are.
    """

    def __init__(self, combiner: Combiner) -> None:
        self._combiner = combiner
        self._mutex = combiner.mutex
        self.members: dict[SharedOperation, None] = {}

    def waiting(self) -> list[Any]:
        """Claim all operations in line; return all that are claimed, the oldest first."""
        with self._mutex:
            line = self._combiner.line
            for operation in line:
                operation.batch = self
            self.members |= line
            line.clear()
            return [*self.members]

    def take_up(self, operations: Iterable[Any]) -> list[Any]:
        """Return the operations whose threads still wait; a transaction may do them from now on."""
        with self._mutex:
            found = [one for one in operations if one.state < OperationState.DONE]
            for operation in found:
                operation.state = OperationState.IN_FLIGHT
            return found

    def let_go(self, operations: Iterable[Any] | None = None) -> None:
        """Note that operations wait again.

        All of them if the transaction has failed for certain, or those that it has no room for.
        """
        with self._mutex:
            for operation in self.members if operations is None else operations:
                if operation.state is OperationState.IN_FLIGHT:
                    operation.state = OperationState.WAITING

    def finish(self, results: Sequence[tuple[Any, Any]], *, is_over: bool = True) -> None:
        """Give operations their results or errors, and wake their threads.

        Args:
            results: The operations, each with its result.
            is_over: Whether nothing can be done any more for the others that are in flight.
        """
        gates = []
        with self._mutex:
            for operation, result in results:
                self.members.pop(operation, None)
                operation.conclude(result)
                if operation.state is OperationState.LEFT:
                    self._combiner.orphans.append(operation)
                    continue
                operation.state = OperationState.DONE
                if operation.gate is not None:
                    gates.append(operation.gate)
            if is_over:
                self.let_go()  # there was no room for these
        for gate in gates:
            gate.release()

    def fail(self, error: BaseException) -> None:
        """Give a copy of an error to each operation that a transaction had taken up.

        If it had taken up none, to all operations of the batch.
        """
        is_known = getattr(error, "outcome_known", False)
        with self._mutex:
            members = [*self.members]
            taken_up = [one for one in members if one.state is OperationState.IN_FLIGHT]
        if taken_up and not is_known and not isinstance(error, OutcomeUnknown):
            error = OutcomeUnknown(reason=repr(error)[:200])
        self.finish([(operation, _own_copy(error)) for operation in taken_up or members])

    def disclaim(self) -> None:
        """Return the operations that are not done to the front of the line."""
        with self._mutex:
            for operation in self.members:
                operation.batch = None
            rest, behind = self.members, self._combiner.line
            self.members = {}
            if rest:
                self._combiner.line = {**rest, **behind}


def _own_copy(error: BaseException) -> BaseException:
    """Return a copy of an error: each thread that raises it adds its own traceback."""
    try:
        own = copy.copy(error)
    except Exception:  # noqa: BLE001  # an error whose class wants other arguments
        return error
    vars(own)["outcome_known"] = getattr(error, "outcome_known", False)
    return own
