"""Backends with one defect each, and the tests of the kit that must find it."""

from __future__ import annotations

import threading
from datetime import timedelta
from traceback import format_exception
from types import SimpleNamespace
from typing import Any

from django.utils import timezone

from fdbqueue.tasks.compat import (
    InvalidTask,
    TaskContext,
    TaskResultDoesNotExist,
    TaskResultStatus,
    normalize_json,
    task_enqueued,
    task_finished,
    task_started,
)
from tests.task_backends.kit import tasks
from tests.task_backends.memory import MemoryBackend, copied

#: The class of a wrong backend, and the names of the tests that it fails.
WRONG: dict[type[MemoryBackend], set[str]] = {}

_AT_ENQUEUE = (
    "test_enqueue_refuses_a_function_within_a_function",
    "test_enqueue_refuses_a_naive_time",
    "test_enqueue_refuses_a_priority_out_of_range",
    "test_enqueue_refuses_a_queue_that_there_is_not",
    "test_enqueue_refuses_a_task_without_the_argument_for_its_context",
)


def fails(*tests: str):
    """Say which tests a wrong backend fails; it passes all others."""

    def remember(backend):
        WRONG[backend] = set(tests)
        return backend

    return remember


# Signals


@fails("test_the_sender_of_task_started")
class InstanceSendsStarted(MemoryBackend):
    """Sends task_started with the backend object as its sender."""

    def send(self, signal, result):
        sender = self if signal is task_started else type(self)
        signal.send(sender=sender, task_result=copied(result))


@fails(
    "test_task_enqueued",
    "test_task_enqueued_from_an_event_loop",
    "test_the_task_can_be_read_when_it_is_enqueued",
)
class NoSignalOfEnqueueing(MemoryBackend):
    """Does not send task_enqueued."""

    def send(self, signal, result):
        if signal is not task_enqueued:
            super().send(signal, result)


@fails("test_signals_of_a_value_that_is_not_json", "test_task_finished_of_a_failure")
class FinishesTwice(MemoryBackend):
    """Sends task_finished twice for a failure."""

    def fail(self, result, error):
        super().fail(result, error)
        if result.status == TaskResultStatus.FAILED:
            self.send(task_finished, result)


@fails("test_task_started_is_sent_before_the_function_runs")
class StartsAfterwards(MemoryBackend):
    """Sends task_started when the function has run."""

    def send(self, signal, result):
        if signal is not task_started:
            super().send(signal, result)

    def call(self, result):
        try:
            return super().call(result)
        finally:
            super().send(task_started, result)


@fails("test_task_finished", "test_task_finished_of_a_failure")
class FinishesEarly(MemoryBackend):
    """Sends task_finished before it is."""

    def finish(self, result):
        self.send(task_finished, result)
        self.change(result, finished_at=self.now())


# Validation


@fails(*_AT_ENQUEUE)
class ForgetsToValidate(MemoryBackend):
    """Leaves validation to the making of a Task."""

    def validate(self, task):
        pass


@fails(*_AT_ENQUEUE)
class ForgetsToValidateWhenAwaited(MemoryBackend):
    """Validates in enqueue() alone."""

    is_awaited = False

    async def aenqueue(self, task, args, kwargs):
        self.is_awaited = True
        try:
            return self.enqueue(task, args, kwargs)
        finally:
            self.is_awaited = False

    def validate(self, task):
        if not self.is_awaited:
            super().validate(task)


@fails(
    "test_aenqueue_refuses_arguments_that_are_not_json",
    "test_arguments_that_are_not_json_are_refused",
    "test_refused_tasks_send_nothing",
)
class EnqueuesBeforeItRefuses(MemoryBackend):
    """Tells of a task before it looks at its arguments."""

    def enqueue(self, task, args, kwargs):
        self.validate(task)
        signalled = SimpleNamespace(
            id="x",
            status=TaskResultStatus.READY,
            started_at=None,
            finished_at=None,
            errors=[],
            worker_ids=[],
            task=task,
            backend=self.alias,
        )
        try:
            normalize_json([args, kwargs])
        except (TypeError, ValueError):
            task_enqueued.send(sender=type(self), task_result=signalled)
        return super().enqueue(task, args, kwargs)


