"""``queue_doctor``."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys

import fdb.tuple
import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import override_settings
from fdb.subspace_impl import Subspace

import fdbqueue
from fdbqueue import conf
from fdbqueue.management import findings
from fdbqueue.management.findings import Finding, check_engine
from fdbqueue.service import FifoQueue, IdempotencyKey, run
from fdbqueue.service import clock as service_clock
from fdbqueue.service.tools.examination import Examiner
from fdbqueue.service.transactions import receipts_of
from tests.concurrency.census import assert_counted
from tests.concurrency.conftest import clock
from tests.concurrency.requests import ask
from tests.faults.faulty import Fault, Faulty
from tests.injection import time_ahead

__all__ = ["clock"]

CHECKS = ["format", "pause", "attention", "overdue", "items", "counts"]
#: Of the queues that are named, or of all.
NAMED = ["load"]
#: The checks of the embedded engine's file.
FILE = [] if "FDB_CLUSTER_FILE" in os.environ else ["file", "disk"]


@pytest.fixture(autouse=True)
def roomy(monkeypatch):
    """The disk of whoever runs the tests has room enough."""
    monkeypatch.setattr(findings, "_LOW_BYTES", 0)
    monkeypatch.setattr(findings, "_LOW_SHARE", 0)


@pytest.fixture
def examine():
    """Run the command, and return its exit code and what it found, by check."""

    def examine(*arguments):
        out = io.StringIO()
        code = 0
        try:
            call_command("queue_doctor", *arguments, "--json", stdout=out)
        except CommandError as error:
            code = error.returncode
        found = [json.loads(line) for line in out.getvalue().splitlines()]
        return code, {record["check"]: record for record in found}

    return examine


@pytest.fixture
def mail():
    """A FIFO queue with ten items, and one popped: else it needs attention in the next minute."""
    queue = fdbqueue.queue("mail")
    queue.push("before")
    queue.pop()
    queue.push_many(range(10))
    return queue


def write(rows):
    """Write rows as somebody does who knows nothing of this package."""
    run(conf.database(), lambda tr: [tr.set(key, value) for key, value in rows.items()])


def status(found):
    return {check: record["status"] for check, record in found.items()}


def test_all_is_well(examine, mail):
    """Each check has its line, and the exit code is 0."""
    mail.lease(seconds=600)
    mail.push("later", delay=600)
    quakes = fdbqueue.queue("quakes")
    quakes.push_many([("a", 1.5), ("b", -1), ("c", -2)])
    quakes.pop()
    code, found = examine("mail", "quakes")
    assert code == 0
    assert set(status(found).values()) == {"ok"}
    assert list(found) == ["settings", "engine", *FILE, "receipts", *NAMED, *CHECKS]
    assert " ms, a commit " in found["engine"]["detail"]


def test_a_member_that_its_family_does_not_find(examine):
    """Its row is written again."""
    member = fdbqueue.queue("user-7")
    FifoQueue(member.database, member.subspace).push(1)
    assert fdbqueue.pop_from(["user-*"]) is None
    code, found = examine("user-7")
    assert (code, found["family"]["status"]) == (1, "error")
    assert "do not find its items" in found["family"]["detail"]
    code, found = examine("user-7", "--repair", "--no-input")
    assert (code, found["family"]["is_repaired"]) == (0, True)
    assert examine("user-7")[1]["family"]["status"] == "ok"
    assert fdbqueue.pop_from(["user-*"]).value == 1


def test_a_paused_queue(examine, mail):
    """It is a warning that says since when and why; what has expired waits, and --repair resumes
    nothing."""
    mail.lease(seconds=0)
    mail.pause(reason="deploying")
    code, found = examine("mail", "--repair", "--no-input")
    assert (code, found["pause"]["status"], found["pause"]["is_repaired"]) == (0, "warning", False)
    assert found["pause"]["detail"].endswith(" UTC: deploying")
    assert "once the queue is resumed, the next pop or lease" in found["overdue"]["detail"]
    assert mail.paused() is not None


def test_the_table(manage, mail):
    """People get a row for each check; one row tells of all queues of which it found the same."""
    done = manage("queue_doctor")
    assert (done.returncode, done.stderr) == (0, "")
    heading, *rows = done.stdout.splitlines()
    assert heading.split() == ["STATUS", "CHECK", "QUEUE", "FOUND", "REMEDY"]
    assert len(rows) == 6 + len(FILE) + len(CHECKS) + 1
    assert all(row.startswith("OK ") for row in rows)
    shown = [re.split("  +", row)[1:4] for row in rows]
    at = 5 + len(FILE)
    assert shown[at] == ["format", "5 queues", "nothing is stored yet"]
    assert shown[at + 1][:2] == ["format", "mail"]
    assert shown[at + 2] == ["pause", "6 queues", "the queue is not paused"]
    engine = rows[1]
    on_cluster = os.environ.get("FDB_CLUSTER_FILE")
    engines = r"FoundationDB 7[.\d]+, server processes: \d+;" if on_cluster else r"SQLite [.\d]+;"
    assert re.search(engines, engine)


@pytest.mark.parametrize("names", [["quakes", "mail"], ["mail", "quakes"]])
def test_a_row_tells_of_no_queue_what_was_found_of_another(mail, names):
    """Of one with items it is not said that nothing is stored, whichever comes first."""
    fdbqueue.queue("user-1").push(1)
    out = io.StringIO()
    call_command("queue_doctor", *names, stdout=out)
    rows = [re.split("  +", row) for row in out.getvalue().splitlines()]
    texts = {row[2]: row[3] for row in rows if row[1] == "format"}
    assert texts["quakes"] == "nothing is stored yet"
    assert texts["mail"].startswith("as the setting says; stored: ")
    out = io.StringIO()
    call_command("queue_doctor", *names, "user-1", stdout=out)
    rows = [re.split("  +", row) for row in out.getvalue().splitlines()]
    assert ["OK", "format", "2 queues", "as the setting says", "-"] in rows


@pytest.mark.skipif("FDB_CLUSTER_FILE" in os.environ, reason="a cluster has no file")
def test_a_file_that_is_mostly_free(examine, mail, monkeypatch):
    """How much of it is said, and how it is made smaller, which it is then."""
    monkeypatch.setattr(findings, "_MUCH_FREE_BYTES", 100_000)
    _, found = examine("mail")
    assert found["file"]["status"] == "ok"
    assert re.fullmatch(
        r"\d\.\d MB, of which \d+% are unused and are filled first", found["file"]["detail"]
    )
    mail.push_many(["x" * 50_000] * 20)
    size, _free = conf.database().file_sizes()
    mail.clear()
    code, found = examine("mail")
    assert (code, found["file"]["status"]) == (0, "warning")
    command = found["file"]["detail"].partition("and run: ")[2]
    conf.database().close()
    done = subprocess.run(["sh", "-c", command.replace("python", sys.executable, 1)], check=False)
    assert done.returncode == 0
    smaller, free = conf.database().file_sizes()
    assert smaller < size / 2
    assert free == 0
    assert mail.push(1).value == 1


def test_problems_come_first(mail):
    """Errors, then warnings, each with the command that helps; then what is well."""
    fdbqueue.queue("quakes").pause()
    write({mail.subspace.pack((99, b"r")): b"\xff"})
    out = io.StringIO()
    with pytest.raises(CommandError, match=r"^2 checks found an error\.$"):
        call_command("queue_doctor", stdout=out)
    rows = [re.split("  +", row) for row in out.getvalue().splitlines()[1:]]
    assert [row[:3] for row in rows[:4]] == [
        ["ERROR", "items", "mail"],
        ["ERROR", "counts", "mail"],
        ["WARNING", "pause", "quakes"],
        ["OK", "settings", "-"],
    ]
    assert [row[-1] for row in rows[:4]] == [
        "manage.py queue_doctor mail --repair",
        "manage.py queue_doctor mail --repair",
        "manage.py queue_resume quakes",
        "-",
    ]
    assert ["OK", "items", "5 queues", "all can be decoded", "-"] in rows


def test_what_was_repaired(mail):
    """It is shown before what was well, and there is nothing to do about it."""
    write({mail.subspace.pack((99, b"r")): b"\xff"})
    out = io.StringIO()
    call_command("queue_doctor", "mail", "--repair", "--no-input", stdout=out)
    first = re.split("  +", out.getvalue().splitlines()[1])
    assert (first[:3], first[-1]) == (["REPAIRED", "items", "mail"], "-")


@pytest.mark.parametrize("name", ["mail", "quakes"])
def test_counts_that_are_wrong(examine, name):
    """They are an error; --repair counts anew."""
    queue = fdbqueue.queue(name)
    queue.push_many(range(5) if name == "mail" else [(n, n) for n in range(5)])
    places = queue.subspace.range()
    run(queue.database, lambda tr: tr.clear(next(iter(tr.get_range(*_pair(places)))).key))
    code, found = examine(name)
    assert (code, found["counts"]["status"]) == (1, "error")
    assert "5 ready, but there are 4" in found["counts"]["detail"]
    code, found = examine(name, "--repair", "--no-input")
    assert (code, found["counts"]["is_repaired"]) == (0, True)
    assert queue.size() == 4
    assert examine(name)[0] == 0
    assert_counted(queue)


def _pair(places):
    return places.start, places.stop


def test_priorities_that_are_counted_wrong(examine):
    """The counts by priority are compared, too."""
    queue = fdbqueue.queue("ranks")
    queue.push_many([("a", 1), ("b", 2)])
    level = queue.subspace.key() + b"\xff\x06"
    write({level + fdb.tuple.pack((1,)): (2).to_bytes(8, "little")})
    code, found = examine("ranks")
    assert (code, found["counts"]["detail"]) == (1, "the counts by priority differ")
    assert examine("ranks", "--repair", "--no-input")[0] == 0
    assert queue.by_priority() == [(1, 1), (2, 1)]


def test_items_that_cannot_be_decoded(examine, mail):
    """They are an error with their ids; --repair moves them to the dead letters."""
    write({mail.subspace.pack((index, b"\x00" * 20)): b"\xff" for index in (0, 5, 99)})
    code, found = examine("mail")
    assert (code, found["items"]["status"]) == (1, "error")
    assert found["items"]["detail"].startswith("3 cannot be decoded: ")
    code, found = examine("mail", "--repair", "--no-input")
    assert code == 0
    assert mail.counts().dead == 3
    assert [item.value for item in mail] == list(range(10))
    code, found = examine("mail")
    assert (code, found["items"]["status"]) == (0, "ok")


def test_what_is_overdue(examine, mail):
    """Leases, delays and handoffs that have expired are a warning; --repair puts them back."""
    ask(mail, "min", 2, seconds=1)
    popped = mail.pop().value
    mail.lease(seconds=0)
    mail.push("due", delay=0.001)
    while service_clock.now_us() <= max(_dues(mail)):
        pass
    code, found = examine("mail")
    assert (code, found["overdue"]["status"]) == (0, "warning")
    assert mail.counts().leased == 0 or "1 lease" in found["overdue"]["detail"]
    assert "1 handoff" in found["overdue"]["detail"]
    code, found = examine("mail", "--repair", "--no-input")
    assert (code, found["overdue"]["is_repaired"]) == (0, True)
    assert [item.value for item in mail] == [*({*range(10)} - {popped}), "due"]
    assert set(status(examine("mail")[1]).values()) == {"ok"}
    assert_counted(mail)


def _dues(queue):
    """Return the moments at which something of a queue falls due."""
    begin = queue.subspace.key() + b"\xff\x04"
    rows = run(queue.database, lambda tr: [row.key for row in tr.get_range(begin, begin + b"\xff")])
    return [int.from_bytes(key[len(begin) : len(begin) + 8], "big") for key in rows]


def test_receipts_of_clients_that_are_gone(examine, settings, a_day_later):
    """Those older than a day are a warning; --repair removes them."""
    receipts = Subspace((*settings.FDBQUEUE["PREFIX"], "receipt"))
    write({receipts.pack((b"gone", slot)): bytes(18) for slot in range(3)})
    code, found = examine("mail")
    assert (code, found["receipts"]["status"]) == (0, "warning")
    assert int(found["receipts"]["detail"].split()[0]) >= 3
    assert examine("mail", "--repair", "--no-input")[1]["receipts"]["is_repaired"]


def test_counts_of_a_queue_in_use(examine, mail, monkeypatch):
    """They cannot be compared, a warning; --repair counts them if others do not make that wrong."""
    places = mail.subspace.range()
    run(mail.database, lambda tr: tr.clear(next(iter(tr.get_range(*_pair(places)))).key))
    add_handed = Examiner._add_handed

    def while_others_push(*arguments, **named):
        fdbqueue.queue("mail").push("meanwhile")
        return add_handed(*arguments, **named)

    monkeypatch.setattr(Examiner, "_add_handed", while_others_push)
    code, found = examine("mail")
    assert (code, found["counts"]["status"]) == (0, "warning")
    monkeypatch.setattr(findings, "_COUNTED_IN_USE", 5)
    assert not examine("mail", "--repair", "--no-input")[1]["counts"]["is_repaired"]
    monkeypatch.setattr(findings, "_COUNTED_IN_USE", 50)
    assert examine("mail", "--repair", "--no-input")[1]["counts"]["is_repaired"]
    assert_counted(mail)


def test_saved_responses_that_have_expired(examine, clock):
    """They are counted, and --repair removes them, also of queues that no list shows."""
    for name in ("mail", "user-7"):
        fdbqueue.queue(name).pop_many(1, once=IdempotencyKey("short", kept_seconds=10))
    fdbqueue.pop_from(["user-*"], once=IdempotencyKey("short", kept_seconds=10))
    fdbqueue.queue("mail").push("kept", once=IdempotencyKey("long", kept_seconds=3_620))
    assert "user-7" not in conf.catalog().names()
    clock.advance(3_615)
    found = examine()[1]["responses"]
    assert (found["status"], found["detail"].split()[0]) == ("ok", "3")
    found = examine("--repair", "--no-input")[1]["responses"]
    assert (found["is_repaired"], found["detail"].endswith("; removed 3")) == (True, True)
    assert examine("--repair", "--no-input")[1]["responses"]["is_repaired"] is False
    assert fdbqueue.queue("mail").push("kept", once="long") == fdbqueue.queue("mail").peek()


def test_what_is_left_is_not_repaired():
    """A repair that leaves something is a warning still, and says what it did."""
    finding = Finding("overdue", "mail", "warning", "5 wait", lambda: ("requeued 3", False))
    repaired = finding.repaired()
    assert (repaired.status, repaired.is_repaired) == ("warning", False)
    assert repaired.detail == "5 wait; requeued 3, and some are left"


@pytest.mark.parametrize("seed", range(5))
def test_the_engine_is_tried_again(engine_error, seed):
    """What an engine may well answer is no error: the check commits as all else does."""
    faults = [Fault(1020, "before"), Fault(1021, "after")]
    faulty = Faulty(conf.database(), engine_error, seed=seed, rate=0.5, faults=faults)
    assert check_engine(faulty).check == "engine"
    assert not run(conf.database(), lambda tr: tr[_doctors_key()].present())


def _doctors_key():
    return receipts_of(conf.database()).pack((b"doctor",))


def test_subspaces_that_overlap(examine, settings):
    """The setting's problems are errors, each with its id."""
    queues = {
        "a": {"kind": "fifo", "subspace": ("x",)},
        "b": {"kind": "fifo", "subspace": ("x", "y")},
    }
    settings.FDBQUEUE = {**settings.FDBQUEUE, "QUEUES": queues}
    code, found = examine()
    assert code == 1
    assert list(found) == ["settings"]
    assert "fdbqueue.E012" in found["settings"]["detail"]


