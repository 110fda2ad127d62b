"""The checks of ``queue_doctor``: what each looks at, what it says, and how it repairs."""

from __future__ import annotations

import contextlib
import functools
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

from fdbqueue import conf
from fdbqueue.engines.protocols import Database
from fdbqueue.exceptions import FdbQueueError, ItemNotFound, text_of_error
from fdbqueue.management.rendering import visible
from fdbqueue.service import Queue, receipts, run, strict_json
from fdbqueue.service.limits import MAX_ITEMS
from fdbqueue.service.receipts import place_of
from fdbqueue.service.tools import load
from fdbqueue.service.tools.census import MAX_OVERDUE, Examiner
from fdbqueue.service.transactions import error_code

OK, WARNING, ERROR = "ok", "warning", "error"

_STATUS_KEY = b"\xff\xff/status/json"
_STALE_SECONDS = 86_400
#: A read or a commit that takes longer is worth a look.
_SLOW_SECONDS = 1.0
_SHOWN_IDS = 5


@dataclass(frozen=True)
class Finding:
    """What a check has found.

    Attributes:
        check: The name of the check.
        queue: The queue it is about; None for all.
        status: ``"ok"``, ``"warning"`` or ``"error"``.
        detail: What it is.
        repair: Puts it right, and returns what that did, and whether nothing is left; None
            where nothing can.
        is_repaired: Whether that was done.
    """

    check: str
    queue: str | None
    status: str
    detail: str
    repair: Callable[[], tuple[str, bool]] | None = None
    is_repaired: bool = False

    def record(self) -> dict[str, Any]:
        """Return it for a line of JSON."""
        record = asdict(replace(self, repair=None))
        del record["repair"]
        return record

    def row(self) -> tuple[str, ...]:
        """Return it as a row of :data:`COLUMNS`."""
        status = "repaired" if self.is_repaired else self.status
        return status.upper(), self.check, self.queue or "-", visible(self.detail)

    def repaired(self) -> Finding:
        """Put it right, where that can be done."""
        if self.repair is None or self.status == OK:
            return self
        done, is_whole = self.repair()
        if not is_whole:
            return replace(self, detail=f"{self.detail}; {done}, and there is more")
        return replace(self, detail=f"{self.detail}; {done}", status=OK, is_repaired=True)


COLUMNS = ("STATUS", "CHECK", "QUEUE", "FOUND")


def check_settings() -> Iterator[Finding]:
    """Look at the setting, overlapping subspaces included; nothing is opened."""
    found = False
    for problem in conf.problems():
        found = True
        yield Finding("settings", None, ERROR, f"{problem.id}: {problem.message} {problem.hint}")
    if not found:
        yield Finding("settings", None, OK, "no subspaces overlap, and nothing else is wrong")


def check_engine(database: Database) -> Finding:
    """Read and commit once, and say who answered, and how fast.

    Raises:
        EngineError: It cannot be used.
        FDBError: It does not answer.
    """
    started = time.monotonic()
    run(database, lambda tr: tr.get_read_version().wait(), read_only=True)
    opened = time.monotonic()
    run(database, lambda tr: tr[b""].present(), read_only=True)
    read = time.monotonic()
    key = place_of(database).pack((b"doctor",))
    run(database, lambda tr: tr.set(key, b""), read_only=True)  # the same done twice
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


def check_receipts(database: Database) -> Finding:
    """Count the receipts of clients that are gone."""
    number = receipts.count_stale(database, older_than_seconds=_STALE_SECONDS)
    if not number:
        return Finding("receipts", None, OK, "none is older than a day")

    def sweep() -> tuple[str, bool]:
        return f"removed {receipts.sweep(database, older_than_seconds=_STALE_SECONDS):,}", True

    return Finding("receipts", None, WARNING, f"{number:,} are older than a day", sweep)


def check_queue(queue: Queue, readable: Queue, deadline: float) -> Iterator[Finding]:
    """Look at one queue.

    Args:
        queue: The queue, to be repaired.
        readable: The same, to be read in time.
        deadline: When to stop, by :func:`time.monotonic`.
    """
    yield _check_overdue(queue, readable)
    yield _check_holds(queue, readable)
    yield _check_pushes(queue, readable)
    census = Examiner(readable).census(deadline)
    looked = f"{sum(astuple(census.counts)):,} items looked at"
    if not census.is_whole:
        looked += ", then the time was over"
    status = OK if census.is_whole else ERROR
    if census.undecodable:
        shown = ", ".join(census.ids[:_SHOWN_IDS])
        text = f"{census.undecodable:,} cannot be decoded: {shown}; {looked}"
        yield Finding("items", queue.name, ERROR, text, functools.partial(_bury, queue, deadline))
    else:
        yield Finding("items", queue.name, status, f"all can be decoded; {looked}")
    if not census.is_whole:
        yield Finding("counts", queue.name, WARNING, "not compared: the time was over")
    elif not census.is_exact:
        yield Finding("counts", queue.name, WARNING, "not compared: others are at work on it")
    else:
        yield _compare(queue, readable, asdict(census.counts), dict(census.levels))


