"""``queue_doctor``: look for problems, and repair them."""

from __future__ import annotations

import contextlib
import queue as queues
import threading
import time
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue import conf
from fdbqueue.deadlines import TimedDatabase
from fdbqueue.exceptions import ConfigurationError, EngineUnavailable
from fdbqueue.management import arguments, doctor, findings, formats
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.doctor import ERROR, Finding
from fdbqueue.management.exit_codes import exit_code, failure

#: A transaction may time out this long before the deadline.
_EARLY_SECONDS = 0.05


class Command(QueueCommand):
    has_engine_timeout = False  # --timeout limits the whole command
    help = (
        "Check whether the setting is valid, whether the engine answers and how fast, and whether "
        "the counts are correct; look for items that cannot be decoded, expired leases, and what "
        "killed processes left behind. The exit code is 1 if there is an error; warnings do not "
        "change it."
    )
    examples = """\
examples:
  manage.py queue_doctor
  manage.py queue_doctor mail --timeout 300
  manage.py queue_doctor --repair --json
"""

    def add_arguments(self, parser: CommandParser) -> None:
        arguments.add_queues(parser)
        parser.add_argument("--repair", action="store_true", help="Repair what can be repaired")
        parser.add_argument(
            "--timeout",
            type=arguments.seconds,
            default=30.0,
            metavar="SECONDS",
            help="Stop after SECONDS, finished or not (default: 30)",
        )
        arguments.add_json(parser, each_line=True)

    def handle(self, *args: Any, **options: Any) -> None:
        deadline = time.monotonic() + options["timeout"]
        with contextlib.suppress(ConfigurationError):  # the checks find it too
            for name in options["names"]:
                self.queue(name)
        examination = _Examination(
            list(dict.fromkeys(options["names"])), options["repair"], deadline
        )
        found = []
        try:
            for finding in _until(deadline, examination):
                found.append(finding)
                if options["as_json"]:
                    self.console.print_lines([formats.json_line(finding.record())])
        finally:  # the rest may take long: Ctrl-C shows what was found so far
            if not options["as_json"]:
                self.console.print_lines(findings.lines(found, self.console.look))
        errors = sum(finding.status == ERROR for finding in found)
        if examination.failure is not None:
            raise examination.failure
        if errors:
            raise failure(f"{formats.counted(errors, 'check')} found an error.")


class _Examination:
    """All checks, run in a thread of their own because an engine may never answer.

    Args:
        names: The names of the queues; all queues when empty.
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
        self.found: queues.SimpleQueue[Finding | None] = queues.SimpleQueue()
        threading.Thread(target=self._examine, name="fdbqueue-doctor", daemon=True).start()

    def give_up(self) -> Finding:
        """Return the finding for a check that --timeout has cut off."""
        check, queue = self._at
        if check == "engine":
            self.failure = EngineUnavailable(reason="no answer within --timeout")
        return Finding(check, queue, ERROR, "not finished within --timeout")

    def _examine(self) -> None:
        try:
            for found in self._checks():
                self.found.put(found.repaired() if self._repairs else found)
        except BaseException as error:  # noqa: BLE001  # raised in the command's thread
            is_over = time.monotonic() > self._deadline - _EARLY_SECONDS
            if is_over and self._at[0] != "engine":
                self.found.put(self.give_up())
            else:
                self._fail(error)
        self.found.put(None)

    def _fail(self, error: BaseException) -> None:
        if exit_code(error) is not None and not isinstance(error, ConfigurationError):
            self.found.put(doctor.unfinished(error, *self._at))
        self.failure = error

    def _left(self) -> float:
        return self._deadline - time.monotonic()

    def _checks(self) -> Iterator[Finding]:
        yield from doctor.check_settings()
        catalog = conf.catalog()
        self._at = ("engine", None)
        yield doctor.check_engine(catalog.database)
        self._at = ("receipts", None)
        yield doctor.check_receipts(catalog.database)
        readable = catalog.over(TimedDatabase(catalog.database, self._left))
        for name in self._names or readable.names():
            self._at = ("queue", name)
            yield from doctor.check_queue(catalog.queue(name), readable.queue(name), self._deadline)


def _until(deadline: float, examination: _Examination) -> Iterator[Finding]:
    """Yield findings until the deadline."""
    while True:
        try:
            found = examination.found.get(timeout=max(0.0, deadline - time.monotonic()))
        except queues.Empty:
            yield examination.give_up()
            return
        if found is None:
            return
        yield found
