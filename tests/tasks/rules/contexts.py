"""What a running task is given: its context, an event loop, another attempt."""

from __future__ import annotations

from tests.tasks.rules.case import ConformanceCase
from tests.tasks.rules.functions import TaskFailure


class Contexts(ConformanceCase):
    """Test tasks that take a context."""

    def test_the_context(self):
        """It is the first argument, with the attempt, and the result as it is while it runs."""
        result = self.outcome_of("look_at_context", "word")
        self.assert_status(result, "SUCCESSFUL")
        expected = {
            "word": "word",
            "attempt": 1,
            "id": result.id,
            "status": "RUNNING",
            "is_started": True,
            "is_finished": False,
            "worker_ids": result.worker_ids,
            "args": ["word"],
            "is_context": True,
        }
        assert result.return_value == expected

    def test_the_context_with_keywords(self):
        """It does not disturb keyword arguments, and is not kept among the arguments."""
        result = self.outcome_of("look_at_context", word="word")
        self.assert_status(result, "SUCCESSFUL")
        assert (result.args, result.kwargs) == ([], {"word": "word"})


class AsyncTasks(ConformanceCase):
    """Coroutine functions are awaited."""

    def test_an_async_task_is_awaited(self):
        """Its value is what the coroutine returns."""
        result = self.outcome_of("add_async", 1, 2)
        self.assert_status(result, "SUCCESSFUL")
        assert result.return_value == 3

    def test_an_async_task_enqueued_from_an_event_loop(self):
        """It can be enqueued by aenqueue()."""
        result = self.awaited(self.task("add_async").aenqueue, 1, 2)
        assert self.outcome(result).return_value == 3

    def test_an_async_task_that_raises(self):
        """It is FAILED with its own exception, and the worker goes on."""
        result = self.outcome_of("fail_async")
        self.assert_status(result, "FAILED")
        assert result.errors[-1].exception_class is TaskFailure
        assert self.outcome_of("add_async", 1, 2).return_value == 3

    def test_an_async_task_with_a_context(self):
        """It gets the context as other tasks do."""
        result = self.outcome_of("look_at_context_async")
        self.assert_status(result, "SUCCESSFUL")
        assert result.return_value == [1, result.id]


class Retries(ConformanceCase):
    """Test the claim ``retries``: a task that raises runs again."""

    def test_a_task_that_fails_twice_succeeds(self):
        """The third attempt knows its number, and the errors of the first two are kept."""
        result = self.outcome_of("fail_until", 3)
        self.assert_status(result, "SUCCESSFUL")
        assert result.return_value == 3
        assert self.ran("fail_until") == [1, 2, 3]
        assert (result.attempts, len(result.worker_ids)) == (3, 3)
        assert [error.exception_class for error in result.errors] == [TaskFailure] * 2
        for number, error in enumerate(result.errors, start=1):
            assert f"attempt {number}" in error.traceback

    def test_attempts_end(self):
        """A task that always raises ends FAILED, with an error for each attempt."""
        result = self.outcome_of("fail", "always")
        self.assert_status(result, "FAILED")
        assert result.attempts >= 3
        assert len(result.errors) == result.attempts
        assert len(self.ran("fail")) == result.attempts

    def test_the_first_start_is_kept(self):
        """started_at is the first attempt's start, and last_attempted_at that of the last one."""
        result = self.outcome_of("fail_until", 3)
        assert result.started_at is not None
        assert result.last_attempted_at is not None
        assert result.started_at < result.last_attempted_at
