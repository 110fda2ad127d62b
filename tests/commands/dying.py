"""Let a process kill itself at an exact point of its writing, as the environment says.

``FDBQUEUE_TEST_DIES`` is a point and a number: ``"write 2"`` is right before the second write
to a file, ``"torn 2"`` in the middle of it, ``"sync 2"`` before the second ``fsync``,
``"synced 2"`` after it. At ``"full 2"`` the process goes on, but from the second write on the disk
is full.
"""

from __future__ import annotations

import errno
import os
import signal
from typing import Any

WRITES, SYNCS = {"write", "torn", "full"}, {"sync", "synced"}


def install() -> None:
    """Wait for the point, where there is one."""
    text = os.environ.get("FDBQUEUE_TEST_DIES")
    if text:
        point, number = text.split()
        _Death(point, int(number)).install()


class _Death:
    def __init__(self, point: str, number: int) -> None:
        self._point = point
        self._left = number
        self._pwrite, self._fsync = os.pwrite, os.fsync

    def install(self) -> None:
        if self._point in WRITES:
            os.pwrite = self._write
        elif self._point in SYNCS:
            os.fsync = self._sync

    def _is_now(self) -> bool:
        self._left -= 1
        return self._left == 0

    def _write(self, descriptor: int, data: Any, offset: int) -> int:
        if self._point == "full" and self._left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self._is_now():
            if self._point == "full":
                return self._pwrite(descriptor, data[: len(data) // 2], offset)
            if self._point == "torn":
                self._pwrite(descriptor, data[: len(data) * 2 // 3], offset)
            os.kill(os.getpid(), signal.SIGKILL)
        return self._pwrite(descriptor, data, offset)

    def _sync(self, descriptor: int) -> None:
        is_now = self._is_now()
        if not (is_now and self._point == "sync"):
            self._fsync(descriptor)
        if is_now:
            os.kill(os.getpid(), signal.SIGKILL)
