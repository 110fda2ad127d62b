"""Talk to the user of a command: its results, notes, progress and questions.

Standard output has the results, standard error all else. The progress of a long command is a line
with count, rate and remaining time: one that is overwritten at a terminal, one every ten seconds
elsewhere, and none with ``--verbosity 0``.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import select
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from django.core.management.base import OutputWrapper
from django.core.management.color import Style, no_style

from fdbqueue.columns.attention import resume_command
from fdbqueue.columns.queues import paused_since
from fdbqueue.columns.text import counted
from fdbqueue.management import formats
from fdbqueue.management.exit_codes import (
    OutputFailed,
    command_error,
    error_text,
    explain_errors,
    failure,
    usage_error,
)
from fdbqueue.management.signals import defer_interrupts
from fdbqueue.service import Queue, SeveralQueues
from fdbqueue.steady import monotonic

#: The most queues of a family of which pauses are noted.
_MAX_LOOKED_AT = 1_000
#: The time between two lines of progress; and between two that overwrite each other at a terminal.
_SECONDS_BETWEEN_LINES, _SECONDS_AT_A_TERMINAL = 10.0, 0.5
#: What a terminal understands: clear the rest of the line.
_REST_OF_LINE = "\x1b[K"


class ProgressMeter(contextlib.AbstractContextManager["ProgressMeter"]):
    """A count of items that are done, shown as it grows; a context manager.

    Args:
        show: Shows a line; the last one is empty.
        total: How many there will be; None if that is not known.
        line_seconds: The time between two lines; ``math.inf`` for none.

    Attributes:
        done: How many are done.
        noun: What they are.
    """

    def __init__(
        self,
        show: Callable[[str], None],
        total: int | None,
        *,
        line_seconds: float = _SECONDS_BETWEEN_LINES,
    ) -> None:
        self.done, self.noun = 0, "item"
        self._show = show
        self._total = total
        self._line_seconds = line_seconds
        self._begun_at = self._noted_at = monotonic()

    def __exit__(self, *_: object) -> None:
        self._show("")

    def advance(self, count: int) -> None:
        """Add items that are done."""
        self.done += count
        now = monotonic()
        if now - self._noted_at >= self._line_seconds:
            self._noted_at = now
            self._show(self._line(now - self._begun_at))

    def expect(self, total: int) -> None:
        """Set how many there will be, as far as that is known now."""
        self._total = total

    def _line(self, seconds: float) -> str:
        rate = self.done / max(seconds, 1e-9)
        text = f"{counted(self.done, self.noun)}, {rate:,.0f} per second"
        if self._total is None or self.done > self._total:
            return text
        left = (self._total - self.done) / max(rate, 1e-9)
        return f"{text}, {self._total:,} in total, {left:,.0f} seconds left"


class Console:
    """The two streams of a command.

    Args:
        stdout: Where results go.
        stderr: Where notes, progress and questions go.
        is_process: Whether they are this process's own, not those of a calling program.
        is_quiet: Whether to leave out notes and progress.
        as_json: Whether results are JSON.
        asks: Whether to ask before something that cannot be undone: not with ``--no-input``.
        style: Django's styles, of which tables use some.
        forces_color: Whether tables are coloured even if there is no terminal.
    """

    def __init__(
        self,
        stdout: OutputWrapper,
        stderr: OutputWrapper,
        *,
        is_process: bool,
        is_quiet: bool,
        as_json: bool,
        asks: bool,
        style: Style,
        forces_color: bool,
    ) -> None:
        self._style = style if forces_color or stdout.isatty() else no_style()
        self._stdout = stdout
        self._stderr = stderr
        self._is_process = is_process
        self._is_quiet = is_quiet
        #: Whether results are JSON.
        self.as_json = as_json
        #: Whether it asks before something that cannot be undone.
        self.asks = asks
        self._noted_pauses: set[str] = set()
        #: Whether the terminal's last line is one of progress.
        self._has_progress = False
        #: How many lines have been printed.
        self.lines_printed = 0

    @property
    def is_terminal(self) -> bool:
        """Whether results are shown at a terminal."""
        return self._stdout.isatty()

    def paint(self, text: str, style: str) -> str:
        """Return a text in a style of Django's, if colours are wanted."""
        return str(getattr(self._style, style)(text))

    def print_lines(self, lines: Iterable[str]) -> None:
        """Print results, and flush each line: what counts as printed has left this process.

        Raises:
            OutputFailed: A line cannot be written; :attr:`lines_printed` were.
        """
        try:
            for line in lines:
                self._print(line)
                self.lines_printed += 1
        except (OSError, KeyboardInterrupt) as error:
            self._abandon_output()
            reason = error.strerror if isinstance(error, OSError) else "interrupted"
            raise OutputFailed(reason=reason) from error

    def report(self, record: dict[str, Any], text: str) -> None:
        """Print the one result of a command; if that fails, the error says what was done.

        If the reader of standard output has closed it, the result goes to standard error.

        Args:
            record: The result for ``--json``.
            text: The result for people.
        """
        try:
            self.print_lines([formats.json_line(record) if self.as_json else text])
        except OutputFailed as error:
            if error.is_by_reader:
                self.note(text)
                return
            raise command_error(error, f"{text} {error}.") or error from error

    def note(self, text: str) -> None:
        """Print a line for people, unless ``--verbosity 0`` is given."""
        if self._is_quiet:
            return
        self._overwrite("")
        with contextlib.suppress(OSError):  # its reader may have closed it
            self._stderr.write(text, style_func=str)

    def note_pauses(self, source: Queue | SeveralQueues) -> bool:
        """Note which queues are paused, once for each command; tell whether all of them are."""
        queues = [source] if isinstance(source, Queue) else source.queues(limit=_MAX_LOOKED_AT)
        found = [(queue, pause) for queue in queues if (pause := queue.paused()) is not None]
        for queue, pause in found:
            what = f"The queue {queue.name!r} is {paused_since(pause)}"
            if pause.family is not None:  # said once for all members
                own = replace(pause, family=None)
                what = f"The family {pause.family!r} is {paused_since(own)}"
            text = (
                f"{what}\nNothing is taken from it until it is resumed: manage.py "
                f"{resume_command(queue.name, pause)}"
            )
            if text not in self._noted_pauses:
                self._noted_pauses.add(text)
                self.note(text)
        return len(found) == len(queues)

    def progress_meter(
        self, total: int | None, *, overwrites: bool = True, lines: bool = True
    ) -> ProgressMeter:
        """Return what shows the progress of a long command.

        Args:
            total: How many items there will be; None if that is not known.
            overwrites: Whether a terminal may have one line that is overwritten.
            lines: Whether there may be one line after the other elsewhere.
        """
        if overwrites and self._is_process and not self._is_quiet and self._stderr.isatty():
            return ProgressMeter(self._overwrite, total, line_seconds=_SECONDS_AT_A_TERMINAL)
        seconds = _SECONDS_BETWEEN_LINES if lines else math.inf
        return ProgressMeter(self._note_progress, total, line_seconds=seconds)

    def _note_progress(self, line: str) -> None:
        if line:
            self.note(line)

    def _overwrite(self, line: str) -> None:
        """Show a line of progress over the one before; an empty one leaves none."""
        if not line and not self._has_progress:
            return
        self._has_progress = bool(line)
        shown = line[: shutil.get_terminal_size().columns - 1]  # a line that wraps would stay
        with contextlib.suppress(OSError):
            self._stderr.write(f"\r{shown}{_REST_OF_LINE}", style_func=str, ending="")
            self._stderr.flush()

    def confirm(self, question: str) -> None:
        """Ask before something is done that cannot be undone, unless ``--no-input`` is given.

        Args:
            question: What will be done, ending with a question mark.

        Raises:
            CommandError: The answer was not yes, or there is no terminal to ask on.
        """
        if not self.asks:
            return
        if sys.stdin is None or not sys.stdin.isatty():
            raise usage_error(
                f"{question} There is no terminal to ask on: use --no-input to go ahead."
            )
        self._stderr.write(f"{question} Type 'yes' to continue: ", style_func=str, ending="")
        self._stderr.flush()
        if sys.stdin.readline().strip().lower() != "yes":
            raise failure("Nothing was changed.")

    @contextlib.contextmanager
    def steps(
        self, total: int | None, done: str, noun: str = "item"
    ) -> Iterator[Callable[[int], None]]:
        """Do a long command transaction by transaction, so that Ctrl-C stops it between two.

        Yields a function to be called after each transaction, with its number of items.

        Args:
            total: How many items there are; None if that is not known.
            done: What is done to them, such as ``"removed"``.
            noun: What they are.

        Raises:
            CommandError: Something stopped it; the message says how many items were done.
        """

        def explain(error: BaseException) -> str:
            return f"{error_text(error).rstrip('.')}. {counted(progress.done, noun)} {done}."

        with (
            defer_interrupts() as interrupts,
            self.progress_meter(total) as progress,
            explain_errors(explain),
        ):
            progress.noun = noun

            def finish_step(count: int) -> None:
                progress.advance(count)
                with interrupts.allowed():
                    pass

            yield finish_step

    def check_output(self) -> None:
        """Refuse to continue when standard output cannot be read by any process.

        Raises:
            OutputFailed: Standard output is closed, or the pipe's reader has closed it.
        """
        if self._is_process and _is_closed(sys.stdout):
            raise OutputFailed(reason="it is closed" if sys.stdout is None else None)

    def _print(self, line: str) -> None:
        if self._is_process and sys.stdout is None:
            raise OSError(errno.EBADF, "it is closed")
        try:
            self._stdout.write(line)
        except UnicodeEncodeError:
            self._stdout.write(line.encode("ascii", "backslashreplace").decode())
        self._stdout.flush()

    def _abandon_output(self) -> None:
        """Keep Python from writing what is left once more when it exits."""
        if self._is_process and sys.stdout is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)


def _is_closed(stream: Any) -> bool:
    if stream is None:
        return True
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
