"""Print the results, notes, progress and questions of a command."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from django.core.management.base import OutputWrapper

from fdbqueue.management import formats
from fdbqueue.management.exit_codes import (
    OutputFailed,
    command_error,
    error_text,
    explain_errors,
    failure,
    usage_error,
)
from fdbqueue.management.progress import LINE_SECONDS, Progress, terminal_bar
from fdbqueue.management.signals import defer_interrupts


class Console:
    """The two streams of a command: standard output has results, standard error all else.

    Args:
        stdout: Where results go.
        stderr: Where notes, progress and questions go.
        is_process: Whether they are this process's own, not those of a calling program.
        is_quiet: Whether to leave out notes and progress.
    """

    def __init__(
        self, stdout: OutputWrapper, stderr: OutputWrapper, *, is_process: bool, is_quiet: bool
    ) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self._is_process = is_process
        self._is_quiet = is_quiet
        self._noted: set[str] = set()
        #: How many lines have been printed.
        self.lines_printed = 0

    @property
    def is_terminal(self) -> bool:
        """Whether results are shown at a terminal."""
        return self._stdout.isatty()

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

    def report(self, record: dict[str, Any], text: str, *, as_json: bool) -> None:
        """Print the one result of a command; if that fails, the error says what was done.

        Args:
            record: The result for ``--json``.
            text: The result for people.
            as_json: Which of the two to print.
        """
        try:
            self.print_lines([formats.json_line(record) if as_json else text])
        except OutputFailed as error:
            raise command_error(error, f"{text} {error}.") or error from error

    def note(self, text: str) -> None:
        """Print a line for people, unless ``--verbosity 0`` is given."""
        if not self._is_quiet:
            self._stderr.write(text, style_func=str)

    def note_once(self, text: str) -> None:
        """Print a line for people, if the command has not printed the same before."""
        if text not in self._noted:
            self._noted.add(text)
            self.note(text)

    def progress(
        self, name: str, total: int | None, *, bar: bool = True, lines: bool = True
    ) -> Progress:
        """Return what shows the progress of a long command.

        Args:
            name: The queue's name.
            total: How many items there will be; None where that is not known.
            bar: Whether a bar may be drawn, and not only lines.
            lines: Whether lines may be printed where there is no bar.
        """
        draws = bar and self._is_process and not self._is_quiet
        drawn = terminal_bar(name, total) if draws else None
        return Progress(self.note, total, drawn, line_seconds=LINE_SECONDS if lines else math.inf)

    def confirm(self, question: str, *, interactive: bool) -> None:
        """Ask before something is done that cannot be undone.

        Args:
            question: What will be done, ending with a question mark.
            interactive: False where ``--no-input`` was given.

        Raises:
            CommandError: The answer was not yes, or there is no terminal to ask on.
        """
        if not interactive:
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
    def steps(self, name: str, total: int | None, done: str) -> Iterator[Callable[[int], None]]:
        """Do a long command transaction by transaction, so that Ctrl-C stops it between two.

        Yields a function to be called after each transaction, with its number of items.

        Args:
            name: The queue's name.
            total: How many items there are; None where that is not known.
            done: What is done to them, such as ``"removed"``.

        Raises:
            CommandError: Something stopped it; the message says how many items were done.
        """

        def explain(error: BaseException) -> str:
            return f"{error_text(error)}. {formats.item_count(progress.done)} {done}."

        with (
            defer_interrupts() as interrupts,
            self.progress(name, total) as progress,
            explain_errors(explain),
        ):

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
            raise OutputFailed(reason="it is closed")

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
