"""The turn of the processes that write a file: two lock files in its ``-sync`` directory.

Each process holds the turnstile until it has the turn, so one that waits for the turn goes
before one that has just written. The kernel wakes those who wait at the turnstile together, and
one of them gets it. The locks order the writers, and no more: what keeps two from writing at
once is SQLite's own lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

from fdbqueue.engines.embedded.errors import FDBError
from fdbqueue.engines.embedded.files import LOCKS, MARK

_POLL_SECONDS = 0.002


class Turn:
    """The descriptors of the lock files, which are made anew where they were deleted.

    Args:
        directory: Where they are.

    Attributes:
        turnstile: The first lock to take, None while it is closed.
        turn: The second one, which the process that writes holds.
        is_doubted: Whether the files may have been deleted.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.turnstile: int | None = None
        self.turn: int | None = None
        self.is_doubted = False

    def open(self) -> None:
        """Open the lock files.

        While some processes still hold deleted ones, SQLite's own lock orders the writers.
        """
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._directory)
        self.close()
        self.turnstile = self._open(LOCKS[0])
        self.turn = self._open(LOCKS[1])

    def _open(self, name: str) -> int:
        return os.open(os.path.join(self._directory, name), os.O_RDWR | os.O_CREAT, 0o666)

    def close(self) -> None:
        """Close the lock files, which frees the turn."""
        opened = self.turnstile, self.turn
        self.turnstile = self.turn = None
        for descriptor in opened:
            if descriptor is not None:
                os.close(descriptor)

    def doubt(self) -> None:
        """Look at the next commit whether the lock files are still there."""
        self.is_doubted = True

    def reopen_deleted(self) -> None:
        """Open the lock files again where they were deleted."""
        opened = [lock for lock in (self.turnstile, self.turn) if lock is not None]
        self.is_doubted = False
        if not all(os.fstat(lock).st_nlink for lock in opened):
            self.open()

    def remove(self) -> None:
        """Remove the lock files beside a file that is another program's."""
        with contextlib.suppress(OSError):
            for name in (*LOCKS, MARK):
                os.unlink(os.path.join(self._directory, name))
            os.rmdir(self._directory)


def take(lock: int, deadline: float) -> None:
    """Take a lock.

    Raises:
        FDBError: 1031 when the deadline, on the monotonic clock, passed first.
    """
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise FDBError(1031) from None
            time.sleep(_POLL_SECONDS)
        else:
            return
