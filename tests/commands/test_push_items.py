"""``queue_push`` of what ``queue_drain``, ``queue_pop`` and ``queue_peek`` wrote."""

from __future__ import annotations

import base64
import datetime
import json

import pytest
from django.core.management.base import CommandError

import fdbqueue
from fdbqueue.service import FifoQueue

LINE = {
    "id": "AA",
    "priority": 2,
    "value": "x",
    "pushed_at": "2026-11-21T03:12:44.251094Z",
    "attempts": 3,
}
VALUES = [
    {"é": [2**70, -0.1, "\U0001f30b", "\x00\x1b[2J"]},
    None,
    "",
    [[[]], {}],
    {"id": 1, "value": 2},
]


@pytest.fixture
def file(tmp_path):
    """The path of a file that is not there yet."""
    return str(tmp_path / "drained.ndjson")


def facts(queue):
    """Return all of the items of a queue but their ids."""
    return [(item.value, item.priority, item.pushed_at, item.attempts) for item in queue]


def line(**changed):
    """Return a line as a drain writes it, but for some fields."""
    return json.dumps({**LINE, **changed}) + "\n"


@pytest.mark.parametrize("name", ["mail", "ranks", "quakes", "blobs", "ranked-blobs"])
@pytest.mark.parametrize("end", ["min", "max"])
def test_there_and_back(call, file, name, end):
    """What a drain wrote comes back as it was, in the order of the lines.

    Times and attempts come back where the codec keeps them.
    """
    queue = fdbqueue.queue(name)
    values = VALUES
    if queue.codec.name == "bytes":
        values = [json.dumps(value).encode() for value in VALUES]
    if queue.kind == "priority":
        queue.push_many((value, number % 2) for number, value in enumerate(values))
    else:
        queue.push_many(values)
    if queue.codec.keeps_metadata:
        queue.nack(queue.lease())
    before = facts(queue)
    call("queue_drain", name, "--output", file, "--end", end)
    assert queue.size() == 0
    printed = call("queue_push", name, file, "--items")
    assert printed.out == f"Pushed 5 items into {name!r}.\n"
    if end == "max" and queue.kind == "fifo":
        before.reverse()
    if end == "max" and queue.kind == "priority":
        before.sort(key=lambda item: item[1])  # equals come in the order of the lines
        before = [*before[:3][::-1], *before[3:][::-1]]
    assert facts(queue) == before
    if queue.kind == "priority" or end == "min":
        assert queue.oldest() == min((at for _, _, at, _ in before if at), default=None)


@pytest.mark.parametrize("command", ["queue_peek", "queue_pop"])
def test_what_is_printed_can_be_read_back(call, ndjson, command):
    """The lines of --json are those of a drain."""
    mail = fdbqueue.queue("mail")
    mail.push("x")
    (before,) = facts(mail)
    lines = call(command, "mail", "--json").out
    call("queue_push", "user-1", ndjson(lines), "--items")
    assert facts(fdbqueue.queue("user-1")) == [before]


@pytest.mark.parametrize("arguments", [[], ["--continue"], ["--priority-field", "priority"]])
def test_items_are_not_taken_for_values(call, file, arguments):
    """Without an option the file is refused as wrong usage, and what would help is named."""
    ranks = fdbqueue.queue("ranks")
    ranks.push_many([("a", 1), ("b", 2)])
    call("queue_drain", "ranks", "--output", file)
    with pytest.raises(CommandError) as caught:
        call("queue_push", "ranks", file, *arguments)
    assert caught.value.returncode == 2
    assert str(caught.value) == (
        "Line 1: it is a whole item, as queue_drain and --json print it: use --items to push it as "
        "an item, or --values to push the line as a value. Pushed 0 items before that."
    )
    assert ranks.size() == 0


def test_an_item_behind_values(call, ndjson):
    """It is found wherever it is; the message says how many are in the queue by then."""
    with pytest.raises(CommandError, match=r"^Line 6001: it is a whole item") as caught:
        call("queue_push", "mail", ndjson("1\n" * 6_000 + line()))
    assert caught.value.returncode == 2
    pushed = fdbqueue.queue("mail").size()
    assert 0 < pushed < 6_000
    assert str(caught.value).endswith(f"Pushed {pushed:,} items before that.")


def test_items_of_rest_are_not_taken_for_values(call, ndjson):
    """Lines that have all fields of an item, and more, are told from values too."""
    for extra in ({"state": "ready"}, {"undecodable": "no", "raw": ""}):
        with pytest.raises(CommandError, match="it is a whole item"):
            call("queue_push", "mail", ndjson(line(**extra)))
        with pytest.raises(CommandError, match="Line 1: it"):
            call("queue_push", "mail", ndjson(line(**extra)), "--items")


