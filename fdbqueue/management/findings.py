"""What ``queue_doctor`` finds, and its checks of what is no single queue's.

These are the setting, the engine, receipts of processes that have ended, queues that are stored
but are not in the setting, which queue is the busiest, and which are at a limit of their own.
"""

from __future__ import annotations

import functools
import itertools
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from fdbqueue import conf
from fdbqueue.columns.queues import (
    QueueRow,
    begin_counts,
    begin_held,
    begin_pauses,
    begin_rates,
    fill,
)
from fdbqueue.columns.text import counted
from fdbqueue.service import Catalog, error_code, run, strict_json
from fdbqueue.service.tools.examination import count_stale, sweep
from fdbqueue.service.transactions import receipts_of

OK, WARNING, ERROR = "ok", "warning", "error"
#: Receipts, and records of pushes, are given up once they are so old.
STALE_SECONDS = 86_400

_STATUS_KEY = b"\xff\xff/status/json"
#: A read or a commit that takes longer is a warning.
_SLOW_SECONDS = 1.0
_SHOWN_NAMES = 10
#: If so much of the embedded engine's file is free, and so many bytes, it may be made smaller.
_MUCH_FREE, _MUCH_FREE_BYTES = 0.5, 100_000_000
#: The load of at most so many queues is read, so many in one transaction.
MAX_LOADS, _LOADS_AT_ONCE = 500, 50
#: How many transactions a second one queue carries on a cluster, with one head and with shards, as
#: docs/scaling.md counts; a queue that does three quarters of that is near it.
HEAD_CARRIES, SHARDS_CARRY = 400, 5_000
_NEAR = 0.75


@dataclass(frozen=True)
class Finding:
    """The result of a check.

    Attributes:
        check: The name of the check.
        queue: The queue it is about; None for all.
        status: ``"ok"``, ``"warning"`` or ``"error"``.
        detail: What was found.
        repair: Repairs it, and returns what it did and whether it did all; None if that is
            not possible.
        is_repaired: Whether it has been repaired.
        remedy: The command that helps, without ``manage.py``; None if none does.
    """

    check: str
    queue: str | None
    status: str
    detail: str
    repair: Callable[[], tuple[str, bool]] | None = None
    is_repaired: bool = False
    remedy: str | None = None

    @property
    def can_be_repaired(self) -> bool:
        """Whether something is wrong that --repair changes."""
        return self.repair is not None and self.status != OK

    def record(self) -> dict[str, Any]:
        """Return the object for a line of JSON."""
        record = asdict(replace(self, repair=None))
        del record["repair"]
        return record

    def repaired(self) -> Finding:
        """Repair it if possible, and return the result."""
        if self.repair is None or not self.can_be_repaired:
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
    started = time.monotonic()
    run(database, lambda tr: tr.get_read_version().wait(), read_only=True)
    opened = time.monotonic()
    run(database, lambda tr: tr[b""].present(), read_only=True)
    read = time.monotonic()
    key = receipts_of(database).pack((b"doctor",))
    run(database, lambda tr: tr.set(key, b""), wrote=lambda _: False)  # harmless twice
    committed = time.monotonic()
    run(database, lambda tr: tr.clear(key), read_only=True)
    slow = max(read - opened, committed - read) > _SLOW_SECONDS
    return Finding(
        "engine",
        None,
        WARNING if slow else OK,
        f"{_version(database)}; opened in {_ms(opened - started)}, a read took "
        f"{_ms(read - opened)}, a commit {_ms(committed - read)}",
    )


def check_file(database: Any) -> Iterator[Finding]:
    """Tell how much of the embedded engine's file is free; other engines have none."""
    database = conf.innermost(database)
    if not hasattr(database, "file_sizes"):
        return
    size, free = database.file_sizes()
    text = f"{free / size:.0%} of {size / 1_000_000:,.1f} MB is free, for items to come"
    if free < _MUCH_FREE_BYTES or free < _MUCH_FREE * size:
        yield Finding("file", None, OK, text)
        return
    vacuum = f"import sqlite3; sqlite3.connect({database.path!r}).execute('VACUUM')"
    text += (
        "; the file does not shrink by itself. To make it smaller, stop all processes that use it, "
        f"and run: python -c {shlex.quote(vacuum)}"
    )
    yield Finding("file", None, WARNING, text)