def test_an_unknown_queue(examine):
    """It is 3, before anything is looked at."""
    assert examine("none") == (3, {})


def test_the_time_is_over(examine, mail):
    """What could not be looked at in time is told, and the exit code is not 0."""
    code, found = examine("mail", "--timeout=0.000001")
    assert code in {1, 4}
    assert any("--timeout" in record["detail"] for record in found.values())


def test_an_engine_that_never_answers(processes):
    """It ends with 4 when the time is over, however the engine hangs."""
    processes.environment.pop("FDB_CLUSTER_FILE", None)
    done = processes.run(
        "queue_doctor",
        "--timeout=1",
        "--json",
        env={"FDBQUEUE_TEST_ENGINE": "tests.commands.hanging_engine"},
    )
    assert done.returncode == 4
    assert [json.loads(line)["check"] for line in done.stdout.splitlines()] == [
        "settings",
        "engine",
    ]
    assert "no answer within --timeout" in done.stderr


def test_an_engine_that_cannot_be_opened(processes, tmp_path):
    """It is 4, and the check of the engine says why."""
    processes.environment.pop("FDB_CLUSTER_FILE", None)
    path = str(tmp_path / "none" / "queues.sqlite3")
    done = processes.run("queue_doctor", env={"FDBQUEUE_PATH": path})
    assert done.returncode == 4
    assert "ERROR   engine" in done.stdout
    assert done.stderr == "CommandError: The engine cannot use its file\n"


