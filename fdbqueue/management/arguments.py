"""Arguments that several commands have, each defined once; and the types of arguments.

Call the ``add_`` functions in the order in which ``--help`` should list the arguments. The types
are for ``parser.add_argument(type=...)``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from fdbqueue.exceptions import InvalidInput
from fdbqueue.management import item_lines
from fdbqueue.service import BATCH_ITEMS, MAX_ITEMS, MAX_UNIQUE_BYTES, MAX_WORKER_CHARACTERS

ENGINE_TIMEOUT_SECONDS = 60.0
LEASE_SECONDS = 60
_MAX_SECONDS = 31_536_000


def add_queue(parser: argparse.ArgumentParser) -> None:
    """Add ``NAME``."""
    parser.add_argument("name", metavar="NAME", help="Name of the queue")


def add_queues(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add ``[NAME ...]``, or ``NAME [NAME ...]`` if one is required."""
    default = "" if required else " (default: all queues)"
    parser.add_argument(
        "names",
        metavar="NAME",
        nargs="+" if required else "*",
        help=f"Names of the queues{default}",
    )


def add_ids(parser: argparse.ArgumentParser) -> None:
    """Add ``ID [ID ...]``."""
    parser.add_argument("ids", metavar="ID", nargs="+", help="Ids of the items")


def add_end(parser: argparse.ArgumentParser) -> None:
    """Add ``--end``."""
    parser.add_argument(
        "--end",
        choices=["min", "max"],
        default="min",
        help="The end to start from: min (default) is the lowest priority, earliest pushed; max is "
        "the opposite end",
    )


def add_limit(parser: argparse.ArgumentParser, *, default: int | None = None) -> None:
    """Add ``--limit``; without a default there is none."""
    shown = "all" if default is None else default
    parser.add_argument(
        "--limit",
        type=whole_number(),
        default=default,
        metavar="N",
        help=f"Stop after N items (default: {shown})",
    )


def add_reason(parser: argparse.ArgumentParser, about: str, *, default: str | None = None) -> None:
    """Add ``--reason``; ``about`` is its help."""
    parser.add_argument("--reason", default=default, metavar="TEXT", help=about)


def add_reason_of_dead(parser: argparse.ArgumentParser, verb: str) -> None:
    """Add the ``--reason`` that chooses dead letters."""
    what = f"{verb} of this reason: its first line, as queue_list --by-reason prints it"
    add_reason(parser, what)


def add_batch(parser: argparse.ArgumentParser) -> None:
    """Add ``--batch``."""
    parser.add_argument(
        "--batch",
        type=whole_number(most=MAX_ITEMS),
        default=BATCH_ITEMS,
        metavar="N",
        help="Put at most N items, and at most about a megabyte, in one transaction "
        f"(default: {BATCH_ITEMS}, at most {MAX_ITEMS})",
    )


def add_lease_seconds(parser: argparse.ArgumentParser, about: str) -> None:
    """Add ``--lease-seconds``; ``about`` begins its help."""
    parser.add_argument(
        "--lease-seconds",
        type=seconds,
        default=LEASE_SECONDS,
        metavar="N",
        help=f"{about} after N seconds (default: {LEASE_SECONDS})",
    )


def add_follow(parser: argparse.ArgumentParser) -> None:
    """Add ``--follow``."""
    parser.add_argument(
        "--follow",
        action="store_true",
        help="Wait for more items when there are none, until Ctrl-C",
    )


def add_json(parser: argparse.ArgumentParser, *, each_line: bool = False) -> None:
    """Add ``--json``.

    Args:
        parser: The command's parser.
        each_line: Whether the command prints many objects, not a single result.
    """
    what = "one JSON object per line" if each_line else "the result as JSON"
    parser.add_argument("--json", action="store_true", dest="as_json", help=f"Print {what}")


def add_no_input(parser: argparse.ArgumentParser) -> None:
    """Add ``--no-input``, for :meth:`Console.confirm`."""
    parser.add_argument(
        "--no-input",
        "--noinput",
        action="store_false",
        dest="interactive",
        help="Do not ask for confirmation; required if there is no terminal",
    )


def add_engine_timeout(parser: argparse.ArgumentParser) -> None:
    """Add ``--engine-timeout``; :class:`QueueCommand` does."""
    parser.add_argument(
        "--engine-timeout",
        type=positive_seconds,
        default=ENGINE_TIMEOUT_SECONDS,
        metavar="SECONDS",
        help="Give up (exit code 4) when a transaction takes longer than SECONDS "
        f"(default: {ENGINE_TIMEOUT_SECONDS:g})",
    )


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
