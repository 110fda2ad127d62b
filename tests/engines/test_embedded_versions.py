"""Versions of the embedded engine: the clock, stamps, snapshots, and the conflict history."""

from __future__ import annotations

import gc
import threading
from itertools import pairwise

import pytest

from fdbqueue.engines.embedded import FDBError, KeySelector
from tests.engines.alone import alone
from tests.engines.children import code_of, run

_DEADLINE_SECONDS = 60


def _begin(database, count):
    return [database.create_transaction() for _ in range(count)]


@pytest.fixture
def clock(monkeypatch):
    """A counter of the engine that the test sets, in microseconds: ``clock[0]``."""
    now = [1_000_000_000]
    monkeypatch.setattr("fdbqueue.engines.embedded.version_clock.reading", lambda: now[0])
    return now


_READS = {
    "key": lambda tr: tr[b"other"],
    "snapshot": lambda tr: tr.snapshot[b"other"],
    "selector": lambda tr: tr.get_key(KeySelector(b"other", True, 0)),
    "range": lambda tr: tr[b"a":b"b"],
    "version": lambda tr: tr.get_read_version(),
    "watch": lambda tr: tr.watch(b"other"),
}


def _answer(read):
    return list(read) if hasattr(read, "to_list") else read.wait()


def _hides(transaction):
    """Tell whether a stamped key hides one of an earlier commit, which is ``log/`` and zeros."""
    transaction.set_versionstamped_key(b"log/" + bytes(10) + (4).to_bytes(4, "little"), b"")
    return code_of(transaction[b"log/" + bytes(10)]) == 1036


@pytest.mark.parametrize("read", _READS.values(), ids=_READS)
def test_the_version_is_known_with_the_first_answer(database, read):
    """As on a cluster, where a read that has begun does not tell it yet: stamped keys hide all."""
    assert _hides(database.create_transaction())
    begun = database.create_transaction()
    first = read(begun)
    assert _hides(begun)
    assert first is not None
    if read is not _READS["watch"]:
        answered = database.create_transaction()
        _answer(read(answered))
        assert not _hides(answered)
    again = database.create_transaction()
    first, second = read(again), again[b"another"]
    assert not second.present()
    assert not _hides(again)
    assert first is not None


def test_a_version_that_was_set_is_known(database):
    """Before anything is read at it."""
    reader = database.create_transaction()
    transaction = database.create_transaction()
    transaction.set_read_version(reader.get_read_version().wait())
    assert not _hides(transaction)


def test_versions_increase_when_the_counter_falls_back(database, clock):
    """Versions and stamps go up whatever the counter reads, and go on from there."""
    versions = []
    for now in (2_000_000_000, 1_500_000_000, 0, 0, 10, 1_999_999_999, 3_000_000_000):
        clock[0] = now
        transaction = database.create_transaction()
        transaction[b"a"] = b""
        stamp = transaction.get_versionstamp()
        transaction.commit().wait()
        versions.append(transaction.get_committed_version())
        assert bytes(stamp)[:8] == versions[-1].to_bytes(8, "big")
        assert database.create_transaction().get_read_version().wait() == versions[-1]
    steps = [later - earlier for earlier, later in pairwise(versions)]
    assert steps == [1, 1, 1, 10, 1_999_999_989, 1_000_000_001]


def test_a_conflict_older_than_the_history_is_not_missed(database, clock):
    """A reader older than the kept history fails with 1007 where a conflict may be forgotten."""
    alone(database)[b"a"] = b"1"
    reader = database.create_transaction()
    reader[b"a"].wait()
    reader[b"other"] = b""
    clock[0] += 1
    alone(database)[b"a"] = b"2"
    for _ in range(3):
        clock[0] += 100_000_000
        alone(database)[b"b"] = b""
    assert code_of(reader.commit()) == 1007
    reader.on_error(1007).wait()
    assert reader[b"a"] == b"2"
    assert alone(database)[b"other"] is None


def test_the_first_commits_after_a_quiet_time(database, clock):
    """A transaction begun before the first commit in a long time is not too old."""
    for seconds in (1, 4, 6, 3600):
        alone(database)[b"a"] = b"1"
        clock[0] += seconds * 1_000_000
        reader, conflicting = _begin(database, 2)
        for transaction in (reader, conflicting):
            transaction[b"a"].wait()
            transaction[b"c"] = b""
        conflicting[b"b"].wait()
        alone(database)[b"b"] = b""
        assert code_of(reader.commit()) is None
        assert code_of(conflicting.commit()) == 1020


def test_the_history_is_pruned(database, clock):
    """Commits older than five seconds leave the file."""
    for _ in range(50):
        clock[0] += 1_000_000
        alone(database)[b"a"] = b""
    snapshot = database._store.snapshot()
    assert 5 <= len(snapshot.commits_since(0)) <= 8
    snapshot.release()


