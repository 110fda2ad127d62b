"""What must not grow, and what must not hurt a commit: the log, old snapshots, the watches."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from fdbqueue.engines.embedded import FDBError, snapshots, sqlite_file, watches
from fdbqueue.exceptions import EngineUnavailable
from tests.concurrency.clients import another
from tests.engines.alone import alone
from tests.engines.children import wait_until


def _too_many_files(*_):
    raise OSError(errno.EMFILE, "Too many open files")


def test_the_log_stays_small_under_readers_without_end(database, path, monkeypatch):
    """While some snapshot is always open, the log is started anew all the same."""
    monkeypatch.setattr(sqlite_file, "_LARGE_LOG_BYTES", 1_000_000)
    alone(database)[b"a"] = b""
    enough = threading.Event()

    def read():
        while not enough.is_set():
            transaction = database.create_transaction()
            transaction[b"a"].wait()
            enough.wait(0.01)  # the others' snapshots overlap with this one
            transaction.cancel()

    readers = [threading.Thread(target=read) for _ in range(6)]
    for reader in readers:
        reader.start()
    sizes = []
    for number in range(1_200):
        alone(database)[b"%d" % (number % 10)] = bytes(20_000)
        sizes.append(Path(f"{path}-wal").stat().st_size)
    enough.set()
    for reader in readers:
        reader.join()
    assert max(sizes) < 20_000_000  # 24 MB of values were written, each twice
    assert min(sizes[200:]) < 1_000_000


def test_the_log_is_made_small_while_others_wait_for_their_turn(database, path, monkeypatch):
    """A commit that waits for another process keeps no snapshot, for which that one would wait."""
    monkeypatch.setattr(sqlite_file, "_EXPIRY_SECONDS", 100)
    monkeypatch.setattr(snapshots, "TRANSACTION_LIFE_SECONDS", 100)
    alone(database)[b"a"] = bytes(100_000)
    other = another(database)
    alone(other)[b"b"] = b""
    shrink, sizes = database._store.shrink_large_log, []

    def shrink_at_last(connection):
        thread.start()
        wait_until(lambda: other.committer._leader is not None)  # it is about to wait, or does so
        monkeypatch.setattr(sqlite_file, "_LARGE_LOG_BYTES", 0)
        wait_until(lambda: shrink(connection) or not Path(f"{path}-wal").stat().st_size)
        sizes.append(Path(f"{path}-wal").stat().st_size)

    def push():
        transaction = other.create_transaction()
        transaction[b"b"] = bytes(transaction[b"a"])
        transaction.commit().wait()

    thread = threading.Thread(target=push)
    monkeypatch.setattr(database._store, "shrink_large_log", shrink_at_last)
    monkeypatch.setattr(database.committer, "_groups_until_log_check", 1)
    with closing(other):
        alone(database)[b"c"] = b""
        thread.join()
        assert sizes == [0]
        assert alone(database)[b"b"] == bytes(100_000)


def test_a_snapshot_nobody_releases_ends_by_itself(database, monkeypatch):
    """A process that does nothing more gives an old snapshot back; reads say 1007."""
    monkeypatch.setattr(sqlite_file, "_EXPIRY_SECONDS", 0.05)
    transaction = database.create_transaction()
    transaction[b"a"].wait()
    monkeypatch.setattr(snapshots, "TRANSACTION_LIFE_SECONDS", 0.01)
    wait_until(lambda: not database._store._snapshots)
    with pytest.raises(FDBError) as caught:
        transaction[b"a"].wait()
    assert caught.value.code == 1007


def test_a_commit_stands_though_nobody_can_be_woken(database, monkeypatch):
    """When the pipes cannot be looked for, the commit succeeds; the next one wakes."""
    alone(database)[b"a"] = b""
    transaction = database.create_transaction()
    watch = transaction.watch(b"a")
    transaction.commit().wait()
    with monkeypatch.context() as patched:
        patched.setattr(os, "listdir", _too_many_files)
        alone(database)[b"a"] = b"1"
        assert alone(database)[b"a"] == b"1"
    alone(database)[b"b"] = b""
    watch.wait()


def test_a_commit_stands_though_its_watch_cannot_be_set(database, monkeypatch):
    """The watch ends with the error, and the commit is not reported as failed."""
    monkeypatch.setattr(watches._Pipe, "__init__", _too_many_files)
    transaction = database.create_transaction()
    watch = transaction.watch(b"a")
    transaction[b"b"] = b"1"
    transaction.commit().wait()
    assert alone(database)[b"b"] == b"1"
    with pytest.raises(EngineUnavailable, match="Too many open files"):
        watch.wait()


def test_what_sqlite_said_is_the_cause_of_a_failed_commit(database, path, caplog):
    """The error has FoundationDB's code, and SQLite's reason behind it and in the log."""
    alone(database)[b"a"] = b"1"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE kv RENAME TO elsewhere")
    transaction = database.create_transaction()
    transaction[b"a"] = b"2"
    with pytest.raises(FDBError) as caught:
        transaction.commit().wait()
    assert caught.value.code == 1510
    assert "no such table" in str(caught.value.__cause__)
    assert "a commit failed" in caplog.text
