"""Tasks that take too long, each in its own way."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from django.db import connection, transaction

from fdbqueue.tasks import TaskTimeout, task
from fdbqueue.tasks.compat import task_backends
from fdbqueue.tasks.exceptions import TaskUnknown
from fdbqueue.tasks.results import task_at
from fdbqueue.tasks.runner import call_here
from fdbqueue.tasks.strikes import Strike, set_exception
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


@task(backoff=never)
def turn_and_try() -> None:
    """Do so, and handle all errors of its own."""
    jobs.begun.set()
    while not jobs.gate.is_set():
        with contextlib.suppress(Exception):
            _turn_until(jobs.gate.is_set)


@task(max_attempts=2, backoff=at_once, takes_context=True)
def turn_at_first(context: Any) -> str:
    if context.attempt == 1:
        _turn_until(jobs.gate.is_set)
    return f"attempt {context.attempt}"


@task
def turn_as_the_backend_says() -> None:
    _turn_until(jobs.gate.is_set)


@task(backoff=never)
def turn_in_a_transaction() -> None:
    """Leave the connection in a transaction that the code does not end, and take too long."""
    block = transaction.atomic()
    block.__enter__()
    _turn_until(jobs.gate.is_set)


@task(backoff=never)
def ask_the_database() -> bool:
    assert not connection.in_atomic_block
    return _answer()


def _answer() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        return bool(cursor.fetchone())


@task(backoff=never)
def return_what_there_is() -> str:
    try:
        _turn_until(jobs.gate.is_set)
    except TaskTimeout:
        return "a part"
    return "all"


@task(max_attempts=3, backoff=at_once)
def fail_when_ended() -> None:
    jobs.begun.set()
    try:
        _turn_until(jobs.gate.is_set)
    except BaseException:  # noqa: BLE001  # whatever ends it
        raise LookupError from None


@task(backoff=never)
def swallow() -> str:
    """Handle what is to end it, and go on until the gate opens."""
    while not jobs.gate.is_set():
        with contextlib.suppress(BaseException):
            _turn_until(jobs.gate.is_set)
    return "at last"


@task(timeout=60)
def take_a_while(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@task(timeout=None)
def take_a_while_without_limit(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@task(backoff=never)
def take_about(seconds: float) -> int:
    """Run lines of Python for about as long as the time limit is."""
    end, turns = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        turns += 1
    return turns


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


@task(backoff=never)
def fork_and_take_long() -> int:
    """Fork a child that returns in the task's name, and take longer than is allowed."""
    child = os.fork()
    if child == 0:
        return 0
    os.waitpid(child, 0)
    _turn_until(jobs.gate.is_set)
    return child


# In code that has locks of the whole process, or loses exceptions, and hardly anywhere else

_LOG = logging.Logger("many lines")  # noqa: LOG001  # one that passes nothing on
_LOG.addHandler(logging.FileHandler(os.devnull, delay=True))


@task(backoff=never)
def log() -> None:
    while not jobs.gate.is_set():
        _LOG.error("a line")


@task(backoff=never)
def start_threads() -> None:
    while not jobs.gate.is_set():
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(abs, range(5)))


@task(backoff=never)
def import_modules() -> None:
    while not jobs.gate.is_set():
        for name in ("colorsys", "json.tool"):
            sys.modules.pop(name, None)
            importlib.import_module(name)


class Finalized:
    """What takes a while to be freed."""

    def __del__(self) -> None:
        for _ in range(20_000):
            pass


@task(backoff=never)
def free() -> None:
    while not jobs.gate.is_set():
        Finalized()


@task(backoff=never)
def look_for_a_task() -> str:
    """Import a module that takes too long, for a task that may be missing."""
    with contextlib.suppress(TaskUnknown):
        task_at("tests.tasks.slow_jobs.job")
    return "went on"


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


#: A lock of the whole process, and code that takes it and is ended a line later.
_LOCK = threading.Lock()
_LOCKING_CODE = """
def take(lock, end):
    lock.acquire()
    end()
"""


@task(timeout=60, backoff=never)
def leave_a_lock_taken(folder: str) -> None:
    """Be ended where a module of locks has taken one, as a loss of the interpreter may do."""
    _note(folder, "locked")
    frame = sys._getframe()
    while frame.f_code is not call_here.__code__:
        frame = frame.f_back
    attempt = frame.f_locals["attempt"]
    strike = attempt.limit.strike = Strike(attempt.thread, attempt.limit.seconds, frame.f_code)
    module = {"__name__": "logging.handlers"}
    exec(_LOCKING_CODE, module)
    module["take"](_LOCK, partial(set_exception, strike.thread, strike.kind))


@task(timeout=None, max_attempts=5, backoff=at_once)
def wait_for_the_lock(folder: str) -> None:
    _note(folder, "waits")
    with _LOCK:
        pass
