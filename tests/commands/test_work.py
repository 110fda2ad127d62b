"""``queue_work``: a worker."""

from __future__ import annotations

import json
import os
import signal
import socket

import pytest
from django.core.management.base import CommandError

import fdbqueue
from tests.engines.children import wait_until

DEADLINE_SECONDS = 60


@pytest.fixture
def folder(tmp_path, processes, monkeypatch):
    """Where the functions note what they were called with."""
    folder = tmp_path / "noted"
    folder.mkdir()
    processes.environment["FDBQUEUE_TEST_FOLDER"] = str(folder)
    monkeypatch.setenv("FDBQUEUE_TEST_FOLDER", str(folder))
    return folder


@pytest.fixture
def mail():
    """An empty FIFO queue."""
    return fdbqueue.queue("mail")


def handler(name):
    return f"--handler=tests.commands.handlers.{name}"


def noted(folder):
    return sorted(path.name for path in folder.iterdir())


def test_called_once_an_item(call, mail, folder):
    """The function is called with each item, which is gone when it has returned."""
    mail.push_many(range(20))
    printed = call("queue_work", "--until-empty", "mail", handler("note"))
    assert printed == ("Handled 20 items from 'mail', 0 failed.\n", "")
    assert noted(folder) == sorted(f"{number}-0" for number in range(20))
    assert (mail.size(), mail.counts().leased) == (0, 0)


@pytest.mark.django_db(transaction=True)
def test_a_function_that_leaves_a_transaction_open(call, mail, folder):
    """It is rolled back; the next item has a connection of its own."""
    mail.push_many(range(3))
    assert call("queue_work", "--until-empty", "mail", handler("leave_open")).out == (
        "Handled 3 items from 'mail', 0 failed.\n"
    )
    assert noted(folder) == [f"{number}-0" for number in range(3)]


def test_a_function_that_raises(manage, mail, folder):
    """Its item is given up with the reason, hidden for a while, and the worker goes on."""
    mail.push_many(range(4))
    done = manage("queue_work", "--until-empty", "mail", handler("fail_on_odd"), "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout) == {
        "queue": "mail",
        "handled": 2,
        "failed": 2,
        "lost": 0,
        "dead": 0,
    }
    assert "failed: ValueError: odd\\x1b: 1\n" in done.stderr
    assert done.stderr.endswith("CommandError: 2 attempts failed.\n")
    assert noted(folder) == ["0-0", "1-0", "2-0", "3-0"]
    delayed = list(mail.iterate(state="delayed"))
    assert [(item.value, item.attempts) for item in delayed] == [(1, 1), (3, 1)]


def test_dead_letters(manage, settings, mail, folder):
    """After max_attempts an item is a dead letter, with the exception as its reason; it is said."""
    queues = {**settings.FDBQUEUE["QUEUES"], "mail": {"kind": "fifo", "max_attempts": 3}}
    settings.FDBQUEUE = {**settings.FDBQUEUE, "QUEUES": queues}
    queue = fdbqueue.queue("mail")
    queue.push_many([1, 2])
    done = manage("queue_work", "--until-empty", "mail", handler("fail_on_odd"), "--retry-delay=0")
    assert done.returncode == 1
    assert done.stdout.startswith("Handled 1 item from 'mail', 3 attempts failed; 1 item is a dead")
    assert noted(folder) == ["1-0", "1-1", "1-2", "2-0"]
    (dead,) = queue.iterate(state="dead")
    assert (dead.value, dead.reason) == (1, "ValueError: odd\x1b: 1")
    name = f"{socket.gethostname()}:{os.getpid()}"
    assert [(one.attempt, one.worker, one.reason) for one in dead.failures] == [
        (attempt, name, dead.reason) for attempt in (1, 2, 3)
    ]


