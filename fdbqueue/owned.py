"""What commands, REST and pages may do to the items of a queue that an app owns.

That app notes how each item ends: the one of Django Tasks in the record of the task, and in that of
its group. An item that is taken, removed or buried behind its back has no end, and who waits for
the end waits for ever. So of such a queue only dead letters can be removed, and only an item that
cannot be decoded can be buried; all else raises :class:`~fdbqueue.exceptions.QueueOwned`.
"""

from __future__ import annotations

from typing import Any

from fdbqueue.exceptions import QueueOwned
from fdbqueue.service import Queue, Undecodable, run


def check_takeable(queue: Queue) -> None:
    """Check that items of a queue may be taken, whatever their state.

    Raises:
        QueueOwned: An app owns it.
    """
    if queue.owner is not None:
        raise QueueOwned(queue=queue.label, owner=queue.owner)


def remove(queue: Queue, item_id: str) -> None:
    """Remove an item for good; of a queue that an app owns it must be a dead letter.

    Raises:
        QueueOwned: It is none, and an app owns the queue; nothing was changed.
        ItemNotFound, InvalidInput: As of :meth:`Queue.remove`.
    """
    if queue.owner is None:
        queue.remove(item_id)
        return

    def remove_dead(tr: Any) -> None:
        if queue.get(item_id, tr=tr).state != "dead":
            check_takeable(queue)
        queue.remove(item_id, tr=tr)

    run(queue.database, remove_dead)


def bury(queue: Queue, item_id: str, *, reason: str) -> None:
    """Make a ready item a dead letter; of a queue that an app owns one that cannot be decoded.

    Raises:
        QueueOwned: It can be decoded, and an app owns the queue; nothing was changed.
        ItemNotFound, ItemNotReady, InvalidInput: As of :meth:`Queue.bury`.
    """
    if queue.owner is None:
        queue.bury(item_id, reason=reason)
        return

    def bury_undecodable(tr: Any) -> None:
        if not isinstance(queue.get(item_id, tr=tr).value, Undecodable):
            check_takeable(queue)
        queue.bury(item_id, reason=reason, tr=tr)

    run(queue.database, bury_undecodable)
