"""What is refused: when a Task is made, and again when it is enqueued."""

from __future__ import annotations

from datetime import datetime

import pytest
from django.test import override_settings

from fdbqueue.tasks.compat import InvalidTask, task
from tests.tasks.rules.case import ALIAS, ConformanceCase
from tests.tasks.rules.functions import FUNCTIONS

_NAIVE = datetime(2200, 1, 1)  # noqa: DTZ001  # that is what is refused


class Validation(ConformanceCase):
    """Test that invalid tasks raise InvalidTask, and that nothing is enqueued."""

    def _changed(self, name, **fields):
        """Return a Task that has become invalid after it was made."""
        changed = self.task(name)
        changed = changed.using(queue_name=changed.queue_name)  # one of this test's own
        for field, value in fields.items():
            object.__setattr__(changed, field, value)
        return changed

    def _assert_refused_by_enqueue(self, name, **fields):
        changed = self._changed(name, **fields)
        with pytest.raises(InvalidTask):
            changed.enqueue("x")
        with pytest.raises(InvalidTask):
            self.awaited(changed.aenqueue, "x")
        self.assert_nothing_enqueued()
        self.run_worker()
        assert self.ran("mark") == []

    def test_a_queue_that_there_is_not(self):
        """A Task with a queue that the setting does not list cannot be made."""
        with pytest.raises(InvalidTask):
            self.task("mark").using(queue_name="no-such-queue")

    def test_enqueue_refuses_a_queue_that_there_is_not(self):
        """A Task whose queue was removed after it was made is refused."""
        self._assert_refused_by_enqueue("mark", queue_name="no-such-queue")

    def test_an_empty_list_of_queues_takes_each_name(self):
        """With an empty QUEUES, a task's queue can have any name."""
        setting = self._setting()
        setting[ALIAS]["QUEUES"] = []
        with override_settings(TASKS=setting):
            result = self.task("mark").using(queue_name="any-name").enqueue("x")
        assert result.task.queue_name == "any-name"

    def test_a_priority_out_of_range(self):
        """Priorities are whole numbers from -100 to 100."""
        for priority in (-101, 101, 10**20, 1.5):
            with pytest.raises(InvalidTask):
                self.task("mark").using(priority=priority)  # type: ignore[arg-type]  # wrong on purpose

    def test_enqueue_refuses_a_priority_out_of_range(self):
        """A Task whose priority was changed after it was made is refused."""
        for priority in (-101, 101, 1.5):
            self._assert_refused_by_enqueue("mark", priority=priority)

    def test_a_function_within_a_function(self):
        """No worker could import it."""

        def inner():
            """Be out of reach."""

        for function in (inner, lambda: None):
            with pytest.raises(InvalidTask):
                task(backend=ALIAS)(function)

    def test_enqueue_refuses_a_function_within_a_function(self):
        """The rule of module-level functions holds at enqueue(), too."""

        def inner(name):
            """Be out of reach."""

        self._assert_refused_by_enqueue("mark", func=inner)

    def test_a_callable_that_is_not_a_function(self):
        """Methods, classes and builtins are refused."""
        for function in (self.setUp, dict, len):
            with pytest.raises(InvalidTask):
                task(backend=ALIAS)(function)

    def test_a_task_that_takes_a_context_needs_the_argument(self):
        """The first argument of its function is called ``context``."""
        for name in ("without_context", "nothing"):
            with pytest.raises(InvalidTask):
                task(backend=ALIAS, takes_context=True)(FUNCTIONS[name])

    def test_enqueue_refuses_a_task_without_the_argument_for_its_context(self):
        """A Task that takes a context only since it was made is refused."""
        self._assert_refused_by_enqueue("without_context", takes_context=True)

    def test_a_naive_time_is_refused(self):
        """With USE_TZ, run_after is aware; without support for it, none is accepted."""
        with override_settings(USE_TZ=True), pytest.raises(InvalidTask):
            self.task("mark").using(run_after=_NAIVE)

    def test_enqueue_refuses_a_naive_time(self):
        """The rule of aware times holds at enqueue(), too."""
        with override_settings(USE_TZ=True):
            self._assert_refused_by_enqueue("mark", run_after=_NAIVE)
