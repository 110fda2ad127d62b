"""``queue_doctor``: look for problems, and repair them.

The checks run one after the other, in a thread of their own, because an engine may never answer:
those of :mod:`findings`, and for each queue its format, pause, row in the index of its family,
overdue items, drains, pushes, items and counts. Each yields a :class:`Finding` with its
status; with ``--repair`` what is wrong is repaired before the next one begins. The command takes
the findings as they come, until ``--timeout``: what is not finished then becomes a finding itself.

A new check of a queue is a function like :func:`_check_pause`, and a line in :func:`check_queue`.
"""

from __future__ import annotations

import contextlib
import functools
import queue as queues
import shlex
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, astuple
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue import conf
from fdbqueue.columns.queues import paused_since, resume_command
from fdbqueue.columns.text import counted, printable
from fdbqueue.deadlines import TimedDatabase
from fdbqueue.exceptions import (
    ConfigurationError,
    EngineUnavailable,
    FdbQueueError,
    FormatMismatch,
    ItemNotFound,
    text_of_error,
)
from fdbqueue.management import arguments
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import exit_code, failure, usage_error
from fdbqueue.management.findings import (
    ERROR,
    OK,
    STALE_SECONDS,
    WARNING,
    Finding,
    check_engine,
    check_file,
    check_load,
    check_names,
    check_receipts,
    check_settings,
)
from fdbqueue.management.formats import (
    Painted,
    Table,
    TableLook,
    TextColumn,
    item_count,
    json_line,
)
from fdbqueue.management.repairs import recount, sweep
from fdbqueue.service import MAX_ITEMS, Catalog, Pause, Queue, transactions
from fdbqueue.service.tools import examination, load
from fdbqueue.service.tools.examination import Examiner

COLUMNS = (
    TextColumn("STATUS"),
    TextColumn("CHECK"),
    TextColumn("QUEUE", "name"),
    TextColumn("FOUND", fold="wrap"),
    TextColumn("REMEDY", fold="whole"),
)

_SHOWN_IDS = 5
#: What is suggested if --timeout was too short for a queue.
_LONGER_SECONDS = 300
#: A transaction may time out this long before the deadline.
_EARLY_SECONDS = 0.05
_STYLES = {ERROR: "ERROR", WARNING: "WARNING", OK: "SUCCESS"}