# Settings


def other_setting(**queues):
    """Return the setting with other options of some queues."""
    return {**settings.FDBQUEUE, "QUEUES": {**settings.FDBQUEUE["QUEUES"], **queues}}


def test_a_queue_that_was_written_under_other_settings(examine, mail):
    """The error names both, says what to do, and keeps the doctor from looking at the items."""
    with override_settings(FDBQUEUE=other_setting(mail={"kind": "priority"})):
        code, found = examine("mail", "--repair", "--no-input")
    assert code == 1
    assert "items" not in found
    detail = found["format"]["detail"]
    assert "written under kind fifo, priority_type none" in detail
    assert "the setting here says kind priority, priority_type int" in detail
    assert "queue_doctor mail --adopt-settings" in detail
    assert [item.value for item in mail] == list(range(10))


def test_items_in_shards_where_nobody_looks(examine, mail):
    """They are an error, and nothing is taken for undecodable; --adopt-settings rescues them."""
    there = FifoQueue(mail.database, mail.subspace, shards=16).parts.store.keys
    here = mail.parts.store.keys
    places = [here.place_named(item.id) for item in mail.page(limit=4).items]
    rows = {there.key(place): b"" for place in places}

    def scatter(tr):
        for key, place in zip(rows, places, strict=True):
            tr[key] = bytes(tr[here.key(place)])
            tr.clear(here.key(place))

    run(mail.database, scatter)
    code, found = examine("mail", "--repair", "--no-input")
    assert (code, found["format"]["status"]) == (1, "error")
    assert found["format"]["detail"].startswith(
        "4 items in shards that the setting here leaves out"
    )
    assert found["format"]["remedy"] == "queue_doctor mail --adopt-settings"
    assert not found.keys() & {"items", "counts"}
    code, found = examine(*found["format"]["remedy"].split()[1:], "--no-input")
    assert (code, found["format"]["status"]) == (0, "ok")
    assert [item.value for item in mail.pop_many(20)] == list(range(10))


