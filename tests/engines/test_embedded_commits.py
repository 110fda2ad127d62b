"""Commits of the embedded engine: groups, and what ends a commit under way."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from tests.engines.alone import alone
from tests.engines.children import code_of, wait_until

_DEADLINE_SECONDS = 60
_HOLD = """
def hold(connection):
    say("holding")
    sys.stdin.readline()

database._store.write(None, hold)
say("released")
sys.stdin.readline()
"""


def _begin(database, count):
    return [database.create_transaction() for _ in range(count)]


@pytest.fixture
def held(database, start):
    """Another process that holds the writer's turn until it is told to release it."""
    alone(database)[b"opened"] = b""
    holder = start(_HOLD)
    holder.expect("holding")
    return holder


# Groups


def test_commits_asked_for_together_are_one_group(database):
    """They share a version, and so an fsync; the order among them is in their stamps."""
    transactions = _begin(database, 20)
    for number, transaction in enumerate(transactions):
        transaction[b"%d" % number] = b""
    stamps = [transaction.get_versionstamp() for transaction in transactions]
    commits = [transaction.commit() for transaction in transactions]
    commits[7].wait()
    for commit in commits:
        commit.wait()
    (version,) = {transaction.get_committed_version() for transaction in transactions}
    assert [bytes(stamp) for stamp in stamps] == [
        version.to_bytes(8, "big") + order.to_bytes(2, "big") for order in range(20)
    ]
    assert len(alone(database)[b"0":b":"]) == 20


def test_threads_that_wait_together_share_a_group(database, held):
    """The commits of threads that wait for the same turn become one group."""
    transactions = _begin(database, 10)
    for number, transaction in enumerate(transactions):
        transaction[b"%d" % number] = b""
    commits = [transaction.commit() for transaction in transactions]
    threads = [threading.Thread(target=commit.wait) for commit in commits]
    for thread in threads:
        thread.start()
    wait_until(lambda: database.committer._leader)
    held.tell()
    for thread in threads:
        thread.join(_DEADLINE_SECONDS)
    assert len({transaction.get_committed_version() for transaction in transactions}) == 1


def test_conflicts_within_a_group(database, put):
    """Who reads what an earlier commit of the group wrote fails, and writes nothing."""
    put({b"a": b"1", b"b": b"1"})
    transactions = _begin(database, 5)
    for transaction in transactions[1:]:
        transaction.get_read_version().wait()
    transactions[0][b"a"] = b"blind"
    transactions[1][b"a"].wait()
    transactions[1][b"b"] = b"refused"
    transactions[2][b"b"].wait()
    transactions[2][b"c"] = b"accepted: what it read was not written after all"
    transactions[3].get_range(b"c", b"d").to_list()
    transactions[3][b"d"] = b"refused"
    transactions[4][b"a"] = b"blind too"
    commits = [transaction.commit() for transaction in transactions]
    assert [code_of(commit) for commit in commits] == [None, 1020, None, 1020, None]
    assert alone(database)[b"a"] == b"blind too"
    assert alone(database)[b"b"] == b"1"
    assert alone(database)[b"d"] is None
    assert transactions[1].get_committed_version() == -1
    orders = [transactions[index]._state._request.stamp[-1] for index in (0, 2, 4)]
    assert orders == [0, 1, 2]


def test_a_key_conflicts_beside_what_the_transaction_has_cleared(database):
    """A key within a cleared range is the transaction's own, and others may write it meanwhile."""
    ends = {}
    for key in (b"a", b"b", b"c", b"d", b"e"):
        (reading,) = _begin(database, 1)
        reading.get_read_version().wait()
        reading.clear_range(b"d", b"e")
        reading.clear_range(b"b", b"c")
        reading.add_read_conflict_key(key)
        alone(database)[key] = b"of another"
        ends[key] = code_of(reading.commit())
    assert ends == {b"a": 1020, b"b": None, b"c": 1020, b"d": None, b"e": 1020}


def test_a_versionstamped_key_conflicts(database):
    """A range read conflicts with a key that a versionstamp made within it."""
    for together in (False, True):
        stamping, reading = _begin(database, 2)
        reading.get_range(b"log/", b"log0").to_list()
        reading[b"x"] = b""
        stamping.set_versionstamped_key(b"log/" + bytes(10) + b"\x04\x00\x00\x00", b"")
        stamped = stamping.commit()
        if not together:
            stamped.wait()
        assert code_of(reading.commit()) == 1020
        stamped.wait()


