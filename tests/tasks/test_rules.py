"""The backend, with its own worker, keeps the rules of Django's Tasks API."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.test import override_settings
from django.utils import timezone

from fdbqueue.tasks import compat, task
from fdbqueue.tasks.compat import InvalidTask, TaskContext, normalize_json, task_backends
from tests.cases import cases
from tests.tasks import jobs
from tests.tasks.outboxes import database_at
from tests.tasks.stored import FAILED, READY, RUNNING, SUCCESSFUL, stored

_LATER = datetime.timedelta(hours=1)
_FIELDS = (
    *("id", "status", "enqueued_at", "started_at", "finished_at", "last_attempted_at"),
    *("args", "kwargs", "backend", "errors", "worker_ids"),
)
_TASK_FIELDS = ("func", "queue_name", "priority", "run_after", "backend", "takes_context")
_SIGNALS = (compat.task_enqueued, compat.task_started, compat.task_finished)


@pytest.fixture(
    params=[{}, pytest.param({"outbox": True}, marks=pytest.mark.nightly)], ids=["", "outbox"]
)
def backend(request, configure, tmp_path, django_db_blocker):
    """A backend whose tasks are enqueued in FoundationDB, or in a table."""
    with django_db_blocker.unblock(), database_at(str(tmp_path / "orm.sqlite3")):
        yield configure(backoff="tests.tasks.jobs.at_once", max_attempts=3, **request.param)


@pytest.fixture
def told():
    """The signals that are sent: which, by whom, of which task, and with which result."""
    received: list[Any] = []

    def tell(signal, sender, task_result, **_):
        stamp = (task_result.status, task_result.started_at is not None, task_result.is_finished)
        received.append((_SIGNALS.index(signal), sender, task_result.id, *stamp))

    for signal in _SIGNALS:
        signal.connect(tell)
    yield received
    for signal in _SIGNALS:
        signal.disconnect(tell)


class Unprintable(Exception):
    """An exception whose text cannot be made."""

    def __str__(self):
        raise TypeError("no text")


def _local_error() -> Exception:
    class LocalError(Exception):
        """An exception that no path leads to."""

    return LocalError("local")


ODD: dict[str, Any] = {
    "SystemExit": SystemExit(3),
    "GeneratorExit": GeneratorExit(),
    "CancelledError": asyncio.CancelledError(),
    "LocalError": _local_error(),
    "Unprintable": Unprintable(),
    "ValueError": ValueError("a file \udcff, a \x00 b"),
    "LookupError": LookupError("x" * 200_000),
}
VALUES: dict[str, Any] = {
    "tuple": ((1, (2, {"a": (3,)})), [1, [2, {"a": [3]}]]),
    "text": (b"text", "text"),
    "none": (None, None),
    "binary": (b"\xff\xfe", ValueError),
    "object": (object(), TypeError),
    "set": ({1}, TypeError),
}


@task(max_attempts=1)
def raise_oddly(name: str) -> None:
    raise ODD[name]


@task(max_attempts=1)
def fail_with_cause() -> None:
    raise LookupError("the consequence") from KeyError("the cause")


@task
def value_of(name: str) -> Any:
    return VALUES[name][0]


@task
def types(*args: Any) -> list[str]:
    return [type(arg).__name__ for arg in args]


@task(takes_context=True)
def look(context: Any, word: str) -> dict[str, Any]:
    given, found = context.task_result, stored(context.task_result)
    return {
        "word": word,
        "id": given.id,
        "is_context": isinstance(context, TaskContext),
        "said": [[one.attempts, one.is_finished, str(one.status)] for one in (given, found)],
        "has_begun": None not in (given.started_at, found.started_at),
    }


@task(takes_context=True)
def fail_twice(context: Any) -> int:
    if context.attempt < 3:
        raise LookupError(f"attempt {context.attempt}")
    return int(context.attempt)


def _assert_same(found, expected):
    for field in _FIELDS:
        assert getattr(found, field) == getattr(expected, field), field
    for field in _TASK_FIELDS:
        assert getattr(found.task, field) == getattr(expected.task, field), field


@cases("is_awaited", [False, True])
def test_a_new_result(backend, is_awaited):
    """It has the task, its arguments and the state of a new task, whoever asks for it."""
    one = jobs.tell.using(queue_name="other", priority=7)
    enqueue = async_to_sync(one.aenqueue) if is_awaited else one.enqueue
    result = enqueue(1, b=2)
    assert (result.args, result.kwargs, result.backend) == ([1], {"b": 2}, "default")
    assert (result.status, result.errors, result.worker_ids) == (READY, [], [])
    assert (result.task.queue_name, result.task.priority) == ("other", 7)
    assert abs(timezone.now() - result.enqueued_at) < datetime.timedelta(minutes=5)
    for found in (
        *(backend.get_result(result.id), one.get_result(result.id)),
        *(async_to_sync(each.aget_result)(result.id) for each in (backend, one)),
    ):
        _assert_same(found, result)


def test_without_time_zones(backend):
    """The time of the enqueue is naive then, and ``run_after`` may be."""
    with override_settings(USE_TZ=False):
        at = datetime.datetime.now() + _LATER  # noqa: DTZ005  # that is what is accepted
        result = jobs.note.using(run_after=at).enqueue(1)
        assert timezone.is_naive(result.enqueued_at)
        assert stored(result).task.run_after == result.task.run_after == at


def test_arguments_are_normalised(backend, work):
    """To what JSON makes of them, at the call: what the caller does with a list is no matter."""
    names = ["a"]
    exact = ["", "žluťoučký 🐎", 2**53 + 1, -0.5, [[{"a": [None]}]], '\u2028 "quoted" \\']
    kinds = types.enqueue((1,), b"x", {"a": 1}, 1, 1.5, True, None)
    result = jobs.tell.enqueue((1, (2,)), b"text", *exact, names=names, a={"b": (3,)})
    names.append("b")
    expected = [[1, [2]], "text", *exact], {"names": ["a"], "a": {"b": [3]}}
    assert (result.args, result.kwargs) == expected
    work()
    assert stored(kinds).return_value == ["list", "str", "dict", "int", "float", "bool", "NoneType"]
    assert stored(result).return_value == {
        **expected[1],
        "args": expected[0],
        "attempt": 1,
        "id": result.id,
    }


@cases("wrong", [object(), {1, 2}, b"\xff\xfe", ValueError("x"), {"a": [object()]}])
@cases("is_awaited", [False, True])
def test_arguments_that_are_not_json_are_refused(backend, work, told, wrong, is_awaited):
    """The error is the API's own; nothing is enqueued, and nobody is told."""
    with pytest.raises((TypeError, ValueError)) as expected:
        normalize_json(wrong)
    enqueue = async_to_sync(jobs.note.aenqueue) if is_awaited else jobs.note.enqueue
    for args, named in (([wrong], {}), ([], {"value": wrong})):
        with pytest.raises(type(expected.value)):
            enqueue(*args, **named)
    work()
    assert (jobs.done, told) == ([], [])


