"""``engine_copy``: everything comes along, once, whatever kills it; and nobody works on a part."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from django.conf import settings as django_settings
from django.test import override_settings

import fdbqueue
from fdbqueue import conf
from fdbqueue.engines import embedded
from fdbqueue.exceptions import ConfigurationError
from fdbqueue.service import Catalog, QueueSpec, Side, WorkerCounts, run, worker_here
from fdbqueue.service.tools import engine_copy
from fdbqueue.service.tools.engine_copy import CopyRefused
from fdbqueue.tasks.compat import task_backends
from fdbqueue.tasks.task_worker import TaskWorker
from tests.cases import cases
from tests.commands.conftest import ROOT
from tests.commands.copy_project import CLUSTER_FILE, TASKS, setting_at, spaces
from tests.concurrency.census import assert_counted
from tests.engines.children import wait_until
from tests.faulty_database import FaultyDatabase

PREFIX = "engine-copy-" + secrets.token_hex(4)
#: So small that what the tests store takes some forty transactions.
PORTION_BYTES = 2_000
#: When a process is killed: by the number of its transactions that write, marks among them.
DEATHS = [("before", 1), ("after", 1), ("before", 2), ("after", 2), ("after", 1), ("before", 2)]
DEATHS += [("after", n) for n in (3, 1, 4, 2, 3, 1)]
APPS = [*django_settings.INSTALLED_APPS]


def environment(place, **more):
    """Return the environment of a process whose setting names an engine."""
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.commands.copy_settings",
        "FDBQUEUE_TEST_AT": str(place),
        "FDBQUEUE_TEST_PREFIX": PREFIX,
        "FDBQUEUE_TEST_PORTION": str(PORTION_BYTES),
        "PYTHONWARNINGS": "error",
        **more,
    }


def database_at(place):
    """Return the database, which does not look at marks."""
    setting = setting_at(str(place), PREFIX)
    database = conf.importlib.import_module(setting["ENGINE"]).open(**setting["OPTIONS"])
    database.refuse_marked_at(None)
    return database


def stored(place):
    """Return all rows at a place, and let go of its file."""
    database = database_at(place)
    mark = Catalog(database, ("fdbqueue-test", PREFIX), []).mark
    database.refuse_marked_at(None)
    found = {}
    for space in spaces(PREFIX):
        following, end = space.key(), space.key() + b"\xff\xff"
        while rows := run(
            database,
            lambda tr, a=following, b=end: [
                (bytes(row.key), bytes(row.value)) for row in tr.get_range(a, b, limit=5_000)
            ],
            read_only=True,
        ):
            found.update(rows)
            following = rows[-1][0] + b"\x00"
    found.pop(mark, None)
    close(database)
    return found


def close(database):
    if hasattr(database, "close"):
        database.close()


def empty(place):
    for space in spaces(PREFIX):
        run(database_at(place), lambda tr, s=space: tr.clear_range(s.key(), s.key() + b"\xff\xff"))


@contextlib.contextmanager
def project(place):
    """Let this process be one of the project, with its queues at a place."""
    setting = setting_at(str(place), PREFIX)
    with override_settings(INSTALLED_APPS=APPS, FDBQUEUE=setting, TASKS=TASKS):
        yield
        close(conf.database())


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A file with all that there may be, which a worker process has half done and left."""
    path = tmp_path_factory.mktemp("model") / "queues.sqlite3"
    command = [sys.executable, "-m", "tests.commands.copy_project"]
    env = environment(path, PYTHONWARNINGS="")
    subprocess.run(command, cwd=ROOT, env=env, check=True, timeout=120)
    copy = path.with_name("model.sqlite3")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return copy


@pytest.fixture
def old(model, tmp_path):
    """A file of queues that nobody uses."""
    path = tmp_path / "old.sqlite3"
    shutil.copy(model, path)
    return path


@pytest.fixture
def new(tmp_path):
    """A place for a file that is not there yet."""
    return tmp_path / "new.sqlite3"


