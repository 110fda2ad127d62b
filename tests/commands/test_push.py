"""``queue_push``."""

from __future__ import annotations

import base64
import json
import os
import signal
from pathlib import Path

import pytest
from django.core.management.base import CommandError

import fdbqueue
from tests.cases import cases
from tests.commands.conftest import DEADLINE_SECONDS, EARTHQUAKES


def values(name):
    return [item.value for item in fdbqueue.queue(name)]


def said(done):
    """Return the lines of standard error, without how far it is, which comes every ten seconds."""
    return [line for line in done.stderr.splitlines() if " per second" not in line]


def test_earthquakes_from_a_file(call):
    """All 1,707 earthquakes go in by their magnitude, as they are in the file."""
    printed = call("queue_push", "quakes", str(EARTHQUAKES), "--priority-field", "magnitude")
    assert printed == ("Pushed 1,707 items into 'quakes'.\n", "")
    expected = [json.loads(line) for line in EARTHQUAKES.read_text().splitlines()]
    items = list(fdbqueue.queue("quakes"))
    assert [item.value for item in items] == sorted(expected, key=lambda quake: quake["magnitude"])
    assert all(item.priority == item.value["magnitude"] for item in items)


def test_a_dash_is_standard_input(manage):
    """``-`` names standard input, and an input without a line pushes nothing."""
    done = manage("queue_push", "mail", "-", stdin=b"")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Pushed 0 items into 'mail'.\n", "")


def test_order_and_blank_lines(call, ndjson):
    """Values are queued in the order of their lines, whatever ends these; blank ones are none."""
    call("queue_push", "mail", ndjson(b'1\n\n  \r\n"two"\r\n[3]\nnull'))
    assert values("mail") == [1, "two", [3], None]


@pytest.mark.parametrize("text", ["\ufeff1\n2\n", "\ufeff\n1\n2", "\ufeff\r\n1\r\n2\r\n"])
def test_a_byte_order_mark_is_passed_over(call, ndjson, text):
    """As programs on Windows write one; it is part of no value."""
    call("queue_push", "mail", ndjson(text))
    assert [item.value for item in fdbqueue.queue("mail")] == [1, 2]


def test_values_are_exact(call, ndjson):
    """Integers of any size, unicode and escapes come back as they were written."""
    exact = [
        2**53 + 1,
        -(2**64) - 1,
        10**300,
        "雪 \U0001f30b",
        "\x1b[2J\x00",
        {"ключ": [2**70]},
        -0.1,
    ]
    lines = "\n".join(json.dumps(value, ensure_ascii=False) for value in exact)
    call("queue_push", "mail", ndjson(lines))
    assert values("mail") == exact


def test_the_same_priority_for_all(call, ndjson):
    """``--priority`` holds for every line, and is 0 where it is not given."""
    file = ndjson("1\n2\n")
    call("queue_push", "ranks", file, "--priority", "-7")
    call("queue_push", "ranks", file)
    assert [(item.priority, item.value) for item in fdbqueue.queue("ranks")] == [
        (-7, 1),
        (-7, 2),
        (0, 1),
        (0, 2),
    ]


def test_dotted_priority_field(call, ndjson):
    """A dot in ``--priority-field`` leads into an object."""
    call("queue_push", "quakes", ndjson('{"p": {"mag": 2}}\n'), "--priority-field", "p.mag")
    assert fdbqueue.queue("quakes").peek().priority == 2.0


def test_exact_integer_priority(call, ndjson):
    """An integer priority beyond a float's precision is not rounded on its way."""
    call("queue_push", "ranks", ndjson(f'{{"n": {2**63 - 1}}}'), "--priority-field", "n")
    assert fdbqueue.queue("ranks").peek().priority == 2**63 - 1


@pytest.mark.parametrize("name", ["blobs", "ranked-blobs"])
def test_bytes_are_base64(call, ndjson, name):
    """In a queue of bytes each line is a string holding base64."""
    blob = bytes(range(256))
    call("queue_push", name, ndjson(json.dumps(base64.b64encode(blob).decode())))
    assert values(name) == [blob]


@cases(
    ("line", "reason"),
    [
        (b"{", "it is not JSON: Expecting property name enclosed in double quotes, column 2"),
        (b"1 2", "it is not JSON: Extra data, column 3"),
        (b"NaN", "NaN is not a JSON number"),
        (b"[-Infinity]", "-Infinity is not a JSON number"),
        (b"1e999", "1e999 is beyond the range of a float"),
        (b'"\xff"', "it is not UTF-8 at byte 2"),
        (b"[" * 100_000, "the JSON is nested too deeply"),
        (b'"' + b"x" * 100_001 + b'"', "the limit is 100000"),
        (b" " * 1_000_000 + b"1", "it is longer than 1000000 bytes"),
        (b"9" * 5000, "Exceeds the limit"),
        (b'"\\ud800"', "surrogates not allowed"),
    ],
)
def test_bad_lines(call, ndjson, line, reason):
    """A line that is no value is refused with its number, and nothing of the file is pushed."""
    text = call("queue_push", "mail", ndjson(b'"first"\n\n' + line + b'\n"last"\n'), code=1)
    assert text.startswith("Line 3: ")
    assert reason in text
    assert text.endswith(". Pushed 0 items before that.")
    assert values("mail") == []


@pytest.mark.parametrize("line", ["5", '"*"', '"YQ"', '"é"'])
def test_bad_base64(call, ndjson, line):
    """What is not base64 in a string is refused in a queue of bytes."""
    with pytest.raises(CommandError, match=r"Line 1: .*base64") as caught:
        call("queue_push", "blobs", ndjson(line))
    assert caught.value.returncode == 1