def _compare(
    queue: Queue, readable: Queue, found: dict[str, int], levels: dict[Any, int]
) -> Finding:
    counted = asdict(readable.counts())
    wrong = [
        f"{counted[state]:,} {state} where there are {number:,}"
        for state, number in found.items()
        if counted[state] != number
    ]
    if not wrong and queue.kind == "priority" and len(levels) < MAX_ITEMS:
        kept = dict(readable.by_priority(limit=MAX_ITEMS))
        if kept != {level: number for level, number in levels.items() if level is not None}:
            wrong = ["those by priority differ"]
    if not wrong:
        return Finding("counts", queue.name, OK, "they equal what is there")

    def recount() -> tuple[str, bool]:
        queue.recount()
        return "recounted", True

    return Finding("counts", queue.name, ERROR, f"they say {', '.join(wrong)}", recount)


def _check_overdue(queue: Queue, readable: Queue) -> Finding:
    overdue = Examiner(readable).overdue()
    if not overdue.total:
        return Finding("overdue", queue.name, OK, "nothing waits to be brought back")
    parts = [f"{number:,} {what}" for what, number in asdict(overdue).items() if number]
    least = "at least " if overdue.total >= MAX_OVERDUE else ""
    text = f"{least}{', '.join(parts)} wait for somebody to consume"

    def settle() -> tuple[str, bool]:
        examiner = Examiner(queue)
        return f"brought back {examiner.requeue_expired():,}", not examiner.overdue().total

    return Finding("overdue", queue.name, WARNING, text, settle)


def _check_holds(queue: Queue, readable: Queue) -> Finding:
    number = Examiner(readable).stale_holds()
    if not number:
        return Finding("drains", queue.name, OK, "none left anything behind")

    def forget() -> tuple[str, bool]:
        examiner = Examiner(queue)
        return f"forgot {examiner.stale_holds(forget=True):,}", not examiner.stale_holds()

    text = f"{number:,} were killed; what they held has gone back"
    return Finding("drains", queue.name, WARNING, text, forget)


def _check_pushes(queue: Queue, readable: Queue) -> Finding:
    found = load.recorded(readable, older_than_seconds=_STALE_SECONDS)
    if not found:
        return Finding("pushes", queue.name, OK, "none is on record for longer than a day")

    def forget() -> tuple[str, bool]:
        return f"forgot {load.sweep(queue, older_than_seconds=_STALE_SECONDS):,}", True

    text = f"{len(found):,} are on record for longer than a day"
    return Finding("pushes", queue.name, WARNING, text, forget)


def _bury(queue: Queue, deadline: float) -> tuple[str, bool]:
    """Move what cannot be decoded to the dead letters."""
    buried = 0
    while (census := Examiner(queue).census(deadline)).ids:
        for item_id in census.ids:
            with contextlib.suppress(ItemNotFound):
                queue.bury(item_id, reason="undecodable")
                buried += 1
    return f"moved {buried:,} to the dead letters", census.is_whole


def _version(database: Database) -> str:
    """Return what the engine is: a cluster tells, the embedded one is SQLite."""
    transaction = database.create_transaction()
    try:
        status = strict_json.decoder().decode(bytes(transaction[_STATUS_KEY]).decode())
        processes = status["cluster"]["processes"].values()
        versions = sorted({process["version"] for process in processes})
    except Exception as error:
        if error_code(error) is None and not isinstance(error, KeyError | ValueError):
            raise
        return f"SQLite {sqlite3.sqlite_version}"
    return f"FoundationDB {', '.join(versions)} of {len(processes)} processes"


def _ms(seconds: float) -> str:
    return f"{seconds * 1_000:.1f} ms"


def unfinished(error: BaseException, check: str, queue: str | None) -> Finding:
    """Return that a check could not be done."""
    text = str(error) if isinstance(error, FdbQueueError) else text_of_error(error)
    return Finding(check, queue, ERROR, text)
