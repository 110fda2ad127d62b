"""Pauses as the commands show them: as JSON, in a table, and in a sentence.

The reason of a pause is not trusted: a terminal obeys control characters in it, so it is shown with
escapes. JSON lines are plain ASCII, and have all of it.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

from fdbqueue.management import formats
from fdbqueue.management.console import Console
from fdbqueue.management.exit_codes import error_text, explain_errors
from fdbqueue.service import Pause, Queue, SeveralQueues

_CELL_CHARACTERS = 40


def record(pause: Pause | None) -> dict[str, Any] | None:
    """Return the object for a line of JSON, None for a queue that is not paused."""
    if pause is None:
        return None
    return {"since": formats.timestamp(pause.since), "reason": pause.reason}


def words(pause: Pause) -> str:
    """Return for how long a queue has been paused, and the beginning of the reason."""
    now = datetime.datetime.now(datetime.timezone.utc)
    text = f"paused {formats.age((now - pause.since).total_seconds())}"
    return f"{text}: {formats.clipped(pause.reason, _CELL_CHARACTERS)}" if pause.reason else text


def since(pause: Pause) -> str:
    """Return since when a queue is paused, to the second, and why."""
    when = f"since {pause.since:%Y-%m-%d %H:%M:%S} UTC"
    return f"{when}: {formats.clipped(pause.reason)}" if pause.reason else when


def note_pause(source: Queue | SeveralQueues, console: Console) -> bool:
    """Note which queues are paused, once for each command; tell whether all of them are."""
    queues = [source] if isinstance(source, Queue) else source.queues()
    pauses = [(queue, pause) for queue in queues if (pause := queue.paused()) is not None]
    for queue, pause in pauses:
        console.note_once(
            f"The queue {queue.name!r} is paused {since(pause)}\n"
            f"Nothing is taken from it until it is resumed: manage.py queue_resume {queue.name}"
        )
    return len(pauses) == len(queues)


def change_each(
    queues: Sequence[Queue],
    change: Callable[[Queue], tuple[dict[str, Any], str]],
    console: Console,
    *,
    as_json: bool,
) -> None:
    """Pause or resume queues one after the other, and report each.

    Args:
        queues: The queues.
        change: Changes one, and returns what to print, for programs and for people.
        console: Where it is printed.
        as_json: Which of the two to print.

    Raises:
        CommandError: Something stopped it; the message says how many queues were done.
    """
    done = 0
    total = formats.counted(len(queues), "queue")
    with explain_errors(lambda error: f"{error_text(error)}. {done} of {total} done before."):
        for queue in queues:
            record, text = change(queue)
            done += 1
            console.report(record, text, as_json=as_json)
