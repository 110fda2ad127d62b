"""Repair without looking for anything: ``queue_doctor --recount`` and ``--sweep``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from fdbqueue.columns.text import counted
from fdbqueue.management.console import Console
from fdbqueue.management.exit_codes import OutputFailed, command_error
from fdbqueue.management.formats import Table, TextColumn, json_line
from fdbqueue.service import ITEM_STATES, Catalog, Counts, Queue
from fdbqueue.service.tools import examination, load

_COLUMNS = (
    TextColumn("NAME", "name"),
    *(TextColumn(state.upper(), "number") for state in ITEM_STATES),
)


def recount(queues: Sequence[Queue], console: Console, *, as_json: bool) -> None:
    """Count the items of queues, and print each count, or the old and the new one if they differ.

    Raises:
        CommandError: The output failed, or Ctrl-C was pressed; it says how many queues are done.
    """
    table = Table(_COLUMNS, console.look)
    table.expect((queue.name, *[""] * len(ITEM_STATES)) for queue in queues)

    def lines() -> Iterator[str]:
        for queue in queues:
            before, after = queue.counts(), queue.recount()
            if as_json:
                shown = {"before": dataclasses.asdict(before), "after": dataclasses.asdict(after)}
                yield json_line({"queue": queue.name, **shown})
            else:
                yield from table.lines([(queue.name, *_changes(before, after))])

    try:
        console.print_lines(lines())
    except OutputFailed as error:
        if error.is_by_reader:
            raise
        reason = "Interrupted" if isinstance(error.__cause__, KeyboardInterrupt) else error
        total = counted(len(queues), "queue")
        message = f"{reason}. Recounted and printed {console.lines_printed} of {total}."
        raise command_error(error, message) or error from error


def _changes(before: Counts, after: Counts) -> Iterator[str]:
    for state in ITEM_STATES:
        old, new = getattr(before, state), getattr(after, state)
        yield f"{old:,}" if old == new else f"{old:,} -> {new:,}"


def sweep(catalog: Catalog, console: Console, *, older_than_seconds: int, as_json: bool) -> None:
    """Remove what processes that have ended left behind, and print how much it was."""
    removed = examination.sweep(catalog.database, older_than_seconds=older_than_seconds)
    queues = [catalog.queue(name) for name in catalog.names(with_responses=True)]
    pushes = sum(load.sweep(queue, older_than_seconds=older_than_seconds) for queue in queues)
    responses = sum(queue.sweep() for queue in queues) + catalog.sweep()
    console.report(
        {"removed": removed, "pushes": pushes, "responses": responses},
        f"Removed {counted(removed, 'receipt')}, {counted(pushes, 'push record')} and "
        f"{counted(responses, 'saved response')}.",
        as_json=as_json,
    )
