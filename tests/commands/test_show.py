"""``queue_show``."""

from __future__ import annotations

import base64
import datetime
import json
import re

import pytest

import fdbqueue
from fdbqueue.service import run
from tests.cases import cases

HOUR = datetime.timedelta(hours=1)


def in_state(queue, state):
    """Return an item that was tried once, in a state."""
    queue.push({"to": "雪"})
    queue.nack(queue.lease())
    item = queue.peek()
    if state == "leased":
        queue.lease(seconds=HOUR, worker="mail1:7")
    elif state == "delayed":
        queue.nack(queue.lease(), delay=HOUR)
    elif state == "dead":
        queue.bury(item.id, reason="no such\x1b[2J address")
    return queue.get(item.id)


def time(moment):
    """Return a time as lines of JSON have it, or None."""
    return moment and moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


@pytest.mark.parametrize("state", ["ready", "leased", "delayed", "dead"])
def test_an_item_in_each_state(call, state):
    """Everything there is to say, as a line that can be read back; the item stays as it is."""
    mail = fdbqueue.queue("mail")
    item = in_state(mail, state)
    assert item.state == state
    assert json.loads(call("queue_show", "mail", item.id, "--json").out) == {
        "id": item.id,
        "priority": None,
        "value": {"to": "雪"},
        "pushed_at": time(item.pushed_at),
        "attempts": 2 if state == "delayed" else 1,
        "state": state,
        "until": time(item.until),
        "reason": item.reason,
        "died_at": time(item.died_at),
        "worker": item.worker,
        "failures": [
            {"attempt": one.attempt, "at": time(one.at), "worker": one.worker, "reason": one.reason}
            for one in item.failures
        ],
        "size": item.size_bytes,
    }
    assert item.failures
    shown = dict(
        line.split("  ", 1) for line in call("queue_show", "mail", item.id).out.split("\n")[:-1]
    )
    assert shown["ITEM ID"].strip() == item.id
    assert shown["VALUE"].strip() == '{"to": "雪"}'
    assert shown["STATE"].strip() == state
    assert [name for name in shown if name.endswith("UNTIL")] == (
        [f"{state.upper()} UNTIL"] if state in {"leased", "delayed"} else []
    )
    assert shown.get("REASON", "").strip() == ("no such\\x1b[2J address" if state == "dead" else "")
    assert ("DIED" in shown) == (state == "dead")
    assert shown.get("WORKER", "").strip() == ("mail1:7" if state == "leased" else "")
    assert re.fullmatch(r" *attempt \d, [-\d]+ [:\d]+ UTC: given up", shown["LAST FAILURES"])
    assert re.fullmatch(r" *[-\d]+ [:\d]+ UTC, \d+\w ago", shown["PUSHED"])
    assert mail.get(item.id) == item


def test_a_lease_that_has_expired(call):
    """The item is still leased until the next pop or lease; that is said."""
    mail = fdbqueue.queue("mail")
    mail.push("x")
    item = mail.lease(seconds=0)
    out = call("queue_show", "mail", item.id).out
    assert " UTC, expired; returns at the next pop or lease\n" in out
    assert mail.get(item.id).state == "leased"


def test_an_item_that_cannot_be_decoded(call):
    """It is shown as such, with its bytes."""
    mail = fdbqueue.queue("mail")
    run(mail.database, lambda tr: tr.set(mail.subspace.pack((1, b"\x00" * 20)), b"\x1b[2J"))
    (item,) = mail
    record = json.loads(call("queue_show", "mail", item.id, "--json").out)
    assert record["value"] is None
    assert base64.b64decode(record["raw"]) == b"\x1b[2J"
    assert "(undecodable: " in call("queue_show", "mail", item.id).out


def test_an_item_that_is_gone(call):
    """1, and the message says why it may be."""
    mail = fdbqueue.queue("mail")
    gone = mail.push("x").id
    mail.pop()
    for arguments in ((), ("--json",)):
        assert call("queue_show", "mail", gone, *arguments, code=1) == (
            f"'mail' has no item '{gone}': it was taken or removed, or is on its way."
        )


@cases("wrong", ["", "x", "é", "FgEV\x1b[2J", "*", "A" * 20_000])
@cases("name", ["mail", "ranks"])
def test_what_is_not_an_id(call, name, wrong):
    """2, with the id, harmless to a terminal; nothing is read."""
    message = call("queue_show", name, wrong, code=2)
    assert message.endswith(f" is not the id of an item of '{name}'.")
    assert "\x1b" not in message
    assert len(message) < 500