@fails(
    "test_aenqueue_refuses_arguments_that_are_not_json",
    "test_arguments_that_are_not_json_are_refused",
    "test_refused_tasks_send_nothing",
)
class RaisesItsOwnError(MemoryBackend):
    """Refuses arguments by an error that is not the API's."""

    def enqueue(self, task, args, kwargs):
        try:
            normalize_json([args, kwargs])
        except (TypeError, ValueError) as error:
            raise RuntimeError("bad arguments") from error
        return super().enqueue(task, args, kwargs)


# What is kept


@fails("test_arguments_are_those_of_the_call", "test_the_function_receives_normalised_arguments")
class KeepsArgumentsAsTheyAre(MemoryBackend):
    """Does not normalise what enqueue() is given."""

    def store(self, result):
        super().store(result)
        args, kwargs = self.given
        self.change(result, args=list(args), kwargs=kwargs)

    def enqueue(self, task, args, kwargs):
        self.given = args, kwargs
        return super().enqueue(task, args, kwargs)


@fails(
    "test_every_task_runs_once", "test_higher_priorities_run_first", "test_the_order_of_enqueueing"
)
class LosesATask(MemoryBackend):
    """Loses the seventh task after each start."""

    count = 0

    def store(self, result):
        self.count += 1
        if self.count != 7:
            super().store(result)


@fails("test_tasks_of_every_queue_run")
class RunsTwice(MemoryBackend):
    """Runs a task of its second queue twice."""

    def call(self, result):
        if result.task.queue_name == "other":
            super().call(result)
        return super().call(result)


@fails("test_tasks_of_every_queue_run")
class ForgetsAQueue(MemoryBackend):
    """Runs tasks of one queue alone."""

    def due(self):
        return [one for one in super().due() if one.task.queue_name == "default"]


@fails("test_ids")
class LongIds(MemoryBackend):
    """Makes ids of more than 64 characters."""

    def new_id(self):
        return super().new_id() * 3


@fails("test_absurd_ids", "test_unknown_ids")
class RaisesKeyErrors(MemoryBackend):
    """Does not translate the error of an unknown id."""

    def find(self, result_id):
        return self.results[result_id]


@fails("test_absurd_ids")
class TrimsIds(MemoryBackend):
    """Takes an empty id for the last one."""

    def find(self, result_id):
        return super().find(result_id or next(iter(self.results)))


@fails(
    "test_a_result_is_kept_after_the_end",
    "test_arefresh",
    "test_refresh",
    "test_results_outlive_code",
)
class ForgetsFinishedResults(MemoryBackend):
    """Removes a result when it has been read after its end."""

    def get_result(self, result_id):
        result = super().get_result(result_id)
        if result.is_finished:
            del self.results[result_id]
        return result


# How a task ends


@fails(
    "test_a_return_value_that_is_not_json_fails_the_task",
    "test_return_values_are_normalised",
    "test_returned_bytes_are_normalised",
    "test_signals_of_a_value_that_is_not_json",
)
class KeepsValuesAsTheyAre(MemoryBackend):
    """Does not normalise return values."""

    def value(self, returned):
        return returned


@fails(
    "test_a_cancellation_ends_the_task",
    "test_base_exceptions_end_the_task",
    "test_system_exit_ends_the_task",
)
class LetsExitsThrough(MemoryBackend):
    """Catches exceptions, but not SystemExit and its like."""

    def fail(self, result, error):
        if not isinstance(error, Exception):
            raise error
        super().fail(result, error)


@fails(
    "test_a_return_value_that_is_not_json_fails_the_task",
    "test_signals_of_a_value_that_is_not_json",
)
class LeavesOddValuesRunning(MemoryBackend):
    """Does not end a task whose value is not JSON."""

    def fail(self, result, error):
        if "Unsupported" not in str(error.args):
            super().fail(result, error)


@fails("test_failure", "test_the_traceback_has_the_cause")
class GivesNoTraceback(MemoryBackend):
    """Keeps the text of an exception, not its traceback."""

    def fail(self, result, error):
        super().fail(result, error)
        result.errors[-1] = type(result.errors[-1])(
            exception_class_path=result.errors[-1].exception_class_path, traceback=repr(error)
        )


@fails("test_the_time_of_enqueueing", "test_times")
class NaiveTimes(MemoryBackend):
    """Keeps times without a zone."""

    def now(self):
        return timezone.now().replace(tzinfo=None)


@fails(
    "test_a_task_that_fails_twice_succeeds",
    "test_attempts_end",
    "test_signals_of_retries",
    "test_the_first_start_is_kept",
)
class RetriesOnce(MemoryBackend):
    """Claims retries, and does not retry."""

    def fail(self, result, error):
        super().fail(result, error)
        if result.status == TaskResultStatus.READY:
            self.change(result, status=TaskResultStatus.FAILED)
            self.finish(result)


