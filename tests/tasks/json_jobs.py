"""Tasks that are given, and return, what JSON does not have."""

from __future__ import annotations

from typing import Any

from fdbqueue.tasks import task


@task
def echo(*args: Any, **kwargs: Any) -> Any:
    return [args, kwargs]


@task(max_attempts=1)
def no_value() -> Any:
    return {"a": [1, {"b": object()}]}