def test_the_last_commits_key_may_be_taken_for_the_transactions_own(database):
    """What a key may become begins at the read version, as with FoundationDB's client."""
    name = b"log/" + bytes(10) + b"\x04\x00\x00\x00"
    for earlier_is_last in (False, True):
        earlier, stamping = _begin(database, 2)
        stamp = earlier.get_versionstamp()
        earlier.set_versionstamped_key(name, b"earlier")
        earlier.commit().wait()
        if not earlier_is_last:
            alone(database)[b"x"] = b""
        stamping.get_read_version().wait()
        stamping.set_versionstamped_key(name, b"later")
        found = stamping[b"log/" + bytes(stamp)]
        if earlier_is_last:
            assert code_of(found) == 1036
        else:
            assert found == b"earlier"


def test_more_commits_than_a_group_takes(database):
    """Thousands of commits asked for before one is waited for all take effect."""
    transactions = _begin(database, 2_500)
    stamps = [transaction.get_versionstamp() for transaction in transactions]
    for transaction in transactions:
        transaction.add(b"count", b"\x01\x00\x00")
    commits = [transaction.commit() for transaction in transactions]
    for commit in reversed(commits):
        commit.wait()
    assert int.from_bytes(alone(database)[b"count"], "little") == 2_500
    assert len({bytes(stamp) for stamp in stamps}) == 2_500
    in_order = [bytes(stamp) for stamp in stamps]
    assert in_order == sorted(in_order)


def test_a_commit_nobody_waits_for_runs_with_the_next(database):
    """A commit whose future was dropped takes effect together with a later one."""
    dropped = database.create_transaction()
    dropped[b"a"] = b"1"
    dropped.commit()
    del dropped
    alone(database)[b"b"] = b"1"
    assert alone(database)[b"a"] == b"1"


# Uses during the commit


def test_use_during_the_commit(database):
    """A use during the commit fails with 2017, and so does the commit."""
    for use in (
        lambda tr: tr[b"a"],
        lambda tr: tr.get_range(b"a", b"b")._first,
        lambda tr: tr.get_versionstamp(),
        lambda tr: tr.watch(b"a"),
        lambda tr: tr.commit(),
        lambda tr: tr.set(b"b", b"") or tr[b"a"],
    ):
        transaction = database.create_transaction()
        transaction[b"a"] = b"1"
        commit = transaction.commit()
        assert code_of(use(transaction)) == 2017
        assert code_of(commit) == 2017
    assert alone(database)[b"a"] is None


@pytest.mark.parametrize(
    ("end", "code"),
    [(lambda tr: tr.cancel(), 1025), (lambda tr: tr.reset(), 1025), (lambda tr: tr[b"a"], 2017)],
)
def test_a_commit_ended_by_another_thread_stops_waiting(database, held, end, code):
    """A thread that waits for its commit goes on when another thread ends the transaction."""
    leading, ended = _begin(database, 2)
    leading[b"leading"] = ended[b"ended"] = b""
    commits = [leading.commit(), ended.commit()]
    leader, follower = (
        threading.Thread(target=commit.block_until_ready, daemon=True) for commit in commits
    )
    leader.start()
    wait_until(lambda: database.committer._leader)
    request = ended._state._request
    follower.start()
    wait_until(lambda: request.waiter is not None)
    end(ended)
    follower.join(_DEADLINE_SECONDS)
    assert not follower.is_alive()
    assert leader.is_alive()
    assert code_of(commits[1]) == code
    held.tell()
    leader.join(_DEADLINE_SECONDS)
    assert alone(database)[b"leading"] == b""
    assert alone(database)[b"ended"] is None


@pytest.mark.parametrize("line", range(3))
def test_a_thread_that_leaves_just_before_it_is_woken(database, line):
    """It saw that its commit has ended, and went by itself: who tells it goes on."""
    leading, followed = _begin(database, 2)
    leading[b"leading"] = followed[b"followed"] = b""
    commits = [leading.commit(), followed.commit()]
    request = followed._state._request
    follower = threading.Thread(target=commits[1].block_until_ready, daemon=True)
    lines = []

    def at_line(frame, event, _argument):
        if event == "line" and frame.f_locals["self"] is request and request.done:
            lines.append(frame.f_lineno)
            if len(lines) == line + 1:
                request.waiter.put(None)
                follower.join(_DEADLINE_SECONDS)
        return at_line

    def at_call(frame, _event, _argument):
        if frame.f_code.co_name == "_run":
            follower.start()
            wait_until(lambda: request.waiter is not None)
        return at_line if frame.f_code.co_name == "end" else None

    def lead():
        sys.settrace(at_call)
        commits[0].block_until_ready()

    leader = threading.Thread(target=lead, daemon=True)
    leader.start()
    for thread in (leader, follower):
        wait_until(lambda thread=thread: thread.ident)
        thread.join(_DEADLINE_SECONDS)
        assert not thread.is_alive()
    assert len(lines) > line
    assert [code_of(commit) for commit in commits] == [None, None]