def test_settings_are_adopted_where_that_is_asked_for(examine, mail):
    """With the names of queues, and a question; then no check finds an error in the setting."""
    mail.clear()
    with override_settings(FDBQUEUE=other_setting(mail={"kind": "fifo", "codec": "bytes"})):
        for wrong in (("--adopt-settings",), ("mail", "--adopt-settings")):
            with pytest.raises(CommandError) as caught:
                call_command("queue_doctor", *wrong)
            assert caught.value.returncode == 2
        code, found = examine("mail", "--adopt-settings", "--no-input")
        assert (code, found["format"]["status"]) == (0, "ok")
        assert fdbqueue.queue("mail").push(b"bytes").size_bytes == 5


def test_nothing_is_buried_if_no_item_can_be_decoded(examine, mail):
    """As after a change of the codec: the finding asks whether it was that."""
    other = FifoQueue(mail.database, mail.subspace, codec="bytes")
    mail.clear()
    other.adopt_settings()
    other.push_many([b"\xff"] * 6)
    mail.adopt_settings()
    code, found = examine("mail", "--repair", "--no-input")
    assert (code, found["items"]["is_repaired"]) == (1, False)
    assert "written under other settings" in found["items"]["detail"]
    assert (mail.counts().ready, mail.counts().dead) == (6, 0)
    mail.push("one that can be decoded")
    code, found = examine("mail", "--repair", "--no-input")
    assert (code, found["items"]["is_repaired"]) == (0, True)
    assert found["counts"]["detail"] == "the counts are correct"
    assert (mail.counts().ready, mail.counts().dead) == (1, 6)


