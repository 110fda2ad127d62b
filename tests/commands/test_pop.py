"""``queue_pop``."""

from __future__ import annotations

import datetime
import io
import json
import os
import re
import signal
from itertools import pairwise

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

import fdbqueue
from fdbqueue.service import run
from tests.commands.conftest import EARTHQUAKES, needs_full_device


def left(name):
    return sum(1 for _ in fdbqueue.queue(name))


@pytest.fixture
def earthquakes():
    """All earthquakes, by their magnitude."""
    quakes = [json.loads(line) for line in EARTHQUAKES.read_text().splitlines()]
    fdbqueue.queue("quakes").push_many((quake, quake["magnitude"]) for quake in quakes)
    return quakes


def test_the_highest_first(manage, earthquakes):
    """From the max end come all earthquakes once, Hualian first, and none above the one before."""
    done = manage("queue_pop", "quakes", "--end", "max", "--limit", "5000", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    items = [json.loads(line) for line in done.stdout.splitlines()]
    assert items[0]["priority"] == 6.4
    assert items[0]["value"]["place"] == "22km NNE of Hualian, Taiwan"
    assert all(one["priority"] >= other["priority"] for one, other in pairwise(items))
    assert sorted(item["value"]["id"] for item in items) == sorted(q["id"] for q in earthquakes)
    assert left("quakes") == 0


def test_the_lowest_first_by_default(call, earthquakes):
    """Without options one item comes, from the min end."""
    printed = call("queue_pop", "quakes", "--json")
    assert json.loads(printed.out)["priority"] == min(quake["magnitude"] for quake in earthquakes)
    assert left("quakes") == 1706


def test_json_has_everything(call):
    """A line of JSON holds the item's id, priority, value, time in UTC and attempts."""
    item = fdbqueue.queue("ranks").push({"n": 2**70, "s": "雪\x1b"}, priority=5)
    printed = call("queue_pop", "ranks", "--json")
    record = json.loads(printed.out)
    pushed_at = datetime.datetime.strptime(record.pop("pushed_at"), "%Y-%m-%dT%H:%M:%S.%f%z")
    assert pushed_at == item.pushed_at
    assert record == {"id": item.id, "priority": 5, "value": item.value, "attempts": 0}
    assert printed.out.isascii()
    assert printed.out.count("\n") == 1
    assert printed.err == ""


def test_the_table(call):
    """People get an aligned table, its values whole: they are nowhere else any more."""
    queue = fdbqueue.queue("quakes")
    first, second = queue.push("x" * 100, priority=-0.5), queue.push({"a": 1}, priority=10)
    heading, *rows = call("queue_pop", "quakes", "--limit", "9").out.splitlines()
    assert heading.split() == ["ID", "PRIORITY", "AGE", "FAILED", "VALUE"]
    assert [row.split()[:2] for row in rows] == [[first.id, "-0.5"], [second.id, "10.0"]]
    column = heading.index("VALUE")
    assert rows[0][column:] == '"' + "x" * 100 + '"'
    assert rows[1][column:] == '{"a": 1}'


def test_the_table_of_many_batches(call):
    """One heading stands above all batches."""
    fdbqueue.queue("mail").push_many(range(250))
    heading, *rows = call("queue_pop", "mail", "--limit", "230").out.splitlines()
    assert heading.startswith("ID ")
    assert [row.split()[-1] for row in rows] == [str(n) for n in range(230)]
    assert left("mail") == 20


def test_terminal_escapes_are_harmless(call):
    """No value can send the terminal a control character, or turn its text around."""
    evil = "\x1b]0;owned\x07\x9b2J\r\n\x00\x7f\u202e\u2028"
    for name, value in (("mail", evil), ("mail", {evil: evil}), ("blobs", evil.encode())):
        for option in ("--verbosity=1", "--json"):
            fdbqueue.queue(name).push(value)
            out = call("queue_pop", name, option).out
            assert out.replace("\n", "").isprintable()
            assert re.search(r"\\x1b|\\u001b|G10wO", out)


def test_values_an_encoding_lacks(processes):
    """Where standard output is plain ASCII, what it lacks is shown as escapes."""
    fdbqueue.queue("mail").push("雪")
    done = processes.run("queue_pop", "mail", env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith('"\\u96ea"\n')


def test_an_item_that_cannot_be_decoded(call):
    """It stops the command with 1 and stays; what was printed before is counted."""
    queue = fdbqueue.queue("mail")
    queue.push_many(range(100))
    key = queue.subspace.pack((1000, b"\x00" * 20))
    run(queue.database, lambda tr: tr.set(key, b"\xff"))
    out = io.StringIO()
    with pytest.raises(CommandError, match="Popped 100 items: 100 written, 0 not") as caught:
        call_command("queue_pop", "mail", limit=101, as_json=True, stdout=out)
    assert caught.value.returncode == 1
    assert len(out.getvalue().splitlines()) == 100
    assert left("mail") == 1


def test_a_reader_that_stops(processes, earthquakes):
    """As in ``| head -1``: popping stops at the first failed write, and the loss is reported."""
    process = processes.start("queue_pop", "quakes", "--limit=1707", "--json")
    assert json.loads(process.stdout.readline())
    process.stdout.close()
    done = processes.finish(process)
    assert done.returncode == 1
    numbers = re.findall(r": (\S+) written, (\S+) not", done.stderr)[0]
    written, lost = (int(number.replace(",", "")) for number in numbers)
    assert written >= 1
    assert 0 <= lost <= 100
    assert written + lost == 1707 - left("quakes") < 1707
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("CommandError: The reader of standard output has closed it. ")


def test_a_reader_that_is_gone(processes):
    """Where nobody can read what would be printed, nothing is popped."""
    fdbqueue.queue("mail").push("precious")
    reader, writer = os.pipe()
    os.close(reader)
    done = processes.run("queue_pop", "mail", stdout=writer)
    os.close(writer)
    assert done.returncode == 1
    assert done.stderr.endswith("Nothing was popped.\n")
    assert left("mail") == 1


def test_standard_output_that_is_closed(processes):
    """A process started without a standard output pops nothing."""
    fdbqueue.queue("mail").push("precious")
    done = processes.run("queue_pop", "mail", redirect=">&-")
    assert done.returncode == 1
    assert done.stderr.endswith("Nothing was popped.\n")
    assert left("mail") == 1


@needs_full_device
def test_a_full_disk(processes):
    """Items that were popped and could not be written are counted, and no more are popped."""
    fdbqueue.queue("mail").push_many(range(300))
    with open("/dev/full", "wb") as full:
        done = processes.run("queue_pop", "mail", "--limit=300", "--json", stdout=full)
    assert done.returncode == 1
    assert "Popped 100 items: 0 written, 100 not written." in done.stderr
    assert left("mail") == 200


def test_interrupted(processes, earthquakes):
    """Ctrl-C ends a pop with 130 once all it has popped is written."""
    process = processes.start("queue_pop", "quakes", "--limit=1707", "--json")
    lines = [process.stdout.readline()]
    process.send_signal(signal.SIGINT)  # far more than the pipe holds is still to come
    done = processes.finish(process)
    lines += done.stdout.splitlines()
    assert done.returncode == 130
    assert len([json.loads(line) for line in lines]) == 1707 - left("quakes") < 1707
    assert done.stderr == (
        f"CommandError: Interrupted. Popped {len(lines):,} items: {len(lines):,} written, 0 not "
        "written.\n"
    )


def test_interrupted_while_writing():
    """A second Ctrl-C, which nothing holds back, tells what it cost."""

    class Stuck(io.StringIO):
        def write(self, text):
            if self.getvalue().count("\n") == 3:
                raise KeyboardInterrupt
            return super().write(text)

    fdbqueue.queue("mail").push_many(range(10))
    with pytest.raises(CommandError, match="Popped 8 items: 3 written, 5 not") as caught:
        call_command("queue_pop", "mail", limit=8, as_json=True, stdout=Stuck())
    assert caught.value.returncode == 130
    assert left("mail") == 2
