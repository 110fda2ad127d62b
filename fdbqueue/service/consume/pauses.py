"""Pause and resume a queue or a family, and read whether it is paused.

A pause is one key within what each take reads; a family's is read with it. Writing it conflicts
with every take that has not committed: once ``pause`` has returned, nothing is taken, but what was
handed over is collected. A take that finds it only ends leases, and returns saved responses.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service.clock import LAST_MOMENT, microseconds, moment, now_us
from fdbqueue.service.consume.leases import reason_of
from fdbqueue.service.storage.family_index import Member
from fdbqueue.service.storage.tables import TableKeys
from fdbqueue.service.writes import OperationRunner

_SINCE = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Pause:
    """Since when a queue is paused, in UTC by the pausing client's clock, and why.

    Attributes:
        since: Since when.
        reason: Why.
        family: The name of the family that is paused, with all its members; None if it is the queue
            itself.
    """

    since: datetime.datetime
    reason: str
    family: str | None = None


class Pausing:
    """Pause and resume one queue, or one family.

    Args:
        runner: Runs the operations.
        key: The key that says that it is paused.
        taken: The range of the keys on which every transaction depends that takes items.
        member: The queue's rows in the index of its family; None if it is in none, or a family.
        family: The family's name; None for a queue.
    """

    def __init__(
        self,
        runner: OperationRunner,
        key: bytes,
        taken: tuple[bytes, bytes],
        *,
        member: Member | None = None,
        family: str | None = None,
    ) -> None:
        self._runner = runner
        self._key = key
        self._taken = taken
        self._member = member
        self._family = family

    def pause(self, reason: str | None, tr: Transaction | None) -> Pause:
        """Pause it; what is paused keeps its time, and its reason if there is no new one."""
        given = None if reason is None else reason_of(self._runner.queue, reason)

        def pause(transaction: Transaction) -> Pause:
            found = parse_pause(transaction[self._key])
            since = moment(now_us()) if found is None else found.since
            kept = "" if found is None else found.reason
            made = Pause(since, kept if given is None else given, self._family)
            transaction[self._key] = _packed(made)
            # Whoever has taken a ready item, and commits after this, conflicts and looks again.
            transaction.add_write_conflict_range(*self._taken)
            return made

        return self._runner.write("pause", tr, pause)

    def resume(self, tr: Transaction | None) -> bool:
        """Resume it; tell whether it was paused."""

        def resume(transaction: Transaction) -> bool:
            was_paused: bool = transaction[self._key].present()
            if was_paused:
                transaction.clear(self._key)
                if self._member is not None:
                    self._member.announce(transaction, 0)
            return was_paused

        return self._runner.write("resume", tr, resume, wrote=bool)

    def paused(self, tr: Transaction | None) -> Pause | None:
        """Return since when and why it is paused, by itself or with its family; None if not."""

        def read(transaction: Transaction) -> Pause | None:
            own = transaction[self._key]
            if self._member is None:
                return parse_pause(own, self._family)
            of_family = transaction[self._member.paused]
            return parse_pause(own) or parse_pause(of_family, self._member.family)

        return self._runner.read(tr, read)


def begin_pause(tr: Transaction, tables: TableKeys) -> Callable[[], Pause | None]:
    """Begin to read whether a queue is paused; call the returned function for the result."""
    own, member = tr.snapshot[tables.paused], tables.member
    if member is None:
        return lambda: parse_pause(own)
    of_family = tr.snapshot[member.paused]
    return lambda: parse_pause(own) or parse_pause(of_family, member.family)


def parse_pause(read: Any, family: str | None = None) -> Pause | None:
    """Return the pause that was read, None if there is none.

    Args:
        read: What was read.
        family: The name of the family whose pause it is, None for that of a queue.
    """
    if not read.present():
        return None
    data = bytes(read)
    (since,) = _SINCE.unpack_from(data.ljust(_SINCE.size, b"\x00"))
    since_moment = moment(min(since, LAST_MOMENT))
    return Pause(since_moment, data[_SINCE.size :].decode(errors="replace"), family)


def _packed(pause: Pause) -> bytes:
    return _SINCE.pack(microseconds(pause.since)) + pause.reason.encode(errors="replace")
