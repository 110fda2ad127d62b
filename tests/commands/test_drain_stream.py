"""``queue_drain`` to standard output: nothing is lost, and each item comes at least once."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess

import pytest

import fdbqueue
from tests.commands.conftest import ROOT

ITEMS = 5_000


@pytest.fixture
def mail():
    """A FIFO queue of the numbers from 0 on, too many for a pipe to hold."""
    queue = fdbqueue.queue("mail")
    queue.push_many({"number": number, "text": "x" * 100} for number in range(ITEMS))
    return queue


def numbers(text):
    return [json.loads(line)["value"]["number"] for line in text.splitlines()]


def done_of(text):
    """Return how many items are done, as the message says."""
    return int(text.rsplit(" items from 'mail'.", 1)[0].rsplit(" ", 1)[1].replace(",", ""))


@pytest.mark.parametrize("arguments", [[], ["--output", "-"], ["--json"]])
def test_to_standard_output(manage, mail, arguments):
    """Without a target, items go to standard output, and nothing else does."""
    done = manage("queue_drain", "mail", *arguments)
    assert (done.returncode, done.stderr) == (0, "Drained 5,000 items from 'mail'.\n")
    assert numbers(done.stdout) == list(range(ITEMS))
    assert mail.size() == 0


def test_silence(manage, mail):
    """With --verbosity 0 there are the items alone."""
    done = manage("queue_drain", "mail", "--verbosity=0", "--limit=3")
    assert (done.returncode, done.stderr) == (0, "")
    assert numbers(done.stdout) == [0, 1, 2]


def test_into_a_pipe_that_head_closes(processes, mail):
    """As in ``| head -3``: it ends with 1, says how many are done, and the rest is in the queue."""
    process = processes.start("queue_drain", "mail", "--batch=100")
    head = subprocess.run(
        ["head", "-3"], stdin=process.stdout, capture_output=True, check=True, cwd=ROOT
    )
    process.stdout.close()
    done = processes.finish(process)
    assert numbers(head.stdout.decode()) == [0, 1, 2]
    assert done.returncode == 1
    assert done.stderr.startswith("CommandError: The reader of standard output has closed it. ")
    left = [item.value["number"] for item in mail]
    assert left == list(range(done_of(done.stderr), ITEMS))
    assert mail.size() == len(left)
    assert all(item.attempts == 0 for item in mail)


def test_following(processes):
    """With --follow it waits for more, prints it as it comes, and ends by Ctrl-C."""
    mail = fdbqueue.queue("mail")
    mail.push({"number": 0})
    process = processes.start("queue_drain", "mail", "--follow")
    for number in range(1, 4):
        assert json.loads(process.stdout.readline())["value"]["number"] == number - 1
        mail.push({"number": number})
    assert json.loads(process.stdout.readline())["value"]["number"] == 3
    process.send_signal(signal.SIGINT)
    done = processes.finish(process)
    assert (done.returncode, done.stdout) == (130, "")
    assert mail.size() == 0


LINE = r"\r[\d,]+ items, [\d,]+ per second(, 5,000 in total, [\d,]+ seconds left)?\x1b\[K"


def test_the_progress_at_a_terminal(processes, mail, tmp_path):
    """A terminal has one line on standard error, which is overwritten, and is gone at the end."""
    controller, terminal = os.openpty()
    process = processes.start(
        "queue_drain", "mail", "--output", str(tmp_path / "file"), "--batch=1", stderr=terminal
    )
    os.close(terminal)
    with process:
        shown = _all_of(controller)
        out = process.stdout.read().decode()
    assert process.returncode == 0
    assert out.startswith("Drained 5,000 items")
    *lines, end = re.split(r"(?<=\x1b\[K)", shown)
    assert lines
    assert all(re.fullmatch(LINE, line) for line in lines[:-1])
    assert (lines[-1], end) == ("\r\x1b[K", "")


def test_no_progress_where_lines_are_typed(processes):
    """It would be drawn over what is typed."""
    controller, terminal = os.openpty()
    process = processes.start("queue_push", "mail", stdin=terminal, stderr=terminal)
    os.write(controller, b"1\n\x04")
    os.close(terminal)
    with process:
        shown = _all_of(controller)
    assert process.returncode == 0
    assert "per second" not in shown


def _all_of(controller):
    """Return all that is written to a terminal until nobody has it open any more."""
    parts = []
    while True:
        try:
            part = os.read(controller, 65_536)
        except OSError:
            break
        parts.append(part)
    os.close(controller)
    return b"".join(parts).decode()


def test_discarding(manage, call):
    """--discard removes items, and asks first."""
    queue = fdbqueue.queue("mail")
    queue.push_many(range(10))
    assert manage("queue_drain", "mail", "--discard").returncode == 2
    assert queue.size() == 10
    printed = call("queue_drain", "mail", "--discard", "--limit=4", "--no-input")
    assert printed.out == "Discarded 4 items from 'mail'.\n"
    assert [item.value for item in queue] == list(range(4, 10))
