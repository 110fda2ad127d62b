"""Tasks for the tests of retention, schedules and the worker command."""

from __future__ import annotations

import os
import time
from pathlib import Path

from fdbqueue.tasks import task
from tests.tasks import jobs


@task
def fail_while_closed() -> None:
    """Fail until the tests' gate is open."""
    if not jobs.gate.is_set():
        raise LookupError("closed")


@task
def write(folder: str, text: str) -> None:
    """Write a line to a file of this process."""
    with (Path(folder) / f"written-{os.getpid()}").open("a") as file:
        file.write(f"{text}\n")


@task
def wait_for_file(folder: str, name: str) -> str:
    """Say that it has begun, and wait until there is a file."""
    (Path(folder) / f"begun-{name}-{os.getpid()}").touch()
    while not (Path(folder) / name).exists():
        time.sleep(0.01)
    return name
