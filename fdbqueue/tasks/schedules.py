"""Schedules: what the option says of tasks that are enqueued at their times, and what is wrong.

    "schedules": {"nightly": {"task": "shop.tasks.clean", "cron": "0 3 * * *"}}

A *slot* is a moment at which a schedule is due. Slots follow from the schedule alone, so all
workers agree on them: those of ``every`` are its multiples since the Unix epoch, those of ``cron``
what cronsim says, in the schedule's time zone. There, as Debian's cron does it, a slot in an hour
that a change of the clocks leaves out is at its end, and one in an hour that comes twice is in the
first; expressions that begin the minutes or hours with ``*`` go by the time that passes.
"""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import json
import zoneinfo
from collections.abc import Iterator, Mapping
from typing import Any

from django.utils import timezone

from fdbqueue.exceptions import ConfigurationError, message_of
from fdbqueue.service.options import Range
from fdbqueue.tasks.compat import Task
from fdbqueue.tasks.exceptions import TaskUnknown
from fdbqueue.tasks.results import new_result, task_at

#: Seconds between two slots of ``every``.
EVERY = Range((int, float), 1, 31_536_000)
_SECOND = 1_000_000
_UTC = datetime.timezone.utc
#: How far back to look for the latest slot of a cron expression: the first with one has it.
_WINDOWS = tuple(
    datetime.timedelta(seconds=seconds)
    for seconds in (60, 3_600, 86_400, 32 * 86_400, 366 * 86_400, 9 * 366 * 86_400)
)
#: The longest name, and the longest cron expression.
_MAX_NAME = 100
_MAX_CRON = 200

_KEYS = {
    "args": list,
    "cron": str,
    "every": object,
    "kwargs": Mapping,
    "priority": int,
    "queue_name": str,
    "task": str,
    "time_zone": str,
}
#: The checks of wrong values; the others are arguments, E013.
_CHECKS = {"task": "E011", "cron": "E012", "every": "E012", "time_zone": "E012"}