class Command(QueueCommand):
    help = (
        "Check the setting, the engine and the counts; look for items that cannot be decoded, "
        "expired leases, and what killed processes left behind. The exit code is 1 if there is an "
        "error, not for warnings. --repair asks before it changes anything. --recount and --sweep "
        "repair without looking for anything."
    )
    examples = """\
examples:
  manage.py queue_doctor
  manage.py queue_doctor mail --timeout 300
  manage.py queue_doctor mail --repair
  manage.py queue_doctor --repair --no-input --json
  manage.py queue_doctor mail --adopt-settings
  manage.py queue_doctor 'user-*' --timeout 300
  manage.py queue_doctor legacy mail --recount
  manage.py queue_doctor --sweep --older-than 3600
"""

    def add_arguments(self, parser: CommandParser) -> None:
        arguments.add_queues(parser)
        repairs = parser.add_mutually_exclusive_group()
        repairs.add_argument(
            "--repair",
            action="store_true",
            help="Repair what can be repaired: items that cannot be decoded become dead letters, "
            "unless no item of the queue can be decoded",
        )
        parser.add_argument(
            "--adopt-settings",
            action="store_true",
            help="Store that the items of the named queues are written under the settings here. "
            "Ready items move to the shards that these say; nothing else changes",
        )
        repairs.add_argument(
            "--recount",
            action="store_true",
            help="Count the items of queues, and correct the counts and the rows in the index of "
            "their family. Others may push and pop meanwhile. Only queues that programs "
            "with FoundationDB's recipes use need it",
        )
        repairs.add_argument(
            "--sweep",
            action="store_true",
            help="Remove what processes that have ended left behind: receipts, records of "
            "queue_push --resume, and saved responses of idempotency keys that expired an "
            "hour ago. No item is touched",
        )
        parser.add_argument(
            "--older-than",
            type=arguments.whole_number(transactions.MIN_SWEPT_SECONDS),
            dest="older_than_seconds",
            metavar="SECONDS",
            help="With --sweep: remove receipts and push records that were not written for SECONDS "
            f"(default: {STALE_SECONDS}, a day; at least {transactions.MIN_SWEPT_SECONDS})",
        )
        parser.add_argument(
            "--timeout",
            type=arguments.positive_seconds,
            default=30.0,
            metavar="SECONDS",
            help="Stop the checks after SECONDS, finished or not (default: 30)",
        )
        arguments.add_no_input(parser)
        arguments.add_json(parser, each_line=True)

    def handle(self, *args: Any, **options: Any) -> None:
        names, as_json = list(dict.fromkeys(options["names"])), options["as_json"]
        older_than_seconds = options["older_than_seconds"]
        if names and options["sweep"]:
            raise usage_error("--sweep is of all queues: name none.")
        if older_than_seconds is not None and not options["sweep"]:
            raise usage_error("--older-than can be used only with --sweep.")
        if options["sweep"]:
            seconds = STALE_SECONDS if older_than_seconds is None else older_than_seconds
            sweep(self.catalog, self.console, older_than_seconds=seconds, as_json=as_json)
            return
        with contextlib.suppress(ConfigurationError):  # the checks find it too
            for name in names:
                self.family(name) if "*" in name else self.queue(name)
        if options["adopt_settings"]:
            self._adopt_settings(names, interactive=options["interactive"])
        if options["recount"]:
            recount(self.queues(names), self.console, as_json=as_json)
            return
        repairs = options["repair"]
        examine = functools.partial(self._examined, names, options["timeout"])
        if repairs and options["interactive"]:
            found = [one for one in examine(shown=not as_json) if one.can_be_repaired]
            what = "; ".join(f"{one.check} of {one.queue or 'all queues'}" for one in found)
            number = counted(len(found), "finding")
            self.console.confirm(f"Repair {number} ({what})?", interactive=bool(found))
        found = examine(repairs=repairs, as_json=as_json)
        if errors := sum(finding.status == ERROR for finding in found):
            raise failure(f"{counted(errors, 'check')} found an error.")

    def _adopt_settings(self, names: list[str], *, interactive: bool) -> None:
        """Store the settings here as those that queues are written under."""
        if not names:
            raise usage_error("--adopt-settings needs the names of queues.")
        for name in names:
            queue = self.queue(name)
            number = item_count(sum(astuple(queue.counts())))
            here = Examiner(queue).format_here()
            self.console.confirm(
                f"Store that the {number} of {name!r} are written under: "
                f"{here}? Processes with other settings must have stopped.",
                interactive=interactive,
            )
            queue.adopt_settings()

    def _examined(
        self,
        names: list[str],
        timeout: float,
        *,
        repairs: bool = False,
        as_json: bool = False,
        shown: bool = True,
    ) -> list[Finding]:
        """Return what the checks find, and print it.

        Raises:
            Exception: What ended the checks early.
        """
        deadline = time.monotonic() + timeout
        examination = _Examination(names, repairs, deadline)
        found: list[Finding] = []
        try:
            for finding in examination.findings():
                found.append(finding)
                if as_json:
                    self.console.print_lines([json_line(finding.record())])
        finally:  # the rest may take long: Ctrl-C shows what was found so far
            if shown and not as_json:
                self.console.print_lines(_table_lines(found, self.console.look))
        if examination.failure is not None:
            raise examination.failure
        return found


