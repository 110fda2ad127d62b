"""``queue_move``."""

from __future__ import annotations

import json
import signal

import pytest
from django.core.management.base import CommandError

import fdbqueue
from tests.cases import cases
from tests.commands.conftest import DEADLINE_SECONDS
from tests.engines.children import wait_until


@pytest.fixture
def mail():
    """A FIFO queue of the numbers from 0 to 2999."""
    queue = fdbqueue.queue("mail")
    queue.push_many(range(3_000))
    return queue


def values(name, **options):
    return [item.value for item in fdbqueue.queue(name).iterate(**options)]


def test_all_in_order(call, mail):
    """All items go over once, in order, with the times of their pushes."""
    pushed_at = [item.pushed_at for item in mail]
    printed = call("queue_move", "mail", "user-1", "--no-input")
    assert printed == ("Moved 3,000 items from 'mail' to 'user-1'.\n", "")
    assert values("user-1") == list(range(3_000))
    assert [item.pushed_at for item in fdbqueue.queue("user-1")] == pushed_at
    assert (mail.size(), fdbqueue.queue("user-1").size()) == (0, 3_000)


def test_options(call, mail):
    """From the max end the order is reversed; --limit and --batch bound it."""
    printed = call(
        "queue_move",
        "mail",
        "user-1",
        "--end=max",
        "--limit=70",
        "--batch=30",
        "--no-input",
        "--json",
    )
    assert json.loads(printed.out) == {"queue": "mail", "moved": 70, "to": "user-1"}
    assert values("user-1") == list(range(2_999, 2_929, -1))
    assert mail.size() == 2_930


def test_priorities_are_given(call, mail):
    """What comes from a FIFO queue gets the priority that is asked for."""
    call("queue_move", "mail", "quakes", "--priority", "-1.5", "--limit=2", "--no-input")
    quakes = fdbqueue.queue("quakes")
    assert [(item.value, item.priority) for item in quakes] == [(0, -1.5), (1, -1.5)]


@cases(
    ("arguments", "reason"),
    [
        (["mail", "mail"], "it is the same queue"),
        (["mail", "ranks"], "the items have no priority, and need one"),
        (["mail", "ranks", "--priority=1.5"], "it is a fraction"),
        (["mail", "user-1", "--priority=1"], "a FIFO queue takes no priority"),
        (["mail", "blobs"], "values are not converted from json to bytes"),
        (["blobs", "mail"], "values are not converted from bytes to json"),
    ],
)
def test_moves_that_make_no_sense(call, mail, arguments, reason):
    """They are refused with the reason, as wrong usage, and nothing is moved."""
    with pytest.raises(CommandError, match=reason) as caught:
        call("queue_move", *arguments, "--no-input")
    assert caught.value.returncode == 2
    assert mail.size() == 3_000


def test_an_item_that_does_not_fit(call):
    """It stops the move with 1 and its id; those before are moved, it stays with the rest."""
    mail = fdbqueue.queue("mail")
    mail.push_many([*range(500), {"no": "tuple"}, 501])
    stuck = mail.page(limit=501).items[-1]
    with pytest.raises(CommandError, match=stuck.id) as caught:
        call("queue_move", "mail", "tuples", "--batch=100", "--no-input")
    assert caught.value.returncode == 1
    assert str(caught.value).endswith("Moved 500 items to 'tuples'.")
    assert values("tuples") == list(range(500))
    assert values("mail") == [{"no": "tuple"}, 501]


def test_interrupted(processes):
    """Ctrl-C ends it with 130 between two transactions, and says how many were moved."""
    mail = fdbqueue.queue("mail")
    mail.push_many(range(20_000))
    process = processes.start("queue_move", "mail", "user-1", "--no-input", "--batch=10")
    wait_until(lambda: process.poll() is None and fdbqueue.queue("user-1").size(), DEADLINE_SECONDS)
    process.send_signal(signal.SIGINT)
    done = processes.finish(process)
    moved = fdbqueue.queue("user-1").size()
    assert done.returncode == 130
    assert done.stderr == f"CommandError: Interrupted. Moved {moved:,} items to 'user-1'.\n"
    assert mail.size() == 20_000 - moved


def test_following(processes):
    """With --follow it moves what comes, until Ctrl-C."""
    source, target = fdbqueue.queue("mail"), fdbqueue.queue("user-1")
    process = processes.start("queue_move", "mail", "user-1", "--no-input", "--follow")
    for number in range(3):
        source.push(number)
        assert target.pop(wait=30).value == number
    process.send_signal(signal.SIGINT)
    assert processes.finish(process).returncode == 130


# The prompt
