"""Files the embedded engine cannot use, and disks that are full."""

from __future__ import annotations

import gc
import os
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from fdbqueue.engines import embedded
from fdbqueue.engines.embedded.files import APPLICATION_ID, SCHEMA_VERSION
from fdbqueue.exceptions import ConfigurationError, EngineUnavailable
from tests.engines.alone import alone

_FILL_UP = """
import resource

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
allowed = int(sys.argv[2])

def fill(transaction, name):
    for number in range(40):
        transaction[b"%s/%d" % (name, number)] = os.urandom(50_000)

alone(database)[b"before"] = b"1"
reading = database.create_transaction()
reading[b"before"].wait()
resource.setrlimit(resource.RLIMIT_FSIZE, (allowed, most))
codes = set()
for _ in range(3):
    transaction = database.create_transaction()
    fill(transaction, b"full")
    error = transaction.commit().exception()
    assert isinstance(error, embedded.FDBError), error
    assert sys.version_info < (3, 11) or error.reason.startswith("The disk is full: "), error
    again = transaction.on_error(error.code).exception()
    assert str(again) == str(error), again
    codes.add(error.code)
say(codes)
say(reading[b"before"])
say(len(alone(database)[b"full/":b"full0"]))
group = [database.create_transaction() for _ in range(3)]
for transaction in group:
    fill(transaction, b"group")
commits = [transaction.commit() for transaction in group]
threads = [threading.Thread(target=commit.block_until_ready) for commit in commits]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
say({commit.exception().code for commit in commits})
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
run(database, lambda transaction: fill(transaction, b"after"))
say(len(alone(database)[b"after/":b"after0"]))
say(len(alone(database)[b"full/":b"full0"]) + len(alone(database)[b"group/":b"group0"]))
"""

_FILL_UP_SLOWLY = """
import resource

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, most))

def code(work):
    transaction = database.create_transaction()
    work(transaction)
    error = transaction.commit().exception()
    return None if error is None else error.code

def fill(number):
    return code(lambda tr: tr.set(b"full/%d" % number, os.urandom(3_000)))

say({fill(number % 50) for number in range(400)})
say({code(lambda tr: tr.clear(b"full/%d" % number)) for number in range(50)})
number = 0
while not (ended := fill(number)):
    number += 1
say(ended)
say({len(alone(database)[b"full/%d" % one]) for one in range(number)})
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
say(fill(number))
"""

_PUSH = """
for number in range(50):
    alone(database)[b"%d" % number] = b"kept"
say("pushed")
sys.stdin.read()
"""

_READ_ONLY = """
directory = os.path.dirname(sys.argv[1])
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for name in os.listdir(directory):
    if name.endswith("sqlite3"):
        database = embedded.open(os.path.join(directory, name))
        for use in (lambda: alone(database)[b"a"], lambda: alone(database).set(b"a", b"")):
            try:
                use()
            except Exception as error:
                say(type(error).__name__)
                say(error.context["path"] == os.path.join(directory, name))
"""


def _unavailable(path):
    database = embedded.open(path)
    for use in (lambda: alone(database)[b"a"], lambda: alone(database).set(b"a", b"")):
        with pytest.raises(EngineUnavailable) as caught:
            use()
        assert caught.value.context["path"] == str(path)
        assert caught.value.context["reason"]
        assert caught.value.retryable
    return caught.value.context["reason"]


@pytest.mark.parametrize("durability", ["", "FULL", "none", None])
def test_a_durability_that_is_none(path, durability):
    """Another durability is refused when the database is opened, with what is allowed."""
    with pytest.raises(ConfigurationError) as caught:
        embedded.open(path, durability=durability)
    assert caught.value.context["allowed"] == "full, normal"
    assert not path.exists()


@pytest.mark.parametrize("path", ["", ":memory:", "file:queues?mode=memory"])
def test_a_path_that_is_no_files(path):
    """What SQLite takes for something else than a file's path is refused."""
    with pytest.raises(ConfigurationError) as caught:
        embedded.open(path)
    assert caught.value.context["value"] == path


def test_opening_touches_nothing(path):
    """A database may be named long before it is used; its file is made on first use."""
    database = embedded.open(path)
    assert embedded.open(str(path)) is database
    assert list(path.parent.iterdir()) == []
    assert alone(database)[b"a"] is None
    assert path.exists()


def test_a_link_is_the_file_it_leads_to(database, path, tmp_path):
    """Two names of one file are one database."""
    link = tmp_path / "link"
    link.symlink_to(path)
    assert embedded.open(link) is database


def test_a_missing_directory(tmp_path):
    """A file in a directory that does not exist is not made, nor is the directory."""
    reason = _unavailable(tmp_path / "missing" / "queues.sqlite3")
    assert reason == f"there is no folder {tmp_path / 'missing'}; create it"
    assert list(tmp_path.iterdir()) == []


def test_a_directory(tmp_path):
    """A directory is no database."""
    path = tmp_path / "directory"
    path.mkdir()
    assert _unavailable(path) == "it is a folder; add the name of a file to it"
    assert list(path.iterdir()) == []