@pytest.fixture
def manage_at(processes):
    """Run a command of the project whose queues are at a place, as a process."""

    def manage_at(place, *arguments, **more):
        return processes.run(*arguments, env=environment(place, **more))

    return manage_at


def copied(manage_at, source, target):
    """Copy by one command, and return what it printed."""
    ended = manage_at(target, "engine_copy", str(source), "--no-input", "--json")
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def copied_under_kills(manage_at, source, target):
    """Copy by thirteen commands, twelve of which are killed on the way; return what it printed."""
    assert len(DEATHS) == 12
    for when, number in DEATHS:
        dies = f"{when} {number}"
        command = ("engine_copy", str(source), "--no-input")
        ended = manage_at(target, *command, FDBQUEUE_TEST_DIES=dies)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
    return copied(manage_at, source, target)


@pytest.mark.parametrize("middle", ["file", *(["cluster"] if CLUSTER_FILE else [])])
def test_there_and_back_under_kills(middle, old, new, tmp_path, manage_at):
    """Killed twelve times each way, all rows are there, and each thing goes on as it was."""
    place = CLUSTER_FILE if middle == "cluster" else new
    if middle == "cluster":
        empty(place)
    last = tmp_path / "last.sqlite3"
    before = stored(old)
    assert len(before) > 700
    try:
        census = copied_under_kills(manage_at, old, place)
        assert stored(place) == before
        assert census["keys"] == len(before)
        assert census["bytes"] == sum(len(key) + len(value) for key, value in before.items())
        again = copied_under_kills(manage_at, place, last)
        assert again == census
        assert stored(last) == before
        for moved, there in ((old, place), (place, last)):
            for command in ("queue_list", "queue_doctor"):
                ended = manage_at(moved, command)
                assert ended.returncode == 1
                assert (
                    f"its queues were moved to the {'file' if there != CLUSTER_FILE else ''}"
                    in (ended.stderr)
                )
                assert str(there) in ended.stderr
    finally:
        if middle == "cluster":
            empty(place)
    with project(last):
        check_goes_on()


def check_goes_on():
    """Use what was half done: leases, delays, keys, answers, groups."""
    queue = fdbqueue.queue
    for name in conf.catalog().names():
        assert_counted(queue(name))
    mail = queue("mail")
    assert {str(one.value) for one in mail.page(state="delayed").items} >= {"later", "still later"}
    leased = mail.page(state="leased").items
    assert {one.worker for one in leased} == {"one that dies"}
    for number in range(5):
        before = mail.size()
        mail.push("again", unique=f"key-{number}")
        mail.push("answered", once=f"answer-{number}")
        assert mail.size() == before
    assert mail.counts().dead == mail.redrive(limit=100)
    assert mail.history()
    assert queue("tuples").paused().reason == "seen"
    assert fdbqueue.family("user-*").paused().reason == "night"
    fdbqueue.family("user-*").resume()
    assert queue("user-0").lease() is None  # its only lease is held
    assert queue("user-1").lease().value == 0
    assert len([*queue("quakes").by_priority()]) == queue("quakes").size()
    assert queue("own").pop_many(100)[-1].value == 19
    backend = task_backends["default"]
    TaskWorker(backend, ["default"], threads=2, follow=False).run()
    counts = backend.queue("default").counts()
    assert (counts.ready, counts.leased, counts.delayed, counts.dead) == (0, 0, 1, 1)