def test_the_name_of_the_worker(call, mail, folder):
    """The one that is given, if it may be one."""
    item = mail.push(1)
    with pytest.raises(CommandError):
        call("queue_work", "--until-empty", "mail", handler("fail_on_odd"), "--worker", "mine")
    assert [one.worker for one in mail.get(item.id).failures] == ["mine"]
    for name in ("", "x" * 201, "a\x1b"):
        with pytest.raises(CommandError, match="printable"):
            call("queue_work", "--until-empty", "mail", handler("note"), "--worker", name)


def test_end_and_limit(call, mail, folder):
    """They say which items; the others stay."""
    mail.push_many(range(5))
    call("queue_work", "--until-empty", "mail", handler("note"), "--end=max", "--limit=2")
    assert noted(folder) == ["3-0", "4-0"]
    assert mail.size() == 3


def test_a_function_that_ends_its_thread(call, mail, folder):
    """SystemExit is an error like any other."""
    mail.push_many(range(3))
    with pytest.raises(CommandError, match="3 attempts failed"):
        call("queue_work", "--until-empty", "mail", handler("leave"))
    assert mail.counts().delayed == 3


def test_an_item_that_is_lost(processes, mail, folder):
    """An item that somebody else has by the end counts as lost, and the exit code tells."""
    mail.push(1)
    process = processes.start(
        "queue_work", "--until-empty", "mail", handler("until_told"), "--json"
    )
    wait_until(lambda: noted(folder) == ["1-0"])
    mail.remove_many([item.id for item in mail.page(state="leased").items])
    (folder / "end").touch()
    done = processes.finish(process)
    assert done.returncode == 1
    assert json.loads(done.stdout) == {
        "queue": "mail",
        "handled": 0,
        "failed": 0,
        "lost": 1,
        "dead": 0,
    }


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_stopped(processes, mail, folder, number, code):
    """SIGTERM and Ctrl-C finish what is running, take nothing more, and end it."""
    mail.push_many(range(5))
    process = processes.start(
        "queue_work", "--until-empty", "mail", handler("until_told"), "--threads=2"
    )
    wait_until(lambda: len(noted(folder)) == 2)
    process.send_signal(number)
    assert process.stderr.readline().startswith(b"Waiting for 2 items to finish")
    (folder / "end").touch()
    done = processes.finish(process)
    assert done.returncode == code
    assert noted(folder) == ["0-0", "0-ended", "1-0", "1-ended", "end"]
    assert mail.counts().leased == 0
    assert [item.value for item in mail] == [2, 3, 4]


def test_aborted(processes, mail, folder):
    """A second Ctrl-C does not wait: the item comes back when its lease is over."""
    mail.push(1)
    process = processes.start(
        "queue_work", "--until-empty", "mail", handler("until_told"), "--lease-seconds=1"
    )
    wait_until(lambda: noted(folder) == ["1-0"])
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline().startswith(b"Waiting for 1 item to finish")
    process.send_signal(signal.SIGINT)
    assert processes.finish(process).returncode == 130
    item = mail.pop(wait=DEADLINE_SECONDS)
    assert (item.value, item.attempts) == (1, 1)


def test_following(processes, mail, folder):
    """It waits for more, and SIGTERM ends it at once while it waits."""
    process = processes.start("queue_work", "mail", handler("note"), "--threads=2")
    for number in range(3):
        mail.push(number)
        wait_until(lambda number=number: (folder / f"{number}-0").exists())
    wait_until(lambda: mail.counts().leased == 0)
    process.send_signal(signal.SIGTERM)
    done = processes.finish(process)
    assert (done.returncode, done.stdout) == (0, "Handled 3 items from 'mail', 0 failed.\n")