@cases(
    ("line", "reason"),
    [
        ("{}", "it is missing"),
        ('{"a": 1}', "it is missing"),
        ("[1]", "it is missing"),
        ('{"a": {"b": "high"}}', 'it is not a number: "high"'),
        ('{"a": {"b": true}}', "it is not a number: true"),
        ('{"a": {"b": null}}', "it is not a number: null"),
        ('{"a": {"b": 1.5}}', "it is a fraction, and the queue's type is int: 1.5"),
        ('{"a": {"b": "\\u001b[2J"}}', 'it is not a number: "\\u001b[2J"'),
    ],
)
def test_bad_priority_fields(call, ndjson, line, reason):
    """A priority that is missing or does not fit is reported with its line and field."""
    message = call("queue_push", "ranks", ndjson(f"\n{line}"), "--priority-field", "a.b", code=1)
    assert message == f"Line 2, field 'a.b': {reason}. Pushed 0 items before that."


def test_what_was_pushed_before_a_bad_line(call, ndjson):
    """A bad line behind a full transaction tells how many items are in the queue."""
    message = call(
        "queue_push", "mail", ndjson("".join(f"{n}\n" for n in range(6000)) + "oops"), code=1
    )
    pushed = values("mail")
    assert 0 < len(pushed) < 6000
    assert pushed == list(range(len(pushed)))
    assert (
        f"Line 6001: it is not JSON: Expecting value, column 1. Pushed {len(pushed):,} items"
        in message
    )


@cases(
    ("name", "arguments"),
    [
        ("mail", ["--priority", "1"]),
        ("mail", ["--priority", "0"]),
        ("mail", ["--priority-field", "a"]),
        ("ranked-blobs", ["--priority-field", "a"]),
        ("ranks", ["--priority", "1.5"]),
        ("ranks", ["--priority", str(2**63)]),
    ],
)
def test_priorities_a_queue_does_not_take(call, ndjson, name, arguments):
    """Priorities that the queue cannot have are wrong usage, and nothing is pushed."""
    with pytest.raises(CommandError, match="--priority") as caught:
        call("queue_push", name, ndjson('"YWJj"'), *arguments)
    assert caught.value.returncode == 2
    assert values(name) == []


def test_a_file_that_cannot_be_read(call, tmp_path):
    """A file that is missing, a directory or no path is named, with the reason."""
    for file in (tmp_path / "none", tmp_path, "a\0b"):
        with pytest.raises(CommandError, match=r"^The file .* cannot be read: ") as caught:
            call("queue_push", "mail", str(file))
        assert caught.value.returncode == 1


def test_a_value_in_place_of_a_file(call):
    """Who gives the value where the file belongs learns how to push it."""
    with pytest.raises(CommandError) as caught:
        call("queue_push", "mail", '{"to": "ada"}')
    assert str(caught.value).endswith("To push a value itself, write it to standard input.")


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs Linux's /proc")
def test_a_file_that_fails_while_it_is_read(call):
    """An error of the disk is reported with the line it came at."""
    with pytest.raises(CommandError, match="Line 1: it cannot be read: ") as caught:
        call("queue_push", "mail", "/proc/self/mem")
    assert caught.value.returncode == 1


def test_standard_input_that_is_closed(processes):
    """A process started without a standard input says so."""
    done = processes.run("queue_push", "mail", redirect="<&-")
    assert (done.returncode, done.stderr) == (1, "CommandError: Standard input is closed.\n")


def test_it_says_that_it_reads_from_a_terminal(processes):
    """At a terminal a note tells what is waited for, unless notes are not wanted."""
    for verbosity, note in (("1", "Reading JSON lines"), ("0", "")):
        controller, terminal = os.openpty()
        process = processes.start("queue_push", "mail", "-v", verbosity, stdin=terminal)
        os.write(controller, b"1\n\x04")
        done = processes.finish(process)
        os.close(terminal)
        os.close(controller)
        assert done.stdout == "Pushed 1 item into 'mail'.\n"
        assert done.stderr.startswith(note)
        assert bool(done.stderr) == bool(note)


def test_a_slow_input(processes):
    """A line is pushed when no other follows it soon; it does not wait for the next one."""
    mail = fdbqueue.queue("mail")
    process = processes.start("queue_push", "mail")
    for number in range(3):
        process.stdin.write(b"%d\n" % number)
        assert mail.pop(wait=DEADLINE_SECONDS).value == number
    process.stdin.write(b'"half a li')
    process.stdin.write(b'ne"')
    assert processes.finish(process).stdout == "Pushed 4 items into 'mail'.\n"
    assert values("mail") == ["half a line"]


def test_a_slow_input_is_resumed(processes):
    """What was pushed at a pause is not pushed again."""
    process = processes.start("queue_push", "mail", "--job=slow", "--resume")
    process.stdin.write(b"1\n2\n")
    assert fdbqueue.queue("mail").wait_for_items(DEADLINE_SECONDS)
    process.kill()
    processes.finish(process)
    done = processes.run("queue_push", "mail", "--job=slow", "--resume", stdin=b"1\n2\n3\n")
    assert done.returncode == 0
    assert values("mail") == [1, 2, 3]


def test_interrupted(processes):
    """Ctrl-C ends a push with 130, and says exactly how many items are in the queue."""
    process = processes.start("queue_push", "mail")
    process.stdin.write(b'"one transaction holds less than the pipe and these"\n' * 20_000)
    process.send_signal(signal.SIGINT)  # it has pushed some, or the write would still wait
    done = processes.finish(process)
    pushed = len(values("mail"))
    assert pushed
    assert (done.returncode, done.stdout) == (130, "")
    text = f"Pushed {pushed:,} items before that, up to line {pushed:,}."
    assert said(done) == [f"CommandError: Interrupted. {text}"]
