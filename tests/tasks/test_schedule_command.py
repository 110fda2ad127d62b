"""``tasks_schedule``."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from fdbqueue.tasks.schedules import DueSchedules
from tests.tasks.stored import READY

NOTE = {"task": "tests.tasks.jobs.note", "args": ["x"], "every": 3_600}


def say(*arguments):
    """Run the command, and return what it prints."""
    out = io.StringIO()
    call_command("tasks_schedule", *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def backend(configure):
    """A backend with a schedule."""
    return configure(schedules={"nightly": NOTE})


def test_hold_and_go_on(backend):
    """All processes know; twice is said."""
    assert say("nightly", "--hold") == "'nightly' is held.\n"
    assert json.loads(say("nightly", "--hold", "--json")) == {"schedule": "nightly", "held": False}
    assert DueSchedules(backend, backend.catalog).enqueue_due() == 0
    assert say("nightly", "--go-on") == "'nightly' goes on.\n"
    assert say("nightly", "--go-on") == "'nightly' was not held.\n"


def test_run_now(backend):
    """Its task is enqueued, and named."""
    found = json.loads(say("nightly", "--run-now", "--json"))
    assert backend.get_result(found["id"]).status is READY
    assert "was enqueued" in say("nightly", "--run-now")
    assert backend.queue("default").size() == 2


def test_a_unique_task(configure):
    """The second is there already."""
    configure(schedules={"one": {**NOTE, "task": "tests.tasks.jobs.unique", "args": ["anna"]}})
    assert "was enqueued" in say("one", "--run-now")
    assert say("one", "--run-now").endswith("is there already, with its unique key.\n")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["lost", "--hold"], 1, "has no schedule 'lost': it has nightly."),
        (["nightly"], 2, "Give --run-now, --hold or --go-on."),
        (["nightly", "--hold", "--go-on"], 2, "not allowed"),
    ],
)
def test_what_cannot_be_done(backend, arguments, code, said):
    """It is said, and nothing is changed."""
    with pytest.raises(CommandError, match=said) as caught:
        say(*arguments)
    assert caught.value.returncode == code
