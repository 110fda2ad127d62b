"""What ``queue_doctor`` finds, and its checks: first of what is no single queue's, then of a queue.

The first are the setting, the engine, receipts of processes that have ended, queues that are stored
but are not in the setting, and which queue is the busiest. Those of a queue are its format, pause,
row in the index of its family, the concerns that the list of queues names, overdue items, items and
counts.

The function or the method that makes a check has its name. To check one more thing of a queue,
write a method like :meth:`QueueChecks._check_pause`, and a line in :meth:`QueueChecks.findings`.
"""

from __future__ import annotations

import contextlib
import itertools
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

from fdbqueue import conf
from fdbqueue.columns.attention import CONCERN_READS, PAUSED, concerns_of
from fdbqueue.columns.queue_rows import (
    QueueRow,
    begin_counts,
    begin_pauses,
    begin_rates,
    read_rows,
)
from fdbqueue.columns.queues import paused_since
from fdbqueue.columns.text import counted
from fdbqueue.exceptions import FormatMismatch, ItemNotFound, LayoutMismatch
from fdbqueue.management.formats import item_count
from fdbqueue.service import MAX_ITEMS_A_CALL, Catalog, Pause, Queue, error_code, run, strict_json
from fdbqueue.service.tools import examination
from fdbqueue.service.tools.examination import (
    STALE_SECONDS,
    Census,
    Examiner,
    count_stale,
    sweep,
)
from fdbqueue.service.transactions import receipts_of
from fdbqueue.steady import monotonic

OK, WARNING, ERROR = "ok", "warning", "error"

_STATUS_KEY = b"\xff\xff/status/json"
#: A read or a commit that takes longer is a warning.
_SLOW_SECONDS = 1.0
_SHOWN_NAMES, _SHOWN_IDS = 10, 5
#: What is suggested if --timeout was too short for a queue.
LONGER_SECONDS = 300
#: If so much of the embedded engine's file is free, and so many bytes, it may be made smaller.
_MUCH_FREE, _MUCH_FREE_BYTES = 0.5, 100_000_000
#: If its disk has less than these bytes, or this share, free, it is soon full.
_LOW_BYTES, _LOW_SHARE = 500_000_000, 0.05
#: The doctor reads the load of at most so many queues.
MAX_LOADS = 500
#: A recount while others push and pop is exact if so many items of a priority are read at once.
_COUNTED_IN_USE = 50_000
#: How many transactions a second one queue carries on a cluster, with one head and with shards, as
#: docs/scaling.md counts; a queue that does three quarters of that is near it. The history counts
#: items, and a transaction takes one or many: so it is near it only if each takes one.
HEAD_CARRIES, SHARDS_CARRY = 400, 5_000
_NEAR = 0.75


#: Repairs something, and returns what it did and whether it did all.
Repair = Callable[[], tuple[str, bool]]


@dataclass(frozen=True)
class Finding:
    """The result of a check.

    Attributes:
        check: The name of the check.
        queue: The queue it is about; None for all.
        status: ``"ok"``, ``"warning"`` or ``"error"``.
        detail: What was found.
        repair: Repairs it; None if that is not possible.
        is_repaired: Whether it has been repaired.
        remedy: The command that helps, without ``manage.py``; None if none does.
    """

    check: str
    queue: str | None
    status: str
    detail: str
    repair: Repair | None = None
    is_repaired: bool = False
    remedy: str | None = None

    @property
    def can_be_repaired(self) -> bool:
        """Whether something is wrong that --repair changes, and not only removes in passing."""
        return self.repair is not None and self.status != OK

    def record(self) -> dict[str, Any]:
        """Return the object for a line of JSON."""
        record = asdict(replace(self, repair=None))
        del record["repair"]
        return record

    def repaired(self) -> Finding:
        """Repair it if possible, and return the result."""
        if self.repair is None:
            return self
        done, is_whole = self.repair()
        if not is_whole:
            return replace(self, detail=f"{self.detail}; {done}, and some are left")
        text = f"{self.detail}; {done}"
        return replace(self, detail=text, status=OK, is_repaired=True, remedy=None)


def check_settings() -> Iterator[Finding]:
    """Check the setting, overlapping subspaces included, without opening the engine."""
    found = False
    for problem in conf.problems():
        found = True
        yield Finding("settings", None, ERROR, f"{problem.id}: {problem.message} {problem.hint}")
    if not found:
        yield Finding("settings", None, OK, "valid, and no subspaces overlap")


