"""The ``OPTIONS`` of a backend: their names, defaults and meaning, and what is wrong with them."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from django.utils.module_loading import import_string

from fdbqueue.exceptions import message_of
from fdbqueue.service.options import Range
from fdbqueue.tasks.retries import exponential

#: What ``backoff`` is: called with the exception, or None where the worker died, and the task's
#: result; it returns the seconds until the next attempt, or None for no further attempt.
Backoff = Callable[[BaseException | None, Any], float | None]

_DAY = 86_400.0
#: What numbers may be.
RANGES = {
    "lease_seconds": Range((int, float), 1, 86_400),
    "max_attempts": Range(int, 1, 1_000),
    "max_result_bytes": Range(int, 1, 5_000_000),
}
#: Ten years.
MAX_KEPT_SECONDS = 315_360_000
_RETENTION = Range((int, float), 0, MAX_KEPT_SECONDS, none_is_valid=True)
_BOOLEANS = ("enqueue_on_commit",)


class Problem(NamedTuple):
    """Something wrong with the options, and what to do about it."""

    message: str
    hint: str


@dataclasses.dataclass(frozen=True, slots=True)
class Retention:
    """For how many seconds ended tasks are kept: None for ever, 0 not at all."""

    successful: float | None = 7 * _DAY
    failed: float | None = 30 * _DAY


@dataclasses.dataclass(frozen=True, slots=True)
class TaskOptions:
    """The options of a backend.

    Attributes:
        lease_seconds: How long a worker holds a task without a sign of life. Workers extend it
            while the task runs: so this is how soon the tasks of a killed worker run again.
        max_attempts: How many times a task is run at most, killed workers included.
        backoff: When a failed task runs again.
        retention: For how long ended tasks are kept.
        queue_prefix: What the names of the backend's queues begin with; None for ``tasks-``, and
            ``tasks-ALIAS-`` where the backend's alias is not ``default``.
        enqueue_on_commit: Whether a task is enqueued when the ORM's transaction commits.
        max_result_bytes: The longest return value, as JSON.
        schedules: Tasks that are enqueued at their times, by name.
    """

    lease_seconds: float = 60
    max_attempts: int = 5
    backoff: Backoff | None = exponential
    retention: Retention = Retention()
    queue_prefix: str | None = None
    enqueue_on_commit: bool = False
    max_result_bytes: int = 1_000_000
    schedules: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def parse(given: Mapping[str, Any]) -> tuple[TaskOptions, list[Problem]]:
    """Return the options that a setting says, and what is wrong with it.

    What is wrong has its default in the options.
    """
    problems = [*_problems(given)]
    names = {field.name for field in dataclasses.fields(TaskOptions)}
    sound = {name: value for name, value in given.items() if name in names}
    for problem_name in [name for name, _ in problems]:
        sound.pop(problem_name, None)
    if "backoff" in sound:
        sound["backoff"] = function_of(sound["backoff"])
    if "retention" in sound:
        sound["retention"] = Retention(
            **{name: in_seconds(value) for name, value in sound["retention"].items()}
        )
    return TaskOptions(**sound), [problem for _, problem in problems]


def function_of(given: Any) -> Any:
    """Return a function that is given as itself or by its dotted path; None stays None."""
    return import_string(given) if isinstance(given, str) else given


def in_seconds(given: Any) -> Any:
    """Return a ``timedelta`` as seconds, and anything else as it is."""
    return given.total_seconds() if isinstance(given, datetime.timedelta) else given


def _problems(given: Mapping[str, Any]) -> Iterator[tuple[str, Problem]]:
    names = sorted(field.name for field in dataclasses.fields(TaskOptions))
    for name in given:
        if name not in names:
            hint = f"The options are {', '.join(names)}."
            yield name, Problem(f"OPTIONS has an unknown key, {name!r}.", hint)
    for name, allowed in RANGES.items():
        if name in given and given[name] not in allowed:
            yield name, _wrong(name, given[name], str(allowed))
    for name in _BOOLEANS:
        if not isinstance(given.get(name, False), bool):
            yield name, _wrong(name, given[name], "True or False")
    prefix = given.get("queue_prefix")
    if prefix is not None and not isinstance(prefix, str):
        yield "queue_prefix", _wrong("queue_prefix", prefix, "a text")
    if not isinstance(given.get("schedules", {}), Mapping):
        yield "schedules", _wrong("schedules", given["schedules"], "a dictionary")
    yield from _backoff_problems(given.get("backoff"))
    yield from _retention_problems(given.get("retention", {}))


def _backoff_problems(backoff: Any) -> Iterator[tuple[str, Problem]]:
    try:
        found = function_of(backoff)
    except Exception as error:  # noqa: BLE001  # a project's own module may raise anything
        message = f"The backoff {backoff!r} cannot be imported: {message_of(error)}"
        yield "backoff", Problem(message, "Name a function of an exception and a result.")
        return
    if found is not None and not callable(found):
        yield "backoff", _wrong("backoff", backoff, "None, a function, or its dotted path")


def _retention_problems(retention: Any) -> Iterator[tuple[str, Problem]]:
    allowed = "a dictionary of 'successful' and 'failed', in seconds or as timedelta, or None"
    kept = {field.name for field in dataclasses.fields(Retention)}
    if not isinstance(retention, Mapping) or not kept.issuperset(retention):
        yield "retention", _wrong("retention", retention, allowed)
        return
    if any(in_seconds(value) not in _RETENTION for value in retention.values()):
        yield "retention", _wrong("retention", retention, allowed)


def _wrong(name: str, value: Any, allowed: str) -> Problem:
    return Problem(f"OPTIONS has the {name} {value!r}.", f"It must be {allowed}.")
