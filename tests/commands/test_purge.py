"""``queue_purge``."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

import fdbqueue
from fdbqueue.service import Counts
from tests.commands.conftest import needs_full_device


@pytest.fixture
def mail():
    """A FIFO queue with three ready items, and one in each other state."""
    queue = fdbqueue.queue("mail")
    queue.push_many(range(5))
    queue.lease(seconds=600)
    queue.bury(queue.peek().id)
    queue.push("later", delay=600)
    return queue


def test_everything(call, mail):
    """Items in all states go, with the counts and the history."""
    printed = call("queue_purge", "mail", "--no-input")
    assert printed == ("Removed 6 items from 'mail'.\n", "")
    assert mail.counts() == Counts(0, 0, 0, 0)
    assert sum(minute.pushes for minute in mail.history(5)) == 0
    assert mail.pop() is None


@pytest.mark.parametrize("state", ["ready", "leased", "delayed", "dead"])
def test_one_state(call, mail, state):
    """With --state only the items in it go, and the counts are right."""
    before = mail.counts()
    printed = call("queue_purge", "mail", "--state", state, "--no-input", "--json")
    removed = getattr(before, state)
    assert json.loads(printed.out) == {"queue": "mail", "removed": removed}
    assert getattr(mail.counts(), state) == 0
    assert mail.recount() == mail.counts()
    assert sum(vars_of(before)) - sum(vars_of(mail.counts())) == removed
    assert list(mail.iterate(state=state)) == []


def test_one_reason(call, mail):
    """With --reason only the dead letters of it go, and another state is refused."""
    mail.bury(mail.peek().id, reason="TimeoutError: no answer\nTraceback")
    with pytest.raises(CommandError, match="--reason is for dead letters, not for --state ready"):
        call("queue_purge", "mail", "--state", "ready", "--reason", "x", "--no-input")
    printed = call("queue_purge", "mail", "--reason", "TimeoutError: no answer", "--no-input")
    assert printed == ("Removed 1 dead item from 'mail'.\n", "")
    assert [item.reason for item in mail.page(state="dead").items] == ["buried"]
    assert mail.recount() == mail.counts()


def vars_of(counts):
    return [counts.ready, counts.leased, counts.delayed, counts.dead]


@needs_full_device
def test_purged_without_being_able_to_say_so(processes, mail):
    """Where standard output fails, standard error still tells of it."""
    with open("/dev/full", "wb") as full:
        done = processes.run("queue_purge", "mail", "--no-input", stdout=full)
    assert done.returncode == 1
    assert "Removed 6 items from 'mail'." in done.stderr


def test_call_command_takes_options(mail):
    """From Python, options are keyword arguments; without a terminal it does not ask."""
    with pytest.raises(CommandError) as caught:
        call_command("queue_purge", "mail")
    assert caught.value.returncode == 2
    out = io.StringIO()
    call_command("queue_purge", "mail", interactive=False, as_json=True, stdout=out)
    assert json.loads(out.getvalue()) == {"queue": "mail", "removed": 6}
