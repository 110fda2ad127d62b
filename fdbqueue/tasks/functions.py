"""How often each task function ran, how often it failed, and how long it took: counters.

Each end of an attempt adds to two numbers, in the transaction that commits it, and reads nothing:

    ("runs", queue, minutes, slot, path)     beside what :mod:`fdbqueue.tasks.records` has

A *slot* is 20 minutes, or 240, since 1970: ``minutes`` says which, ``slot`` the number of it. The
slot is that in which the attempt ended. A number has fields of little-endian bytes: how many
attempts took less than a millisecond (1,024 microseconds), less than twice that and not less than
that, and so on in 28 buckets, the last for all that took 19 hours and more; how many of all failed;
and how many microseconds all took together.

So the last hour is at least three slots of 20 minutes that are over and the one that is not, and
the last day six of 240 and one: figures are *since* a moment, which is said with them. A percentile
is known as well as its bucket: it is wrong by a factor of less than two.

What is not counted: an attempt whose worker died, and what was aborted before it began. A function
that the workers do not know is counted under no name. Workers clear the slots that are over for a
day when they prune (:mod:`fdbqueue.tasks.housekeeping`).
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Iterable
from typing import NamedTuple

from fdb.subspace_impl import Subspace

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service.tuples import packed

#: The lengths of slots in minutes, and how many of them are shown besides the one that is not over.
HOUR, DAY = (20, 3), (240, 6)
_BUCKETS = 28
#: Attempts of fewer microseconds are in the first bucket; a bucket's limit has one bit more.
_FIRST_BITS = 10
_NUMBER = struct.Struct(f"<{_BUCKETS + 1}IQ")
#: Where the fields are that are no buckets, in bits.
_FAILURES_AT, _TIME_AT = 32 * _BUCKETS, 32 * (_BUCKETS + 1)
_US = 1_000_000
_MINUTE = 60 * _US
#: Behind all slots there are.
_LAST_SLOT = 2**62
#: So many functions keep their keys; others make them each time.
_MOST_KEPT = 1_000


class FunctionFigures(NamedTuple):
    """What attempts at a function did in some time.

    Attributes:
        runs: How many attempts have ended.
        failures: How many of them have failed.
        mean: How long an attempt took, in seconds; None if there was none.
        percentile: How long 95 of 100 took at most, by the buckets; likewise.
    """

    runs: int = 0
    failures: int = 0
    mean: float | None = None
    percentile: float | None = None


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


class FunctionRows(NamedTuple):
    """What was read.

    Attributes:
        rows: The functions, by their paths.
        hour_since, day_since: Since when the figures are.
        is_all: Whether nothing was left out: else the oldest of it was.
    """

    rows: list[FunctionRow]
    hour_since: datetime.datetime
    day_since: datetime.datetime
    is_all: bool


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
        self, tr: Transaction, queue: str, path: str, ended: int, began: int | None, *, failed: bool
    ) -> None:
        """Count an attempt; reads nothing.

        Args:
            tr: The transaction.
            queue: The queue that the task was in.
            path: The function's; empty if there is none.
            ended: When it ended, in microseconds since 1970.
            began: When it began; None if that is not known, which counts as no time.
            failed: Whether it failed.
        """
        took = max(0, ended - began) if began else 0
        bucket = min(max(0, took.bit_length() - _FIRST_BITS), _BUCKETS - 1)
        number = (1 << 32 * bucket) + (failed << _FAILURES_AT) + (took << _TIME_AT)
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
        if len(self._keys) >= _MOST_KEPT:
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
            most: How many counters to read of each length of slots; the newest are read.
        """
        names = list(queues)
        of_hour = self._read(tr, names, HOUR, now, most)
        of_day = self._read(tr, names, DAY, now, most)
        paths = sorted(of_hour.sums.keys() | of_day.sums.keys())
        rows = []
        for name in paths:
            path: str = self._runs.unpack(self._key + name)[0]
            sums, days = of_hour.sums.get(name, 0), of_day.sums.get(name, 0)
            found = sorted(of_hour.queues.get(name, set()) | of_day.queues.get(name, set()))
            rows.append(FunctionRow(path, tuple(found), _figures(sums), _figures(days)))
        is_all = of_hour.is_all and of_day.is_all
        return FunctionRows(rows, _since(HOUR, now), _since(DAY, now), is_all)

    def _read(
        self, tr: Transaction, queues: list[str], length: tuple[int, int], now: int, most: int
    ) -> _Sums:
        minutes, before = length
        slot = now // (minutes * _MINUTE)
        begun = []
        for queue in queues:
            begin = self._begin(queue, minutes, slot - before)
            end = self._begin(queue, minutes, _LAST_SLOT)
            rows = tr.snapshot.get_range(begin, end, limit=most, reverse=True)
            begun.append((queue, len(begin), rows))
        found = _Sums({}, {}, is_all=True)
        left = most
        for queue, at, rows in begun:
            if left <= 0:
                return found._replace(is_all=False)
            count = 0
            for row in rows:
                count += 1
                if count > left:
                    break
                if len(row.value) == _NUMBER.size:
                    name = row.key[at:]  # slots of one length have keys of one length
                    sums = found.sums
                    sums[name] = sums.get(name, 0) + int.from_bytes(row.value, "little")
                    found.queues.setdefault(name, set()).add(queue)
            left -= count
            if left <= 0:
                found = found._replace(is_all=False)
        return found

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


class _Sums(NamedTuple):
    """What was read of slots of one length: by the end of the key the sum, and the queues."""

    sums: dict[bytes, int]
    queues: dict[bytes, set[str]]
    is_all: bool


def _since(length: tuple[int, int], now: int) -> datetime.datetime:
    minutes, before = length
    slot = now // (minutes * _MINUTE) - before
    return datetime.datetime.fromtimestamp(slot * minutes * 60, datetime.timezone.utc)


def _figures(number: int) -> FunctionFigures:
    """Return what a sum of numbers says."""
    if not number:
        return FunctionFigures()
    data = number.to_bytes(_NUMBER.size + 8, "little")[: _NUMBER.size]
    *buckets, failures, took = _NUMBER.unpack(data)
    runs = sum(buckets)
    if not runs:
        return FunctionFigures()
    return FunctionFigures(runs, failures, took / runs / _US, _percentile(buckets, 0.95 * runs))


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
