"""The retry loop, exactly once: and the decorator for functions that run in it.

An error the engine calls retryable runs the function again, after the engine's own pause
(``on_error``). Where a commit's outcome is unknown (1021, 1039) the loop first looks for
the receipt that the transaction would have left (see :mod:`fdbqueue.service.receipts`), and
runs the function again only if it is not there. So what a call does takes effect once, and
the call returns the result of the run that did.
"""

from __future__ import annotations

import functools
import inspect
import logging
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from fdbqueue.exceptions import EngineError, OutcomeUnknown
from fdbqueue.service import observing
from fdbqueue.service.receipts import Receipt

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

logger = logging.getLogger(__name__)

#: Retries that took longer are worth a line in the log.
_LONG_SECONDS = 1.0

_NOT_COMMITTED = 1020
#: commit_unknown_result and cluster_version_changed: ``is_maybe_committed``.
_VERSION_CHANGED = 1039
_MAYBE_COMMITTED = frozenset({1021, _VERSION_CHANGED})
#: transaction_timed_out, transaction_cancelled, and future_not_set, which the binding may
#: give after an interrupt: while committing they say nothing about the commit either.
_GIVEN_UP = frozenset({1025, 1031, 2015})

#: The client's special keys that tell what a transaction has written so far.
_WRITTEN = b"\xff\xff/transaction/write_conflict_range/"


class Conflict(Exception):
    """The transaction conflicted, and the caller wanted to know."""


def run(
    database: Any,
    function: Callable[[Any], T],
    *,
    wrote: Callable[[T], bool] | None = None,
    retries_conflicts: bool = True,
) -> T:
    """Run a function in a transaction of its own, again after each conflict, and commit.

    Exactly once: what the function wrote takes effect once, also where a commit's outcome
    is unknown. The function may run several times and must have no effect but through its
    transaction. A transaction that writes nothing leaves no receipt; writes that are all
    made with ``set_next_write_no_write_conflict_range`` do not count as such.

    An interrupt (``KeyboardInterrupt`` and the like) goes through, and has an attribute
    ``outcome_known``: False when a commit was under way.

    Args:
        database: Anything with ``create_transaction()``.
        function: Called with the transaction.
        wrote: Tells from the function's result whether it wrote anything; None asks the
            transaction.
        retries_conflicts: False raises :class:`Conflict` after one (1020) instead.

    Returns:
        What the run that was committed returned.

    Raises:
        OutcomeUnknown: It is not known whether the commit took effect: a timeout (1031)
            or the retry limit came before that could be found out.
        FDBError: The engine's own, where trying again would not help; nothing was written.
    """
    return _Call(database, function, wrote, retries_conflicts).run()[0]


def run_stamped(
    database: Any, function: Callable[[Any], T], *, wrote: Callable[[T], bool]
) -> tuple[T, bytes]:
    """Do as :func:`run` does, and return the versionstamp too, empty where it wrote nothing."""
    return _Call(database, function, wrote, True, stamped=True).run()


