"""What was taken for a popper that died goes back to where it was."""

from __future__ import annotations

import pytest

from tests.concurrency.census import assert_counted
from tests.concurrency.kinds import STRICT
from tests.concurrency.requests import ask_and_die, let_expire

__all__ = ["ask_and_die", "let_expire"]


@pytest.fixture(params=STRICT, ids=str)
def kind(request):
    """Each strict kind of queue."""
    return request.param


@pytest.fixture
def queue(kind, database, subspace):
    """A queue of 6 items of one priority."""
    queue = kind.open(database, subspace)
    queue.push_many(kind.pairs([kind.value(text) for text in "123456"], [kind.priorities[0]] * 6))
    return queue


def texts(kind, items):
    """Return the texts of items."""
    return "".join(kind.text(item.value) for item in items)


def test_it_goes_back_to_its_place(kind, queue, ask_and_die, let_expire):
    """No popper gets it before its time; then it is where it was, and all is counted."""
    ask_and_die(queue, lowest=2)
    assert texts(kind, queue.pop_many(1)) == "1"
    assert texts(kind, queue.peek_many(9)) == "456"
    assert queue.size() == 5
    let_expire(queue)
    assert texts(kind, queue.peek_many(9)) == "23456"
    assert texts(kind, queue.pop_many(1, end="max")) == "6"
    assert texts(kind, assert_counted(queue)["ready"]) == "2345"
    assert texts(kind, queue.pop_many(9)) == "2345"
    assert not any(assert_counted(queue).values())


def test_it_goes_back_before_what_was_pushed_since(kind, queue, ask_and_die, let_expire):
    """The place of a push is behind what was taken off the queue and is to come back."""
    ask_and_die(queue, lowest=5)
    assert texts(kind, queue.pop_many(1)) == "1"
    assert queue.peek() is None
    queue.push(kind.value("7"), kind.priorities[0])
    let_expire(queue)
    assert texts(kind, queue.pop_many(9)) == "234567"


def test_an_expired_request_gets_nothing(kind, queue, ask_and_die, let_expire):
    """A pop after its time takes nothing for it."""
    ask_and_die(queue, lowest=3)
    let_expire(queue)
    assert texts(kind, queue.pop_many(1)) == "1"
    assert texts(kind, assert_counted(queue)["ready"]) == "23456"
