"""Commands that work through many items, stopped by Ctrl-C between two transactions."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

import fdbqueue
from fdbqueue.service.tools.examination import Examiner

ITEMS = 200
DEADLINE_SECONDS = 60


@pytest.fixture
def mail(settings, monkeypatch):
    """A FIFO queue of dead letters, and transactions of two items."""
    queues = {**settings.FDBQUEUE["QUEUES"], "mail": {"kind": "fifo", "max_attempts": 1}}
    settings.FDBQUEUE = {**settings.FDBQUEUE, "QUEUES": queues}
    monkeypatch.setattr("fdbqueue.service.bulk.remove._REMOVED_AT_ONCE", 2)
    monkeypatch.setattr("fdbqueue.service.consume.returns._AT_ONCE", 2)
    queue = fdbqueue.queue("mail")
    queue.push_many(range(ITEMS))
    queue.lease_many(ITEMS, seconds=0)
    Examiner(queue).requeue_expired()
    assert queue.counts().dead == ITEMS
    return queue


@pytest.fixture
def interrupter(mail):
    """Press Ctrl-C as soon as something has been done."""

    def press():
        deadline = time.monotonic() + DEADLINE_SECONDS
        while mail.counts().dead == ITEMS and time.monotonic() < deadline:
            pass
        os.kill(os.getpid(), signal.SIGINT)

    return threading.Thread(target=press, daemon=True)


@pytest.mark.parametrize(
    ("arguments", "done"),
    [(["queue_purge", "mail", "--state=dead"], "removed"), (["queue_redrive", "mail"], "redriven")],
)
def test_interrupted(call, mail, interrupter, arguments, done):
    """It ends with 130 and says how many were done; the others are as they were."""
    interrupter.start()
    message = call(*arguments, "--no-input", code=130)
    interrupter.join()
    number = ITEMS - mail.counts().dead
    assert 0 < number < ITEMS
    assert message == f"Interrupted. {number} items {done}."


def test_some_by_their_ids(call, mail):
    """Those that are named are put back, some at a time, each once, and none that is not dead."""
    ids = [item.id for item in mail.iterate(state="dead")][:7]
    mail.redrive(ids[:3])
    printed = call("queue_redrive", "mail", "--no-input", *(f"--id={one}" for one in ids + ids))
    assert printed.out == "Redrove 4 dead items in 'mail'.\n"
    assert mail.counts().dead == ITEMS - 7
