"""The past: an hour of work, done under an earlier clock.

The flows of queues that are new work through it minute by minute, each minute in one transaction.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import fdbqueue
from fdbqueue.engines.protocols import Transaction
from fdbqueue.service import FifoQueue, Item, clock, run
from project.demo.flows import Stream
from project.demo.queues import BLOCKED, PAUSED, PAUSED_BECAUSE

MINUTES = 60
#: At which minute of the hour it happens.
_BLOCKED_AT, _PAUSED_AT, _BURIED_AT = 25, 38, 47
_BURIED = 3


@contextlib.contextmanager
def ago(seconds: float) -> Iterator[None]:
    """Set the clock of the queues back, in this process."""
    clock.set_ahead(-int(seconds * 1_000_000))
    try:
        yield
    finally:
        clock.set_ahead(int(seconds * 1_000_000))


def work(streams: Sequence[Stream]) -> None:
    """Work through an hour that ends now."""
    if not streams:
        return
    names = {stream.flow.name for stream in streams}
    for minute in range(MINUTES):
        with ago(60.0 * (MINUTES - minute - 1) + 1):
            _work_minute(streams)
            if minute == _BLOCKED_AT and BLOCKED in names:
                _block()
            if minute == _PAUSED_AT and PAUSED in names:
                fdbqueue.queue(PAUSED).pause(reason=PAUSED_BECAUSE)
            if minute == _BURIED_AT and "quakes" in names:
                _bury()


def _work_minute(streams: Sequence[Stream]) -> None:
    def work(tr: Transaction) -> list[list[Item]]:
        return [stream.work(tr, 1.0) for stream in streams]

    held = run(streams[0].queue.database, work)
    for stream, leases in zip(streams, held, strict=True):
        stream.held = leases


def _block() -> None:
    """Push an item that the queue's codec cannot decode, as a program with another codec does."""
    queue = fdbqueue.queue(BLOCKED)
    foreign = FifoQueue(queue.database, queue.subspace, name=BLOCKED, codec="bytes")
    foreign.adopt_settings()
    foreign.push(b"catalogue-2018-02-30.csv;250")
    queue.adopt_settings()


def _bury() -> None:
    """Make dead letters of the weakest earthquakes."""
    quakes = fdbqueue.queue("quakes")
    for item in quakes.page(limit=_BURIED).items:
        quakes.bury(item.id, reason="no station within 500 km")
