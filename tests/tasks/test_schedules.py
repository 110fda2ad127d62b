"""Schedules: each slot once, across all workers, whatever their clocks say."""

from __future__ import annotations

import datetime
import logging
import threading
import zoneinfo
from pathlib import Path

import pytest

from fdbqueue.service import clock, run
from fdbqueue.tasks import schedules
from fdbqueue.tasks.compat import task_enqueued
from fdbqueue.tasks.schedules import Cron, DueSchedules, Every
from fdbqueue.tasks.schedules_by_hand import go_on, hold, named, run_now
from tests.cases import cases
from tests.contract.unsure import unsure_database
from tests.tasks import jobs

ROOT = Path(__file__).parents[2]
_S = 1_000_000
_HOUR = 3_600
NOTE = "tests.tasks.jobs.note"


@pytest.fixture
def at(monkeypatch):
    """Set this process's clock to a moment, and move it from there."""
    ahead = [0]

    def set_to(moment):
        step = int(moment * _S) - clock.now_us()
        clock.set_ahead(step)
        ahead[0] += step

    yield set_to
    clock.set_ahead(-ahead[0])


@pytest.fixture
def scheduled(configure):
    """Set one schedule, and return what a worker process has of it."""

    def make(**schedule):
        given = {"task": NOTE, "args": ["x"], **schedule}
        backend = configure(schedules={"one": given})
        return DueSchedules(backend, backend.catalog)

    return make


def ready(backend):
    """Return how many tasks there are."""
    return backend.queue("default").counts().ready


@pytest.mark.parametrize(
    "times", [{"every": 600}, {"cron": "*/10 * * * *"}, {"every": datetime.timedelta(minutes=10)}]
)
def test_each_slot_is_enqueued_once(configure, scheduled, at, times):
    """Nothing for the past of a first start; then one task at each slot."""
    at(1_800_000_001)
    one = scheduled(**times)
    backend = one._backend
    assert one.enqueue_due() == 0
    assert one.seconds_left() <= 60
    at(1_800_000_599)
    assert one.enqueue_due() == 0
    assert 0 < one.seconds_left() <= 1
    at(1_800_000_600)
    assert one.enqueue_due() == 1
    assert one.enqueue_due() == 0
    another = DueSchedules(backend, backend.catalog)
    assert another.enqueue_due() == 0
    at(1_800_001_200)
    assert another.enqueue_due() == 1
    assert one.enqueue_due() == 0
    assert ready(backend) == 2


def test_a_time_without_workers(scheduled, at):
    """One task, for the latest slot."""
    at(1_800_000_001)
    one = scheduled(every=600)
    one.enqueue_due()
    at(1_800_000_001 + 5 * _HOUR)
    assert DueSchedules(one._backend, one._backend.catalog).enqueue_due() == 1
    assert one.enqueue_due() == 0


def test_clocks_that_are_an_hour_apart(scheduled, at):
    """Each slot once, by the fastest clock."""
    at(1_800_000_001)
    slow = scheduled(every=600)
    fast = DueSchedules(slow._backend, slow._backend.catalog)
    slow.enqueue_due()
    at(1_800_000_001 + _HOUR)
    assert fast.enqueue_due() == 1
    count = 0
    for minute in range(1, 121):
        at(1_800_000_001 + _HOUR + 60 * minute)
        count += fast.enqueue_due()
        at(1_800_000_001 + 60 * minute)
        assert slow.enqueue_due() == 0
    assert count == 12


def test_a_clock_that_is_far_ahead_stops_no_schedule(scheduled, at, caplog):
    """Once it is gone, the others begin anew."""
    at(1_800_000_001)
    one = scheduled(every=600)
    one.enqueue_due()
    at(1_800_000_001 + 100 * 86_400)
    assert DueSchedules(one._backend, one._backend.catalog).enqueue_due() == 1
    at(1_800_000_601)
    with caplog.at_level(logging.WARNING, "fdbqueue.tasks"):
        assert one.enqueue_due() == 0
    assert [record.schedule for record in caplog.records] == ["one"]
    at(1_800_001_201)
    assert one.enqueue_due() == 1


