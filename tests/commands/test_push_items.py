"""``queue_push`` of what ``queue_drain``, ``queue_pop`` and ``queue_peek`` wrote."""

from __future__ import annotations

import dataclasses
import datetime
import json
import uuid

import fdb.tuple
import pytest
from django.core.management.base import CommandError

import fdbqueue
from fdbqueue.api.outputs import LeasedItemOutput
from fdbqueue.service import CODECS, FifoQueue
from tests import injection
from tests.cases import cases

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


#: What only the tuple layer has, and what JSON has too.
TUPLES = [
    (b"\x00\xff", uuid.UUID(int=7), (None, True, -(2**70))),
    float("-inf"),
    (fdb.tuple.SingleFloat(0.1), fdb.tuple.SingleFloat(float("inf")), -0.0, 1.0, 1),
    "AP8=",
    None,
]


def test_the_tuple_layers_values_come_back():
    """Each is the same after it was JSON text, NaN included."""
    codec = CODECS["tuple"]()
    stamp = b"\x33" + b"0123456789\x00\x07"
    values = [*TUPLES, float("nan"), (fdb.tuple.SingleFloat(float("nan")),), "\x00", b"", (), ((),)]
    for data in [*(fdb.tuple.pack((value,)) for value in values), b"\x33" + b"\xff" * 12, stamp]:
        value = codec.decode(data).value
        text = json.dumps(codec.to_json(value), allow_nan=False)
        again = codec.from_json(json.loads(text))
        assert repr(codec.to_json(again)) == repr(codec.to_json(value))
        assert type(again) is type(value)
        if data[:1] != b"\x33":  # the binding packs versionstamps only with its library
            assert codec.encode(again, 0, 0) == data


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


def fill(queue):
    """Push five items; the first has been tried twice, and another once."""
    values = {"json": VALUES, "tuple": TUPLES}.get(queue.codec.name)
    if values is None:
        values = [json.dumps(value).encode() for value in VALUES]
    if queue.kind == "priority":
        queue.push_many((value, number % 2) for number, value in enumerate(values))
    else:
        queue.push_many(values)
    for end in ("min", "min", "max"):
        (item,) = queue.lease_many(1, end=end)
        queue.nack(item)


def comparable(codec, items):
    """Return facts, with the values as stored: a SingleFloat equals no other."""
    return [(codec.encode(value, 0, 0), *others) for value, *others in items]


@pytest.mark.parametrize("name", ["mail", "ranks", "quakes", "blobs", "ranked-blobs", "tuples"])
@pytest.mark.parametrize("end", ["min", "max"])
def test_there_and_back(call, file, name, end):
    """What a drain wrote comes back as it was, in the order of the lines.

    So do the attempts, with every codec; times come back where the codec keeps them.
    """
    queue = fdbqueue.queue(name)
    fill(queue)
    before = facts(queue)
    assert sorted(attempts for _, _, _, attempts in before) == [0, 0, 0, 1, 2]
    call("queue_drain", name, "--output", file, "--end", end)
    assert queue.size() == 0
    printed = call("queue_push", name, file, "--items")
    assert printed.out == f"Pushed 5 items into {name!r}.\n"
    if end == "max" and queue.kind == "fifo":
        before.reverse()
    if end == "max" and queue.kind == "priority":
        before.sort(key=lambda item: item[1])  # equals come in the order of the lines
        before = [*before[:3][::-1], *before[3:][::-1]]
    assert comparable(queue.codec, facts(queue)) == comparable(queue.codec, before)
    assert [item.attempts for item in queue.peek_many(5)] == [item[3] for item in before]
    if queue.kind == "priority" or end == "min":
        assert queue.oldest() == min((at for _, _, at, _ in before if at), default=None)


@pytest.mark.parametrize("name", ["mail", "ranks", "blobs", "tuples"])
@pytest.mark.parametrize("state", ["leased", "delayed", "dead"])
def test_items_in_other_states_come_back(call, file, name, state):
    """The delayed are hidden until the same time; the leased and the dead are ready.

    Values, priorities, times, attempts and order are as they were, and so is the queue itself.
    """
    queue = fdbqueue.queue(name)
    fill(queue)
    if state == "delayed":
        for item in queue.lease_many(5):
            queue.nack(item, delay=datetime.timedelta(hours=item.attempts + 1))
    elif state == "leased":
        queue.lease_many(5)
    else:
        for item in list(queue):
            queue.bury(item.id, reason="no\nsuch address")
    before = queue.page(state=state).items
    assert len(before) == 5
    lines = call("queue_peek", name, "--state", state, "--limit", "9", "--json").out
    with open(file, "w") as written:
        written.write(lines)
    assert queue.page(state=state).items == before
    queue.clear()
    call("queue_push", name, file, "--items")
    after = queue.page(state="delayed" if state == "delayed" else "ready").items
    assert comparable(queue.codec, facts(after)) == comparable(queue.codec, facts(before))
    if state == "delayed":
        assert [item.until for item in after] == [item.until for item in before]
        assert queue.counts().delayed == 5
    assert sum(dataclasses.astuple(queue.counts())) == 5


def test_a_delay_that_has_passed_is_none(call, ndjson):
    """A delayed item whose time is over is ready at once, with its attempts."""
    past = "2026-11-21T03:12:44Z"
    call("queue_push", "blobs", ndjson(line(value="AA==", state="delayed", until=past)), "--items")
    (item,) = fdbqueue.queue("blobs").pop_many(9)
    assert (item.value, item.attempts) == (b"\x00", 3)


