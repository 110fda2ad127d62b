"""Names and options of version 1.0 that work until 2.0: each says what to write now.

A command that has another name now is one line in ``commands``, made by :func:`former_name`. The
options of ``queue_drain`` that are commands of their own now, ``--to`` and ``--handler`` with what
belongs to them, are not in its ``--help``.
"""

from __future__ import annotations

from argparse import SUPPRESS, BooleanOptionalAction
from typing import Any

from django.core.management import call_command, load_command_class
from django.core.management.base import CommandParser

from fdbqueue.management.arguments import (
    Argument,
    json_number,
    seconds,
    whole_number,
    worker_name,
)
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.emptying import Emptying
from fdbqueue.management.exit_codes import usage_error

#: The former destinations of ``queue_drain``, and its options that need one of them.
DESTINATIONS = (Argument("--to", help=SUPPRESS), Argument("--handler", help=SUPPRESS))
OF_DESTINATIONS = (
    Argument("--priority", type=json_number, help=SUPPRESS),
    Argument("--concurrency", type=whole_number(), help=SUPPRESS),
    Argument("--retry-delay", type=seconds, help=SUPPRESS),
    Argument("--fair", action=BooleanOptionalAction, help=SUPPRESS),
    Argument("--worker", type=worker_name, help=SUPPRESS),
)
#: The commands that have those options now.
_HAVE_THEM = {
    "priority": "queue_move",
    "concurrency": "queue_work",
    "retry_delay": "queue_work",
    "fair": "queue_work",
    "worker": "queue_work",
}


def former_name(name: str, instead: str, **given: Any) -> type[QueueCommand]:
    """Return the command that a former name stands for.

    Args:
        name: The former name.
        instead: The command to write, with its option, as in ``"queue_list --rates"``.
        given: What else the command is called with.
    """
    command, option = instead.split(" --")

    class Command(QueueCommand):
        help = f"The former name of {instead}; it works until version 2.0."
        examples = f"examples:\n  manage.py {instead}\n"

        def add_arguments(self, parser: CommandParser) -> None:
            load_command_class("fdbqueue", command).add_arguments(parser)

        def handle(self, *args: Any, **options: Any) -> None:
            _note(self, name, instead)
            _run(self, command, {**options, option: True, **given}, options["names"])

    return Command


def drains_elsewhere(drain: QueueCommand, options: dict[str, Any]) -> bool:
    """Move the items, or call a function with each, if ``queue_drain`` is to do so.

    Raises:
        CommandError: An option is given that only a move or a worker has.
    """
    names, to, handler = options["names"], options["to"], options["handler"]
    if to is None and handler is None:
        for option, command in _HAVE_THEM.items():
            if options[option] is not None:
                flag = option.replace("_", "-")
                raise usage_error(f"--{flag} is an option of {command}, not of queue_drain.")
        if len(names) > 1:
            raise usage_error("Name one queue: queues are drained one by one.")
        return False
    if options["dry_run"]:
        source = drain.source(names, fair=options["fair"])
        limit, follow = options["limit"], options["follow"]
        emptying = Emptying(source, drain.console, limit=limit, follow=follow)
        emptying.report_expected(to or handler)
    elif to is not None:
        _note(drain, "queue_drain --to", "queue_move NAME TO --no-input")
        _run(drain, "queue_move", {**options, "interactive": False}, [*names, to])
    else:
        _note(drain, "queue_drain --handler", "queue_work NAME --handler PATH")
        _run(drain, "queue_work", options, names)
    return True


def _note(command: QueueCommand, former: str, instead: str) -> None:
    text = f"{former} is deprecated, and works until version 2.0: write {instead}."
    command.console.note(text)


def _run(former: QueueCommand, name: str, options: dict[str, Any], names: list[str]) -> None:
    """Run a command in place of a former one, with the options that are given."""
    command = load_command_class("fdbqueue", name)
    vars(command)["_called_from_command_line"] = former.is_process
    parser = command.create_parser("manage.py", name)
    actions = parser._actions  # noqa: SLF001  # argparse has no other list of them
    known = {action.dest for action in actions if action.option_strings}
    known |= {*command.stealth_options, *command.base_stealth_options}
    given = {key: options[key] for key in known & options.keys() if options[key] is not None}
    call_command(command, *names, **given)
