"""The tasks of the tests."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
import time
from typing import Any

import fdbqueue
from fdbqueue.tasks import TaskAborted, at_end, enqueue_at_end, is_aborted, task

#: What tasks have done here, for tests whose workers run in this process.
done: list[Any] = []
#: Opened by tests for tasks that wait for it.
gate = threading.Event()
#: Set by tasks that have begun.
begun = threading.Event()


def at_once(_exception: Any, _result: Any) -> float:
    """Run again without a pause."""
    return 0.0


def never(_exception: Any, _result: Any) -> None:
    """Run no second time."""


@task
def note(value: Any) -> Any:
    done.append(value)
    return value


@task(takes_context=True)
def tell(context: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    return {"attempt": context.attempt, "id": context.task_result.id, "args": args, **kwargs}


@task
def fail_by_the_backend() -> None:
    raise LookupError


@task(max_attempts=3, backoff=at_once)
def fail(text: str) -> None:
    done.append(text)
    raise LookupError(text)


@task(max_attempts=3, backoff=at_once, takes_context=True)
def fail_at_first(context: Any) -> int:
    if context.attempt < 2:
        raise LookupError("at first")
    return context.attempt


@task(backoff="tests.tasks.jobs.at_once", max_attempts=2)
def leave() -> None:
    raise SystemExit(3)


@task(max_attempts=10, backoff=at_once, takes_context=True)
def fail_at_length(context: Any, ends_well: bool = False) -> None:
    if not (ends_well and context.attempt == 10):
        raise LookupError("\u20ac" * 100_000)


@task
async def leave_the_loop() -> None:
    raise SystemExit(3)


@task
def long(size: int) -> str:
    return "x" * size


#: What :func:`give` returns, for values that no item can have.
given: list[list[Any]] = []


@task
def give(which: int, at: int) -> Any:
    return given[which][at]


@task
async def double(value: int) -> int:
    await asyncio.sleep(0)
    done.append(threading.current_thread().name)
    return 2 * value


@task(unique_key=lambda user, **_: None if user is None else f"user:{user}")
def unique(user: str | None) -> str | None:
    done.append(user)
    return user


@task(unique_key="one", unique_while="ready")
def unique_while_ready() -> None:
    enqueued = unique_while_ready.enqueue().id if not done else None
    done.append(enqueued)


@task
def chain(left: int) -> int:
    done.append(left)
    if left:
        enqueue_at_end(chain, left - 1)
    return left


@task(max_attempts=2, backoff=at_once)
def chain_and_fail(first: bool = True) -> None:
    enqueue_at_end(note, "never")
    raise LookupError("chained")


@task(max_attempts=2, backoff=at_once)
def fail_at_the_end(text: str) -> None:
    def refuse(_tr: Any) -> None:
        raise LookupError(text)

    at_end(refuse)


@task(max_attempts=2, backoff=at_once)
def leave_at_the_end() -> None:
    def leave(_tr: Any) -> None:
        raise SystemExit(3)

    at_end(leave)


@task(max_attempts=2, backoff=at_once)
def write_at_the_end(keys: int, size: int) -> None:
    def write(tr: Any) -> None:
        for number in range(keys):
            tr[b"%d" % number] = bytes(size)

    at_end(write)


@task(max_attempts=2, backoff=at_once)
def read_at_the_end(is_late: bool) -> None:
    def read(tr: Any) -> None:
        done.append(is_late)
        if is_late:  # as this transaction is, after five seconds
            tr = fdbqueue.queue("tasks-default").database.create_transaction()
            tr.set_read_version(1)
        tr[b"any"].present()

    at_end(read)


@task
def wait() -> str:
    begun.set()
    assert gate.wait(60)
    return "waited"


@task(max_attempts=5, backoff=at_once)
def wait_for_abort() -> None:
    begun.set()
    while not is_aborted():
        assert not gate.wait(0.01)
    raise TaskAborted(reason="as asked")


@task
def ask_for_abort(_number: int) -> bool:
    return is_aborted()


@task(max_attempts=3, backoff=at_once)
def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@task
def say(word: str) -> str:
    os.write(1, f"{word}\n".encode())
    return word


@task(max_attempts=1)
def work_in_a_pool() -> list[int]:
    """Have forked processes work, and end them by SIGTERM."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(abs, [0, -1, -2])


@task(max_attempts=1)
def terminate_a_process() -> int | None:
    """Fork a process, end it, and return how it ended."""
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    process.start()
    process.terminate()
    process.join()
    return process.exitcode
