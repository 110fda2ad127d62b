"""Tasks that note how far they have come, and what else there is to say."""

from __future__ import annotations

import os
import signal
from typing import Any

from fdbqueue.tasks import task
from fdbqueue.tasks.compat import task_backends
from tests.engines.children import wait_until
from tests.tasks.jobs import at_once, begun, done, gate


@task(takes_context=True)
def count(context: Any, steps: int, waits_at: int | None = None) -> int:
    context.metadata["name"] = "count"
    for step in range(1, steps + 1):
        context.progress(step, of=steps)
        context.metadata["steps"] = [*context.metadata.get("steps", ()), step][-3:]
        if step == waits_at:
            begun.set()
            assert gate.wait(60)
    return steps


@task(takes_context=True)
async def count_async(context: Any, steps: int) -> int:
    context.metadata["name"] = "async"
    for step in range(1, steps + 1):
        context.progress(step, of=steps)
    return steps


@task(takes_context=True, max_attempts=3, backoff=at_once)
def resume(context: Any) -> int:
    """Go on where the attempt before has failed."""
    at = context.metadata.get("at", 0)
    done.append((context.attempt, at))
    context.metadata["at"] = at + 10
    if context.attempt == 1:
        context.progress(at + 10, of=30)
    if context.attempt < 3:
        raise LookupError("not yet")
    return at


@task(takes_context=True, max_attempts=1)
def fail_half_way(context: Any) -> None:
    context.progress(1, of=2)
    context.metadata["why"] = "no paper"
    raise LookupError


@task(takes_context=True, max_attempts=1)
def go_far(context: Any, digits: int) -> None:
    context.progress(10**digits, of=1)


@task(takes_context=True)
def note_badly(context: Any, kind: str) -> str:
    """Note what cannot be noted, and go on."""
    context.metadata["kept"] = 1
    values = {"long": "x" * 10_000, "object": object(), "nan": float("nan"), "bytes": b"\xff"}
    try:
        if kind in values:
            context.metadata["bad"] = values[kind]
        elif kind == "name":
            context.metadata[1] = 1
        elif kind == "many":
            for number in range(10_000):
                context.metadata[str(number)] = number
        else:
            wrong = {"negative": -1, "text": "1", "infinite": float("inf"), "bool": True}
            context.progress(wrong[kind])
    except Exception as error:  # noqa: BLE001  # whatever it is
        return type(error).__name__
    return "nothing"


@task(takes_context=True, max_attempts=2, backoff=at_once)
def die_once(context: Any) -> int:
    """Note something, wait until it is written, and kill the worker; the next attempt reads it."""
    if context.attempt > 1:
        return int(context.metadata["at"])
    context.progress(7, of=10)
    context.metadata["at"] = 7
    wait_until(lambda: task_backends["default"].get_result(context.task_result.id).progress)
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


@task(takes_context=True)
def keep_context(context: Any) -> None:
    context.metadata["in"] = "time"
    done.append(context)
