"""Tasks for groups and chains."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fdbqueue.tasks import group_result, task
from tests.tasks.jobs import at_once, done

#: Whether tasks fail that fail as long as it is closed.
is_open: list[bool] = []


@task
def add(value: int, more: int = 1) -> int:
    done.append(("add", value))
    return value + more


@task(max_attempts=1)
def fail(*_: Any) -> None:
    done.append(("fail",))
    raise LookupError("on purpose")


@task(max_attempts=1)
def fail_while_closed(value: Any = None) -> Any:
    if not is_open:
        raise LookupError("closed")
    return value


@task(max_attempts=4, backoff=at_once, takes_context=True)
def fail_at_first(context: Any, value: int) -> int:
    if context.attempt < 3:
        raise LookupError("at first")
    return value


@task
def collect(group: str, *more: Any) -> list[Any]:
    """Return what the parts of a group have returned; None for those that have failed."""
    found = group_result(group)
    values, after = [], -1
    while parts := found.parts(after=after, limit=50):
        for part in parts:
            is_success = part.status == "SUCCESSFUL"
            result = part.result()
            values.append(getattr(result, "return_value", result.id) if is_success else None)
        after = parts[-1].at
    done.append(("collect", len(values), *more))
    return values


@task
def count(group: str, *_: Any) -> int:
    """Return how many parts of a group have succeeded."""
    done.append(("count",))
    return group_result(group).succeeded


@task
def concatenate(values: Any, text: str = "") -> str:
    return f"{text}{values}"


@task
def long(size: int) -> str:
    return "x" * size


@task(max_attempts=20, backoff=at_once)
def write(folder: str, name: str) -> str:
    """Note in a file that it has run."""
    with Path(folder, name).open("a") as file:
        file.write("x")
    return name


@task(max_attempts=20, backoff=at_once)
def write_count(group: str, folder: str) -> int:
    with Path(folder, f"after-{os.urandom(4).hex()}").open("w") as file:
        file.write(group)
    return group_result(group).succeeded
