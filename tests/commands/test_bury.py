"""``queue_bury``."""

from __future__ import annotations

import json

import pytest

import fdbqueue


@pytest.fixture
def ids():
    """The ids of four ready items."""
    queue = fdbqueue.queue("mail")
    queue.push_many(range(4))
    return [item.id for item in queue]


def dead():
    """Return the values and the reasons of the dead letters."""
    return [(item.value, item.reason) for item in fdbqueue.queue("mail").page(state="dead").items]


def test_some(call, ids):
    """Each with the reason, once however often it is named."""
    printed = call("queue_bury", "mail", ids[2], ids[0], ids[2], "--reason", "not ours")
    assert printed.out == "Buried 2 items in 'mail'.\n"
    assert dead() == [(0, "not ours"), (2, "not ours")]
    printed = call("queue_bury", "mail", ids[1], "--json")
    assert json.loads(printed.out) == {"queue": "mail", "buried": 1, "not_found": []}
    assert dead()[1] == (1, "buried")


def test_what_is_not_ready(call, ids):
    """It is 1 and named, and the others are buried."""
    call("queue_bury", "mail", ids[0])
    assert call("queue_bury", "mail", ids[0], ids[1], code=1) == "1 item not found."
    assert [value for value, _ in dead()] == [0, 1]


def test_what_is_no_id(call, ids):
    """It is 2, and says how many were buried before it."""
    message = call("queue_bury", "mail", ids[0], "no\x1bid", ids[1], code=2)
    assert "\x1b" not in message
    assert message.endswith("1 item buried.")
    assert [value for value, _ in dead()] == [0]
