"""Enqueue the tasks of schedules, each slot once, without a process that does nothing else.

Every worker process of the backend looks at each slot of each schedule. There is one key for each
schedule, its *state*:

    {"slot": 1700000000000000, "times": [["cron 0 3 * * * UTC", 1700000000000000], ...]}

``slot`` is the latest slot for which a task was enqueued, whatever the times were; ``times`` has
for each text of the times the slot up to which it was dealt with.

A worker that finds a slot due does the following, in one transaction:

1. It reads the state. Where the times are not in it, the schedule is new, or has changed: it
   writes them with their latest slot, and enqueues nothing. So nothing is enqueued for the past.
2. Where the latest slot is not behind both that of its times and ``slot``, another worker was
   first: nothing is done.
3. Otherwise it pushes the task, and writes the slot in both places.

Both writes are in the transaction that read the state, so of many workers one commits, and the
others conflict and then find 2. What is left behind by

- *a crash before the commit*: nothing. The other workers look at the same slot; where there are
  none, the next one that starts finds it, as the latest;
- *a crash behind it*: the task, and the slot; only the signal ``task_enqueued`` may be missing;
- *an unknown outcome*: task and slot together, or neither: the next look tells;
- *a time without workers*: one task for the latest slot, not one for each;
- *a task that cannot be enqueued*, because its code is gone or its arguments are refused: the slot
  stays as it was, the log says why, and it is tried again each minute.

Clocks that differ: a slot is due by the fastest clock of all workers, and then dealt with for all.
A state that is more than a day ahead of a worker's clock was written by a clock that was wrong; the
worker logs that and begins anew, so that no clock can stop a schedule.

Two versions of the setting, as while a project is deployed: each version's times are in the state,
the four latest, and neither drops the slots of the other. A slot that both have is enqueued once.
Times that were removed and come back count as times that had no workers meanwhile.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any, NamedTuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import EngineError, OutcomeUnknown
from fdbqueue.service import Catalog, error_code, now_us, run
from fdbqueue.tasks.compat import task_enqueued
from fdbqueue.tasks.results import change, microseconds, moment
from fdbqueue.tasks.schedules import Schedule, schedules_of

logger = logging.getLogger(__name__)

_SECOND = 1_000_000
_MAX_AHEAD = 86_400 * _SECOND
#: How many texts of times a state remembers.
_MAX_TIMES = 4
#: How long a schedule that failed is left alone.
_FAILED_SECONDS = 60.0
#: A worker looks at least this often, so that a clock that is set is noticed.
_LOOK_SECONDS = 60.0


class State(NamedTuple):
    """What all workers know of a schedule.

    Attributes:
        slot: The latest slot for which a task was enqueued, 0 for none.
        times: The slots up to which each text of times was dealt with, the newest text last.
    """

    slot: int = 0
    times: tuple[tuple[str, int], ...] = ()

    def dealt(self, text: str, slot: int, *, enqueued: bool) -> State:
        """Return the state once times were dealt with up to a slot."""
        known = dict(self.times)
        known[text] = slot
        return State(slot if enqueued else self.slot, tuple(known.items())[-_MAX_TIMES:])

    @property
    def newest(self) -> int:
        """The latest slot of all."""
        return max([self.slot, *[slot for _, slot in self.times]])


class Periodic:
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
            if time.monotonic() < self._later.get(schedule.name, 0):
                continue
            try:
                count += self._enqueue(schedule)
            except Exception as error:  # noqa: BLE001  # logged below
                self._later[schedule.name] = time.monotonic() + _FAILED_SECONDS
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
        key = self._backend.records.state_key("schedule", self._backend.alias, schedule.name)

        def turn(tr: Transaction) -> Any:
            """Return the item that was pushed, None where there was nothing to do."""
            state = self._state(tr, key, schedule)
            known = dict(state.times).get(schedule.times.text)
            is_due = known is not None and slot > max(known, state.slot)
            if not is_due and known is not None and known >= slot:
                return None
            (item,) = push(tr) if is_due else (None,)
            dealt = state.dealt(schedule.times.text, slot, enqueued=is_due)
            tr[key] = json.dumps(dealt._asdict(), separators=(",", ":")).encode()
            return item

        item = run(self._database, turn)
        self._known[schedule.name] = slot
        if item is None:
            return False
        self._tell(schedule, slot, result, item)
        return True

    def _state(self, tr: Transaction, key: bytes, schedule: Schedule) -> State:
        found = tr[key]
        if not found.present():
            return State()
        stored = json.loads(bytes(found))
        state = State(stored["slot"], tuple((text, slot) for text, slot in stored["times"]))
        if state.newest <= now_us() + _MAX_AHEAD:
            return state
        facts = {"schedule": schedule.name, "slot": str(moment(state.newest))}
        logger.warning("a schedule was ahead of the clock by more than a day", extra=facts)
        return State()

    def _tell(self, schedule: Schedule, slot: int, result: Any, item: Any) -> None:
        facts = {"schedule": schedule.name, "slot": str(moment(slot)), "task": schedule.task}
        if item.existing:
            logger.info("a scheduled task is there already", extra=facts)
            return
        logger.info("a scheduled task was enqueued", extra={**facts, "id": result.id})
        change(result, enqueued_at=moment(microseconds(item.pushed_at)))
        task_enqueued.send(type(self._backend), task_result=result)

    def _log_failure(self, schedule: Schedule, error: Exception) -> None:
        facts = {"schedule": schedule.name, "task": schedule.task, "error": type(error).__name__}
        if is_engines(error):
            self._later[schedule.name] = time.monotonic() + 1
            logger.warning("the engine has failed; a schedule is tried again", extra=facts)
        else:
            logger.error("a scheduled task cannot be enqueued", extra=facts, exc_info=error)


def is_engines(error: Exception) -> bool:
    """Tell whether an error is the engine's, so that trying again later may succeed."""
    return isinstance(error, EngineError | OutcomeUnknown) or error_code(error) is not None
