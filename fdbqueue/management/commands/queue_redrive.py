"""``queue_redrive``: make dead letters ready again."""

from __future__ import annotations

from typing import Any

from fdbqueue.columns.text import clipped
from fdbqueue.management import arguments
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import failure
from fdbqueue.management.formats import item_count
from fdbqueue.service import Queue

_SHOWN_IDS = 5
_STAY = (
    "{items} that cannot be decoded stayed dead, because each would block the queue: {ids}. "
    "queue_show shows one, queue_remove removes it, --id redrives it nevertheless."
)
_BLOCK = "{items} that cannot be decoded will block the queue until queue_bury: {ids}."


class Command(QueueCommand):
    help = (
        "Redrive dead letters: they are ready again at their original places, with 0 attempts. "
        "Asks first. What cannot be decoded stays dead unless --id names it."
    )
    examples = """\
examples:
  manage.py queue_redrive mail
  manage.py queue_redrive mail --reason "ConnectionError: timed out"
  manage.py queue_redrive mail --limit 100 --no-input
  manage.py queue_redrive mail --id FgEVFAd1bnR... --json --no-input
"""

    takes = (
        arguments.QUEUE,
        arguments.Argument(
            "--id",
            action="append",
            dest="ids",
            metavar="ID",
            help="Redrive only the item with this id; may be repeated",
        ),
        arguments.reason_of_dead("Redrive only items that died"),
        arguments.LIMIT,
        arguments.NO_INPUT,
        arguments.JSON,
    )

    def handle(self, *args: Any, **options: Any) -> None:
        queue, ids, limit = self.queue(options["name"]), options["ids"], options["limit"]
        reason = options["reason"]
        dead = queue.counts().dead
        most = min([dead] + ([len(ids)] if ids else []) + ([limit] if limit else []))
        if most:  # else no item is redriven
            question = _question(queue, most, dead, reason)
            self.console.confirm(question)
        with self.console.steps(most, "redriven") as finish_step:
            undecodable: list[str] = []
            redriven = queue.redrive(
                ids,
                limit=most,
                reason=reason,
                on_redriven=finish_step,
                on_undecodable=undecodable.extend,
            )
        self.console.report(
            {"queue": queue.name, "redriven": redriven, "undecodable": len(undecodable)},
            f"Redrove {item_count(redriven, 'dead')} in {queue.name!r}.",
        )
        self.check_reason(queue, reason, redriven + len(undecodable))
        if undecodable:
            shown = ", ".join(undecodable[:_SHOWN_IDS])
            more = " and more" if len(undecodable) > _SHOWN_IDS else ""
            text = (_BLOCK if ids else _STAY).format(
                items=item_count(len(undecodable)), ids=f"{shown}{more}"
            )
            if not ids:
                raise failure(text)
            self.console.note(text)


def _question(queue: Queue, most: int, dead: int, reason: str | None) -> str:
    of_all = f"{most:,} of {item_count(dead, 'dead')} in {queue.name!r}"
    if reason is None:
        return f"Redrive {of_all}?"
    return f'Redrive at most {of_all}, the ones that died of "{clipped(reason)}"?'
