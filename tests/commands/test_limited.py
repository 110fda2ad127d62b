"""Commands that take from a queue with limits: they wait for what these keep back."""

from __future__ import annotations

import json

import pytest
from django.conf import settings
from django.test import override_settings

import fdbqueue


@pytest.fixture
def paced(call):
    """A queue of twelve numbers, of which five can be taken at once and twenty a second."""
    queues = {
        **settings.FDBQUEUE["QUEUES"],
        "paced": {"kind": "fifo", "rate": "20/s", "burst": 5, "max_leased": 2},
        "slow": {"kind": "fifo", "rate": "1/d"},
    }
    with override_settings(FDBQUEUE={**settings.FDBQUEUE, "QUEUES": queues}):
        queue = fdbqueue.queue("paced")
        queue.push_many(range(12))
        yield queue


def test_a_drain_into_a_file(call, paced, tmp_path):
    """All items are written; an empty answer of the queue is not its end."""
    file = tmp_path / "items.ndjson"
    assert call("queue_drain", "paced", f"--output={file}", "--batch=3").err == ""
    assert [json.loads(line)["value"] for line in file.read_text().splitlines()] == [*range(12)]
    assert paced.size() == 0


def test_a_move(call, paced):
    """All items are moved."""
    printed = call("queue_move", "paced", "mail", "--no-input")
    assert printed.out == "Moved 12 items from 'paced' to 'mail'.\n"
    assert [item.value for item in fdbqueue.queue("mail")] == [*range(12)]


@pytest.mark.parametrize("names", [["paced"], ["paced", "mail"]])
def test_a_worker(call, paced, names):
    """Its threads are more than may lease at a time; the function is called with all items."""
    handler = "--handler=tests.commands.handlers.talk"
    printed = call("queue_work", "--until-empty", *names, handler, "--threads=4")
    assert printed.out.startswith("Handled 12 items from")
    assert paced.counts().leased == paced.size() == 0


def test_a_pop_says_why_there_is_nothing(call, paced):
    """The queue is not empty."""
    slow = fdbqueue.queue("slow")
    slow.push_many([1, 2])
    assert call("queue_pop", "slow", "--limit=2").out
    printed = call("queue_pop", "slow")
    assert printed == ("", "The queue 'slow' gives nothing at the moment: its rate is used up.\n")
