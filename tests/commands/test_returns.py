"""``queue_give_back`` and ``queue_run_now``."""

from __future__ import annotations

import json

import pytest
from django.core.management.base import CommandError

import fdbqueue


@pytest.fixture
def mail():
    """A queue of four items: two that a dead worker holds, one leased, and one that waits."""
    queue = fdbqueue.queue("mail")
    queue.push_many(range(3))
    queue.lease_many(2, worker="dead:1", seconds=1_800)
    queue.lease(worker="alive:2", seconds=1_800)
    queue.push("later", delay=600)
    return queue


def test_what_a_worker_holds(call, mail):
    """It is asked for, given back, and counted."""
    with pytest.raises(CommandError, match='Give back what "dead:1" holds of 3 leased items in'):
        call("queue_give_back", "mail", "--worker", "dead:1")
    printed = call("queue_give_back", "mail", "--worker", "dead:1", "--no-input")
    assert printed.out == "Given back: 2 items in 'mail'.\n"
    assert [(item.value, item.attempts) for item in mail] == [(0, 1), (1, 1)]
    printed = call("queue_give_back", "mail", "--worker", "dead:1", "--no-input", "--json")
    assert json.loads(printed.out) == {"queue": "mail", "given_back": 0}


def test_some_or_all_without_an_attempt(call, mail):
    """By ids, then all that is left; nothing is asked if nothing is leased."""
    leased = mail.page(state="leased").items
    call("queue_give_back", "mail", "--id", leased[1].id, "--no-spend", "--no-input")
    assert [(item.value, item.attempts) for item in mail] == [(1, 0)]
    call("queue_give_back", "mail", "--all", "--limit", "1", "--no-input")
    assert mail.counts().leased == 1
    call("queue_give_back", "mail", "--all", "--no-input")
    assert call("queue_give_back", "mail", "--all").out == "Given back: 0 items in 'mail'.\n"


@pytest.mark.parametrize("pattern", ["user-*", "*"])
def test_by_a_pattern(call, mail, pattern):
    """What the worker holds of all queues that fit."""
    user = fdbqueue.queue("user-1")
    user.push("x")
    user.lease(worker="dead:1", seconds=1_800)
    printed = call("queue_give_back", pattern, "--worker", "dead:1", "--no-input", "--json")
    assert json.loads(printed.out)["given_back"] == (1 if pattern == "user-*" else 3)
    assert user.size() == 1


def test_delayed_items_are_made_ready(call, mail):
    """One by its id, or all; of all queues that fit a pattern, too."""
    mail.push("last", delay=900)
    first, last = mail.page(state="delayed").items
    printed = call("queue_run_now", "mail", "--id", last.id, "--no-input", "--json")
    assert json.loads(printed.out) == {"queue": "mail", "made_ready": 1}
    assert [item.id for item in mail] == [last.id]
    assert call("queue_run_now", "*", "--no-input").out == "Made ready: 1 item in '*'.\n"
    assert [item.id for item in mail] == [first.id, last.id]
    assert call("queue_run_now", "mail").out == "Made ready: 0 items in 'mail'.\n"


def test_no_queue_fits(call):
    """Exit code 3, as for a name."""
    assert "There is no queue named 'lost-*'" in call("queue_run_now", "lost-*", code=3)
