"""Share the poppers, the writes and the watch of a queue between all threads of a process.

All queue objects of one queue on one database have the same :class:`ProcessGroup`. The
:class:`~fdbqueue.service.writes.SharedWrites` of a queue, which its pushes use too, is made here.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from fdbqueue.engines.protocols import Database
from fdbqueue.service.consume.poppers import EndPoppers
from fdbqueue.service.consume.requests import TakeRequest
from fdbqueue.service.consume.taker import Taker
from fdbqueue.service.consume.wakeups import ItemWatch
from fdbqueue.service.items import Item
from fdbqueue.service.runner import patient
from fdbqueue.service.storage.reader import End
from fdbqueue.service.writes import SharedWrites


class ProcessGroup:
    """The poppers at each end of one queue, its writes and its watch, for this process.

    Args:
        database: Anything with ``create_transaction()``, without a time limit.
        taker: Takes the queue's items.
        handoff_timeout_seconds: For how long items that another process has taken for this
            one are kept for it.
        stamped: Whether pushes need the versionstamp of their commit.
    """

    def __init__(
        self, database: Database, taker: Taker, handoff_timeout_seconds: float, *, stamped: bool
    ) -> None:
        self._ends: dict[End, EndPoppers] = {
            "min": EndPoppers(database, taker, "min", handoff_timeout_seconds),
            "max": EndPoppers(database, taker, "max", handoff_timeout_seconds),
        }
        #: Combines pushes, acks, nacks and extends.
        self.writes = SharedWrites(database, taker.store, stamped=stamped)
        #: Wakes threads and tasks that wait for items.
        self.watch = ItemWatch(database, taker.store)
        _groups.add(self)

    def take(self, request: TakeRequest, database: Database) -> list[Item]:
        """Take items, together with the other threads of this process that take some now.

        What is raised has an attribute ``outcome_known``: True where nothing was taken.

        Args:
            request: What to take.
            database: Where; its transactions may have a time limit, as long as the thread
                takes by itself.

        Raises:
            CorruptItem: One of them cannot be decoded; all stay where they are.
            DeadlineExceeded: The time was over first; nothing was taken.
            OutcomeUnknown: It is not known whether they were taken.
        """
        items: list[Item] = self._ends[request.end].combiner.submit(request, database)
        return items

    def undo(self, request: TakeRequest) -> None:
        """Requeue, in the helper thread, what was taken for a thread that was interrupted then."""
        self._ends[request.end].combiner.adopt(request)

    def in_line(self, end: End) -> int:
        """Return how many threads of this process wait in line at an end."""
        return self._ends[end].combiner.in_line

    def is_busy(self, end: End) -> bool:
        """Tell whether a thread of this process takes items at an end right now."""
        return self._ends[end].combiner.is_busy

    def forget(self) -> None:
        """Start anew, in a forked process."""
        for poppers in self._ends.values():
            poppers.forget()
        self.writes.combiner.forget()
        self.watch.forget()


_groups: weakref.WeakSet[ProcessGroup] = weakref.WeakSet()
_shared: weakref.WeakKeyDictionary[Any, weakref.WeakValueDictionary[Any, ProcessGroup]] = (
    weakref.WeakKeyDictionary()
)
_sharing = threading.Lock()


def shared_group(
    database: Database, taker: Taker, handoff_timeout_seconds: float, key: Any, *, stamped: bool
) -> ProcessGroup:
    """Return the process's group for a queue, the same for all its queue objects."""
    database = patient(database)
    with _sharing:
        try:
            groups = _shared.setdefault(database, weakref.WeakValueDictionary())
            found = groups.get(key)
        except TypeError:  # a database without weak references, or a codec without a hash
            return ProcessGroup(database, taker, handoff_timeout_seconds, stamped=stamped)
        if found is None:
            found = groups[key] = ProcessGroup(
                database, taker, handoff_timeout_seconds, stamped=stamped
            )
        return found


def _forget_all() -> None:
    global _sharing  # noqa: PLW0603  # a thread may have held it in the other process
    _sharing = threading.Lock()
    for one in list(_groups):
        one.forget()


os.register_at_fork(after_in_child=_forget_all)
