"""Exit codes of the commands, and the errors that they stand for.

0    done
1    failed
2    wrong usage
3    no such queue
4    the engine is unavailable
130  interrupted by Ctrl-C
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from django.core.management.base import CommandError

from fdbqueue.exceptions import (
    CorruptItem,
    EngineError,
    FdbQueueError,
    FormatMismatch,
    InvalidInput,
    OutcomeUnknown,
    PushInterrupted,
    QueueNotFound,
)
from fdbqueue.service import error_code

FAILED = 1
USAGE = 2
NO_SUCH_QUEUE = 3
UNAVAILABLE = 4
INTERRUPTED = 130

_TIMED_OUT = 1031
_CORRUPT = (
    "The item {id} of {queue!r} cannot be decoded: {reason}. To look for others, and at "
    "the settings that the queue is written under: manage.py queue_doctor {queue}"
)
_MISMATCH = (
    "{queue!r} was written under {written}, but the setting here says {here}. Nothing was changed. "
    "Correct the setting, or see: manage.py queue_doctor {queue}"
)
_BAD_ID = "The id {id!r} cannot be used: {reason}"


class Interrupted(FdbQueueError):
    """Interrupted."""

    code = "interrupted"


class OutputFailed(FdbQueueError):
    """Standard output cannot be written to."""

    code = "output_failed"

    @property
    def is_by_reader(self) -> bool:
        """Whether the reader of a pipe, such as ``head``, has closed it."""
        return isinstance(self.__cause__, BrokenPipeError) or self.context == {"reason": None}

    def __str__(self) -> str:
        if self.is_by_reader:
            return "The reader of standard output has closed it"
        reason = self.context.get("reason", "it failed")
        return f"Standard output cannot be written to: {reason}"


#: For these errors, the exit code is that of their cause, if they have one.
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
    if _is_bad_id(error):
        return USAGE
    for kind, code in _EXIT_CODES:
        if isinstance(error, kind):
            return code
    if isinstance(error, Exception) and error_code(error) is not None:
        return UNAVAILABLE
    return None


def command_error(error: BaseException, message: str | None = None) -> CommandError | None:
    """Return the error that ends a command, None for one that only a bug can raise.

    Args:
        error: The error.
        message: The text to show in place of the error's own.
    """
    code = exit_code(error)
    if code is None:
        return None
    return CommandError(message or error_text(error), returncode=code)


@contextlib.contextmanager
def explain_errors(explain: Callable[[BaseException], str]) -> Iterator[None]:
    """End the command with a message about what was done, when an error stops it.

    Args:
        explain: Returns the message for an error.

    Raises:
        CommandError: The error has an exit code; others pass unchanged.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        if exit_code(error) is None:
            raise
        raise command_error(error, explain(error)) or error from error


def usage_error(message: str) -> CommandError:
    """Return the error for wrong arguments."""
    return CommandError(message, returncode=USAGE)


def failure(message: str) -> CommandError:
    """Return the error of a command that did not do everything."""
    return CommandError(message, returncode=FAILED)


def error_text(error: BaseException) -> str:
    """Return the message of an error; of a timeout the option that sets it."""
    if _timed_out(error) and not isinstance(error, FdbQueueError):
        return "The engine did not answer within --engine-timeout"
    if isinstance(error, CorruptItem) and error.context.keys() >= {"id", "queue", "reason"}:
        return _CORRUPT.format_map(error.context)
    if type(error) is FormatMismatch:
        return _MISMATCH.format_map(error.context)
    if isinstance(error, InvalidInput) and _is_bad_id(error):
        return _BAD_ID.format_map(error.context)
    return str(error) or "Interrupted"


def _is_bad_id(error: BaseException) -> bool:
    """Tell whether an argument is not an id of an item in its queue."""
    return isinstance(error, InvalidInput) and error.context.keys() == {"id", "reason"}


def _timed_out(error: BaseException) -> bool:
    if isinstance(error, OutcomeUnknown):
        return error.context.get("fdb_code") == _TIMED_OUT
    return error_code(error) == _TIMED_OUT