@pytest.mark.parametrize(("names", "number"), [((), r"\d+ queues"), (["mail"], "1 queue")])
def test_the_busiest_queue_is_named(examine, mail, names, number):
    """With its rate; also if queues are named."""
    fdbqueue.queue("quakes").push_many([("a", 1.5)])
    found = examine(*names)[1]["load"]
    said = r"busiest: mail, [\d.,]+ pushes and [\d.]+ pops a minute \(mean of 5 minutes\); "
    on_cluster = "" if FILE else r"; a queue without shards carries about 400 .* \d+% if each .*"
    assert found["status"] == "ok"
    assert re.fullmatch(f"{said}{number} looked at{on_cluster}", found["detail"])


def test_a_queue_that_gets_more_than_its_head_lets_through(mail, monkeypatch):
    """It is a warning on a cluster if its ready items grow; shards have another limit."""
    monkeypatch.setattr("fdbqueue.management.findings.HEAD_CARRIES", 0.001)

    def load():
        return findings.check_load(conf.catalog(), ["mail"], on_cluster=True)

    assert (load().status, load().queue) == ("warning", "mail")
    said = r"\d% if each has one item\. Its ready items grow: take more .*, or start more workers"
    assert re.search(said, load().detail)
    with override_settings(FDBQUEUE=other_setting(mail={"kind": "fifo", "shards": 4})):
        fdbqueue.queue("mail").adopt_settings()
        assert load().status == "ok"
        assert "a queue with shards carries about 5,000 transactions" in load().detail


