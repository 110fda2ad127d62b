"""What the disk has when a commit is acknowledged, or what was read is relied on."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from fdbqueue.engines import embedded
from fdbqueue.engines.embedded import FDBError, reservations, sqlite_file
from tests.concurrency.clients import another
from tests.engines.alone import alone
from tests.engines.children import code_of, run, wait_until

_DEADLINE_SECONDS = 60


class Disk:
    """What a file's disk would have after a power cut: copies of the files after each sync."""

    def __init__(self, path, folder):
        self._path, self._folder = path, folder
        self._lock = threading.Lock()
        self.images = 0

    def sync(self, log):
        """Sync the log, and keep what the disk has from now on."""
        os.fdatasync(log)
        with self._lock:
            image = self._folder / f"{self.images}.sqlite3"
            for suffix in ("", "-wal"):
                shutil.copy(f"{self._path}{suffix}", f"{image}{suffix}")
            self.images += 1

    def keys(self, image):
        """Return the keys that are found after a power cut."""
        with closing(sqlite3.connect(self._folder / f"{image}.sqlite3")) as connection:
            return {key for (key,) in connection.execute("SELECT key FROM kv")}


class Gate:
    """A disk that syncs nothing until it is opened."""

    def __init__(self):
        self.waiting, self.opened = threading.Event(), threading.Event()

    def sync(self, log):
        """Wait until the gate is open, then sync."""
        self.waiting.set()
        assert self.opened.wait(_DEADLINE_SECONDS)
        os.fdatasync(log)


@pytest.fixture
def gate(monkeypatch):
    """A disk that syncs nothing, for one commit in a thread of its own."""
    gate = Gate()
    monkeypatch.setattr(sqlite_file, "_sync", gate.sync)
    yield gate
    gate.opened.set()


