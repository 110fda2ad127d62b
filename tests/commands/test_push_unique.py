"""``queue_push --unique``: one value, unless an item has its unique key."""

from __future__ import annotations

import json

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

import fdbqueue
from tests.cases import cases


def push(call, ndjson, line='{"a": 1}', *more, key="order-17", name="mail"):
    """Push a value under a unique key."""
    return call("queue_push", name, ndjson(line), "--unique", key, *more)


def test_a_second_push_finds_the_item(call, ndjson):
    """It pushes nothing, and says which item has the key, and its state."""
    assert push(call, ndjson) == ("Pushed 1 item into 'mail'.\n", "")
    item = fdbqueue.queue("mail").peek()
    assert push(call, ndjson, '{"b": 2}') == (
        f"Pushed nothing: 'mail' has an item with this unique key, {item.id}, which is ready.\n",
        "",
    )
    assert [found.value for found in fdbqueue.queue("mail")] == [{"a": 1}]
    assert push(call, ndjson, key="order-18").out == "Pushed 1 item into 'mail'.\n"


def test_the_result_as_json(call, ndjson):
    """It says whether the item was there, and has its id."""
    first = json.loads(push(call, ndjson, "1", "--json").out)
    again = json.loads(push(call, ndjson, "1", "--json").out)
    item = fdbqueue.queue("mail").peek()
    assert first == {"queue": "mail", "pushed": 1, "existing": False, "id": item.id}
    assert again == {"queue": "mail", "pushed": 0, "existing": True, "id": item.id}


@pytest.mark.parametrize(
    ("arguments", "after"),
    [
        ([], "nothing: "),
        (["--unique-while", "pending"], "nothing: "),
        (["--unique-while", "ready"], "1 item"),
    ],
)
def test_how_long_the_key_is_kept(call, ndjson, arguments, after):
    """Pending by default; a lease frees a key that is kept while the item is ready."""
    queue = fdbqueue.queue("mail")
    push(call, ndjson, "1", *arguments)
    assert "nothing" in push(call, ndjson, "1", *arguments).out
    leased = queue.lease()
    assert push(call, ndjson, "2", *arguments).out.startswith(f"Pushed {after}")
    queue.ack(leased)
    queue.clear_state("ready")
    assert push(call, ndjson, "3", *arguments).out.startswith("Pushed 1 item")


def test_priorities_and_values(call, ndjson):
    """Both are those of any other push; ``--values`` takes an item's line as a value."""
    push(call, ndjson, '{"p": 7}', "--priority-field", "p", name="ranks")
    push(call, ndjson, "1", "--priority", "-3", name="ranks", key="b")
    push(call, ndjson, "2", name="ranks", key="c")
    assert [item.priority for item in fdbqueue.queue("ranks")] == [-3, 0, 7]
    push(call, ndjson, '"YWJj"', name="blobs")
    assert fdbqueue.queue("blobs").peek().value == b"abc"
    line = call("queue_peek", "ranks", "--json").out
    push(call, ndjson, line, "--values")
    assert fdbqueue.queue("mail").peek().value == json.loads(line)


def test_blank_lines_are_skipped(call, ndjson):
    """Before the value and behind it."""
    assert push(call, ndjson, b"\n \n1\n\n  \r\n").out == "Pushed 1 item into 'mail'.\n"


NOTHING = " Pushed 0 items before that."


@cases(
    ("name", "line", "code", "message"),
    [
        ("mail", "", 2, "Line 1: there is no value." + NOTHING),
        ("mail", "\n\n", 2, "Line 3: there is no value." + NOTHING),
        (
            "mail",
            "1\n\n2\n",
            2,
            "Line 3: this is a second value, and --unique pushes one." + NOTHING,
        ),
        (
            "mail",
            "1\n{bad",
            2,
            "Line 2: this is a second value, and --unique pushes one." + NOTHING,
        ),
        ("mail", "\n{bad", 1, "Line 2: it is not JSON: "),
        ("blobs", "1", 1, "Line 1: "),
        ("mail", json.dumps("x" * 200_000), 1, "Line 1: the value takes 200"),
    ],
)
def test_bad_input(call, ndjson, name, line, code, message):
    """What is wrong is said with its line, and nothing is pushed."""
    with pytest.raises(CommandError) as caught:
        push(call, ndjson, line, name=name)
    assert (caught.value.returncode, str(caught.value)[: len(message)]) == (code, message)
    assert fdbqueue.queue(name).size() == 0


def test_an_items_line(call, ndjson):
    """It is refused unless it is said to be a value."""
    fdbqueue.queue("ranks").push(1, 2)
    line = call("queue_peek", "ranks", "--json").out
    with pytest.raises(CommandError, match="it is a whole item") as caught:
        push(call, ndjson, line)
    assert caught.value.returncode == 2


@cases(
    ("arguments", "message"),
    [
        (["--unique-while", "ready"], "--unique-while needs --unique."),
        (["--unique", "k", "--items"], "--unique pushes one value: --items cannot be used."),
        (["--unique", "k", "--continue"], "--unique pushes one value: --continue cannot be used."),
        (["--unique", "k", "--resume"], "--unique pushes one value: --resume cannot be used."),
        (["--unique", "k", "--job", "j"], "--job names the push for --resume: use both."),
        (["--unique", "k", "--priority", "1"], "'mail' is a FIFO queue: "),
    ],
)
def test_options_that_make_no_sense(call, ndjson, arguments, message):
    """They are wrong usage, and nothing is pushed."""
    assert call("queue_push", "mail", ndjson("1"), *arguments, code=2)[: len(message)] == message
    assert fdbqueue.queue("mail").size() == 0


@pytest.mark.parametrize(
    "arguments",
    [["--unique", ""], ["--unique", "é" * 501], ["--unique", "k", "--unique-while", "leased"]],
)
def test_bad_keys(manage, arguments):
    """It ends with 2."""
    done = manage("queue_push", "mail", *arguments, stdin=b"1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert fdbqueue.queue("mail").size() == 0


def test_a_bad_key_from_a_program(ndjson):
    """Options that argparse has not seen are checked by the queue."""
    with pytest.raises(CommandError, match="1 to 1000 bytes"):
        call_command("queue_push", "mail", ndjson("1"), unique="")
    assert fdbqueue.queue("mail").size() == 0