def test_a_schedule_that_changed(scheduled, at):
    """It begins anew: nothing for the slots of its new times that are past."""
    at(1_800_000_001)
    old = scheduled(every=600)
    old.enqueue_due()
    at(1_800_000_001 + 24 * _HOUR)
    new = scheduled(cron="0 * * * *", time_zone="UTC")
    assert new.enqueue_due() == 0
    assert new.enqueue_due() == 0
    at(1_800_000_001 + 25 * _HOUR)
    assert new.enqueue_due() == 1


def test_other_arguments_are_no_change_of_the_times(scheduled, at):
    """The next slot has them."""
    at(1_800_000_001)
    scheduled(every=600).enqueue_due()
    at(1_800_000_601)
    new = scheduled(every=600, args=["y"], priority=5)
    assert new.enqueue_due() == 1
    value = new._backend.queue("default").pop().value
    assert (value["args"], value["priority"]) == (["y"], 5)


def test_two_versions_of_the_setting_side_by_side(scheduled, at):
    """While a project is deployed each slot of either is enqueued, and a common one once."""
    at(1_800_000_001)
    old = scheduled(every=600)
    new = scheduled(every=300)
    old.enqueue_due()
    new.enqueue_due()
    counts = []
    for step in range(1, 13):
        at(1_800_000_001 + 300 * step)
        counts.append(old.enqueue_due() + new.enqueue_due())
    assert counts == [1] * 12


