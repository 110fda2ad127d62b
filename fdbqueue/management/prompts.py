"""Ask before something is done that cannot be undone."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from django.core.management.base import CommandError, CommandParser

from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exits import FAILED, USAGE, command_error, text_of
from fdbqueue.management.interrupts import held_interrupts
from fdbqueue.management.progress import Progress, terminal_bar


class PromptingCommand(QueueCommand):
    """A command that says what it is about to do, and asks."""

    def add_prompt_argument(self, parser: CommandParser) -> None:
        """Add ``--no-input``."""
        parser.add_argument(
            "--no-input",
            "--noinput",
            action="store_false",
            dest="interactive",
            help="do not ask; needed where there is no terminal to ask at",
        )

    def confirm(self, deed: str, *, interactive: bool) -> None:
        """Ask whether to do something.

        Args:
            deed: What will be done, as a sentence.
            interactive: False does not ask.

        Raises:
            CommandError: The answer was no, or there is no terminal to ask at.
        """
        if not interactive:
            return
        if sys.stdin is None or not sys.stdin.isatty():
            message = f"{deed} There is no terminal to ask at: give --no-input to do it."
            raise CommandError(message, returncode=USAGE)
        self.stderr.write(f"{deed} Type 'yes' to do it: ", style_func=str, ending="")
        self.stderr.flush()
        if sys.stdin.readline().strip().lower() != "yes":
            raise CommandError("Nothing was changed.", returncode=FAILED)

    @contextlib.contextmanager
    def step_by_step(self, name: str, total: int, done: str) -> Iterator[Callable[[int], None]]:
        """Give what is to be called after each transaction: Ctrl-C ends it there alone.

        Args:
            name: The queue's name.
            total: How many items there are to be done.
            done: What was done with them, as ``"were removed"``.

        Raises:
            CommandError: It was stopped; it says how many were done.
        """
        draws = self.verbosity > 0 and self._from_shell
        bar = terminal_bar(name, total) if draws else None
        with held_interrupts() as interrupts, Progress(self.note, total, bar) as progress:

            def note_step(count: int) -> None:
                progress.advance(count)
                with interrupts.let_in():
                    pass

            try:
                yield note_step
            except (Exception, KeyboardInterrupt) as error:
                message = f"{text_of(error)}. {items(progress.done)} {done}."
                raise command_error(error, message) or error from error


def items(count: int, state: str = "") -> str:
    """Return a number of items in words, as ``"1,707 dead items"``."""
    return f"{count:,} {state + ' ' if state else ''}item{'' if count == 1 else 's'}"
