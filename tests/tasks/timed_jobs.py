"""Tasks that take too long, each in its own way."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from django.db import connection

from fdbqueue.tasks import TaskTimeout, task
from fdbqueue.tasks.compat import task_backends
from tests.engines.children import wait_until
from tests.tasks import jobs
from tests.tasks.jobs import at_once, never

#: A regular expression that takes some years for this text, and holds the interpreter.
_CATASTROPHE = re.compile(r"(a+)+$")
_TEXT = "a" * 60 + "b"


def _turn_until(is_done: Any) -> None:
    while not is_done():
        time.sleep(0.001)


@task(backoff=never)
def turn() -> None:
    """Run lines of Python until it is ended."""
    jobs.begun.set()
    _turn_until(jobs.gate.is_set)


@task(max_attempts=2, backoff=at_once, takes_context=True)
async def sleep_at_first(context: Any) -> str:
    if context.attempt == 1:
        await asyncio.sleep(3_600)
    return f"attempt {context.attempt}"


@task
async def sleep_as_the_backend_says() -> None:
    await asyncio.sleep(3_600)


@task(backoff=never)
def ask_the_database() -> bool:
    assert not connection.in_atomic_block
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        return bool(cursor.fetchone())


@task(backoff=never)
async def return_what_there_is() -> str:
    jobs.begun.set()
    try:
        await asyncio.sleep(3_600)
    except asyncio.CancelledError:
        return "a part"
    return "all"


@task(max_attempts=3, backoff=at_once)
async def fail_when_ended() -> None:
    jobs.begun.set()
    try:
        await asyncio.sleep(3_600)
    except asyncio.CancelledError:
        raise LookupError from None


@task(backoff=never)
def turn_at_last() -> str:
    """Run lines of Python until the gate opens."""
    _turn_until(jobs.gate.is_set)
    return "at last"


@task(backoff=never, takes_context=True)
def end_by_itself(context: Any) -> list[bool]:
    """Look how much time is left until there is none, and then whether it was aborted."""
    before = context.remaining_seconds
    _turn_until(lambda: context.remaining_seconds == 0 or jobs.gate.is_set())
    return [before is not None and before > 0, context.is_aborted]


@task(timeout=60)
def take_a_while(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@task(timeout=60)
async def sleep_a_while(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


@task(timeout=None)
async def sleep_a_while_without_limit(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


@task(backoff=never)
async def sleep_about(seconds: float) -> float:
    """Take about as long as the time limit is, together with others."""
    await asyncio.sleep(seconds)
    return seconds


@task
def quick(number: int) -> int:
    jobs.done.append(number)
    return number


@task(backoff=never)
async def sleep() -> None:
    jobs.begun.set()
    try:
        await asyncio.sleep(3_600)
    finally:
        jobs.done.append("cleaned up")


@task(backoff=never)
async def swallow_cancellation() -> str:
    while not jobs.gate.is_set():
        with contextlib.suppress(asyncio.CancelledError):
            while not jobs.gate.is_set():
                await asyncio.sleep(0.001)
    return "at last"


@task(backoff=never)
async def cancel_itself() -> None:
    raise asyncio.CancelledError


# For processes: each attempt leaves a file


def _note(folder: str, name: str) -> None:
    (Path(folder) / f"{name}-{os.getpid()}-{time.monotonic_ns()}").touch()


@task(max_attempts=2, backoff=at_once)
def match(folder: str) -> None:
    """Hold the interpreter at the first attempt, and return at the second."""
    is_second = any(Path(folder).glob("match-*"))
    _note(folder, "match")
    if not is_second:
        _CATASTROPHE.match(_TEXT)


@task(max_attempts=20, backoff=at_once)
def hang_once(folder: str) -> None:
    """Do so, with attempts to spare."""
    is_first = not any(Path(folder).glob("hang-*"))
    _note(folder, "hang")
    if is_first:
        _CATASTROPHE.match(_TEXT)


@task(max_attempts=2, backoff=at_once, timeout=5, takes_context=True)
def note_and_match(context: Any) -> Any:
    """Hold the interpreter once what the first attempt has noted is written."""
    if context.attempt == 1:
        context.metadata["next row"] = 7
        result = task_backends["default"].get_result(context.task_result.id)
        wait_until(lambda: result.refresh() or result.metadata)
        _CATASTROPHE.match(_TEXT)
    return context.metadata["next row"]


@task(max_attempts=2, backoff=at_once)
def always_match(folder: str) -> None:
    _note(folder, "match")
    _CATASTROPHE.match(_TEXT)


@task(backoff=never)
def wait_in_c(folder: str) -> None:
    _note(folder, "wait")
    time.sleep(3_600)


@task
def write(folder: str, number: int) -> int:
    _note(folder, f"write-{number}")
    return number


_LOCK = threading.Lock()


def _hold_a_lock() -> None:
    with _LOCK:
        _LOCK.acquire()


def _fork() -> None:
    """Fork, in a child that waits for ever, and wait for it."""
    child = os.fork()
    if child == 0:
        signal.pause()
    os.waitpid(child, 0)


def _ignore_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    threading.Event().wait()


def _fork_again_and_again() -> None:
    while True:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)


#: How a task may hang: in the ways that nothing in its own process can end.
HANGS: dict[str, Callable[[], Any]] = {
    "a lock": _hold_a_lock,
    "a fork": _fork,
    "forks without end": _fork_again_and_again,
    "C code that holds the interpreter": partial(_CATASTROPHE.match, _TEXT),
    "C code that holds it for a minute at most": partial(_CATASTROPHE.match, _TEXT[-29:]),
    "C code that does not hold it": partial(hashlib.pbkdf2_hmac, "sha256", b"", b"", 100_000_000),
    "time.sleep": partial(time.sleep, 3_600),
    "ignored signals": _ignore_signals,
}


@task(max_attempts=2, backoff=at_once, takes_context=True)
def hang(context: Any, folder: str, name: str) -> int:
    """Hang at the first attempt, and return at the second."""
    _note(folder, "hang")
    if context.attempt == 1:
        HANGS[name]()
    return int(context.attempt)


@task(max_attempts=1_000, backoff=at_once, takes_context=True)
def hang_until_timeout(context: Any, folder: str, name: str) -> int:
    """Hang, unless an attempt has ended at the time limit; return how many have."""
    ends = [one for one in context.task_result.errors if one.exception_class is TaskTimeout]
    if not ends:
        _note(folder, "hold" if "holds" in name else "hang")
        HANGS[name]()
        raise AssertionError("it has ended by itself, because nobody could end its process")
    return len(ends)


@task(max_attempts=1_000, backoff=at_once, timeout=None, takes_context=True)
def read_beside(context: Any, number: int, seconds: float) -> int:
    """Read from the engine for a while."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        task_backends["default"].get_result(context.task_result.id)
    return number


@task(max_attempts=2, backoff=at_once, timeout=None)
def work_beside(folder: str, number: int, seconds: float) -> int:
    """Take a while, and note the beginning and the end."""
    _note(folder, f"beside-{number}")
    time.sleep(seconds)
    _note(folder, f"ended-{number}")
    return number
