"""Commands on an engine that goes away while they are at work."""

from __future__ import annotations

import fcntl

import pytest

import fdbqueue
from fdbqueue import conf
from tests.commands.test_exit_codes import CALLS, VALUES

#: The last one finds nothing to change.
READING = {"queue_peek", "queue_show", "queue_list", "queue_resume"}
WRITING = [command for command in CALLS if command[0] not in READING]


@pytest.fixture
def away(tmp_path, settings):
    """Keep every commit of the embedded engine waiting; what is read is there."""
    settings.FDBQUEUE = {
        **settings.FDBQUEUE,
        "ENGINE": "fdbqueue.engines.embedded",
        "OPTIONS": {"path": str(tmp_path / "away.sqlite3"), "durability": "normal"},
    }
    fdbqueue.queue("mail").push_many([1, 2, 3, 4])
    fdbqueue.queue("mail").bury(fdbqueue.queue("mail").peek().id)
    fdbqueue.queue("mail").lease(worker="dead:1", seconds=3_600)
    fdbqueue.queue("mail").push(5, delay=3_600)
    (turn,) = tmp_path.glob("away.sqlite3*/turn")
    with turn.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    assert fdbqueue.queue("mail").counts().ready == 2
    conf.database().close()


@pytest.mark.parametrize("command", WRITING, ids=lambda command: command[0])
def test_it_ends_in_time(call, away, ndjson, command):
    """With 4, and it says that nothing came of it, or that nobody knows."""
    if command[0] == "queue_push":
        command = [*command, ndjson("1\n")]
    if command[0] in {"queue_bury", "queue_remove"}:
        item_id = fdbqueue.queue("mail").peek().id
        command = [item_id if argument == VALUES["ids"] else argument for argument in command]
    message = call(*command, "--engine-timeout=0.2", code=4)
    known = "did not answer within --engine-timeout" in message
    assert known or "may or may not have taken effect" in message


def test_a_worker_ends_in_time(call, away):
    """A worker does, too, for who started it to start it again."""
    call("queue_work", "mail", "--handler=tests.commands.handlers.note",
         "--engine-timeout=0.2", code=4)  # fmt: skip


def test_what_is_read_needs_nobody(call, away):
    """Reading goes on while commits wait."""
    assert call("queue_peek", "mail", "--engine-timeout=60").out
