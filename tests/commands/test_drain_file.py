"""``queue_drain`` to a file: each item once, whenever it was killed."""

from __future__ import annotations

import fcntl
import io
import json
import random
import signal
import subprocess

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

import fdbqueue
from fdbqueue import conf
from fdbqueue.exceptions import LeaseLost, OutcomeUnknown
from fdbqueue.management.commands.queue_drain import FileSink, explain
from fdbqueue.management.item_lines import ItemsFile
from fdbqueue.service import run
from tests.cases import cases
from tests.commands.conftest import DEADLINE_SECONDS, EARTHQUAKES
from tests.engines.children import wait_until
from tests.faults.faulty import Fault, Faulty

ITEMS = 300


@pytest.fixture
def file(tmp_path):
    """The path of a file that is not there yet."""
    return tmp_path / "drained.ndjson"


@pytest.fixture
def mail():
    """A FIFO queue of the numbers from 0 on."""
    queue = fdbqueue.queue("mail")
    queue.push_many({"number": number, "text": "é" * (number % 40)} for number in range(ITEMS))
    return queue


def records(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def numbers(file):
    return [record["value"]["number"] for record in records(file)]


def rows(queue):
    """Return all keys of a queue, whatever they are, but for its counts, history and format."""
    prefix = queue.subspace.key()
    found = run(
        queue.database, lambda tr: [row.key for row in tr.get_range(prefix, prefix + b"\xff\xff")]
    )
    skipped = tuple(prefix + b"\xff" + table for table in (b"\1", b"\5", b"\7", b"\x0f", b"\2\2"))
    return [key for key in found if not key.startswith(skipped)]


def test_everything_of_each_item(call, file):
    """A line has the id, priority, value, time and attempts of an item; then it is gone."""
    quakes = [json.loads(line) for line in EARTHQUAKES.read_text().splitlines()]
    queue = fdbqueue.queue("quakes")
    queue.push_many((quake, quake["magnitude"]) for quake in quakes)
    items = list(queue)
    printed = call("queue_drain", "quakes", "--output", str(file))
    assert printed == (f"Drained 1,707 items from 'quakes' to {file}.\n", "")
    assert records(file) == [
        {
            "id": item.id,
            "priority": item.priority,
            "value": item.value,
            "pushed_at": item.pushed_at.isoformat().replace("+00:00", "Z"),
            "attempts": 0,
        }
        for item in items
    ]
    assert file.read_text().isascii()
    assert rows(queue) == []
    assert queue.size() == 0
    assert queue.history(2)[-1].pops + queue.history(2)[-2].pops == 1707


def test_end_limit_and_batch(call, file, mail):
    """They say which items, and how many at a time; the others stay."""
    call("queue_drain", "mail", "--output", str(file), "--end=max", "--limit=70", "--batch=30")
    assert numbers(file) == list(range(ITEMS - 1, ITEMS - 71, -1))
    assert mail.size() == ITEMS - 70
    assert mail.peek_max().value["number"] == ITEMS - 71


def test_an_empty_queue(manage, file):
    """Its file is empty, and it is no error."""
    done = manage("queue_drain", "mail", "--output", str(file), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"queue": "mail", "drained": 0, "to": str(file)}
    assert file.read_bytes() == b""


def test_a_file_that_is_there(manage, file, mail):
    """It is neither overwritten nor gone on with unless that is asked for; nothing is drained."""
    file.write_text("precious")
    done = manage("queue_drain", "mail", "--output", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert "--resume continues it, --force overwrites it" in done.stderr
    assert file.read_text() == "precious"
    assert mail.size() == ITEMS
    done = manage("queue_drain", "mail", "--output", str(file), "--force")
    assert done.returncode == 0
    assert numbers(file) == list(range(ITEMS))


def test_overwriting_without_an_engine(processes, file, mail, tmp_path):
    """--force empties a file only when the engine is there."""
    file.write_text("precious")
    processes.environment.pop("FDB_CLUSTER_FILE", None)
    environment = {"FDBQUEUE_PATH": str(tmp_path / "none" / "queues.sqlite3")}
    done = processes.run("queue_drain", "mail", "--output", str(file), "--force", env=environment)
    assert done.returncode == 4
    assert file.read_text() == "precious"


def test_a_drain_that_failed_before_its_first_batch(file):
    """The file it made goes with it, as long as it is empty; what it did not make stays."""
    fail(ItemsFile(str(file)), b"")
    assert not file.exists()
    fail(ItemsFile(str(file)), b"x\n")
    assert file.read_bytes() == b"x\n"
    file.write_bytes(b"")
    fail(ItemsFile(str(file), force=True), b"")
    assert file.exists()


def fail(opened, written):
    """Write something to a file, and fail."""

    def use():
        with opened:
            opened.write(written)
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        use()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("none/file", "No such file or directory"),
        ("notes/file", "Not a directory"),
        ("folder", "Is a directory"),
        ("x" * 300, "File name too long"),
        ("/dev/null", "it is not a regular file; redirect standard output to it"),
    ],
)
def test_a_file_that_cannot_be_opened(manage, tmp_path, mail, path, reason):
    """It ends with 1, and names the file and the reason, not another; nothing is drained."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes").touch()
    output = str(tmp_path / path)
    done = manage("queue_drain", "mail", "--output", output, "--force")
    assert (done.returncode, done.stdout) == (1, "")
    message = f"CommandError: The file {output!r} cannot be written: {reason}"
    assert done.stderr.splitlines()[-1] == message
    assert mail.size() == ITEMS


# Killed and resumed


@pytest.mark.parametrize("point", ["write", "torn", "sync", "synced"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_killed_at_each_point(processes, manage, file, mail, point, number):
    """Killed before a write, in it, before the disk is asked, and before the items are
    acknowledged: resumed, the file has each item once, in order, and nothing is left."""
    arguments = "queue_drain", "mail", "--output", str(file), "--batch=100", "--resume"
    killed = processes.run(*arguments, env={"FDBQUEUE_TEST_DIES": f"{point} {number}"})
    assert killed.returncode == -signal.SIGKILL
    done = manage(*arguments)
    assert (done.returncode, done.stdout[:8]) == (0, "Drained ")
    assert numbers(file) == list(range(ITEMS))
    assert rows(mail) == []
    assert mail.size() == 0


def test_killed_twenty_times(processes, manage, file):
    """Killed at any moment twenty times and resumed, each item is in the file once."""
    queue = fdbqueue.queue("quakes")
    queue.push_many((number, number % 7) for number in range(4_000))
    ids = {item.id for item in queue}
    arguments = "queue_drain", "quakes", "--output", str(file), "--batch=10", "--resume"
    kills = 0
    while kills < 20:
        process = processes.start(*arguments)
        with process:
            try:
                process.wait(random.uniform(0.3, 0.6))
            except subprocess.TimeoutExpired:
                process.kill()
                kills += 1
        if process.returncode == 0:
            queue.push_many((number, number % 7) for number in range(4_000))
            ids |= {item.id for item in queue}
    assert manage(*arguments).returncode == 0
    drained = [record["id"] for record in records(file)]
    assert len(drained) == len(set(drained)) == len(ids)
    assert set(drained) == ids
    assert rows(queue) == []


def test_resumed_when_the_lease_has_run_out(processes, manage, file, mail):
    """Written items that are back in the queue by then are removed from it, wherever they are."""
    arguments = "queue_drain", "mail", "--output", str(file), "--batch=100", "--resume"
    processes.run(*arguments, "--lease-seconds=0", env={"FDBQUEUE_TEST_DIES": "synced 3"})
    assert len(numbers(file)) == 200
    first = mail.lease()  # brings all of them back, and takes one that is in the file
    assert first.value["number"] == 100
    mail.bury(mail.peek().id)
    done = manage(*arguments)
    assert done.stderr == (
        f"Resuming {file} after line 200.\nRemoved 100 items that the file has already.\n"
    )
    assert numbers(file) == list(range(ITEMS))
    with pytest.raises(LeaseLost):
        mail.ack(first)
    assert rows(mail) == []


def test_resumed_when_the_drain_had_ended(call, file, mail):
    """The file keeps its lines; if somebody pushed them back, the command says which are new."""
    arguments = "queue_drain", "mail", "--output", str(file), "--resume"
    assert call(*arguments).err == ""
    call("queue_push", "mail", str(file), "--items")
    notes = call(*arguments).err.splitlines()
    assert notes[0] == f"Resuming {file} after line 300."
    assert notes[1].endswith(
        "If you have pushed the file back, push only what comes after line 300 next time."
    )
    assert numbers(file) == 2 * list(range(ITEMS))


def test_another_file_gives_back_what_was_held(processes, call, file, mail):
    """--force on the file of a killed drain loses nothing that was not acknowledged."""
    arguments = "queue_drain", "mail", "--output", str(file), "--batch=100"
    processes.run(*arguments, env={"FDBQUEUE_TEST_DIES": "synced 3"})
    call(*arguments, "--force")
    assert numbers(file) == list(range(100, ITEMS))
    assert rows(mail) == []


@cases(
    "content",
    [
        b"x",
        b"[1]\n",
        b'{"id": 5}\n',
        b'{"id": "a"}\n{"id": "b',
        b'{"id": "x", "name": "y"}\n',
        b'{"id": "!", "priority": null, "value": 1, "pushed_at": null, "attempts": 0}\n',
        b'{"id": "a", "priority": null, "value": 1, "pushed_at": null, "attempts": 0}\nnotes',
        b'{"id": "a", "priority": 1.5, "value": 1, "pushed_at": null, "attempts": 0}\n',
        b"\n",
    ],
)
def test_a_file_of_something_else(call, file, mail, content):
    """A file that no drain of this queue wrote is refused, and left as it is."""
    file.write_bytes(content)
    call("queue_drain", "mail", "--output", str(file), "--resume", code=1)
    assert file.read_bytes() == content
    assert mail.size() == ITEMS


def test_a_file_of_another_kind_of_queue(call, file, mail):
    """It is refused, and left as it is: its items have priorities, or have none."""
    quakes = fdbqueue.queue("quakes")
    quakes.push("a", 1.5)
    call("queue_drain", "quakes", "--output", str(file))
    content = file.read_bytes()
    with pytest.raises(CommandError, match="written by queue_drain from such a queue") as caught:
        call("queue_drain", "mail", "--output", str(file), "--resume")
    assert caught.value.returncode == 1
    assert (file.read_bytes(), mail.size()) == (content, ITEMS)
    file.unlink()
    call("queue_drain", "mail", "--output", str(file), "--limit=1")
    quakes.push("b", 1.5)
    with pytest.raises(CommandError, match="written by queue_drain from such a queue"):
        call("queue_drain", "quakes", "--output", str(file), "--resume")
    assert quakes.size() == 1


def test_a_file_that_another_process_writes(call, file, mail):
    """Two drains to one file would mix their lines: the second is refused."""
    call("queue_drain", "mail", "--output", str(file), "--limit=1")
    with file.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        for option in ("--resume", "--force"):
            with pytest.raises(CommandError, match="another process writes to it") as caught:
                call("queue_drain", "mail", "--output", str(file), option)
            assert caught.value.returncode == 1
    assert numbers(file) == [0]


# What goes wrong


def test_a_full_disk(processes, manage, file, mail):
    """Nothing is lost, the file has whole lines, and what is done is said; resume completes it."""
    arguments = "queue_drain", "mail", "--output", str(file), "--batch=50"
    done = processes.run(*arguments, env={"FDBQUEUE_TEST_DIES": "full 4"})
    written = len(numbers(file))
    assert done.returncode == 1
    assert f"{written} items from 'mail'." in done.stderr
    assert "No space left on device" in done.stderr
    assert written == 150
    assert mail.size() == len(list(mail)) == ITEMS - written
    assert manage(*arguments, "--resume").returncode == 0
    assert numbers(file) == list(range(ITEMS))


def test_a_lease_that_is_lost(file, mail):
    """A batch that somebody else has by then is cut off the file again, and an error."""
    with ItemsFile(str(file)) as opened:
        sink = FileSink(mail, opened)
        sink.take(mail.lease_many(5, worker=opened.worker))
        late = mail.lease_many(5, seconds=0, worker=opened.worker)
        assert mail.pop().value["number"] == 5
        with pytest.raises(LeaseLost):
            sink.take(late)
    assert numbers(file) == [0, 1, 2, 3, 4]
    assert mail.size() == ITEMS - 6


def test_nobody_knows_whether_it_was_acknowledged(engine_error, file, mail):
    """The lines stay in the file, and the message says how to go on."""
    faulty = Faulty(conf.database(), engine_error, seed=1, rate=1.0, faults=[Fault(1031, "after")])
    with ItemsFile(str(file)) as opened:
        sink = FileSink(conf.catalog().over(faulty).queue("mail"), opened)
        with pytest.raises(OutcomeUnknown) as caught:
            sink.take(mail.lease_many(5, worker=opened.worker))
        text = explain(caught.value, 0, mail, sink)
    assert text.endswith(
        "The last 5 lines of the file may still be in the queue: run the command again with "
        "--resume."
    )
    assert numbers(file) == [0, 1, 2, 3, 4]


def test_a_lease_that_is_too_short(mail):
    """The message says what to change; who has the items by then keeps them."""

    class Slow(io.StringIO):
        def write(self, text):
            assert mail.pop().value["number"] == 0
            return super().write(text)

    with pytest.raises(CommandError, match="longer than --lease-seconds") as caught:
        call_command("queue_drain", "mail", lease_seconds=0, batch=50, stdout=Slow())
    assert "0 items from 'mail'." in str(caught.value)
    assert caught.value.returncode == 1
    assert len(list(mail)) == mail.size() == ITEMS - 1


def test_items_that_cannot_be_decoded(call, file, mail):
    """They go to the dead letters, the others to the file; the exit code tells."""
    places = [mail.subspace.pack((index, b"\x00" * 20)) for index in (0, 120, 100_000)]

    def spoil(tr):
        for place in places:
            tr[place] = b"\xff"

    run(mail.database, spoil)
    with pytest.raises(CommandError, match=r"3 items of 'mail' cannot be decoded") as caught:
        call("queue_drain", "mail", "--output", str(file), "--batch=100")
    assert caught.value.returncode == 1
    assert numbers(file) == list(range(ITEMS))
    assert mail.counts().dead == 3
    assert all("undecodable" in item.reason for item in mail.iterate(state="dead"))


def test_interrupted(processes, manage, file):
    """Ctrl-C ends it with 130 between two batches: nothing is held, and --resume goes on."""
    mail = fdbqueue.queue("mail")
    mail.push_many({"number": number} for number in range(20_000))
    arguments = "queue_drain", "mail", "--output", str(file), "--batch=20"
    process = processes.start(*arguments)
    wait_until(
        lambda: process.poll() is None and file.exists() and file.stat().st_size, DEADLINE_SECONDS
    )
    process.send_signal(signal.SIGINT)
    done = processes.finish(process)
    written = len(numbers(file))
    assert done.returncode == 130
    assert done.stderr == f"CommandError: Interrupted. Drained {written:,} items from 'mail'.\n"
    assert len(list(mail)) == mail.size() == 20_000 - written
    assert manage(*arguments, "--resume", "--batch=5000").returncode == 0
    assert numbers(file) == list(range(20_000))


def test_a_dry_run(call, file, mail):
    """It says what would be done and how many, and does nothing; what is wrong it refuses."""
    printed = call("queue_drain", "mail", "--output", str(file), "--dry-run", "--limit=7")
    assert printed == (f"Would drain 7 items from 'mail' to {file}.\n", "")
    assert not file.exists()
    printed = call("queue_drain", "mail", "--discard", "--dry-run", "--json")
    assert json.loads(printed.out) == {"queue": "mail", "would_drain": ITEMS, "to": "nowhere"}
    assert mail.size() == ITEMS
    file.touch()
    with pytest.raises(CommandError):
        call("queue_drain", "mail", "--output", str(file), "--dry-run")
