"""Read the state of a queue, which each popper reads besides the items; pause and resume it.

The state is one range of keys, so one read: the counts, a pause, the help requests of other
processes, and what has expired.

A pause is one key within that range. Writing it conflicts with every take that has not committed:
once ``pause`` has returned, nothing is taken. A take that finds the key only ends the leases that
it was asked to end, and returns saved responses. Waiters watch the key, so resuming wakes them, and
pushes do not.

A family is paused by one key of its own, which a take from a member reads at the same time.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service.clock import now_us
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.leases import reason_of
from fdbqueue.service.items import LAST_MOMENT, microseconds, moment
from fdbqueue.service.storage.counts import ready_and_taken
from fdbqueue.service.storage.family_index import Member
from fdbqueue.service.storage.handoffs import HelpRequest, read_request
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.storage.tables import Due, TableKeys
from fdbqueue.service.writes import OperationRunner

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
        dues: The leases, delays and batches that have expired.
        more_due: Whether there may be more of these.
    """

    taken: int
    retried: bool
    is_paused: bool
    requests: list[HelpRequest]
    expired: list[HelpRequest]
    dues: list[Due]
    more_due: bool

    def without_leases(self, ending: Container[bytes]) -> QueueState:
        """Return the state without the leases that end here: they do not expire as well."""
        return self._replace(dues=[due for due in self.dues if due.rest not in ending])


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
        dues = list(all_due(store, tr, now, expiry.MAX_EXPIRED))
    chosen = expiry.chosen(dues, at_random=at_random) if dues else dues
    more_due = is_cut or len(dues) > len(chosen)
    is_open, expired = _by_age(tr, now, requests) if requests else ([], [])
    return QueueState(taken, retried, paused, is_open, expired, chosen, more_due)


def _by_age(
    tr: Transaction, now: int, requests: list[HelpRequest]
) -> tuple[list[HelpRequest], list[HelpRequest]]:
    """Return the open requests, the oldest first, and the expired ones."""
    version = 0 if all(one.is_dated for one in requests) else tr.get_read_version().wait()
    requests.sort(key=lambda request: (request.version, request.name))
    expired = [one for one in requests if one.is_expired(now, version)]
    gone = {one.name for one in expired}
    return [one for one in requests if not (one.is_handed or one.name in gone)], expired


def all_due(
    store: ItemStore, tr: Transaction, now: int, limit: int, after: Due | None = None
) -> Iterator[Due]:
    """Yield what has expired by the clock, the oldest first, or the oldest after one."""
    begin, stop = store.tables.dues[0], store.tables.present(now)[1]
    if after is not None:
        begin = store.tables.due(*after) + b"\x00"
    for row in tr.snapshot.get_range(begin, stop, limit=limit):
        entry = store.tables.parse_due(row.key)
        if entry is not None:
            yield entry


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
