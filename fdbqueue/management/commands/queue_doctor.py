"""``queue_doctor``: look for what is wrong, and put it right."""

from __future__ import annotations

import contextlib
import queue as queues
import threading
import time
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandError, CommandParser

from fdbqueue import conf
from fdbqueue.deadlines import TimedDatabase
from fdbqueue.exceptions import ConfigurationError, EngineUnavailable
from fdbqueue.management import doctor, rendering
from fdbqueue.management.base import QueueCommand, seconds
from fdbqueue.management.doctor import ERROR, Finding
from fdbqueue.management.exits import FAILED, exit_code

#: A transaction's timeout may come so much before the time is over.
_EARLY_SECONDS = 0.05


class Command(QueueCommand):
    is_bounded = False  # by a --timeout of its own, all in all
    help = (
        "Look whether the engine answers and how fast, whether the setting is right, whether the "
        "counts equal what is there, and for items that cannot be decoded, leases that have run "
        "out, and what processes that died have left behind. Ends with 1 where something is an "
        "error."
    )
    examples = """\
examples:
  manage.py queue_doctor
  manage.py queue_doctor mail --timeout 300
  manage.py queue_doctor --repair --json
"""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "names", metavar="NAME", nargs="*", help="the queues (default: all there are)"
        )
        parser.add_argument(
            "--repair", action="store_true", help="put right what is wrong, where that can be done"
        )
        parser.add_argument(
            "--timeout",
            type=seconds,
            default=30.0,
            metavar="SECONDS",
            help="end after so long, whatever there is still to look at (default 30)",
        )
        self.add_json_argument(parser, each_line=True)

    def handle(self, *args: Any, **options: Any) -> None:
        deadline = time.monotonic() + options["timeout"]
        with contextlib.suppress(ConfigurationError):  # it is one of the things to find
            for name in options["names"]:
                self.queue(name)
        examination = _Examination(
            list(dict.fromkeys(options["names"])), options["repair"], deadline
        )
        table = rendering.Table(doctor.COLUMNS)
        errors = 0
        for found in _until(deadline, examination):
            errors += found.status == ERROR
            if options["as_json"]:
                self.emit([rendering.json_line(found.record())])
            else:
                self.emit(table.lines([found.row()]))
        if examination.failure is not None:
            raise examination.failure
        if errors:
            raise CommandError(
                f"{errors} check{'' if errors == 1 else 's'} found an error.", returncode=FAILED
            )


class _Examination:
    """All checks, done in a thread of their own: an engine may keep one waiting for ever.

    Args:
        names: The queues; all there are when empty.
        repairs: Whether to put right what is wrong.
        deadline: When to stop, by :func:`time.monotonic`.
    """

    def __init__(self, names: list[str], repairs: bool, deadline: float) -> None:
        self._names = names
        self._repairs = repairs
        self._deadline = deadline
        self._at: tuple[str, str | None] = ("settings", None)
        #: What ended it early.
        self.failure: BaseException | None = None
        #: What it finds; None at the end.
        self.found: queues.SimpleQueue[Finding | None] = queues.SimpleQueue()
        threading.Thread(target=self._examine, name="fdbqueue-doctor", daemon=True).start()

    def give_up(self) -> Finding:
        """Return that the time is over."""
        check, queue = self._at
        if check == "engine":
            self.failure = EngineUnavailable(reason="no answer within --timeout")
        return Finding(check, queue, ERROR, "not finished: the time was over")

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
    """Yield what is found, until the time is over."""
    while True:
        try:
            found = examination.found.get(timeout=max(0.0, deadline - time.monotonic()))
        except queues.Empty:
            yield examination.give_up()
            return
        if found is None:
            return
        yield found
