"""Options, limits and retries of the embedded engine's transactions."""

from __future__ import annotations

import threading
import time

import pytest

from fdbqueue.engines.embedded import FDBError
from tests.engines.alone import alone
from tests.engines.children import run, wait_until


def _code(future):
    future.block_until_ready()
    error = future.exception()
    return None if error is None else error.code


def test_a_timeout_ends_every_use(transaction):
    """Once the time has passed, reads and the commit fail with 1031."""
    transaction.options.set_timeout(1)
    transaction[b"a"] = b""
    wait_until(lambda: _code(transaction[b"a"]))
    assert _code(transaction[b"a"]) == 1031
    assert _code(transaction.get_range(b"", b"b")._first) == 1031
    assert _code(transaction.get_read_version()) == 1031
    assert _code(transaction.commit()) == 1031
    assert _code(transaction.on_error(1020)) == 1031
    transaction.reset()
    assert _code(transaction[b"a"]) is None


def test_a_timeout_outlives_a_retry(transaction):
    """Retries do not begin the time anew; a reset takes the timeout away."""
    transaction.options.set_timeout(60_000)
    transaction.on_error(1020).wait()
    transaction.options.set_timeout(1)
    wait_until(lambda: _code(transaction[b"a"]))
    assert _code(transaction[b"a"]) == 1031
    transaction.reset()
    assert _code(transaction[b"a"]) is None
    assert transaction._state.deadline is None


def test_a_retry_limit(transaction):
    """After as many retries as allowed ``on_error`` gives the error back."""
    transaction.options.set_retry_limit(1)
    assert _code(transaction.on_error(1020)) is None
    assert _code(transaction.on_error(FDBError(1007))) == 1007
    transaction.reset()
    assert [_code(transaction.on_error(1007)) for _ in range(3)] == [None] * 3
    transaction.options.set_retry_limit(0)
    assert _code(transaction.on_error(1020)) == 1020


def test_a_retry_limit_of_minus_one_is_none(transaction):
    """-1 takes a limit away."""
    transaction.options.set_retry_limit(0)
    transaction.options.set_retry_limit(-1)
    assert _code(transaction.on_error(1020)) is None


def test_a_size_limit(transaction, database):
    """A transaction over its size limit fails with 2101 and writes nothing."""
    transaction.options.set_size_limit(100)
    transaction[b"a"] = bytes(101)
    assert _code(transaction.commit()) == 2101
    assert _code(transaction.on_error(2101)) == 2101
    assert alone(database)[b"a"] is None
    transaction.reset()
    transaction[b"a"] = bytes(101)
    assert _code(transaction.commit()) is None


def test_options_out_of_range(transaction, database):
    """A value an option cannot have is refused with 2006."""
    for call, value in (
        (transaction.options.set_timeout, -1),
        (transaction.options.set_timeout, 2**31),
        (transaction.options.set_retry_limit, -2),
        (transaction.options.set_max_retry_delay, -1),
        (transaction.options.set_size_limit, 31),
        (transaction.options.set_size_limit, 10_000_001),
        (database.options.set_transaction_timeout, -1),
    ):
        with pytest.raises(FDBError) as caught:
            call(value)
        assert caught.value.code == 2006


def test_unknown_options(transaction, database):
    """An option that FoundationDB does not have is an AttributeError."""
    with pytest.raises(AttributeError):
        transaction.options.set_colour("red")
    with pytest.raises(AttributeError):
        database.options.set_colour("red")


def test_a_databases_defaults(database):
    """Options of the database hold for the transactions created, or reset, afterwards."""
    before = database.create_transaction()
    database.options.set_transaction_retry_limit(0)
    database.options.set_transaction_timeout(60_000)
    database.options.set_transaction_max_retry_delay(5)
    database.options.set_transaction_size_limit(50)
    database.options.set_snapshot_ryw_disable()
    after = database.create_transaction()
    assert _code(before.on_error(1020)) is None
    assert _code(after.on_error(1020)) == 1020
    before.reset()
    before[b"a"] = bytes(60)
    assert before.snapshot[b"a"] == None  # absent, as its writes are unseen
    assert _code(before.commit()) == 2101


