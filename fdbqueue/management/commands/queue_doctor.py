"""``queue_doctor``: look for problems, and repair them.

The checks run one after the other, in a thread of their own, because an engine may never answer:
those of :mod:`findings`. Each yields a :class:`Finding` with its status; with ``--repair`` what is
wrong is repaired before the next one begins. The command takes the findings as they come, until
``--timeout``: what is not finished then becomes a finding itself.
"""

from __future__ import annotations

import contextlib
import functools
import queue as queues
import shlex
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, astuple
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue import conf
from fdbqueue.columns.text import counted, printable
from fdbqueue.deadlines import TimedDatabase
from fdbqueue.exceptions import (
    ConfigurationError,
    EngineUnavailable,
    FdbQueueError,
    text_of_error,
)
from fdbqueue.management.arguments import (
    JSON_LINES,
    NO_INPUT,
    QUEUES_OR_ALL,
    positive_seconds,
    whole_number,
)
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import (
    OutputFailed,
    command_error,
    exit_code,
    failure,
    usage_error,
)
from fdbqueue.management.findings import (
    ERROR,
    LONGER_SECONDS,
    MAX_LOADS,
    OK,
    WARNING,
    Finding,
    QueueChecks,
    check_engine,
    check_file,
    check_load_and_limits,
    check_names,
    check_receipts,
    check_settings,
    is_file,
)
from fdbqueue.management.formats import (
    Painted,
    Table,
    TableLook,
    TextColumn,
    item_count,
    json_line,
)
from fdbqueue.service import ITEM_STATES, Catalog, Queue, transactions
from fdbqueue.service.tools import examination
from fdbqueue.service.tools.examination import STALE_SECONDS, Examiner

COLUMNS = (
    TextColumn("STATUS"),
    TextColumn("CHECK"),
    TextColumn("QUEUE", "name"),
    TextColumn("FOUND", fold="wrap"),
    TextColumn("REMEDY", fold="whole"),
)

#: What ``--recount`` prints.
RECOUNTED = (
    TextColumn("NAME", "name"),
    *(TextColumn(state.upper(), "number") for state in ITEM_STATES),
)
#: A transaction may time out this long before the deadline.
_EARLY_SECONDS = 0.05
_STYLES = {ERROR: "ERROR", WARNING: "WARNING", OK: "SUCCESS"}


