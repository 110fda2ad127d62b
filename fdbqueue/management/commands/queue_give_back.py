"""``queue_give_back``: give back what workers hold, such as one that was killed."""

from __future__ import annotations

from typing import Any

from fdbqueue.columns.text import clipped
from fdbqueue.management import arguments
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import usage_error


class Command(QueueCommand):
    help = (
        "Requeue leased items before their leases end, because their worker is dead. One that "
        "lives gets LeaseLost, and what it does is done twice. Asks first."
    )
    examples = """\
examples:
  manage.py queue_give_back mail --worker mail1:4711
  manage.py queue_give_back '*' --worker mail1:4711 --no-input
  manage.py queue_give_back mail --id FgEVFAd1bnR... --no-spend
  manage.py queue_give_back mail --all --json --no-input
"""

    takes = (
        arguments.QUEUE_OR_PATTERN,
        arguments.OneOf(
            arguments.Argument(
                "--worker",
                type=arguments.worker_name,
                metavar="NAME",
                help="Give back all that the worker with this name holds",
            ),
            arguments.ID.but(help="Give back the item with this id; may be repeated"),
            arguments.flag("--all", "Give back all that is leased", dest="is_all"),
        ),
        arguments.Argument(
            "--no-spend",
            action="store_false",
            dest="spend",
            help="Count no attempt: for items that nobody has begun with",
        ),
        arguments.LIMIT,
        arguments.NO_INPUT,
        arguments.JSON,
    )

    def handle(self, *args: Any, **options: Any) -> None:
        worker, ids, spend = options["worker"], options["ids"], options["spend"]
        if not (worker or ids or options["is_all"]):
            raise usage_error("Give --worker NAME, --id ID or --all.")
        of = self.queue_or_several(options["name"], ids)
        which = f'what "{clipped(worker)}" holds of ' if worker else ""
        self.return_items(
            of,
            "leased",
            f"Give back {which}{{items}} in {of.name!r}?",
            "given back",
            lambda done, **of_ids: of.give_back(
                worker=worker, spend=spend, limit=options["limit"], on_given_back=done, **of_ids
            ),
            ids,
        )
