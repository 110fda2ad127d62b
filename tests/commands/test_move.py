"""``queue_move``."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

import fdbqueue
from tests.cases import cases
from tests.commands.conftest import DEADLINE_SECONDS, EARTHQUAKES
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


def test_priorities_are_kept(call):
    """Between priority queues an item keeps its priority, in the other queue's type."""
    ranks = fdbqueue.queue("ranks")
    ranks.push_many([("b", 2), ("a", -1), ("c", 2)])
    call("queue_move", "ranks", "quakes", "--no-input")
    quakes = fdbqueue.queue("quakes")
    assert [(item.value, item.priority) for item in quakes] == [("a", -1.0), ("b", 2.0), ("c", 2.0)]


def test_priorities_are_given(call, mail):
    """What comes from a FIFO queue gets the priority that is asked for."""
    call("queue_move", "mail", "quakes", "--priority", "-1.5", "--limit=2", "--no-input")
    quakes = fdbqueue.queue("quakes")
    assert [(item.value, item.priority) for item in quakes] == [(0, -1.5), (1, -1.5)]


def test_priorities_become_an_order(call):
    """A FIFO queue has no priorities: the items come in the order they had by them."""
    quakes = [json.loads(line) for line in EARTHQUAKES.read_text().splitlines()]
    fdbqueue.queue("quakes").push_many((quake, quake["magnitude"]) for quake in quakes)
    call("queue_move", "quakes", "mail", "--no-input")
    assert values("mail") == sorted(quakes, key=lambda quake: quake["magnitude"])


def test_codecs(call):
    """Values go to another codec where it takes them as they are."""
    fdbqueue.queue("mail").push_many(["a", 2**70, None, [1.5, True]])
    call("queue_move", "mail", "tuples", "--no-input")
    assert values("tuples") == ["a", 2**70, None, (1.5, True)]
    fdbqueue.queue("tuples").push(b"\x00")
    fdbqueue.queue("tuples").pop_many(4)
    call("queue_move", "tuples", "blobs", "--no-input")
    assert values("blobs") == [b"\x00"]


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


def test_an_unknown_target(call, mail):
    """A target that is no queue is 3."""
    with pytest.raises(CommandError) as caught:
        call("queue_move", "mail", "none", "--no-input")
    assert caught.value.returncode == 3


def test_killed_twenty_times(processes):
    """Killed at any moment, each item is in exactly one of the two, and their order is kept."""
    source, target = fdbqueue.queue("quakes"), fdbqueue.queue("mail")
    source.push_many((number, number) for number in range(3_000))
    arguments = "queue_move", "quakes", "mail", "--no-input", "--batch=10"
    kills = 0
    while kills < 20:
        process = processes.start(*arguments)
        with process:
            try:
                process.wait(random.uniform(0.3, 0.6))
            except subprocess.TimeoutExpired:
                process.kill()
                kills += 1
        moved = [item.value for item in target]
        assert moved == list(range(len(moved)))
        assert [item.value for item in source] == list(range(len(moved), 3_000))
        if not source.size():
            target.clear()
            source.push_many((number, number) for number in range(3_000))
    assert (source.size(), target.size()) == (3_000 - len(moved), len(moved))


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


def test_it_asks_first(processes, mail):
    """At a terminal it says how many items there are, and does nothing but on a yes."""
    for answer, code, moved in ((b"no\n", 1, 0), (b"\x04", 1, 0), (b"yes\n", 0, 3_000)):
        controller, terminal = os.openpty()
        process = processes.start("queue_move", "mail", "user-1", stdin=terminal)
        os.write(controller, answer)
        done = processes.finish(process)
        os.close(terminal)
        os.close(controller)
        assert done.returncode == code
        assert done.stderr.startswith("Move 3,000 items from 'mail' to 'user-1'? Type 'yes'")
        assert fdbqueue.queue("user-1").size() == moved


def test_it_does_not_ask_nobody(manage, mail):
    """Without a terminal and --no-input it is refused as wrong usage."""
    done = manage("queue_move", "mail", "user-1", stdin=b"yes\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "use --no-input" in done.stderr
    assert mail.size() == 3_000


def test_call_command_takes_options(mail):
    """From Python, options are keyword arguments."""
    out = io.StringIO()
    call_command(
        "queue_move", "mail", "user-1", limit=2, interactive=False, as_json=True, stdout=out
    )
    assert json.loads(out.getvalue())["moved"] == 2