def test_a_commit_that_times_out_as_the_lead_is_passed_on_to_it(database):
    """Its thread leaves without leading: another one that waits leads instead."""
    committer = database.committer
    notify_watchers, withdraw = committer._notify_watchers, committer.withdraw
    held, gate = threading.Event(), threading.Event()
    empty, passed_on = threading.Event(), threading.Event()

    def hold(written):
        notify_watchers(written)
        committer._notify_watchers = notify_watchers
        held.set()
        gate.wait(_DEADLINE_SECONDS)

    def withdraw_later(request, error):
        empty.set()
        passed_on.wait(_DEADLINE_SECONDS)
        withdraw(request, error)

    def wait_in_thread(key, timeout=None):
        transaction = database.create_transaction()
        if timeout is not None:
            transaction.options.set_timeout(timeout)
        transaction[key] = b""
        commit = transaction.commit()
        thread = threading.Thread(target=commit.block_until_ready, daemon=True)
        thread.start()
        return thread, commit, transaction._state._request

    committer._notify_watchers, committer.withdraw = hold, withdraw_later
    leader, *_ = wait_in_thread(b"leading")
    assert held.wait(_DEADLINE_SECONDS)
    leaving, timed_out, _ = wait_in_thread(b"leaving", timeout=50)
    assert empty.wait(_DEADLINE_SECONDS)
    waiting, commit, request = wait_in_thread(b"waiting")
    wait_until(lambda: request.waiter is not None)
    gate.set()
    leader.join(_DEADLINE_SECONDS)  # having passed the lead on to the first in line
    passed_on.set()
    for thread in (leaving, waiting):
        thread.join(_DEADLINE_SECONDS)
        assert not thread.is_alive()
    assert (code_of(timed_out), code_of(commit)) == (1031, None)


def test_a_commit_that_waits_for_another_process_times_out(database, held):
    """A timeout ends the wait for the writer's turn with 1031, and nothing is written."""
    transaction = database.create_transaction()
    transaction.options.set_timeout(100)
    transaction[b"a"] = b"1"
    before = time.monotonic()
    assert code_of(transaction.commit()) == 1031
    assert time.monotonic() - before < _DEADLINE_SECONDS
    assert code_of(transaction.on_error(1031)) == 1031
    held.tell()
    held.expect("released")
    alone(database)[b"b"] = b""
    assert alone(database)[b"a"] is None


def test_a_commit_that_was_left_does_not_run_any_more(database, monkeypatch):
    """Waited for again, after an exception of a signal handler, it ends with 1021."""

    def leave(_):
        raise KeyboardInterrupt

    transaction = database.create_transaction()
    transaction[b"a"] = b"1"
    commit = transaction.commit()
    with monkeypatch.context() as patch:
        patch.setattr(database.committer, "_lead", leave)
        with pytest.raises(KeyboardInterrupt):
            commit.wait()
    assert code_of(commit) == 1021
    alone(database)[b"b"] = b""
    assert alone(database)[b"a"] is None


def test_what_an_interrupted_group_refused_is_unknown_like_the_rest(database, monkeypatch):
    """All are told so, nothing of them takes effect, and the file is opened again."""
    alone(database)[b"a"] = alone(database)[b"b"] = b"0"
    first, second = _begin(database, 2)
    first[b"a"] = b"1"
    second[b"b"] = b"read " + second[b"a"].value
    commits = [first.commit(), second.commit()]
    interrupted = []

    def leave():
        interrupted.extend(database.committer._group.requests)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(database.committer, "_groups_until_log_check", 1)
        patch.setattr(database._store, "extend_log", leave)
        with pytest.raises(KeyboardInterrupt):
            commits[0].wait()
    assert [request.refusal for request in interrupted] == [None, 1020]
    assert not database._store._ready
    assert [code_of(commit) for commit in commits] == [1021, 1021]
    assert [alone(database)[b"a"], alone(database)[b"b"]] == [b"0", b"0"]