def check_engine(database: Any) -> Finding:
    """Read and commit once, and report the engine's version and speed.

    Raises:
        EngineError: It cannot be used.
        FDBError: It does not respond.
    """
    started = monotonic()
    run(database, lambda tr: tr.get_read_version().wait(), read_only=True)
    opened = monotonic()
    run(database, lambda tr: tr[b""].present(), read_only=True)
    read = monotonic()
    key = receipts_of(database).pack((b"doctor",))
    run(database, lambda tr: tr.set(key, b""), wrote=lambda _: False)  # harmless twice
    committed = monotonic()
    run(database, lambda tr: tr.clear(key), read_only=True)
    slow = max(read - opened, committed - read) > _SLOW_SECONDS
    return Finding(
        "engine",
        None,
        WARNING if slow else OK,
        f"{_engine_version(database)}; opened in {_ms(opened - started)}, a read took "
        f"{_ms(read - opened)}, a commit {_ms(committed - read)}",
    )


def check_file(database: Any) -> Iterator[Finding]:
    """Tell how much of the embedded engine's file is free; other engines have none."""
    if not is_file(database):
        return
    database = conf.innermost(database)
    size, free = database.file_sizes()
    text = f"{size / 1_000_000:,.1f} MB, of which {free / size:.0%} are unused and are filled first"
    if free < _MUCH_FREE_BYTES or free < _MUCH_FREE * size:
        yield Finding("file", None, OK, text)
        return
    vacuum = f"import sqlite3; sqlite3.connect({database.path!r}).execute('VACUUM')"
    text += (
        "; the file does not shrink by itself. To make it smaller, stop all processes that use it, "
        f"and run: python -c {shlex.quote(vacuum)}"
    )
    yield Finding("file", None, WARNING, text)


def check_disk(database: Any) -> Iterator[Finding]:
    """Tell how much room the disk of the embedded engine's file has; other engines have none."""
    if not is_file(database):
        return
    disk = conf.innermost(database).disk_space()
    text = f"{disk}, {disk.free / disk.total:.0%} of it"
    if disk.free >= max(_LOW_BYTES, _LOW_SHARE * disk.total):
        yield Finding("disk", None, OK, text)
        return
    text = f"{disk.full if disk.is_full else text}. Make room: pushes fail on a full disk"
    yield Finding("disk", None, WARNING, text)


def is_file(database: Any) -> bool:
    """Tell whether the embedded engine keeps a database in a file."""
    return hasattr(conf.innermost(database), "file_sizes")


def check_receipts(database: Any) -> Finding:
    """Count the receipts of clients that have ended."""
    number = count_stale(database, older_than_seconds=STALE_SECONDS)
    if not number:
        return Finding("receipts", None, OK, "no receipt is older than a day")

    def repair() -> tuple[str, bool]:
        return f"removed {sweep(database, older_than_seconds=STALE_SECONDS):,}", True

    text = f"{counted(number, 'receipt')} older than a day"
    return Finding("receipts", None, WARNING, text, repair, remedy="queue_doctor --repair")


def check_responses(catalog: Catalog, readable: Catalog) -> Finding:
    """Count the saved responses that expired an hour ago, which calls with keys remove by and by.

    Those of all queues, also of a pattern's that were never pushed to, and of calls on families.
    """
    queues = map(readable.queue, readable.each_name(with_responses=True))
    responses = (queue.parts.responses for queue in queues)
    number = sum(
        run(readable.database, some.count_expired, read_only=True)
        for some in itertools.chain(responses, [readable.responses])
    )
    if not number:
        return Finding("responses", None, OK, "no saved response expired over an hour ago")

    def repair() -> tuple[str, bool]:
        queues = map(catalog.queue, catalog.each_name(with_responses=True))
        return f"removed {sum(queue.sweep() for queue in queues) + catalog.sweep():,}", True

    text = f"{counted(number, 'saved response')} expired over an hour ago"
    return Finding("responses", None, OK, text, repair)


def check_names(catalog: Catalog) -> Finding:
    """Look for queues that are stored, and that the setting has no more."""
    names = list(itertools.islice(catalog.unknown_names(), _SHOWN_NAMES + 1))
    if not names:
        return Finding("names", None, OK, "every queue that is stored is in the setting")
    shown = ", ".join(names[:_SHOWN_NAMES]) + (", and others" if names[_SHOWN_NAMES:] else "")
    text = (
        f"stored, but not in the setting: {shown}; no command reaches them until QUEUES has the "
        "name or a pattern that fits; then queue_doctor --repair indexes them and queue_move "
        "moves them"
    )
    return Finding("names", None, WARNING, text)