def test_many_workers_at_once(scheduled, at):
    """Of threads that look at the same moment, one enqueues."""
    at(1_800_000_001)
    first = scheduled(every=600)
    first.enqueue_due()
    backend, told = first._backend, []
    for slot in range(1, 6):
        at(1_800_000_001 + 600 * slot)
        workers = [DueSchedules(backend, backend.catalog) for _ in range(8)]
        threads = [
            threading.Thread(target=lambda one=one: told.append(one.enqueue_due()))
            for one in workers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert len(told) == 40
    assert sum(told) == 5
    assert ready(backend) == 5


def test_a_task_that_is_gone_is_tried_again(scheduled, at, caplog):
    """The slot stays, the log says why, and other schedules go on."""
    at(1_800_000_001)
    one = scheduled(every=600)
    one.enqueue_due()
    gone = scheduled(every=600, task="tests.tasks.jobs.gone")
    at(1_800_000_601)
    with caplog.at_level(logging.ERROR, "fdbqueue.tasks"):
        assert gone.enqueue_due() == 0
        assert gone.enqueue_due() == 0
    assert [record.message for record in caplog.records] == ["a scheduled task cannot be enqueued"]
    assert one.enqueue_due() == 1


def test_a_crash_around_the_commit(scheduled, at, monkeypatch):
    """Before the commit a crash leaves the slot to the next worker; behind it, a task."""
    at(1_800_000_001)
    one = scheduled(every=600)
    one.enqueue_due()
    at(1_800_000_601)
    kind = type(one._backend.catalog.database.create_transaction())
    commit = kind.commit

    def crash(tr):
        raise RuntimeError("the process ends here")

    monkeypatch.setattr(kind, "commit", crash)
    assert one.enqueue_due() == 0
    monkeypatch.setattr(kind, "commit", commit)
    another = DueSchedules(one._backend, one._backend.catalog)
    assert another.enqueue_due() == 1

    def commit_and_crash(tr):
        commit(tr).wait()
        raise RuntimeError("the process ends here")

    at(1_800_001_201)
    monkeypatch.setattr(kind, "commit", commit_and_crash)
    assert another.enqueue_due() == 0
    monkeypatch.setattr(kind, "commit", commit)
    third = DueSchedules(one._backend, one._backend.catalog)
    assert third.enqueue_due() == 0
    assert ready(one._backend) == 2


def test_the_signal_of_an_enqueue(scheduled, at):
    """Receivers are told of each task, once."""
    told = []

    def receive(sender, task_result, **_):
        told.append(task_result)

    task_enqueued.connect(receive)
    try:
        at(1_800_000_001)
        one = scheduled(every=600, queue_name="other", priority=-3)
        one.enqueue_due()
        at(1_800_000_601)
        one.enqueue_due()
        one.enqueue_due()
    finally:
        task_enqueued.disconnect(receive)
    (result,) = told
    result.refresh()
    assert (result.task.queue_name, result.task.priority) == ("other", -3)
    assert result.args == ["x"]


def test_a_worker_that_does_not_stay_enqueues_what_is_due(configure, work, at):
    """And runs it."""
    at(1_800_000_001)
    configure(schedules={"one": {"task": NOTE, "args": ["x"], "every": 600}})
    work()
    at(1_800_000_601)
    work()
    assert jobs.done == ["x"]


# Times


def berlin(*parts):
    """Return a moment in Berlin, in microseconds."""
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    return int(datetime.datetime(*parts, tzinfo=zone).timestamp()) * _S


def test_the_clocks_go_forward():
    """A slot in the hour that is left out is at its end, once."""
    cron = Cron("30 2 * * *", zoneinfo.ZoneInfo("Europe/Berlin"))
    before = berlin(2026, 3, 28, 2, 30)
    moved, after = berlin(2026, 3, 29, 3, 0), berlin(2026, 3, 30, 2, 30)
    assert cron.following(before) == moved
    assert cron.latest(moved - 1) == before
    assert cron.latest(moved) == moved
    assert cron.following(moved) == after
    assert cron.latest(after - 1) == moved


def test_the_clocks_go_back():
    """A slot in the hour that comes twice is in the first."""
    cron = Cron("30 2 * * *", zoneinfo.ZoneInfo("Europe/Berlin"))
    first, after = berlin(2026, 10, 25, 2, 30), berlin(2026, 10, 26, 2, 30)
    for minutes in (0, 10, 40, 60, 70, 120):
        assert cron.latest(first + minutes * 60 * _S) == first
        assert cron.following(first + minutes * 60 * _S) == after


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("expression", ["0 3 * * *", "30 1 * * *", "*/20 * * * *", "15 1-3 * * *"])
def test_all_ways_lead_to_the_same_slots(zone, expression):
    """Looking back from a moment finds the slot that looking forward found before it."""
    cron = Cron(expression, zoneinfo.ZoneInfo(zone))
    for month, day in ((3, 28), (10, 24), (3, 7), (10, 31), (4, 4), (10, 3)):
        moment = berlin(2026, month, day, 0, 30)
        end = moment + 60 * _HOUR * _S
        while moment < end:
            following = cron.following(moment)
            assert cron.latest(following - 1) < following == cron.latest(following)
            assert cron.latest(moment) <= moment < following
            moment = following


def test_rare_slots():
    """The 29th of February is found years back and years ahead."""
    cron = Cron("0 0 29 2 *", zoneinfo.ZoneInfo("UTC"))
    day = datetime.datetime(2026, 6, 1, tzinfo=datetime.timezone.utc)
    now = int(day.timestamp()) * _S
    assert datetime.datetime.fromtimestamp(cron.latest(now) / _S, day.tzinfo).year == 2024
    assert datetime.datetime.fromtimestamp(cron.following(now) / _S, day.tzinfo).year == 2028
    assert Every(0.5 * 3).latest(4 * _S) == 3 * _S


# Checks


@cases(
    ("schedule", "id", "said"),
    [
        (7, "E010", "is not a dictionary"),
        ({"task": NOTE, "every": 5, "when": 7}, "E010", "unknown key, 'when'"),
        ({"every": 5}, "E011", "has no 'task'"),
        ({"task": 7, "every": 5}, "E011", "the task 7"),
        ({"task": "tests.tasks.jobs.gone", "every": 5}, "E011", "which is not a task"),
        ({"task": "tests.gone.gone", "every": 5}, "E011", "which is not a task"),
        ({"task": "os.getcwd", "every": 5}, "E011", "which is not a task"),
        ({"task": NOTE}, "E012", "neither 'cron' nor 'every'"),
        ({"task": NOTE, "every": 5, "cron": "* * * * *"}, "E012", "both 'cron' and 'every'"),
        ({"task": NOTE, "cron": "61 * * * *"}, "E012", "Bad minute"),
        ({"task": NOTE, "cron": "* * * *"}, "E012", "Wrong number of fields"),
        ({"task": NOTE, "cron": "0 0 30 2 *"}, "E012", "Bad day-of-month"),
        ({"task": NOTE, "cron": 5}, "E012", "the cron 5"),
        ({"task": NOTE, "cron": "*" * 500}, "E012", "Too long"),
        ({"task": NOTE, "cron": "* * * * *", "time_zone": "Mars/Base"}, "E012", "not known"),
        ({"task": NOTE, "every": 5, "time_zone": "UTC"}, "E012", "has a 'time_zone'"),
        ({"task": NOTE, "every": 0}, "E012", "the every 0"),
        ({"task": NOTE, "every": True}, "E012", "the every True"),
        ({"task": NOTE, "every": float("nan")}, "E012", "the every nan"),
        ({"task": NOTE, "every": 5, "args": "x"}, "E013", "the args 'x'"),
        ({"task": NOTE, "every": 5, "args": [object]}, "E013", "cannot be enqueued"),
        ({"task": NOTE, "every": 5}, "E013", "does not fit its task"),
        ({"task": NOTE, "every": 5, "kwargs": {"volume": 1}}, "E013", "does not fit its task"),
        ({"task": NOTE, "every": 5, "args": [1], "queue_name": "x"}, "E013", "not valid"),
        ({"task": NOTE, "every": 5, "args": [1], "priority": 500}, "E013", "priority"),
    ],
)
def test_what_is_wrong_is_checked(configure, at, schedule, id, said):
    """The system check names it; a worker goes on with the other schedules."""
    at(3_601)  # a case that comes later finds the times of those before it, and no new slot
    good = {"task": NOTE, "args": ["x"], "every": 3_600}
    backend = configure(schedules={"bad": schedule, "good": good})
    (error,) = backend.check()
    assert error.id == f"fdbqueue.tasks.{id}"
    assert said in error.msg
    assert "'bad'" in error.msg
    assert error.hint
    assert DueSchedules(backend, backend.catalog).enqueue_due() == 0


@pytest.mark.parametrize("name", ["", "x" * 101, "a\nb", 7])
def test_names_of_schedules(configure, name):
    """They are printable, and not too long."""
    (error,) = configure(schedules={name: {"task": NOTE, "every": 5, "args": [1]}}).check()
    assert error.id == "fdbqueue.tasks.E010"


def test_a_sound_setting(configure):
    """It has nothing wrong."""
    schedules = {
        "nightly": {"task": NOTE, "cron": "0 3 * * *", "args": [1], "time_zone": "Europe/Berlin"},
        "often": {"task": "tests.tasks.jobs.tell", "every": 1.5, "kwargs": {"a": 1}},
        "weekly": {"task": NOTE, "cron": "0 0 * * MON", "args": [1], "queue_name": "other"},
    }
    assert list(configure(schedules=schedules).check()) == []


# Processes

SCRIPT = """
import json, os, sys, threading
import django
django.setup()
from fdbqueue.service import clock
from fdbqueue.tasks.compat import task_backends
from fdbqueue.tasks.schedules import DueSchedules
clock.set_ahead(int(sys.argv[1]))
backend = task_backends["default"]
one = DueSchedules(backend, backend.catalog)
print("here", flush=True)
sys.stdin.readline()
told = threading.Thread(target=sys.stdin.readline)
told.start()
count = 0
while told.is_alive():
    count += one.enqueue_due()
print(count, flush=True)
"""


# By hand


def word(scheduled_worker):
    """Return the backend and the schedule of a worker process."""
    backend = scheduled_worker._backend
    return backend, named(backend, "one")


def test_a_held_schedule_enqueues_nothing(scheduled, at):
    """In all workers, until it goes on; then from its next slot on, and nothing is made up for."""
    at(10 * _HOUR)
    here, there = scheduled(every=_HOUR), scheduled(every=_HOUR)
    assert here.enqueue_due() == 0
    assert hold(*word(here))
    assert not hold(*word(there))
    for hour in (11, 12, 13):
        at(hour * _HOUR)
        assert here.enqueue_due() + there.enqueue_due() == 0
    at(13.5 * _HOUR)
    assert go_on(*word(there))
    assert not go_on(*word(here))
    late = scheduled(every=_HOUR)
    assert here.enqueue_due() + there.enqueue_due() + late.enqueue_due() == 0
    at(14 * _HOUR)
    assert here.enqueue_due() + there.enqueue_due() + late.enqueue_due() == 1
    assert ready(here._backend) == 1


def test_a_new_schedule_may_be_held(scheduled, at):
    """Before any worker has looked at it."""
    at(10 * _HOUR)
    one = scheduled(every=_HOUR)
    assert hold(*word(one))
    at(11 * _HOUR)
    assert one.enqueue_due() == 0
    assert go_on(*word(one))
    at(12 * _HOUR)
    assert one.enqueue_due() == 0  # its times are new
    at(13 * _HOUR)
    assert one.enqueue_due() == 1


def test_of_a_hold_and_a_slot_one_comes_first(scheduled, at, monkeypatch):
    """A hold between the look at a slot and its commit is seen: the transaction runs again."""
    at(10 * _HOUR)
    one = scheduled(every=_HOUR)
    one.enqueue_due()
    at(11 * _HOUR)
    read, held = schedules.state_in, []

    def read_and_hold(found):
        state = read(found)
        if not held:
            held.append(True)
            hold(*word(one))
        return state

    monkeypatch.setattr(schedules, "state_in", read_and_hold)
    assert one.enqueue_due() == 0
    assert ready(one._backend) == 0


def test_a_schedule_runs_now(scheduled, at):
    """Also while it is held; its slots stay what they are, and the page shows the latest task."""
    at(10 * _HOUR)
    one = scheduled(every=_HOUR)
    one.enqueue_due()
    told = []

    def receive(task_result, **_):
        told.append(task_result.id)

    task_enqueued.connect(receive)
    first = run_now(*word(one))
    hold(*word(one))
    second = run_now(*word(one))
    assert told == [first, second]
    assert ready(one._backend) == 2
    state = run(
        one._backend.catalog.database,
        lambda tr: schedules.state_in(tr[schedules.key_of(*word(one))]),
    )
    assert (state.last, state.slot) == (second, 0)
    go_on(*word(one))
    at(11 * _HOUR)
    assert one.enqueue_due() == 1


def test_the_same_word_twice_runs_once(scheduled, at):
    """If it says which task was the latest; so does one after a slot."""
    at(10 * _HOUR)
    one = scheduled(every=_HOUR)
    one.enqueue_due()
    first = run_now(*word(one), latest="")
    assert first
    assert run_now(*word(one), latest="") is None
    at(11 * _HOUR)
    assert one.enqueue_due() == 1
    assert run_now(*word(one), latest=first) is None
    assert ready(one._backend) == 2


@pytest.mark.parametrize("code", [1021, 1039])
def test_words_of_unknown_outcome(scheduled, at, monkeypatch, code):
    """Each takes effect once."""
    at(10 * _HOUR)
    one = scheduled(every=_HOUR)
    one.enqueue_due()
    backend, schedule = word(one)
    unsure = backend.over(backend.catalog.over(unsure_database(backend.catalog.database, code)))
    assert run_now(unsure, schedule)
    assert ready(backend) == 1
    assert hold(unsure, schedule)
    assert not hold(backend, schedule)
    assert go_on(unsure, schedule)
    assert not go_on(backend, schedule)


def test_a_unique_task_is_there_already(configure, at):
    """Then nothing is enqueued, and that is said."""
    given = {"task": "tests.tasks.jobs.unique", "args": ["anna"], "every": _HOUR}
    backend = configure(schedules={"one": given})
    assert run_now(backend, named(backend, "one"))
    assert run_now(backend, named(backend, "one")) == ""
    assert named(backend, "two") is None