@pytest.mark.parametrize("milliseconds", [0, 5])
def test_the_pause_is_bounded(transaction, milliseconds):
    """However often a transaction is retried, no pause is longer than the longest."""
    transaction.options.set_max_retry_delay(milliseconds)
    for code in [1020] * 30 + [1007]:
        delay = transaction.on_error(code)
        assert delay._ready_at - time.monotonic() <= milliseconds / 1000


def test_the_pause_grows(transaction):
    """Without a bound the pauses grow, but not past a second."""
    pauses = [transaction.on_error(1020)._ready_at - time.monotonic() for _ in range(60)]
    assert max(pauses[:2]) < 0.1
    assert 0.1 < max(pauses) < 1.1


def test_on_error_keeps_nothing_of_the_attempt(transaction, database):
    """After ``on_error`` the reads and writes of before are gone."""
    transaction[b"a"] = b"lost"
    transaction.options.set_read_your_writes_disable()
    transaction.on_error(1020).wait()
    assert transaction[b"a"] == None  # absent
    transaction[b"b"] = b"kept"
    assert transaction[b"b"] == b"kept"
    transaction.commit().wait()
    assert [row.key for row in alone(database)[:]] == [b"b"]


def test_on_error_raises_what_is_no_error_of_the_database(transaction):
    """Another exception is raised as it is, even one that has a number for a code."""

    class Foreign(Exception):
        code = 1020

    for error in (ValueError("mine"), Foreign("mine"), SystemExit(1020)):
        with pytest.raises(type(error)) as caught:
            transaction.on_error(error)
        assert caught.value is error


def test_the_approximate_size_grows(transaction):
    """Every read and write makes the commit larger; a reset makes it nothing again."""
    sizes = [transaction.get_approximate_size().wait()]
    for call in (
        lambda: transaction.set(b"k", bytes(100)),
        lambda: transaction[b"read"],
        lambda: transaction.clear_range(b"c", b"d"),
        lambda: transaction.add_read_conflict_key(b"x"),
        lambda: transaction.add_write_conflict_range(b"x", b"y"),
        lambda: transaction.set_versionstamped_key(bytes(10) + bytes(4), b""),
    ):
        call()
        sizes.append(transaction.get_approximate_size().wait())
    assert sizes[0] == 0
    assert sizes == sorted(set(sizes))
    assert sizes[1] > 100
    transaction.reset()
    assert transaction.get_approximate_size().wait() == 0


def test_cancel_and_reset(transaction, database):
    """A cancelled transaction fails with 1025 until it is reset."""
    transaction[b"a"] = b"lost"
    transaction.cancel()
    stamp = transaction.get_versionstamp()
    transaction[b"b"] = b"lost"
    for future in (
        transaction[b"a"],
        transaction.get_read_version(),
        transaction.watch(b"a"),
        transaction.on_error(1020),
        stamp,
        transaction.commit(),
    ):
        assert _code(future) == 1025
    assert transaction.get_approximate_size().wait() > 0
    transaction.cancel()
    transaction.reset()
    transaction[b"c"] = b"kept"
    assert _code(transaction.commit()) is None
    assert [row.key for row in alone(database)[:]] == [b"c"]


def test_a_commit_is_cancelled_before_it_runs(transaction, database):
    """A commit nobody has waited for has no effect after a cancel or a reset."""
    for end in (transaction.cancel, transaction.reset):
        transaction[b"a"] = b"lost"
        commit = transaction.commit()
        end()
        assert _code(commit) == 1025
        transaction.reset()
    run(database, lambda other: other.set(b"b", b""))
    assert [row.key for row in alone(database)[:]] == [b"b"]


def test_a_timeout_ends_a_wait_of_the_other_threads_commit(database, start):
    """A commit waiting behind another thread's gives up at its own timeout."""
    holder = start("""
def hold(connection):
    say("holding")
    sys.stdin.readline()

database._store.write(None, hold)
say("released")
""")
    holder.expect("holding")
    patient, hasty = database.create_transaction(), database.create_transaction()
    patient[b"patient"] = hasty[b"hasty"] = b""
    commit = patient.commit()
    waiting = threading.Thread(target=commit.wait)
    waiting.start()
    wait_until(lambda: database.committer._leader)
    hasty.options.set_timeout(50)
    assert _code(hasty.commit()) == 1031
    holder.tell()
    holder.expect("released")
    waiting.join()
    assert [row.key for row in alone(database)[:]] == [b"patient"]