def test_values_that_look_like_items(call, ndjson):
    """--values pushes them as they are; values that have some of the fields need no option."""
    call("queue_push", "mail", ndjson(line()), "--values")
    some = {"id": 1, "priority": 2, "value": 3, "attempts": 4}
    call("queue_push", "mail", ndjson(json.dumps(some)))
    assert [item.value for item in fdbqueue.queue("mail")] == [LINE, some]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("5", "it is not an item's line"),
        ('{"value": 1}', "it is not an item's line"),
        (line(undecodable="no", raw="AA=="), "its value could not be decoded"),
        (line(id=None), "its id is not a string"),
        (line(pushed_at="yesterday"), "its pushed_at is not a UTC time"),
        (line(pushed_at="2026-11-21T03:12:44.251094+"), "its pushed_at is not a UTC time"),
        (line(pushed_at="2026-13-21T03:12:44.251094Z"), "its pushed_at is not a UTC time"),
        (line(pushed_at="1969-11-21T03:12:44.251094Z"), "its pushed_at is not a UTC time"),
        (line(pushed_at=1_700_000_000), "its pushed_at is not a UTC time"),
        (line(attempts=-1), "its attempts is not a whole number"),
        (line(attempts=True), "its attempts is not a whole number"),
        (line(attempts=1.0), "its attempts is not a whole number"),
        (line(attempts=2**31), "its attempts is not a whole number"),
        (line(attempts="3"), "its attempts is not a whole number"),
    ],
)
def test_lines_that_are_no_items(call, ndjson, text, reason):
    """They are bad lines: refused with their number, or skipped by --continue."""
    content = line(attempts=0) + text.rstrip("\n") + "\n" + line()
    with pytest.raises(CommandError) as caught:
        call("queue_push", "ranks", ndjson(content), "--items")
    assert str(caught.value).startswith(f"Line 2: {reason}")
    assert (caught.value.returncode, fdbqueue.queue("ranks").size()) == (1, 0)
    with pytest.raises(CommandError, match="Skipped"):
        call("queue_push", "ranks", ndjson(content), "--items", "--continue")
    assert [item.attempts for item in fdbqueue.queue("ranks")] == [0, 3]


@pytest.mark.parametrize(
    ("priority", "reason"),
    [
        (None, "it is not a number: null"),
        ("Infinity", 'it is not a number: "Infinity"'),
        (1.5, "it is a fraction, and the queue's type is int: 1.5"),
    ],
)
def test_priorities_that_do_not_fit(call, ndjson, priority, reason):
    """The line is told with the field; --priority gives all of them one."""
    file = ndjson(line(priority=priority))
    with pytest.raises(CommandError) as caught:
        call("queue_push", "ranks", file, "--items")
    assert str(caught.value) == f"Line 1, field 'priority': {reason}. Pushed 0 items before that."
    assert caught.value.returncode == 1
    call("queue_push", "ranks", file, "--items", "--priority", "-7")
    assert facts(fdbqueue.queue("ranks"))[0][1] == -7


def test_a_fifo_queue_takes_items_of_a_priority_queue(call, ndjson):
    """In the order of their lines, as queue_move does."""
    call("queue_push", "mail", ndjson(line(value=1, priority=9) + line(value=2)), "--items")
    moment = datetime.datetime(2026, 11, 21, 3, 12, 44, 251_094, tzinfo=datetime.timezone.utc)
    assert facts(fdbqueue.queue("mail")) == [(1, None, moment, 3), (2, None, moment, 3)]


def test_bytes_are_base64_in_items(call, ndjson):
    """A value that is none is a bad line."""
    data = bytes(range(256))
    call("queue_push", "blobs", ndjson(line(value=base64.b64encode(data).decode())), "--items")
    assert fdbqueue.queue("blobs").pop().value == data
    with pytest.raises(CommandError, match=r"^Line 1: it is not base64"):
        call("queue_push", "blobs", ndjson(line(value="*")), "--items")


def test_long_values_come_back(call, file, settings):
    """A queue of long values takes its own drain's lines, however they are escaped."""
    queues = {**settings.FDBQUEUE["QUEUES"], "mail": {"kind": "fifo", "max_value_bytes": 1_000_000}}
    settings.FDBQUEUE = {**settings.FDBQUEUE, "QUEUES": queues}
    mail = fdbqueue.queue("mail")
    assert isinstance(mail, FifoQueue)
    value = "\u00e9" * 490_000
    mail.push(value)
    call("queue_drain", "mail", "--output", file)
    call("queue_push", "mail", file, "--items")
    assert mail.pop().value == value


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("tuples", ["--items"], "has the codec tuple"),
        ("ranks", ["--items", "--priority-field", "a"], "their own priorities"),
        ("mail", ["--items", "--priority", "1"], "FIFO queue"),
        ("ranks", ["--items", "--priority", "1.5"], "--priority: it is a fraction"),
        ("mail", ["--items", "--values"], "not allowed with"),
    ],
)
def test_wrong_usage(call, ndjson, name, arguments, message):
    """Options that do not go together end with 2, and nothing is pushed."""
    with pytest.raises(CommandError, match=message) as caught:
        call("queue_push", name, ndjson(line()), *arguments)
    assert caught.value.returncode in {1, 2}
    assert fdbqueue.queue(name).size() == 0


def test_resumed(processes, call, file):
    """Items of a file that grew go on where they were, each once."""
    mail = fdbqueue.queue("mail")
    mail.push_many(range(10))
    call("queue_drain", "mail", "--output", file)
    assert processes.run("queue_push", "user-1", file, "--items").returncode == 0
    mail.push_many(range(10, 15))
    call("queue_drain", "mail", "--output", file, "--resume")
    done = processes.run("queue_push", "user-1", file, "--items", "--resume")
    assert done.stderr == "Resuming after line 10: 10 items pushed before.\n"
    assert done.stdout == "Pushed 5 items into 'user-1'.\n"
    assert [item.value for item in fdbqueue.queue("user-1")] == list(range(15))
