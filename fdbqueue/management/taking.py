"""Take batch after batch off a queue, and let Ctrl-C in where none is held."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Protocol, TypeVar

from fdbqueue.service import Queue

T_co = TypeVar("T_co", covariant=True)

#: How long to wait for more before looking whether to end. Items that come wake at once.
_WAIT_SECONDS = 2.0


class Source(Protocol[T_co]):
    """Gives one batch after the other."""

    remaining: float

    def next(self) -> T_co:
        """Return the next batch, or how many items were in it: nothing when there is none."""


def take_all(
    queue: Queue,
    source: Source[T_co],
    take: Callable[[T_co], None],
    *,
    follow: bool,
    let_in: Callable[[], contextlib.AbstractContextManager[None]],
) -> None:
    """Take batches until there are no more; or for ever when it follows.

    Args:
        queue: The queue they come from.
        source: Gives them.
        take: Called with each.
        follow: Whether to wait for more.
        let_in: A context that Ctrl-C may end.
    """
    while source.remaining > 0:
        with let_in():
            may_be = not follow or queue.wait_for_items(_WAIT_SECONDS)
        if not may_be:
            continue
        batch = source.next()
        if batch:
            take(batch)
        elif not follow:
            return
