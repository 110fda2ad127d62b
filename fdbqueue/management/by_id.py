"""Do something to each of some items, named by their ids."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from fdbqueue.exceptions import ItemNotFound
from fdbqueue.management.console import Console
from fdbqueue.management.exit_codes import failure
from fdbqueue.management.formats import item_count, visible
from fdbqueue.service import Queue


def add_ids(parser: argparse.ArgumentParser) -> None:
    """Add ``ID [ID ...]``."""
    parser.add_argument("ids", metavar="ID", nargs="+", help="Ids of the items")


def do_each(
    queue: Queue,
    ids: Sequence[str],
    act: Callable[[str], None],
    console: Console,
    *,
    done: str,
    as_json: bool,
) -> None:
    """Do something to each item, in a transaction of its own, and print how many there were.

    Args:
        queue: The queue.
        ids: The ids; repeated ones count once.
        act: Called with each id.
        console: What to print on.
        done: What is done, such as ``"removed"``.
        as_json: Whether to print the result as JSON.

    Raises:
        CommandError: An item was not found; the others were done.
    """
    missing = []
    unique = list(dict.fromkeys(ids))
    with console.steps(queue.name, len(unique), done) as finish_step:
        for item_id in unique:
            try:
                act(item_id)
            except ItemNotFound:
                missing.append(item_id)
                console.note(f"Item {visible(item_id)} was not found.")
            else:
                finish_step(1)
    number = len(unique) - len(missing)
    console.report(
        {"queue": queue.name, done: number, "not_found": missing},
        f"{done.capitalize()} {item_count(number)} in {queue.name!r}.",
        as_json=as_json,
    )
    if missing:
        raise failure(f"{item_count(len(missing))} not found.")
