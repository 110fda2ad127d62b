"""What operators do to the items of queues: REST and the pages do it here, commands in part.

A verb needs the permission :data:`fdbqueue.access.MANAGE` for the queue, or for all queues: REST
asks before it reads the body, a page for the button, the question and the form. What is one call of
a queue, such as its pause, is called there.

The four that return or remove many items do it in transactions of some hundreds. They take the
*bound* that says which: ``ids``, or those of a ``worker``, of a ``reason``, in a ``state``, of
``before`` a moment; and the ``limit``. What they have done is in their :class:`Outcome`, whatever
ends them.

An app that owns a queue notes how each item ends: the one of Django Tasks in the record of the
task, and in that of its group. An item that is taken, removed or buried behind its back has no end,
and who waits for the end waits for ever. So of such a queue only dead letters can be removed, and
only an item that cannot be decoded can be buried; all else raises
:class:`~fdbqueue.exceptions.QueueOwned`.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fdbqueue import deadlines
from fdbqueue.exceptions import QueueOwned
from fdbqueue.service import Queue, SeveralQueues, Undecodable, run

#: What a verb is done to, and the moment before which an item died, was leased, or is due.
Of = Queue | SeveralQueues
Moment = datetime.datetime | None


@dataclass
class Outcome:
    """What a verb, or an action of a page, has done until now.

    Attributes:
        number: How many items, or tasks, it has handled; for an action on a queue 1 if it did it.
        undecodable: The ids of dead letters that it met and that cannot be decoded.
        has_more: Whether it ended at its limit or its time, so that there may be more to do.
        rest: What the address of a page's next form has in place of this one's, if there is more.
        facts: What it is for, for the log.
    """

    number: int = 0
    undecodable: list[str] = field(default_factory=list)
    has_more: bool = False
    rest: Mapping[str, int] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def add(self, number: int) -> None:
        """Count what one more transaction has done."""
        self.number += number


def redrive(queue: Queue, outcome: Outcome, before: Moment = None, **bound: Any) -> None:
    """Redrive dead letters; one that cannot be decoded stays dead unless ``ids`` names it."""
    redrive = functools.partial(queue.redrive, bound.pop("ids", None), on_redriven=outcome.add)
    met = outcome.undecodable.extend
    _do(redrive, outcome, died_before=before, on_undecodable=met, **bound)


def purge(
    queue: Queue, outcome: Outcome, before: Moment = None, *, state: str = "dead", **bound: Any
) -> None:
    """Remove the items in a state for good.

    Raises:
        QueueOwned: They are no dead letters, and an app owns the queue; nothing was changed.
    """
    if state != "dead":
        check_takeable(queue)
    clear = functools.partial(queue.clear_state, state, on_removed=outcome.add)
    _do(clear, outcome, died_before=before, **bound)


def give_back(of: Of, outcome: Outcome, before: Moment = None, **bound: Any) -> None:
    """Give back leased items to their places before their leases end."""
    _do(of.give_back, outcome, leased_before=before, on_given_back=outcome.add, **bound)


def run_now(of: Of, outcome: Outcome, before: Moment = None, **bound: Any) -> None:
    """Make delayed items ready now; limits hold."""
    _do(of.run_now, outcome, due_before=before, on_ready=outcome.add, **bound)


def _do(
    work: Callable[..., int], outcome: Outcome, *, limit: int | None = None, **bound: Any
) -> None:
    """Do work to a bound; with a limit, it is no error if the time is over after a part of it."""
    try:
        outcome.has_more = work(limit=limit, **bound) == limit
    except Exception as error:
        outcome.has_more = limit is not None and outcome.number > 0 and deadlines.is_late(error)
        if not outcome.has_more:
            raise


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
