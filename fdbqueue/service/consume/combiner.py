"""Combine the operations of a process's threads: one thread does the work of all who wait.

Alone, an operation is done by its own thread, in *the turn*: a lock that is held by the thread
that works. An operation that finds another thread at work, or waiting, joins *the line*, and its
thread sleeps on the operation's own gate. While anything is in line, one *helper* thread of
the process takes the turn and does the line's work in batches.

Signal handlers run in the main thread alone, between any two bytecodes, and may raise. The
helper is never the main thread, so no signal ends a batch. No thread depends on one that a
signal can end: the mutex, and the turn, which is a lock of the thread that works, are held by
``with`` alone, which lets go of them whatever is raised; each thread that joins the line makes
sure itself that there is a helper. A signal handler may even take items itself, in the middle
of a call of its thread: it does that alone, beside the turn.

An operation is in one of these states, which change under the mutex:

- WAITING: nothing was done for it. Its thread may leave, and then nothing will be.
- IN_FLIGHT: a transaction has taken it up. A thread that leaves now learns that its outcome is
  unknown; what the transaction did for it is undone once that is known.
- DONE: it has its result or its error. A thread that is interrupted before it has picked up a
  result leaves it to the helper to be undone.
- LEFT: its thread has gone.

After a fork the child begins with an empty line. The helper is a daemon: at the end of the
process its batch is the database's to finish or not, as any commit is. It ends by itself when
it has had nothing to do for a second.
"""

from __future__ import annotations

import copy
import enum
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from fdbqueue.engines.protocols import Database
from fdbqueue.exceptions import DeadlineExceeded, OutcomeUnknown

#: How long an idle helper stays.
_IDLE_SECONDS = 1.0
#: Threads served together come back within this time, and join the line straight away.
_CROWDED_SECONDS = 0.002


class State(enum.IntEnum):
    """How far an operation has come."""

    WAITING = 0
    IN_FLIGHT = 1
    DONE = 2
    LEFT = 3


class Operation:
    """What one thread wants done, and what came of it.

    Attributes:
        state: How far it has come.
        result: What it returns.
        error: What it raises, None where it returns.
        database: Where its own thread does it; its transactions may have a time limit.
        gate: Opened when it is done; None unless it was in line.
        left_in: Its state when its thread left.
    """

    __slots__ = ("database", "error", "gate", "left_in", "result", "state")

    def __init__(self) -> None:
        self.state = State.WAITING
        self.result: Any = None
        self.error: BaseException | None = None
        self.database: Any = None
        self.gate: threading.Lock | None = None
        self.left_in = State.WAITING

    def begin(self, database: Database) -> None:
        """Start anew, on a database."""
        self.state = self.left_in = State.WAITING
        self.result = self.error = self.gate = None
        self.database = database

    def conclude(self, result: Any) -> None:
        """Note the result; an error says whether anything was done, unless it does already."""
        if not isinstance(result, BaseException):
            self.result = result
            return
        self.error = result
        if not hasattr(result, "outcome_known"):
            vars(result)["outcome_known"] = True  # also where the class forbids attributes


class Work(Protocol):
    """What a combiner's threads do."""

    def alone(self, operation: Any) -> bool:
        """Do one operation, in its own thread; tell whether it is done.

        It is not where other processes are in the way: then the helper does it.
        """

    def together(self) -> None:
        """Do some of the operations in line, in the helper."""

    def undo(self, operation: Any) -> None:
        """Undo an operation that is done and whose thread has gone, in the helper.

        It raises nothing.
        """


