"""What the queue commands share: exit codes, the queue by its name, and safe output."""

from __future__ import annotations

import argparse
import errno
import functools
import gc
import os
import select
import sys
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from django.conf import settings
from django.core.management.base import (
    BaseCommand,
    CommandError,
    CommandParser,
    DjangoHelpFormatter,
)

from fdbqueue import conf
from fdbqueue.deadlines import TimedDatabase
from fdbqueue.exceptions import QueueNotFound
from fdbqueue.management import rendering
from fdbqueue.management.exits import NO_SUCH_QUEUE, OutputFailed, command_error
from fdbqueue.service import Item, Queue
from fdbqueue.service.catalog import Catalog

_NAMES_IN_HINT = 20
_MAX_SECONDS = 31_536_000
_ENGINE_TIMEOUT_SECONDS = 60


class _HelpFormatter(DjangoHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keep the examples' lines, and Django's own options last."""


class QueueCommand(BaseCommand):
    """A command on queues; its errors are CommandErrors with fdbqueue's exit codes.

    System checks do not run: the setting is checked when it is used, and a command that
    others read from must not fail over somebody else's app.
    """

    #: Shown at the end of ``--help``.
    examples: ClassVar[str]
    #: Does it only show what is there, so that a reader may stop when it has seen enough?
    only_shows: ClassVar[bool] = False
    #: Has it ``--engine-timeout``?
    is_bounded: ClassVar[bool] = True
    requires_system_checks: list[str] = []  # noqa: RUF012  # Django's attribute

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Add the examples to the parser, and what all commands take."""
        parser = super().create_parser(
            prog_name,
            subcommand,
            epilog=self.examples,
            formatter_class=_HelpFormatter,
            **kwargs,
        )
        if self.is_bounded:
            parser.add_argument(
                "--engine-timeout",
                type=some_seconds,
                default=_ENGINE_TIMEOUT_SECONDS,
                metavar="SECONDS",
                help="end with 4 when the engine has not answered a transaction for so long; "
                f"more than 0 (default {_ENGINE_TIMEOUT_SECONDS})",
            )
        return parser

    def add_json_argument(self, parser: CommandParser, *, each_line: bool = False) -> None:
        """Add ``--json``.

        Args:
            parser: The command's.
            each_line: Whether it prints many objects, and not the one of its result.
        """
        what = "one JSON object a line" if each_line else "the result as JSON"
        parser.add_argument("--json", action="store_true", dest="as_json", help=f"print {what}")

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command, and give each error its exit code."""
        self.verbosity: int = options["verbosity"]
        self._timeout_seconds: float = options.get("engine_timeout", _ENGINE_TIMEOUT_SECONDS)
        self._catalog: Catalog | None = None
        self.written = 0  # lines
        if self._from_shell:
            gc.freeze()  # Django is here for good: the collector went through it all again
        try:
            return super().execute(*args, **options)
        except CommandError:
            raise
        except (Exception, KeyboardInterrupt) as error:
            is_cut = isinstance(error.__cause__, BrokenPipeError)
            if self.only_shows and is_cut and isinstance(error, OutputFailed):
                return None  # whoever read from it has seen enough
            failure = command_error(error)
            if failure is None:
                raise
            raise failure from error

    @property
    def catalog(self) -> Catalog:
        """The queues of the setting; their transactions end after ``--engine-timeout``."""
        if self._catalog is None:
            patient = conf.catalog()
            self._catalog = patient.over(
                TimedDatabase(patient.database, lambda: self._timeout_seconds)
            )
        return self._catalog

    def queue(self, name: str) -> Queue:
        """Return the queue with a name.

        Raises:
            CommandError: There is none; it names those there are.
        """
        try:
            return self.catalog.queue(name)
        except QueueNotFound as error:
            message = f"No queue has the name {name!r}. {_known_names()}"
            raise CommandError(message, returncode=NO_SUCH_QUEUE) from error

    def report(self, record: dict[str, Any], text: str, *, as_json: bool) -> None:
        """Print what was done; where that cannot be printed, the error says it.

        Args:
            record: For ``--json``.
            text: For people.
            as_json: Which of the two.
        """
        try:
            self.emit([rendering.json_line(record) if as_json else text])
        except OutputFailed as error:
            raise command_error(error, f"{text} {error}.") or error from error

    def note(self, text: str) -> None:
        """Tell a person something on standard error, unless ``--verbosity 0``."""
        if self.verbosity > 0:
            self.stderr.write(text, style_func=str)

    def emit(self, lines: Iterable[str]) -> None:
        """Print lines, flushing each, so that what is counted as written has left.

        Raises:
            OutputFailed: It cannot be written; :attr:`written` lines were.
        """
        try:
            for line in lines:
                self._write(line)
                self.written += 1
        except (OSError, KeyboardInterrupt) as error:
            self._abandon_output()
            reason = error.strerror if isinstance(error, OSError) else "interrupted"
            raise OutputFailed(reason=reason) from error

    def check_output(self) -> None:
        """Find out, as far as that can be known, that nobody will read what is printed.

        Raises:
            OutputFailed: Standard output is closed, or the pipe's reader is gone.
        """
        if self._from_shell and _is_closed(sys.stdout):
            raise OutputFailed(reason="it is closed")

    @property
    def _from_shell(self) -> bool:
        """Whether standard output is this process's own, and not a caller's stream."""
        return getattr(self, "_called_from_command_line", False)

    def _write(self, line: str) -> None:
        if self._from_shell and sys.stdout is None:
            raise OSError(errno.EBADF, "it is closed")
        try:
            self.stdout.write(line)
        except UnicodeEncodeError:
            self.stdout.write(line.encode("ascii", "backslashreplace").decode())
        self.stdout.flush()

    def _abandon_output(self) -> None:
        """Keep Python from writing what is left once more when it exits."""
        if self._from_shell and sys.stdout is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)


class ItemsCommand(QueueCommand):
    """A command that prints items from one end of a queue."""

    #: Does the table show values whole? It must where they are nowhere else any more.
    whole_values: ClassVar[bool] = False

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the queue's name, the end, the limit and the format."""
        parser.add_argument("name", metavar="NAME", help="the queue's name")
        parser.add_argument(
            "--end",
            choices=["min", "max"],
            default="min",
            help="min: lowest priority, earliest pushed (default); max: the other end",
        )
        parser.add_argument(
            "--limit", type=count, default=1, metavar="N", help="the most items (default 1)"
        )
        self.add_json_argument(parser, each_line=True)

    def item_lines(self, as_json: bool) -> Callable[[list[Item]], list[str]]:
        """Return what turns items into lines, one for each."""
        if as_json:
            return lambda items: [rendering.item_line(item) for item in items]
        table = rendering.Table(rendering.ITEM_COLUMNS)
        row = functools.partial(rendering.item_row, whole=self.whole_values)
        return lambda items: table.lines(map(row, items))


def _known_names() -> str:
    """Return a hint; from the setting, for names that fit a pattern may be millions."""
    names = list(getattr(settings, conf.SETTING, {}).get("QUEUES", {}))
    if not names:
        return f"{conf.SETTING}['QUEUES'] names none."
    more = f" and {len(names) - _NAMES_IN_HINT} more" if len(names) > _NAMES_IN_HINT else ""
    return f"The setting has {', '.join(names[:_NAMES_IN_HINT])}{more}."


def count(text: str) -> int:
    """Return a number of things, for argparse.

    Raises:
        ArgumentTypeError: It is less than 1.
    """
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def count_to(most: int) -> Callable[[str], int]:
    """Return what reads a number of things from 1 to the most there may be, for argparse."""

    def number(text: str) -> int:
        found = count(text)
        if found > most:
            raise argparse.ArgumentTypeError(f"{text} is more than {most}")
        return found

    return number


def seconds(text: str) -> float:
    """Return a length of time, for argparse.

    Raises:
        ArgumentTypeError: It is not between 0 and a year.
    """
    number = float(text)
    if not 0 <= number <= _MAX_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to {_MAX_SECONDS}")
    return number


def some_seconds(text: str) -> float:
    """Return a length of time that is not nothing, for argparse.

    Raises:
        ArgumentTypeError: It is not more than 0, and a year at most.
    """
    number = seconds(text)
    if number == 0:
        raise argparse.ArgumentTypeError(f"{text} is not more than 0")
    return number


# argparse names the type in its message
count.__name__ = seconds.__name__ = some_seconds.__name__ = "number"


def _is_closed(stream: Any) -> bool:
    if stream is None:
        return True
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
