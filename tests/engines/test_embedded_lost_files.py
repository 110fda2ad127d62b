"""Files of a database in use that are deleted, moved away or replaced."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from fdbqueue.engines import embedded
from fdbqueue.engines.embedded import files
from fdbqueue.engines.embedded.files import CHECK_SECONDS
from fdbqueue.exceptions import EngineUnavailable
from tests.concurrency.clients import another
from tests.engines.alone import alone
from tests.engines.children import run

_DEADLINE_SECONDS = 60

_USE_WHEN_TOLD = """
from fdbqueue.exceptions import EngineUnavailable

def use(name, work):
    try:
        say(work())
    except EngineUnavailable as error:
        say("unavailable")

say("ready")
for line in sys.stdin:
    use("read", lambda: bytes(alone(database)[b"a"] or b"none").decode())
    use("write", lambda: run(database, lambda tr: tr.set(b"b", b"")) and "written")
"""


@pytest.fixture
def used(database, start):
    """A database with ``a`` set, in use here and by another process."""
    alone(database)[b"a"] = b"1"
    child = start(_USE_WHEN_TOLD)
    child.expect("ready")
    _works(child)
    return child


def _tell(child):
    child.tell()
    return child.line(), child.line()


def _works(*children):
    for child in children:
        assert _tell(child) == ("1", "written")


def _unavailable(database, *children):
    time.sleep(2 * CHECK_SECONDS)  # until a process looks again
    for use in (lambda: alone(database)[b"a"], lambda: alone(database).set(b"c", b"")):
        with pytest.raises(EngineUnavailable) as caught:
            use()
        assert caught.value.context["path"] == database.path
    for child in children:
        assert _tell(child) == ("unavailable", "unavailable")


def _another(path, tmp_path):
    other = tmp_path / "another.sqlite3"
    with closing(embedded.open(other)) as database:
        alone(database)[b"a"] = b"another"
    return other


def test_a_deleted_file_is_not_made_anew(database, path, start, used):
    """Reads and writes fail, in processes that had it open and in new ones; none makes a file."""
    path.unlink()
    _unavailable(database, used)
    new = start(_USE_WHEN_TOLD)
    new.expect("ready")
    _unavailable(database, used, new)
    assert not path.exists()


def test_a_file_that_was_moved_away_and_back(database, path, start, used):
    """It is used again, by every process, as soon as it is back under its name."""
    away = path.with_name("away")
    path.rename(away)
    new = start(_USE_WHEN_TOLD)
    new.expect("ready")
    _unavailable(database, used, new)
    away.rename(path)
    assert alone(database)[b"a"] == b"1"
    alone(database)[b"a"] = b"1"
    _works(used, new)


def test_a_file_replaced_by_another(database, path, start, used, tmp_path):
    """All fail, until those that had the old file open have ended or were started anew."""
    for suffix in ("", "-wal", "-shm"):
        os.rename(f"{path}{suffix}", f"{path}{suffix}.old")
    shutil.copy(_another(path, tmp_path), path)
    _unavailable(database, used)
    new = start(_USE_WHEN_TOLD)
    new.expect("ready")
    _unavailable(database, used, new)
    used.kill()
    database.close()  # as good as a new start
    assert alone(database)[b"a"] == b"another"
    assert _tell(new) == ("another", "written")


def test_a_transaction_does_not_go_over_to_another_file(database, path, used, tmp_path):
    """What was begun on the old file does not commit to the one that took its place."""
    transaction = database.create_transaction()
    transaction[b"a"].wait()
    transaction[b"mine"] = b""
    for suffix in ("", "-wal", "-shm"):
        os.rename(f"{path}{suffix}", f"{path}{suffix}.old")
    shutil.copy(_another(path, tmp_path), path)
    time.sleep(2 * CHECK_SECONDS)
    assert isinstance(transaction.commit().exception(), EngineUnavailable)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT key FROM kv").fetchall() == [(b"a",)]


@pytest.mark.parametrize("content", [b"", b"mine\n" * 1000])
def test_a_file_replaced_by_none_of_ours(database, path, start, used, content):
    """An empty file in its place is not filled, and a foreign one not touched."""
    path.unlink()
    path.write_bytes(content)
    new = start(_USE_WHEN_TOLD)
    new.expect("ready")
    _unavailable(database, used, new)
    assert path.read_bytes() == content


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_deleted_log(database, path, start, used, suffix):
    """All fail until they are started anew, and what the log held is not lost."""
    Path(f"{path}{suffix}").unlink()
    _unavailable(database, used)
    if suffix == "-wal":
        new = start(_USE_WHEN_TOLD)
        new.expect("ready")
        _unavailable(database, used, new)
    used.end_input()
    database.close()
    assert alone(database)[b"a"] == b"1"
    assert alone(database)[b"b"] == b""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize("what", ["turn", "turnstile", "used", "."])
def test_deleted_lock_files_are_made_anew(database, path, start, used, what):
    """Nothing fails or is lost: the next commit makes them, and watches fire as before."""
    sync = path.with_name(path.name + "-sync")
    transaction = database.create_transaction()
    watch = transaction.watch(b"b")
    transaction.commit().wait()
    fired = threading.Event()
    watch.on_ready(lambda _: fired.set())
    if what == ".":
        shutil.rmtree(sync)
    else:
        (sync / what).unlink()
    _works(used)
    alone(database)[b"c"] = b"1"
    run(database, lambda tr: tr.set(b"b", b"changed"))
    assert fired.wait(_DEADLINE_SECONDS)
    _works(used, start_ready(start))
    assert {"turn", "turnstile"} <= {name.name for name in sync.iterdir()}


def start_ready(start):
    """Return a new process that uses the file."""
    child = start(_USE_WHEN_TOLD)
    child.expect("ready")
    return child


def test_the_last_that_leaves_takes_the_log_with_it(database, monkeypatch):
    """Also while another joins, which has seen that the file is in use: then it is not lost."""
    lost = files.lost

    def lost_without_the_last(*arguments):
        database.close()
        return lost(*arguments)

    alone(database)[b"a"] = b"1"
    monkeypatch.setattr(files, "lost", lost_without_the_last)
    with closing(another(database)) as other:
        assert alone(other)[b"a"] == b"1"


def test_a_process_that_ends_by_itself_has_the_mark_for_longer(database, path, monkeypatch):
    """Its log is gone by then; who joins waits for that, and the file is not lost."""
    lost, looks = files.lost, []

    def lost_until_it_has_ended(*arguments):
        looks.append(1)
        if len(looks) == 3:
            os.close(ending)
        return lost(*arguments)

    alone(database)[b"a"] = b"1"
    ending = os.dup(database._store._descriptors._open[0])  # the mark
    database.close()
    monkeypatch.setattr(files, "lost", lost_until_it_has_ended)
    monkeypatch.setattr(files, "_LEAVING_SECONDS", _DEADLINE_SECONDS)
    assert alone(database)[b"a"] == b"1"
    assert len(looks) >= 3


_OPEN_WITHOUT_DESCRIPTORS = """
import os, resource
from fdbqueue.exceptions import EngineUnavailable

