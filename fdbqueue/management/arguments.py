"""Arguments that several commands have, each declared once; and the types of arguments.

A command names its arguments in ``takes``, in the order in which ``--help`` lists them. What it
says otherwise of one is in :meth:`Argument.but`. The types are for ``type=...``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from fdbqueue.exceptions import InvalidInput
from fdbqueue.management import item_lines
from fdbqueue.service import BATCH_ITEMS, MAX_ITEMS_A_CALL, MAX_UNIQUE_BYTES, MAX_WORKER_CHARACTERS

_MAX_SECONDS = 31_536_000


class Argument:
    """An argument or an option of commands, declared as ``parser.add_argument`` takes it."""

    def __init__(self, *names: str, **options: Any) -> None:
        self._names = names
        self._options = options

    def but(self, **options: Any) -> Argument:
        """Return the same argument with other options."""
        return Argument(*self._names, **{**self._options, **options})

    def add(self, parser: Any) -> None:
        """Add it to a parser, or to a group of one."""
        parser.add_argument(*self._names, **self._options)


def flag(name: str, about: str, **options: Any) -> Argument:
    """Return an option without a value."""
    return Argument(name, action="store_true", help=about, **options)


class OneOf:
    """Arguments of which one at most may be given."""

    def __init__(self, *arguments: Argument, title: str = "") -> None:
        self._arguments = arguments
        self._title = title

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Add them to a parser, below their title if they have one."""
        place = parser.add_argument_group(self._title) if self._title else parser
        group = place.add_mutually_exclusive_group()
        for one in self._arguments:
            one.add(group)


def whole_number(least: int = 1, most: int | None = None) -> Callable[[str], int]:
    """Return the type of a whole number in a range."""

    def number(text: str) -> int:  # argparse shows this name in its message
        found = int(text)
        if found < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        if most is not None and found > most:
            raise argparse.ArgumentTypeError(f"{text} is more than {most}")
        return found

    return number


def json_number(text: str) -> int | float:
    """Return the number in a text as JSON has it; integers are exact.

    Raises:
        ArgumentTypeError: It is not a JSON number.
    """
    try:
        found = item_lines.parse(text)
    except InvalidInput as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from error
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return found


def worker_name(text: str) -> str:
    """Return the name of a worker.

    Raises:
        ArgumentTypeError: It is not one.
    """
    if not 1 <= len(text) <= MAX_WORKER_CHARACTERS or not text.isprintable():
        allowed = f"1 to {MAX_WORKER_CHARACTERS} printable characters"
        raise argparse.ArgumentTypeError(f"the name of a worker has {allowed}")
    return text


def unique_key(text: str) -> str:
    """Return a unique key.

    Raises:
        ArgumentTypeError: It is empty or too long.
    """
    if not 1 <= len(text.encode(errors="surrogatepass")) <= MAX_UNIQUE_BYTES:
        raise argparse.ArgumentTypeError(f"it must have 1 to {MAX_UNIQUE_BYTES:,} bytes in UTF-8")
    return text


def seconds(text: str) -> float:
    """Return a length of time.

    Raises:
        ArgumentTypeError: It is not between 0 and a year.
    """
    number = float(text)
    if not 0 <= number <= _MAX_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and {_MAX_SECONDS}")
    return number


def positive_seconds(text: str) -> float:
    """Return a length of time that is more than 0.

    Raises:
        ArgumentTypeError: It is 0, or not between 0 and a year.
    """
    number = seconds(text)
    if number == 0:
        raise argparse.ArgumentTypeError("it must be more than 0")
    return number


seconds.__name__ = positive_seconds.__name__ = "number"  # argparse shows it in its message


QUEUE = Argument("name", metavar="NAME", help="Name of the queue")
QUEUE_OR_PATTERN = QUEUE.but(help="Name of the queue, or a pattern of names")
QUEUES = Argument("names", metavar="NAME", nargs="+", help="Names of the queues")
QUEUES_OR_ALL = QUEUES.but(nargs="*", help="Names of the queues (default: all queues)")
IDS = Argument("ids", metavar="ID", nargs="+", help="Ids of the items")
#: Ids that are an option, in place of all items.
ID = Argument(
    "--id",
    action="append",
    dest="ids",
    metavar="ID",
    help="Do it to the item with this id alone; may be repeated",
)
END = Argument(
    "--end",
    choices=["min", "max"],
    default="min",
    help="The end to start from: min (default) is the lowest priority, earliest pushed; max is "
    "the opposite end",
)
LIMIT = Argument(
    "--limit", type=whole_number(), metavar="N", help="Stop after N items (default: all)"
)
ONE_UNLESS_LIMIT = LIMIT.but(default=1, help="Stop after N items (default: 1)")
REASON = Argument("--reason", metavar="TEXT")
BATCH = Argument(
    "--batch",
    type=whole_number(most=MAX_ITEMS_A_CALL),
    default=BATCH_ITEMS,
    metavar="N",
    help="Put at most N items, and at most about a megabyte, in one transaction "
    f"(default: {BATCH_ITEMS}, at most {MAX_ITEMS_A_CALL})",
)
FOLLOW = flag("--follow", "Wait for more items when there are none, until Ctrl-C")
#: What both workers take.
UNTIL_EMPTY = flag("--until-empty", "End when there is nothing more to take")
WORKER = Argument(
    "--worker",
    type=worker_name,
    metavar="TEXT",
    help="Name of this worker, shown with what it holds (default: HOST:PID)",
)
THREADS = Argument("--threads", type=whole_number(most=256), default=1, metavar="N")
JSON = flag("--json", "Print the result as JSON", dest="as_json")
JSON_LINES = flag("--json", "Print one JSON object per line", dest="as_json")
#: For :meth:`Console.confirm`.
NO_INPUT = Argument(
    "--no-input",
    "--noinput",
    action="store_false",
    dest="interactive",
    help="Do not ask for confirmation; required if there is no terminal",
)
#: Which all commands have.
ENGINE_TIMEOUT = Argument(
    "--engine-timeout",
    type=positive_seconds,
    default=60.0,
    metavar="SECONDS",
    help="Give up (exit code 4) when a transaction takes longer than SECONDS (default: 60)",
)


def reason_of_dead(verb: str) -> Argument:
    """Return the ``--reason`` that chooses dead letters, by what is done to them."""
    what = (
        f"{verb} of this reason, as queue_list --by-reason prints it; exit code 1 if there are none"
    )
    return REASON.but(help=what)


def lease_seconds(about: str) -> Argument:
    """Return ``--lease-seconds``; ``about`` begins its help."""
    return Argument(
        "--lease-seconds",
        type=seconds,
        default=60,
        metavar="N",
        help=f"{about} after N seconds (default: 60)",
    )