# What is claimed


@fails("test_a_later_task_of_a_higher_priority_overtakes", "test_higher_priorities_run_first")
class LowestPriorityFirst(MemoryBackend):
    """Takes a lower number for a higher priority."""

    def rank(self, result):
        return result.task.priority


@fails("test_the_order_of_enqueueing")
class LatestFirst(MemoryBackend):
    """Is a stack."""

    def due(self):
        latest_first = list(reversed(super().due()))
        latest_first.sort(key=self.rank)
        return latest_first


@fails(
    "test_a_priority_does_not_hasten_a_task",
    "test_a_task_does_not_run_before_its_time",
    "test_a_task_runs_after_its_time",
)
class RunsTooEarly(MemoryBackend):
    """Takes a time for a wish."""

    def is_due(self, run_after, now):
        return super().is_due(run_after, now + timedelta(hours=2))


@fails("test_a_task_runs_after_its_time", "test_a_time_in_the_past")
class NeverRunsWhatIsDeferred(MemoryBackend):
    """Forgets tasks for later."""

    def is_due(self, run_after, now):
        return run_after is None


@fails(
    "test_an_async_task_enqueued_from_an_event_loop",
    "test_an_async_task_is_awaited",
    "test_an_async_task_that_raises",
)
class DoesNotAwait(MemoryBackend):
    """Calls a coroutine function as any other."""

    def call(self, result):
        returned = result.task.func
        if result.task.name != "add_async":
            return super().call(result)
        coroutine: Any = returned(*result.args)
        coroutine.close()
        return None


@fails(
    "test_a_task_that_fails_twice_succeeds",
    "test_an_async_task_with_a_context",
    "test_signals_of_retries",
    "test_the_context",
)
class NoContext(MemoryBackend):
    """Makes a context of the result as it was when it was enqueued."""

    def call(self, result):
        before = copied(result)
        self.change(before, status=TaskResultStatus.READY, worker_ids=[], started_at=None)
        if result.task.takes_context:
            return super().call(before)
        return super().call(result)


@fails(
    *_AT_ENQUEUE,
    "test_a_callable_that_is_not_a_function",
    "test_a_function_within_a_function",
    "test_a_naive_time_is_refused",
    "test_a_priority_out_of_range",
    "test_a_queue_that_there_is_not",
    "test_a_task_that_takes_a_context_needs_the_argument",
    "test_async_tasks_without_support",
    "test_priorities_without_support",
    "test_run_after_without_support",
)
class ClaimsNothing(MemoryBackend):
    """Sets no flag, and refuses nothing all the same."""

    supports_defer = supports_async_task = supports_priority = False

    def validate_task(self, task):
        pass


@fails("test_checks", "test_checks_take_keywords")
class WrongChecks(MemoryBackend):
    """Yields texts in place of messages."""

    def check(self, **kwargs):
        return ["all is well"]


# More of what is kept, and of how a task ends


@fails("test_the_sender_of_task_finished", "test_the_sender_of_task_finished_of_a_failure")
class InstanceSendsFinished(MemoryBackend):
    """Sends task_finished with the backend object as its sender."""

    def send(self, signal, result):
        sender = self if signal is task_finished else type(self)
        signal.send(sender=sender, task_result=copied(result))


@fails("test_a_result_of_another_thread")
class ResultsOfOneThread(MemoryBackend):
    """Keeps results for the thread that enqueued them."""

    def store(self, result):
        self.thread = threading.get_ident()
        super().store(result)

    def find(self, result_id):
        if getattr(self, "thread", None) != threading.get_ident():
            raise TaskResultDoesNotExist(result_id)
        return super().find(result_id)


@fails(
    "test_a_result_has_the_task_as_it_was_enqueued",
    "test_priorities_are_kept",
    "test_run_after_is_kept",
)
class KeepsTheDecoratorsTask(MemoryBackend):
    """Shows the task as it was defined, not as it was enqueued."""

    def get_result(self, result_id):
        result = super().get_result(result_id)
        self.change(result, task=tasks.task_of(result.task.name))
        return result


@fails(
    "test_a_task_that_fails_twice_succeeds",
    "test_a_task_that_runs_is_running",
    "test_attempts_end",
    "test_failure",
    "test_the_context",
    "test_workers_have_ids",
)
class NamesNoWorkers(MemoryBackend):
    """Does not say who ran a task."""

    def get_result(self, result_id):
        result = super().get_result(result_id)
        result.worker_ids.clear()
        return result


