"""``queue_work`` of several queues: one worker for all of them."""

from __future__ import annotations

import json
import threading

import pytest
from django.core.management.base import CommandError

import fdbqueue
from fdbqueue.service import Worker
from tests.cases import cases
from tests.commands.test_work import folder, handler, noted
from tests.engines.children import wait_until

__all__ = ["folder"]


@pytest.fixture
def filled():
    """Three queues with items, under names and a pattern."""
    for name, some in {"mail": [1, 2], "user-7": [3], "user-8": [4, 5]}.items():
        fdbqueue.queue(name).push_many(some)


@pytest.mark.parametrize("fair", [[], ["--fair"], ["--no-fair"]], ids=str)
def test_each_item_of_all_queues_is_handled(call, filled, folder, fair):
    """Names and patterns, each queue once."""
    printed = call(
        "queue_work", "--until-empty", "mail", "user-*", "user-8", handler("note"), *fair
    )
    assert printed == ("Handled 5 items from 'mail, user-*, user-8', 0 failed.\n", "")
    assert noted(folder) == [f"{number}-0" for number in range(1, 6)]
    for name in ("mail", "user-7", "user-8"):
        queue = fdbqueue.queue(name)
        assert (queue.size(), queue.counts().leased) == (0, 0)


def test_the_json_names_the_queues(call, filled, folder):
    """As they were given."""
    printed, _ = call(
        "queue_work", "--until-empty", "user-*", handler("note"), "--json", "--limit", "2"
    )
    assert json.loads(printed) == {
        "queues": ["user-*"],
        "handled": 2,
        "failed": 0,
        "lost": 0,
        "dead": 0,
    }


@cases(
    ("arguments", "message"),
    [
        (["mail", "nowhere", handler("note")], "There is no queue named 'nowhere'"),
        (["nowhere-*", handler("note")], "There is no queue named 'nowhere-\\*'"),
        (["!*", handler("note")], "not a pattern"),
    ],
)
def test_what_makes_no_sense_is_refused(call, filled, arguments, message):
    """Nothing is taken."""
    with pytest.raises(CommandError, match=message):
        call("queue_work", "--until-empty", *arguments)
    assert fdbqueue.queue("mail").size() == 2


def test_a_failed_item_is_given_up_in_its_queue(call, filled, folder):
    """The others are acknowledged."""
    with pytest.raises(CommandError, match="3 attempts failed"):
        call("queue_work", "--until-empty", "mail", "user-*", handler("fail_on_odd"))
    delayed = {
        name: [item.value for item in fdbqueue.queue(name).iterate(state="delayed")]
        for name in ("mail", "user-7", "user-8")
    }
    assert delayed == {"mail": [1], "user-7": [3], "user-8": [5]}


def test_a_worker_follows_several_queues(filled):
    """Whichever is pushed to, one that is new too."""
    several = fdbqueue.several(["mail", "user-*"], fair=True)
    done = []
    worker = Worker(several, lambda item: done.append(item.value), threads=3, follow=True)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    wait_until(lambda: worker.handled == 5)
    fdbqueue.queue("user-7").push("later", delay=0.05)
    wait_until(lambda: worker.handled == 6)
    fdbqueue.queue("user-9").push(6)
    wait_until(lambda: worker.handled == 7)
    worker.stop()
    thread.join(60)
    assert not thread.is_alive()
    assert sorted(done, key=str) == [1, 2, 3, 4, 5, 6, "later"]


def test_the_functions_take_from_the_setting(filled):
    """As the methods of several queues do."""
    names = ["user-*", "mail"]
    assert fdbqueue.pop_from(names, fair=False).value == 3
    leased = fdbqueue.lease_from(names, fair=False, seconds=600)
    fdbqueue.several(names).ack(leased)
    assert (leased.queue, leased.value) == ("user-8", 4)
    assert [item.value for item in fdbqueue.several(names, fair=False).lease_many(5)] == [5]
    assert [item.value for item in fdbqueue.several(names).pop_many(5, end="max")] == [2, 1]
    assert fdbqueue.pop_from(names, wait=0.01) is None
