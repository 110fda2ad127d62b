"""What cannot be undone asks first."""

from __future__ import annotations

import os

import pytest

import fdbqueue

MOVE, PURGE, REDRIVE, REMOVE = "queue_move", "queue_purge", "queue_redrive", "queue_remove"
#: What is asked, and how many items are ready, leased, delayed and dead once it is done.
ASKED = {
    MOVE: (["mail", "user-1"], "Move 3 items from 'mail' to 'user-1'? Type 'yes'", [0, 1, 1, 2]),
    PURGE: (
        ["mail"],
        "Remove 7 items from 'mail' for good (3 ready, 1 leased, 1 delayed, 2 dead)? ",
        [0, 0, 0, 0],
    ),
    REDRIVE: (["mail", "--limit=1"], "Redrive 1 of 2 dead items in 'mail'? ", [4, 1, 1, 1]),
    REMOVE: (["mail", "{id}", "{id}"], "Remove 1 item from 'mail' for good? ", [2, 1, 1, 2]),
}
ASKED |= {
    "queue_give_back": (["mail", "--all"], "Give back 1 leased item in 'mail'? ", [4, 0, 1, 2]),
    "queue_run_now": (["mail"], "Make 1 delayed item in 'mail' ready now? ", [4, 1, 0, 2]),
}
BEFORE = [3, 1, 1, 2]


@pytest.fixture
def mail():
    """A FIFO queue with items in every state."""
    queue = fdbqueue.queue("mail")
    queue.push_many(range(6))
    queue.lease(seconds=600)
    for _ in range(2):
        queue.bury(queue.peek().id)
    queue.push("later", delay=600)
    return queue


def counted(queue):
    """Return how many items are in each state."""
    counts = queue.counts()
    return [counts.ready, counts.leased, counts.delayed, counts.dead]


@pytest.mark.parametrize("command", ASKED)
def test_it_asks_first(processes, mail, command):
    """At a terminal it says how many items there are, and does nothing but on a yes."""
    arguments, question, after = ASKED[command]
    arguments = [one.format(id=mail.peek().id) for one in arguments]
    for answer, code, left in ((b"y\n", 1, BEFORE), (b"\x04", 1, BEFORE), (b"YES\n", 0, after)):
        controller, terminal = os.openpty()
        process = processes.start(command, *arguments, stdin=terminal)
        os.write(controller, answer)
        done = processes.finish(process)
        os.close(terminal)
        os.close(controller)
        assert done.returncode == code
        assert done.stderr.startswith(question)
        assert counted(mail) == left


@pytest.mark.parametrize("command", ASKED)
@pytest.mark.parametrize("redirect", ["", "<&-"])
def test_it_does_not_ask_nobody(processes, mail, command, redirect):
    """Without a terminal and --no-input it is refused as wrong usage."""
    arguments = [one.format(id=mail.peek().id) for one in ASKED[command][0]]
    done = processes.run(command, *arguments, stdin=b"yes\n" * (not redirect), redirect=redirect)
    assert (done.returncode, done.stdout) == (2, "")
    assert "use --no-input" in done.stderr
    assert counted(mail) == BEFORE