@fails("test_a_return_value_of_none")
class TakesNoneForAFailure(MemoryBackend):
    """Expects a value."""

    def value(self, returned):
        if returned is None:
            raise LookupError("no value")
        return super().value(returned)


@fails(
    "test_a_result_by_its_id",
    "test_a_result_has_the_task_as_it_was_enqueued",
    "test_a_task_does_not_run_before_its_time",
    "test_aenqueue_returns_a_result",
    "test_an_awaited_result_by_its_id",
    "test_enqueue_returns_a_result",
)
class StartsAsRunning(MemoryBackend):
    """Says of a new task that it runs."""

    def enqueue(self, task, args, kwargs):
        result = super().enqueue(task, args, kwargs)
        self.change(result, status=TaskResultStatus.RUNNING)
        return result


@fails("test_a_task_that_runs_is_running", "test_the_context")
class RunsWhatIsReady(MemoryBackend):
    """Does not mark a task as running in the store."""

    def call(self, result):
        self.change(self.results[result.id], status=TaskResultStatus.READY)
        return super().call(result)


@fails("test_a_task_whose_code_is_gone_fails")
class DiesOfMissingCode(MemoryBackend):
    """Leaves a task that it cannot import where it is."""

    def fail(self, result, error):
        if isinstance(error, AttributeError):
            self.change(result, status=TaskResultStatus.READY)
            result.worker_ids.clear()
            self.results[result.id] = self.results.pop(result.id)
            raise TypeError("no such task") from error
        super().fail(result, error)


@fails("test_an_empty_list_of_queues_takes_each_name")
class NeedsQueues(MemoryBackend):
    """Takes an empty list of queues for no queues."""

    def validate_task(self, task):
        super().validate_task(task)
        if not self.queues:
            raise InvalidTask("there is no queue")


@fails(
    "test_an_exception_with_a_lone_surrogate",
    "test_an_exception_with_a_long_text",
    "test_an_exception_with_a_nul",
)
class StoresTextAsSomeDatabasesDo(MemoryBackend):
    """Cannot keep each text, nor a long one."""

    def fail(self, result, error):
        traceback = "".join(format_exception(error))
        traceback.encode()
        if "\x00" in traceback or len(traceback) > 100_000:
            raise ValueError("unable to store it")
        super().fail(result, error)


@fails("test_an_exception_that_no_path_leads_to", "test_an_exception_without_text")
class AsksExceptionsForTheirText(MemoryBackend):
    """Needs ``str()`` of an exception, and its class by its path."""

    def fail(self, result, error):
        str(error)
        super().fail(result, error)
        _ = result.errors[-1].exception_class


@fails("test_arguments_arrive_unchanged")
class KnowsFloatsAlone(MemoryBackend):
    """Keeps numbers as JavaScript does."""

    def call(self, result):
        args = [float(arg) if type(arg) is int and arg > 2**53 else arg for arg in result.args]
        self.change(result, args=args)
        return super().call(result)


@fails("test_a_later_task_of_a_higher_priority_overtakes", "test_at_most_so_many_tasks_are_run")
class IgnoresTheCount(MemoryBackend):
    """Has a hook that runs all tasks, whatever it is told."""

    def work(self, count=None):
        super().work()


@fails(
    "test_a_task_that_fails_twice_succeeds",
    "test_signals_of_retries",
    "test_the_context",
    "test_the_context_with_keywords",
)
class CountsTheContext(MemoryBackend):
    """Keeps the context among the arguments, where it is not JSON."""

    def call(self, result):
        if result.task.takes_context:
            args, context = list(result.args), TaskContext(task_result=result)
            result.args.insert(0, "context")
            return result.task.call(context, *args, **result.kwargs)
        return super().call(result)


@fails(
    "test_a_naive_time_without_time_zones",
    "test_a_priority_does_not_hasten_a_task",
    "test_a_task_does_not_run_before_its_time",
    "test_a_task_runs_after_its_time",
    "test_a_time_in_another_zone_is_the_same_time",
    "test_run_after_is_kept",
)
class MisreadsTimes(MemoryBackend):
    """Takes each time for one of a zone two hours to the east."""

    def enqueue(self, task, args, kwargs):
        if task.run_after:
            task = task.using(run_after=task.run_after - timedelta(hours=2))
        return super().enqueue(task, args, kwargs)
