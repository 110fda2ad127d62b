"""``tasks_prune``: remove tasks that ended long ago."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any

from fdbqueue.columns.text import counted
from fdbqueue.management import arguments
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import failure
from fdbqueue.tasks.housekeeping import Pruned, prune
from fdbqueue.tasks.management import task_arguments
from fdbqueue.tasks.options import MAX_KEPT_SECONDS, Retention

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_AGE = re.compile(r"(\d+(?:\.\d+)?)([smhdw]?)")


def _age(text: str) -> float:
    """Return an age in seconds: ``"90"``, ``"30m"``, ``"12h"``, ``"7d"``, ``"2w"``.

    Raises:
        ArgumentTypeError: It is not one, or over ten years.
    """
    found = _AGE.fullmatch(text)
    if found is None:
        message = f"{text!r} is not an age such as 90 (seconds), 30m, 12h, 7d or 2w"
        raise argparse.ArgumentTypeError(message)
    seconds = float(found[1]) * _UNITS[found[2]]
    if seconds > MAX_KEPT_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is over ten years")
    return seconds


def _aged(name: str, what: str) -> arguments.Argument:
    """Return an option that says which tasks to remove."""
    return arguments.Argument(
        name,
        type=_age,
        metavar="AGE",
        help=f"Remove {what} that ended at least AGE ago",
    )


class Command(QueueCommand):
    help = (
        "Remove tasks that ended long ago: their results, and the dead letters of failed ones. "
        "Workers do this by the backend's option 'retention'; the command does it now, or for "
        "other ages: seconds, or as 30m, 12h, 7d."
    )
    examples = """\
examples:
  manage.py tasks_prune --dry-run
  manage.py tasks_prune --successful 1d --failed 90d
  manage.py tasks_prune --older-than 12h --json
"""

    takes = (
        task_arguments.backend("Remove tasks of"),
        _aged("--older-than", "all ended tasks"),
        _aged("--successful", "successful tasks"),
        _aged("--failed", "failed tasks"),
        arguments.flag("--dry-run", "Remove nothing, and print what would be removed"),
        arguments.JSON,
    )

    def handle(self, *args: Any, **options: Any) -> None:
        backend = task_arguments.backend_of(options["backend"])
        kept = _retention(backend.settings.retention, options)
        known: dict[str, Any] = {"catalog": self.catalog, "dry_run": options["dry_run"]}
        verb = "would be removed" if options["dry_run"] else "removed"
        with self.console.steps(None, verb) as finish_step:
            pruned = prune(backend, kept, goes_on=_steps(finish_step), **known)
        numbers = {
            "successful": pruned.successful,
            "failed": pruned.failed,
            "entries": pruned.entries,
        }
        self.console.report(
            {"backend": backend.alias, "dry_run": options["dry_run"], **numbers},
            _text(pruned, dry_run=options["dry_run"]),
        )
        if pruned.gave_way:
            raise failure("Other transactions were in the way; run it again for what is left.")


def _retention(usual: Retention, options: dict[str, Any]) -> Retention:
    """Return for how long tasks are kept, as the arguments and the backend say."""
    ages = {"successful": usual.successful, "failed": usual.failed}
    for status in ages:
        for name in ("older_than", status):
            if options[name] is not None:
                ages[status] = options[name]
    return Retention(**ages)


def _steps(finish_step: Callable[[int], None]) -> Callable[[Pruned], bool]:
    """Return what notes the progress after each transaction."""
    done = 0

    def note(pruned: Pruned) -> bool:
        nonlocal done
        total = pruned.successful + pruned.failed
        finish_step(total - done)
        done = total
        return True

    return note


def _text(pruned: Pruned, *, dry_run: bool) -> str:
    successful = counted(pruned.successful, "successful task")
    failed = counted(pruned.failed, "failed task")
    return f"{'Would remove' if dry_run else 'Removed'} {successful} and {failed}."
