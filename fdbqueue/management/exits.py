"""Exit codes: what the shell learns of each error.

0    done
1    failed
2    wrong usage
3    no such queue
4    the engine is unavailable
130  interrupted by Ctrl-C
"""

from __future__ import annotations

from django.core.management.base import CommandError

from fdbqueue.exceptions import (
    EngineError,
    FdbQueueError,
    OutcomeUnknown,
    PushInterrupted,
    QueueNotFound,
)
from fdbqueue.service.transactions import error_code

FAILED = 1
USAGE = 2
NO_SUCH_QUEUE = 3
UNAVAILABLE = 4
INTERRUPTED = 130

_TIMED_OUT = 1031


class Interrupted(FdbQueueError):
    """Interrupted."""

    code = "interrupted"


class OutputFailed(FdbQueueError):
    """Standard output cannot be written to."""

    code = "output_failed"


#: What came in between is in the error's cause, where it has one.
_STOPPED = (PushInterrupted, OutputFailed)

_EXIT_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (QueueNotFound, NO_SUCH_QUEUE),
    (EngineError, UNAVAILABLE),
    (Interrupted, INTERRUPTED),
    (KeyboardInterrupt, INTERRUPTED),
    (FdbQueueError, FAILED),
)


def exit_code(error: BaseException) -> int | None:
    """Return the exit code for an error, None for one that only a bug can raise."""
    if isinstance(error, _STOPPED) and error.__cause__ is not None:
        return exit_code(error.__cause__) or FAILED
    if _timed_out(error):
        return UNAVAILABLE
    for kind, code in _EXIT_CODES:
        if isinstance(error, kind):
            return code
    if isinstance(error, Exception) and error_code(error) is not None:
        return UNAVAILABLE
    return None


def command_error(error: BaseException, message: str | None = None) -> CommandError | None:
    """Return the error a command ends with, None for one that only a bug can raise.

    Args:
        error: What went wrong.
        message: What to say of it, where it does not speak for itself.
    """
    code = exit_code(error)
    if code is None:
        return None
    return CommandError(message or text_of(error), returncode=code)


def text_of(error: BaseException) -> str:
    """Return what to say of an error."""
    if _timed_out(error) and not isinstance(error, FdbQueueError):
        return "The engine did not answer within --engine-timeout"
    return str(error) or "Interrupted"


def _timed_out(error: BaseException) -> bool:
    if isinstance(error, OutcomeUnknown):
        return error.context.get("fdb_code") == _TIMED_OUT
    return error_code(error) == _TIMED_OUT
