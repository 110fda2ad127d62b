"""``queue_push --resume`` and ``--continue``: no line twice, and no stop at a bad one."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

import fdbqueue
from fdbqueue.service import FifoQueue
from fdbqueue.service.tools.keyed_push import KEPT_SECONDS, KeyedPush, SourceMark
from tests.faults.faulty import AFTER, Fault, Faulty
from tests.injection import time_ahead

LINES = 12_000


def values(name="mail"):
    return [item.value for item in fdbqueue.queue(name)]


@pytest.fixture
def file(tmp_path):
    """A file of numbers, a line each, and a blank line after each tenth."""
    file = tmp_path / "numbers.ndjson"
    file.write_text("".join(f"{n}\n" + "\n" * (n % 10 == 9) for n in range(LINES)))
    return file


def spoil(file, number):
    """Make a line bad, so that a push stops there; return the file as it was."""
    content = file.read_text()
    file.write_text(content.replace(f"\n{number}\n", "\noops\n"))
    return content


# Resuming


def test_killed_and_resumed(processes, manage, file):
    """Killed at any moment, again and again, no line is pushed twice and none is left out."""
    content = "".join(f"{n}\n" for n in range(60_000))
    file.write_text(content)
    killed = 0
    while killed < 10:
        process = processes.start("queue_push", "mail", str(file), "--resume")
        with process:
            try:
                process.wait(random.uniform(0.3, 0.7))
            except subprocess.TimeoutExpired:
                process.kill()
                killed += 1
        pushed = values()
        assert pushed == list(range(len(pushed)))
        if process.returncode == 0:
            break
    assert manage("queue_push", "mail", str(file), "--resume").returncode == 0
    assert values() == list(range(60_000))
    assert killed


def test_resumed_when_it_was_complete(call, file):
    """A push that had come to its end, and perhaps could not say so, pushes nothing more."""
    call("queue_push", "mail", str(file), "--resume")
    printed = call("queue_push", "mail", str(file), "--resume", "--json")
    assert json.loads(printed.out) == {"queue": "mail", "pushed": 0}
    assert len(values()) == LINES


def test_a_file_by_another_path(call, ndjson, tmp_path, monkeypatch):
    """A push goes on from wherever its file is named, and however."""
    file = Path(ndjson("1\n2\n"))
    call("queue_push", "mail", str(file), "--resume")
    monkeypatch.chdir(file.parent)
    link = tmp_path / "link"
    link.symlink_to(file)
    for path in (file.name, str(link)):
        printed = call("queue_push", "mail", path, "--resume", "--json")
        assert json.loads(printed.out) == {"queue": "mail", "pushed": 0}
    assert values() == [1, 2]


def test_lines_that_were_added(call, file):
    """A file that grew by whole lines goes on with these."""
    call("queue_push", "mail", str(file), "--resume")
    with file.open("a") as stream:
        stream.write("12000\n")
    call("queue_push", "mail", str(file), "--resume")
    assert values() == list(range(LINES + 1))


@pytest.mark.nightly
@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.replace("17\n", "71\n", 1),
        lambda content: content[:100],
        lambda content: "0\n" + content,
        lambda content: "",
    ],
)
def test_a_file_that_changed(call, file, change):
    """What is not what was pushed is refused, and nothing of it is pushed."""
    call("queue_push", "mail", str(file), "--resume")
    file.write_text(change(file.read_text()))
    with pytest.raises(CommandError, match="does not begin with the lines pushed before") as caught:
        call("queue_push", "mail", str(file), "--resume")
    assert caught.value.returncode == 1
    assert len(values()) == LINES


def test_a_last_line_that_grew(call, ndjson):
    """A last line that was pushed without its end, and has got one, is another line."""
    file = ndjson("1\n2")
    call("queue_push", "mail", file, "--resume")
    ndjson("1\n23\n")
    with pytest.raises(CommandError, match="does not begin with the lines pushed before"):
        call("queue_push", "mail", file, "--resume")
    ndjson("1\n2")
    assert call("queue_push", "mail", file, "--resume").out == "Pushed 0 items into 'mail'.\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_last_line_that_has_got_its_end(call, ndjson, end):
    """A last line that was pushed without its end is the same with it; those behind it are new."""
    file = ndjson("1\n2")
    call("queue_push", "mail", file, "--resume")
    ndjson(f"1\n2{end}3\n4")
    printed = call("queue_push", "mail", file, "--resume")
    assert printed.out == "Pushed 2 items into 'mail'.\n"
    ndjson(f"1\n2{end}3\n4\n5\n")
    call("queue_push", "mail", file, "--resume")
    assert values() == [1, 2, 3, 4, 5]


def test_a_change_is_told_once(call, ndjson):
    """The message says once that nothing was pushed."""
    file = ndjson("1\n2\n")
    call("queue_push", "mail", file, "--resume")
    ndjson("1\n3\n")
    with pytest.raises(CommandError) as caught:
        call("queue_push", "mail", file, "--resume")
    assert str(caught.value).count("ushed") == 2  # what was pushed of it; nothing was pushed


def test_without_resume_it_begins_again(call, ndjson):
    """Only --resume looks at what was pushed before, with --resume, into the same queue."""
    file = ndjson("1\n2\n")
    call("queue_push", "mail", file, "--resume")
    call("queue_push", "mail", file)
    assert values() == [1, 2, 1, 2]
    call("queue_push", "user-1", file, "--resume")
    assert values("user-1") == [1, 2]
    call("queue_push", "user-1", file, "--resume")
    assert values("user-1") == [1, 2]


def test_a_line_that_stops_it(call, file):
    """The error says up to which line all are pushed, the next push after which line it goes on."""
    content = spoil(file, 8_000)
    with pytest.raises(CommandError) as caught:
        call("queue_push", "mail", str(file), "--resume")
    pushed = len(values())
    lines = pushed + (pushed - 1) // 10  # there are blank lines
    assert 0 < pushed < 8_000
    assert f"Pushed {pushed:,} items before that, up to line {lines:,}." in str(caught.value)
    file.write_text(content)
    printed = call("queue_push", "mail", str(file), "--resume")
    assert printed.err == f"Resuming after line {lines:,}: {pushed:,} items pushed before.\n"
    assert values() == list(range(LINES))


@pytest.mark.parametrize("early", [True, False])
def test_how_long_it_is_known(call, ndjson, early):
    """What was pushed is known for a week; after that the file is a new one."""
    file = ndjson("1\n2\n")
    call("queue_push", "mail", file, "--resume")
    with time_ahead(KEPT_SECONDS + (-600 if early else 600)):
        call("queue_push", "mail", file, "--resume")
    assert values() == [1, 2] * (1 if early else 2)


def test_standard_input(manage):
    """Standard input goes on under the name that both pushes are given."""
    arguments = "queue_push", "mail", "--job", "nightly", "--resume"
    first = manage(*arguments, stdin=b"1\n2\n")
    assert first.returncode == 0
    second = manage(*arguments, stdin=b"1\n2\n3\n")
    assert second.stdout == "Pushed 1 item into 'mail'.\n"
    assert values() == [1, 2, 3]
    other = manage(*arguments, stdin=b"2\n3\n4\n5\n")
    assert (other.returncode, other.stdout) == (1, "")
    done = manage("queue_push", "mail", "--resume", stdin=b"1\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert values() == [1, 2, 3]


def test_two_at_once(file):
    """Of two processes that push the same source, the one that is behind stops."""
    queue = fdbqueue.queue("mail")
    first, second = KeyedPush(queue, "x"), KeyedPush(queue, "x")
    entries = [queue.parts.pusher.encoder.entry(n) for n in range(3)]
    marks = [
        (entry, lambda lines=number: SourceMark(0, lines, b"", lines))
        for number, entry in enumerate(entries, 1)
    ]
    assert second.push_all(marks[:1]) == 1
    with pytest.raises(fdbqueue.FdbQueueError, match="Another call was made under this"):
        first.push_all(marks[1:])
    assert second.push_all(marks[1:]) == 2
    assert values() == [0, 1, 2]


@pytest.mark.parametrize("seed", range(5))
def test_commits_whose_outcome_is_not_known(engine_error, seed):
    """A push that stops by them, wherever, pushes each item once if it is repeated."""
    queue = fdbqueue.queue("mail")
    faults = [Fault(1031, "after"), *AFTER]
    faulty = Faulty(queue.database, engine_error, seed=seed, rate=0.3, faults=faults)
    encoder = queue.parts.pusher.encoder

    def rest(begun):
        for n in range(begun.lines, 8):
            yield encoder.entry(n), lambda lines=n + 1: SourceMark(0, lines, b"", lines)
            yield None  # each is a portion

    while True:
        try:
            push = KeyedPush(FifoQueue(faulty, queue.subspace), "x")
            push.push_all(rest(push.reached))
        except (fdbqueue.FdbQueueError, engine_error):
            continue
        break
    assert faulty.happened
    assert values() == list(range(8))


# Bad lines


BAD = '1\noops\n2\n{"a":\n3\n' + '"' + "x" * 100_001 + '"\n' + "9" * 1_000_100 + "\n4\n"


def test_bad_lines_are_skipped(call, ndjson):
    """--continue pushes the others, tells of each, counts them, and ends with 1."""
    printed = []
    with pytest.raises(CommandError, match="Skipped 4 bad lines") as caught:
        call_command(
            "queue_push",
            "mail",
            ndjson(BAD),
            continues=True,
            stderr=_Lines(printed),
            stdout=_Lines([]),
        )
    assert caught.value.returncode == 1
    assert values() == [1, 2, 3, 4]
    assert [line.split(":")[0] for line in printed] == ["Line 2", "Line 4", "Line 6", "Line 7"]
    assert printed[3] == "Line 7: it is longer than 1000000 bytes. Skipped.\n"


class _Lines:
    """Keeps what is written."""

    def __init__(self, lines):
        self._lines = lines

    def write(self, text):
        self._lines.append(text)

    def flush(self):
        pass


def test_bad_lines_are_counted(manage):
    """The count is in the JSON; of many bad lines the first are told."""
    stdin = b"1\n" + b"oops\n" * 50 + b"2\n"
    done = manage("queue_push", "mail", "--continue", "--json", stdin=stdin)
    assert done.returncode == 1
    assert json.loads(done.stdout) == {"queue": "mail", "pushed": 2, "skipped": 50}
    assert done.stderr.count("Skipped.") == 20
    assert done.stderr.endswith("CommandError: Skipped 50 bad lines.\n")
    assert manage("queue_push", "mail", "--continue", stdin=b"3\n").returncode == 0


def test_bad_priorities_are_skipped(call, ndjson):
    """A priority that does not fit is a bad line, too; but not one that all have."""
    file = ndjson('{"n": 1}\n{"n": "x"}\n{}\n{"n": null}\n{"n": 2}\n')
    with pytest.raises(CommandError, match="3 bad lines"):
        call("queue_push", "ranks", file, "--priority-field=n", "--continue")
    assert [item.priority for item in fdbqueue.queue("ranks")] == [1, 2]
    call("queue_push", "ranks", file, "--priority=1.5", "--continue", code=2)


def test_skipped_and_resumed(call, file):
    """Both together: bad lines that were passed by are not looked at again."""
    spoil(file, 5)
    with pytest.raises(CommandError, match="Skipped 1 bad line"):
        call("queue_push", "mail", str(file), "--continue", "--resume")
    printed = call("queue_push", "mail", str(file), "--continue", "--resume")
    assert printed.out == "Pushed 0 items into 'mail'.\n"
    assert values() == [n for n in range(LINES) if n != 5]