def test_what_comes_later_while_it_follows(processes, mail, folder):
    """What is delayed, what is tried again, and a queue that is new: the worker lives on."""
    arguments = ("queue_work", "mail", "user-*", handler("fail_on_odd"))
    process = processes.start(*arguments, "--retry-delay=0.5")
    mail.push(0)
    wait_until((folder / "0-0").exists)
    mail.push(2, delay=0.5)
    mail.push(1)
    fdbqueue.queue("user-7").push(4)
    fdbqueue.queue("user-7").push(6, delay=1)
    expected = {"0-0", "1-0", "1-1", "1-2", "2-0", "4-0", "6-0"}
    wait_until(lambda: expected <= {*noted(folder)})
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    processes.finish(process)


def test_items_that_cannot_be_decoded(call, mail, folder):
    """They go to the dead letters, and the others are worked on."""
    key = mail.subspace.pack((0, b"\x00" * 20))
    transaction = mail.database.create_transaction()
    transaction[key] = b"\xff"
    transaction.commit().wait()
    mail.push_many(range(3))
    with pytest.raises(CommandError, match="1 item of 'mail' cannot be decoded"):
        call("queue_work", "--until-empty", "mail", handler("note"))
    assert len(noted(folder)) == 3
    assert mail.counts().dead == 1


@pytest.mark.parametrize("path", ["none.such", "tests.commands.handlers.none", "x"])
def test_a_function_that_is_not_there(call, mail, path):
    """It is wrong usage, and nothing is leased."""
    mail.push(1)
    with pytest.raises(CommandError, match="cannot be imported") as caught:
        call("queue_work", "--until-empty", "mail", "--handler", path)
    assert caught.value.returncode == 2
    with pytest.raises(CommandError, match="cannot be called"):
        call("queue_work", "--until-empty", "mail", handler("NOTHING"))
    assert mail.size() == 1


@pytest.mark.parametrize("name", ["wait", "count", "count_slowly", "waiting"])
def test_a_function_that_would_do_nothing(call, mail, name):
    """An async function or a generator is wrong usage: nothing is leased, or acknowledged."""
    mail.push(1)
    with pytest.raises(CommandError, match="would do nothing") as caught:
        call("queue_work", "--until-empty", "mail", handler(name))
    assert caught.value.returncode == 2
    assert [item.value for item in mail] == [1]


@pytest.mark.parametrize("raised", ["ValueError('boom')", "SystemExit('boom')"])
def test_a_module_that_raises(call, mail, tmp_path, monkeypatch, raised):
    """Whatever a module raises when it is imported is wrong usage, with its text."""
    name = f"raising_{raised[:6].lower()}"
    (tmp_path / f"{name}.py").write_text(f"raise {raised}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(CommandError, match=r"cannot be imported: .*boom") as caught:
        call("queue_work", "--until-empty", "mail", "--handler", f"{name}.send")
    assert caught.value.returncode == 2


def test_a_function_that_prints(manage, mail):
    """With --json what it prints goes to standard error, without it where it always does."""
    mail.push_many([1, 2])
    done = manage("queue_work", "--until-empty", "mail", handler("talk"), "--json", "--limit=1")
    assert json.loads(done.stdout) == {
        "queue": "mail",
        "handled": 1,
        "failed": 0,
        "lost": 0,
        "dead": 0,
    }
    assert done.stderr == "talking\n"
    done = manage("queue_work", "--until-empty", "mail", handler("talk"))
    assert done.stdout == "talking\nHandled 1 item from 'mail', 0 failed.\n"


def test_a_long_error(manage, mail):
    """Its text is clipped on standard error."""
    mail.push(1)
    done = manage("queue_work", "--until-empty", "mail", handler("fail_at_length"))
    first = done.stderr.splitlines()[0]
    assert len(first) == 300
    assert first.endswith("xxx...")


def test_a_task_is_no_function_of_items(call, mail):
    """It is enqueued, and run by other workers; no item is leased."""
    text = call("queue_work", "--until-empty", "mail", "--handler=tests.tasks.letters.send", code=2)
    assert "is a task: enqueue it, and run tasks_worker" in str(text)
    assert mail.counts().leased == 0
