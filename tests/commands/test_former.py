"""Names and options of version 1.0: they work as they did, and say what to write."""

from __future__ import annotations

import json

import pytest
from django.core.management.base import CommandError

import fdbqueue
from tests.cases import cases
from tests.commands.test_work import folder, handler, noted

__all__ = ["folder"]


@pytest.fixture
def mail():
    """A FIFO queue of three numbers."""
    queue = fdbqueue.queue("mail")
    queue.push_many(range(3))
    return queue


def note(former, instead):
    return f"{former} is deprecated, and works until version 2.0: write {instead}.\n"


@cases(
    ("former", "instead", "fields"),
    [
        (
            "queue_stats mail --by-priority --minutes=1",
            "queue_list --rates",
            {"queue", "ready", "oldest", "pops_a_minute", "paused", "by_priority"},
        ),
        ("queue_stats user-*", "queue_list --rates", {"queue", "members", "complete"}),
    ],
)
def test_a_command_that_has_another_name(manage, mail, former, instead, fields):
    """Standard output is that of 1.0, for programs too; standard error has the new name."""
    fdbqueue.queue("user-7").push("x")
    done = manage(*former.split(), "--json")
    assert (done.returncode, done.stderr) == (0, note(former.split()[0], instead))
    assert fields <= json.loads(done.stdout).keys()


def test_a_drain_to_another_queue(manage, mail):
    """It is a move that does not ask."""
    done = manage("queue_drain", "mail", "--to=ranks", "--priority=2", "--limit=2", "--json")
    assert done.stderr == note("queue_drain --to", "queue_move NAME TO --no-input")
    assert json.loads(done.stdout) == {"queue": "mail", "moved": 2, "to": "ranks"}
    assert [(item.value, item.priority) for item in fdbqueue.queue("ranks")] == [(0, 2), (1, 2)]
    assert mail.size() == 1


def test_a_drain_to_a_function(manage, mail, folder):
    """It is a worker, with the same exit codes."""
    options = "--concurrency=2", "--retry-delay=90", "--worker=mine", "--no-fair"
    done = manage("queue_drain", "mail", "user-*", handler("fail_on_odd"), *options)
    instead = note("queue_drain --handler", "queue_work NAME --handler PATH")
    assert done.stderr.startswith(instead)
    assert done.stderr.endswith("CommandError: 1 attempt failed.\n")
    assert (done.returncode, noted(folder)) == (1, ["0-0", "1-0", "2-0"])
    (delayed,) = mail.iterate(state="delayed")
    assert [one.worker for one in mail.get(delayed.id).failures] == ["mine"]


def test_a_dry_run(call, mail):
    """It says what would be done, as it did."""
    printed = call("queue_drain", "mail", "--to=user-1", "--dry-run", "--json")
    assert json.loads(printed.out) == {"queue": "mail", "would_drain": 3, "to": "user-1"}
    printed = call("queue_drain", "user-*", "mail", handler("note"), "--dry-run", "--json")
    names = ["user-*", "mail"]
    assert json.loads(printed.out)["queues"] == names
    assert mail.size() == 3


def test_errors_are_those_of_the_new_command(call, mail):
    """With its exit code, from Python as well."""
    call("queue_drain", "mail", "--to", "none", code=3)
    with pytest.raises(CommandError, match="is an option of queue_move") as caught:
        call("queue_drain", "mail", "--priority=3")
    assert caught.value.returncode == 2
