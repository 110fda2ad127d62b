"""The retry loop, and the decorator for functions that run in it.

An error the engine calls retryable runs the function again, after the engine's own pause
(``on_error``). A commit whose outcome is unknown (1021, 1039, or 1031: it timed out) is not
run again: that could push or pop twice; it ends with :class:`OutcomeUnknown`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from fdbqueue.exceptions import OutcomeUnknown

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

#: commit_unknown_result and cluster_version_changed: ``is_maybe_committed``.
_MAYBE_COMMITTED = frozenset({1021, 1039})
#: transaction_timed_out: while committing it says nothing about the commit either.
_TIMED_OUT = 1031


def run(database: Any, function: Callable[[Any], T]) -> T:
    """Run a function in a transaction of its own, again after each conflict, and commit.

    The function may run several times and must have no effect but through its
    transaction.

    Args:
        database: Anything with ``create_transaction()``.
        function: Called with the transaction.

    Returns:
        What the run that was committed returned.

    Raises:
        OutcomeUnknown: It is not known whether the commit took effect.
        FDBError: The engine's own, where trying again would not help.
    """
    transaction = database.create_transaction()
    try:
        while True:
            committing = False
            try:
                result = function(transaction)
                committing = True
                transaction.commit().wait()
            except Exception as error:
                code = error_code(error)
                if code is None:
                    raise
                if code in _MAYBE_COMMITTED or (committing and code == _TIMED_OUT):
                    raise OutcomeUnknown(fdb_code=code) from error
                transaction.on_error(code).wait()
            else:
                return result
    except BaseException:
        transaction.cancel()
        raise


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
