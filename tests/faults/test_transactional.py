"""The user's own functions: each call takes effect once, whatever becomes of its commits."""

from __future__ import annotations

import math
import threading

import pytest

import fdbqueue
from fdbqueue.exceptions import BatchTooLarge
from fdbqueue.service import transactions
from tests.faults.faulty import Fault
from tests.faulty_database import FaultyDatabase


@fdbqueue.transactional
def increment(tr, key):
    """Add one to a number, and return the number before."""
    value = tr[key]
    number = int(bytes(value)) if value.present() else 0
    tr[key] = b"%d" % (number + 1)
    return number


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
