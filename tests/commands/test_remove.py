"""``queue_remove``."""

from __future__ import annotations

import json

import pytest

import fdbqueue


@pytest.fixture
def ids():
    """The ids of four items: one leased, one dead, two ready."""
    queue = fdbqueue.queue("mail")
    queue.push_many(range(4))
    found = [item.id for item in queue]
    queue.lease()
    queue.bury(found[1])
    return found


def test_in_every_state(call, ids):
    """Leased, dead and ready items are gone for good."""
    printed = call("queue_remove", "mail", *ids[:3], "--no-input")
    assert printed.out == "Removed 3 items in 'mail'.\n"
    assert [item.value for item in fdbqueue.queue("mail")] == [3]
    printed = call("queue_remove", "mail", ids[3], "--no-input", "--json")
    assert json.loads(printed.out) == {"queue": "mail", "removed": 1, "not_found": []}


def test_what_is_gone(call, ids):
    """It is 1, and the others are removed."""
    call("queue_remove", "mail", ids[2], "--no-input")
    assert call("queue_remove", "mail", ids[2], ids[3], "--no-input", code=1) == "1 item not found."
    assert fdbqueue.queue("mail").size() == 0
