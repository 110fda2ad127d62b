"""The embedded engine's errors, with FoundationDB's codes and meanings.

What ``on_error`` retries, and the predicates, are what a 7.3 cluster answered.
"""

from __future__ import annotations

_DESCRIPTIONS = {
    1007: "Transaction is too old to perform reads or be committed",
    1009: "Request for future version",
    1020: "Transaction not committed due to conflict with another transaction",
    1021: "Transaction may or may not have committed",
    1025: "Operation aborted because the transaction was cancelled",
    1031: "Operation aborted because the transaction timed out",
    1032: "Too many watches currently set",
    1034: "Watches cannot be set if read your writes is disabled",
    1036: "Read or wrote an unreadable key",
    1037: "Storage process does not have recent mutations",
    1038: "Database is locked",
    1039: "The protocol version of the cluster has changed",
    1042: "CommitProxy commit memory limit exceeded",
    1051: "Batch GRV request rate limit exceeded",
    1078: "GetReadVersion proxy memory limit exceeded",
    1079: "BlobGranule request failed",
    1100: "Broken promise",
    1101: "Asynchronous operation cancelled",
    1213: "Transaction tag is being throttled",
    1223: "Exceeded maximum proxy tag throttling duration",
    1510: "Disk i/o operation failed",
    2000: "Invalid API call",
    2002: "Commit with incomplete read",
    2004: "Key outside legal range",
    2005: "Range begin key larger than end key",
    2006: "Option set with an invalid value",
    2010: "Transaction already has a read version set",
    2011: "Version not valid",
    2012: "Range limits not valid",
    2015: "Future not ready",
    2017: "Operation issued while a commit was outstanding",
    2020: "Transaction does not have a valid commit version",
    2021: "Transaction is read-only and therefore does not have a commit version",
    2101: "Transaction exceeds byte limit",
    2102: "Key length exceeds limit",
    2103: "Value length exceeds limit",
    2210: "EXACT streaming mode requires limits, but none were given",
    4000: "An unknown error occurred",
}

#: ``on_error`` backs off and lets the caller run the transaction again.
BACKED_OFF = frozenset({1020, 1021, 1037, 1038, 1042, 1051, 1078, 1079, 1213, 1223})
#: ``on_error`` waits a moment for the cluster to catch up, without growing the back-off.
VERSION_ERRORS = frozenset({1007, 1009})

#: ``on_error`` reports these codes as others.
REPORTED_AS = {0: 2000, 1100: 1025}

_MAYBE_COMMITTED = frozenset({1021, 1039})
_RETRYABLE = (
    frozenset({1007, 1009, 1020, 1037, 1038, 1042, 1051, 1078, 1213, 1223}) | _MAYBE_COMMITTED
)


class FDBError(Exception):
    """Report what FoundationDB would report, under the same code.

    Args:
        code: FoundationDB's error code, for instance 1020 for a conflict.
        reason: What is known besides, as a sentence; empty for nothing.
    """

    def __init__(self, code: int, reason: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.reason = reason

    @property
    def description(self) -> str:
        """FoundationDB's text for the code."""
        return _DESCRIPTIONS.get(self.code, "Unknown error")

    def __str__(self) -> str:
        return f"{self.reason or self.description} ({self.code})"

    def __repr__(self) -> str:
        return f"FDBError({self.code})"


def copy_of(error: Exception) -> Exception:
    """Return an error to raise in place of one that is kept: a new one, if it is the engine's.

    An error's traceback holds the frames it went through, and those hold what keeps the error:
    a cycle, on which hangs all that the callers had in their hands.
    """
    if not isinstance(error, FDBError):
        return error
    made = FDBError(error.code, error.reason)
    made.__cause__ = error.__cause__
    return made


class Predicates:
    """Classify errors as ``fdb.predicates`` does."""

    def is_retryable(self, error: FDBError) -> bool:
        """Tell whether running the transaction again may succeed."""
        return error.code in _RETRYABLE

    def is_maybe_committed(self, error: FDBError) -> bool:
        """Tell whether the commit may have taken effect all the same."""
        return error.code in _MAYBE_COMMITTED

    def is_retryable_not_committed(self, error: FDBError) -> bool:
        """Tell whether a retry may succeed and the commit certainly had no effect."""
        return error.code in _RETRYABLE and error.code not in _MAYBE_COMMITTED


predicates = Predicates()
