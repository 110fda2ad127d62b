"""Enqueue tasks at their times, each slot once, without a process that does nothing else.

The option says which, and its checks what is wrong with it:

    "schedules": {"nightly": {"task": "shop.tasks.clean", "cron": "0 3 * * *"}}

A *slot* is a moment at which a schedule is due. Slots follow from the schedule alone, so all
workers agree on them: those of ``every`` are its multiples since the Unix epoch, those of ``cron``
what cronsim says, in the schedule's time zone. There, as Debian's cron does it, a slot in an hour
that a change of the clocks leaves out is at its end, and one in an hour that comes twice is in the
first; expressions that begin the minutes or hours with ``*`` go by the time that passes.

Every worker process of the backend looks at each slot of each schedule (:class:`DueSchedules`).
There is one key for each schedule, its *state*:

    {"slot": 1700000000000000, "times": [["cron 0 3 * * * UTC", 1700000000000000], ...],
     "last": "KqfM..."}

``slot`` is the latest slot for which a task was enqueued, whatever the times were; ``times`` has
for each text of the times the slot up to which it was dealt with; ``last`` is the id of the result
of the latest task, for the page of schedules.

A worker that finds a slot due does the following, in one transaction:

1. It reads the state. If the times are not in it, the schedule is new, or has changed: it
   writes them with their latest slot, and enqueues nothing. So nothing is enqueued for the past.
2. If the latest slot is not behind both that of its times and ``slot``, another worker was
   first: nothing is done.
3. Otherwise it pushes the task, and writes the slot in both places.

Both writes are in the transaction that read the state, so of many workers one commits, and the
others conflict and then find 2. What is left behind by

- *a crash before the commit*: nothing. The other workers look at the same slot; if there are
  none, the next one that starts finds it, as the latest;
- *a crash behind it*: the task, and the slot; only the signal ``task_enqueued`` may be missing;
- *an unknown outcome*: task and slot together, or neither: the next look tells;
- *a time without workers*: one task for the latest slot, not one for each;
- *a task that cannot be enqueued*, because its code is gone or its arguments are refused: the slot
  stays as it was, the log says why, and it is tried again each minute.

Clocks that differ: a slot is due by the fastest clock of all workers, and then dealt with for all.
A state that is more than a day ahead of a worker's clock was written by a clock that was wrong; the
worker logs that and begins again, so that no clock can stop a schedule.

A schedule may be *held*, go on, and run now (:mod:`fdbqueue.tasks.schedules_by_hand`). A worker
that finds it held at step 1 does nothing.

Two versions of the setting, as while a project is deployed: each version's times are in the state,
the four latest, and neither drops the slots of the other. A slot that both have is enqueued once.
Times that were removed and come back count as times that had no workers meanwhile.
"""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import json
import zoneinfo
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from django.utils import timezone

from fdbqueue.conf import OfClass, Rule, SettingProblem, wrong_in
from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import ConfigurationError, EngineError, OutcomeUnknown, message_of
from fdbqueue.logs import get_logger
from fdbqueue.service import Catalog, error_code, moment, now_us, run
from fdbqueue.service.options import Range
from fdbqueue.steady import monotonic
from fdbqueue.tasks.checks import ARGUMENTS, SCHEDULE, SCHEDULED_TASK, TIMES
from fdbqueue.tasks.compat import Task, task_enqueued
from fdbqueue.tasks.exceptions import TaskUnknown, pass_interrupt
from fdbqueue.tasks.options import in_seconds
from fdbqueue.tasks.results import change, local, new_result, task_at

logger = get_logger(__name__)

#: Seconds between two slots of ``every``.
EVERY = Range((int, float), 1, 31_536_000)
_SECOND = 1_000_000
_UTC = datetime.timezone.utc
_MAX_AHEAD = 86_400 * _SECOND
#: How many texts of times a state remembers.
_MAX_TIMES = 4
#: How long a schedule that failed is left alone.
_FAILED_SECONDS = 60.0
#: A worker looks at least this often, so that a clock that is set is noticed.
_LOOK_SECONDS = 60.0
#: How far back to look for the latest slot of a cron expression: the first with one has it.
_WINDOWS = tuple(
    datetime.timedelta(seconds=seconds)
    for seconds in (60, 3_600, 86_400, 32 * 86_400, 366 * 86_400, 9 * 366 * 86_400)
)
#: The longest name, and the longest cron expression.
_MAX_NAME = 100
_MAX_CRON = 200


