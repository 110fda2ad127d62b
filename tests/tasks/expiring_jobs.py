"""Tasks that expire."""

from __future__ import annotations

import datetime
from typing import Any

from fdbqueue.tasks import Retry, task
from tests.tasks.jobs import at_once, done


@task(expires=60, max_attempts=2, backoff=at_once)
def within_a_minute(value: Any = None) -> Any:
    done.append(value)
    return value


@task(expires=datetime.timedelta(minutes=1), max_attempts=3, backoff=lambda *_: 3_600.0)
def fail_within_a_minute(value: Any = None) -> None:
    done.append(value)
    raise LookupError(value)


@task(expires=60, takes_context=True)
def ask_within_a_minute(context: Any) -> None:
    """Ask to run again at first, which counts as no attempt."""
    done.append("ran")
    if len(done) == 1:
        raise Retry(3_600, spend=False)


@task(expires=60, rate="1/h", burst=1)
def one_an_hour(value: Any = None) -> Any:
    done.append(value)
    return value


@task(expires=60, max_running=1)
def one_within_a_minute(value: Any = None) -> Any:
    done.append(value)
    return value
