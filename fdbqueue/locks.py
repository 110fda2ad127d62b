"""Locks that a signal handler may interrupt: it may raise, or take a lock.

The locks are reentrant, because a handler runs in the thread that it has interrupted, which may
have the lock. What a lock protects is then as the interrupted code left it.

Until Python 3.13, an exception of a signal handler comes before a ``with`` statement takes a lock
or in its body. In Python 3.14 it may come between the two, and the lock is never released
(https://github.com/python/cpython/issues/148874). Not for locks that another thread releases.

If gevent has put greenlets in the place of threads, its locks are used: Python's own is a thread's,
so each of its greenlets would have it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

#: Why a signal handler cannot use a queue.
IN_A_HANDLER = (
    "a signal handler has interrupted this thread in a queue's call: let it set a flag, or start a"
    " thread"
)

_RLock: Any = type(threading.RLock())


class _Released(_RLock):  # type: ignore[misc]  # as threading says at run time
    """A reentrant lock that ``with`` releases if an exception comes once it is taken."""

    _recursion_count: Callable[[], int]  # how often this thread has it; not in the stubs

    def __enter__(self) -> bool:
        depth = self._recursion_count()
        try:
            taken = self.acquire()
        except BaseException:
            if self._recursion_count() > depth:
                self.release()
            raise
        return bool(taken)


_IS_LEFT_HELD = sys.version_info[:2] == (3, 14)
RLock: Any = _Released if _IS_LEFT_HELD else _RLock


def has_greenlets() -> bool:
    """Tell whether gevent has put greenlets in the place of this process's threads."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("threading"))
