"""The checks of ``queue_doctor``: what each looks for, what it reports, and how it repairs."""

from __future__ import annotations

import contextlib
import functools
import shlex
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

from fdbqueue import conf
from fdbqueue.exceptions import FdbQueueError, ItemNotFound, text_of_error
from fdbqueue.management import pauses
from fdbqueue.management.formats import counted, item_count
from fdbqueue.service import MAX_ITEMS, Pause, Queue, error_code, run, strict_json
from fdbqueue.service.receipts import place_of
from fdbqueue.service.tools import census, load
from fdbqueue.service.tools.census import Examiner
from fdbqueue.service.tools.sweep import count_stale, sweep

OK, WARNING, ERROR = "ok", "warning", "error"

_STATUS_KEY = b"\xff\xff/status/json"
_STALE_SECONDS = 86_400
#: A read or a commit that takes longer is a warning.
_SLOW_SECONDS = 1.0
_SHOWN_IDS = 5
#: What is suggested where --timeout was too short for a queue.
_LONGER_SECONDS = 300


@dataclass(frozen=True)
class Finding:
    """The result of a check.

    Attributes:
        check: The name of the check.
        queue: The queue it is about; None for all.
        status: ``"ok"``, ``"warning"`` or ``"error"``.
        detail: What was found.
        repair: Repairs it, and returns what it did and whether it did all; None where that is
            not possible.
        is_repaired: Whether it has been repaired.
        remedy: The command that helps, without ``manage.py``; None where none does.
    """

    check: str
    queue: str | None
    status: str
    detail: str
    repair: Callable[[], tuple[str, bool]] | None = None
    is_repaired: bool = False
    remedy: str | None = None

    def record(self) -> dict[str, Any]:
        """Return the object for a line of JSON."""
        record = asdict(replace(self, repair=None))
        del record["repair"]
        return record

    def repaired(self) -> Finding:
        """Repair it if possible, and return the result."""
        if self.repair is None or self.status == OK:
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
    key = place_of(database).pack((b"doctor",))
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


def check_receipts(database: Any) -> Finding:
    """Count the receipts of clients that have ended."""
    number = count_stale(database, older_than_seconds=_STALE_SECONDS)
    if not number:
        return Finding("receipts", None, OK, "no receipt is older than a day")

    def repair() -> tuple[str, bool]:
        return f"removed {sweep(database, older_than_seconds=_STALE_SECONDS):,}", True

    text = f"{counted(number, 'receipt')} older than a day"
    return Finding("receipts", None, WARNING, text, repair, remedy="queue_sweep")


def check_queue(queue: Queue, readable: Queue, deadline: float) -> Iterator[Finding]:
    """Check one queue.

    Args:
        queue: The queue, for repairs.
        readable: The same queue, for reads that end with the deadline.
        deadline: When to stop, by :func:`time.monotonic`.
    """
    pause = readable.paused()
    yield _check_pause(queue, pause)
    yield _check_overdue(queue, readable, pause)
    yield _check_holds(queue, readable)
    yield _check_pushes(queue, readable)
    census = Examiner(readable).census(deadline)
    looked = f"{item_count(sum(astuple(census.counts)))} checked"
    if not census.is_whole:
        looked += ", then --timeout ended"
    status = OK if census.is_whole else ERROR
    if census.undecodable:
        shown = ", ".join(census.ids[:_SHOWN_IDS])
        text = f"{census.undecodable:,} cannot be decoded: {shown}; {looked}"
        bury = functools.partial(_bury, queue, deadline)
        yield Finding("items", queue.name, ERROR, text, bury, remedy=_repair(queue))
    else:
        longer = None if census.is_whole else _command(queue, f"--timeout {_LONGER_SECONDS}")
        text = f"all can be decoded; {looked}"
        yield Finding("items", queue.name, status, text, remedy=longer)
    if not census.is_whole:
        yield Finding("counts", queue.name, WARNING, "not compared within --timeout")
    elif not census.is_exact:
        yield Finding(
            "counts", queue.name, WARNING, "not compared, because other clients are using the queue"
        )
    else:
        yield _compare(queue, readable, asdict(census.counts), dict(census.levels))