def check_load(catalog: Catalog, names: Iterable[str], *, on_cluster: bool) -> Finding:
    """Name the busiest queue, and what limits it.

    Reads the history of the last minutes and the counts of at most 500 queues.
    """
    queues = map(catalog.queue, itertools.islice(names, MAX_LOADS))
    rows = list(read_rows(catalog.database, queues, (begin_rates, begin_counts)))
    row = max(rows, key=lambda one: one.pushes + one.pops, default=None)
    looked = counted(len(rows), "queue") + " looked at"
    if row is None or not row.pushes + row.pops:
        return Finding("load", None, OK, f"nothing was pushed or popped in 5 minutes; {looked}")
    text = (
        f"busiest: {row.queue.name}, {row.pushes:,.1f} pushes and {row.pops:,.1f} pops a minute "
        f"(mean of 5 minutes); {looked}"
    )
    if not on_cluster:
        return Finding("load", None, OK, text)
    has_shards = row.queue.options.shards is not None
    most, rate = HEAD_CARRIES, max(row.pushes, row.pops)
    if has_shards:
        most, rate = SHARDS_CARRY, row.pushes + row.pops
    share, kind = rate / 60 / most, "with" if has_shards else "without"
    text += (
        f"; a queue {kind} shards carries about {most:,} transactions a second, of which this is "
        f"{share:.0%} if each has one item"
    )
    if share < _NEAR or row.counts.ready <= row.pops or row.pushes <= row.pops:
        return Finding("load", None, OK, text)
    more = (
        "more threads in a process, or pop_many" if has_shards else "pop_many, threads, or shards"
    )
    text = f"{text}. Its ready items grow: take more at a time ({more}), or start more workers"
    return Finding("load", row.queue.name, WARNING, text)


def _engine_version(database: Any) -> str:
    """Return the engine's version: a cluster has a status, the embedded engine is SQLite."""
    transaction = database.create_transaction()
    try:
        status = strict_json().decode(bytes(transaction[_STATUS_KEY]).decode())
        processes = status["cluster"]["processes"].values()
        versions = sorted({process["version"] for process in processes})
    except Exception as error:
        if error_code(error) is None and not isinstance(error, KeyError | ValueError):
            raise
        from sqlite3 import sqlite_version  # not every Python has it

        return f"SQLite {sqlite_version}"
    return f"FoundationDB {', '.join(versions)}, server processes: {len(processes)}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1_000:.1f} ms"


# One queue


