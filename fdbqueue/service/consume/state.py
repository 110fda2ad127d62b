"""Read the state of a queue, which each popper reads besides the items; pause and resume it.

The state is one range of keys: the counts, whether the queue is paused, the help requests of other
processes, and what has expired. So a popper learns all of it by one read.

A pause is one key within that range (``TableKeys.present``), so a queue that is not paused pays
nothing for it. Writing it conflicts with every transaction that takes ready items and has not
committed yet: once ``pause`` has returned, nothing is taken.

A transaction that takes items and finds the key takes none and requeues nothing that has expired.
It still ends the leases that it was asked to end, and returns saved responses. Whoever waits for
items sets its watch on the key, so pushes do not wake it, and resuming does.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service.clock import now_us
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.leases import reason_of
from fdbqueue.service.items import LAST_MOMENT, microseconds, moment
from fdbqueue.service.storage.counts import ready_and_taken
from fdbqueue.service.storage.handoffs import HelpRequest, read_request
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.storage.tables import Due, TableKeys
from fdbqueue.service.writes import Runner

#: One range read returns the counts, the help requests and what has expired; requests beyond
#: these wait for the next popper.
_MAX_REQUESTS = 200
_STATE_ROWS = 4 + _MAX_REQUESTS + expiry.MAX_EXPIRED
_SINCE = struct.Struct(">Q")


class QueueState(NamedTuple):
    """The state of a queue, as a transaction sees it.

    Attributes:
        taken: How many items were ever taken off the ready ones: it tells whether others pop.
        retried: Whether attempts may be in rows of their own.
        is_paused: Whether nothing is to be taken or requeued.
        requests: The open help requests, the oldest first.
        expired: The help requests that have expired, handed over or not.
        awaits: Whether there is a handoff that was not collected yet, and has not expired.
        dues: The leases, delays and batches that have expired.
        more_due: Whether there may be more of these.
    """

    taken: int
    retried: bool
    is_paused: bool
    requests: list[HelpRequest]
    expired: list[HelpRequest]
    awaits: bool
    dues: list[Due]
    more_due: bool


def begin_state(store: ItemStore, tr: Transaction, now: int) -> Any:
    """Begin to read the state of the queue."""
    begin, stop = store.tables.present(now)
    return tr.snapshot.get_range(begin, stop, limit=_STATE_ROWS)


def parse_state(
    store: ItemStore, tr: Transaction, now: int, rows: Any, *, at_random: bool
) -> QueueState:
    """Return what the rows of the state say.

    Args:
        store: The queue's items.
        tr: The transaction.
        now: The present, in microseconds.
        rows: What :func:`begin_state` returned.
        at_random: Whether to choose what expires at random, because several poppers commit at once.

    Raises:
        FormatMismatch: The queue was written under other settings.
    """
    tables, known = store.tables, store.format.known_key
    taken, retried, paused = 0, False, False
    requests: list[HelpRequest] = []
    others: list[bytes] = []
    count = 0
    for row in rows:
        count += 1
        if row.key == tables.ready:
            taken = ready_and_taken(row.value)[1]
        elif row.key == known:
            pass
        elif row.key == tables.retried:
            retried = True
        elif row.key == tables.paused:
            paused = True
        elif tables.is_request(row.key):
            request = read_request(tables, row.key, row.value)
            if request is not None:
                requests.append(request)
        elif row.key.startswith(tables.format):
            store.format.check_key(tr, row.key)
        else:
            others.append(row.key)
    dues = [*filter(None, map(tables.parse_due, others))]
    is_cut = count == _STATE_ROWS
    if is_cut and not dues:  # the help requests left no room for it
        dues = list(_due(store, tr, now, expiry.MAX_EXPIRED))
    chosen = expiry.chosen(dues, at_random=at_random) if dues else dues
    more_due = is_cut or len(dues) > len(chosen)
    is_open, expired, awaits = _by_age(tr, requests) if requests else ([], [], False)
    return QueueState(taken, retried, paused, is_open, expired, awaits, chosen, more_due)


def _by_age(
    tr: Transaction, requests: list[HelpRequest]
) -> tuple[list[HelpRequest], list[HelpRequest], bool]:
    """Return the open requests, the oldest first, the expired ones, and whether one is awaited.

    That is one that was handed over, and not collected yet.
    """
    version = tr.get_read_version().wait()
    requests.sort(key=lambda request: (request.version, request.name))
    expired = [one for one in requests if one.is_expired(version)]
    live = [one for one in requests if not one.is_expired(version)]
    is_open = [one for one in live if not one.is_handed]
    awaits = any(one.is_handed and not one.lease_us for one in live)
    return is_open, expired, awaits


def all_due(store: ItemStore, tr: Transaction, now: int) -> Iterator[Due]:
    """Yield everything that has expired by the clock, the oldest first."""
    return _due(store, tr, now, 0)


def _due(store: ItemStore, tr: Transaction, now: int, limit: int) -> Iterator[Due]:
    begin, stop = store.tables.due_bounds()[0], store.tables.present(now)[1]
    for row in tr.snapshot.get_range(begin, stop, limit=limit):
        entry = store.tables.parse_due(row.key)
        if entry is not None:
            yield entry


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
                if self._store.tables.member is not None:
                    self._store.tables.member.write(transaction, 0)
            return was_paused

        return self._runner.write("resume", tr, resume, wrote=bool)

    def paused(self, tr: Transaction | None) -> Pause | None:
        """Return since when and why the queue is paused, None if it is not."""
        return self._runner.read(tr, lambda transaction: parse_pause(transaction[self._key]))


def begin_pause(tr: Transaction, tables: TableKeys) -> Callable[[], Pause | None]:
    """Begin to read whether a queue is paused; call the returned function for the result."""
    read = tr.snapshot[tables.paused]
    return lambda: parse_pause(read)


def parse_pause(read: Any) -> Pause | None:
    """Return the pause that was read, None if there is none."""
    if not read.present():
        return None
    data = bytes(read)
    (since,) = _SINCE.unpack_from(data.ljust(_SINCE.size, b"\x00"))
    return Pause(moment(min(since, LAST_MOMENT)), data[_SINCE.size :].decode(errors="replace"))


def _packed(pause: Pause) -> bytes:
    return _SINCE.pack(microseconds(pause.since)) + pause.reason.encode(errors="replace")
