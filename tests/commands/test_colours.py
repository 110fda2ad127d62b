"""Colours: at a terminal, unless they are not wanted."""

from __future__ import annotations

import os

import pytest

import fdbqueue
from fdbqueue.service import run

BLOCKED = b"\x1b[31;1mblocked at both ends\x1b[0m"


@pytest.fixture
def blocked():
    """A queue with an item that cannot be decoded."""
    mail = fdbqueue.queue("mail")
    key = mail.subspace.pack((0, b"r"))
    run(mail.database, lambda tr: tr.set(key, b"\xff"))


def at_terminal(processes, *arguments, **environment):
    """Run a command whose output is a terminal, and return what is shown there."""
    controller, terminal = os.openpty()
    env = {**processes.environment, "TERM": "xterm", "NO_COLOR": "", **environment}
    process = processes.start(*arguments, stdout=terminal, env=env)
    os.close(terminal)
    shown = b""
    while part := _read(controller):
        shown += part
    os.close(controller)
    assert processes.finish(process).returncode == 0
    return shown


def _read(controller):
    try:
        return os.read(controller, 4096)
    except OSError:  # the command has ended
        return b""


def test_at_a_terminal(processes, blocked):
    """What needs a look is red."""
    assert BLOCKED in at_terminal(processes, "queue_list")


@pytest.mark.parametrize(
    ("arguments", "environment"), [(["--no-color"], {}), ([], {"NO_COLOR": "1"})]
)
def test_where_they_are_not_wanted(processes, blocked, arguments, environment):
    """Neither the option nor the variable leaves any."""
    shown = at_terminal(processes, "queue_list", *arguments, **environment)
    assert b"blocked at both ends" in shown
    assert b"\x1b" not in shown


def test_where_there_is_no_terminal(processes, blocked):
    """A file has none, unless they are forced, whatever NO_COLOR says."""
    assert "\x1b" not in processes.run("queue_list").stdout
    forced = processes.run("queue_list", "--force-color", env={"NO_COLOR": "1"}).stdout
    assert BLOCKED.decode() in forced
    assert "\x1b" not in processes.run("queue_list", "--force-color", "--json").stdout