class Wrong(Exception):
    """Something is wrong with a schedule.

    Args:
        id: The number of its system check.
        message: What is wrong.
        hint: What to do.
    """

    def __init__(self, id: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.id = id
        self.message = message
        self.hint = hint


@dataclasses.dataclass(frozen=True, slots=True)
class Every:
    """Slots that are all equally far apart."""

    seconds: float

    @property
    def text(self) -> str:
        """What stands for these slots."""
        return f"every {self.seconds:g}"

    def latest(self, moment: int) -> int | None:
        """Return the latest slot up to a moment, in microseconds."""
        length = round(self.seconds * _SECOND)
        return moment // length * length

    def following(self, moment: int) -> int | None:
        """Return the first slot behind a moment, in microseconds."""
        length = round(self.seconds * _SECOND)
        return (moment // length + 1) * length


@dataclasses.dataclass(frozen=True, slots=True)
class Cron:
    """The slots of a cron expression in a time zone."""

    expression: str
    zone: zoneinfo.ZoneInfo

    @property
    def text(self) -> str:
        """What stands for these slots."""
        return f"cron {' '.join(self.expression.upper().split())} {self.zone.key}"

    def latest(self, moment: int) -> int | None:
        """Return the latest slot up to a moment, in microseconds; None where there is none."""
        now = datetime.datetime.fromtimestamp(moment // _SECOND, _UTC)
        for window in _WINDOWS:
            found = None
            for slot in self._slots(now - window):
                if slot * _SECOND > moment:
                    break
                found = slot
            if found is not None:
                return found * _SECOND
        return None

    def following(self, moment: int) -> int | None:
        """Return the first slot behind a moment, in microseconds; None where there is none."""
        now = datetime.datetime.fromtimestamp(moment // _SECOND, _UTC)
        slot = next(self._slots(now), None)
        return None if slot is None else slot * _SECOND

    def _slots(self, after: datetime.datetime) -> Iterator[int]:
        """Yield the slots behind a full second, in seconds."""
        from cronsim import CronSim

        last = int(after.timestamp())
        for slot in CronSim(self.expression, after.astimezone(self.zone)):
            second = int(slot.timestamp())
            if second > last:  # in an hour that comes twice it begins with the first
                yield second
                last = second


@dataclasses.dataclass(frozen=True, slots=True)
class Schedule:
    """A task that is enqueued at its times.

    Attributes:
        name: Its name in the option.
        task: The dotted path of the task.
        times: Its slots.
        args, kwargs: The arguments.
        changes: What is set of the task: its queue, its priority.
    """

    name: str
    task: str
    times: Every | Cron
    args: list[Any]
    kwargs: dict[str, Any]
    changes: dict[str, Any]

    def result(self, alias: str) -> Any:
        """Return the result of a new task of this schedule, which is not enqueued yet.

        Raises:
            TaskUnknown: There is no such task.
            InvalidTask: The backend refuses it.
            TypeError, ValueError: The arguments are no JSON.
        """
        task = task_at(self.task)
        task = dataclasses.replace(task, backend=alias, **self.changes)
        return new_result(task, self.args, self.kwargs, alias)


def schedules_of(backend: Any) -> list[Schedule]:
    """Return the schedules of a backend, those that are wrong left out: its check names them."""
    found = []
    for name, given in backend.settings.schedules.items():
        try:
            found.append(parsed(name, given))
        except Wrong:
            continue
    return found


def problems(backend: Any) -> Iterator[Wrong]:
    """Yield what is wrong with the schedules of a backend; the tasks are imported."""
    for name, given in backend.settings.schedules.items():
        try:
            schedule = parsed(name, given)
            _check_task(schedule, backend)
        except Wrong as wrong:
            yield wrong


def parsed(name: Any, given: Any) -> Schedule:
    """Return a schedule of the option; its task is not looked up.

    Raises:
        Wrong: Something is wrong with it.
    """
    if not isinstance(name, str) or not 1 <= len(name) <= _MAX_NAME or not name.isprintable():
        hint = f"Use 1 to {_MAX_NAME} printable characters."
        raise Wrong("E010", f"The schedule {name!r} has no valid name.", hint)
    if not isinstance(given, Mapping):
        hint = "Give it a dictionary with 'task', and 'cron' or 'every'."
        raise Wrong("E010", f"The schedule {name!r} is not a dictionary.", hint)
    for key, value in given.items():
        _check_key(name, key, value)
    if "task" not in given:
        hint = "Name the task by its dotted path, as in 'shop.tasks.clean'."
        raise Wrong("E011", f"The schedule {name!r} has no 'task'.", hint)
    changes = {key: given[key] for key in ("priority", "queue_name") if key in given}
    args, kwargs = [*given.get("args", ())], {**given.get("kwargs", {})}
    return Schedule(name, given["task"], _times(name, given), args, kwargs, changes)


def _check_key(name: str, key: Any, value: Any) -> None:
    if key not in _KEYS:
        hint = f"The keys are {', '.join(_KEYS)}."
        raise Wrong("E010", f"The schedule {name!r} has an unknown key, {key!r}.", hint)
    kind = (list, tuple) if key == "args" else _KEYS[key]
    if isinstance(value, bool) or not isinstance(value, kind):
        number = _CHECKS.get(key, "E013")
        kinds = {list: "a list", Mapping: "a dictionary", int: "a whole number"}
        hint = f"It is {kinds.get(_KEYS[key], 'a text')}."
        raise Wrong(number, f"The schedule {name!r} has the {key} {value!r}.", hint)


def _times(name: str, given: Mapping[str, Any]) -> Every | Cron:
    if ("cron" in given) == ("every" in given):
        which = "both 'cron' and 'every'" if "cron" in given else "neither 'cron' nor 'every'"
        raise Wrong("E012", f"The schedule {name!r} has {which}.", "Give it one of them.")
    if "every" in given:
        every = given["every"]
        if isinstance(every, datetime.timedelta):
            every = every.total_seconds()
        if every not in EVERY:
            hint = f"It must be a timedelta, or seconds: {EVERY}."
            raise Wrong("E012", f"The schedule {name!r} has the every {given['every']!r}.", hint)
        if "time_zone" in given:
            hint = "It is for 'cron'; the times of 'every' are its multiples since 1970 in UTC."
            raise Wrong("E012", f"The schedule {name!r} has a 'time_zone'.", hint)
        return Every(every)
    zone = given.get("time_zone")
    try:
        found = zoneinfo.ZoneInfo(timezone.get_default_timezone_name() if zone is None else zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = f"The schedule {name!r} has the time_zone {zone!r}, which is not known."
        hint = "Use a name such as 'Europe/Berlin'; without one it is TIME_ZONE."
        raise Wrong("E012", message, hint) from error
    return _cron(name, given["cron"], found)


def _cron(name: str, expression: str, zone: zoneinfo.ZoneInfo) -> Cron:
    try:
        from cronsim import CronSim, CronSimError
    except ImportError as error:
        message = f"The schedule {name!r} has a 'cron', and cronsim is not installed."
        raise Wrong("E012", message, "pip install 'fdbqueue[tasks]'") from error
    try:
        if len(expression) > _MAX_CRON:
            raise CronSimError("Too long")
        CronSim(expression, datetime.datetime(2026, 1, 1, tzinfo=_UTC))
    except CronSimError as error:
        message = f"The schedule {name!r} has the cron {expression[:_MAX_CRON]!r}: {error}."
        hint = "Give it minute, hour, day, month and day of the week, as in '0 3 * * *'."
        raise Wrong("E012", message, hint) from error
    cron = Cron(expression, zone)
    if cron.following(0) is None:
        hint = "Choose a day that there is."
        raise Wrong("E012", f"The cron {expression!r} of the schedule {name!r} is never due.", hint)
    return cron


def _check_task(schedule: Schedule, backend: Any) -> None:
    """Check the task, its queue, its priority and the arguments, as an enqueue does.

    Raises:
        Wrong: One of them is wrong.
    """
    name = schedule.name
    try:
        task_at(schedule.task)
    except TaskUnknown as error:
        why = f": {message_of(error.__cause__)}" if error.__cause__ else "."
        message = f"The schedule {name!r} has the task {schedule.task!r}, which is not a task{why}"
        hint = "Name a function with the decorator @task by its dotted path."
        raise Wrong("E011", message, hint) from error
    try:
        backend.prepare(schedule.result(backend.alias))
    except ConfigurationError:
        return  # its own check says what is wrong
    except Exception as error:
        message = f"The task of the schedule {name!r} cannot be enqueued: {message_of(error)}"
        hint = "See its args, kwargs, queue_name and priority."
        raise Wrong("E013", message, hint) from error
    _check_arguments(schedule)


def _check_arguments(schedule: Schedule) -> None:
    task: Task[..., Any] = task_at(schedule.task)
    args = [None, *schedule.args] if task.takes_context else schedule.args
    try:
        inspect.signature(task.func).bind(*args, **schedule.kwargs)
    except TypeError as error:
        given = json.dumps([schedule.args, schedule.kwargs])[:200]
        message = f"The schedule {schedule.name!r} does not fit its task: {error}: {given}"
        hint = f"See the parameters of {schedule.task}."
        raise Wrong("E013", message, hint) from error
