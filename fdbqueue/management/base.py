"""The base class of the queue commands: their options, queues, console and exit codes.

Commands that do the same to each of several queues, or of several items, have it from here, too.
"""

from __future__ import annotations

import argparse
import functools
import gc
import logging
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NoReturn, TypeVar

from django.core.management.base import (
    BaseCommand,
    CommandError,
    CommandParser,
    DjangoHelpFormatter,
    OutputWrapper,
)

from fdbqueue import conf, verbs
from fdbqueue.columns.text import clipped, counted, printable, short_time
from fdbqueue.deadlines import TimedDatabase
from fdbqueue.exceptions import ItemNotFound, ItemNotReady, QueueNotFound
from fdbqueue.management.arguments import ENGINE_TIMEOUT, Argument, OneOf
from fdbqueue.management.console import Console
from fdbqueue.management.exit_codes import (
    FAILED,
    NO_SUCH_QUEUE,
    OutputFailed,
    command_error,
    error_text,
    explain_errors,
    failure,
    usage_error,
)
from fdbqueue.management.formats import item_count
from fdbqueue.service import Catalog, Family, Queue, SeveralQueues, run

_NAMES_IN_HINT = 20
_REASONS_IN_HINT = 5
#: The last of the descriptors of standard streams.
_STANDARD_ERROR = 2
#: For loggers whose warnings a command raises, too, and prints: a project without a log sees one.
_SAID_TWICE = logging.NullHandler()
#: How the usage writes an argument, by how many times it may be given.
_FORMS: dict[Any, str] = {None: "{0}", "?": "[{0}]", "*": "[{0} ...]", "+": "{0} [{0} ...]"}