class _Examination:
    """All checks, run in a thread of their own because an engine may never answer.

    Args:
        names: The names of the queues; all queues if there are none.
        repairs: Whether to repair what is wrong.
        deadline: When to stop, by :func:`time.monotonic`.
    """

    def __init__(self, names: list[str], repairs: bool, deadline: float) -> None:
        self._names = names
        self._repairs = repairs
        self._deadline = deadline
        self._at: tuple[str, str | None] = ("settings", None)
        #: The error that ended it early.
        self.failure: BaseException | None = None
        #: The findings; None at the end.
        self._found: queues.SimpleQueue[Finding | None] = queues.SimpleQueue()
        threading.Thread(target=self._examine, name="fdbqueue-doctor", daemon=True).start()

    def findings(self) -> Iterator[Finding]:
        """Yield the findings as they come, until the deadline."""
        while True:
            try:
                found = self._found.get(timeout=max(0.0, self._left()))
            except queues.Empty:
                yield self._unfinished()
                return
            if found is None:
                return
            yield found

    def _unfinished(self) -> Finding:
        """Return the finding for what --timeout has cut off."""
        check, queue = self._at
        if check == "engine":
            self.failure = EngineUnavailable(reason="no answer within --timeout")
        return Finding(check, queue, ERROR, "not finished within --timeout")

    def _examine(self) -> None:
        try:
            for found in self._checks():
                self._found.put(found.repaired() if self._repairs else found)
        except BaseException as error:  # noqa: BLE001  # raised in the command's thread
            if self._left() < _EARLY_SECONDS and self._at[0] != "engine":
                self._found.put(self._unfinished())
            else:
                if exit_code(error) is not None and not isinstance(error, ConfigurationError):
                    text = str(error) if isinstance(error, FdbQueueError) else text_of_error(error)
                    self._found.put(Finding(*self._at, ERROR, text))
                self.failure = error
        self._found.put(None)

    def _left(self) -> float:
        return self._deadline - time.monotonic()

    def _checks(self) -> Iterator[Finding]:
        yield from check_settings()
        catalog = conf.catalog()
        self._at = ("engine", None)
        yield check_engine(catalog.database)
        yield from check_file(catalog.database)
        self._at = ("receipts", None)
        yield check_receipts(catalog.database)
        readable = catalog.over(TimedDatabase(catalog.database, self._left))
        if not self._names:
            self._at = ("names", None)
            yield check_names(readable)
            self._at = ("load", None)
            yield from check_load(readable)
        for name in self._all_names(readable):
            self._at = ("queue", name)
            yield from check_queue(catalog.queue(name), readable.queue(name), self._deadline)

    def _all_names(self, catalog: Catalog) -> Iterator[str]:
        """Yield the names of the queues: of a pattern those of its members, as they are read."""
        families = {family.name: family for family in catalog.families()}
        for name in self._names or catalog.names():
            family = families.get(name)
            yield from [name] if family is None else filter(family.has, family.names())


def check_queue(queue: Queue, readable: Queue, deadline: float) -> Iterator[Finding]:
    """Check one queue.

    Args:
        queue: The queue, for repairs.
        readable: The same queue, for reads that end with the deadline.
        deadline: When to stop, by :func:`time.monotonic`.
    """
    written = _check_format(queue, readable)
    yield written
    pause = readable.paused()
    yield _check_pause(queue, pause)
    if written.status == ERROR:  # the rest would read the items under the wrong settings
        return
    yield from _check_index(queue, readable)
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
    if census.undecodable and census.undecodable == census.counts.ready:
        text += (
            ". Was it written under other settings (kind, codec, priority type)? No ready item can "
            "be decoded, so --repair buries none; queue_bury does"
        )
        yield Finding("items", queue.name, ERROR, text)
    elif census.undecodable:
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