@cases(
    ("field", "value"),
    [
        ("queue_name", "no-such-queue"),
        *(("priority", wrong) for wrong in (-101, 101, 1.5)),
        ("func", lambda value: value),
        ("takes_context", True),
        ("run_after", datetime.datetime(2200, 1, 1)),  # noqa: DTZ001  # that is what is refused
    ],
)
def test_a_task_that_was_changed_is_refused(backend, told, field, value):
    """Though the same task was sound before; nothing is enqueued."""
    changed = jobs.note.using(queue_name="default")
    changed.enqueue(1)
    told.clear()
    object.__setattr__(changed, field, value)
    for enqueue in (changed.enqueue, async_to_sync(changed.aenqueue)):
        with pytest.raises(InvalidTask):
            enqueue(1)
    assert told == []


def test_a_success(backend, work, told):
    """Its times are in order, its worker is named, and each signal is sent once, by the class."""
    result = jobs.note.enqueue("x")
    work(worker="anna")
    end = stored(result)
    assert (end.status, end.return_value, end.errors) == (SUCCESSFUL, "x", [])
    assert (end.is_finished, end.attempts, end.worker_ids) == (True, 1, ["anna"])
    times = [end.enqueued_at, end.started_at, end.last_attempted_at, end.finished_at]
    assert times == sorted(times)
    assert {timezone.is_aware(one) for one in times} == {settings.USE_TZ}
    result.refresh()
    _assert_same(result, end)
    kind = type(task_backends["default"])
    assert told == [
        (0, kind, result.id, READY, False, False),
        (1, kind, result.id, RUNNING, True, False),
        (2, kind, result.id, SUCCESSFUL, True, True),
    ]