def _compare(
    queue: Queue, readable: Queue, found: dict[str, int], levels: dict[Any, int]
) -> Finding:
    counted = asdict(readable.counts())
    wrong = [
        f"the counts say {counted[state]:,} {state}, but there are {number:,}"
        for state, number in found.items()
        if counted[state] != number
    ]
    if not wrong and queue.priority_type and len(levels) < MAX_ITEMS:
        kept = dict(readable.by_priority(limit=MAX_ITEMS))
        if kept != {level: number for level, number in levels.items() if level is not None}:
            wrong = ["the counts by priority differ"]
    if not wrong:
        reasons = readable.dead_by_reason(limit=MAX_ITEMS)
        number = sum(one.count for one in reasons)
        if number != found["dead"] and len(reasons) < MAX_ITEMS:
            wrong = [f"the counts by reason say {number:,} dead, but there are {found['dead']:,}"]
    if not wrong:
        return Finding("counts", queue.name, OK, "the counts are correct")

    def recount() -> tuple[str, bool]:
        queue.recount()
        return "recounted", True

    text = "; ".join(wrong)
    return Finding("counts", queue.name, ERROR, text, recount, remedy=_repair(queue))


def _check_pause(queue: Queue, pause: Pause | None) -> Finding:
    if pause is None:
        return Finding("pause", queue.name, OK, "the queue is not paused")
    text = f"nothing is taken until queue_resume; paused {pauses.since(pause)}"
    remedy = f"queue_resume {shlex.quote(queue.name)}"
    return Finding("pause", queue.name, WARNING, text, remedy=remedy)


def _check_overdue(queue: Queue, readable: Queue, pause: Pause | None) -> Finding:
    overdue = Examiner(readable).overdue()
    if not overdue.total:
        return Finding("overdue", queue.name, OK, "no lease or delay has expired")
    numbers = {kind[:-1]: number for kind, number in asdict(overdue).items() if number}
    parts = ", ".join(counted(number, kind) for kind, number in numbers.items())
    least = "at least " if overdue.total >= census.MAX_OVERDUE else ""
    resumed = "once the queue is resumed, " if pause else ""
    text = f"expired: {least}{parts}; {resumed}the next pop or lease requeues the items"

    def requeue() -> tuple[str, bool]:
        examiner = Examiner(queue)
        return f"requeued {examiner.requeue_expired():,}", not examiner.overdue().total

    return Finding("overdue", queue.name, WARNING, text, requeue, remedy=_repair(queue))


def _check_holds(queue: Queue, readable: Queue) -> Finding:
    number = Examiner(readable).stale_holds()
    if not number:
        return Finding("drains", queue.name, OK, "no killed drain left a record")

    def remove() -> tuple[str, bool]:
        examiner = Examiner(queue)
        return f"removed {examiner.stale_holds(forget=True):,}", not examiner.stale_holds()

    text = f"{counted(number, 'record')} of killed drains, whose items have been requeued"
    return Finding("drains", queue.name, WARNING, text, remove, remedy=_repair(queue))


def _check_pushes(queue: Queue, readable: Queue) -> Finding:
    found = load.recorded(readable, older_than_seconds=_STALE_SECONDS)
    if not found:
        return Finding("pushes", queue.name, OK, "no record is older than a day")

    def remove() -> tuple[str, bool]:
        return f"removed {load.sweep(queue, older_than_seconds=_STALE_SECONDS):,}", True

    text = f"{counted(len(found), 'record')} older than a day"
    return Finding("pushes", queue.name, WARNING, text, remove, remedy=_repair(queue))


def _bury(queue: Queue, deadline: float) -> tuple[str, bool]:
    """Move the items that cannot be decoded to the dead letters."""
    buried = 0
    while (census := Examiner(queue).census(deadline)).ids:
        for item_id in census.ids:
            with contextlib.suppress(ItemNotFound):
                queue.bury(item_id, reason="undecodable")
                buried += 1
    return f"moved {buried:,} to the dead letters", census.is_whole


def _repair(queue: Queue) -> str:
    """Return the command that repairs a queue."""
    return _command(queue, "--repair")


def _command(queue: Queue, option: str) -> str:
    return f"queue_doctor {shlex.quote(queue.name)} {option}"


def _version(database: Any) -> str:
    """Return the engine's version: a cluster has a status, the embedded engine is SQLite."""
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
    """Return the finding for a check that failed itself."""
    text = str(error) if isinstance(error, FdbQueueError) else text_of_error(error)
    return Finding(check, queue, ERROR, text)