class Combiner:
    """The operations of this process that share transactions.

    Args:
        work: Does them.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self.forget()

    def forget(self) -> None:
        """Start anew, in a forked process: those who waited are in the other one."""
        #: A signal handler may come to it in the thread that holds it.
        self._mutex = threading.RLock()
        #: The lock of the thread that works, and which thread that is.
        self._turn = threading.Lock()
        self._worker = 0
        self._line: dict[Operation, None] = {}
        #: Those that the helper is at work for.
        self._batch: dict[Operation, None] = {}
        #: Those that are done, and whose threads have gone.
        self._orphans: list[Operation] = []
        self._has_helper = False
        #: Released to wake the helper.
        self._wake = threading.Lock()
        self._crowded_until = 0.0

    def submit(self, operation: Operation, database: Database) -> Any:
        """Do an operation, together with those of other threads; return its result.

        Whatever is raised has an attribute ``outcome_known``: True where nothing was done.

        Args:
            operation: The operation.
            database: Where to do it. Its ``time_limit()``, where it has one, is how many
                seconds the operation may wait in line.

        Raises:
            DeadlineExceeded: Its time was over before it was done; nothing was changed.
            OutcomeUnknown: It is not known whether it was done.
        """
        try:
            operation.begin(database)
            if not self._does_alone(operation):
                self._wait_in_line(operation)
        except BaseException as error:
            vars(error)["outcome_known"] = self._leave(operation)
            raise
        own, operation.error = operation.error, None
        if own is None:
            return operation.result
        try:
            raise own
        finally:
            del own  # an error that its own frames refer to keeps all of them

    def _does_alone(self, operation: Operation) -> bool:
        """Do an operation in its own thread, unless others wait or work."""
        own = threading.Lock()
        with own:
            with self._mutex:
                if self._turn.locked():
                    if self._worker != threading.get_ident():
                        return False  # else: a signal handler in the middle of a call
                elif self._line or self._orphans or time.monotonic() < self._crowded_until:
                    return False
                else:
                    self._begin_turn(own)
            return self._work.alone(operation)

    def _begin_turn(self, own: threading.Lock) -> None:
        """Have the turn for as long as a lock is held; called under the mutex."""
        self._turn, self._worker = own, threading.get_ident()

    def _wait_in_line(self, operation: Operation) -> None:
        limit = getattr(operation.database, "time_limit", None)
        seconds = -1 if limit is None else min(max(limit(), 0.0), threading.TIMEOUT_MAX)
        gate = operation.gate = threading.Lock()
        gate.acquire()
        with self._mutex:
            self._line[operation] = None
            has_helper = self._has_helper
            self._call_helper()
        if not has_helper and not self._start_helper():
            self._work_as_helper(operation)
        if gate.acquire(timeout=seconds):
            return
        with self._mutex:
            if operation.state is State.DONE:
                return
            is_known = self._leave(operation)
        if is_known:
            raise DeadlineExceeded
        raise OutcomeUnknown(reason="the time was over before the commit was")

    def _leave(self, operation: Operation) -> bool:
        """Let an operation's thread go; tell whether nothing was, or will be, done for it."""
        has_helper = True
        with self._mutex:
            self._line.pop(operation, None)
            state, operation.state = operation.state, State.LEFT
            if state is not State.LEFT:
                operation.left_in = state
            if state is State.DONE and operation.error is None:
                self._orphans.append(operation)
                self._call_helper()
                has_helper = self._has_helper
        if not has_helper:
            self._start_helper()
        return operation.left_in is State.WAITING

    @property
    def in_line(self) -> int:
        """How many operations wait in line."""
        return len(self._line)

    @property
    def is_busy(self) -> bool:
        """Whether a thread is at work."""
        return self._turn.locked()

    # What the work does to the operations in line

    def waiting(self) -> list[Any]:
        """Return those in line, in the order they came, and note that they are worked for."""
        with self._mutex:
            for operation in self._line:
                self._batch[operation] = None
            return [*self._line]

    def take_up(self, operations: Iterable[Any]) -> list[Any]:
        """Return those that are still wanted; from now on a transaction may do them."""
        with self._mutex:
            found = [one for one in operations if one.state < State.DONE]
            for operation in found:
                operation.state = State.IN_FLIGHT
                self._batch[operation] = None
            return found

    def let_go(self) -> None:
        """Note that what took operations up has failed for certain: they wait again."""
        with self._mutex:
            for operation in self._batch:
                if operation.state is State.IN_FLIGHT:
                    operation.state = State.WAITING

    def finish(self, results: Sequence[tuple[Any, Any]]) -> None:
        """Give operations their results, or their errors, and let their threads go on."""
        gates = []
        with self._mutex:
            for operation, result in results:
                self._line.pop(operation, None)
                self._batch.pop(operation, None)
                operation.conclude(result)
                if operation.state is State.LEFT:
                    self._orphans.append(operation)
                    continue
                operation.state = State.DONE
                if operation.gate is not None:
                    gates.append(operation.gate)
            self.let_go()  # there was no room for these
        for gate in gates:
            gate.release()

    # The helper

    def _call_helper(self) -> None:
        """Wake the helper; called under the mutex."""
        if self._wake.locked():
            self._wake.release()

    def _start_helper(self) -> bool:
        try:
            threading.Thread(target=self._help, name="fdbqueue-helper", daemon=True).start()
        except RuntimeError:  # the process is ending, or has as many threads as it may
            return False
        return True

    def _help(self) -> None:
        """Do the line's work until there has been none for a while; there is one helper."""
        with self._mutex:
            if self._has_helper:
                return
            self._has_helper = True
        try:
            self._work_off_the_line()
        except BaseException:  # of this module: the line goes on with another helper
            with self._mutex:
                self._has_helper = False
                is_needed = bool(self._line)
            if is_needed:
                self._start_helper()
            raise

    def _work_off_the_line(self) -> None:
        while True:
            is_called = self._wake.acquire(timeout=_IDLE_SECONDS)
            while self._line or self._orphans:
                self._do_batch()
            if is_called:
                continue
            with self._mutex:  # who joins the line after this sees that there is no helper
                if not self._line and not self._orphans:
                    self._has_helper = False
                    return

    def _work_as_helper(self, operation: Operation) -> None:
        """Do the line's work until an operation is done, where no thread can be started."""
        while operation.state < State.DONE:
            self._do_batch()

    def _do_batch(self) -> None:
        own = threading.Lock()
        with own:
            self._await_turn(own)
            self._undo_orphans()
            with self._mutex:
                self._batch = dict(self._line)
                served = len(self._batch)
            try:
                if served:
                    self._work.together()
                if served > 1:
                    self._crowded_until = time.monotonic() + _CROWDED_SECONDS
            except BaseException as error:  # noqa: BLE001  # each who waited raises it
                self._fail(error)
            finally:
                self._batch = {}

    def _await_turn(self, own: threading.Lock) -> None:
        while True:
            with self._mutex:
                turn = self._turn
                if not turn.locked():
                    self._begin_turn(own)
                    return
            with turn:
                pass  # it is over

    def _fail(self, error: BaseException) -> None:
        """Give an error to each operation that the helper was at work for, a copy of its own.

        These are those that a transaction had taken up, or all, where none had been.
        """
        is_known = getattr(error, "outcome_known", False)
        with self._mutex:
            batch = [*self._batch]
            taken_up = [one for one in batch if one.state is State.IN_FLIGHT]
        if taken_up and not is_known and not isinstance(error, OutcomeUnknown):
            error = OutcomeUnknown(reason=repr(error)[:200])
        self.finish([(operation, _own_copy(error)) for operation in taken_up or batch])

    def _undo_orphans(self) -> None:
        while self._orphans:
            operation = self._orphans.pop()
            if operation.error is None and operation.result:
                self._work.undo(operation)


def _own_copy(error: BaseException) -> BaseException:
    """Return a copy of an error: each thread that raises it adds its own traceback."""
    try:
        own = copy.copy(error)
    except Exception:  # noqa: BLE001  # an error whose class wants other arguments
        return error
    vars(own)["outcome_known"] = getattr(error, "outcome_known", False)
    return own