def test_attempts(backend, work, told):
    """Each knows its number, and its error is kept; the first start stays."""
    result = fail_twice.enqueue()
    work()
    end = stored(result)
    assert (end.return_value, end.attempts, len(end.worker_ids)) == (3, 3, 3)
    assert [error.exception_class for error in end.errors] == [LookupError] * 2
    assert ["attempt 1" in end.errors[0].traceback, "attempt 2" in end.errors[1].traceback]
    assert end.started_at < end.last_attempted_at
    assert [signal for signal, *_ in told] == [0, 1, 1, 1, 2]


def test_a_task_looks_at_itself(backend, work):
    """What its context says, and what is read of it while it runs, is the same."""
    result = look.enqueue(word="word")
    work()
    end = stored(result)
    assert (end.args, end.kwargs) == ([], {"word": "word"})
    assert end.return_value == {
        "word": "word",
        "id": result.id,
        "is_context": True,
        "has_begun": True,
        "said": [[1, False, str(RUNNING)]] * 2,
    }


def test_return_values_are_normalised(backend, work):
    """A value that is no JSON fails its task, once."""
    results = {name: value_of.enqueue(name) for name in VALUES}
    work()
    for name, (_, expected) in VALUES.items():
        end = stored(results[name])
        if isinstance(expected, type):
            assert (end.status, end.attempts) == (FAILED, 1), name
            assert issubclass(end.errors[0].exception_class, (expected, TypeError)), name
        else:
            assert (end.status, end.return_value) == (SUCCESSFUL, expected), name


def test_failures(backend, work):
    """Whatever is raised is recorded, with its cause, and the worker goes on."""
    results = {name: raise_oddly.enqueue(name) for name in ODD}
    caused, wrong = fail_with_cause.enqueue(), jobs.note.using().enqueue(1, 2, 3)
    after = jobs.double.enqueue(21)
    work()
    for name, result in results.items():
        end = stored(result)
        assert end.status is FAILED
        assert end.errors[0].exception_class_path.endswith(name)
    assert "xxx" in stored(results["LookupError"]).errors[0].traceback
    for text in ("Traceback (most", "the cause", "direct cause", "the consequence", "in fail_with"):
        assert text in stored(caused).errors[0].traceback
    assert stored(wrong).errors[0].exception_class is TypeError
    assert stored(after).return_value == 42


def test_a_task_for_later(backend, work):
    """It does not run before its time, whatever its priority, and others pass it."""
    at = timezone.now() + _LATER
    elsewhere = at.astimezone(timezone.get_fixed_timezone(-330))
    later = jobs.note.using(run_after=elsewhere, priority=100).enqueue("later")
    jobs.note.using(run_after=timezone.now() - _LATER).enqueue("at once")
    assert later.task.run_after == stored(later).task.run_after == at
    work()
    assert jobs.done == ["at once"]
    assert stored(later).status is READY
