"""Tasks for the tests of retention, schedules and the worker command."""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
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


@task(max_attempts=1)
def write_once(folder: str, number: int) -> int:
    """Note that it runs, in a file for each number, and take a moment."""
    with (Path(folder) / f"ran-{number}").open("a") as file:
        file.write("x")
    time.sleep(0.005)
    return number


@task
def write_again(folder: str, number: int) -> int:
    """Do so as often as a worker is lost."""
    return write_once.call(folder, number)


@task
def leave_a_thread() -> None:
    """Leave a thread behind for which Python waits."""
    ThreadPoolExecutor(1).submit(time.sleep, 600)


@task
async def leave_in_a_subtask() -> None:
    """Let a coroutine of its own raise what asyncio lets out of the loop."""

    async def leave() -> None:
        raise SystemExit(3)

    await asyncio.create_task(leave())
