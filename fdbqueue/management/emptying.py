"""Take items until a queue is empty: what ``queue_drain``, ``queue_move`` and ``queue_work`` share.

Ctrl-C stops a drain and a move between two batches, and a worker when the functions that run have
ended. An error says how many items are done.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fdbqueue.columns.text import printable
from fdbqueue.management.console import Console, ProgressMeter
from fdbqueue.management.exit_codes import failure
from fdbqueue.management.formats import item_count
from fdbqueue.management.signals import DeferredInterrupts
from fdbqueue.service import Batcher, Mover, Queue, SeveralQueues

#: How long to wait for items that a limit keeps back, before looking whether it still does.
_WAIT_SECONDS = 2.0
_SHOWN_IDS = 5


class Emptying:
    """How far a command goes that takes items off a queue, or several.

    Args:
        source: The queue, or the queues.
        console: Shows the progress.
        limit: The most items to take; None for all.
        follow: Whether to wait for more items when there are none, until Ctrl-C.
    """

    def __init__(
        self, source: Queue | SeveralQueues, console: Console, *, limit: int | None, follow: bool
    ) -> None:
        self._source = source
        self._console = console
        #: The most items to take.
        self.limit = math.inf if limit is None else limit
        self._follow = follow

    @property
    def expected(self) -> int:
        """How many items there are to take, according to the counts."""
        return int(min(max(0, self._source.size()), self.limit))

    def report_expected(self, to: str) -> None:
        """Print how many items a drain would take, none if the queue is paused, and where to."""
        number = 0 if self._console.note_pauses(self._source) else self.expected
        self._console.report(
            {**name_record(self._source), "would_drain": number, "to": to},
            f"Would drain {item_count(number)} from {self._source.name!r} to {to}.",
        )

    def progress_meter(self, *, overwrites: bool = True, lines: bool = True) -> ProgressMeter:
        """Return what shows how many of the items are taken.

        If it waits for more there is no total, and there are no lines: the rate since it began
        says little, and the lines would stand between those of the log.
        """
        total = None if self._follow else self.expected
        lines = lines and not self._follow
        return self._console.progress_meter(total, overwrites=overwrites, lines=lines)

    def take_all(
        self,
        queue: Queue,
        batches: Batcher | Mover,
        take: Callable[[Any], None],
        interrupts: DeferredInterrupts,
    ) -> None:
        """Take batches of a queue until there are no more, or with ``--follow`` until Ctrl-C.

        Items that the queue's limits keep back are waited for.
        """
        to_lease = isinstance(batches, Batcher)
        waits = self._follow
        seconds = math.inf if waits else _WAIT_SECONDS
        while batches.remaining > 0:
            with interrupts.allowed():
                has_items = not waits or queue.wait_for_items(
                    seconds, to_lease=to_lease, waits_while=lambda: not interrupts.is_pending
                )
            if self._follow and not has_items:
                continue
            batch = batches.next()
            if batch:
                take(batch)
            waits = self._follow or (not batch and queue.held_until(to_lease=to_lease) is not None)
            if not batch and not waits:
                return

    def check_buried(self, buried: list[str], done: int) -> None:
        """End the command with exit code 1 if items were moved to the dead letters.

        Args:
            buried: The ids of items that cannot be decoded.
            done: How many others are done.
        """
        if buried:
            shown = ", ".join(buried[:_SHOWN_IDS])
            more = " and more" if len(buried) > _SHOWN_IDS else ""
            raise failure(
                f"{item_count(len(buried))} of {self._source.name!r} cannot be decoded and went to "
                f"its dead letters: {printable(shown)}{more}. {item_count(done, 'other')} done."
            )


def name_record(source: Queue | SeveralQueues) -> dict[str, Any]:
    """Return what JSON calls a queue, or several."""
    return {"queue": source.name} if isinstance(source, Queue) else {"queues": [*source.names]}
