"""Tasks as users write them; only type-checked, never run."""

from __future__ import annotations

import datetime
from typing import Any, assert_type

from fdbqueue.tasks import GroupResult, Retry, call, group, task
from fdbqueue.tasks.compat import Task
from fdbqueue.tasks.notes import Progress
from fdbqueue.tasks.options import FdbQueueTask
from fdbqueue.tasks.results import FdbQueueTaskResult
from fdbqueue.tasks.running import FdbQueueTaskContext


@task(expires=datetime.timedelta(minutes=1), max_attempts=3)
def send(address: str) -> str:
    """Ask to run again, with all that may be said of that."""
    if not address:
        raise Retry(60)
    raise Retry(datetime.timedelta(hours=1), "the shop is closed", spend=False)


asked: Retry = Retry(1.5, reason="busy")
Retry("60")  # type: ignore[arg-type]  # seconds, or a timedelta
Retry(60, "busy", False)  # type: ignore[call-arg]  # by its name

enqueued: GroupResult = group([call(send, "a")]).then(send, always=True).enqueue()


# What the decorator gives


@task
def add(first: int, second: int = 0) -> int:
    """Add two numbers."""
    return first + second


@task(takes_context=True, priority=3, queue_name="other", backend="default", timeout=None)
def tell(context: FdbQueueTaskContext, name: str) -> list[str]:
    """Take part in what a context has."""
    context.progress(1, of=2)
    context.metadata["name"] = name
    return [name] * context.attempt


@task
async def fetch(address: str) -> bytes:
    """Be a coroutine."""
    return address.encode()


@task(takes_context=True)
async def fetch_once(context: Any, address: str) -> bytes:
    """Be one with a context."""
    return address.encode()


@task(backoff=None, rate="10/m", burst=2, max_running=1, concurrency_key="{customer}")
def bill(customer: str) -> None:
    """Have all the other options."""


assert_type(add.enqueue(1, second=2), FdbQueueTaskResult[int])
assert_type(add.enqueue(1).return_value, int)
assert_type(add.call(1), int)
assert_type(tell.enqueue("a"), FdbQueueTaskResult[list[str]])
assert_type(fetch.enqueue("a").return_value, bytes)
assert_type(fetch.call("a"), bytes)
assert_type(fetch_once.enqueue("a").return_value, bytes)
assert_type(bill.enqueue("a"), FdbQueueTaskResult[None])
assert_type(send.enqueue("a"), FdbQueueTaskResult[str])
assert_type(task(len).enqueue([]).return_value, int)

result = add.enqueue(1, 2)
assert_type(result.wait(10), FdbQueueTaskResult[int])
assert_type(result.progress, Progress | None)
assert_type(result.metadata, dict[str, Any])
assert_type(add.get_result(result.id).wait().return_value, int)
assert_type(add.enqueue_many([([1, 2], {}), ((), {"first": 1})]), list[FdbQueueTaskResult[int]])
assert_type(add.using(priority=1, expires=60).enqueue(1), FdbQueueTaskResult[int])
same = add
same = add.using(run_after=datetime.datetime.now(datetime.timezone.utc), unique_key="a")
shown: FdbQueueTask[[str], list[str]] = tell
like_djangos: Task[[str], str] = send


async def await_end() -> None:
    """Do the same in an event loop."""
    later = await fetch.aenqueue("a")
    assert_type(await later.await_result(timeout=0.5), FdbQueueTaskResult[bytes])
    assert_type(await fetch.acall("a"), bytes)
    assert_type(await add.aenqueue_many([]), list[FdbQueueTaskResult[int]])
    assert_type((await add.aget_result(later.id)).return_value, int)
    later.await_result("1")  # type: ignore[arg-type,unused-coroutine]  # seconds


add.enqueue("1")  # type: ignore[arg-type]  # a number
add.enqueue()  # type: ignore[call-arg]  # what is missing
tell.enqueue(1)  # type: ignore[arg-type]  # its context is not given
add.using(max_attempts=2)  # type: ignore[call-arg]  # that is the code's to say
add.using(priorty=2)  # type: ignore[call-arg]  # a slip
add.enqueue_many([1, 2])  # type: ignore[list-item]  # pairs
task(max_atempts=3)  # type: ignore[call-overload]  # a slip
task(max_attempts="3")  # type: ignore[call-overload]  # a number
task(unique_while="ever")  # type: ignore[call-overload]  # one of two
task(takes_context=True, time_out=3)  # type: ignore[call-overload]  # a slip
