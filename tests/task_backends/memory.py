"""A backend in memory that keeps every promise of the kit that needs no other process."""

from __future__ import annotations

import secrets
from copy import deepcopy
from dataclasses import replace
from traceback import format_exception
from typing import ClassVar

from django.utils import timezone

from fdbqueue.tasks.compat import (
    BaseTaskBackend,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    normalize_json,
    task_enqueued,
    task_finished,
    task_started,
)
from tests.task_backends.kit import tasks

MAX_ATTEMPTS = 3


class MemoryBackend(BaseTaskBackend):
    """Keep results in a dictionary, and run them when the test asks for it.

    Its steps are methods of their own, so that a wrong backend differs in one of them.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    #: Of all threads, each of which has a backend object of its own.
    results: ClassVar[dict[str, TaskResult]] = {}

    # The API

    def enqueue(self, task, args, kwargs):
        self.validate(task)
        result = TaskResult(
            task=task,
            id=self.new_id(),
            status=TaskResultStatus.READY,
            enqueued_at=self.now(),
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=list(args),
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        self.store(result)
        self.send(task_enqueued, result)
        return copied(result)

    def get_result(self, result_id):
        return copied(self.find(result_id))

    # Its steps

    def validate(self, task):
        self.validate_task(task)

    def new_id(self):
        return secrets.token_hex(16)

    def now(self):
        return timezone.now()

    def store(self, result):
        self.results[result.id] = result

    def find(self, result_id):
        try:
            return self.results[result_id]
        except KeyError:
            raise TaskResultDoesNotExist(result_id) from None

    def send(self, signal, result):
        signal.send(sender=type(self), task_result=copied(result))

    # Its worker

    def due(self):
        now = timezone.now()
        ready = [one for one in self.results.values() if one.status == TaskResultStatus.READY]
        ready = [one for one in ready if self.is_due(one.task.run_after, now)]
        return sorted(ready, key=self.rank)

    def is_due(self, run_after, now):
        return run_after is None or run_after <= now

    def rank(self, result):
        return -result.task.priority

    def work(self, count=None):
        done = 0
        while (count is None or done < count) and (due := self.due()):
            self.run(due[0])
            done += 1

    def run(self, result):
        self.change(result, status=TaskResultStatus.RUNNING, last_attempted_at=self.now())
        self.change(result, started_at=result.started_at or result.last_attempted_at)
        result.worker_ids.append("worker")
        try:
            getattr(tasks, result.task.func.__name__)  # as one that comes from outside is found
            self.send(task_started, result)
            self.succeed(result, self.value(self.call(result)))
        except BaseException as error:  # noqa: BLE001  # a task may raise anything
            self.fail(result, error)

    def call(self, result):
        context = [TaskContext(task_result=result)] if result.task.takes_context else []
        return result.task.call(*context, *result.args, **result.kwargs)

    def value(self, returned):
        return normalize_json(returned)

    def succeed(self, result, value):
        self.change(result, status=TaskResultStatus.SUCCESSFUL, _return_value=value)
        self.finish(result)

    def finish(self, result):
        self.change(result, finished_at=self.now())
        self.send(task_finished, result)

    def fail(self, result, error):
        path = f"{type(error).__module__}.{type(error).__qualname__}"
        traceback = "".join(format_exception(error))
        result.errors.append(TaskError(exception_class_path=path, traceback=traceback))
        if isinstance(error, Exception) and result.attempts < MAX_ATTEMPTS:
            self.change(result, status=TaskResultStatus.READY)
        else:
            self.change(result, status=TaskResultStatus.FAILED)
            self.finish(result)

    def change(self, result, **fields):
        for name, value in fields.items():
            object.__setattr__(result, name, value)


def copied(result: TaskResult) -> TaskResult:
    """Return a copy that later changes do not show in."""
    lists = {name: list(getattr(result, name)) for name in ("errors", "worker_ids")}
    copy = replace(result, args=deepcopy(result.args), kwargs=deepcopy(result.kwargs), **lists)
    object.__setattr__(copy, "_return_value", result._return_value)
    return copy
