"""``queue_purge``: remove everything from a queue."""

from __future__ import annotations

import dataclasses
from typing import Any

from fdbqueue import verbs
from fdbqueue.columns.text import clipped
from fdbqueue.management.arguments import JSON, NO_INPUT, QUEUE, Argument, reason_of_dead
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import usage_error
from fdbqueue.management.formats import item_count
from fdbqueue.service import ITEM_STATES, Queue, share_a_name

_A_PATTERN = (
    "{} is a pattern: purge one queue at a time; queue_doctor --json names all. Of limited tasks a "
    "worker removes what an empty queue has left, a day after its last task."
)


class Command(QueueCommand):
    help = (
        "Remove all items of a queue for good, whatever their state, with the counts and the "
        "history; or only some. Asks first."
    )
    examples = """\
examples:
  manage.py queue_purge mail
  manage.py queue_purge mail --state dead
  manage.py queue_purge mail --reason "ConnectionError: timed out"
  manage.py queue_purge mail --no-input --json
"""

    takes = (
        QUEUE,
        Argument("--state", choices=ITEM_STATES, help="Remove only items in this state"),
        reason_of_dead("Remove only dead letters"),
        NO_INPUT,
        JSON,
    )

    def handle(self, *args: Any, **options: Any) -> None:
        self._check_not_parts(options["name"])
        queue, reason = self.queue(options["name"]), options["reason"]
        state = options["state"] or (None if reason is None else "dead")
        if reason is not None and state != "dead":
            raise usage_error(f"--reason is for dead letters, not for --state {state}.")
        if state != "dead":
            verbs.check_takeable(queue)
        question = _question(queue, state, reason)
        self.console.confirm(question)
        if state is None:
            removed = sum(dataclasses.astuple(queue.counts()))
            queue.clear()
        else:
            total = getattr(queue.counts(), state)
            with self.console.steps(total, "removed") as finish_step:
                removed = queue.clear_state(state, reason=reason, on_removed=finish_step)
        self.console.report(
            {"queue": queue.name, "removed": removed},
            f"Removed {item_count(removed, state or '')} from {queue.name!r}.",
        )
        self.check_reason(queue, reason, removed)

    def _check_not_parts(self, name: str) -> None:
        """Say what to do for a pattern of queues that are parts of others."""
        parts = [one.name for one in self.catalog.families() if one.has_parts]
        if "*" in name and any(share_a_name(one, name) for one in parts):
            raise usage_error(_A_PATTERN.format(clipped(repr(name))))


def _question(queue: Queue, state: str | None, reason: str | None) -> str:
    counts = dataclasses.asdict(queue.counts())
    shown = {one: number for one, number in counts.items() if state in {None, one}}
    if reason is not None:
        dead = item_count(counts["dead"], "dead")
        which = f'the ones of {dead} in {queue.name!r} that died of "{clipped(reason)}"'
        return f"Remove {which} for good?"
    which = ", ".join(f"{number:,} {one}" for one, number in shown.items())
    return f"Remove {item_count(sum(shown.values()))} from {queue.name!r} for good ({which})?"
