"""``tasks_show``: print everything about one task."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Any

from fdbqueue import columns
from fdbqueue.columns.text import in_english, printable, timestamp
from fdbqueue.management.arguments import JSON
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import failure
from fdbqueue.management.formats import facts, value_text
from fdbqueue.tasks.backend import FdbQueueBackend
from fdbqueue.tasks.columns import (
    TaskRow,
    moment,
    reason_to_wait,
    run_after,
    shown_attempts,
    shown_facts,
)
from fdbqueue.tasks.compat import TaskResultDoesNotExist
from fdbqueue.tasks.group_results import GroupResult, OutlineLine, group_result_by, outline_of
from fdbqueue.tasks.management import task_arguments
from fdbqueue.tasks.records import TreePlace, aware


class Command(QueueCommand):
    help = (
        "Print everything about one task: its call, state, times, attempts, errors, progress, "
        "metadata and return value; of a group or a chain, how far it is."
    )
    examples = """\
examples:
  manage.py tasks_show 9f0a6c2b1d7e4c6f8a5b3d2e1f0c9b8a
  manage.py tasks_show 9f0a6c2b1d7e4c6f8a5b3d2e1f0c9b8a --json | jq .errors
"""
    allows_closed_output = True

    takes = (
        task_arguments.ID,
        task_arguments.backend("Show a task of"),
        JSON,
    )

    def handle(self, *args: Any, **options: Any) -> None:
        backend = task_arguments.backend_of(options["backend"]).over(self.catalog)
        task = backend.found(options["id"])
        if task is None and backend.settings.outbox is not None:
            task = backend.found_in_outbox(options["id"])
        if task is None:
            self._show_group(backend, options["id"])
            return
        row = TaskRow.of(backend, backend.catalog.queue(task.queue), task)
        place = task.call.place
        outline = [] if place is None else outline_of(self.catalog.database, backend, place)
        lines = [*_lines(row), *_outline_lines(outline)]
        self.console.report(_record(row), "\n".join(lines))

    def _show_group(self, backend: FdbQueueBackend, result_id: str) -> None:
        """Print how far a group or a chain is."""
        try:
            found = group_result_by(backend, result_id)
        except TaskResultDoesNotExist as error:
            raise failure(task_arguments.not_found(backend, result_id)) from error
        tree, _, branch = result_id.partition(".")
        outline = outline_of(
            self.catalog.database, backend, TreePlace(tree, int(branch or 0), -1, 0)
        )
        _blank, *lines = _outline_lines(outline)
        self.console.report(_group_record(found), "\n".join(lines))


def _group_record(found: GroupResult) -> dict[str, Any]:
    """Return what JSON says of a group or a chain."""
    ended, part = aware(found.finished_at), found.follows
    utc = None if ended is None else ended.astimezone(datetime.timezone.utc)
    return {
        "id": found.id,
        "kind": found.kind,
        "status": found.status.value,
        "backend": found.backend,
        "count": found.count,
        "succeeded": found.succeeded,
        "failed": found.failed,
        "finished_at": None if utc is None else timestamp(utc),
        "is_aborted": found.is_aborted,
        "follows": None if part is None else {"id": part.id, "task": part.task},
    }


def _record(row: TaskRow) -> dict[str, Any]:
    """Return what JSON says of a task."""
    task, call, attempts = row.task, row.task.call, row.task.attempts
    times = {
        "run_after": run_after(call),
        "enqueued_at": moment(task.enqueued),
        "started_at": moment(attempts.started) if task.has_begun else None,
        "last_attempted_at": moment(attempts.latest) if task.has_begun else None,
        "finished_at": moment(task.finished),
    }
    return {
        "id": task.id,
        "task": call.task,
        "args": call.args,
        "kwargs": call.kwargs,
        "status": task.status.value,
        "backend": call.backend,
        "queue_name": row.queue.home.removeprefix(row.backend.queue_prefix),
        "priority": call.priority,
        "limits": _limits(row),
        **{name: None if at is None else timestamp(at) for name, at in times.items()},
        "attempts": len(attempts.workers),
        "workers": list(attempts.workers),
        "errors": [
            {"exception": error.exception, "traceback": error.traceback}
            for error in attempts.errors
        ],
        "waits_because": reason_to_wait(task) or None,
        "return_value": task.value if task.is_successful else None,
        "group": None if call.place is None else call.place._asdict(),
        "progress": None if task.progress is None else task.progress._asdict(),
        "metadata": task.metadata or {},
    }


def _limits(row: TaskRow) -> dict[str, Any] | None:
    """Return what JSON says of the limits of a task that has any, and has not ended."""
    if row.limits is None:
        return None
    state = row.limits
    return {
        "key": state.key,
        **state.limit._asdict(),
        "running": state.running,
        "held_by": state.held_by or None,
    }


def _outline_lines(outline: Sequence[OutlineLine]) -> Iterator[str]:
    """Yield the group or the chain that a task is in, safe for a terminal."""
    if outline:
        yield ""
        yield f"GROUP {outline[0].branch}"
    for line in outline:
        mark = "> " if line.is_here else "  "
        with in_english():
            words = [line.text, str(line.state), line.problem, line.task if line.state else ""]
        text = "  ".join(printable(word) for word in words if word)
        yield f"{'  ' * line.depth}{mark}{text}"


def _lines(row: TaskRow) -> Iterator[str]:
    """Yield what people read of a task, safe for a terminal: the same as on its page."""
    task, values = row.task, {"ARGUMENTS": row.arguments}
    if task.is_successful:
        values["RETURNED"] = task.value
    if task.metadata:
        values["METADATA"] = task.metadata
    texts = [(name, printable(value_text(value))) for name, value in values.items()]
    yield from facts([*columns.line_texts(shown_facts(row), row), *texts])
    with in_english():
        attempts = shown_attempts(task, columns.lines_printable)
        headings = [f"ATTEMPT {one.number}: {one.outcome}" for one in attempts]
    for heading, attempt in zip(headings, attempts, strict=True):
        yield ""
        yield heading if attempt.number else "NOT RUN"
        if attempt.worker:
            yield f"  worker: {attempt.worker}"
        if attempt.exception:
            yield f"  error: {attempt.exception}"
        if attempt.traceback:
            yield from (f"    {line}" for line in attempt.traceback.split("\n"))