def test_a_read_version_is_shared_inside_a_process(database, put):
    """A transaction reads at the version of another one that is still reading."""
    put({b"a": b"1"})
    first = database.create_transaction()
    version = first.get_read_version().wait()
    put({b"a": b"2"})
    second = database.create_transaction()
    second.set_read_version(version)
    assert second[b"a"] == first[b"a"] == b"1"
    del first
    assert second[b"a"] == b"1"
    second[b"b"] = b""
    assert code_of(second.commit()) == 1020
    third = database.create_transaction()
    third.set_read_version(version)
    assert code_of(third[b"a"]) == 1007


def test_a_dropped_transaction_is_gone_at_once(database):
    """Nothing of a transaction that nobody refers to stays open, without garbage collection."""
    alone(database)[b"a"] = b""
    gc.disable()
    try:
        for _ in range(5):
            transaction = database.create_transaction()
            transaction[b"a"].wait()
            transaction.snapshot.get_range(b"", b"b").to_list()
            transaction[b"b"] = b""
            transaction.get_versionstamp()
            transaction.commit().wait()
            database.create_transaction()[b"a"].wait()
            del transaction
            assert len(database._store._snapshots) == 0
    finally:
        gc.enable()
    assert len(database._store._idle) == 1


def test_a_read_version_is_set_once_and_first(database):
    """A version set twice, after a read, or not positive fails the transaction."""
    version = database.create_transaction().get_read_version().wait()
    for first in (lambda tr: tr.set_read_version(version), lambda tr: tr[b"a"].wait()):
        transaction = database.create_transaction()
        first(transaction)
        transaction.set_read_version(version)
        assert code_of(transaction.commit()) is not None
    transaction = database.create_transaction()
    transaction.set_read_version(0)
    assert code_of(transaction[b"a"]) is not None


# Versionstamps


def test_a_stamp_waited_for_before_the_commit(database):
    """A thread may wait for the stamp before the commit is asked for."""
    transaction = database.create_transaction()
    stamp = transaction.get_versionstamp()
    transaction[b"a"] = b""
    seen = []
    waiting = threading.Thread(target=lambda: seen.append(bytes(stamp)))
    waiting.start()
    assert not stamp.is_ready()
    transaction.commit().wait()
    waiting.join(_DEADLINE_SECONDS)
    assert seen == [stamp.value]
    assert stamp.is_ready()
    assert len(stamp) == 10


def test_waiting_for_a_stamp_runs_the_commit(database):
    """The stamp can be had from a commit that nobody else waits for."""
    transaction = database.create_transaction()
    stamps = [transaction.get_versionstamp() for _ in range(2)]
    transaction.set_versionstamped_value(b"a", bytes(14))
    commit = transaction.commit()
    assert bytes(stamps[0]) == bytes(stamps[1]) == alone(database)[b"a"]
    assert commit.wait() is None


def test_a_stamp_without_a_commit(database, put):
    """Without writes there is none (2021), nor with a commit that failed (2020)."""
    transaction = database.create_transaction()
    transaction[b"a"].wait()
    stamp = transaction.get_versionstamp()
    transaction.commit().wait()
    assert code_of(stamp) == 2021
    transaction.reset()
    transaction[b"a"].wait()
    transaction[b"b"] = b""
    stamp = transaction.get_versionstamp()
    put({b"a": b"1"})
    assert code_of(transaction.commit()) == 1020
    with pytest.raises(FDBError) as caught:
        bytes(stamp)
    assert caught.value.code == 2020
    assert code_of(transaction.get_versionstamp()) == 2017


def test_versions_are_advanced(database):
    """Later commits have versions above, here and once the file is opened again."""
    run(database, lambda tr: tr.set(b"a", b"1"))
    database.advance_version(10**15)
    versions = []
    for _ in range(2):
        done = run(database, lambda tr: tr.set(b"a", b"2"))
        versions.append(done.get_committed_version())
        database.close()
    assert 10**15 < versions[0] < versions[1] < 10**15 + 60_000_000
    late = database.create_transaction()
    assert late[b"a"] == b"2"
    run(database, lambda tr: tr.set(b"a", b"3"))
    late[b"b"] = b""
    assert code_of(late.commit()) == 1020


def test_a_transaction_from_before_versions_are_advanced(database):
    """What it has read was written since: it conflicts, as it would have done."""
    run(database, lambda tr: tr.set(b"a", b"1"))
    early = database.create_transaction()
    assert early[b"a"] == b"1"
    database.advance_version(10**15)
    run(database, lambda tr: tr.set(b"a", b"2"))
    early[b"b"] = b""
    assert code_of(early.commit()) in {1007, 1020}
