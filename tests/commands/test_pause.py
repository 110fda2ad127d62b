"""``queue_pause`` and ``queue_resume``, and what the other commands say of a paused queue."""

from __future__ import annotations

import json
import re

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

import fdbqueue

NOTE = (
    "The queue 'mail' is paused since {since} UTC: deploying\n"
    "Nothing is taken from it until it is resumed: manage.py queue_resume mail\n"
)


@pytest.fixture
def mail():
    """A queue of three items that is paused."""
    queue = fdbqueue.queue("mail")
    queue.push_many([1, 2, 3])
    queue.pause(reason="deploying")
    return queue


@pytest.fixture
def note(mail):
    """What commands say of it."""
    return NOTE.format(since=f"{mail.paused().since:%Y-%m-%d %H:%M:%S}")


def iso(moment):
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def test_it_pauses_and_resumes(call):
    """Each says what the queue is now; resuming one that is not paused says so."""
    queue = fdbqueue.queue("mail")
    queue.push(1)
    printed = call("queue_pause", "mail", "--reason", "deploying 2.4")
    pause = queue.paused()
    since = f"{pause.since:%Y-%m-%d %H:%M:%S} UTC"
    assert printed == (f"The queue 'mail' is paused since {since}: deploying 2.4\n", "")
    assert pause.reason == "deploying 2.4"
    assert queue.pop() is None
    assert call("queue_resume", "mail") == ("Resumed 'mail'.\n", "")
    assert call("queue_resume", "mail") == ("The queue 'mail' was not paused.\n", "")
    assert queue.pop().value == 1


def test_json(call):
    """There is one line for each queue, which may be named twice."""
    printed = call("queue_pause", "mail", "ranks", "mail", "--json").out
    mail, ranks = map(json.loads, printed.splitlines())
    since = iso(fdbqueue.queue("mail").paused().since)
    assert mail == {"queue": "mail", "paused": {"since": since, "reason": "", "family": None}}
    assert ranks["queue"] == "ranks"
    printed = call("queue_resume", "mail", "blobs", "--json").out
    assert [json.loads(line) for line in printed.splitlines()] == [
        {"queue": "mail", "resumed": True},
        {"queue": "blobs", "resumed": False},
    ]
    assert fdbqueue.queue("ranks").paused() is not None


def test_again(call, mail):
    """A queue that is paused keeps its time, and its reason unless there is a new one."""
    since = mail.paused().since
    call("queue_pause", "mail", "--reason=the disk is full")
    assert (mail.paused().since, mail.paused().reason) == (since, "the disk is full")
    printed = call("queue_pause", "mail")
    assert "the disk is full" in printed.out
    assert mail.paused().reason == "the disk is full"
    call("queue_pause", "mail", "--reason=")
    assert mail.paused().reason == ""


@pytest.mark.parametrize("command", ["queue_pause", "queue_resume"])
def test_an_unknown_name_changes_nothing(call, mail, command):
    """It is 3, before any of the others is changed."""
    before = [fdbqueue.queue(name).paused() for name in ("mail", "ranks")]
    call(command, "mail", "ranks", "none", code=3)
    assert [fdbqueue.queue(name).paused() for name in ("mail", "ranks")] == before


def test_a_reason_that_is_not_harmless(manage):
    """A terminal gets escapes, JSON all of it; 1,000 characters are kept."""
    reason = "\x1b[2J\n" + "é" * 2_000
    done = manage("queue_pause", "mail", "--reason", reason)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert done.stdout.count("\n") == 1
    assert r": \x1b[2J\n" in done.stdout
    done = manage("queue_pause", "mail", "--reason", reason, "--json")
    assert done.stdout.isascii()
    assert json.loads(done.stdout)["paused"]["reason"] == reason[:1_000]


