"""Tasks for workers that wait when these are enqueued."""

from __future__ import annotations

from typing import Any

from fdbqueue.tasks import Retry, enqueue_at_end, task
from tests.tasks.jobs import done


def soon(_exception: Any, _result: Any) -> float:
    """Run again after a moment, in which the worker waits again."""
    return 0.5


@task(rate="2/s", burst=1)
def two_a_second(number: int) -> None:
    done.append(number)


@task(concurrency_key="{customer}", max_running=1, max_attempts=2, backoff=soon, takes_context=True)
def fail_first(context: Any, customer: str) -> None:
    if context.attempt == 1:
        raise LookupError(customer)


@task(max_attempts=2, backoff=soon, takes_context=True)
def fail_first_without_limits(context: Any) -> None:
    if context.attempt == 1:
        raise LookupError


@task(max_attempts=2, takes_context=True)
def ask_to_wait(context: Any) -> None:
    if not context.metadata.get("has_asked"):
        context.metadata["has_asked"] = True
        raise Retry(0.5, spend=False)


@task
def enqueue_another(value: str) -> None:
    enqueue_at_end(note_after, value)


@task
def note_after(value: str) -> None:
    done.append(value)


@task(concurrency_key="all", max_running=1)
def pass_on(value: int) -> int:
    return value
