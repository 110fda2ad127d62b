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
from collections.abc import Iterable, Iterator
from dataclasses import astuple
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
)
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import (
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
    check_disk,
    check_engine,
    check_file,
    check_load,
    check_names,
    check_receipts,
    check_responses,
    check_settings,
    is_file,
)
from fdbqueue.management.formats import (
    Paint,
    Painted,
    Table,
    TextColumn,
    item_count,
    json_line,
)
from fdbqueue.own_threads import OwnThread
from fdbqueue.service import Catalog
from fdbqueue.service.tools.examination import Examiner
from fdbqueue.steady import monotonic

COLUMNS = (
    TextColumn("STATUS"),
    TextColumn("CHECK"),
    TextColumn("QUEUE"),
    TextColumn("FOUND"),
    TextColumn("REMEDY"),
)

#: A transaction may time out this long before the deadline.
_EARLY_SECONDS = 0.05
_STYLES = {ERROR: "ERROR", WARNING: "WARNING", OK: "SUCCESS"}


class Command(QueueCommand):
    help = (
        "Check the setting, the engine, the counts, and what killed processes left behind. The "
        "exit code is 1 if there is an error, not for warnings. --repair asks before it repairs."
    )
    examples = """\
examples:
  manage.py queue_doctor
  manage.py queue_doctor mail --timeout 300
  manage.py queue_doctor mail --repair
  manage.py queue_doctor --repair --no-input --json
  manage.py queue_doctor mail --adopt-settings
  manage.py queue_doctor 'user-*' --timeout 300
"""

    def add_arguments(self, parser: CommandParser) -> None:
        QUEUES_OR_ALL.add(parser)
        parser.add_argument(
            "--repair",
            action="store_true",
            help="Repair what can be repaired, while others push and pop. Items that cannot be "
            "decoded become dead letters, unless no item of the queue can be decoded",
        )
        parser.add_argument(
            "--adopt-settings",
            action="store_true",
            help="Take the present settings for those under which the items of the named queues "
            "were stored. Ready items move to their shards; nothing else changes",
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
        names = list(dict.fromkeys(options["names"]))
        with contextlib.suppress(ConfigurationError):  # the checks find it too
            for name in names:
                self.family(name) if "*" in name else self.queue(name)
        if options["adopt_settings"]:
            self._adopt_settings(names)
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
        examination = _Examination(names, repairs, monotonic() + timeout)
        found: list[Finding] = []
        try:
            for finding in examination.findings():
                found.append(finding)
                if prints and self.console.as_json:
                    self.console.print_lines([json_line(finding.record())])
        finally:  # the rest may take long: Ctrl-C shows what was found so far
            if prints and not self.console.as_json:
                self.console.print_lines(_table_lines(found, self.console.paint))
        if (error := examination.failure) is not None:
            is_printed = prints and bool(found) and found[-1].detail == str(error)
            text = str(error).partition(": ")[0] if is_printed else None  # the rest is printed
            raise command_error(error, text) or error from error
        return found


class _Examination:
    """All checks, run in a thread of their own because an engine may never answer.

    Args:
        names: The names of the queues; all queues if there are none.
        repairs: Whether to repair what is wrong.
        deadline: When to stop, by the monotonic clock.
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
        OwnThread(self._examine, name="fdbqueue-doctor").start()

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
        return self._deadline - monotonic()

    def _checks(self) -> Iterator[Finding]:
        yield from check_settings()
        catalog = conf.catalog()
        self._at = ("engine", None)
        yield check_engine(catalog.database)
        yield from check_file(catalog.database)
        yield from check_disk(catalog.database)
        self._at = ("receipts", None)
        yield check_receipts(catalog.database)
        readable = catalog.over(TimedDatabase(catalog.database, self._left))
        if not self._names:
            self._at = ("names", None)
            yield check_names(readable)
        self._at = ("load", None)
        names = self._all_names(readable) if self._names else readable.names(limit=MAX_LOADS)
        yield check_load(readable, names, on_cluster=not is_file(catalog.database))
        for name in self._all_names(readable):
            self._at = ("queue", name)
            queue, read = catalog.queue(name), readable.queue(name)
            yield from QueueChecks(queue, read, self._deadline).findings()
        if not self._names:
            self._at = ("responses", None)
            yield check_responses(catalog, readable)

    def _all_names(self, catalog: Catalog) -> Iterator[str]:
        """Yield the names of the queues: of a pattern its members' names, as they are read."""
        families = {family.name: family for family in catalog.families()}
        for name in self._names or catalog.names():
            family = families.get(name)
            yield from [name] if family is None else filter(family.has, family.names())


def _table_lines(found: Iterable[Finding], paint: Paint) -> list[str]:
    """Return the lines of a table: errors, warnings, what was repaired, and what is well.

    A check that finds the same of several queues that are well has one row for these.
    """
    found = list(found)
    problems = [one for status in (ERROR, WARNING) for one in found if one.status == status]
    repaired = [one for one in found if one.is_repaired]
    rows = [*map(_row, problems), *map(_row, repaired), *_rows_of_checks(found)]
    return Table(COLUMNS, paint).lines(rows)


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
