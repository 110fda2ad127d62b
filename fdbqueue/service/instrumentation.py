"""Hooks for measuring: what queues did, how long it took, and the errors of transactions.

Without an observer a hook costs a look at an empty tuple. Operations that take part in a
caller's transaction are not reported, because the caller commits them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

from fdbqueue.logs import get_logger
from fdbqueue.steady import monotonic

logger = get_logger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class Operation(NamedTuple):
    """An operation on a queue that has ended.

    Attributes:
        verb: The name of its method: ``"push"``, ``"pop"``, ``"ack"``.
        queue: The queue's name.
        seconds: How long it took, retries included, the wait for items not.
        items: How many items it pushed, took or changed; 0 when it failed.
        error: What it raised, None when it succeeded.
    """

    verb: str
    queue: str
    seconds: float
    items: int
    error: BaseException | None


class Observer:
    """Base class of observers: queues call it in their own threads, and log what it raises."""

    def operation(self, done: Operation) -> None:
        """Note an operation that has ended."""

    def engine_error(self, code: int) -> None:
        """Note the FoundationDB error code of a failed transaction, whether it is retried or not.

        1020 is a conflict, 1021 a commit with an unknown outcome.
        """


#: Those of this process. Replaced as a whole, so it is read without a lock.
observers: tuple[Observer, ...] = ()
_change_lock = threading.RLock()  # a signal handler may fork in the thread that holds it
os.register_at_fork(
    before=_change_lock.acquire,
    after_in_parent=_change_lock.release,
    after_in_child=_change_lock.release,
)


def add(observer: Observer) -> None:
    """Add an observer in this process; adding it again changes nothing."""
    global observers  # noqa: PLW0603  # read without a lock
    with _change_lock:
        observers = (*(one for one in observers if one is not observer), observer)


def remove(observer: Observer) -> None:
    """Remove an observer."""
    global observers  # noqa: PLW0603  # read without a lock
    with _change_lock:
        observers = tuple(one for one in observers if one is not observer)


def observed(
    verb: str, queue: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call a function that operates on a queue, and report it to the observers.

    Args:
        verb: The operation's name.
        queue: The queue's name.
        function: Its result says how many items: the length of a list, without items that a push
            has found; a number itself; the first member of a tuple by the same rule; one for
            anything else.
        args: What to call it with.
        kwargs: The same, by name.
    """
    if not observers:
        return function(*args, **kwargs)
    began = monotonic()
    try:
        result = function(*args, **kwargs)
    except BaseException as error:
        report(Operation(verb, queue, monotonic() - began, 0, error))
        raise
    report(Operation(verb, queue, monotonic() - began, _items(result), None))
    return result


def engine_error(code: int) -> None:
    """Report an error of a transaction to the observers."""
    _notify(lambda observer: observer.engine_error(code))


def report(done: Operation) -> None:
    """Report an operation to the observers."""
    _notify(lambda observer: observer.operation(done))


def _notify(call: Callable[[Observer], None]) -> None:
    for observer in observers:
        try:
            call(observer)
        except Exception:
            logger.exception("an observer failed")


def _items(result: Any) -> int:
    if type(result) is tuple:
        result = result[0]
    if isinstance(result, list):  # what a push found was not pushed
        return len([one for one in result if not getattr(one, "existing", False)])
    return result if isinstance(result, int) else 1
