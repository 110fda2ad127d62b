"""The functions of the tests' tasks.

They say that they are in ``tests.tasks.rules.tasks``, where a backend finds each function's
Task by its path. Most of them write into the journal that they ran, so that a test sees
it even where a backend keeps no results.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from django.utils.module_loading import import_string

from fdbqueue.tasks.compat import Task, TaskContext
from tests.tasks.rules import journal

#: The module that the functions' Tasks are found in.
TASKS_MODULE = "tests.tasks.rules.tasks"
FUNCTIONS: dict[str, Callable[..., Any]] = {}
#: A task that waits to be killed gives up after this time, so that nothing hangs for ever.
GIVE_UP_SECONDS = 60.0

_Function = TypeVar("_Function", bound=Callable[..., Any])
Context: TypeAlias = "TaskContext[Any, Any]"


class TaskFailure(Exception):
    """A task of these tests fails, as it should."""


class SevereFailure(BaseException):
    """A task of these tests raises what ``except Exception`` does not catch."""


class UnprintableFailure(Exception):
    """An exception whose text cannot be made."""

    def __str__(self) -> str:
        raise TypeError("this exception has no text")


def _function_of_a_task(function: _Function) -> _Function:
    function.__module__ = TASKS_MODULE
    FUNCTIONS[function.__qualname__] = function
    return function


@_function_of_a_task
def add(a: int, b: int = 0) -> int:
    """Return a sum."""
    journal.write("ran", task="add", value=[a, b])
    return a + b


@_function_of_a_task
def mark(name: Any) -> Any:
    """Write a name into the journal, and return it."""
    journal.write("ran", task="mark", value=name)
    return name


@_function_of_a_task
def echo(*args: Any, **kwargs: Any) -> list[Any]:
    """Return the arguments as the function received them."""
    journal.write("ran", task="echo", value=[args, kwargs])
    return [list(args), kwargs]


@_function_of_a_task
def types(*args: Any) -> list[str]:
    """Return the names of the arguments' types."""
    return [type(arg).__name__ for arg in args]


@_function_of_a_task
def nothing() -> None:
    """Return None."""


@_function_of_a_task
def odd_value(kind: str) -> Any:
    """Return a value that JSON has in another form, or not at all."""
    values: dict[str, Any] = {
        "tuple": (1, (2, {"a": (3,)})),
        "bytes": b"text",
        "binary": b"\xff\xfe",
        "object": object(),
        "set": {1},
    }
    return values[kind]


@_function_of_a_task
def fail(message: str = "as asked") -> None:
    """Raise an exception."""
    journal.write("ran", task="fail", value=message)
    raise TaskFailure(message)


@_function_of_a_task
def fail_with_cause() -> None:
    """Raise an exception that another one caused."""
    try:
        raise KeyError("the cause")
    except KeyError as error:
        raise TaskFailure("the consequence") from error


@_function_of_a_task
def fail_oddly(kind: str) -> None:
    """Raise an exception that is awkward to record or to catch."""
    journal.write("ran", task="fail_oddly", value=kind)
    if kind == "local":

        class LocalFailure(Exception):
            """An exception that no path leads to."""

        raise LocalFailure("local")
    raise {
        "exit": SystemExit(3),
        "severe": SevereFailure("severe"),
        "cancelled": asyncio.CancelledError(),
        "unprintable": UnprintableFailure(),
        "surrogate": TaskFailure("a file \udcff"),
        "nul": TaskFailure("a \x00 b"),
        "long": TaskFailure("x" * 200_000),
    }[kind]


@_function_of_a_task
def fail_until(context: Context, attempt: int) -> int:
    """Fail in the attempts before a given one, and return its number."""
    journal.write("ran", task="fail_until", value=context.attempt)
    if context.attempt < attempt:
        raise TaskFailure(f"attempt {context.attempt}")
    return context.attempt


@_function_of_a_task
def look_at_context(context: Context, word: str) -> dict[str, Any]:
    """Return what the context says of the running task."""
    result = context.task_result
    return {
        "word": word,
        "attempt": context.attempt,
        "id": result.id,
        "status": str(result.status.value),
        "is_started": result.started_at is not None,
        "is_finished": result.finished_at is not None or result.is_finished,
        "worker_ids": result.worker_ids,
        "args": result.args,
        "is_context": isinstance(context, TaskContext),
    }


@_function_of_a_task
def look_at_result(context: Context) -> dict[str, Any]:
    """Return what the backend says of the running task."""
    result = context.task_result.task.get_backend().get_result(context.task_result.id)
    return {
        "status": str(result.status.value),
        "attempts": result.attempts,
        "is_started": result.started_at is not None,
        "is_finished": result.is_finished,
    }


@_function_of_a_task
def enqueue_another(name: str) -> str:
    """Enqueue a task, and return its id."""
    task: Task[..., Any] = import_string(f"{TASKS_MODULE}.mark")
    return task.enqueue(name).id


@_function_of_a_task
async def add_async(a: int, b: int) -> int:
    """Return a sum, from within an event loop."""
    await asyncio.sleep(0)
    asyncio.get_running_loop()
    journal.write("ran", task="add_async", value=[a, b])
    return a + b


@_function_of_a_task
async def fail_async() -> None:
    """Raise an exception, from within an event loop."""
    await asyncio.sleep(0)
    raise TaskFailure("after an await")


@_function_of_a_task
async def look_at_context_async(context: Context) -> list[Any]:
    """Return what the context says of the running coroutine."""
    await asyncio.sleep(0)
    return [context.attempt, context.task_result.id]


@_function_of_a_task
def block_once(name: str) -> str:
    """Wait to be killed in the first run, and return in each later one."""
    is_first = not journal.entries("ran", task="block_once", value=name)
    journal.write("ran", task="block_once", value=name)
    if is_first:
        time.sleep(GIVE_UP_SECONDS)
    return name


@_function_of_a_task
def take_time(name: Any, seconds: float) -> Any:
    """Work for some time."""
    journal.write("ran", task="take_time", value=name)
    time.sleep(seconds)
    return name


@_function_of_a_task
def kill_worker() -> None:
    """Kill the process that runs it."""
    journal.write("ran", task="kill_worker", value=None)
    os.kill(os.getpid(), signal.SIGKILL)


@_function_of_a_task
def without_context(word: str) -> str:
    """Have no argument for a context."""
    return word
