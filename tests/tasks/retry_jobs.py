"""Tasks that ask to run again."""

from __future__ import annotations

import datetime
from typing import Any

from fdbqueue.tasks import Retry, abort, at_end, task
from tests.tasks.jobs import at_once, done

#: What :func:`ask_for` gives to ``Retry``.
given: list[Any] = []


@task(max_attempts=2, takes_context=True)
def ask(context: Any, spend: bool, times: int = 100, after: float = 0) -> int:
    """Ask to run again some times, and return which attempt returns."""
    done.append(context.attempt)
    context.metadata["runs"] = context.metadata.get("runs", 0) + 1
    if context.metadata["runs"] <= times:
        raise Retry(after, "the shop is closed", spend=spend)
    return context.attempt


@task(max_attempts=2, takes_context=True)
async def ask_async(context: Any, spend: bool) -> int:
    done.append(context.attempt)
    if len(done) == 1:
        raise Retry(datetime.timedelta(), spend=spend)
    return context.attempt


@task(max_attempts=2, timeout=600)
def ask_in_time(spend: bool) -> int:
    done.append("in time")
    if len(done) == 1:
        raise Retry(0, spend=spend)
    return len(done)


@task(max_attempts=2, backoff=at_once)
def ask_at_the_end() -> None:
    done.append("ran")

    def ask_again(_tr: Any) -> None:
        if len(done) == 1:
            raise Retry(0, spend=False)

    at_end(ask_again)


@task(max_attempts=2, backoff=at_once)
def ask_for() -> None:
    raise Retry(*given)


@task(max_attempts=20, backoff=at_once)
def fail_and_ask(failures: int) -> None:
    """Fail at first, and ask three times then, which counts as nothing."""
    done.append("ran")
    if len(done) <= failures:
        raise LookupError(len(done))
    if len(done) <= failures + 3:
        raise Retry(0, spend=False)


class Wordless(Retry):
    """One that does not say what it asks for."""

    def __init__(self) -> None:
        Exception.__init__(self)


class Changed(Retry):
    """One whose pause is none."""

    def __init__(self, seconds: Any) -> None:
        super().__init__(0)
        self.seconds = seconds


@task(max_attempts=2, backoff=at_once)
def ask_wrongly(which: int) -> None:
    done.append(which)
    raise Wordless if not which else Changed([None, "60", float("nan"), -1][which - 1])


@task(max_attempts=2, backoff=at_once)
def ask_and_fail() -> None:
    """Ask once, which counts as nothing, and fail then."""
    done.append("ran")
    if len(done) == 1:
        raise Retry(0, spend=False)
    raise LookupError("as ever")


@task(takes_context=True)
def ask_once_aborted(context: Any, spend: bool) -> None:
    done.append(abort(context.task_result.id))
    raise Retry(0, spend=spend)
