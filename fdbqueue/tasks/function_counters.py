"""How often each task function ran and failed, how long it took, and how long it waited: counters.

Each end of an attempt adds to two numbers, in the transaction that commits it, and reads nothing:

    ("runs", queue, minutes, slot, path)     beside what :mod:`fdbqueue.tasks.records` has

A *slot* is 20 minutes, or 240, since 1970: ``minutes`` says which, ``slot`` the number of it. The
slot is that in which the attempt ended. A number has fields of little-endian bytes: how many
attempts took less than a millisecond (1,024 microseconds), less than twice that and not less than
that, and so on in 28 buckets, the last for all that took 19 hours and more; how many of all failed;
how many microseconds all took together; and how many first attempts had waited for so long, in as
many buckets: since they were enqueued, or might run.

So the last hour is at least three slots of 20 minutes that are over and the one that is not, and
the last day six of 240 and one: figures are *since* a moment, which is said with them. A percentile
is known as well as its bucket: it is wrong by a factor of less than two.

If there are more counters than a page reads, each queue has its share of them: those with few are
read whole, and those with many share the rest, from their newest slots back. What is left out of
these queues are whole slots, so that all their functions are counted in the same time; only if one
slot alone has more than the share, some functions are left out. :class:`LeftOut` says which it is.

What is not counted: an attempt whose worker died, and what was aborted before it began. A function
that the workers do not know is counted under no name. Workers clear the slots that are over for a
day when they prune (:mod:`fdbqueue.tasks.housekeeping`).
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from fdb import fdboptions
from fdb.subspace_impl import Subspace

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service import microseconds
from fdbqueue.service.storage.item_keys import packed

#: The lengths of slots in minutes, and how many of them are shown besides the one that is not over.
HOUR, DAY = (20, 3), (240, 6)
_BUCKETS = 28
#: Attempts of fewer microseconds are in the first bucket; a bucket's limit has one bit more.
_FIRST_BITS = 10
_NUMBER = struct.Struct(f"<{_BUCKETS + 1}IQ{_BUCKETS}I")
#: Where the fields are that are no buckets, in bits.
_FAILURES_AT, _TIME_AT, _WAITS_AT = 32 * _BUCKETS, 32 * (_BUCKETS + 1), 32 * (_BUCKETS + 3)
_US = 1_000_000
_MINUTE = 60 * _US
#: Behind all slots there are.
_LAST_SLOT = 2**62
_WANT_ALL: int = fdboptions.StreamingMode["want_all"][0]
#: So many functions keep their keys; others make them each time.
_MAX_KEPT = 1_000


class FunctionFigures(NamedTuple):
    """What attempts at a function did in some time.

    Attributes:
        runs: How many attempts have ended.
        failures: How many of them have failed.
        mean: How long an attempt took, in seconds; None if there was none.
        percentile: How long 95 of 100 took at most, by the buckets; likewise.
        waited: How long 95 of 100 tasks waited at most for their first attempt; likewise.
    """

    runs: int = 0
    failures: int = 0
    mean: float | None = None
    percentile: float | None = None
    waited: float | None = None


class FunctionRow(NamedTuple):
    """A function, and its figures of the last hour and of the last day.

    Attributes:
        path: Its dotted path; empty for all that workers did not know.
        queues: The names of the queues that it ran from.
        hour, day: The figures.
    """

    path: str
    queues: tuple[str, ...]
    hour: FunctionFigures
    day: FunctionFigures


class LeftOut(NamedTuple):
    """What was left out of a queue that has more counters than its share.

    Attributes:
        queue: Its name.
        is_of_hour: Whether it is of the last hour; else of the last day.
        since: Since when all its attempts are counted; None if some of its functions are left out,
            those whose paths come first.
    """

    queue: str
    is_of_hour: bool
    since: datetime.datetime | None


class FunctionRows(NamedTuple):
    """What was read.

    Attributes:
        rows: The functions, by their paths.
        hour_since, day_since: Since when the figures are.
        left_out: What was left out, in the order of the queues.
    """

    rows: list[FunctionRow]
    hour_since: datetime.datetime
    day_since: datetime.datetime
    left_out: list[LeftOut]


class FunctionCounters:
    """The counters of a setting; each method takes part in a transaction.

    Args:
        prefix: The tuple that all keys of the setting start with.
    """

    def __init__(self, prefix: tuple[object, ...]) -> None:
        self._runs = Subspace((*prefix, "tasks", "runs"))
        self._key: bytes = self._runs.key()
        #: The slots and the two keys of a function in a queue, as they were last.
        self._keys: dict[tuple[str, str], tuple[int, bytes, bytes]] = {}

    def count(
        self,
        tr: Transaction,
        queue: str,
        path: str,
        ended: int,
        began: int | None,
        *,
        failed: bool,
        waited: int | None = None,
    ) -> None:
        """Count an attempt; reads nothing.

        Args:
            tr: The transaction.
            queue: The queue that the task was in.
            path: The function's; empty if there is none.
            ended: When it ended, in microseconds since 1970.
            began: When it began; None if that is not known, which counts as no time.
            failed: Whether it failed.
            waited: How many microseconds the task waited for it; None if that is not counted.
        """
        took = max(0, ended - began) if began else 0
        number = (1 << 32 * _bucket_of(took)) + (failed << _FAILURES_AT) + (took << _TIME_AT)
        if waited is not None:
            number += 1 << _WAITS_AT + 32 * _bucket_of(waited)
        data = number.to_bytes(_NUMBER.size, "little")
        slot = ended // (HOUR[0] * _MINUTE)
        kept = self._keys.get((queue, path))
        if kept is None or kept[0] != slot:
            kept = self._keep(queue, path, slot, ended)
        tr.add(kept[1], data)
        tr.add(kept[2], data)

    def _keep(self, queue: str, path: str, slot: int, ended: int) -> tuple[int, bytes, bytes]:
        name = packed(path.encode(errors="replace").decode())
        of_hour = self._begin(queue, HOUR[0], slot) + name
        of_day = self._begin(queue, DAY[0], ended // (DAY[0] * _MINUTE)) + name
        if len(self._keys) >= _MAX_KEPT:
            self._keys.clear()
        kept = self._keys[queue, path] = slot, of_hour, of_day
        return kept

    def _begin(self, queue: str, minutes: int, slot: int) -> bytes:
        return self._key + packed(queue) + packed(minutes) + packed(slot)

    def read(self, tr: Transaction, queues: Iterable[str], now: int, most: int) -> FunctionRows:
        """Read the figures of some queues, without depending on them.

        Args:
            tr: The transaction.
            queues: Their names.
            now: The moment, in microseconds since 1970.
            most: About how many counters to read of each length of slots.
        """
        names = list(queues)
        hours, days = _Sums(), _Sums()
        left_out = []
        for length, found in ((HOUR, hours), (DAY, days)):
            for one in self._read(tr, names, length, now, most):
                slot = one.whole_from(self._runs, now // (length[0] * _MINUTE))
                if slot is not None:
                    since = _begin_of(length, slot) if slot else None
                    left_out.append(LeftOut(one.queue, length is HOUR, since))
                found.add(one)
        rows = []
        for name in sorted(hours.sums.keys() | days.sums.keys()):
            path: str = self._runs.unpack(self._key + name)[0]
            of_hour, of_day = hours.sums.get(name, 0), days.sums.get(name, 0)
            used = sorted(hours.queues.get(name, set()) | days.queues.get(name, set()))
            rows.append(FunctionRow(path, tuple(used), _figures(of_hour), _figures(of_day)))
        left_out.sort(key=lambda one: one.queue)
        return FunctionRows(rows, _since(HOUR, now), _since(DAY, now), left_out)

    def _read(
        self, tr: Transaction, queues: list[str], length: tuple[int, int], now: int, most: int
    ) -> list[_Read]:
        """Read the newest counters of each queue, so that few are left out of small ones.

        All queues that are not read whole get the same, again and again, until no more is to be
        read. What a queue leaves goes to the others, so that there are few such rounds.
        """
        minutes, before = length
        slot = now // (minutes * _MINUTE)
        reads = [
            _Read(
                queue,
                self._begin(queue, minutes, slot - before),
                self._begin(queue, minutes, _LAST_SLOT),
            )
            for queue in queues
        ]
        rest, left = reads, most
        while rest and left > 0:
            share = max(1, left // len(rest))
            left -= sum([one.take() for one in [one.begin(tr, share) for one in rest]])
            rest = [one for one in rest if not one.is_whole]
        for one in [one.begin(tr, 1) for one in rest]:
            one.see_following()
        return reads

    def clear_old(self, tr: Transaction, now: int) -> None:
        """Clear the slots of all queues that are not shown any more."""
        whole = self._runs.range()
        begin = whole.start
        while rows := list(tr.snapshot.get_range(begin, whole.stop, limit=1)):
            queue = self._runs.unpack(rows[0].key)[0]
            for minutes, before in (HOUR, DAY):
                slot = now // (minutes * _MINUTE) - before
                tr.clear_range(self._begin(queue, minutes, 0), self._begin(queue, minutes, slot))
            begin = self._runs[queue].range().stop


class _Read:
    """The counters of a queue in slots of one length, as far as they have been read.

    Attributes:
        queue: Its name.
        rows: The keys and values that were read, the newest slot first.
        is_whole: Whether nothing is left to read.
    """

    def __init__(self, queue: str, start: bytes, stop: bytes) -> None:
        self.queue = queue
        self.rows: list[tuple[bytes, bytes]] = []
        self.is_whole = False
        #: How long a key is without the path: slots of one length have keys of one length.
        self.at = len(start)
        self._start = start
        self._stop = stop
        self._begun: Any = ()
        self._limit = 0
        self._following = b""

    def begin(self, tr: Transaction, limit: int) -> _Read:
        """Begin to read more counters."""
        self._limit = limit
        self._begun = tr.snapshot.get_range(
            self._start, self._stop, limit=limit, reverse=True, streaming_mode=_WANT_ALL
        )
        return self

    def take(self) -> int:
        """Take what was begun to be read; return how many counters these are."""
        found = [(bytes(row.key), bytes(row.value)) for row in self._begun]
        self.rows += found
        self.is_whole = len(found) < self._limit
        if found:
            self._stop = found[-1][0]
        return len(found)

    def see_following(self) -> None:
        """See what comes after the counters that were read."""
        found = [bytes(row.key) for row in self._begun]
        self.is_whole = not found
        if found:
            self._following = found[0]

    def whole_from(self, runs: Subspace, current: int) -> int | None:
        """Drop the counters of a slot that was read in part; return the first slot that was not.

        Return None if all was read; and 0, dropping nothing, if no slot that is over was read
        whole.

        Args:
            runs: Where the counters are.
            current: The slot that is not over.
        """
        if self.is_whole:
            return None
        slot: int = runs.unpack(self._following)[2]
        if slot + 1 >= current:
            return 0
        in_part = self._following[: self.at]
        while self.rows and self.rows[-1][0].startswith(in_part):
            self.rows.pop()
        return slot + 1


class _Sums:
    """The sums of counters of slots of one length, and their queues, by the end of the key."""

    def __init__(self) -> None:
        self.sums: dict[bytes, int] = {}
        self.queues: dict[bytes, set[str]] = {}

    def add(self, read: _Read) -> None:
        """Add the counters of a queue."""
        for key, value in read.rows:
            if len(value) == _NUMBER.size:
                name = key[read.at :]
                self.sums[name] = self.sums.get(name, 0) + int.from_bytes(value, "little")
                self.queues.setdefault(name, set()).add(read.queue)


def first_wait(
    attempts: Any, pushed: datetime.datetime | None, run_after: datetime.datetime | None
) -> int | None:
    """Return for how many microseconds a task waited for its first attempt; None for another.

    Args:
        attempts: What is known of its attempts, :class:`fdbqueue.tasks.records.Attempts`.
        pushed: When its item was pushed.
        run_after: When it might run.
    """
    if attempts.latest is None or pushed is None or attempts.spared or len(attempts.workers) != 1:
        return None
    if run_after is not None and run_after.tzinfo is not None:
        pushed = max(pushed, run_after)
    return max(0, attempts.latest - microseconds(pushed))


def _bucket_of(duration: int) -> int:
    return min(max(0, duration.bit_length() - _FIRST_BITS), _BUCKETS - 1)


def _since(length: tuple[int, int], now: int) -> datetime.datetime:
    minutes, before = length
    return _begin_of(length, now // (minutes * _MINUTE) - before)


def _begin_of(length: tuple[int, int], slot: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(slot * length[0] * 60, datetime.timezone.utc)


def _figures(number: int) -> FunctionFigures:
    """Return what a sum of numbers says."""
    if not number:
        return FunctionFigures()
    data = number.to_bytes(_NUMBER.size + 8, "little")[: _NUMBER.size]
    fields = _NUMBER.unpack(data)
    buckets, waits = list(fields[:_BUCKETS]), list(fields[-_BUCKETS:])
    failures, took = fields[_BUCKETS:-_BUCKETS]
    runs, counted = sum(buckets), sum(waits)
    if not runs:
        return FunctionFigures()
    waited = _percentile(waits, 0.95 * counted) if counted else None
    percentile = _percentile(buckets, 0.95 * runs)
    return FunctionFigures(runs, failures, took / runs / _US, percentile, waited)


def _percentile(buckets: list[int], wanted: float) -> float:
    """Return the seconds that so many attempts took at most, as if evenly within a bucket."""
    begin = 0
    for number, count in enumerate(buckets):
        limit = 1 << _FIRST_BITS + number
        if count >= wanted > 0:
            return (begin + (limit - begin) * wanted / count) / _US
        wanted -= count
        begin = limit
    return begin / _US