@cases("name", ["orders", "ranked-orders", "sharded"])
def test_pushes_after_the_copy_come_after(name, old, tmp_path, manage_at):
    """Versions of the file that are far ahead of the new one's are not given again."""
    new = tmp_path / f"new-{name}.sqlite3"
    ahead = tmp_path / f"ahead-{name}.sqlite3"
    with closing(sqlite3.connect(old)) as source, closing(sqlite3.connect(ahead)) as target:
        source.backup(target)
    database = database_at(ahead)
    database.advance_version(10**15)
    with project(ahead):
        fdbqueue.queue(name).push("last")
        before = [item.value for item in fdbqueue.queue(name).page(limit=100).items]
    copied(manage_at, ahead, new)
    with project(new):
        queue = fdbqueue.queue(name)
        for number in range(3):
            queue.push(f"new-{number}")
        found = [item.value for item in queue.page(limit=100).items]
        new_ones = [value for value in found if str(value).startswith("new")]
        assert new_ones == ["new-0", "new-1", "new-2"]
        assert [value for value in found if value not in new_ones] == before
        if name != "ranked-orders":  # there they are of the first priority
            assert found[-3:] == new_ones
        else:
            level = [item.value for item in queue.page(limit=100, max_priority=0).items]
            assert level[-3:] == new_ones


@pytest.mark.skipif(not CLUSTER_FILE, reason="needs a cluster")
def test_a_cluster_behind_is_refused(old, manage_at):
    """A cluster cannot be advanced from here: its operator is told how, and nothing is written."""
    empty(CLUSTER_FILE)
    database = database_at(old)
    database.advance_version(2**60)
    run(database, lambda tr: tr.set(b"other", b""), wrote=False)
    close(database)
    ended = manage_at(CLUSTER_FILE, "engine_copy", str(old), "--no-input")
    assert ended.returncode == 1
    assert "fdbcli --exec 'advanceversion 11529215" in ended.stderr
    assert stored(CLUSTER_FILE) == {}
    assert manage_at(old, "queue_list").returncode == 0


