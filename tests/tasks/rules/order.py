"""In which order tasks run: priorities, times, and the order of enqueueing."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from django.test import override_settings
from django.utils import timezone

from tests.tasks.rules import journal
from tests.tasks.rules.case import ConformanceCase

_SOON = timedelta(seconds=1)
_LATER = timedelta(hours=1)
#: What a clock of the backend's store may be ahead of this one.
_CLOCKS_DIFFER = timedelta(milliseconds=50)


class Priorities(ConformanceCase):
    """Higher priorities run first."""

    def test_priorities_are_kept(self):
        """The result's task has the priority that was asked for."""
        for priority in (-100, 0, 100):
            result = self.task("mark").using(priority=priority).enqueue("x")
            assert result.task.priority == priority
            stored = self.task_backend.get_result(result.id)
            assert stored.task.priority == priority

    def test_higher_priorities_run_first(self):
        """One worker runs tasks from priority 100 down, in whichever order they were enqueued."""
        priorities = [0, -100, 7, 100, -1, 1, -99, 99]
        for priority in priorities:
            self.task("mark").using(priority=priority).enqueue(priority)
        self.work_until(lambda: len(self.ran("mark")) >= len(priorities), "all tasks have run")
        assert self.ran("mark") == sorted(priorities, reverse=True)

    def test_a_later_task_of_a_higher_priority_overtakes(self):
        """What is enqueued later runs before what waits, if its priority is higher."""
        for name in ("first", "second"):
            self.enqueue("mark", name)
        self.run_worker(1)
        self.task("mark").using(priority=1).enqueue("urgent")
        self.work_until(lambda: len(self.ran("mark")) >= 3, "all tasks have run")
        assert self.ran("mark")[1] == "urgent"

    def test_the_order_of_enqueueing(self):
        """One worker runs equal tasks in the order in which they were enqueued."""
        for name in range(15):
            self.enqueue("mark", name)
        self.work_until(lambda: len(self.ran("mark")) >= 15, "all tasks have run")
        assert self.ran("mark") == list(range(15))


class Deferring(ConformanceCase):
    """A task does not start before its time."""

    def test_run_after_is_kept(self):
        """The result's task has the time that was asked for."""
        at = timezone.now() + _LATER
        result = self.task("mark").using(run_after=at).enqueue("x")
        assert result.task.run_after == at
        assert self.task_backend.get_result(result.id).task.run_after == at

    def test_a_time_in_another_zone_is_the_same_time(self):
        """An aware time means the same moment in each zone."""
        at = timezone.now() + _LATER
        elsewhere = at.astimezone(timezone.get_fixed_timezone(-330))
        assert self.task("mark").using(run_after=elsewhere).enqueue("x").task.run_after == at

    def test_a_naive_time_without_time_zones(self):
        """With USE_TZ off, a naive time is accepted."""
        with override_settings(USE_TZ=False):
            at = datetime.now() + _LATER  # noqa: DTZ005  # that is what is accepted
            result = self.task("mark").using(run_after=at).enqueue("x")
            assert result.task.run_after == at

    def test_a_task_does_not_run_before_its_time(self):
        """A task for later stays READY, and others pass it."""
        later = self.task("mark").using(run_after=timezone.now() + _LATER).enqueue("later")
        self.assert_status(later, "READY")
        self.enqueue("mark", "now")
        self.run_worker()
        self.work_until(lambda: "now" in self.ran("mark"), "the task without a time has run")
        self.run_worker()
        assert "later" not in self.ran("mark")
        self.assert_status(self.task_backend.get_result(later.id), "READY")

    def test_a_task_runs_after_its_time(self):
        """A task for a second later runs then, and not before."""
        at = timezone.now() + _SOON
        self.task("mark").using(run_after=at).enqueue("x")
        self.work_until(lambda: self.ran("mark") == ["x"], "the task has run after its time")
        started = journal.entries("ran", task="mark")[0]["at"]
        due = time.time() + (at - timezone.now()).total_seconds()
        assert started >= due - _CLOCKS_DIFFER.total_seconds()

    def test_a_time_in_the_past(self):
        """The task runs as soon as others."""
        self.task("mark").using(run_after=timezone.now() - _LATER).enqueue("x")
        self.work_until(lambda: self.ran("mark") == ["x"], "the task has run")

    def test_a_priority_does_not_hasten_a_task(self):
        """The highest priority does not run before its time."""
        self.task("mark").using(run_after=timezone.now() + _LATER, priority=100).enqueue("later")
        self.run_worker()
        assert self.ran("mark") == []
