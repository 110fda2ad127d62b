"""What is no JSON: the errors that name the argument, or the part of a return value."""

from __future__ import annotations

import datetime
import uuid

import pytest

from fdbqueue.exceptions import InvalidValue
from tests.tasks import jobs, json_jobs
from tests.tasks.stored import stored


@pytest.mark.parametrize(
    ("args", "kwargs", "path"),
    [
        ([1, {"when": datetime.date.max}], {}, "args[1]['when'] is date"),
        ([], {"rows": [[], [uuid.UUID(int=1)]]}, "kwargs['rows'][1][0] is UUID"),
        ([object()], {}, "args[0] is object"),
        ([{"a": {1, 2}}], {}, "args[0]['a'] is set"),
        ([{"x" * 200: object()}], {}, "args[0]['xxx"),
        ([{datetime.date.max: 1}], {}, "args[0] is dict"),
    ],
)
def test_the_error_names_the_argument(configure, args, kwargs, path):
    """Its path, and its type."""
    configure()
    with pytest.raises(TypeError) as caught:
        json_jobs.echo.enqueue(*args, **kwargs)
    assert str(caught.value).startswith(path)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("given", "argument", "name"),
    [
        ([1, {"a": float("nan")}], "args[0][1]['a']", "float"),
        ({"a": [{1: 2}]}, "args[0]['a'][0]", "dict"),
        (["\ud800"], "args[0][0]", "str"),
    ],
    ids=repr,
)
def test_the_queues_own_error_names_the_argument(configure, given, argument, name):
    """What Python writes as JSON, and JSON does not have; one call, or one of many."""
    configure()
    with pytest.raises(InvalidValue) as caught:
        jobs.note.enqueue(given)
    assert (caught.value.context["argument"], caught.value.context["type"]) == (argument, name)
    with pytest.raises(InvalidValue) as caught:
        jobs.note.enqueue_many([([1], {}), ([given], {})])
    context = caught.value.context
    assert (context["index"], context["argument"], context["type"]) == (1, argument, name)


def test_the_error_names_the_part_of_a_return_value(configure, work):
    """The attempt fails with it."""
    configure()
    result = json_jobs.no_value.enqueue()
    work()
    (error,) = stored(result).errors
    assert "TypeError: return value['a'][1]['b'] is object, which is no JSON" in error.traceback


def test_a_value_that_contains_itself(configure):
    """It is refused as ever, and the search for it ends."""
    configure()
    endless = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        jobs.note.enqueue(endless)


def test_bytes_that_are_no_text(configure):
    """JSON has texts alone; the error says which argument they are."""
    configure()
    with pytest.raises(ValueError, match=r"args\[0\]\[0\] is bytes: "):
        json_jobs.echo.enqueue([b"\xff"])