def open_now():
    return [int(number) for number in os.listdir("/proc/self/fd")]

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
failed = []
run(database, lambda tr: tr.set(b"b", b""))
for spare in range(30):
    database.close()
    left = open_now()
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(left) + spare, hard))
    try:
        alone(database)[b"a"]
        alone(database)[b"b"] = b""
    except (EngineUnavailable, embedded.FDBError) as error:
        failed.append(spare)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert bytes(alone(database)[b"a"]) == b"1"
    alone(database)[b"b"] = b""
    database.close()
    assert len(open_now()) <= len(left), spare
say(len(failed) > 5)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="only Linux says what is open")
def test_a_moment_without_file_descriptors(database, start):
    """Wherever they end while the file is opened: the next call opens it, and none is left open."""
    alone(database)[b"a"] = b"1"
    database.close()
    child = start(_OPEN_WITHOUT_DESCRIPTORS)
    child.expect("True")


def test_a_new_file_by_intent(database, path):
    """Without the file and what is beside it, a new start begins with an empty one."""
    alone(database)[b"a"] = b"1"
    database.close()
    path.unlink()
    with pytest.raises(EngineUnavailable, match="-sync"):
        alone(database)[b"a"]
    shutil.rmtree(f"{path}-sync")
    assert alone(database)[b"a"] is None
