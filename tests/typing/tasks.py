"""Tasks as users write them; only type-checked, never run."""

# ruff: noqa: F841  # the names are there for their types

from __future__ import annotations

import datetime
from typing import Any

from fdbqueue.tasks import GroupResult, Retry, call, group, task
from fdbqueue.tasks.options import FdbQueueTask
from fdbqueue.tasks.results import FdbQueueTaskResult


@task(expires=datetime.timedelta(minutes=1), max_attempts=3)
def send(address: str) -> str:
    """Ask to run again, with all that may be said of that."""
    if not address:
        raise Retry(60)
    raise Retry(datetime.timedelta(hours=1), "the shop is closed", spend=False)


asked: Retry = Retry(1.5, reason="busy")
Retry("60")  # type: ignore[arg-type]  # seconds, or a timedelta
Retry(60, "busy", False)  # type: ignore[call-arg]  # by its name

enqueued: GroupResult = group([call(send, "a")]).then(send, values=True).enqueue()
values: list[Any] = enqueued.results()


def wait(own: FdbQueueTask, result: FdbQueueTaskResult) -> None:
    """Enqueue many, and wait."""
    results: list[Any] = own.enqueue_many([(["a"], {}), ((), {"address": "b"})])
    same: FdbQueueTaskResult = result.wait(10) if results else result.wait()


async def await_end(own: FdbQueueTask, result: FdbQueueTaskResult) -> None:
    """Do the same in an event loop."""
    results: list[Any] = await own.aenqueue_many([])
    same: FdbQueueTaskResult = await result.await_result(timeout=0.5)
    result.await_result("1")  # type: ignore[arg-type,unused-coroutine]  # seconds