def test_the_source_is_in_use_until_all_is_copied(old, new, manage_at):
    """A copy that was killed leaves the target refused, and the source as it was."""
    command = ("engine_copy", str(old), "--no-input")
    assert manage_at(new, *command, FDBQUEUE_TEST_DIES="after 12").returncode == -signal.SIGKILL
    ended = manage_at(new, "queue_pop", "mail")
    assert ended.returncode == 1
    assert f"queues are being copied to it from the file {old}: run manage.py" in ended.stderr
    assert manage_at(old, "queue_pop", "blobs").returncode == 0
    ended = manage_at(new, *command)
    assert ended.returncode == 1
    assert "They differ: " in ended.stderr
    assert manage_at(old, "queue_pop", "blobs").returncode == 0
    for path in new.parent.glob("new.sqlite3*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    copied(manage_at, old, new)
    assert stored(new) == stored(old)


def test_killed_as_it_ends(old, new, manage_at, monkeypatch):
    """Killed after the source is marked as moved, it has only to let processes use the target."""
    command = ("engine_copy", str(old), "--no-input")
    monkeypatch.setattr(engine_copy, "PORTION_BYTES", PORTION_BYTES)
    with project(old):
        side = Side(conf.database(), "old")
        portions = len([*conf.catalog().copy_from(side, "old")._portions(side, b"", ignore)])
    dies = f"after {portions + 2}"  # a mark is written before, and one after
    assert manage_at(new, *command, FDBQUEUE_TEST_DIES=dies).returncode == -signal.SIGKILL
    assert "were moved" in manage_at(old, "queue_list").stderr
    assert "copied to it from" in manage_at(new, "queue_list").stderr
    copied(manage_at, old, new)
    assert manage_at(new, "queue_list").returncode == 0
    ended = manage_at(new, *command)
    assert ended.returncode == 1
    assert "its queues were moved to the file" in ended.stderr


BAD = {
    "no such file": ("missing.sqlite3", "No such file"),
    "a folder": (".", "Is a directory"),
    "a text": ("text", "neither a file of queues nor a cluster file"),
    "an empty file": ("empty", "neither a file of queues nor a cluster file"),
    "another program's": ("other.sqlite3", "another program's SQLite file"),
    "another version's": ("version.sqlite3", "its schema is version 1, not 2"),
    "no queues": ("none.sqlite3", "has nothing under the setting's PREFIX"),
    "itself": ("new.sqlite3", "is what the setting names"),
    "itself by a link": ("link.sqlite3", "is what the setting names"),
}


@pytest.fixture
def bad_files(old, new, tmp_path):
    """Files that cannot be copied, and one of queues for a setting."""
    (tmp_path / "text").write_text("a text\n")
    (tmp_path / "empty").touch()
    (tmp_path / "link.sqlite3").symlink_to(new)
    with closing(sqlite3.connect(tmp_path / "other.sqlite3")) as other:
        other.execute("CREATE TABLE kv (key)")
    shutil.copy(old, tmp_path / "version.sqlite3")
    with closing(sqlite3.connect(tmp_path / "version.sqlite3")) as version:
        version.execute("PRAGMA user_version = 1")
    for path in (tmp_path / "none.sqlite3", new):
        database = embedded.open(path)
        run(database, lambda tr: tr.set(b"a", b"b"), read_only=True)
        database.close()
    return tmp_path


@cases(("name", "text"), BAD.values())
def test_bad_input(name, text, bad_files, new, call):
    """What cannot be copied is refused in a sentence, and nothing is written."""
    with project(new):
        said = call(
            "engine_copy",
            str(bad_files / name),
            "--no-input",
            code={"other.sqlite3": 4, "version.sqlite3": 4, "none.sqlite3": 1}.get(name, 2),
        )
    assert text in said
    assert "Traceback" not in said
    assert not (bad_files / "missing.sqlite3").exists()
    assert not (bad_files / "other.sqlite3-sync").exists()


def test_a_target_with_queues_is_refused(old, new, call):
    """What is there is of others, and stays."""
    with project(new):
        fdbqueue.queue("mail").push("here")
        said = call("engine_copy", str(old), "--no-input", code=1)
        assert f"the file {new} has other keys" in said
        assert fdbqueue.queue("mail").pop().value == "here"


def test_what_is_in_use_is_refused(old, new, processes, manage_at):
    """A process that has opened either file is named if it is a worker, and nothing is written."""
    for used, other in ((old, new), (new, old)):
        handler = "--handler=tests.commands.handlers.note"
        worker = ("queue_work", "orders", handler, "--worker", "a worker")
        process = processes.start(*worker, env=environment(used))
        database = database_at(used)
        rows = Catalog(database, ("fdbqueue-test", PREFIX), []).presences
        database.refuse_marked_at(None)
        wait_until(lambda rows=rows: [one for one in rows.read().rows if one.name == "a worker"])
        close(database)
        ended = manage_at(new, "engine_copy", str(old), "--no-input")
        assert ended.returncode == 1, other
        assert f"the file {used} is in use, by a worker ({process.pid} on" in ended.stderr
        process.kill()
        process.wait()
    ended = manage_at(new, "engine_copy", str(old), "--no-input")
    assert "has other keys" in ended.stderr  # the worker's row
    assert manage_at(old, "queue_list").returncode == 0


def test_it_asks_first(old, new, manage_at):
    """Without a terminal it needs --no-input."""
    ended = manage_at(new, "engine_copy", str(old))
    assert ended.returncode == 2
    assert f"Copy all queues from the file {old} to the file {new}?" in ended.stderr
    assert manage_at(old, "queue_list").returncode == 0


# In this process


SPECS = [QueueSpec("mail", "fifo"), QueueSpec("orders", "fifo", order="commit")]


@pytest.fixture
def sides(tmp_path, monkeypatch):
    """Two files, the first with queues; portions of one row or two."""
    monkeypatch.setattr(engine_copy, "PORTION_BYTES", 150)
    source, target = (embedded.open(tmp_path / name) for name in ("a.sqlite3", "b.sqlite3"))
    catalog = Catalog(source, ("p",), SPECS)
    catalog.queue("mail").push_many(range(20))
    catalog.queue("orders").push_many(range(20))
    return source, target


def copy_of(source, target, name="a"):
    return Catalog(target, ("p",), SPECS).copy_from(Side(source, name), "b")


def ignore(_):
    """Show no progress."""


class Stopped(Exception):
    """The copy is stopped."""


def copy_some(copy, portions):
    """Copy some portions more."""
    left = iter(range(portions - 1))

    def stop(_):
        if next(left, None) is None:
            raise Stopped

    with pytest.raises(Stopped):
        copy.copy(stop)


def finished(copy):
    copy.begin(ignore)
    copy.copy(ignore)
    return copy.finish(ignore)


@pytest.mark.parametrize("took_effect", [True, False])
def test_commits_of_unknown_outcome(took_effect, sides):
    """Transactions that write end unknown, and are made again, or found."""
    source, target = (FaultyDatabase(one) for one in sides)
    copy = copy_of(source, target)
    target.fail_commits(took_effect=took_effect)
    keys = copy.begin(ignore)
    assert target.happened == 1
    target.fail_commits(took_effect=took_effect, times=5)
    copy.copy(ignore)
    for side in (source, target):
        side.fail_commits(took_effect=took_effect)
    assert copy.finish(ignore).keys == keys
    assert (source.happened, target.happened) == (1, 7)
    assert Catalog(target, ("p",), SPECS).queue("mail").size() == 20


def test_it_goes_on_where_it_was(sides):
    """What is left to be copied is told, and is copied."""
    copy = copy_of(*sides)
    keys = copy.begin(ignore)
    copy_some(copy, 3)
    again = copy_of(*sides)
    assert 0 < again.begin(ignore) < keys
    copied = []
    again.copy(copied.append)
    assert 0 < sum(copied) < keys
    assert again.finish(ignore).keys == keys


def test_versions_that_the_source_gives_meanwhile(sides):
    """What is pushed to the source while nobody copies comes before what is pushed afterwards."""
    source, target = sides
    copy = copy_of(source, target)
    copy.begin(ignore)
    copy_some(copy, 1)
    source.advance_version(10**15)
    Catalog(source, ("p",), SPECS).queue("orders").push("late")
    copy.copy(ignore)
    copy.finish(ignore)
    orders = Catalog(target, ("p",), SPECS).queue("orders")
    orders.push("new")
    assert [item.value for item in orders.pop_many(30)] == [*range(20), "late", "new"]


class WithoutFile:
    """A database that has only what a cluster has, too."""

    def __init__(self, database):
        self.create_transaction = database.create_transaction


def test_versions_of_a_cluster_that_is_behind(sides):
    """It cannot be advanced from here: its operator is told how, and nothing is written."""
    source, target = sides
    source.advance_version(10**15)
    Catalog(source, ("p",), SPECS).queue("orders").push("late")
    version = source.create_transaction().get_read_version().wait()
    for copy in (copy_of(source, WithoutFile(target)), copy_of(source, WithoutFile(target))):
        with pytest.raises(
            CopyRefused, match=f"First run: fdbcli --exec 'advanceversion {version}'"
        ):
            copy.begin(ignore)
    assert run(target, lambda tr: [*tr.get_range(b"", b"\xff")], read_only=True) == []
    target.advance_version(version)
    run(target, lambda tr: tr.set(b"other", b""), wrote=False)
    assert finished(copy_of(source, WithoutFile(target)))


def test_workers_of_a_cluster(sides):
    """A worker that was alive is named, until its row is gone or old."""
    source, target = WithoutFile(sides[0]), sides[1]
    about = worker_here("a worker", "items", "mail", threads=1)
    presence = Catalog(source, ("p",), SPECS).presences.of(about, lambda: WorkerCounts(0, 0, 0))
    with presence:
        rows = Catalog(source, ("p",), SPECS).presences
        wait_until(lambda: rows.read().rows)
        with pytest.raises(CopyRefused, match=f"a is in use, by a worker \\({os.getpid()} on"):
            copy_of(source, target).check()
    assert finished(copy_of(source, target))


def test_two_commands_at_once(sides):
    """The one that finds a portion that is not its own stops, and has changed nothing."""
    one, other = copy_of(*sides), copy_of(*sides)
    one.begin(ignore)
    other.begin(ignore)

    def meanwhile(_):
        copy_some(other, 2)

    with pytest.raises(CopyRefused, match="has just written to b"):
        one.copy(meanwhile)
    other.copy(ignore)
    other.finish(ignore)


def test_a_write_meanwhile_is_found(sides):
    """Both sides are compared: the source stays in use, and nothing of it is lost."""
    source, target = sides
    copy = copy_of(source, target)
    copy.begin(ignore)
    copy_some(copy, 2)
    Catalog(source, ("p",), SPECS).queue("mail").pop()
    copy.copy(ignore)
    with pytest.raises(CopyRefused, match=r"They differ: a has .*remove all that b has"):
        copy.finish(ignore)
    source.close()
    assert Catalog(source, ("p",), SPECS).queue("mail").pop().value == 1
    run(target, lambda tr: tr.clear_range(b"", b"\xff"), wrote=False)
    assert finished(copy_of(source, target))


def test_a_part_of_another_copy_is_refused(sides, tmp_path):
    """A target is not filled from another source, and a moved source is not moved again."""
    source, target = sides
    third = embedded.open(tmp_path / "c.sqlite3")
    Catalog(third, ("p",), SPECS).queue("mail").push(1)
    copy = copy_of(source, target)
    copy.begin(ignore)
    with pytest.raises(CopyRefused, match="b: queues are being copied to it from a"):
        copy_of(third, target, "c").check()
    copy.copy(ignore)
    copy.finish(ignore)
    fourth = Catalog(embedded.open(tmp_path / "d.sqlite3"), ("p",), SPECS)
    for catalog, name in ((fourth, "d"), (Catalog(target, ("p",), SPECS), "b")):
        bad = catalog.copy_from(Side(source, "a"), name)
        with pytest.raises(CopyRefused, match="a: its queues were moved to b on"):
            bad.check()


def test_who_opens_the_source_as_it_ends_is_seen(sides, processes):
    """A process that has opened the source before its mark was there keeps it in use."""
    source, target = sides
    copy = copy_of(source, target)
    copy.begin(ignore)
    copy.copy(ignore)
    code = "import sys; from fdbqueue.engines import embedded; d = embedded.open(sys.argv[1]);"
    code += "d.create_transaction()[b''].wait(); print('open', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, source.path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"open\n"
        with pytest.raises(CopyRefused, match="a is in use"):
            copy.finish(ignore)
        process.communicate(b"")
    source.close()
    assert Catalog(source, ("p",), SPECS).queue("mail").size() == 20
    assert finished(copy_of(source, target))


def test_other_prefixes_stay_out(sides):
    """Another project of the same file is neither copied nor refused."""
    source, target = sides
    Catalog(source, ("other",), SPECS).queue("mail").push("theirs")
    finished(copy_of(source, target))
    source.close()
    assert Catalog(source, ("other",), SPECS).queue("mail").pop().value == "theirs"
    source.close()
    with pytest.raises(ConfigurationError, match="its queues were moved to b"):
        Catalog(source, ("p",), SPECS).queue("mail").size()
    assert Catalog(target, ("other",), SPECS).queue("mail").pop() is None


def test_a_prefix_of_nothing(tmp_path):
    """With an empty PREFIX all keys are the project's; a subspace within is copied once."""
    source, target = (embedded.open(tmp_path / name) for name in ("a.sqlite3", "b.sqlite3"))
    specs = [*SPECS, QueueSpec("own", "fifo", subspace=("here",))]
    Catalog(source, (), specs).queue("own").push_many(range(9))
    copy = Catalog(target, (), specs).copy_from(Side(source, "a"), "b")
    assert copy._ranges == [(b"", b"\xff")]
    finished(copy)
    assert Catalog(target, (), specs).queue("own").size() == 9
