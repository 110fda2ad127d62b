"""The functions of the tests' tasks.

They say that they are in ``tests.tasks.rules.tasks``, where a backend finds each function's
Task by its path. Most of them write into the journal that they ran.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from django.utils.module_loading import import_string

from fdbqueue.tasks.compat import TaskContext
from tests.tasks.rules import journal

#: The module that the functions' Tasks are found in.
TASKS_MODULE = "tests.tasks.rules.tasks"
FUNCTIONS: dict[str, Callable[..., Any]] = {}

Context: TypeAlias = "TaskContext[Any, Any]"


class TaskFailure(Exception):
    """A task of these tests fails, as it should."""


class SevereFailure(BaseException):
    """A task of these tests raises what ``except Exception`` does not catch."""


class UnprintableFailure(Exception):
    """An exception whose text cannot be made."""

    def __str__(self):
        raise TypeError("this exception has no text")


def _function_of_a_task(function):
    function.__module__ = TASKS_MODULE
    FUNCTIONS[function.__qualname__] = function
    return function


@_function_of_a_task
def add(a, b=0):
    """Return a sum."""
    journal.write("ran", task="add", value=[a, b])
    return a + b


@_function_of_a_task
def mark(name):
    """Write a name into the journal, and return it."""
    journal.write("ran", task="mark", value=name)
    return name


@_function_of_a_task
def echo(*args, **kwargs):
    """Return the arguments as the function received them."""
    journal.write("ran", task="echo", value=[list(args), kwargs])
    return [list(args), kwargs]


@_function_of_a_task
def types(*args):
    """Return the names of the arguments' types."""
    return [type(arg).__name__ for arg in args]


@_function_of_a_task
def nothing():
    """Return None."""


@_function_of_a_task
def odd_value(kind):
    """Return a value that JSON has in another form, or not at all."""
    values = {
        "tuple": (1, (2, {"a": (3,)})),
        "bytes": b"text",
        "binary": b"\xff\xfe",
        "object": object(),
        "set": {1},
    }
    return values[kind]


@_function_of_a_task
def fail(message="as asked"):
    """Raise an exception."""
    journal.write("ran", task="fail", value=message)
    raise TaskFailure(message)


@_function_of_a_task
def fail_with_cause():
    """Raise an exception that another one caused."""
    try:
        raise KeyError("the cause")
    except KeyError as error:
        raise TaskFailure("the consequence") from error


@_function_of_a_task
def fail_oddly(kind):
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
def fail_until(context, attempt):
    """Fail in the attempts before a given one, and return its number."""
    journal.write("ran", task="fail_until", value=context.attempt)
    if context.attempt < attempt:
        raise TaskFailure(f"attempt {context.attempt}")
    return context.attempt


@_function_of_a_task
def look_at_context(context, word):
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
def look_at_result(context):
    """Return what the backend says of the running task."""
    result = context.task_result.task.get_backend().get_result(context.task_result.id)
    return {
        "status": str(result.status.value),
        "attempts": result.attempts,
        "is_started": result.started_at is not None,
        "is_finished": result.is_finished,
    }


@_function_of_a_task
def enqueue_another(name):
    """Enqueue a task, and return its id."""
    task = import_string(f"{TASKS_MODULE}.mark")
    return task.enqueue(name).id


@_function_of_a_task
async def add_async(a, b):
    """Return a sum, from within an event loop."""
    await asyncio.sleep(0)
    asyncio.get_running_loop()
    journal.write("ran", task="add_async", value=[a, b])
    return a + b


@_function_of_a_task
async def fail_async():
    """Raise an exception, from within an event loop."""
    await asyncio.sleep(0)
    raise TaskFailure("after an await")


@_function_of_a_task
async def look_at_context_async(context):
    """Return what the context says of the running coroutine."""
    await asyncio.sleep(0)
    return [context.attempt, context.task_result.id]


@_function_of_a_task
def without_context(word):
    """Have no argument for a context."""
    return word
