"""Pause a queue, so that poppers and workers find nothing in it, and resume it.

A pause is one key within the range that every popper reads anyway (``TableKeys.present``), so a
queue that is not paused pays nothing for it. Writing it conflicts with every transaction that takes
ready items and has not committed yet: once ``pause`` has returned, nothing is taken.

A transaction that takes items and finds the key takes none and requeues nothing that has expired.
It still ends the leases that it was asked to end, and returns saved responses. Whoever waits for
items sets its watch on the key, so pushes do not wake it, and resuming does.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service.clock import now_us
from fdbqueue.service.consume.leases import reason_of
from fdbqueue.service.items import LAST_MOMENT, microseconds, moment
from fdbqueue.service.runner import Runner
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.storage.tables import TableKeys

_SINCE = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Pause:
    """Since when a queue is paused, in UTC by the clock of who paused it, and why."""

    since: datetime.datetime
    reason: str


class Pausing:
    """Pause and resume one queue.

    Args:
        runner: Runs its operations.
        store: Its items.
    """

    def __init__(self, runner: Runner, store: ItemStore) -> None:
        self._runner = runner
        self._store = store
        self._key = store.tables.paused

    def pause(self, reason: str, tr: Transaction | None) -> Pause:
        """Pause the queue; one that is paused keeps its time and gets the new reason."""
        reason = reason_of(self._store.queue, reason)

        def pause(transaction: Transaction) -> Pause:
            found = parse_pause(transaction[self._key])
            made = Pause(moment(now_us()) if found is None else found.since, reason)
            transaction[self._key] = _packed(made)
            # Whoever has taken a ready item, and commits after this, conflicts and looks again.
            transaction.add_write_conflict_range(*self._store.keys.bounds())
            return made

        return self._runner.write("pause", tr, pause)

    def resume(self, tr: Transaction | None) -> bool:
        """Resume the queue; tell whether it was paused."""

        def resume(transaction: Transaction) -> bool:
            was_paused: bool = transaction[self._key].present()
            if was_paused:
                transaction.clear(self._key)
            return was_paused

        return self._runner.write("resume", tr, resume, wrote=bool)

    def paused(self, tr: Transaction | None) -> Pause | None:
        """Return since when and why the queue is paused, None where it is not."""
        return self._runner.read(tr, lambda transaction: parse_pause(transaction[self._key]))


def begin_pause(tr: Transaction, tables: TableKeys) -> Callable[[], Pause | None]:
    """Begin to read whether a queue is paused; call the returned function for the result."""
    read = tr.snapshot[tables.paused]
    return lambda: parse_pause(read)


def parse_pause(read: Any) -> Pause | None:
    """Return the pause that was read, None where there is none."""
    if not read.present():
        return None
    data = bytes(read)
    (since,) = _SINCE.unpack_from(data.ljust(_SINCE.size, b"\x00"))
    return Pause(moment(min(since, LAST_MOMENT)), data[_SINCE.size :].decode(errors="replace"))


def _packed(pause: Pause) -> bytes:
    return _SINCE.pack(microseconds(pause.since)) + pause.reason.encode(errors="replace")
