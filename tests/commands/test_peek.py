"""``queue_peek``."""

from __future__ import annotations

import base64
import json

import pytest
from django.core.management.base import CommandError

import fdbqueue
from fdbqueue.columns.items import DETAILS
from fdbqueue.service import run


def test_it_shows_what_pop_would_take(call):
    """Peek prints what pop prints, from either end, and leaves the items."""
    fdbqueue.queue("ranks").push_many((n, n % 7) for n in range(1200))
    for end in ("min", "max"):
        options = ("ranks", "--end", end, "--limit", "1100", "--json")
        peeked = call("queue_peek", *options)
        assert call("queue_peek", *options) == peeked
        assert call("queue_pop", *options) == peeked
        fdbqueue.queue("ranks").clear()
        fdbqueue.queue("ranks").push_many((n, n % 7) for n in range(1200))


@pytest.mark.parametrize("command", ["queue_peek", "queue_pop"])
def test_an_empty_queue(call, command):
    """Empty is no error: a note for people, and nothing at all with --json or without notes."""
    assert call(command, "mail") == ("", "The queue 'mail' is empty.\n")
    assert call(command, "mail", "--json") == ("", "")
    assert call(command, "mail", "--verbosity", "0") == ("", "")


def test_an_item_that_cannot_be_decoded(call):
    """It is shown as such, with its bytes, so that it can be found."""
    queue = fdbqueue.queue("mail")
    key = queue.subspace.pack((1, b"\x00" * 20))
    run(queue.database, lambda tr: tr.set(key, b"\x1b[2J"))
    record = json.loads(call("queue_peek", "mail", "--json").out)
    assert record["value"] is None
    assert record["undecodable"]
    assert base64.b64decode(record["raw"]) == b"\x1b[2J"
    assert "(undecodable: " in call("queue_peek", "mail").out


@pytest.mark.parametrize("state", ["ready", "leased", "delayed", "dead"])
@pytest.mark.parametrize("end", ["min", "max"])
def test_items_in_a_state(call, state, end):
    """Those in the state and no others, from either end, more than a page; they stay there."""
    ranks = fdbqueue.queue("ranks")
    for each in ("leased", "dead", "delayed", "ready"):
        ranks.push_many((f"{each} {n}", n % 7) for n in range(600 if each == state else 3))
        if each == "leased":
            ranks.lease_many(600)
        elif each == "delayed":
            ranks.nack_many(ranks.lease_many(600), delay=60)
        elif each == "dead":
            for item in list(ranks):
                ranks.bury(item.id, reason="no\x1b such address")
    options = ("queue_peek", "ranks", "--state", state, "--end", end, "--limit", "1000")
    records = [json.loads(line) for line in call(*options, "--json").out.splitlines()]
    expected = list(ranks.iterate(state=state, end=end))
    assert len(expected) == 600
    assert [record["value"] for record in records] == [item.value for item in expected]
    details = set() if state == "ready" else {column.name for column in DETAILS}
    assert records[0].keys() == {"id", "priority", "value", "pushed_at", "attempts"} | details
    assert {record.get("state", "ready") for record in records} == {state}
    heading, first = call(*options[:-1], "1").out.splitlines()
    columns = {"leased": "ENDS", "delayed": "ENDS", "dead": "REASON"}
    for column in ("ENDS", "REASON"):
        assert (column in heading) == (columns.get(state) == column)
    assert ("no\\x1b such address" in first) == (state == "dead")
    assert list(ranks.iterate(state=state, end=end)) == expected


def test_a_state_without_items(call):
    """A note for people, and nothing with --json."""
    fdbqueue.queue("mail").push("x")
    printed = call("queue_peek", "mail", "--state", "dead")
    assert printed == ("", "The queue 'mail' has no dead items.\n")
    assert call("queue_peek", "mail", "--state", "delayed", "--json") == ("", "")


def test_dead_letters_by_when_they_died(call):
    """With --end max the newest failure first, also beyond one page; ready items have no moment."""
    queue = fdbqueue.queue("mail")
    queue.push_many(range(4))
    ids = [item.id for item in queue]
    died = ids[2:] + ids[:2]
    for item_id in died:
        queue.bury(item_id)
    options = ("mail", "--state", "dead", "--order", "time", "--limit", "9", "--json")
    found = [json.loads(line)["id"] for line in call("queue_peek", *options).out.splitlines()]
    assert found == died
    lines = call("queue_peek", *options, "--end", "max").out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == died[::-1]
    with pytest.raises(CommandError, match="--order time needs --state"):
        call("queue_peek", "mail", "--order", "time")


def test_what_a_worker_has_leased(call):
    """Items of others are passed, also beyond one page; only leased items have a worker."""
    queue = fdbqueue.queue("mail")
    queue.push_many(range(8))
    for number in range(8):
        queue.lease(seconds=60, worker="ada" if number % 2 else "bob")
    options = ("mail", "--state", "leased", "--worker", "ada", "--json")
    lines = call("queue_peek", *options, "--limit", "3").out.splitlines()
    assert [json.loads(line)["value"] for line in lines] == [1, 3, 5]
    assert len(call("queue_peek", *options, "--limit", "9").out.splitlines()) == 4
    printed = call("queue_peek", "mail", "--state", "leased", "--worker", "ad")
    assert printed == ("", "The queue 'mail' has no leased items of this worker.\n")
    with pytest.raises(CommandError, match="--worker needs --state leased"):
        call("queue_peek", "mail", "--worker", "ada")
