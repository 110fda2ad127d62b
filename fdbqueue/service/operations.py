"""Operations of threads that may share a transaction, and their results.

An operation is in one of these states, which change under the mutex:

- WAITING: nothing was done for it. Its thread may leave, and then nothing will be.
- IN_FLIGHT: a transaction has taken it up. A thread that leaves now learns that its outcome is
  unknown; what the transaction did for it is undone once that is known, where it can be.
- DONE: it has its result or its error. If the thread is interrupted before it returns the
  result, a helper undoes the operation, where it can be undone.
- LEFT: its thread has gone.
"""

from __future__ import annotations

import copy
import enum
import threading
from typing import Any


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
        error: What it raises, None where it returns.
        database: Where its own thread does it; its transactions may have a time limit.
        gate: Opened when it is done; None unless it was in line.
        batch: The batch that has claimed it, None for none.
        left_in: Its state when its thread left.
    """

    # Of the class, because a signal may come before restart() has begun.
    state = left_in = OperationState.WAITING
    result: Any = None
    error: BaseException | None = None
    gate: threading.Lock | None = None
    batch: Any = None
    database: Any = None

    def restart(self, database: Any) -> None:
        """Start, or start anew, on a database."""
        self.state = self.left_in = OperationState.WAITING
        self.result = self.error = self.gate = self.batch = None
        self.database = database

    def conclude(self, result: Any) -> None:
        """Note the result; an error says whether anything was done, unless it does already."""
        if not isinstance(result, BaseException):
            self.result = result
            return
        self.error = result
        if not hasattr(result, "outcome_known"):
            vars(result)["outcome_known"] = True  # also where the class forbids attributes


def own_copy(error: BaseException) -> BaseException:
    """Return a copy of an error: each thread that raises it adds its own traceback."""
    try:
        own = copy.copy(error)
    except Exception:  # noqa: BLE001  # an error whose class wants other arguments
        return error
    vars(own)["outcome_known"] = getattr(error, "outcome_known", False)
    return own
