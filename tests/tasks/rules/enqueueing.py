"""What ``enqueue`` and ``aenqueue`` return, and what they do with arguments."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings
from django.utils import timezone

from fdbqueue.tasks.compat import (
    BaseTaskBackend,
    TaskResult,
    TaskResultStatus,
    normalize_json,
)
from tests.tasks.rules.case import ALIAS, QUEUES, ConformanceCase

#: A clock of the backend's store may differ from this one by so much.
_CLOCKS_DIFFER = timedelta(minutes=5)
_NOT_JSON: dict[str, Any] = {
    "an object": object(),
    "a set": {1, 2},
    "bytes that are not text": b"\xff\xfe",
    "an exception": ValueError("x"),
    "an object in a list in a mapping": {"a": [object()]},
}


class Enqueueing(ConformanceCase):
    """Test what enqueueing returns, and in which form arguments are kept."""

    def _aenqueue(self, task):
        return lambda *args, **kwargs: self.awaited(task.aenqueue, *args, **kwargs)

    def _assert_is_new(self, result, task):
        assert isinstance(result, TaskResult)
        assert result.task.module_path == task.module_path
        assert result.task.func is task.func
        assert (result.args, result.kwargs) == ([1], {"b": 2})
        assert result.backend == ALIAS
        assert isinstance(result.status, TaskResultStatus)
        self.assert_status(result, "READY")
        assert (result.errors, result.worker_ids, result.attempts) == ([], [], 0)
        times = (result.started_at, result.finished_at, result.last_attempted_at)
        assert times == (None, None, None)
        assert not result.is_finished

    def test_the_backend_is_a_task_backend(self):
        """The setting leads to a backend with the alias, the queues and flags that are booleans."""
        backend = self.task_backend
        assert isinstance(backend, BaseTaskBackend)
        assert backend.alias == ALIAS
        assert set(backend.queues) == set(QUEUES)
        for flag in ("defer", "async_task", "get_result", "priority"):
            assert isinstance(getattr(backend, f"supports_{flag}"), bool), flag

    def test_enqueue_returns_a_result(self):
        """A TaskResult has the task, its arguments, the backend, and the state of a new task."""
        task = self.task("add")
        self._assert_is_new(task.enqueue(1, b=2), task)

    def test_aenqueue_returns_a_result(self):
        """The awaited form returns the same."""
        task = self.task("add")
        self._assert_is_new(self._aenqueue(task)(1, b=2), task)

    def test_aenqueued_tasks_run(self):
        """What was enqueued from an event loop runs as everything else."""
        assert self.outcome(self._aenqueue(self.task("add"))(1, b=2)).return_value == 3

    def test_the_result_has_the_enqueued_task(self):
        """Its queue is that of the task, not the one of the decorator."""
        queue = max(self.task_backend.queues)
        result = self.task("add").using(queue_name=queue).enqueue(1)
        assert result.task.queue_name == queue
        assert result.task.backend == ALIAS

    def test_the_time_of_enqueueing(self):
        """It is now, and aware as USE_TZ says."""
        at = self.enqueue("add", 1).enqueued_at
        assert at is not None
        assert timezone.is_aware(at) == settings.USE_TZ
        assert abs(timezone.now() - at) < _CLOCKS_DIFFER

    def test_the_time_of_enqueueing_without_time_zones(self):
        """With USE_TZ off, it is naive."""
        with override_settings(USE_TZ=False):
            at = self.enqueue("add", 1).enqueued_at
            assert at is not None
            assert timezone.is_naive(at)
            assert abs(timezone.now() - at) < _CLOCKS_DIFFER

    def test_ids(self):
        """They are texts of 1 to 64 characters, and none comes twice."""
        ids = [self.enqueue("nothing").id for _ in range(20)]
        assert len(set(ids)) == 20
        for one in ids:
            assert isinstance(one, str)
            assert 1 <= len(one) <= 64, one

    def test_arguments_are_normalised(self):
        """Tuples become lists and bytes texts in the result's args and kwargs."""
        result = self.enqueue("echo", (1, (2,)), b"text", a={"b": (3,)})
        assert result.args == [[1, [2]], "text"]
        assert result.kwargs == {"a": {"b": [3]}}

    def test_the_function_receives_normalised_arguments(self):
        """The function gets what JSON makes of the arguments, whoever runs it."""
        result = self.outcome_of("types", (1,), b"x", {"a": 1}, 1, 1.5, True, None)
        expected = ["list", "str", "dict", "int", "float", "bool", "NoneType"]
        assert result.return_value == expected

    def test_arguments_arrive_unchanged(self):
        """Texts of all alphabets, exact integers and nested values are the same in the function."""
        args = ["", "žluťoučký 🐎", 2**53 + 1, -0.5, True, None, [], {}, [[{"a": [None]}]]]
        result = self.outcome_of("echo", *args, word='\u2028 "quoted" \\')
        assert result.return_value == [args, {"word": '\u2028 "quoted" \\'}]

    def test_arguments_are_those_of_the_call(self):
        """What the caller does with a list afterwards changes nothing."""
        names = ["a"]
        result = self.enqueue("echo", names)
        names.append("b")
        assert result.args == [["a"]]
        assert self.outcome(result).return_value == [[["a"]], {}]

    def _assert_refuses_what_is_not_json(self, enqueue):
        for value in _NOT_JSON.values():
            with pytest.raises((TypeError, ValueError)) as expected:
                normalize_json(value)
            for args, kwargs in (([value], {}), ([], {"a": value})):
                with pytest.raises(type(expected.value)):
                    enqueue(*args, **kwargs)
        self.assert_nothing_enqueued()
        self.run_worker()
        assert self.ran("echo") == []

    def test_arguments_that_are_not_json_are_refused(self):
        """The error is the API's own, TypeError or ValueError, and nothing is enqueued."""
        self._assert_refuses_what_is_not_json(self.task("echo").enqueue)

    def test_aenqueue_refuses_arguments_that_are_not_json(self):
        """The awaited form raises the same errors."""
        self._assert_refuses_what_is_not_json(self._aenqueue(self.task("echo")))

    def test_every_task_runs_once(self):
        """Of several tasks none is lost, and none runs twice."""
        names = [f"task-{number}" for number in range(20)]
        for name in names:
            self.enqueue("mark", name)
        self.work_until(lambda: len(self.ran("mark")) >= len(names), "all 20 tasks have run")
        self.run_worker()
        assert sorted(self.ran("mark")) == sorted(names)

    def test_tasks_of_every_queue_run(self):
        """No queue of the setting is forgotten."""
        queues = sorted(self.task_backend.queues)
        for queue in queues:
            self.task("mark").using(queue_name=queue).enqueue(queue)
        self.work_until(lambda: sorted(self.ran("mark")) == queues, "a task of each queue has run")

    def test_a_task_enqueues_another(self):
        """Both run."""
        self.enqueue("enqueue_another", "second")
        self.work_until(lambda: self.ran("mark") == ["second"], "the second task has run")
