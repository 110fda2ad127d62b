"""``queue_list``."""

from __future__ import annotations

import json
import re

import pytest

import fdbqueue
from fdbqueue import conf
from fdbqueue.columns.text import timestamp
from fdbqueue.exceptions import CorruptItem
from fdbqueue.service import run
from fdbqueue.service.tools import presence
from tests.presences import write_rows

NAMES = ["blobs", "mail", "quakes", "ranked-blobs", "ranks", "tuples"]


def test_the_table(call):
    """Each queue has an aligned row: how it is configured, and what it holds."""
    fdbqueue.queue("quakes").push("late", priority=2.5)
    fdbqueue.queue("mail").push("letter")
    fdbqueue.queue("blobs").push(b"")
    printed = call("queue_list")
    assert printed.err == ""
    heading, *rows = printed.out.splitlines()
    counts = ["READY", "LEASED", "DELAYED", "DEAD", "OLDEST"]
    assert heading.split() == ["NAME", "KIND", "CODEC", "PRIORITIES", *counts, "STATUS"]
    cells = {row.split()[0]: row.split()[1:] for row in rows}
    assert sorted(cells) == NAMES
    assert cells["quakes"][:7] == ["priority", "json", "float", "1", "0", "0", "0"]
    assert cells["quakes"][7].endswith("s")
    assert cells["mail"][:4] == ["fifo", "json", "-", "1"]
    assert cells["blobs"] == ["fifo", "bytes", "-", "1", "0", "0", "0", "-", "-"]
    assert cells["ranks"] == ["priority", "json", "int", "0", "0", "0", "0", "-", "-"]
    assert len({row.index(cells[row.split()[0]][0]) for row in rows}) == 1


def test_json(call):
    """Each queue is a JSON object on a line; the head of an empty one is null."""
    item = fdbqueue.queue("ranks").push("head", priority=-3)
    records = {r["name"]: r for r in map(json.loads, call("queue_list", "--json").out.splitlines())}
    assert list(records) == NAMES
    assert records["tuples"] == {
        "name": "tuples",
        "kind": "fifo",
        "codec": "tuple",
        "priority_type": None,
        **dict.fromkeys(("ready", "leased", "delayed", "dead"), 0),
        "oldest": None,
        "age_seconds": None,
        "blocked": [],
        "no_worker": False,
        "paused": None,
        "attention": [],
        "head": None,
    }
    assert (records["ranks"]["ready"], records["ranks"]["oldest"]) == (1, timestamp(item.pushed_at))
    head = records["ranks"]["head"]
    assert head.pop("age_seconds") >= 0
    assert head.pop("pushed_at").endswith("Z")
    assert head == {"id": item.id, "priority": -3}


def test_a_paused_queue(call):
    """The table says for how long it has been paused and why, JSON since when; escaped, both."""
    made = fdbqueue.queue("mail").pause(reason="deploying \x1b[2J 2.4")
    fdbqueue.queue("ranks").pause()
    rows = {row.split()[0]: row for row in call("queue_list").out.splitlines()}
    assert re.search(r"  paused \d+s: deploying \\x1b\[2J 2\.4$", rows["mail"])
    assert re.search(r"  paused \d+s$", rows["ranks"])
    printed = call("queue_list", "--json").out
    assert printed.isascii()
    assert "\x1b" not in printed
    records = {record["name"]: record for record in map(json.loads, printed.splitlines())}
    since = made.since.isoformat(timespec="microseconds").replace("+00:00", "Z")
    assert records["mail"]["paused"] == {"since": since, "reason": made.reason, "family": None}
    assert records["ranks"]["paused"]["reason"] == ""
    assert records["blobs"]["paused"] is None


def test_workers(call):
    """Those that are alive first; what they say of themselves is escaped, and whole in JSON."""
    facts = {"kind": "items", "host": "mail1", "process": 4711, "version": "1.2", "threads": 4}
    counts = {"running": 1, "done": 2_000, "failed": 3, "since_us": 1_700_000_000_000_000}
    ada = {**facts, **counts, "name": "ada", "queues": "mail, user-*"}
    write_rows(conf.catalog().presences, ada, {"name": "b\x1b[2J"})
    write_rows(conf.catalog().presences, {"name": "Abe"}, silent_seconds=60)
    heading, *rows = call("queue_list", "--workers").out.splitlines()
    assert heading.split()[:6] == ["WORKER", "STATE", "SILENT", "KIND", "HOST", "PROCESS"]
    assert [row.split()[:2] for row in rows] == [
        ["ada", "alive"],
        [r"b\x1b[2J", "alive"],
        ["Abe", "lost"],
    ]
    records = [
        json.loads(line) for line in call("queue_list", "--workers", "--json").out.split("\n")[:-1]
    ]
    assert records[0].pop("age_seconds") >= 0
    del ada["since_us"]
    assert records[0] == {**ada, "state": "alive", "since": "2023-11-14T22:13:20.000000Z"}
    assert records[2]["age_seconds"] >= 60
    assert (records[2]["state"], records[2]["since"]) == ("lost", None)


def test_more_workers_than_are_read(call, monkeypatch):
    """A note says so."""
    monkeypatch.setattr(presence, "MAX_ROWS", 1)
    write_rows(conf.catalog().presences, {"name": "ada"})
    assert call("queue_list", "--workers").err == ""
    write_rows(conf.catalog().presences, {"name": "ada"}, {"name": "bob"})
    printed = call("queue_list", "--workers", "--json")
    assert len(printed.out.splitlines()) == 1
    assert printed.err == "There are more workers than were read.\n"


def test_a_head_that_cannot_be_decoded(call):
    """A queue with such a head is listed all the same, and says where it is blocked, and paused."""
    queue = fdbqueue.queue("ranks")
    key = queue.subspace.pack((4, 0, b"\x00" * 20))
    run(queue.database, lambda tr: tr.set(key, b"\xff"))
    row = row_of("ranks", call)
    assert row.split(maxsplit=9)[8:] == ["-", "blocked at both ends"]
    queue.push("good", 5)
    queue.pause()
    assert re.search(r"  blocked at min, paused \d+s$", row_of("ranks", call))
    record = json.loads(call("queue_list", "--json").out.splitlines()[NAMES.index("ranks")])
    assert record["blocked"] == ["min"]
    queue.resume()
    with pytest.raises(CorruptItem):
        queue.pop()


def row_of(name, call):
    """Return the row of a queue in the table."""
    (row,) = [row for row in call("queue_list").out.splitlines() if row.startswith(f"{name} ")]
    return row


def test_no_queues(call, settings):
    """What there is none of is said, but not to programs."""
    settings.FDBQUEUE = {**settings.FDBQUEUE, "QUEUES": {}}
    assert call("queue_list") == ("There are no queues.\n", "")
    assert call("queue_list", "--workers").out.startswith("No worker is alive, ")
    for option in ("--rates", "--workers"):
        assert call("queue_list", option, "--json") == ("", "")