class _HelpFormatter(DjangoHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keep the lines of the examples, and list Django's own options last."""


#: Queues, families, or both, that a command changes.
Changed = TypeVar("Changed", bound=Queue | Family)


class QueueCommand(BaseCommand):
    """A command on queues; its errors are CommandErrors with fdbqueue's exit codes.

    System checks do not run: the setting is checked when it is used, and a command that
    others read from must not fail because of another app.
    """

    #: Its arguments, in the order in which ``--help`` lists them.
    takes: ClassVar[Sequence[Argument | OneOf]]
    #: Shown at the end of ``--help``.
    examples: ClassVar[str]
    #: Whether its reader, such as ``head``, may stop early without an error.
    allows_closed_output: ClassVar[bool] = False
    requires_system_checks = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the command as a process of its own, also if its standard streams are closed."""
        _fill_closed_descriptors()
        if sys.stderr is None:
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # until the process ends
            self.stderr = OutputWrapper(sys.stderr)
        logging.getLogger("fdbqueue.engines.foundationdb").addHandler(_SAID_TWICE)
        super().run_from_argv(argv)

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Add to the parser what all commands have: the examples, and ``--engine-timeout``."""
        width = shutil.get_terminal_size().columns - 2  # which argparse asks for again and again
        parser = super().create_parser(
            prog_name,
            subcommand,
            epilog=self.examples,
            formatter_class=functools.partial(_HelpFormatter, width=width),
            **kwargs,
        )
        parser.description = textwrap.fill(self.help, width)
        ENGINE_TIMEOUT.add(parser)
        parser.usage = _usage(parser)
        if not self.is_process:  # a program gets the exit code that a terminal gets
            parser.error = _refuse  # type: ignore[method-assign]  # Django names the class itself
        return parser

    def add_arguments(self, parser: CommandParser) -> None:
        """Add what the command takes."""
        for one in self.takes:
            one.add(parser)

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command, and give each error its exit code."""
        self._given = options
        if os.environ.get("NO_COLOR") and not options["force_color"]:
            options["no_color"] = True
        self._catalog: Catalog | None = None
        self._console: Console | None = None
        if self.is_process:
            gc.freeze()  # Django's objects stay: the collector need not look at them again
        try:
            return super().execute(*args, **options)
        except CommandError:
            raise
        except (Exception, KeyboardInterrupt) as error:
            if self._ends_quietly(error):
                return None
            ended = command_error(error)
            if ended is None:
                raise
            raise ended from error

    def _ends_quietly(self, error: BaseException) -> bool:
        """Tell whether an error is none: a reader, such as ``head``, has had enough.

        Raises:
            SystemExit: The command had more to do than to show what is there.
        """
        if not isinstance(error, OutputFailed) or not error.is_by_reader:
            return False
        if not self.allows_closed_output and self.is_process:
            raise SystemExit(FAILED) from error
        return self.allows_closed_output

    @property
    def console(self) -> Console:
        """What the command prints and asks."""
        if self._console is None:
            self._console = Console(
                self.stdout,
                self.stderr,
                is_process=self.is_process,
                is_quiet=self._given["verbosity"] == 0,
                as_json=self._given.get("as_json", False),
                asks=self._given.get("interactive", True),
                style=self.style,
                forces_color=self._given["force_color"],
            )
        return self._console

    @property
    def catalog(self) -> Catalog:
        """The queues of the setting; their transactions end after ``--engine-timeout``."""
        if self._catalog is None:
            catalog, seconds = conf.catalog(), self._given["engine_timeout"]
            self._catalog = catalog.over(TimedDatabase(catalog.database, lambda: seconds))
        return self._catalog

    def queue(self, name: str) -> Queue:
        """Return the queue with a name.

        Raises:
            CommandError: There is none, and the message names those there are; or it is a pattern;
                or it is a part of another queue, and nothing was ever pushed into it.
        """
        if "*" in name:
            text = clipped(repr(name))
            raise usage_error(f"{text} is a pattern: give the name of a queue.")
        try:
            queue = self.catalog.queue(name)
        except QueueNotFound as error:
            raise self._not_found(error) from error
        begin_stored = queue.overview.begin_stored
        if queue.is_part and not run(queue.database, lambda tr: begin_stored(tr)(), read_only=True):
            message = (
                f"There is no queue named {name!r}: nothing was ever pushed into it. queue_doctor "
                "--json names all queues; on the pages, the name is among a queue's settings."
            )
            raise CommandError(message, returncode=NO_SUCH_QUEUE)
        return queue

    def queue_or_several(self, name: str, ids: Sequence[str] | None) -> Queue | SeveralQueues:
        """Return the queue with a name, or the queues that fit a pattern, which take no ids.

        Raises:
            CommandError: There is none, or there are ids of a pattern.
        """
        if "*" not in name:
            return self.queue(name)
        if ids:
            raise usage_error("--id needs the name of one queue.")
        try:
            return self.catalog.several([name])
        except QueueNotFound as error:
            raise self._not_found(error) from error

    def takeable(self, name: str) -> Queue:
        """Return the queue with a name, to take its items.

        Raises:
            CommandError: As of :meth:`queue`.
            QueueOwned: An app owns it.
        """
        queue = self.queue(name)
        verbs.check_takeable(queue)
        return queue

    def source(self, names: Sequence[str], *, fair: bool | None) -> Queue | SeveralQueues:
        """Return a queue, or several if there is more than one name, or a pattern, to take from.

        Raises:
            CommandError: There cannot be a queue with one of the names.
            QueueOwned: An app owns one that is named.
        """
        if len(names) == 1 and "*" not in names[0] and not fair:
            return self.takeable(names[0])
        try:
            for name in names:
                if "*" not in name:
                    verbs.check_takeable(self.catalog.queue(name))
            return self.catalog.several(names, fair=fair, with_owned=False)
        except QueueNotFound as error:
            raise self._not_found(error) from error

    def family(self, name: str) -> Family:
        """Return the family with a name.

        Raises:
            CommandError: No pattern of the setting has this name.
        """
        try:
            return self.catalog.family(name)
        except QueueNotFound as error:
            names = ", ".join(family.name for family in self.catalog.families())
            known = f"It has {names}." if names else "It has no patterns."
            message = f"The setting has no pattern {clipped(repr(name))}. {known}"
            raise CommandError(message, returncode=NO_SUCH_QUEUE) from error

    def _not_found(self, error: QueueNotFound) -> CommandError:
        name = error.context["name"]
        closest = self.catalog.closest_name(name)
        hint = "" if closest is None else f"Did you mean {closest!r}? "
        message = f"There is no queue named {name!r}. {hint}{_known_names()}"
        return CommandError(message, returncode=NO_SUCH_QUEUE)

    def queues(self, names: Iterable[str]) -> list[Queue]:
        """Return the queues with these names, each once; all queues if no name is given.

        Raises:
            CommandError: There is no queue with one of the names.
        """
        wanted = dict.fromkeys(names)
        return [self.queue(name) for name in wanted] if wanted else self.catalog.queues()

    def listed(self) -> tuple[list[Queue], list[Family]]:
        """Return all queues that are no parts of others, and the families of those that are."""
        queues = [queue for queue in self.catalog.queues() if not queue.is_part]
        with_parts = (family for family in self.catalog.families() if family.has_parts)
        return queues, [one for one in with_parts if next(one.names(), None) is not None]

    def queues_and_families(self, names: Iterable[str]) -> list[Queue | Family]:
        """Return the queues with names, and the families with patterns, each once.

        Raises:
            CommandError: There is no queue, or no pattern of the setting, with one of the names.
        """
        wanted = dict.fromkeys(names)
        return [self.family(name) if "*" in name else self.queue(name) for name in wanted]

    def change_queues(
        self,
        queues: Sequence[Changed],
        change: Callable[[Changed], tuple[dict[str, Any], str]],
    ) -> None:
        """Change queues one after the other, and report each.

        Args:
            queues: The queues.
            change: Changes one, and returns what to print, for programs and for people.

        Raises:
            CommandError: Something stopped it; the message says how many queues were done.
        """
        done = 0
        total = counted(len(queues), "queue")
        with explain_errors(lambda error: f"{error_text(error)}. {done} of {total} done before."):
            for queue in queues:
                record, text = change(queue)
                done += 1
                self.console.report(record, text)

    def change_items(
        self,
        queue: Queue,
        ids: Iterable[str],
        change: Callable[[str], None],
        *,
        done: str,
    ) -> None:
        """Change items, each in a transaction of its own, and print how many there were.

        Args:
            queue: The queue.
            ids: The ids; repeated ones count once.
            change: Called with each id.
            done: What is done, such as ``"removed"``.

        Raises:
            CommandError: An item was not found, or not ready; the others were done.
        """
        missing, unready = [], []
        unique = list(dict.fromkeys(ids))
        with self.console.steps(len(unique), done) as finish_step:
            for item_id in unique:
                try:
                    change(item_id)
                except ItemNotReady as error:
                    unready.append(item_id)
                    until, worker = error.context["until"], error.context["worker"]
                    state = error.context["state"] + (f" by {worker}" if worker else "")
                    state += f" until {short_time(until)} UTC" if until else ""
                    self.console.note(printable(f"Item {item_id} is {state}, not ready."))
                except ItemNotFound:
                    missing.append(item_id)
                    self.console.note(f"Item {printable(item_id)} was not found.")
                else:
                    finish_step(1)
        number = len(unique) - len(missing) - len(unready)
        record = {"queue": queue.name, done: number, "not_found": missing}
        self.console.report(
            {**record, "not_ready": unready} if unready else record,
            f"{done.capitalize()} {item_count(number)} in {queue.name!r}.",
        )
        left = {"not found": missing, "not ready": unready}
        texts = [f"{item_count(len(ids))} {why}" for why, ids in left.items() if ids]
        if texts:
            raise failure(f"{', '.join(texts)}.")

    def return_items(
        self,
        of: Queue | SeveralQueues,
        state: str,
        question: str,
        done: str,
        work: Callable[..., int],
        ids: Sequence[str] | None,
    ) -> None:
        """Return items of a hidden state to their places, after a question, and print how many.

        Args:
            of: The queue, or the queues.
            state: The state; nothing is asked or done if no item has it.
            question: What is asked, with a place for the ``items``: how many have the state.
            done: What is done, such as ``"made ready"``.
            work: Does it; called with what notes the progress, and with the ids, if there are any.
            ids: Ids of the items; None for others.
        """
        number = getattr(of.counts(), state) if isinstance(of, Queue) else of.count(state)
        number = min(number, len(set(ids))) if ids else number
        count = 0
        if number > 0:
            self.console.confirm(question.format(items=item_count(number, state)))
            with self.console.steps(None, done) as finish_step:
                count = work(finish_step, **({"ids": ids} if ids else {}))
        text = f"{done.capitalize()}: {item_count(count)} in {of.name!r}."
        self.console.report({"queue": of.name, done.replace(" ", "_"): count}, text)

    def check_reason(self, queue: Queue, reason: str | None, done: int) -> None:
        """Check that a command that was given a reason of dead letters found some of it.

        Args:
            queue: The queue.
            reason: The reason; None if the command was for all.
            done: How many dead letters it was done to.

        Raises:
            CommandError: None has this reason, but others are dead; the message says their reasons.
        """
        if reason is None or done or not (found := queue.dead_by_reason(limit=_REASONS_IN_HINT)):
            return
        known = ", ".join(f'"{clipped(one.reason)}" ({one.count:,})' for one in found)
        raise failure(
            f'No dead letter in {queue.name!r} has the reason "{clipped(reason)}". The most '
            f"frequent are {known}: see queue_list {queue.name} --by-reason."
        )

    @property
    def is_process(self) -> bool:
        """Whether the command is a process of its own, not called by a program."""
        return getattr(self, "_called_from_command_line", False)


def _fill_closed_descriptors() -> None:
    """Open the descriptors of closed streams, or the engine's next files would get their numbers.

    Then what a task's subprocess prints would be written there.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
        os.set_inheritable(number, True)
    os.close(number)


def _refuse(message: str) -> NoReturn:
    raise usage_error(f"Error: {message}")


def _usage(parser: CommandParser) -> str:
    """Return the usage in one line: ``--help`` lists the options anyway."""
    actions = parser._actions  # noqa: SLF001  # argparse has no other way to them
    positional = [action for action in actions if not action.option_strings]
    arguments_of = [_FORMS[action.nargs].format(action.metavar) for action in positional]
    return " ".join([parser.prog, "[options]", *arguments_of])


def _known_names() -> str:
    """Return a hint; from the setting, because millions of names may fit its patterns."""
    names = conf.own_names()
    if not names:
        return f"{conf.SETTING}['QUEUES'] is empty."
    more = f" and {len(names) - _NAMES_IN_HINT} more" if len(names) > _NAMES_IN_HINT else ""
    return f"The setting {conf.SETTING} has {', '.join(names[:_NAMES_IN_HINT])}{more}."
