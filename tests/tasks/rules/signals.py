"""The signals of a task, and the backend's system checks."""

from __future__ import annotations

import pytest
from django.core.checks import CheckMessage

from fdbqueue.tasks.compat import InvalidTaskBackend, task_backends
from tests.tasks.rules import journal
from tests.tasks.rules.case import ConformanceCase


class Signals(ConformanceCase):
    """Test that each signal is sent once, by the backend's class, with the state at that time."""

    def _signals(self, event, result):
        return journal.entries(event, id=result.id)

    def _statuses(self, event, result):
        return [entry["status"] for entry in self._signals(event, result)]

    def _finished(self, name, *args):
        """Return the result of a task that has sent its last signal."""
        result = self.enqueue(name, *args)
        self.work_until(
            lambda: bool(self._signals("task_finished", result)), "task_finished was sent"
        )
        return result

    def _assert_sender(self, event, result):
        senders = {entry["sender"] for entry in self._signals(event, result)}
        assert senders == {type(self.task_backend)}

    def test_task_enqueued(self):
        """It is sent once, by the backend's class, with a READY result that has not started."""
        result = self.enqueue("mark", "x")
        [entry] = self._signals("task_enqueued", result)
        self._assert_sender("task_enqueued", result)
        assert entry["status"] == "READY"
        assert (entry["is_started"], entry["is_finished"]) == (False, False)

    def test_task_enqueued_from_an_event_loop(self):
        """aenqueue() sends it once, too."""
        result = self.awaited(self.task("mark").aenqueue, "x")
        assert self._statuses("task_enqueued", result) == ["READY"]
        self._assert_sender("task_enqueued", result)

    def test_the_task_can_be_read_when_it_is_enqueued(self):
        """When task_enqueued is sent, the task is in the store: it runs, and is not sent again."""
        result = self._finished("mark", "x")
        assert self._statuses("task_enqueued", result) == ["READY"]

    def test_task_started(self):
        """It is sent once, by the class; the result is RUNNING, has started, and has its worker."""
        result = self._finished("mark", "x")
        assert self._statuses("task_started", result) == ["RUNNING"]
        self._assert_sender("task_started", result)
        [entry] = self._signals("task_started", result)
        assert (entry["is_started"], entry["is_finished"]) == (True, False)
        assert len(entry["worker_ids"]) == 1

    def test_task_started_is_sent_before_the_function_runs(self):
        """A receiver can prepare what the function needs."""
        result = self._finished("mark", "x")
        [started] = self._signals("task_started", result)
        [ran] = journal.entries("ran", task="mark")
        assert started["at"] <= ran["at"]

    def test_task_finished(self):
        """It is sent once, by the class, with a SUCCESSFUL result that is finished."""
        result = self._finished("mark", "x")
        self.run_worker()
        assert self._statuses("task_finished", result) == ["SUCCESSFUL"]
        self._assert_sender("task_finished", result)
        [entry] = self._signals("task_finished", result)
        assert (entry["is_started"], entry["is_finished"]) == (True, True)
        assert entry["errors"] == []

    def test_task_finished_of_a_failure(self):
        """It is sent once, by the class, with a FAILED result that has the error."""
        result = self._finished("fail")
        self.run_worker()
        assert self._statuses("task_finished", result) == ["FAILED"]
        self._assert_sender("task_finished", result)
        [entry] = self._signals("task_finished", result)
        assert entry["is_finished"]
        assert entry["errors"]
        assert entry["errors"][-1].endswith(".TaskFailure")

    def test_signals_of_a_value_that_is_not_json(self):
        """A task that fails by its return value is not finished twice."""
        result = self._finished("odd_value", "object")
        self.run_worker()
        assert self._statuses("task_finished", result) == ["FAILED"]

    def test_signals_of_retries(self):
        """Each attempt is started, and the task is finished once."""
        result = self._finished("fail_until", 3)
        self.run_worker()
        assert self._statuses("task_started", result) == ["RUNNING"] * 3
        assert self._statuses("task_finished", result) == ["SUCCESSFUL"]

    def test_refused_tasks_send_nothing(self):
        """What raises in enqueue() sends no signal."""
        with pytest.raises((TypeError, ValueError)):
            self.enqueue("mark", object())
        self.assert_nothing_enqueued()


class Checks(ConformanceCase):
    """Test the system checks of the backend, and its configuration."""

    def test_checks(self):
        """check() yields messages, none of them an error: the configuration is right."""
        messages = list(self.task_backend.check())
        for message in messages:
            assert isinstance(message, CheckMessage)
        assert [message for message in messages if message.is_serious()] == []

    def test_checks_take_keywords(self):
        """It takes what Django passes to checks."""
        for message in self.task_backend.check(app_configs=None, databases=["default"]):
            assert isinstance(message, CheckMessage)

    def test_an_unknown_alias(self):
        """It raises InvalidTaskBackend."""
        with pytest.raises(InvalidTaskBackend):
            _ = task_backends["no-such-alias"]