def test_a_reason_that_is_not_utf_8(processes):
    """What the shell gives as bytes of no text is kept as question marks."""
    done = processes.run("queue_pause", "mail", "--reason", b"caf\xe9", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert fdbqueue.queue("mail").paused().reason == "caf?"


def test_an_engine_that_fails_half_way(call, monkeypatch):
    """The message says how many queues were done before."""
    pause = fdbqueue.service.Queue.pause

    def fail(queue, **options):
        if queue.name == "ranks":
            raise fdbqueue.exceptions.EngineUnavailable(reason="gone")
        return pause(queue, **options)

    monkeypatch.setattr(fdbqueue.service.Queue, "pause", fail)
    with pytest.raises(CommandError, match=r"1 of 3 queues done before\.$") as caught:
        call("queue_pause", "mail", "ranks", "blobs")
    assert caught.value.returncode == 4
    assert fdbqueue.queue("mail").paused() is not None
    assert fdbqueue.queue("blobs").paused() is None


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_pop_says_that_the_queue_is_paused(call, mail, note, options):
    """On standard error, in place of that it is empty; the result is as of an empty queue."""
    assert call("queue_pop", "mail", *options) == ("", note)
    assert call("queue_pop", "mail", "--verbosity=0", *options) == ("", "")
    assert mail.counts().ready == 3


@pytest.mark.parametrize(
    ("command", "out"),
    [
        (["queue_move", "mail", "user-1", "--no-input"], "Moved 0 items from 'mail' to 'user-1'."),
        (["queue_drain", "mail", "--discard", "--no-input"], "Discarded 0 items from 'mail'."),
        (["queue_drain", "mail", "--dry-run"], "Would drain 0 items from 'mail' to standard out"),
        (
            ["queue_work", "--until-empty", "mail", "--handler=tests.commands.handlers.note"],
            "Handled 0 items",
        ),
    ],
)
def test_a_drain_says_once_that_the_queue_is_paused(call, mail, note, command, out):
    """On standard error; it takes nothing, and ends as one of an empty queue."""
    printed = call(*command)
    assert printed.out.startswith(out)
    assert printed.err.count(note) == 1
    assert "other clients" not in printed.err
    assert mail.counts().ready == 3


def test_a_drain_to_standard_output(call, mail, note):
    """What is printed for programs stays empty."""
    assert call("queue_drain", "mail") == ("", f"{note}Drained 0 items from 'mail'.\n")


def test_a_drain_that_follows_waits_until_the_queue_is_resumed(processes, mail, note):
    """It says so at once, and takes the items when they may be taken."""
    process = processes.start("queue_drain", "mail", "--follow")
    said = process.stderr.readline() + process.stderr.readline()
    assert said.decode() == note
    call_command("queue_resume", "mail", verbosity=0)
    values = [json.loads(process.stdout.readline())["value"] for _ in range(3)]
    assert values == [1, 2, 3]
    process.terminate()


# Families


@pytest.fixture
def users():
    """The queues of a family, two of which have an item."""
    for name in ("user-1", "user-2"):
        fdbqueue.queue(name).push(name)
    return fdbqueue.family("user-*")


def test_a_family_is_paused_and_resumed(call, users):
    """By its pattern: each member is, and says with what; and is resumed with it alone."""
    printed = call("queue_pause", "user-*", "--reason", "moving").out
    since = f"{users.paused().since:%Y-%m-%d %H:%M:%S} UTC"
    assert printed == f"The family 'user-*' is paused since {since}: moving\n"
    assert fdbqueue.pop_from(["user-*"]) is None
    assert call("queue_resume", "user-1").out == (
        "The queue 'user-1' was not paused. It is paused with its family 'user-*': "
        "manage.py queue_resume 'user-*'\n"
    )
    note = call("queue_pop", "user-1").err
    assert note.startswith(f"The family 'user-*' is paused since {since}: moving\n")
    assert note.endswith("manage.py queue_resume 'user-*'\n")
    assert (
        call("queue_work", "--until-empty", "user-*", "--handler", "builtins.print").err.count(
            "is paused"
        )
        == 1
    )
    assert call("queue_resume", "user-*").out == "Resumed 'user-*'.\n"
    assert call("queue_resume", "user-*").out == "The family 'user-*' was not paused.\n"
    assert fdbqueue.pop_from(["user-*"]) is not None


def test_what_is_said_of_a_paused_family(call, users):
    """In the lists and the figures, and by the doctor of each member."""
    users.pause(reason="moving")
    shown = {"since": iso(users.paused().since), "reason": "moving", "family": "user-*"}
    stats = json.loads(call("queue_list", "user-*", "--json").out)
    assert (stats["pause"], stats["paused"]) == (shown, 2)
    assert re.search(r"user-\*.*paused.*: moving", call("queue_list", "user-*").out)
    found = [json.loads(line) for line in call("queue_doctor", "user-*", "--json").out.splitlines()]
    pauses = [one for one in found if one["check"] == "pause"]
    assert [one["remedy"] for one in pauses] == ["queue_resume 'user-*'"] * 2
    assert "paused with its family 'user-*'" in pauses[0]["detail"]


def test_a_part_of_a_family_is_not_paused(call, users):
    """The error names the patterns there are."""
    for command in ("queue_pause", "queue_resume"):
        with pytest.raises(CommandError, match=r"no pattern 'user-1\*'. It has .*user-\*"):
            call(command, "user-1*")
    assert users.paused() is None