def _check_format(queue: Queue, readable: Queue) -> Finding:
    try:
        stored = (examiner := Examiner(readable)).stored_format()
    except FormatMismatch as error:
        return Finding(
            "format",
            queue.name,
            ERROR,
            f"written under {error.context['written']}, but the setting here says "
            f"{error.context['here']}: nothing is read or written from here. Correct the setting. "
            f"If it was changed on purpose, stop all processes that have the former one, then "
            f"run queue_doctor {shlex.quote(queue.name)} --adopt-settings",
        )
    if strays := examiner.strays():
        least = "at least " if strays >= examination.MAX_STRAYS else ""
        text = (
            f"{least}{item_count(strays)} in shards that the setting here leaves out: no pop finds "
            "them, or pops take the same ones again and again"
        )
        remedy = _command(queue, "--adopt-settings")
        return Finding("format", queue.name, ERROR, text, remedy=remedy)
    if stored is None:
        text = f"nothing is stored; the first push will store: {examiner.format_here()}"
        return Finding("format", queue.name, OK, text)
    return Finding("format", queue.name, OK, f"as the setting says; stored: {stored}")


def _compare(
    queue: Queue, readable: Queue, found: dict[str, int], levels: dict[Any, int]
) -> Finding:
    stored = asdict(readable.counts())
    wrong = [
        f"the counts say {stored[state]:,} {state}, but there are {number:,}"
        for state, number in found.items()
        if stored[state] != number
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
    text = f"nothing is taken until queue_resume; {paused_since(pause)}"
    remedy = resume_command(queue.name, pause)
    return Finding("pause", queue.name, WARNING, text, remedy=remedy)


def _check_index(queue: Queue, readable: Queue) -> Iterator[Finding]:
    is_indexed = Examiner(readable).is_indexed()
    if is_indexed is None:
        return
    if is_indexed:
        yield Finding("family", queue.name, OK, "takes from its family find it")
        return

    def write() -> tuple[str, bool]:
        Examiner(queue).write_index()
        return "written", True

    text = "its row in the index is missing: takes from its family do not find its items"
    yield Finding("family", queue.name, ERROR, text, write, remedy=_repair(queue))


def _check_overdue(queue: Queue, readable: Queue, pause: Pause | None) -> Finding:
    overdue = Examiner(readable).overdue()
    if not overdue.total:
        return Finding("overdue", queue.name, OK, "no lease or delay has expired")
    numbers = {kind[:-1]: number for kind, number in asdict(overdue).items() if number}
    parts = ", ".join(counted(number, kind) for kind, number in numbers.items())
    least = "at least " if overdue.total >= examination.MAX_OVERDUE else ""
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
    found = load.recorded(readable, older_than_seconds=STALE_SECONDS)
    if not found:
        return Finding("pushes", queue.name, OK, "no record is older than a day")

    def remove() -> tuple[str, bool]:
        return f"removed {load.sweep(queue, older_than_seconds=STALE_SECONDS):,}", True

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


def _table_lines(found: Iterable[Finding], look: TableLook) -> list[str]:
    """Return the lines of a table: errors, warnings, what was repaired, and what is well.

    A check that finds the same of several queues that are well has one row for these.
    """
    found = list(found)
    problems = [one for status in (ERROR, WARNING) for one in found if one.status == status]
    repaired = [one for one in found if one.is_repaired]
    rows = [*map(_row, problems), *map(_row, repaired), *_rows_of_checks(found)]
    return Table(COLUMNS, look).lines(rows)


def _row(finding: Finding) -> tuple[str, ...]:
    status = "repaired" if finding.is_repaired else finding.status
    return (
        Painted.of(status.upper(), _STYLES[finding.status]),
        finding.check,
        finding.queue or "-",
        printable(finding.detail),
        "-" if finding.remedy is None else f"manage.py {finding.remedy}",
    )


def _rows_of_checks(found: Iterable[Finding]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of what is well: of each check one for each thing it found.

    That is what its text says before a semicolon; the rest is said of one queue alone.
    """
    well = [one for one in found if one.status == OK and not one.is_repaired]
    groups: dict[str, dict[str, list[Finding]]] = {}
    for one in well:
        what = one.detail.partition(";")[0]
        groups.setdefault(one.check, {}).setdefault(what, []).append(one)
    for of_check in groups.values():
        for what, (first, *rest) in of_check.items():
            status, check, queue, detail, remedy = _row(first)
            if rest:
                queue, detail = f"{1 + len(rest):,} queues", printable(what)
            yield status, check, queue, detail, remedy