def test_nothing_to_do_is_said(examine):
    """No queue was used."""
    _, found = examine()
    assert found["load"]["detail"].startswith("nothing was pushed or popped in 5 minutes; ")


@pytest.mark.parametrize("limit", [{"max_leased": 2}, {"rate": "2/d", "burst": 2}])
def test_queues_that_their_own_limits_hold(examine, mail, limit):
    """It says so once the oldest item has waited; not of one that is paused, or empty."""
    with override_settings(FDBQUEUE=other_setting(mail={"kind": "fifo", **limit})):
        queue = fdbqueue.queue("mail")

        def said():
            return examine("mail")[1]["attention"]["detail"].partition(" (")[0]

        queue.lease_many(2, seconds=6_000)
        assert said() == "no item waits too long, and none is dead"
        with time_ahead(1_800):
            assert said() == "At its limit"
            queue.pause()
            assert said() == "no item waits too long, and none is dead"
            queue.resume()
            queue.clear_state("ready")
            assert said() == "no item waits too long, and none is dead"


def test_what_the_list_says_of_a_queue(examine):
    """Each of its reasons is a warning with the command that helps, if no other check has it."""
    queue = fdbqueue.queue("mail")
    with time_ahead(-7_200):
        queue.push("old")
        queue.bury(queue.push("dead").id)
    queue.push("new")
    with time_ahead(60):
        out = io.StringIO()
        call_command("queue_doctor", "mail", stdout=out)
    rows = [re.split("  +", row) for row in out.getvalue().splitlines()]
    found = [row[3:] for row in rows if row[1] == "attention"]
    assert [(text.partition(":")[0], remedy) for text, remedy in found] == [
        ("Nothing takes items (2 h)", "manage.py queue_work mail --handler PATH"),
        ("Dead letters (1)", "manage.py queue_list mail --by-reason"),
    ]