def test_what_is_acknowledged_is_on_the_disk(database, path, tmp_path, monkeypatch):
    """Whichever thread or process commits: a power cut right then leaves it."""
    folder = tmp_path / "images"
    folder.mkdir()
    disk = Disk(path, folder)
    monkeypatch.setattr(sqlite_file, "_sync", disk.sync)
    acknowledged = []

    def push(client, name):
        for number in range(6):
            key = b"%s/%d" % (name, number)
            alone(client)[key] = b""
            acknowledged.append((key, disk.images - 1))

    with closing(another(database)) as other:
        clients = [(database, b"a"), (database, b"b"), (other, b"c"), (other, b"d")]
        threads = [threading.Thread(target=push, args=one) for one in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(acknowledged) == 24
    assert [key for key, image in acknowledged if key not in disk.keys(image)] == []


def test_others_commit_while_the_disk_works(database, gate, monkeypatch):
    """They see what is written and not acknowledged yet; their own commit is no earlier."""
    transaction = database.create_transaction()
    transaction[b"a"] = b"1"
    thread = threading.Thread(target=transaction.commit().wait)
    thread.start()
    assert gate.waiting.wait(_DEADLINE_SECONDS)
    with closing(another(database)) as other:
        monkeypatch.setattr(sqlite_file, "_sync", os.fdatasync)
        run(other, lambda tr: tr.set(b"b", bytes(tr[b"a"])))
        assert alone(other)[b"b"] == b"1"
        assert thread.is_alive()
        gate.opened.set()
        thread.join()
    assert transaction.get_committed_version() > 0


def test_who_only_reads_relies_on_nothing_that_a_power_cut_undoes(database, gate, monkeypatch):
    """Its commit waits for the disk if that may lack what it has read; later ones need not."""
    writer = threading.Thread(target=alone(database).set, args=(b"a", b"1"))
    writer.start()
    assert gate.waiting.wait(_DEADLINE_SECONDS)
    synced = []
    monkeypatch.setattr(sqlite_file, "_sync", lambda log: synced.append(os.fdatasync(log)))
    with closing(another(database)) as other:
        transaction = other.create_transaction()
        assert transaction[b"a"] == b"1"
        assert not synced
        transaction.commit().wait()
        assert len(synced) == 1
        assert alone(other)[b"a"] == b"1"
        assert len(synced) == 1
    gate.opened.set()
    writer.join()
    assert alone(database)[b"a"] == b"1"
    assert len(synced) == 1


def test_with_less_durability_nothing_waits_for_the_disk(path, monkeypatch):
    """Neither a commit nor a read."""
    monkeypatch.setattr(sqlite_file, "_sync", lambda _: pytest.fail("it was synced"))
    with closing(embedded.open(path, durability="normal")) as database:
        alone(database)[b"a"] = b"1"
        assert alone(database)[b"a"] == b"1"


def _fail(_):
    raise OSError(errno.EIO, "Input/output error")


def test_a_log_that_cannot_be_synced_is_copied_into_the_file(database, path, monkeypatch, caplog):
    """The commit is acknowledged, because SQLite has synced the file."""
    with monkeypatch.context() as patched:
        patched.setattr(sqlite_file, "_sync", _fail)
        alone(database)[b"a"] = b"1"
    assert "the log was not synced" in caplog.text
    shutil.copy(path, f"{path}-copy")
    with closing(sqlite3.connect(f"{path}-copy")) as copy:
        assert copy.execute("SELECT value FROM kv WHERE key = ?", (b"a",)).fetchone() == (b"1",)


def test_a_log_that_cannot_be_copied_either(database, monkeypatch):
    """The outcome is unknown; no read and no commit goes on from it until the file has it."""
    reader = database.create_transaction()
    assert not reader[b"a"].present()
    transaction = database.create_transaction()
    transaction[b"a"] = b"1"
    with monkeypatch.context() as patched:
        patched.setattr(sqlite_file, "_sync", _fail)
        assert code_of(transaction.commit()) == 1021
        for use in (lambda: alone(database)[b"a"], lambda: alone(database).set(b"b", b"")):
            with pytest.raises(FDBError) as caught:
                use()
            assert caught.value.code == 1510
    reader.reset()  # while it reads, SQLite copies no newer page
    assert alone(database)[b"a"] == b"1"
    alone(database)[b"b"] = b""


def test_what_was_read_before_a_sync_failed(database, gate, monkeypatch):
    """It is not taken for durable because a later sync says nothing of the failure."""
    reader = database.create_transaction()
    assert not reader[b"a"].present()  # keeps SQLite from copying what is newer
    transaction = database.create_transaction()
    transaction[b"a"] = b"1"
    commit = transaction.commit()
    writer = threading.Thread(target=commit.block_until_ready)
    writer.start()
    assert gate.waiting.wait(_DEADLINE_SECONDS)
    late = database.create_transaction()
    assert late[b"a"] == b"1"
    monkeypatch.setattr(os, "fdatasync", _fail)
    gate.opened.set()
    writer.join()
    monkeypatch.undo()
    assert code_of(commit) == 1021
    assert code_of(late.commit()) == 1510
    reader.reset()
    assert alone(database)[b"a"] == b"1"


def test_an_interrupt_while_the_disk_works(database, monkeypatch):
    """The outcome is unknown to who asks again; who finds the commit waits for the disk."""
    transaction = database.create_transaction()
    transaction[b"a"] = b"1"
    commit = transaction.commit()
    calls = []

    def interrupt(log):
        calls.append(log)
        if len(calls) == 1:
            raise KeyboardInterrupt
        os.fdatasync(log)

    monkeypatch.setattr(sqlite_file, "_sync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        commit.wait()
    assert code_of(commit) == 1021
    assert alone(database)[b"a"] == b"1"
    assert len(calls) == 2


@pytest.mark.parametrize("others", [0, 8])
def test_others_reserve_the_file_while_the_disk_works(database, gate, monkeypatch, others):
    """An attempt has the file reserved until its commit is written, not until the disk has it.

    Also if other threads of its process commit with it, and one of these does the work.
    """
    monkeypatch.setattr(reservations, "_COMMIT", 600_000_000_000)
    transaction = database.create_transaction()
    transaction.reserve()
    commits = []
    for one in (*[database.create_transaction() for _ in range(others)], transaction):
        one[b"a"] = b"1"
        commits.append(one.commit())
    database.committer.quiesce()  # until all of them wait
    writers = [threading.Thread(target=commit.wait) for commit in commits]
    for writer in writers:
        writer.start()
    wait_until(lambda: len(database.committer._waiters) == len(writers))
    database.committer.resume()
    assert gate.waiting.wait(_DEADLINE_SECONDS)
    with closing(another(database)) as other:
        later = other.create_transaction()
        later.options.set_timeout(1_000 * _DEADLINE_SECONDS)
        later.reserve()
        assert other._store.turn.reservations._given is not None
        assert later[b"a"] == b"1"
    gate.opened.set()
    for writer in writers:
        writer.join()


def test_a_read_while_the_file_is_closed(database, gate, monkeypatch):
    """What another thread closes is opened again."""
    writer = threading.Thread(target=alone(database).set, args=(b"a", b"1"))
    writer.start()
    assert gate.waiting.wait(_DEADLINE_SECONDS)
    monkeypatch.setattr(sqlite_file, "_sync", os.fdatasync)
    with closing(another(database)) as other:
        transaction = other.create_transaction()
        assert transaction[b"a"] == b"1"
        commit = transaction.commit()
        other.close()
        commit.wait()
    gate.opened.set()
    writer.join()
    wait_until(lambda: Path(f"{database.path}-wal").exists())