def test_a_path_through_a_file(tmp_path):
    """A file where a directory is needed is reported as such."""
    (tmp_path / "file").write_text("mine")
    reason = _unavailable(tmp_path / "file" / "queues.sqlite3")
    assert reason == f"{tmp_path / 'file'} is no folder"
    assert (tmp_path / "file").read_text() == "mine"


def test_a_text_file(path):
    """A file that is no database stays as it is."""
    text = "mine\n" * 1000
    path.write_text(text)
    assert "not a database" in _unavailable(path)
    assert path.read_text() == text


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_another_programs_database(path, journal):
    """Another program's SQLite file stays as it is, whatever its journal."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
        connection.execute("CREATE TABLE mine (x)")
        connection.execute("INSERT INTO mine VALUES (1)")
        connection.commit()
    before = path.read_bytes()
    assert "another program" in _unavailable(path)
    assert path.read_bytes() == before
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("mine",)]
        assert connection.execute("PRAGMA journal_mode").fetchone() == (journal,)


def test_a_newer_schema(database, path):
    """A file of a later release is not touched by this one."""
    alone(database)[b"a"] = b"1"
    database.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = path.read_bytes()
    assert f"version {SCHEMA_VERSION + 1}, not {SCHEMA_VERSION}" in _unavailable(path)
    assert path.read_bytes() == before


def test_a_file_that_becomes_usable(path):
    """What could not be opened is tried again by the next use."""
    path.mkdir()
    database = embedded.open(path)
    _unavailable(path)
    path.rmdir()
    alone(database)[b"a"] = b"1"
    assert alone(database)[b"a"] == b"1"


def test_an_empty_file_is_a_new_database(path):
    """A file made by ``touch`` or by a creation that was cut short is filled."""
    path.touch()
    database = embedded.open(path)
    alone(database)[b"a"] = b"1"
    database.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_directory_that_may_not_be_written(start):
    """Without the right to write no file is opened, and nothing is made or changed."""
    with tempfile.TemporaryDirectory() as name:  # tmp_path's parents are closed to others
        directory = Path(name).resolve()
        source = embedded.open(directory / "old.sqlite3")
        alone(source)[b"a"] = b"1"
        source.close()
        (directory / "text.sqlite3").write_text("mine")
        shutil.rmtree(directory / "old.sqlite3-sync")
        directory.chmod(0o555)
        from tests.engines.children import Child

        with Child(directory / "new.sqlite3", _READ_ONLY) as child:
            lines = child.end()
        assert sorted(lines) == ["EngineUnavailable"] * 4 + ["True"] * 4
        directory.chmod(0o755)
        assert sorted(path.name for path in directory.iterdir()) == ["old.sqlite3", "text.sqlite3"]


@pytest.mark.parametrize("allowed", [200_000, 1_000_000])
def test_a_full_disk(path, start, allowed):
    """A commit for which there is no room fails with 1510 and has no effect; later ones do."""
    lines = start(_FILL_UP, allowed).end()
    if sys.version_info < (3, 11):  # SQLite's reason is not told: the outcome is unknown
        lines = [line.replace("1021", "1510") for line in lines]
    assert lines == ["{1510}", "b'1'", "0", "{1510}", "40", "0"]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="SQLite's reason is not told")
def test_the_log_of_a_full_disk_is_used_again(start):
    """What makes the file no larger is committed; what does fails, and goes on with room."""
    assert start(_FILL_UP_SLOWLY).end() == ["{None}", "{None}", "1510", "{3000}", "None"]


def test_a_copy_with_its_log_is_restored_whole(path, start, tmp_path):
    """As the documentation says: of a killed process; -wal holds what the file lacks."""
    child = start(_PUSH)
    child.expect("pushed")
    child.kill()
    kept = tmp_path / "kept"
    kept.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", kept / f"copy{suffix}")
    with closing(embedded.open(path)) as database:
        alone(database).clear_range(b"", b"\xff")
        alone(database)[b"later"] = b"lost"
    shutil.rmtree(f"{path}-sync")
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    for suffix in ("", "-wal"):
        shutil.copy(kept / f"copy{suffix}", f"{path}{suffix}")
    with closing(embedded.open(path)) as database:
        assert sorted(row.value for row in alone(database)[b"":b"\xff"]) == 50 * [b"kept"]


def test_closing_lets_go_of_the_file(database, path):
    """A closed database has no descriptor open, and opens again when used."""
    alone(database)[b"a"] = b"1"
    transaction = database.create_transaction()
    transaction[b"a"].wait()
    database.close()
    assert _descriptors(path) == []
    assert transaction[b"a"].exception().code == 1007
    transaction.on_error(1007).wait()
    assert transaction[b"a"] == b"1"


def test_a_dropped_database_lets_go_of_the_file(path, tmp_path):
    """The file of a database nobody refers to is closed when any database is used next."""
    database = embedded.open(path)
    alone(database)[b"a"] = b"1"
    assert _descriptors(path) != []
    del database
    gc.collect()
    embedded.open(tmp_path / "another")
    assert _descriptors(path) == []


def _descriptors(path):
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue
        if target.startswith(str(path)):
            found.append(target)
    return found
