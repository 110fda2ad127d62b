"""``tasks_show``: print everything about one task."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue.management import arguments, formats
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import failure
from fdbqueue.tasks.compat import TaskResultDoesNotExist, TaskResultStatus
from fdbqueue.tasks.management import given


class Command(QueueCommand):
    help = (
        "Print everything about one task: its function and arguments, its status, its times, its "
        "attempts with their workers and errors, and what it returned."
    )
    examples = """\
examples:
  manage.py tasks_show 9f0a6c2b1d7e4c6f8a5b3d2e1f0c9b8a
  manage.py tasks_show 9f0a6c2b1d7e4c6f8a5b3d2e1f0c9b8a --json | jq -r '.errors[-1].traceback'
"""
    allows_closed_output = True

    def add_arguments(self, parser: CommandParser) -> None:
        given.add_id(parser)
        given.add_backend(parser, "Show a task of")
        arguments.add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        backend = given.backend_of(options["backend"])
        try:
            result = backend.get_result(options["id"])
        except TaskResultDoesNotExist as error:
            raise failure(given.not_found(backend, options["id"])) from error
        record = _record(result)
        self.console.report(record, _text(record), as_json=options["as_json"])


def _record(result: Any) -> dict[str, Any]:
    """Return what JSON says of a task."""
    is_successful = result.status is TaskResultStatus.SUCCESSFUL
    times = {
        name: None if at is None else at.isoformat(timespec="microseconds")
        for name, at in (
            ("run_after", result.task.run_after),
            ("enqueued_at", result.enqueued_at),
            ("started_at", result.started_at),
            ("last_attempted_at", result.last_attempted_at),
            ("finished_at", result.finished_at),
        )
    }
    return {
        "id": result.id,
        "task": result.task.module_path,
        "args": result.args,
        "kwargs": result.kwargs,
        "status": result.status.value,
        "backend": result.backend,
        "queue_name": result.task.queue_name,
        "priority": result.task.priority,
        **times,
        "attempts": result.attempts,
        "workers": result.worker_ids,
        "errors": [
            {"exception": error.exception_class_path, "traceback": error.traceback}
            for error in result.errors
        ],
        "return_value": result.return_value if is_successful else None,
    }


def _text(record: dict[str, Any]) -> str:
    """Return what people read of a task, safe for a terminal."""
    lines = []
    for name, value in record.items():
        if name == "errors" or value in (None, [], {}):
            continue
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f"{name.replace('_', ' '):<18}{formats.visible(shown)}")
    for number, error in enumerate(record["errors"], start=1):
        lines += ["", f"error {number}: {formats.visible(error['exception'])}"]
        lines += [f"  {formats.visible(line)}" for line in error["traceback"].splitlines()]
    return "\n".join(lines)
