"""Hooks for those who measure: what queues did, how long it took, and what the engine answered.

Nobody observes unless asked to: then a hook costs a look at an empty tuple. Operations that
take part in a caller's transaction are not told of, for they are the caller's to commit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Operation(NamedTuple):
    """An operation on a queue that is over.

    Attributes:
        verb: What was done, as its method is called: ``"push"``, ``"pop"``, ``"ack"``.
        queue: The queue's name.
        seconds: How long it took, its retries included, and without waiting for items.
        items: How many items it pushed, took, or changed; 0 where it failed.
        error: What it raised, None where it succeeded.
    """

    verb: str
    queue: str
    seconds: float
    items: int
    error: BaseException | None


class Observer:
    """Is told what queues do, in the threads that do it; what it raises is only logged."""

    def operation(self, done: Operation) -> None:
        """Take note of an operation that is over."""

    def engine_error(self, code: int) -> None:
        """Take note of an error that a transaction met, by FoundationDB's code.

        Retried or not: 1020 is a conflict, 1021 a commit whose outcome is unknown.
        """


_observers: tuple[Observer, ...] = ()
_changing = threading.Lock()


def add(observer: Observer) -> None:
    """Let an observer be told, in this process, from now on; once, however often it is added."""
    global _observers  # noqa: PLW0603  # read without a lock
    with _changing:
        _observers = (*(one for one in _observers if one is not observer), observer)


def remove(observer: Observer) -> None:
    """Let an observer be told no more."""
    global _observers  # noqa: PLW0603  # read without a lock
    with _changing:
        _observers = tuple(one for one in _observers if one is not observer)


def is_observed() -> bool:
    """Tell whether there are any observers."""
    return bool(_observers)


def observed(verb: str, queue: str, function: Callable[[], T]) -> T:
    """Call a function that does something to a queue, and tell the observers.

    Args:
        verb: What it does.
        queue: The queue's name.
        function: Its result says how many items: a list as many as it has, a number so
            many, a tuple what its first member says, anything else one.
    """
    if not _observers:
        return function()
    began = time.perf_counter()
    try:
        result = function()
    except BaseException as error:
        _tell(Operation(verb, queue, time.perf_counter() - began, 0, error))
        raise
    _tell(Operation(verb, queue, time.perf_counter() - began, _items(result), None))
    return result


def engine_error(code: int) -> None:
    """Tell the observers of an error that a transaction met."""
    for observer in _observers:
        try:
            observer.engine_error(code)
        except Exception:
            logger.exception("an observer failed")


def _tell(done: Operation) -> None:
    for observer in _observers:
        try:
            observer.operation(done)
        except Exception:
            logger.exception("an observer failed")


def _items(result: Any) -> int:
    if type(result) is tuple:
        result = result[0]
    if isinstance(result, list):
        return len(result)
    return result if isinstance(result, int) else 1
