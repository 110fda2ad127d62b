"""Tell the mover that rows have come, without holding up the caller of ``enqueue``.

A thread changes one key, on which the mover has a watch; those that come meanwhile share the next
change, a fiftieth of a second later. It begins with the first row, and ends when there are no more.
If the engine does not answer in two seconds, nothing is told: the mover looks by itself.

A process that is forked has a thread of its own. One that ends waits for the thread, so that a
command's tasks are moved at once, too.
"""

from __future__ import annotations

import os
import time
from typing import Any

from fdbqueue.deadlines import TimedDatabase
from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import text_of_error
from fdbqueue.locks import RLock
from fdbqueue.logs import get_logger
from fdbqueue.own_threads import OwnThread
from fdbqueue.service import run

logger = get_logger(__name__)

_MAX_SECONDS = 2.0
_PAUSE_SECONDS = 0.02
_ONE = (1).to_bytes(8, "little")


def wake_key(backend: Any) -> bytes:
    """Return the key that changes when rows of a backend have come."""
    key: bytes = backend.records.state_key("outbox", backend.alias, "wake")
    return key


class Waker:
    """Wake the mover of a backend.

    Args:
        backend: The backend.
    """

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._process = os.getpid()
        self._mutex = RLock()
        #: Under ``_mutex``: whether rows have come since the thread last looked, and whether there
        #: is a thread.
        self._is_wanted = self._is_at_work = False

    def wake(self) -> None:
        """Wake the mover soon; never raises an error of the engine."""
        if self._process != os.getpid():  # forked, maybe while a thread had the mutex
            self._mutex, self._is_at_work, self._process = RLock(), False, os.getpid()
        with self._mutex:
            self._is_wanted = True
            if self._is_at_work:
                return
            self._is_at_work = True
        try:
            OwnThread(self._wake_all, name="fdbqueue-outbox-wake", daemon=False).start()
        except RuntimeError:  # the process ends, or has too many threads: the mover looks by itself
            self._is_at_work = False

    def _wake_all(self) -> None:
        try:
            self._wake_until_none_is_wanted()
        except BaseException:  # the next row starts another thread
            self._is_at_work = False
            raise

    def _wake_until_none_is_wanted(self) -> None:
        while True:
            with self._mutex:
                if not self._is_wanted:
                    self._is_at_work = False
                    return
                self._is_wanted = False
            self._change()
            time.sleep(_PAUSE_SECONDS)

    def _change(self) -> None:
        def change(tr: Transaction) -> None:
            tr.add(wake_key(self._backend), _ONE)

        try:
            database = TimedDatabase(self._backend.catalog.database, lambda: _MAX_SECONDS)
            run(database, change, wrote=lambda _: False)  # harmless twice
        except Exception as error:  # noqa: BLE001  # the mover looks by itself
            facts = {"backend": self._backend.alias, "error": text_of_error(error)}
            logger.info("the mover of an outbox was not woken", extra=facts)