class _Call(Generic[T]):
    """One call of :func:`run`: its attempts, and those whose outcome is not known."""

    def __init__(
        self,
        database: Any,
        function: Callable[[Any], T],
        wrote: Callable[[T], bool] | None,
        retries_conflicts: bool,
        *,
        stamped: bool = False,
    ) -> None:
        self._database = database
        self._function = function
        self._wrote = wrote
        self._retries_conflicts = retries_conflicts
        self._stamped = stamped
        self._receipt: Receipt | None = None
        self._unsettled: dict[int, T] = {}
        self._retries = 0
        self._failed_at = 0.0

    def run(self) -> tuple[T, bytes]:
        """Attempt it until one takes effect, and return its result and its stamp."""
        transaction = self._database.create_transaction()
        try:
            while True:
                try:
                    result = self._attempt(transaction)
                except Exception as error:
                    code = error_code(error)
                    if code is None:
                        raise
                    transaction = self._prepare(transaction, error, code)
                    continue
                if self._retries:
                    self._tell_of_retries()
                return result
        except BaseException as error:
            if not isinstance(error, Exception):
                error.outcome_known = not self._unsettled  # type: ignore[attr-defined]
            transaction.cancel()
            raise
        finally:
            if self._receipt is not None:
                self._receipt.give_back()

    def _attempt(self, tr: Any) -> tuple[T, bytes]:
        if self._unsettled:
            assert self._receipt is not None
            found = self._receipt.read(tr)
            if found is not None and found.number in self._unsettled:
                return self._unsettled[found.number], found.stamp
        result = self._function(tr)
        number = None
        if self._unsettled or self._has_written(tr, result):
            if self._receipt is None:
                self._receipt = Receipt(self._database)
            number = self._receipt.write(tr)
            self._unsettled[number] = result
        stamp = tr.get_versionstamp() if self._stamped and number is not None else None
        try:
            tr.commit().wait()
        except Exception as error:
            if number is not None and error_code(error) not in _MAYBE_COMMITTED | _GIVEN_UP:
                del self._unsettled[number]
            raise
        return result, b"" if stamp is None else bytes(stamp.wait())

    def _has_written(self, tr: Any, result: T) -> bool:
        if self._wrote is not None:
            return self._wrote(result)
        return any(True for _ in tr.get_range(_WRITTEN, _WRITTEN + b"\xff\xff", limit=1))

    def _prepare(self, tr: Any, error: Exception, code: int) -> Any:
        """Return the transaction for the next attempt, or raise what ends the call."""
        observing.engine_error(code)
        if not self._retries:
            self._failed_at = time.monotonic()
        self._retries += 1
        if code == _NOT_COMMITTED and not self._retries_conflicts and not self._unsettled:
            raise Conflict from error
        if code == _VERSION_CHANGED:  # a client of one version does not retry it by itself
            tr.cancel()
            return self._created_anew(error)
        try:
            tr.on_error(code).wait()
        except Exception as final:
            if self._unsettled and error_code(final) is not None:
                raise _outcome_unknown(final) from error
            raise
        return tr

    def _created_anew(self, error: Exception) -> Any:
        try:
            return self._database.create_transaction()
        except EngineError as final:
            if self._unsettled:
                raise _outcome_unknown(error) from final
            raise

    def _tell_of_retries(self) -> None:
        seconds = time.monotonic() - self._failed_at
        if seconds > _LONG_SECONDS:
            facts = {"retries": self._retries, "seconds": round(seconds, 3)}
            logger.warning("a transaction was retried for long", extra=facts)


def _outcome_unknown(error: BaseException) -> OutcomeUnknown:
    code = error_code(error)
    logger.warning("the outcome of a commit stays unknown", extra={"fdb_code": code})
    return OutcomeUnknown(fdb_code=code)


def error_code(error: BaseException) -> int | None:
    """Return FoundationDB's code of an engine's error, None for any other error.

    Each engine has its own class of errors, called ``FDBError`` as the binding's is.
    """
    if any(kind.__name__ == "FDBError" for kind in type(error).__mro__):
        code: int = getattr(error, "code")  # noqa: B009  # of no class known here
        return code
    return None


def transactional(function: F) -> F:
    """Decorate a function whose first argument, ``tr``, is a transaction.

    Called with a database, it runs in a transaction of its own, as :func:`run` says.
    Called with a transaction, it takes part in that one, which its owner commits.

    Raises:
        TypeError: The function takes no ``tr`` first, or is a generator.
    """
    parameters = list(inspect.signature(function).parameters)
    if not parameters or parameters[0] != "tr":
        raise TypeError(f"{function.__qualname__} must take tr as its first argument")
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise TypeError(f"{function.__qualname__} must return its result, not yield it")

    @functools.wraps(function)
    def wrapper(tr: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(tr, "create_transaction"):
            return function(tr, *args, **kwargs)
        return run(tr, lambda transaction: function(transaction, *args, **kwargs))

    return wrapper  # type: ignore[return-value]  # of the same parameters
