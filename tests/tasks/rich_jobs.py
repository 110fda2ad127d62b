"""Tasks with arguments and values that JSON does not have."""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any

from fdbqueue.tasks import task
from tests.tasks.jobs import done


@task
def echo(*args: Any, **kwargs: Any) -> Any:
    done.append((args, kwargs))
    return [args, kwargs]


@task
def take(*args: Any) -> None:
    done.append(args)


@task
def uuid_of(number: int) -> uuid.UUID:
    return uuid.UUID(int=number)


@task
def half(value: decimal.Decimal, more: Any = None) -> decimal.Decimal:
    done.append((value, more))
    return value / 2


@task(unique_key=lambda day: f"{type(day).__name__} {day:%Y}")
def of_year(day: datetime.date) -> datetime.date:
    return day


@task(concurrency_key="{day:%Y}", max_running=1)
def one_a_year(day: datetime.date, more: Any = None) -> int:
    done.append((day, more))
    return day.year


@task(max_attempts=1)
def no_value() -> Any:
    return {"a": [1, {"b": object()}]}