class Command(QueueCommand):
    help = (
        "Check the setting, the engine, the counts, and what killed processes left behind. The "
        "exit code is 1 if there is an error, not for warnings. --repair asks before it changes "
        "anything; --recount and --sweep repair without looking for anything."
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
        QUEUES_OR_ALL.add(parser)
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
            help="Declare that the items of the named queues were stored under this project's "
            "present settings. Ready items move to the shards of these settings; nothing else "
            "changes",
        )
        repairs.add_argument(
            "--recount",
            action="store_true",
            help="Count the items of queues, and correct the counts and the index of their "
            "family, while others push and pop. Needed for queues that other programs use, by "
            "FoundationDB's recipes, and after a pattern has changed",
        )
        repairs.add_argument(
            "--sweep",
            action="store_true",
            help="Remove what ended processes left behind: receipts, and saved responses "
            "that expired an hour ago. No item is touched",
        )
        parser.add_argument(
            "--older-than",
            type=whole_number(transactions.MIN_SWEPT_SECONDS),
            dest="older_than_seconds",
            metavar="SECONDS",
            help="With --sweep: remove receipts that were not written for SECONDS (default"
            f": {STALE_SECONDS}, a day; at least {transactions.MIN_SWEPT_SECONDS})",
        )
        parser.add_argument(
            "--timeout",
            type=positive_seconds,
            default=30.0,
            metavar="SECONDS",
            help="Stop the checks after SECONDS (default: 30): exit code 1, or 4 if the "
            "engine did not answer",
        )
        NO_INPUT.add(parser)
        JSON_LINES.add(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        names, older_than_seconds = (
            list(dict.fromkeys(options["names"])),
            options["older_than_seconds"],
        )
        if names and options["sweep"]:
            raise usage_error("--sweep is of all queues: name none.")
        if older_than_seconds is not None and not options["sweep"]:
            raise usage_error("--older-than can be used only with --sweep.")
        if options["sweep"]:
            self._sweep(STALE_SECONDS if older_than_seconds is None else older_than_seconds)
            return
        with contextlib.suppress(ConfigurationError):  # the checks find it too
            for name in names:
                self.family(name) if "*" in name else self.queue(name)
        if options["adopt_settings"]:
            self._adopt_settings(names)
        if options["recount"]:
            self._recount(self.queues(names))
            return
        repairs = options["repair"]
        examine = functools.partial(self._examined, names, options["timeout"])
        if repairs and self.console.asks:
            found = examine(prints=not self.console.as_json)
            wrong = [one for one in found if one.can_be_repaired]
            what = "; ".join(f"{one.check} of {one.queue or 'all queues'}" for one in wrong)
            if wrong:
                self.console.confirm(f"Repair {counted(len(wrong), 'finding')} ({what})?")
        found = examine(repairs=repairs)
        if errors := sum(finding.status == ERROR for finding in found):
            raise failure(f"{counted(errors, 'check')} found an error.")

    def _adopt_settings(self, names: list[str]) -> None:
        """Store that queues are written under the settings here."""
        if not names:
            raise usage_error("--adopt-settings needs the names of queues.")
        for name in names:
            queue = self.queue(name)
            number = item_count(sum(astuple(queue.counts())))
            here = Examiner(queue).format_here()
            self.console.confirm(
                f"Record these settings for the {number} of {name!r}: {here}? Processes with other "
                "settings must have stopped."
            )
            queue.adopt_settings()

    def _examined(
        self, names: list[str], timeout: float, *, repairs: bool = False, prints: bool = True
    ) -> list[Finding]:
        """Return what the checks find, and print it.

        Raises:
            Exception: What ended the checks early.
        """
        examination = _Examination(names, repairs, time.monotonic() + timeout)
        found: list[Finding] = []
        try:
            for finding in examination.findings():
                found.append(finding)
                if prints and self.console.as_json:
                    self.console.print_lines([json_line(finding.record())])
        finally:  # the rest may take long: Ctrl-C shows what was found so far
            if prints and not self.console.as_json:
                self.console.print_lines(_table_lines(found, self.console.look))
        if (error := examination.failure) is not None:
            is_printed = prints and bool(found) and found[-1].detail == str(error)
            text = str(error).partition(": ")[0] if is_printed else None  # the rest is printed
            raise command_error(error, text) or error from error
        return found

    # Repairs without looking for anything

    def _recount(self, queues: Sequence[Queue]) -> None:
        """Count the items, and print each count, or the old and the new one if they differ.

        Raises:
            CommandError: The output failed, or Ctrl-C was pressed; it says how many queues are
                done.
        """
        table = Table(RECOUNTED, self.console.look)
        table.expect((queue.name, *[""] * len(ITEM_STATES)) for queue in queues)

        def lines() -> Iterator[str]:
            for queue in queues:
                before, after = asdict(queue.counts()), asdict(queue.recount())
                if self.console.as_json:
                    yield json_line({"queue": queue.name, "before": before, "after": after})
                    continue
                changes = (
                    f"{old:,}" if old == new else f"{old:,} -> {new:,}"
                    for old, new in zip(before.values(), after.values(), strict=True)
                )
                yield from table.lines([(queue.name, *changes)])

        try:
            self.console.print_lines(lines())
        except OutputFailed as error:
            if error.is_by_reader:
                raise
            reason = "Interrupted" if isinstance(error.__cause__, KeyboardInterrupt) else error
            total = counted(len(queues), "queue")
            done = f"Recounted and printed {self.console.lines_printed} of {total}."
            raise command_error(error, f"{reason}. {done}") or error from error

    def _sweep(self, older_than_seconds: int) -> None:
        """Remove what processes that have ended left behind, and print how much it was."""
        catalog = self.catalog
        removed = examination.sweep(catalog.database, older_than_seconds=older_than_seconds)
        queues = [catalog.queue(name) for name in catalog.names(with_responses=True)]
        responses = sum(queue.sweep() for queue in queues) + catalog.sweep()
        self.console.report(
            {"removed": removed, "responses": responses},
            f"Removed {counted(removed, 'receipt')} and {counted(responses, 'saved response')}.",
        )


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
        names = [] if queue is None else [shlex.quote(queue)]
        longer = " ".join(["queue_doctor", *names, f"--timeout {LONGER_SECONDS}"])
        return Finding(check, queue, ERROR, "not finished within --timeout", remedy=longer)

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
        names = self._all_names(readable) if self._names else readable.names(limit=MAX_LOADS)
        yield from check_load_and_limits(readable, names, on_cluster=not is_file(catalog.database))
        for name in self._all_names(readable):
            self._at = ("queue", name)
            queue, read = catalog.queue(name), readable.queue(name)
            yield from QueueChecks(queue, read, self._deadline).findings()

    def _all_names(self, catalog: Catalog) -> Iterator[str]:
        """Yield the names of the queues: of a pattern its members' names, as they are read."""
        families = {family.name: family for family in catalog.families()}
        for name in self._names or catalog.names():
            family = families.get(name)
            yield from [name] if family is None else filter(family.has, family.names())


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