@pytest.mark.skipif(not FILE, reason="a cluster's disks are its own")
def test_a_disk_that_is_soon_full(examine, monkeypatch):
    """It is a warning below a number of bytes, or a share; what is free is said."""
    found = examine()[1]["disk"]
    assert (found["status"], found["queue"]) == ("ok", None)
    assert re.fullmatch(r"/\S+ has [\d,]+\.\d MB free, \d+% of it", found["detail"])
    for name in ("_LOW_BYTES", "_LOW_SHARE"):
        with monkeypatch.context() as patch:
            patch.setattr(findings, name, 10**18)
            found = examine()[1]["disk"]
            assert found["status"] == "warning"
            assert "of it. Make room: pushes fail on a full disk" in found["detail"]
    monkeypatch.setattr(findings, "_LOW_BYTES", 10**18)
    monkeypatch.setattr("fdbqueue.engines.embedded.files.FULL_BYTES", 10**18)
    assert examine()[1]["disk"]["detail"].startswith("The disk is full: /")


def test_the_load_of_some_queues_is_read(examine, mail, monkeypatch):
    """However many there are."""
    monkeypatch.setattr("fdbqueue.management.findings.MAX_LOADS", 3)
    monkeypatch.setattr("fdbqueue.columns.queue_rows.QUEUES_AT_ONCE", 2)
    for number in range(5):
        fdbqueue.queue(f"user-{number}").push(1)
    assert "; 3 queues looked at" in examine()[1]["load"]["detail"]


@pytest.fixture
def type_in(monkeypatch):
    """Let standard input be a terminal at which a line was typed."""
    opened = []

    def type_in(line):
        controller, terminal = os.openpty()
        os.write(controller, line.encode() + b"\n")
        opened.extend([os.fdopen(controller, "wb"), os.fdopen(terminal)])
        monkeypatch.setattr(sys, "stdin", opened[-1])

    yield type_in
    for stream in opened:
        stream.close()


def test_a_repair_asks_first(mail, type_in):
    """It shows what it found; anything but yes changes nothing."""
    write({mail.subspace.pack((index, b"\x00" * 20)): b"\xff" for index in (0, 5)})
    type_in("no")
    out = io.StringIO()
    with pytest.raises(CommandError, match="Nothing was changed"):
        call_command("queue_doctor", "mail", "--repair", stdout=out)
    assert "2 cannot be decoded" in out.getvalue()
    assert mail.counts().dead == 0
    type_in("yes")
    call_command("queue_doctor", "mail", "--repair", stdout=out)
    assert mail.counts().dead == 2


def test_queues_that_are_not_in_the_setting_any_more(examine, settings):
    """They are named, and reached again once a name or a pattern fits."""
    fdbqueue.queue("user-1").push("x")
    assert examine()[1]["names"]["status"] == "ok"
    without = {k: v for k, v in settings.FDBQUEUE["QUEUES"].items() if k != "user-*"}
    settings.FDBQUEUE = {**settings.FDBQUEUE, "QUEUES": without}
    found = examine()[1]["names"]
    assert (found["status"], found["queue"]) == ("warning", None)
    assert "stored, but not in the setting: user-1;" in found["detail"]
    renamed = {**without, "us*": {"kind": "fifo"}}
    settings.FDBQUEUE = {**settings.FDBQUEUE, "QUEUES": renamed}
    assert fdbqueue.pop_from(["us*"]) is None  # the rows are in the index of the other pattern
    assert examine("us*")[1]["family"]["status"] != "ok"
    fdbqueue.queue("user-1").recount()
    assert fdbqueue.pop_from(["us*"]).value == "x"
