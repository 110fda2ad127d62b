"""The user's own functions: each call takes effect once, whatever becomes of its commits."""

from __future__ import annotations

import math
import threading

import pytest

import fdbqueue
from fdbqueue.exceptions import BatchTooLarge
from fdbqueue.service import transactions
from fdbqueue.testing.faults import FaultyDatabase
from tests.concurrency.clients import together
from tests.faults.faulty import AFTER, BEFORE, LATE, Fault


@fdbqueue.transactional
def increment(tr, key):
    """Add one to a number, and return the number before."""
    value = tr[key]
    number = int(bytes(value)) if value.present() else 0
    tr[key] = b"%d" % (number + 1)
    return number


@fdbqueue.transactional
def add_blindly(tr, key):
    """Add one to a number by an atomic operation, which conflicts with nothing."""
    tr.add(key, (1).to_bytes(8, "little"))


def at(database, key):
    """Return the bytes at a key."""
    transaction = database.create_transaction()
    return bytes(transaction[key])


@pytest.mark.parametrize("threads", [1, 16])
@pytest.mark.parametrize("seed", range(2))
def test_increments_are_exact(faulty, engine, subspace, threads, seed):
    """Each call adds one, and gets a number that no other call got."""
    database = faulty(seed=seed)
    key, calls = subspace["number"].key(), 160 // threads

    def work(_):
        return [increment(database, key) for _ in range(calls)]

    results = [number for numbers in together(threads, work) for number in numbers]
    assert sorted(results) == list(range(160))
    assert at(engine.database, key) == b"160"


@pytest.mark.parametrize("threads", [1, 16])
@pytest.mark.parametrize("seed", range(2))
def test_blind_additions_are_exact(faulty, engine, subspace, threads, seed):
    """Without a read of their own, too, they take effect once each."""
    database = faulty(seed=seed)
    key, calls = subspace["number"].key(), 160 // threads
    together(threads, lambda _: [add_blindly(database, key) for _ in range(calls)])
    assert int.from_bytes(at(engine.database, key), "little") == 160


@pytest.mark.parametrize("fault", [*AFTER, *BEFORE[3:], *LATE], ids=str)
def test_one_unknown_outcome_is_found_out(faulty, engine, subspace, fault):
    """After each way of not knowing, the call took effect once."""
    database = faulty(seed=1, rate=0.7, faults=[fault])
    key = subspace["number"].key()
    for number in range(10):
        assert increment(database, key) == number
    assert at(engine.database, key) == b"10"
    assert database.happened[fault] > 5


def test_a_late_commit_is_fenced(faulty, engine, subspace):
    """A commit that is still under way when its call goes on lands once, or never."""
    database = faulty(seed=3, rate=0.5, faults=LATE)
    key = subspace["number"].key()
    for _ in range(60):
        add_blindly(database, key)
    assert int.from_bytes(at(engine.database, key), "little") == 60
    assert database.happened["landed"] > 0
    assert database.happened["refused"] > 0


def test_receipts_are_as_many_as_threads(faulty, engine, subspace):
    """However many calls there were, each client thread left one key at most."""
    database = faulty(seed=5)
    transactions.keep_receipts_at(database, subspace["receipts"])
    key = subspace["number"].key()
    together(8, lambda _: [add_blindly(database, key) for _ in range(20)])
    found = subspace["receipts"].range()
    rows = list(engine.database.create_transaction().get_range(found.start, found.stop))
    assert 1 <= len(rows) <= 8


def test_an_error_of_the_function_goes_through(faulty, subspace):
    """It is raised as it is, and what the function wrote before it is not there."""
    database = faulty(seed=9, faults=[Fault(1020, "before")])

    @fdbqueue.transactional
    def fail(tr):
        tr[subspace.key()] = b"x"
        raise LookupError(threading.get_ident())

    with pytest.raises(LookupError):
        fail(database)
    transaction = database.create_transaction()
    assert not transaction[subspace.key()].present()


_TOO_OLD = 1007


@pytest.fixture
def too_old(engine):
    """A database that says for a number of commits that the transaction is too old."""

    def too_old(times):
        database = FaultyDatabase(engine.database)
        database.fail_commits(code=_TOO_OLD, took_effect=False, times=times)
        return database

    return too_old


def test_a_function_that_is_too_long_for_a_transaction(too_old, engine, subspace, monkeypatch):
    """It is not repeated without end: the second time an error says so, and nothing was written."""
    monkeypatch.setattr(transactions, "_TOO_LONG_SECONDS", -1.0)
    database = too_old(math.inf)
    with pytest.raises(BatchTooLarge, match="limit_seconds=5") as caught:
        increment(database, subspace["number"].key())
    assert database.happened == 2
    assert caught.value.outcome_known
    transaction = engine.database.create_transaction()
    assert not transaction[subspace["number"].key()].present()


def test_a_function_that_was_too_long_once_is_repeated(too_old, subspace, monkeypatch):
    """As one of a process that was stopped meanwhile is."""
    monkeypatch.setattr(transactions, "_TOO_LONG_SECONDS", -1.0)
    assert increment(too_old(1), subspace["number"].key()) == 0


def test_what_keeps_a_short_function_from_its_commit_is_waited_for(too_old, subspace):
    """However often a transaction is too old by the time of its commit."""
    assert increment(too_old(5), subspace["number"].key()) == 0
