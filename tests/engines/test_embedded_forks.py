"""Forks of a process that has the embedded engine open, while its threads use it."""

from __future__ import annotations

import contextlib
import sqlite3
import threading

import pytest

from tests import forked
from tests.engines.alone import alone
from tests.engines.children import wait_until

_BUSY_PARENT = """
import traceback

stop = threading.Event()
counts = [0] * 3

def add(transaction, name):
    transaction.add(name, (1).to_bytes(8, "little"))
    transaction[b"seen"].wait()

def commit(index):
    while not stop.is_set():
        run(database, lambda tr: add(tr, b"parent"))
        counts[index] += 1

def read():
    while not stop.is_set():
        transaction = database.create_transaction()
        pairs = transaction[b"left"], transaction[b"right"]
        try:
            assert pairs[0] == pairs[1]
        except embedded.FDBError as error:
            assert error.code == 1007

def pair(transaction):
    for name in (b"left", b"right"):
        transaction.add(name, (1).to_bytes(8, "little"))

def compare(transaction):
    assert transaction[b"left"] == transaction[b"right"]

def in_child():
    signal.alarm(120)  # a child that hangs is killed
    run(database, lambda tr: add(tr, b"child"))
    run(database, pair)
    run(database, compare)
    thread = threading.Thread(target=run, args=(database, lambda tr: add(tr, b"child")))
    thread.start()
    thread.join()

threads = [threading.Thread(target=commit, args=(index,)) for index in range(3)]
threads += [threading.Thread(target=read) for _ in range(3)]
for thread in threads:
    thread.start()
children = []
for _ in range(int(sys.argv[2])):
    child = os.fork()
    if not child:
        code = 1
        try:
            in_child()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    children.append(child)
codes = [os.waitpid(child, 0)[1] for child in children]
stop.set()
for thread in threads:
    thread.join()
say(sum(counts))
say(",".join(map(str, codes)))
"""

_OLD_TRANSACTIONS = """
if sys.argv[2] == "made directly":
    database = embedded.Database(sys.argv[1], "normal")
alone(database)[b"a"] = b"1"
reading, writing, committing = [database.create_transaction() for _ in range(3)]
reading[b"a"].wait()
writing[b"a"] = b"2"
committing[b"b"] = b"1"
future = committing.commit()
watching = database.create_transaction()
watch = watching.watch(b"a")
watching.commit().wait()
if sys.argv[2] == "let go":
    del database
child = os.fork()
database = embedded.open(sys.argv[1])
if not child:
    signal.alarm(120)
    say(reading[b"a"].exception().code)
    reading.on_error(1007).wait()
    say(bytes(reading[b"a"]).decode())
    writing.commit().wait()
    say(bytes(database.create_transaction()[b"a"]).decode())
    say(future.exception().code)
    say(alone(database)[b"b"])
    say(watch.is_ready())
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
say(reading[b"a"].exception().code)
watch.wait()
future.wait()
say(alone(database)[b"b"])
"""

_CHILD_OUTLIVES = """
alone(database)[b"a"] = b"1"
child = os.fork()
if child:
    say("parent ends")
    os._exit(0)
signal.alarm(120)
sys.stdin.readline()
for number in range(50):
    run(database, lambda tr: tr.set(b"%d" % number, bytes(1000)))
say("child ends")
"""

#: Forks where a signal handler might: in the middle of a commit of the same thread.
_IN_A_COMMIT = """
from fdbqueue.engines.embedded.commit_groups import CommitGroup

other = embedded.open(sys.argv[1] + ".other")
alone(other)[b"a"] = alone(database)[b"a"] = b"1"
apply = CommitGroup.apply

def forking(group, *args):
    CommitGroup.apply = apply
    apply(group, *args)
    child = os.fork()
    if not child:
        signal.alarm(120)
        alone(other)[b"child"] = b"1"
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

CommitGroup.apply = forking
alone(database)[b"parent"] = bytes(100_000)
say(bytes(alone(other)[b"child"]).decode())
"""


def _check(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    """Let a process that forks be no fork itself."""
    monkeypatch.setattr(forked, "IS_PLAIN", True)


def test_forks_while_threads_commit_and_read(database, path, start):
    """Children read and commit, the parent goes on, and every commit of both is there."""
    forks = 15
    total, codes = start(_BUSY_PARENT, forks).end()
    assert codes == ",".join(["0"] * forks)
    assert alone(database)[b"parent"] == int(total).to_bytes(8, "little")
    assert alone(database)[b"child"] == (2 * forks).to_bytes(8, "little")
    assert alone(database)[b"left"] == alone(database)[b"right"] == forks.to_bytes(8, "little")
    _check(path)


@pytest.mark.parametrize("made", ["opened", "made directly", "let go"])
def test_transactions_begun_before_a_fork(start, made):
    """On both sides they fail with 1007 and may be retried; a commit under way is the parent's."""
    lines = start(_OLD_TRANSACTIONS, made).end()
    in_child = ["1007", "1", "2", "1021", "None", "False"]
    assert lines == [*in_child, "1007", "b'1'"]


class _AskedLock:
    """A lock that says when somebody asks for it."""

    def __init__(self, lock):
        self._lock = lock
        self.acquire, self.release = lock.acquire, lock.release
        self._is_owned = lock._is_owned
        self.was_asked = False

    def __enter__(self):
        self.was_asked = True
        return self._lock.__enter__()

    def __exit__(self, *error):
        return self._lock.__exit__(*error)


def test_who_retries_while_a_process_forks_opens_nothing_before_the_end(database, monkeypatch):
    """A retry reserves the file before it reads: that opens it, too."""
    alone(database)[b"a"] = b"1"
    store = database._store
    opening = store._opening = _AskedLock(store._opening)
    opened, resumed = [], []
    open_it = store._open
    monkeypatch.setattr(store, "_open", lambda: opened.append(bool(resumed)) or open_it())
    database.before_fork()
    try:
        retry = threading.Thread(target=store.reserve, args=(None,))
        retry.start()
        wait_until(lambda: opened or opening.was_asked)
    finally:
        resumed.append(True)
        database.after_fork_in_parent()
    retry.join(60)
    assert opened == [True]
    assert alone(database)[b"a"] == b"1"


def test_a_child_that_outlives_its_parent(database, path, start):
    """The child goes on by itself when the parent ends, while another process commits."""
    child = start(_CHILD_OUTLIVES)
    child.expect("parent ends")
    child.tell()
    for _ in range(50):
        alone(database)[b"other"] = bytes(1000)
    child.expect("child ends")
    assert len(alone(database)[b"0":b":"]) == 50
    _check(path)


def test_a_signal_handler_that_forks_in_a_commit(database, path, start):
    """It should not; but the parent goes on, and the child may use what was not in a call."""
    assert start(_IN_A_COMMIT).end() == ["1"]
    assert alone(database)[b"parent"] == bytes(100_000)
    _check(path)
