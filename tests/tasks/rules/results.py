"""Results by their ids."""

from __future__ import annotations

import threading

import pytest
from django.db import connections

from fdbqueue.tasks.compat import (
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultMismatch,
)
from tests.tasks.rules import tasks
from tests.tasks.rules.case import ConformanceCase

_FIELDS = (
    "id",
    "status",
    "enqueued_at",
    "started_at",
    "finished_at",
    "last_attempted_at",
    "args",
    "kwargs",
    "backend",
    "errors",
    "worker_ids",
)
_UNKNOWN_IDS = {
    "one as backends make them": "x7GdQ2wPz0aLkVtYcRbNmJfHsUeXoIq5",
    "a UUID": "0b0f2b0e-5d5d-4a8a-9a52-7c3b8e1a8a11",
    "64 characters": "f" * 64,
}
_ABSURD_IDS = {
    "empty": "",
    "a blank": " ",
    "65 characters": "f" * 65,
    "100,000 characters": "f" * 100_000,
    "not ASCII": "žluťoučký-🐎",
    "NUL": "a\x00b",
    "a newline": "a\nb",
    "a lone surrogate": "a\udcffb",
    "a path": "../../etc/passwd",
    "a wildcard": "%",
    "a quote": "' OR 1=1 --",
}


class Results(ConformanceCase):
    """Test get_result, aget_result, refresh and arefresh."""

    def _assert_same(self, found, expected):
        for field in _FIELDS:
            assert getattr(found, field) == getattr(expected, field), field
        assert isinstance(found, TaskResult)
        for field in ("func", "queue_name", "priority", "run_after", "backend", "takes_context"):
            assert getattr(found.task, field) == getattr(expected.task, field), field

    def test_a_result_by_its_id(self):
        """It is the same as the one that enqueue() returned."""
        result = self.enqueue("add", 1, b=2)
        self._assert_same(self.task_backend.get_result(result.id), result)
        self._assert_same(self.task("add").get_result(result.id), result)

    def test_an_awaited_result_by_its_id(self):
        """The awaited form returns the same."""
        result = self.enqueue("add", 1, b=2)
        self._assert_same(self.awaited(self.task_backend.aget_result, result.id), result)
        self._assert_same(self.awaited(self.task("add").aget_result, result.id), result)

    def test_a_result_has_the_task_as_it_was_enqueued(self):
        """Its queue, too, is kept."""
        queue = max(self.task_backend.queues or {"any"})
        result = self.task("add").using(queue_name=queue).enqueue(1)
        self._assert_same(self.task_backend.get_result(result.id), result)

    def test_a_result_of_another_thread(self):
        """Each thread can read it."""
        result = self.enqueue("add", 1)
        found = []

        def read():
            try:
                found.append(self.task_backend.get_result(result.id).id)
            except Exception as error:  # noqa: BLE001  # shown below
                found.append(error)
            finally:
                connections.close_all()

        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        assert found == [result.id]

    def test_a_result_is_kept_after_the_end(self):
        """It can be read again and again."""
        result = self.outcome_of("add", 1, b=2)
        again = self.task_backend.get_result(result.id)
        self._assert_same(again, result)
        assert again.return_value == 3

    def _assert_unknown(self, ids):
        self.enqueue("add", 1)
        for what, one in ids.items():
            for get in (
                self.task_backend.get_result,
                self.task("add").get_result,
                lambda id_: self.awaited(self.task_backend.aget_result, id_),
                lambda id_: self.awaited(self.task("add").aget_result, id_),
            ):
                try:
                    get(one)
                except TaskResultDoesNotExist:
                    continue
                except Exception as error:  # noqa: BLE001  # its class is what is tested
                    self.fail(f"The id {what} raises {error!r}, not TaskResultDoesNotExist")
                self.fail(f"The id {what} has a result")

    def test_unknown_ids(self):
        """They raise TaskResultDoesNotExist."""
        self._assert_unknown(_UNKNOWN_IDS)

    def test_absurd_ids(self):
        """Texts that no backend would make raise TaskResultDoesNotExist, not another error."""
        self._assert_unknown(_ABSURD_IDS)

    def test_a_result_of_another_task(self):
        """A Task refuses the result of another one, by TaskResultMismatch."""
        result = self.enqueue("add", 1)
        with pytest.raises(TaskResultMismatch):
            self.task("mark").get_result(result.id)
        with pytest.raises(TaskResultMismatch):
            self.awaited(self.task("mark").aget_result, result.id)

    def test_refresh(self):
        """A result that was READY shows the end of its task after refresh()."""
        result = self.enqueue("add", 1, b=2)
        end = self.outcome(result)
        result.refresh()
        self._assert_same(result, end)
        assert result.return_value == 3

    def test_arefresh(self):
        """The awaited form does the same."""
        result = self.enqueue("fail")
        end = self.outcome(result)
        self.awaited(result.arefresh)
        self._assert_same(result, end)

    def test_a_task_that_runs_is_running(self):
        """While it runs, get_result() has RUNNING, its first attempt, and no end."""
        found = self.outcome_of("look_at_result").return_value
        expected = {"status": "RUNNING", "attempts": 1, "is_started": True, "is_finished": False}
        assert found == expected

    def test_a_task_whose_code_is_gone_fails(self):
        """A worker that cannot import a task lets it end FAILED, and goes on.

        One that need not import it may run it.
        """
        result, other = self.enqueue("mark", "gone"), self.enqueue("add", 1)

        def work_without_it():
            with tasks.without("mark"):
                self.run_worker()

        def ended():
            result.refresh()
            return result.is_finished

        self.work_until(ended, "a task whose code is gone has ended", work_without_it)
        self.assert_status(result, "SUCCESSFUL" if self.ran("mark") else "FAILED")
        self.assert_status(self.outcome(other), "SUCCESSFUL")

    def test_results_outlive_code(self):
        """The result of a task whose function is gone can still be read."""
        ended = self.outcome_of("add", 1, b=2)
        waiting = self.enqueue("mark", "gone")
        with tasks.without("add"), tasks.without("mark"):
            found = self.task_backend.get_result(ended.id)
            assert self.task_backend.get_result(waiting.id).args == ["gone"]
        assert found.return_value == 3
        assert (found.args, found.kwargs) == ([1], {"b": 2})
        assert found.task.module_path == ended.task.module_path