class QueueChecks:
    """The checks of a queue.

    Args:
        queue: The queue, for repairs.
        readable: The same queue, for reads that end with the deadline.
        deadline: When to stop, by the monotonic clock.
    """

    def __init__(self, queue: Queue, readable: Queue, deadline: float) -> None:
        self._queue = queue
        self._readable = readable
        self._examiner = Examiner(readable)
        self._deadline = deadline

    def findings(self) -> Iterator[Finding]:
        """Check one thing after the other."""
        written, queue = self._check_format(), self._readable
        yield written
        reads = (begin_pauses,) if written.status == ERROR else CONCERN_READS
        (row,) = read_rows(queue.database, [queue], reads)
        yield self._check_pause(row)
        if written.status == ERROR:  # the rest would read the items under the wrong settings
            return
        yield from self._check_family()
        yield from self._check_attention(row)
        yield self._check_overdue(row.pause)
        census = self._examiner.census(self._deadline)
        # both before a repair changes what was counted
        yield from [self._check_items(census), self._check_counts(census)]

    def _finding(
        self, check: str, status: str, text: str, repair: Repair | None = None, remedy: str = ""
    ) -> Finding:
        """Return a finding; what can be repaired is, by ``--repair``."""
        helps = remedy or (self._command("--repair") if repair else None)
        return Finding(check, self._queue.name, status, text, repair, remedy=helps)

    def _command(self, option: str) -> str:
        return f"queue_doctor {shlex.quote(self._queue.name)} {option}"

    def _check_format(self) -> Finding:
        adopt = self._command("--adopt-settings")
        try:
            stored = self._examiner.stored_format()
        except LayoutMismatch as error:
            return self._finding("format", ERROR, str(error))
        except FormatMismatch as error:
            text = (
                f"written under {error.context['written']}, but the setting here says "
                f"{error.context['here']}: nothing is read or written from here. Correct the "
                "setting. If it was changed on purpose, stop all processes that have the former "
                f"one, then run {adopt}"
            )
            return self._finding("format", ERROR, text)
        if strays := self._examiner.strays():
            least = "at least " if strays >= examination.MAX_STRAYS else ""
            text = (
                f"{least}{item_count(strays)} in shards that the setting here leaves out: no pop "
                "finds them, or pops take the same ones again and again"
            )
            return self._finding("format", ERROR, text, remedy=adopt)
        if stored is None:
            return self._finding("format", OK, "nothing is stored yet")
        return self._finding("format", OK, f"as the setting says; stored: {stored}")

    def _check_pause(self, row: QueueRow) -> Finding:
        if row.pause is None:
            return self._finding("pause", OK, "the queue is not paused")
        text = f"{PAUSED.meaning} It is {paused_since(row.pause)}"
        return self._finding("pause", WARNING, text, remedy=PAUSED.remedy(row))

    def _check_family(self) -> Iterator[Finding]:
        is_indexed = self._examiner.is_indexed()
        if is_indexed:
            yield self._finding("family", OK, "takes from its family find it")
        if is_indexed is not False:
            return

        def write() -> tuple[str, bool]:
            Examiner(self._queue).write_index()
            return "written", True

        text = "its row in the index is missing: takes from its family do not find its items"
        yield self._finding("family", ERROR, text, write)

    def _check_attention(self, row: QueueRow) -> Iterator[Finding]:
        """Say what the list of queues says, but for what other checks say."""
        found = [one for one in concerns_of(row) if not one.is_checked]
        for one in found:
            yield self._finding("attention", WARNING, one.text(row), remedy=one.remedy(row))
        if not found:
            yield self._finding("attention", OK, "no item waits too long, and none is dead")

    def _check_overdue(self, pause: Pause | None) -> Finding:
        overdue = self._examiner.overdue()
        if not overdue.total:
            return self._finding("overdue", OK, "no lease or delay has expired")
        numbers = {kind[:-1]: number for kind, number in asdict(overdue).items() if number}
        parts = ", ".join(counted(number, kind) for kind, number in numbers.items())
        least = "at least " if overdue.total >= examination.MAX_OVERDUE else ""
        resumed = "once the queue is resumed, " if pause else ""
        text = f"expired: {least}{parts}; {resumed}the next pop or lease requeues the items"

        def requeue() -> tuple[str, bool]:
            examiner = Examiner(self._queue)
            return f"requeued {examiner.requeue_expired():,}", not examiner.overdue().total

        return self._finding("overdue", WARNING, text, requeue)

    def _check_items(self, census: Census) -> Finding:
        looked = f"{item_count(sum(astuple(census.counts)))} checked"
        if not census.is_whole:
            looked += ", then --timeout ended"
        if not census.undecodable:
            status, remedy = OK, ""
            if not census.is_whole:
                status, remedy = ERROR, self._command(f"--timeout {LONGER_SECONDS}")
            return self._finding("items", status, f"all can be decoded; {looked}", remedy=remedy)
        shown = ", ".join(census.ids[:_SHOWN_IDS])
        text = f"{census.undecodable:,} cannot be decoded: {shown}; {looked}"
        if census.undecodable < census.counts.ready:
            return self._finding("items", ERROR, text, self._bury)
        text += (
            ". Was it written under other settings (kind, codec, priority type)? No ready item can "
            "be decoded, so --repair buries none; queue_bury does"
        )
        return self._finding("items", ERROR, text)

    def _bury(self) -> tuple[str, bool]:
        """Move the items that cannot be decoded to the dead letters."""
        buried = 0
        while (census := Examiner(self._queue).census(self._deadline)).ids:
            for item_id in census.ids:
                with contextlib.suppress(ItemNotFound):
                    self._queue.bury(item_id, reason="undecodable")
                    buried += 1
        return f"moved {buried:,} to the dead letters", census.is_whole

    def _check_counts(self, census: Census) -> Finding:
        if not census.is_whole:
            return self._finding("counts", WARNING, "not compared within --timeout")

        def recount() -> tuple[str, bool]:
            self._queue.recount()
            return "recounted", True

        if not census.is_exact:
            text = "not compared, because other clients are using the queue"
            longest = max(census.levels.values(), default=0)
            repair = recount if longest <= _COUNTED_IN_USE else None
            return self._finding("counts", WARNING, text, repair)
        wrong = self._wrong_counts(asdict(census.counts), dict(census.levels))
        if not wrong:
            return self._finding("counts", OK, "the counts are correct")
        return self._finding("counts", ERROR, wrong, recount)

    def _wrong_counts(self, found: dict[str, int], levels: dict[Any, int]) -> str:
        """Return which counts are not those of the items; empty if all are."""
        queue, stored = self._readable, asdict(self._readable.counts())
        wrong = [
            f"the counts say {stored[state]:,} {state}, but there are {number:,}"
            for state, number in found.items()
            if stored[state] != number
        ]
        if wrong:
            return "; ".join(wrong)
        if queue.priority_type and len(levels) < MAX_ITEMS_A_CALL:
            kept = dict(queue.by_priority(limit=MAX_ITEMS_A_CALL))
            if kept != {level: number for level, number in levels.items() if level is not None}:
                return "the counts by priority differ"
        reasons = queue.dead_by_reason(limit=MAX_ITEMS_A_CALL)
        number = sum(one.count for one in reasons)
        if number != found["dead"] and len(reasons) < MAX_ITEMS_A_CALL:
            return f"the counts by reason say {number:,} dead, but there are {found['dead']:,}"
        return ""
