"""Tasks that do what no task should."""

from __future__ import annotations

import asyncio
import contextvars
import os
import sys
import threading
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection

from fdbqueue.tasks import at_end, enqueue_at_end, task
from tests.contract.test_error_texts import Homeless
from tests.tasks import jobs
from tests.tasks.jobs import never, note

KINDS = {
    kind.__name__: kind
    for kind in (SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError)
}


class Odd(Exception):
    """An exception that cannot be shown."""

    @property
    def __notes__(self) -> Any:
        raise LookupError

    def __str__(self) -> str:
        raise LookupError


class _Secretive(type):
    """A class of classes that raise when they are looked at."""

    @property
    def __module__(cls) -> Any:
        raise RuntimeError("no module")

    @property
    def __name__(cls) -> Any:
        raise RuntimeError("no name")


class OfNoName(Exception, metaclass=_Secretive):
    """An exception whose class raises when it is looked at."""


class OfNoClass(Exception):
    """An exception that raises when its class is looked at."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("no class")


SLY = {"OfNoName": OfNoName, "OfNoClass": OfNoClass}


@task(max_attempts=3, backoff=never)
def raise_what_raises(kind: str) -> None:
    raise SLY[kind]("what the reader needs")


@task(max_attempts=3, backoff=never)
async def raise_what_raises_in_the_loop(kind: str) -> None:
    raise SLY[kind]("what the reader needs")


@task(max_attempts=3, backoff=never)
def end_with_what_raises(kind: str) -> None:
    at_end(lambda _tr: raise_what_raises.func(kind))


@task(backoff=never)
def leave(kind: str) -> None:
    raise KINDS[kind]("left")


@task(backoff=never)
async def leave_the_loop(kind: str) -> None:
    raise KINDS[kind]("left")


@task(backoff=never)
async def leave_in_a_subtask(kind: str) -> None:
    async def leave() -> None:
        raise KINDS[kind]("left")

    await asyncio.gather(asyncio.create_task(leave()), asyncio.sleep(0))


@task
async def leave_a_callback() -> None:
    asyncio.get_running_loop().call_soon(sys.exit)
    await asyncio.sleep(0)
    await asyncio.sleep(0)


@task
async def stop_the_loop() -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def leaving_backoff(_exception: Any, _result: Any) -> None:
    raise SystemExit(3)


@task(backoff=leaving_backoff)
def fail_with_a_bad_backoff() -> None:
    raise LookupError


@task
def raise_what_has_no_module() -> None:
    raise Homeless("what the reader needs")


# Connections


def _break() -> None:
    connection.ensure_connection()
    connection.connection.close()


def _ask() -> Any:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        return cursor.fetchone()[0]


@task(backoff=never)
async def break_the_connection() -> None:
    await sync_to_async(_break)()


@task(backoff=never)
async def ask_the_database() -> Any:
    return await sync_to_async(_ask)()


# Behind the end


@task
def leave_a_context() -> None:
    """Leave what still acts in the task's name once it has ended."""
    context = contextvars.copy_context()
    jobs.done.append(lambda: context.run(enqueue_at_end, note, "too late"))
    jobs.done.append(lambda: context.run(at_end, lambda tr: None))


@task
def chain_at_once(text: str, ends_well: bool) -> str:
    follower = enqueue_at_end(note.using(backend="default"), text)
    at_end(lambda tr: jobs.done.append("at the end"))
    jobs.done.append(follower)
    if not ends_well:
        raise LookupError
    return text


# Forks


@task(backoff=never)
def fork(kind: str) -> str:
    child = os.fork()
    if child == 0:
        if kind == "raise":
            raise LookupError
        if kind == "exit":
            sys.exit(3)
        return "the child's"
    return f"the parent's, {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}"


@task(backoff=never)
async def fork_in_the_loop() -> str:
    child = os.fork()
    if child == 0:
        return "the child's"
    waited = await asyncio.to_thread(os.waitpid, child, 0)
    return f"the parent's, {os.waitstatus_to_exitcode(waited[1])}"


# Results, names


@task(backoff=never)
def return_keys(value: str) -> Any:
    return {"twice": {1: 2, "1": 3}, "once": {1: 2, None: [{True: 0.5}]}}[value]


def send_impl() -> None:
    """Do nothing."""


send = task(send_impl)


@task
def wait_at_the_gate(number: int) -> int:
    jobs.begun.set()
    assert jobs.gate.wait(60)
    jobs.done.append((number, threading.get_ident()))
    return number
