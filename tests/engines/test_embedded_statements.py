"""What a commit asks of SQLite, and that what it spares is right beside other commits."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from fdbqueue.engines import embedded
from fdbqueue.engines.embedded import commit_groups, sqlite_file
from tests.engines.alone import alone
from tests.engines.children import code_of, run

_COMMIT_WHEN_TOLD = """
for line in sys.stdin:
    key, value = line.split()
    run(database, lambda tr: tr.set(key.encode(), value.encode()))
    say("committed")
"""


@pytest.fixture
def statements(monkeypatch):
    """The statements that connections opened from now on run."""
    said = []
    connect = sqlite3.connect

    def traced(*args, **kwargs):
        connection = connect(*args, **kwargs)
        connection.set_trace_callback(said.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    return said


@pytest.fixture
def other(start):
    """Another process, which sets a key when told: ``other(key, value)``."""
    child = start(_COMMIT_WHEN_TOLD)

    def other(key, value):
        child.tell(f"{key} {value}")
        child.expect("committed")

    return other


def _increment(transaction):
    value = transaction[b"n"]
    transaction[b"n"] = b"%d" % (int(value) + 1 if value.present() else 1)


def test_a_process_alone_reads_and_writes_in_six_statements(statements, path):
    """A read and a write: a snapshot, the read, BEGIN, the value, the history, COMMIT."""
    database = embedded.open(path)
    run(database, _increment)
    run(database, _increment)
    statements.clear()
    run(database, _increment)
    assert len(statements) == 6
    assert [said.split()[0] for said in statements[-4:]] == ["BEGIN", "INSERT", "INSERT", "COMMIT"]
    database.close()


def test_the_commit_of_another_process_is_seen(database, other):
    """A commit that other processes came before in between conflicts by what it read alone."""
    run(database, _increment)
    for number in range(1, 6):
        transactions = [database.create_transaction() for _ in range(2)]
        for transaction in transactions:
            transaction[b"theirs"].wait()
            transaction[b"n"].wait()
        transactions[0].snapshot[b"theirs"].wait()
        transactions[0][b"mine"] = b"%d" % number
        transactions[1].reset()
        transactions[1][b"n"].wait()
        transactions[1][b"mine too"] = b"%d" % number
        other("theirs", str(number))
        assert code_of(transactions[0].commit()) == 1020
        assert code_of(transactions[1].commit()) is None
        run(database, _increment)
        assert alone(database)[b"theirs"] == alone(database)[b"mine too"] == b"%d" % number
    assert alone(database)[b"mine"] is None
    assert alone(database)[b"n"] == b"6"


def test_commits_of_this_process_are_remembered(statements, path):
    """Whether its own commits conflict is not asked of the file."""
    database = embedded.open(path)
    alone(database)[b"a"] = b"1"
    reader, conflicting = (database.create_transaction() for _ in range(2))
    for transaction in (reader, conflicting):
        transaction[b"a"].wait()
        transaction[b"mine"] = b""
    conflicting[b"b"].wait()
    for number in range(5):
        run(database, lambda tr, number=number: tr.set(b"b", b"%d" % number))
    statements.clear()
    assert code_of(reader.commit()) is None
    assert code_of(conflicting.commit()) == 1020
    assert not [said for said in statements if "ranges FROM commits" in said]
    database.close()


def test_what_is_remembered_has_a_bound(database, monkeypatch):
    """Past it the file is asked; no conflict is missed."""
    monkeypatch.setattr("fdbqueue.engines.embedded.commit_groups._REMEMBERED_COMMITS", 3)
    alone(database)[b"a"] = b"1"
    reader, conflicting = (database.create_transaction() for _ in range(2))
    for transaction in (reader, conflicting):
        transaction[b"a"].wait()
        transaction[b"mine"] = b""
    conflicting[b"b"].wait()
    alone(database)[b"b"] = b""
    for number in range(10):
        alone(database)[b"c"] = b"%d" % number
    assert code_of(reader.commit()) is None
    assert code_of(conflicting.commit()) == 1020


def test_what_the_file_was_asked_for_hides_nothing_newer(database, monkeypatch):
    """After a commit that has read long ago, one that has read since finds its conflict."""
    old, newer = (database.create_transaction() for _ in range(2))
    old[b"a"].wait()
    with monkeypatch.context() as patched:
        patched.setattr(commit_groups, "_REMEMBERED_COMMITS", 3)
        for number in range(10):
            alone(database)[b"c"] = b"%d" % number
    newer[b"b"].wait()
    alone(database)[b"b"] = b""
    for transaction in (old, newer):
        transaction[b"mine"] = b""
    assert code_of(old.commit()) is None
    assert code_of(newer.commit()) == 1020


def test_a_snapshot_that_others_read_by_is_not_written_by(database, put):
    """A transaction at the version of another one reads on after that one has committed."""
    put({b"a": b"1"})
    first, second = (database.create_transaction() for _ in range(2))
    second.set_read_version(first.get_read_version().wait())
    assert first[b"a"] == second[b"a"] == b"1"
    first[b"a"] = b"2"
    first.commit().wait()
    assert second[b"a"] == b"1"
    assert alone(database)[b"a"] == b"2"


def test_a_file_in_place_of_another_after_close(database, path):
    """Nothing of the old file's history is used for the new one."""
    for number in range(3):
        alone(database)[b"a"] = b"%d" % number
    database.close()
    for name in path.parent.glob("queues.sqlite3*"):
        if name.is_file():
            name.unlink()
    (path.parent / "queues.sqlite3-sync" / "used").unlink()
    run(database, _increment)
    run(database, _increment)
    assert alone(database)[b"a"] is None
    assert alone(database)[b"n"] == b"2"