class _Intervals:
    """What ``every`` may be."""

    def __str__(self) -> str:
        return f"a timedelta, or seconds: {EVERY}"

    def __contains__(self, value: object) -> bool:
        return in_seconds(value) in EVERY


_TEXT = OfClass((str,), "a text")
#: What each key of a schedule may be.
_RULES = {
    "args": Rule(OfClass((list, tuple), "a list"), ARGUMENTS),
    "cron": Rule(_TEXT, TIMES),
    "every": Rule(_Intervals(), TIMES),
    "kwargs": Rule(OfClass((Mapping,), "a dictionary"), ARGUMENTS),
    "priority": Rule(OfClass((int,), "a whole number"), ARGUMENTS),
    "queue_name": Rule(_TEXT, ARGUMENTS),
    "task": Rule(_TEXT, SCHEDULED_TASK),
    "time_zone": Rule(_TEXT, TIMES),
}


class WrongSchedule(Exception):
    """A schedule has a :class:`SettingProblem`."""

    def __init__(self, problem: SettingProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


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
        """Return the first slot after a moment, in microseconds."""
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
        """Return the latest slot up to a moment, in microseconds; None if there is none."""
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
        """Return the first slot after a moment, in microseconds; None if there is none."""
        now = datetime.datetime.fromtimestamp(moment // _SECOND, _UTC)
        slot = next(self._slots(now), None)
        return None if slot is None else slot * _SECOND

    def _slots(self, after: datetime.datetime) -> Iterator[int]:
        """Yield the slots after a full second, in seconds."""
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


def _wrong(id: str, message: str, hint: str) -> WrongSchedule:
    return WrongSchedule(SettingProblem(id, message, hint))


def unused(backend: Any) -> Iterator[SettingProblem]:
    """Yield what is wrong with the schedules of a backend that are not used; nothing is imported.

    What is wrong with the task of another is logged when it is due.
    """
    for name, given in backend.settings.schedules.items():
        try:
            parsed(name, given)
        except WrongSchedule as wrong:
            yield wrong.problem


def schedules_of(backend: Any) -> list[Schedule]:
    """Return the schedules of a backend without the wrong ones, which its check names."""
    found = []
    for name, given in backend.settings.schedules.items():
        try:
            found.append(parsed(name, given))
        except WrongSchedule:
            continue
    return found


def problems(backend: Any) -> Iterator[SettingProblem]:
    """Yield what is wrong with the schedules of a backend; the tasks are imported."""
    for name, given in backend.settings.schedules.items():
        try:
            schedule = parsed(name, given)
            _check_task(schedule, backend)
        except WrongSchedule as wrong:
            yield wrong.problem


def parsed(name: Any, given: Any) -> Schedule:
    """Return a schedule of the option; its task is not looked up.

    Raises:
        WrongSchedule: Something is wrong with it.
    """
    if not isinstance(name, str) or not 1 <= len(name) <= _MAX_NAME or not name.isprintable():
        hint = f"Use 1 to {_MAX_NAME} printable characters."
        raise _wrong(SCHEDULE, f"The schedule {name!r} has no valid name.", hint)
    if not isinstance(given, Mapping):
        hint = "Give it a dictionary with 'task', and 'cron' or 'every'."
        raise _wrong(SCHEDULE, f"The schedule {name!r} is not a dictionary.", hint)
    for _key, problem in wrong_in(f"The schedule {name!r}", given, _RULES, unknown_id=SCHEDULE):
        raise WrongSchedule(problem)
    if "task" not in given:
        hint = "Name the task by its dotted path, as in 'shop.tasks.clean'."
        raise _wrong(SCHEDULED_TASK, f"The schedule {name!r} has no 'task'.", hint)
    changes = {key: given[key] for key in ("priority", "queue_name") if key in given}
    args, kwargs = [*given.get("args", ())], {**given.get("kwargs", {})}
    return Schedule(name, given["task"], _times(name, given), args, kwargs, changes)


def _times(name: str, given: Mapping[str, Any]) -> Every | Cron:
    if ("cron" in given) == ("every" in given):
        which = "both 'cron' and 'every'" if "cron" in given else "neither 'cron' nor 'every'"
        raise _wrong(TIMES, f"The schedule {name!r} has {which}.", "Give it one of them.")
    if "every" in given:
        if "time_zone" in given:
            hint = "It is for 'cron'; the times of 'every' are its multiples since 1970 in UTC."
            raise _wrong(TIMES, f"The schedule {name!r} has a 'time_zone'.", hint)
        return Every(in_seconds(given["every"]))
    zone = given.get("time_zone")
    try:
        found = zoneinfo.ZoneInfo(timezone.get_default_timezone_name() if zone is None else zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = f"The schedule {name!r} has the time_zone {zone!r}, which is not known."
        hint = "Use a name such as 'Europe/Berlin'; without one it is TIME_ZONE."
        raise _wrong(TIMES, message, hint) from error
    return _cron(name, given["cron"], found)


def _cron(name: str, expression: str, zone: zoneinfo.ZoneInfo) -> Cron:
    try:
        from cronsim import CronSim, CronSimError
    except ImportError as error:
        message = f"The schedule {name!r} has a 'cron', and cronsim is not installed."
        raise _wrong(TIMES, message, "pip install 'fdbqueue[tasks]'") from error
    try:
        if len(expression) > _MAX_CRON:
            raise CronSimError("Too long")
        CronSim(expression, datetime.datetime(2026, 1, 1, tzinfo=_UTC))
    except CronSimError as error:
        message = f"The schedule {name!r} has the cron {expression[:_MAX_CRON]!r}: {error}."
        hint = "Give it minute, hour, day, month and day of the week, as in '0 3 * * *'."
        raise _wrong(TIMES, message, hint) from error
    cron = Cron(expression, zone)
    if cron.following(0) is None:
        hint = "Choose a day that there is."
        raise _wrong(TIMES, f"The cron {expression!r} of the schedule {name!r} is never due.", hint)
    return cron


def _check_task(schedule: Schedule, backend: Any) -> None:
    """Check the task, its queue, its priority and the arguments, as an enqueue does.

    Raises:
        WrongSchedule: One of them is wrong.
    """
    name = schedule.name
    try:
        task_at(schedule.task)
    except TaskUnknown as error:
        why = f": {message_of(error.__cause__)}" if error.__cause__ else "."
        message = f"The schedule {name!r} has the task {schedule.task!r}, which is not a task{why}"
        hint = "Name a function with the decorator @task by its dotted path."
        raise _wrong(SCHEDULED_TASK, message, hint) from error
    try:
        backend.prepare(schedule.result(backend.alias))
    except ConfigurationError:
        return  # its own check says what is wrong
    except BaseException as error:
        pass_interrupt(error)
        message = f"The task of the schedule {name!r} cannot be enqueued: {message_of(error)}"
        hint = "See its args, kwargs, queue_name and priority."
        raise _wrong(ARGUMENTS, message, hint) from error
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
        raise _wrong(ARGUMENTS, message, hint) from error


# Enqueue what is due


class ScheduleState(NamedTuple):
    """What all workers know of a schedule.

    Attributes:
        slot: The latest slot for which a task was enqueued, 0 for none.
        times: The slots up to which each text of times was dealt with, the newest text last.
        last: The id of the latest task's result; empty for none.
    """

    slot: int = 0
    times: tuple[tuple[str, int], ...] = ()
    last: str = ""

    def dealt(self, text: str, slot: int, last: str | None) -> ScheduleState:
        """Return the state once times were dealt with up to a slot.

        Args:
            text: The times.
            slot: The slot.
            last: The id of the task that was enqueued for it; empty if there was one already with
                its unique key. None if nothing was enqueued.
        """
        known = dict(self.times)
        known[text] = slot
        times = tuple(known.items())[-_MAX_TIMES:]
        if last is None:
            return self._replace(times=times)
        return ScheduleState(slot, times, last or self.last)

    def stored(self) -> bytes:
        """Return the value of its key."""
        return json.dumps(self._asdict(), separators=(",", ":")).encode()

    @property
    def newest(self) -> int:
        """The latest slot of all."""
        return max([self.slot, *[slot for _, slot in self.times]])


def key_of(backend: Any, schedule: Schedule) -> bytes:
    """Return the key of the state of a schedule."""
    key: bytes = backend.records.state_key("schedule", backend.alias, schedule.name)
    return key


def state_in(found: Any) -> ScheduleState:
    """Return the state that the value of its key says; it may be absent."""
    if not found.present():
        return ScheduleState()
    stored = json.loads(bytes(found))
    times = tuple((text, slot) for text, slot in stored["times"])
    return ScheduleState(stored["slot"], times, stored.get("last", ""))


def held_key_of(backend: Any, schedule: Schedule) -> bytes:
    """Return the key that says since when a schedule is held."""
    key: bytes = backend.records.state_key("held", backend.alias, schedule.name)
    return key


def held_in(found: Any) -> int | None:
    """Return since when a schedule is held, in microseconds; None if the value is absent."""
    return int(bytes(found)) if found.present() else None


class DueSchedules:
    """Enqueue what the schedules of a backend say; one object in each worker process.

    Args:
        backend: The backend.
        catalog: Where its queues are.
    """

    def __init__(self, backend: Any, catalog: Catalog) -> None:
        self._backend = backend
        self._database = catalog.database
        self._schedules = schedules_of(backend)
        #: The slots that this process knows to be dealt with, by the schedules' names.
        self._known: dict[str, int] = {}
        #: When to look again at a schedule that failed.
        self._later: dict[str, float] = {}

    def enqueue_due(self) -> int:
        """Enqueue what is due, each slot once across all workers; return how many tasks.

        What prevents one schedule is logged, and prevents no other.
        """
        count = 0
        for schedule in self._schedules:
            if monotonic() < self._later.get(schedule.name, 0):
                continue
            try:
                count += self._enqueue(schedule)
            except BaseException as error:  # noqa: BLE001  # a project's own, too; logged below
                self._later[schedule.name] = monotonic() + _FAILED_SECONDS
                self._log_failure(schedule, error)
        return count

    def seconds_left(self) -> float:
        """Return how many seconds there are until the next slot, at most a minute."""
        now = now_us()
        following = [schedule.times.following(now) for schedule in self._schedules]
        left = [(slot - now) / _SECOND for slot in following if slot is not None]
        return max(0.0, min([_LOOK_SECONDS, *left]))

    def _enqueue(self, schedule: Schedule) -> bool:
        slot = schedule.times.latest(now_us())
        if slot is None or slot == self._known.get(schedule.name):
            return False
        result = schedule.result(self._backend.alias)
        push = self._backend.prepare(result)
        key, held = key_of(self._backend, schedule), held_key_of(self._backend, schedule)

        def enqueue_if_due(tr: Transaction) -> Any:
            """Return the item that was pushed, None if there was nothing to do."""
            is_held = tr[held]
            state = self._state(tr, key, schedule)
            if is_held.present():
                return None
            known = dict(state.times).get(schedule.times.text)
            is_due = known is not None and slot > max(known, state.slot)
            if not is_due and known is not None and known >= slot:
                return None
            (item,) = push(tr) if is_due else (None,)
            last = None if item is None else "" if item.existing else result.id
            dealt = state.dealt(schedule.times.text, slot, last)
            tr[key] = dealt.stored()
            return item

        item = run(self._database, enqueue_if_due)
        self._known[schedule.name] = slot
        if item is None:
            return False
        tell_enqueued(self._backend, schedule, slot, result, item)
        return True

    def _state(self, tr: Transaction, key: bytes, schedule: Schedule) -> ScheduleState:
        state = state_in(tr[key])
        if state.newest <= now_us() + _MAX_AHEAD:
            return state
        facts = {"schedule": schedule.name, "slot": str(moment(state.newest))}
        logger.warning("a schedule was ahead of the clock by more than a day", extra=facts)
        return ScheduleState()

    def _log_failure(self, schedule: Schedule, error: BaseException) -> None:
        facts = {"schedule": schedule.name, "task": schedule.task, "error": type(error).__name__}
        if is_engines(error):
            self._later[schedule.name] = monotonic() + 1
            logger.warning("the engine has failed; a schedule is tried again", extra=facts)
        else:
            logger.error("a scheduled task cannot be enqueued", extra=facts, exc_info=error)


def tell_enqueued(
    backend: Any, schedule: Schedule, slot: int | None, result: Any, item: Any
) -> None:
    """Log that a task was enqueued, for a slot or for none, and send the signal of that."""
    facts = {"schedule": schedule.name, "task": schedule.task}
    facts |= {} if slot is None else {"slot": str(moment(slot))}
    if item.existing:
        logger.info("a scheduled task is there already", extra=facts)
        return
    logger.info("a scheduled task was enqueued", extra={**facts, "id": result.id})
    change(result, enqueued_at=local(item.pushed_at))
    task_enqueued.send(type(backend), task_result=result)


def is_engines(error: BaseException) -> bool:
    """Tell whether an error is the engine's, so that trying again later may succeed."""
    return isinstance(error, EngineError | OutcomeUnknown) or error_code(error) is not None
