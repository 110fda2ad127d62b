"""The writer's turn: which process commits next."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from typing import Any

from fdbqueue.engines.embedded import files
from fdbqueue.engines.embedded.fdb_errors import FDBError
from fdbqueue.engines.embedded.reservations import WAITED, Reservations
from fdbqueue.steady import monotonic, monotonic_ns

_TURN_POLL_SECONDS = 0.002
#: For how long all take the turnstile after a process has waited for the turn.
_QUIET_NS = 10_000_000_000
#: Take a lock if it is free.
_NOW = fcntl.LOCK_EX | fcntl.LOCK_NB


class WriterTurn:
    """The turn of the processes that write: two lock files, made again if they were deleted.

    A process that waits for the turn holds the turnstile until it has it, and notes in the second
    file when it began to wait. While nobody has waited lately, a process takes
    the turn directly; otherwise it takes the turnstile first, so one that waits goes before one
    that has just written. The kernel wakes those who wait at the turnstile together, and one of
    them gets it. The locks order the writers, and no more: what keeps two from writing at once is
    SQLite's own lock.

    Args:
        directory: Where they are.

    Attributes:
        directory: As given.
        turnstile: The first lock to take, None while it is closed.
        turn: The second one, which the process that writes holds.
        is_doubted: Whether the files may have been deleted.
        reservations: What the processes note in the second one.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.turnstile: int | None = None
        self.turn: int | None = None
        self._descriptors = files.Descriptors()
        self.is_doubted = False
        self.reservations = Reservations()

    def open(self) -> None:
        """Open the lock files.

        While some processes still hold deleted ones, SQLite's own lock orders the writers.
        """
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.directory)
        self.close()
        self.turnstile, self.turn = [
            self._descriptors.open(os.path.join(self.directory, name), os.O_RDWR | os.O_CREAT)
            for name in files.LOCKS
        ]
        self.reservations = Reservations(os.path.join(self.directory, files.LOCKS[1]))

    def close(self) -> None:
        """Close the lock files, which frees the turn."""
        self.reservations.close()
        self.turnstile = self.turn = None
        self._descriptors.close()

    def acquire(self, deadline: float | None, about_to_wait: Callable[[], object]) -> bool:
        """Take the turn, and tell whether it was free.

        Args:
            deadline: When to stop waiting, on the monotonic clock; None for no limit.
            about_to_wait: Called before it waits.

        Raises:
            FDBError: 1031 when the deadline passed first.
        """
        turnstile: Any = self.turnstile  # neither is None: the caller has looked
        turn: Any = self.turn
        shared = self.reservations.shared or self.reservations.open()
        is_quiet = False
        try:
            if shared is not None:
                waited_at = int.from_bytes(os.pread(shared.descriptor, *WAITED), "little")
                is_quiet = not 0 <= monotonic_ns() - waited_at < _QUIET_NS
            if not is_quiet:
                fcntl.flock(turnstile, _NOW)
            fcntl.flock(turn, _NOW)
            return True
        except BlockingIOError:
            is_quiet = False
            about_to_wait()
            if shared is not None:
                with contextlib.suppress(OSError):  # a full disk
                    now = monotonic_ns().to_bytes(8, "little")
                    os.pwrite(shared.descriptor, now, WAITED[1])
            _acquire_lock(turnstile, deadline)
            _acquire_lock(turn, deadline)
            return False
        finally:
            if not is_quiet:  # unlocking what is not locked does nothing
                fcntl.flock(turnstile, fcntl.LOCK_UN)

    def doubt(self) -> None:
        """Look at the next commit whether the lock files are still there."""
        self.is_doubted = True

    def reopen_deleted(self) -> None:
        """Open the lock files again if they were deleted, or the last time this did not end."""
        opened = [lock for lock in (self.turnstile, self.turn) if lock is not None]
        if not opened or not all(os.fstat(lock).st_nlink for lock in opened):
            self.open()
        self.is_doubted = False

    def remove(self) -> None:
        """Remove the lock files beside a file that is another program's."""
        with contextlib.suppress(OSError):
            for name in (*files.LOCKS, files.MARK):
                os.unlink(os.path.join(self.directory, name))
            os.rmdir(self.directory)


def _acquire_lock(lock: int, deadline: float | None) -> None:
    """Take a lock; without a deadline by waiting in the kernel's queue.

    Raises:
        FDBError: 1031 when the deadline, on the monotonic clock, passed first.
    """
    if deadline is None:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return
    while not _acquire_now(lock):
        if monotonic() >= deadline:
            raise FDBError(1031)
        time.sleep(_TURN_POLL_SECONDS)


def _acquire_now(lock: int) -> bool:
    """Take a lock if it is free, or this process has it; tell whether it has it now."""
    try:
        fcntl.flock(lock, _NOW)
    except BlockingIOError:
        return False
    return True