def check_receipts(database: Any) -> Finding:
    """Count the receipts of clients that have ended."""
    number = count_stale(database, older_than_seconds=STALE_SECONDS)
    if not number:
        return Finding("receipts", None, OK, "no receipt is older than a day")

    def repair() -> tuple[str, bool]:
        return f"removed {sweep(database, older_than_seconds=STALE_SECONDS):,}", True

    text = f"{counted(number, 'receipt')} older than a day"
    return Finding("receipts", None, WARNING, text, repair, remedy="queue_doctor --sweep")


def check_names(catalog: Catalog) -> Finding:
    """Look for queues that are stored, and that the setting has no more."""
    names = list(itertools.islice(catalog.unknown_names(), _SHOWN_NAMES + 1))
    if not names:
        return Finding("names", None, OK, "every queue that is stored is in the setting")
    shown = ", ".join(names[:_SHOWN_NAMES]) + (", and others" if names[_SHOWN_NAMES:] else "")
    text = (
        f"stored, but not in the setting: {shown}; no command reaches them until QUEUES has the "
        "name or a pattern that fits; then queue_doctor --recount indexes them and queue_move "
        "moves them"
    )
    return Finding("names", None, WARNING, text)


def check_load(catalog: Catalog) -> Iterator[Finding]:
    """Name the busiest queue, and what limits it; and the queues that their own limits hold.

    Reads the history of the last minutes, the counts and the limits of at most 500 queues.
    """
    names = catalog.names(limit=MAX_LOADS)
    rows = [QueueRow(catalog.queue(name)) for name in names]
    reads = (begin_rates, begin_counts, begin_held, begin_pauses)
    for start in range(0, len(rows), _LOADS_AT_ONCE):
        some = rows[start : start + _LOADS_AT_ONCE]
        read = functools.partial(fill, reads=[(one, some) for one in reads])
        run(catalog.database, read, read_only=True)
    yield _busiest(rows)
    yield _held(rows)


def _busiest(rows: list[QueueRow]) -> Finding:
    row = max(rows, key=lambda one: one.pushes + one.pops, default=None)
    looked = counted(len(rows), "queue") + " looked at"
    if row is None or not row.pushes + row.pops:
        return Finding("load", None, OK, f"nothing was pushed or popped in 5 minutes; {looked}")
    has_shards = row.queue.options.shards is not None
    most, place, rate = SHARDS_CARRY, "its counts let", row.pushes + row.pops
    if not has_shards:
        most, place, rate = HEAD_CARRIES, "its head lets", max(row.pushes, row.pops)
    share = rate / 60 / most
    text = (
        f"the busiest queue is {row.queue.name}: {row.pushes:,.1f} pushes and {row.pops:,.1f} pops "
        f"a minute over 5 minutes, {share:.0%} of the {most:,} transactions a second that {place} "
        f"through on a cluster, if each has one item; {looked}"
    )
    if share < _NEAR or row.counts.ready <= row.pops or row.pushes <= row.pops:
        return Finding("load", None, OK, text)
    more = (
        "more threads in a process, or pop_many" if has_shards else "pop_many, threads, or shards"
    )
    text = f"{text}. Its ready items grow: take more at a time ({more})"
    return Finding("load", row.queue.name, WARNING, text)


def _held(rows: list[QueueRow]) -> Finding:
    held = [one for one in rows if one.held and one.counts.ready > 0 and one.pause is None]
    if not held:
        return Finding("limits", None, OK, "no queue is held by its max_leased or its rate")
    shown = [
        f"{one.queue.name} ({one.held} {getattr(one.queue.options, one.held)})"
        for one in held[:_SHOWN_NAMES]
    ]
    more = ", and others" if held[_SHOWN_NAMES:] else ""
    text = f"items wait because of the limit of their queue: {', '.join(shown)}{more}"
    return Finding("limits", None, WARNING, text)


def _version(database: Any) -> str:
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
    return f"FoundationDB {', '.join(versions)} of {len(processes)} processes"


def _ms(seconds: float) -> str:
    return f"{seconds * 1_000:.1f} ms"
