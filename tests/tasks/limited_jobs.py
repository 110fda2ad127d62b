"""Tasks with limits by key, of the tests."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Any

from fdbqueue.tasks import Retry, task
from tests.tasks import jobs
from tests.tasks.jobs import at_once

#: What runs here and the most that ran at once, by key; and what has begun, in this order.
running: dict[str, int] = {}
most: dict[str, int] = {}
begun: list[Any] = []
_mutex = threading.Lock()
#: Opened by tests for tasks that wait for it.
gate = threading.Event()


def _ran(key: str, number: Any, seconds: float) -> Any:
    with _mutex:
        running[key] = running.get(key, 0) + 1
        most[key] = max(most.get(key, 0), running[key])
        begun.append((key, number))
    time.sleep(seconds)
    with _mutex:
        running[key] -= 1
    return number


@task(concurrency_key="{customer}", max_running=2)
def two_a_customer(customer: str, number: int, seconds: float = 0.005) -> int:
    return _ran(customer, number, seconds)


@task(concurrency_key=lambda customer, *_, **__: customer, max_running=1)
def one_a_customer(customer: str | None, number: int, seconds: float = 0.0) -> int:
    return _ran(str(customer), number, seconds)


def _without_digits(customer: str, *_: Any) -> str:
    if customer.isdigit():
        raise LookupError("no customer is a number")
    return customer


@task(concurrency_key=_without_digits, max_running=1)
def say(customer: str, number: int = 0) -> str:
    _ran(customer, number, 0.0)
    return customer


@task(max_running=1)
async def turn_alone(number: int) -> int:
    """Turn until the gate opens, as the first of them; the others return at once."""
    jobs.begun.set()
    while number == 0 and not jobs.gate.is_set():
        await asyncio.sleep(0.001)
    return number


@task(max_running=1)
def one_at_all(number: int) -> int:
    return _ran("all", number, 0.0)


@task(concurrency_key="{customer}", max_running=1)
def hold(customer: str) -> str:
    with _mutex:
        begun.append((customer, "hold"))
    gate.wait(60)
    return customer


@task(concurrency_key="{customer}", rate="1/h")
def one_an_hour(customer: str, number: int) -> int:
    return _ran(customer, number, 0.0)


@task(concurrency_key="{customer}", rate="100/s", burst=1)
def hundred_a_second(customer: str, number: int) -> int:
    return _ran(customer, number, 0.0)


@task(concurrency_key="{customer}", max_running=1, max_attempts=3, backoff=at_once)
def fail(customer: str) -> None:
    _ran(customer, "fail", 0.0)
    raise LookupError(customer)


@task(concurrency_key="{customer}", max_running=1, max_attempts=2, backoff=lambda *_: 3_600.0)
def fail_for_an_hour(customer: str) -> None:
    raise LookupError(customer)


@task(concurrency_key="{customer}", rate="20/s", burst=1)
def write_a_time(folder: str, customer: str, number: int) -> None:
    """Note when it began, as below."""
    began = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    with Path(folder, str(os.getpid())).open("a") as file:
        file.write(f"{customer} {number} {began}\n")


@task(concurrency_key="{customer}", max_running=2, max_attempts=30)
def write_times(folder: str, customer: str, number: int) -> int:
    """Note when it began and ended, by the clock of all processes of the machine."""
    began = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    time.sleep(0.02)
    ended = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    line = f"{customer} {number} {os.getpid()} {began} {ended}\n"
    with Path(folder, str(os.getpid())).open("a") as file:
        file.write(line)
    return number


@task(max_running=1)
def ask_to_wait(seconds: int) -> int:
    if seconds:
        raise Retry(3_600 * seconds)
    return seconds
