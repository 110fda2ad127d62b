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


def test_what_is_not_there(call, ids):
    """It is 1 and named, and the others are buried."""
    call("queue_remove", "mail", ids[0], "--no-input")
    assert call("queue_bury", "mail", ids[0], ids[1], code=1) == "1 item not found."
    assert [value for value, _ in dead()] == [1]


def test_what_is_in_another_state(manage, ids):
    """It is 1, and the state is said of each; nobody is told that it is not there."""
    queue = fdbqueue.queue("mail")
    queue.bury(ids[3])
    leased = queue.lease(seconds=900, worker="anna")
    delayed = queue.push("later", delay=900)
    (later,) = queue.page(state="delayed").items
    queue.remove(ids[2])
    found = manage("queue_bury", "mail", leased.id, ids[1], ids[2], ids[3], delayed.id, "--json")
    assert found.returncode == 1
    assert json.loads(found.stdout) == {
        "queue": "mail",
        "buried": 1,
        "not_found": [ids[2]],
        "not_ready": [leased.id, ids[3], delayed.id],
    }
    said = [line for line in found.stderr.splitlines() if line.endswith(", not ready.")]
    until = [f"until {one.until:%Y-%m-%d %H:%M:%S} UTC, not ready." for one in (leased, later)]
    assert said == [
        f"Item {leased.id} is leased by anna {until[0]}",
        f"Item {ids[3]} is dead, not ready.",
        f"Item {delayed.id} is delayed {until[1]}",
    ]
    assert found.stderr.endswith("1 item not found, 3 items not ready.\n")


def test_what_is_no_id(call, ids):
    """It is 2, and says how many were buried before it."""
    message = call("queue_bury", "mail", ids[0], "no\x1bid", ids[1], code=2)
    assert "\x1b" not in message
    assert message.endswith("1 item buried.")
    assert [value for value, _ in dead()] == [0]
