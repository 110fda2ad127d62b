"""The demo's tasks: some are enqueued and run in the past, others while it serves."""

from __future__ import annotations

import dataclasses
import datetime
import logging
import random
import threading
from typing import Any

from django.utils import timezone

from fdbqueue.tasks import call, chain, group
from fdbqueue.tasks.compat import task_backends
from fdbqueue.tasks.task_worker import TaskWorker
from project import tasks
from project.demo.earthquakes import records
from project.demo.past import ago

_PLACES = ("Alaska", "Japan", "California", "Chile", "Indonesia", "Fiji", "Tonga", "Peru", "Mexico")
#: How many minutes ago tasks were run, and when some of them failed, and a group ran.
_ROUNDS, _FAILING_ROUNDS = range(58, 0, -2), (52, 38, 24, 10)
_STOP_SECONDS = 30.0
_WORKER = "worker-1.example.org"
#: Enough for the tasks that take their time: so some wait for a moment, and none for long.
_THREADS = 4
_ASK_SECONDS = 2, 8
_LISTEN_SECONDS = (10, 60)
#: A worker elsewhere that leases a task, and is not heard of again: how long ago, for how long.
_ELSEWHERE = "worker-2.example.org"
_LEASED_AGO_SECONDS, _LEASE_SECONDS = 180.0, 420.0


def be_quiet() -> None:
    """Keep the log of tasks that fail to what matters: the demo's fail on purpose."""
    for name in ("django_tasks", "django.tasks"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def backend(alias: str = "default") -> Any:
    """Return the backend of the demo's tasks, or that of those in the outbox."""
    return task_backends[alias]


class Worker:
    """A thread that runs the demo's tasks.

    Args:
        alias: The alias of their backend.
        threads: How many it runs at once.
    """

    def __init__(self, alias: str = "default", threads: int = _THREADS) -> None:
        self._worker = TaskWorker(backend(alias), threads=threads)
        self._thread = threading.Thread(target=self._worker.run, name="demo-tasks", daemon=True)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """End; the task that is running ends early."""
        tasks.closing.set()
        self._worker.stop()
        self._thread.join(_STOP_SECONDS)


def is_new() -> bool:
    """Tell whether there is no task that waits or has failed."""
    counts = [backend().queue(name).counts() for name in ("default", "reports")]
    return not any(any(dataclasses.astuple(one)) for one in counts)


def work_through_the_past(chance: random.Random) -> int:
    """Run tasks of the last hour, and leave some that wait; return how many have run."""
    ran = 0
    for minutes_ago in _ROUNDS:
        with ago(60.0 * minutes_ago):
            for _ in range(chance.randint(1, 3)):
                tasks.summarise.enqueue(chance.choice(_PLACES))
                tasks.listen.enqueue(chance.choice(_PLACES), seconds=0.01)
            if minutes_ago in _FAILING_ROUNDS:
                _enqueue_failing(chance)
                _enqueue_group(chance)
                _enqueue_chain(chance, 0.01)
            worker = TaskWorker(backend(), follow=False, worker=_WORKER)
            worker.run()
            ran += worker.succeeded + worker.failed
    _leave_some(chance)
    return ran


def enqueue_some(chance: random.Random) -> None:
    """Enqueue the next: reports mostly, one that takes its time, a group, and rarely a failure.

    One that takes its time, if none runs or waits: so there is always one to look at.
    """
    happens, counts = chance.random(), backend().queue("default").counts()
    if happens < 0.3 or not counts.ready + counts.leased:
        tasks.listen.enqueue(chance.choice(_PLACES), seconds=chance.randint(*_LISTEN_SECONDS))
    elif happens < 0.33:
        _enqueue_failing(chance)
    elif happens < 0.36:
        for _ in range(3):  # of one place, so one runs and others wait
            tasks.ask_station.enqueue("Tonga", seconds=chance.randint(*_ASK_SECONDS))
    elif happens < 0.4:
        _enqueue_group(chance)
    elif happens < 0.43:
        _enqueue_chain(chance, chance.randint(*_ASK_SECONDS))
    elif happens < 0.45:
        tasks.await_wave.enqueue(chance.choice(_PLACES))
    elif happens < 0.55:
        tasks.recount.enqueue()
    else:
        tasks.summarise.enqueue(chance.choice(_PLACES))


def _enqueue_failing(chance: random.Random) -> None:
    tasks.alert.enqueue(chance.choice(records())["magnitude"])
    tasks.locate.enqueue(chance.choice(records())["id"])


def _enqueue_group(chance: random.Random) -> None:
    places = chance.sample(_PLACES, 5)
    group([call(tasks.summarise, place) for place in places]).then(tasks.compare).enqueue()


def _enqueue_chain(chance: random.Random, seconds: float) -> None:
    """Enqueue two tasks; the second gets what the first returns."""
    listening = call(tasks.listen, chance.choice(_PLACES), seconds=seconds)
    chain(listening, tasks.headline).enqueue()


def _leave_some(chance: random.Random) -> None:
    """Leave a task that a worker elsewhere has leased, one set aside, and some that wait.

    That worker is lost: the demo's own runs the task again when the lease has expired.
    """
    with ago(_LEASED_AGO_SECONDS):
        tasks.listen.enqueue("Tonga", seconds=_LISTEN_SECONDS[1])
        backend().queue("default").lease(seconds=_LEASE_SECONDS, worker=_ELSEWHERE)
    for place in _PLACES[:4]:
        tasks.listen.enqueue(place)
    tasks.await_wave.enqueue(_PLACES[0])
    aside, outbox = tasks.recount.enqueue(), backend("rows").outbox()
    outbox.put_aside(outbox.rows.get(result_id=aside.id), "the demo has set it aside, to be seen")
    for hours in (1, 5, 24):
        later = timezone.now() + datetime.timedelta(hours=hours)
        tasks.summarise.using(run_after=later).enqueue(chance.choice(_PLACES))
