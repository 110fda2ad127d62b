"""``queue_list`` with ``--rates`` and what it prints of single queues."""

from __future__ import annotations

import datetime
import json

import pytest

import fdbqueue

NAMES = ["blobs", "mail", "quakes", "ranked-blobs", "ranks", "tuples"]


@pytest.fixture
def ranks():
    """A priority queue with five ready items, one leased, one delayed and one dead."""
    queue = fdbqueue.queue("ranks")
    queue.push_many([(number, number % 3) for number in range(8)])
    queue.pop()
    queue.lease(seconds=600)
    queue.bury(queue.peek().id)
    queue.push("later", 1, delay=600)
    return queue


def age_of(queue):
    """Return how many seconds its oldest ready item has been there."""
    return (datetime.datetime.now(datetime.UTC) - queue.oldest()).total_seconds()


def test_json(call, ranks):
    """A line has the counts, the oldest and the rates of a queue."""
    began = age_of(ranks)
    record = json.loads(call("queue_list", "--rates", "ranks", "--json").out)
    assert began <= record.pop("age_seconds") <= age_of(ranks)
    assert record.pop("oldest") == ranks.oldest().isoformat().replace("+00:00", "Z")
    assert 9 / 6 <= record.pop("pushes_a_minute") <= 9 / 5
    assert 1 / 6 - 0.01 <= record.pop("pops_a_minute") <= 1 / 5
    counts = {"ready": 5, "leased": 1, "delayed": 1, "dead": 1}
    expected = {
        "name": "ranks",
        **counts,
        "blocked": [],
        "no_worker": False,
        "paused": None,
        "attention": ["dead"],
    }
    assert record == expected


def test_minutes(call, ranks):
    """--minutes says over how long the rates are."""
    record = json.loads(call("queue_list", "--rates", "ranks", "--minutes=59", "--json").out)
    assert 9 / 60 - 0.01 <= record["pushes_a_minute"] <= 9 / 59 + 0.01
    call("queue_list", "--rates", "ranks", "--minutes=1440", code=2)


def test_the_table(call, ranks):
    """People get a row for each queue, and a dash where nothing is known."""
    heading, *rows = call("queue_list", "--rates").out.splitlines()
    assert heading.split()[:6] == ["NAME", "READY", "LEASED", "DELAYED", "DEAD", "OLDEST"]
    assert [row.split()[0] for row in rows] == NAMES
    assert rows[4].split()[:5] == ["ranks", "5", "1", "1", "1"]
    assert rows[1].split() == ["mail", "0", "0", "0", "0", "-", "0.0", "0.0", "-"]


def test_some_queues(manage, ranks):
    """Those named, each once, in that order; an unknown one is 3."""
    done = manage("queue_list", "--rates", "ranks", "mail", "ranks", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line)["name"] for line in done.stdout.splitlines()] == ["ranks", "mail"]
    assert manage("queue_list", "--rates", "none").returncode == 3


def test_by_reason(call):
    """The dead letters of each reason, the most frequent first."""
    queue = fdbqueue.queue("mail")
    queue.push_many(range(3))
    for item, reason in zip(queue.peek_many(3), ["a\nmore", "b\x1b", "a"], strict=True):
        queue.bury(item.id, reason=reason)
    lines = call("queue_list", "--rates", "mail", "--by-reason").out.splitlines()
    assert [line.split() for line in lines[3:]] == [
        ["NAME", "DEAD", "REASON"],
        ["mail", "2", "a"],
        ["mail", "1", "b\\x1b"],
    ]
    record = json.loads(call("queue_list", "--rates", "mail", "--by-reason", "--json").out)
    assert record["by_reason"] == [{"reason": "a", "count": 2}, {"reason": "b\x1b", "count": 1}]
    assert "by_reason" not in json.loads(call("queue_list", "--rates", "mail", "--json").out)