def test_the_log_is_started_anew_by_reads_and_writes_alone(database, path):
    """What a commit writes by its own snapshot goes into the file in time."""
    for number in range(3_000):

        def work(transaction, number=number):
            transaction[b"a"].wait()
            transaction[b"%d" % (number % 50)] = bytes(4_000)

        run(database, work)
    assert Path(f"{path}-wal").stat().st_size < 30_000_000


def test_a_commit_too_large_for_a_small_cache(database):
    """It is written all the same, after reads or without."""
    for is_read in (True, False):

        def work(transaction, is_read=is_read):
            if is_read:
                transaction[b"a"].wait()
            for number in range(20):
                transaction[b"%d" % number] = bytes([is_read]) * 50_000

        run(database, work)
        assert alone(database)[b"19"] == bytes([is_read]) * 50_000


def test_what_an_atomic_operation_adds_to_is_remembered(statements, path):
    """The next commit does not read it, unless another process or another write changed it."""
    database = embedded.open(path)
    for _ in range(2):
        run(database, lambda tr: tr.add(b"n", b"\x01"))
    statements.clear()
    run(database, lambda tr: tr.add(b"n", b"\x01"))
    assert not [said for said in statements if said.startswith("SELECT (SELECT value")]
    assert alone(database)[b"n"] == b"\x03"
    for change, found in (
        (lambda tr: tr.set(b"n", b"\x10"), b"\x11"),
        (lambda tr: tr.clear(b"n"), b"\x01"),
        (lambda tr: tr.clear_range(b"a", b"z"), b"\x01"),
        (lambda tr: tr.append_if_fits(b"n", bytes(200)), b"\x02" + bytes(200)),
    ):
        run(database, change)
        run(
            database,
            lambda tr: tr.add(b"n", b"\x01" + bytes(len(alone(database)[b"n"] or b"1") - 1)),
        )
        assert alone(database)[b"n"] == found
    database.close()


def test_a_value_that_another_process_changed_is_not_remembered(database, other):
    """What is added to it is added to what the other process wrote."""
    for number in range(3):
        alone(database).add(b"n", b"\x01")
        other("n", "A")
        alone(database).add(b"n", b"\x01")
        assert alone(database)[b"n"] == b"B", number


def test_a_value_of_a_commit_that_failed_is_not_remembered(database, monkeypatch):
    """What is added to it is added to what the last commit wrote that took effect."""
    alone(database).add(b"n", b"\x01")
    with monkeypatch.context() as patched:
        patched.setattr(commit_groups, "_ADD", "INSERT INTO missing VALUES (?, ?)")
        with pytest.raises(embedded.FDBError):
            run(database, lambda tr: tr.add(b"n", b"\x01"))
    alone(database).add(b"n", b"\x01")
    assert alone(database)[b"n"] == b"\x02"


def test_the_log_is_made_longer_before_it_is_in_use(database, path):
    """It then has the length that it has when SQLite starts it again."""
    log = Path(f"{path}-wal")
    for number in range(600):
        alone(database)[b"a"] = b"%d" % number
        if number == 30:
            assert 1_000_000 < log.stat().st_size < 2_000_000
    assert log.stat().st_size == sqlite_file._LOG_BYTES
    assert alone(database)[b"a"] == b"599"
    database.close()
    assert not log.exists()
    assert alone(database)[b"a"] == b"599"


def test_a_process_that_was_killed_leaves_a_log_longer_than_it_is_in_use(database, start):
    """Who opens the file reads what was committed, and no more."""
    child = start(
        """
for number in range(100):
    alone(database)[b"a"] = b"%d" % number
say("written")
sys.stdin.readline()
"""
    )
    child.expect("written")
    child.kill()
    assert alone(database)[b"a"] == b"99"
    alone(database)[b"a"] = b"100"
    assert alone(database)[b"a"] == b"100"