def test_the_attempts_of_a_delayed_item_are_kept_when_it_is_due(call, ndjson):
    """Whether its codec keeps them or not, they are the item's when its time has come."""
    for name, value in (("ranks", "x"), ("ranked-blobs", "AA==")):
        until = f"{datetime.datetime.now(datetime.timezone.utc).year + 9}-01-01T00:00:00.000000Z"
        text = line(value=value, state="delayed", until=until)
        call("queue_push", name, ndjson(text), "--items")
        queue = fdbqueue.queue(name)
        with injection.time_ahead(seconds=10 * 366 * 86_400):
            assert [item.attempts for item in queue.peek_many(9)] == [3]
            leased = queue.lease()
        assert (leased.attempts, leased.priority) == (3, 2)


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
    assert call("queue_push", "ranks", file, *arguments, code=2) == (
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
    assert str(caught.value).endswith(f" {pushed:,} items before that, up to line {pushed:,}.")


def test_items_with_more_fields_are_not_taken_for_values(call, ndjson):
    """Lines that have all fields of an item, and more, are told from values too."""
    for extra in ({"state": "ready"}, {"undecodable": "no", "raw": ""}, {"colour": 1}):
        with pytest.raises(CommandError, match="it is a whole item"):
            call("queue_push", "mail", ndjson(line(**extra)))


def test_items_of_rest_can_be_read_back(call, ndjson):
    """One in a line, with all fields that there are; a time on the second has no fraction there."""
    details = {"size": 9, "state": "leased", "until": "2026-11-21T03:12:44Z", "reason": None}
    details |= {"died_at": None, "worker": "w", "failures": []}
    record = {**LINE, "pushed_at": "2026-11-21T03:12:44Z", **details, "lease": "a token"}
    assert record.keys() == LeasedItemOutput().fields.keys() - {"undecodable"}
    call("queue_push", "ranks", ndjson(json.dumps(record)), "--items")
    moment = datetime.datetime(2026, 11, 21, 3, 12, 44, tzinfo=datetime.timezone.utc)
    assert facts(fdbqueue.queue("ranks")) == [("x", 2, moment, 3)]


def test_values_that_look_like_items(call, ndjson):
    """--values pushes them as they are; values that have some of the fields need no option."""
    call("queue_push", "mail", ndjson(line()), "--values")
    some = {"id": 1, "priority": 2, "value": 3, "attempts": 4}
    call("queue_push", "mail", ndjson(json.dumps(some)))
    assert [item.value for item in fdbqueue.queue("mail")] == [LINE, some]


@cases(
    ("text", "reason"),
    [
        ("5", "it is not an item's line"),
        ("[]", "it is not an item's line"),
        ('{"value": 1}', "it is not an item's line: its field 'id' is missing"),
        (
            line().replace(', "attempts": 3', ""),
            "it is not an item's line: its field 'attempts' is missing",
        ),
        (line(colour="red"), 'its field "colour" is not one of an item\'s'),
        (line(**{"\x1b[2J": 1}), 'its field "\\u001b[2J" is not one of an item\'s'),
        (line(state="lost"), "its state is not one of ready, leased, delayed, dead"),
        (line(state=["ready"]), "its state is not one of"),
        (line(state=None), "its state is not one of"),
        (line(state="delayed"), "its state is delayed, but it has no until"),
        (line(until="tomorrow"), "its until is not a UTC time"),
        (line(state="delayed", until=5), "its until is not a UTC time"),
        (line(pushed_at="9999-11-21T03:12:44.251094Z"), "its pushed_at is after the year 9891"),
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
    message = call("queue_push", "ranks", ndjson(content), "--items", code=1)
    assert message.startswith(f"Line 2: {reason}")
    assert fdbqueue.queue("ranks").size() == 0
    with pytest.raises(CommandError, match="Skipped"):
        call("queue_push", "ranks", ndjson(content), "--items", "--continue")
    assert [item.attempts for item in fdbqueue.queue("ranks")] == [0, 3]
    fdbqueue.queue("ranks").clear()


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
    message = call("queue_push", "ranks", file, "--items", code=1)
    assert message == f"Line 1, field 'priority': {reason}. Pushed 0 items before that."
    call("queue_push", "ranks", file, "--items", "--priority", "-7")
    assert facts(fdbqueue.queue("ranks"))[0][1] == -7


def test_a_fifo_queue_takes_items_of_a_priority_queue(call, ndjson):
    """In the order of their lines, as queue_move does."""
    call("queue_push", "mail", ndjson(line(value=1, priority=9) + line(value=2)), "--items")
    moment = datetime.datetime(2026, 11, 21, 3, 12, 44, 251_094, tzinfo=datetime.timezone.utc)
    assert facts(fdbqueue.queue("mail")) == [(1, None, moment, 3), (2, None, moment, 3)]


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


def test_resumed(manage, call, file):
    """Items of a file that grew go on where they were, each once."""
    mail = fdbqueue.queue("mail")
    mail.push_many(range(10))
    call("queue_drain", "mail", "--output", file)
    assert manage("queue_push", "user-1", file, "--items", "--resume").returncode == 0
    mail.push_many(range(10, 15))
    call("queue_drain", "mail", "--output", file, "--resume")
    done = manage("queue_push", "user-1", file, "--items", "--resume")
    assert done.stderr == "Resuming after line 10: 10 items pushed before.\n"
    assert done.stdout == "Pushed 5 items into 'user-1'.\n"
    assert [item.value for item in fdbqueue.queue("user-1")] == list(range(15))
