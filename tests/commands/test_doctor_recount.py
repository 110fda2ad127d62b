"""``queue_doctor --recount``."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

import fdbqueue
from fdbqueue.service import run
from fdbqueue.service.storage.counts import Counts

NAMES = ["blobs", "mail", "quakes", "ranked-blobs", "ranks", "tuples"]
NOTHING = {"ready": 0, "leased": 0, "delayed": 0, "dead": 0}


@pytest.fixture
def drift():
    """Take items as a foreign program does, which keeps no counts."""

    def drift(name, count):
        queue = fdbqueue.queue(name)
        places = queue.subspace.range()

        def take(tr):
            for row in list(tr.get_range(places.start, places.stop, count)):
                tr.clear(row.key)

        run(queue.database, take)

    return drift


def test_the_table(call, drift):
    """Each queue named has a row: its counts, and what they were where that was wrong."""
    fdbqueue.queue("mail").push_many(range(5))
    fdbqueue.queue("mail").push("later", delay=600)
    fdbqueue.queue("ranks").push_many([("a", 1), ("b", 2)])
    drift("mail", 3)
    printed = call("queue_doctor", "--recount", "ranks", "mail", "ranks")
    assert printed.err == ""
    assert [row.split("  ")[0] for row in printed.out.splitlines()] == ["NAME", "ranks", "mail"]
    heading, ranks, mail = (row.split() for row in printed.out.splitlines())
    assert heading == ["NAME", "READY", "LEASED", "DELAYED", "DEAD"]
    assert ranks == ["ranks", "2", "0", "0", "0"]
    assert mail == ["mail", "5", "->", "2", "0", "1", "0"]
    assert fdbqueue.queue("mail").counts() == Counts(ready=2, leased=0, delayed=1, dead=0)
    assert call("queue_doctor", "--recount", "mail").out.splitlines()[1].split() == [
        "mail",
        *"2010",
    ]


def test_all_queues(call, drift):
    """Without a name all are recounted: those of the setting, and those that fit a pattern."""
    fdbqueue.queue("user-7").push_many("abc")
    drift("user-7", 2)
    records = [
        json.loads(line) for line in call("queue_doctor", "--recount", "--json").out.splitlines()
    ]
    assert [record["queue"] for record in records] == [*NAMES, "user-7"]
    assert [record["before"]["ready"] for record in records] == [0] * len(NAMES) + [3]
    assert [record["after"]["ready"] for record in records] == [0] * len(NAMES) + [1]


def test_an_unknown_queue_among_others(call, drift):
    """Nothing is recounted where one of the names is none."""
    fdbqueue.queue("mail").push_many(range(5))
    drift("mail", 3)
    call("queue_doctor", "--recount", "mail", "none", code=3)
    assert fdbqueue.queue("mail").size() == 5


def test_interrupted(call):
    """Ctrl-C ends it with 130, and it says how many queues are done."""

    class Interrupting(io.StringIO):
        def write(self, text):
            if self.getvalue():
                raise KeyboardInterrupt
            return super().write(text)

    with pytest.raises(CommandError) as caught:
        call_command(
            "queue_doctor", "--recount", "mail", "quakes", as_json=True, stdout=Interrupting()
        )
    assert caught.value.returncode == 130
    assert str(caught.value) == "Interrupted. Recounted and printed 1 of 2 queues."
