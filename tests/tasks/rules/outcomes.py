"""How a task ends: its status, times, return value and errors."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.utils import timezone

from fdbqueue.tasks.compat import TaskResultStatus
from tests.tasks.rules.case import ConformanceCase
from tests.tasks.rules.functions import SevereFailure, TaskFailure


class Outcomes(ConformanceCase):
    """Test the results of tasks that have run."""

    def test_success(self):
        """A task that returns is SUCCESSFUL, with its value, one attempt and no errors."""
        result = self.outcome_of("add", 1, b=2)
        self.assert_status(result, "SUCCESSFUL")
        assert isinstance(result.status, TaskResultStatus)
        assert result.return_value == 3
        assert result.errors == []
        assert result.is_finished
        assert (result.args, result.kwargs) == ([1], {"b": 2})

    def test_workers_have_ids(self):
        """Each attempt has the id of its worker."""
        result = self.outcome_of("add", 1)
        assert (result.attempts, len(result.worker_ids)) == (1, 1)
        for one in result.worker_ids:
            assert isinstance(one, str)
            assert one

    def test_times(self):
        """A task is enqueued, then started, then finished; all times are aware as USE_TZ says."""
        result = self.outcome_of("add", 1)
        times = [result.enqueued_at, result.started_at, result.finished_at]
        found = [one for one in times if one is not None]
        assert len(found) == 3, times
        assert found == sorted(found)
        assert result.last_attempted_at is not None
        assert found[1] <= result.last_attempted_at <= found[2]
        for one in [*found, result.last_attempted_at]:
            assert timezone.is_aware(one) == settings.USE_TZ

    def test_no_return_value_before_the_end(self):
        """Reading it raises ValueError while the task waits."""
        with pytest.raises(ValueError, match="Task has not finished yet"):
            _ = self.enqueue("add", 1).return_value

    def test_a_return_value_of_none(self):
        """A task that returns nothing is SUCCESSFUL with None."""
        result = self.outcome_of("nothing")
        self.assert_status(result, "SUCCESSFUL")
        assert result.return_value is None

    def test_return_values_are_normalised(self):
        """Tuples become lists."""
        result = self.outcome_of("odd_value", "tuple")
        self.assert_status(result, "SUCCESSFUL")
        assert result.return_value == [1, [2, {"a": [3]}]]

    def test_returned_bytes_are_normalised(self):
        """Bytes that are text become a text, as they do in arguments."""
        result = self.outcome_of("odd_value", "bytes")
        self.assert_status(result, "SUCCESSFUL")
        assert result.return_value == "text"

    def test_a_return_value_that_is_not_json_fails_the_task(self):
        """Its error is that of the normalisation, and the worker goes on."""
        for kind, error in (("object", TypeError), ("set", TypeError), ("binary", ValueError)):
            result = self.outcome_of("odd_value", kind)
            self.assert_status(result, "FAILED")
            found = result.errors[-1].exception_class
            assert issubclass(found, (error, TypeError)), f"{kind}: {found}"
        self._assert_worker_goes_on()

    def test_failure(self):
        """A task that raises is FAILED, with its exception's class and traceback."""
        result = self.outcome_of("fail", "so it is")
        self.assert_status(result, "FAILED")
        assert result.is_finished
        assert result.finished_at is not None
        error = result.errors[-1]
        assert error.exception_class is TaskFailure
        assert "so it is" in error.traceback
        assert "Traceback (most recent call last)" in error.traceback
        assert "in fail" in error.traceback
        assert result.attempts == len(result.worker_ids)
        assert len(result.errors) == len(result.worker_ids)

    def test_no_return_value_of_a_failure(self):
        """Reading it raises ValueError."""
        with pytest.raises(ValueError, match="Task failed"):
            _ = self.outcome_of("fail").return_value

    def test_the_traceback_has_the_cause(self):
        """The exception that caused another is shown with it."""
        traceback = self.outcome_of("fail_with_cause").errors[-1].traceback
        for text in ("the cause", "the consequence", "direct cause"):
            assert text in traceback

    def test_wrong_arguments_fail_the_task(self):
        """A call that the function's signature does not allow is a TypeError of the task."""
        result = self.outcome_of("nothing", 1, 2, 3)
        self.assert_status(result, "FAILED")
        assert result.errors[-1].exception_class is TypeError

    def _assert_fails(self, kind):
        result = self.outcome_of("fail_oddly", kind)
        self.assert_status(result, "FAILED")
        self._assert_worker_goes_on()
        return result

    def _assert_worker_goes_on(self):
        assert self.outcome_of("add", 20, 22).return_value == 42

    def test_system_exit_ends_the_task(self):
        """The worker goes on."""
        assert self._assert_fails("exit").errors[-1].exception_class is SystemExit

    def test_base_exceptions_end_the_task(self):
        """A BaseException that is not an Exception ends the task, and the worker goes on."""
        assert self._assert_fails("severe").errors[-1].exception_class is SevereFailure

    def test_a_cancellation_ends_the_task(self):
        """A CancelledError that a task raises does not cancel the worker."""
        path = self._assert_fails("cancelled").errors[-1].exception_class_path
        assert path.endswith("CancelledError"), path

    def test_an_exception_that_no_path_leads_to(self):
        """Its task is FAILED, and its path is kept as a text."""
        path = self._assert_fails("local").errors[-1].exception_class_path
        assert path.endswith("LocalFailure"), path

    def test_an_exception_without_text(self):
        """One whose ``str()`` fails is recorded."""
        path = self._assert_fails("unprintable").errors[-1].exception_class_path
        assert path.endswith("UnprintableFailure"), path

    def test_an_exception_with_a_lone_surrogate(self):
        """A text that has no UTF-8, as the name of a file may have none, is recorded."""
        self._assert_fails("surrogate")

    def test_an_exception_with_a_nul(self):
        """A text with the character 0 is recorded."""
        self._assert_fails("nul")

    def test_an_exception_with_a_long_text(self):
        """200,000 characters are recorded, or a part of them."""
        assert "xxx" in self._assert_fails("long").errors[-1].traceback
