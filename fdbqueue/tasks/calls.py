"""The value of a task's item: which function to call, and with what.

It is a JSON object, so that every page and command shows it:

    {"id": ..., "task": "shop.tasks.send", "args": [...], "kwargs": {...}, "backend": "default"}

and ``"priority"`` where it is not 0, ``"run_after"`` (ISO 8601) where the task has one. The id is
that of the task's result.
"""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple

from fdbqueue.tasks.compat import TaskResult

#: What one step of a task's priority is worth in its item's; a time in milliseconds is less.
_STEP = 2**48
_LATEST = 2**47
#: The longest id, which is what the API allows, and the longest path of a task.
MAX_ID = 64
_MAX_PATH = 1_000
#: What a value must have.
_KINDS = (("id", str), ("task", str), ("args", list), ("kwargs", dict), ("backend", str))


class Call(NamedTuple):
    """What a worker is to call.

    Attributes:
        id: The id of the task's result.
        task: The dotted path of the task.
        args, kwargs: The arguments.
        backend: The alias of the backend that enqueued it.
        priority: The task's priority, -100 to 100, the highest first.
        run_after: Before when it does not run, None where that is not said.
    """

    id: str
    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    backend: str
    priority: int = 0
    run_after: datetime.datetime | None = None


def call_of(result: TaskResult[..., Any]) -> Call:
    """Return the call of a task that is to be enqueued."""
    task = result.task
    return Call(
        result.id,
        task.module_path,
        result.args,
        result.kwargs,
        result.backend,
        int(task.priority),
        task.run_after,
    )


def is_id(text: Any) -> bool:
    """Tell whether something may be the id of a result: up to 64 printable characters."""
    return isinstance(text, str) and 1 <= len(text) <= MAX_ID and text.isprintable()


def packed(call: Call) -> dict[str, Any]:
    """Return a call as the value of its item."""
    value: dict[str, Any] = {
        "id": call.id,
        "task": call.task,
        "args": call.args,
        "kwargs": call.kwargs,
        "backend": call.backend,
    }
    if call.priority:
        value["priority"] = call.priority
    if call.run_after is not None:
        value["run_after"] = call.run_after.isoformat()
    return value


def unpacked(value: Any) -> Call | None:
    """Return the call that an item's value is, None where it is none."""
    if not isinstance(value, dict):
        return None
    for name, kind in _KINDS:
        if not isinstance(value.get(name), kind):
            return None
    priority, moment = value.get("priority", 0), value.get("run_after")
    try:
        run_after = None if moment is None else datetime.datetime.fromisoformat(moment)
    except (TypeError, ValueError):
        return None
    if type(priority) is not int or not is_id(value["id"]) or len(value["task"]) > _MAX_PATH:
        return None
    args, kwargs, backend = value["args"], value["kwargs"], value["backend"]
    return Call(value["id"], value["task"], args, kwargs, backend, priority, run_after)


def aware(at: datetime.datetime | None) -> datetime.datetime | None:
    """Return a time with its zone; one without a zone is the process's local time."""
    return at.astimezone() if at is not None and at.tzinfo is None else at


def rank_of(call: Call) -> int:
    """Return the priority of a call's item; the lowest is taken first.

    Tasks of a higher priority come first, then those with an earlier ``run_after``, then those
    without one; and among equals, as the queue does it, those that were enqueued first.
    """
    rank = -call.priority * _STEP
    if call.run_after is None:
        return rank
    return rank - _LATEST + min(_LATEST - 1, max(0, int(call.run_after.timestamp() * 1_000)))
