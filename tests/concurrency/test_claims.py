"""What was taken for a popper that died goes back to where it was."""

from __future__ import annotations

import os

import pytest

from fdbqueue.service import clock as service_clock
from fdbqueue.service import run
from fdbqueue.service.claims import Request, write_request
from fdbqueue.service.keyspace import MetaKeys
from fdbqueue.service.keyspace.meta import CLAIM_NAME_BYTES
from tests.concurrency.census import assert_counted
from tests.concurrency.kinds import STRICT


def ask_and_die(queue, *, lowest=0, highest=0):
    """Ask for items as a process does that then dies; it would have waited for a second."""
    now = service_clock.now_us()
    request = Request(os.urandom(CLAIM_NAME_BYTES), now, now + 1_000_000, (lowest, highest))
    meta = MetaKeys(queue.subspace.key())
    run(queue.database, lambda tr: write_request(tr, meta, request), wrote=lambda _: True)


@pytest.fixture(params=STRICT, ids=str)
def kind(request):
    """Each strict kind of queue."""
    return request.param


@pytest.fixture
def queue(kind, database, subspace, clock):
    """A queue of 6 items of one priority, for which the time stands still."""
    queue = kind.open(database, subspace)
    queue.push_many(kind.pairs([kind.value(text) for text in "123456"], [kind.priorities[0]] * 6))
    return queue


def texts(kind, items):
    """Return the texts of items."""
    return "".join(kind.text(item.value) for item in items)


def test_it_goes_back_to_its_place(kind, queue, clock):
    """Nobody gets it before its time; then it is where it was, and all is counted."""
    ask_and_die(queue, lowest=2, highest=1)
    assert texts(kind, queue.pop_many(1)) == "1"
    assert texts(kind, queue.peek_many(9)) == "45"
    assert queue.size() == 5
    clock.advance(2)
    assert texts(kind, queue.peek_many(9)) == "23456"
    assert texts(kind, queue.pop_many(1, end="max")) == "6"
    assert texts(kind, assert_counted(queue)["ready"]) == "2345"
    assert texts(kind, queue.pop_many(9)) == "2345"
    assert not any(assert_counted(queue).values())


def test_it_goes_back_before_what_was_pushed_since(kind, queue, clock):
    """The place of a push is behind what was taken off the queue and is to come back."""
    ask_and_die(queue, lowest=5)
    assert texts(kind, queue.pop_many(1)) == "1"
    assert queue.peek() is None
    queue.push(kind.value("7"), kind.priorities[0])
    clock.advance(2)
    assert texts(kind, queue.pop_many(9)) == "234567"


def test_a_request_that_ran_out_is_nobodys(kind, queue, clock):
    """Who pops after its time takes nothing for it."""
    ask_and_die(queue, lowest=3)
    clock.advance(2)
    assert texts(kind, queue.pop_many(1)) == "1"
    assert texts(kind, assert_counted(queue)["ready"]) == "23456"
