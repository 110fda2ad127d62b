"""Exceptions of signal handlers, at each place where one may come."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import signal
import sqlite3
import sys
import threading
import weakref

import pytest

from fdbqueue.engines import embedded
from fdbqueue.engines.embedded import database as database_module
from fdbqueue.engines.embedded.files import LOCKS, SYNC
from fdbqueue.exceptions import EngineUnavailable
from tests.concurrency.clients import another
from tests.engines.alone import alone
from tests.engines.children import code_of, run, wait_until
from tests.engines.interrupts import Interrupt, Preemption, handled_at_each_place

_DEADLINE_SECONDS = 60

_COMMIT_WHEN_TOLD = """
for line in sys.stdin:
    run(database, lambda tr: tr.set(b"other", line.encode()))
    say("committed")
"""


class _Limbo(dict):
    """Where threads stay whose start was interrupted; one that starts may not find itself."""

    def __delitem__(self, thread):
        self.pop(thread, None)


threading._limbo = _Limbo(threading._limbo)


@pytest.fixture
def interruptible(monkeypatch):
    """Let nothing be said of finalizers that are interrupted, and of connections lost by that."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    yield
    gc.collect()  # Python warns of an unclosed connection from 3.13 on


@pytest.fixture
def other(interruptible, database, start):
    """Another process, which must be able to commit: ``other()``."""
    alone(database)[b"a"] = b"1"
    child = start(_COMMIT_WHEN_TOLD)

    def commit():
        child.tell()
        child.expect("committed")

    commit()
    yield commit
    threading._limbo.clear()


def _each_place(work, on_enter=None, stride=1, within=""):
    """Yield after each run of ``work``, interrupted ``stride`` places later each time."""
    place = random.randint(1, stride)
    while True:
        preemption = Preemption(place, on_enter and on_enter(), within=within)
        preemption.run(work)
        if not preemption.was_interrupted:
            return
        yield place
        place += stride


def test_an_interrupted_commit_blocks_none(database, other):
    """After an exception anywhere in a commit, this process and others go on committing."""

    def commit():
        transaction = database.create_transaction()
        transaction[b"a"].wait()
        transaction[b"mine"] = b"1"
        transaction.commit().wait()

    places = 0
    for places in _each_place(commit):
        other()
        alone(database)[b"after"] = b"%d" % places
        assert alone(database)[b"after"] == b"%d" % places
    assert places > 100


def _following(database):
    """Return a list for a thread and its commit, and what starts them below a leader."""
    follower = [None, None]

    def follow():
        transaction = database.create_transaction()
        transaction.add(b"followed", b"\x01\x00")
        future = transaction.commit()
        thread = threading.Thread(target=future.block_until_ready, daemon=True)
        follower[:] = thread, future

        def start():
            thread.start()
            wait_until(lambda: database.committer._waiters or not thread.is_alive())

        return "_run", start

    return follower, follow


def test_an_interrupted_leader_leaves_no_commit_behind(database, other):
    """A commit led by a thread that is interrupted ends: well, or with an unknown outcome."""
    follower, follow = _following(database)

    def commit():
        transaction = database.create_transaction()
        transaction[b"mine"] = b"1"
        transaction.commit().wait()

    succeeded, codes = 0, []
    for _ in _each_place(commit, follow):
        thread, future = follower
        if thread.ident is None:  # interrupted before there was anything to lead
            thread.start()
        thread.join(_DEADLINE_SECONDS)
        assert not thread.is_alive()
        codes.append(code_of(future))
        followed = _count(database, b"followed")
        assert followed - succeeded in ({None: {1}, 1021: {0, 1}}[codes[-1]])
        succeeded = followed
        other()
    assert len(codes) > 100
    assert {None, 1021} == set(codes)


@pytest.mark.parametrize("line", ["_free_left_lead", "_close_if_broken", "_wake_all"])
def test_one_more_exception_where_the_first_is_seen_to(database, other, monkeypatch, line):
    """Its thread leaves in the middle of that; others go on all the same, those who wait, too."""
    follower, follow = _following(database)
    owner = database.committer if hasattr(database.committer, line) else database._store
    real, left = getattr(owner, line), [1]

    def interrupted(*arguments):
        if left and threading.current_thread() is threading.main_thread():
            left.pop()
            raise Interrupt
        return real(*arguments)

    def commit():
        transaction = database.create_transaction()
        transaction[b"mine"] = b"1"
        transaction.commit().wait()

    monkeypatch.setattr(owner, line, interrupted)
    places = 0
    for _ in _each_place(commit, follow, stride=3, within=("commits.py", "sqlite_file.py")):
        places += 1
        thread, future = follower
        left.clear()
        if thread.ident is None:
            thread.start()
        thread.join(_DEADLINE_SECONDS)
        assert not thread.is_alive()
        assert code_of(future) in {None, 1021}
        alone(database)[b"after"] = b"%d" % places
        other()
        left.append(1)
    left.clear()
    assert places > 10


def test_an_interrupted_commit_wakes_those_who_watch(database, start, other):
    """A watch of another process fires for a commit whose thread is interrupted after it."""
    watcher = start("""
for line in sys.stdin:
    transaction = database.create_transaction()
    watch = transaction.watch(b"watched")
    transaction.commit().wait()
    say("watching")
    watch.wait()
    say("fired")
""")
    begun = []

    def commit():
        transaction = database.create_transaction()
        begun.append(transaction)
        transaction[b"watched"] = b"%d" % len(begun)
        transaction.commit().wait()

    watcher.tell()
    watcher.expect("watching")
    fired = 0
    seen = b""
    for _ in _each_place(commit, stride=2):
        for transaction in begun[-1:]:
            transaction.cancel()  # or it would run with the next
        stored = database.create_transaction()[b"watched"]
        value = bytes(stored) if stored.present() else b""
        if value != seen:
            seen = value
            watcher.expect("fired")
            fired += 1
            watcher.tell()
            watcher.expect("watching")
    assert fired > 3


def test_an_interrupted_read_keeps_no_snapshot(database, path, other):
    """After an exception anywhere in a read, the log can be started anew in time."""

    def read():
        transaction = database.create_transaction()
        transaction[b"a"].wait()
        transaction.cancel()

    for _ in _each_place(read):
        assert alone(database)[b"a"] == b"1"
    other()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        busy = "PRAGMA wal_checkpoint(TRUNCATE)"
        wait_until(lambda: connection.execute(busy).fetchone()[0] == 0)
    database.close()
    assert alone(database)[b"a"] == b"1"


@pytest.mark.parametrize("is_open", [True, False])
def test_an_interrupted_opening_or_closing(database, other, is_open):
    """After an exception anywhere in it, the file is used by every thread as before."""

    def close():
        database.close()

    def reopen():
        alone(database)[b"a"] = b"1"

    for place in _each_place(close if is_open else reopen, stride=7):
        thread = threading.Thread(
            target=alone(database).set, args=(b"n", b"%d" % place), daemon=True
        )
        thread.start()
        thread.join(_DEADLINE_SECONDS)
        assert not thread.is_alive()
        assert alone(database)[b"n"] == b"%d" % place
        other()
        if not is_open:
            database.close()


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="only Linux says what is open")
def test_an_interrupted_opening_of_a_file_that_nobody_else_uses(interruptible, database, path):
    """Wherever an exception comes, the next call opens it; once closed, it is another's to open."""

    def opened():
        names = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
        links = [os.readlink(name) for name in names if os.path.lexists(name)]
        return [link for link in links if link.startswith(str(path))]

    def reopen():
        alone(database)[b"a"] = b"1"

    reopen()
    database.close()
    for place in _each_place(reopen, within=("/sqlite_file.py", "/files.py", "/turn.py")):
        assert alone(database)[b"a"] == b"1", place
        database.close()
        gc.collect()  # a connection that was lost closes itself, but is in a cycle
        assert opened() == [], place
        with contextlib.closing(another(database)) as other:
            assert alone(other)[b"a"] == b"1", place
    assert place > 50


def test_an_interrupted_look_for_deleted_lock_files(database, other):
    """Wherever an exception comes as they are opened again, the next commit has them."""

    def commit():
        for name in LOCKS:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(database.path + SYNC, name))
        database._store.turn.doubt()
        alone(database)[b"a"] = b"2"

    for _ in _each_place(commit, within=("/turn.py", "/files.py")):
        alone(database)[b"a"] = b"1"
        assert all(os.path.exists(os.path.join(database.path + SYNC, name)) for name in LOCKS)
        other()


def test_an_interrupted_fork(database, other, monkeypatch):
    """Wherever an exception comes before or after it, parent and child use the file afterwards."""
    # Those that other tests have left would be closed as well, each at as many places.
    monkeypatch.setattr(database_module, "_all_databases", weakref.WeakSet([database]))

    def fork():
        child = os.fork()
        if child:
            children.append(child)
        else:
            sys.settrace(None)
            signal.alarm(_DEADLINE_SECONDS)
            alone(database)[b"child"] = b""
            os._exit(0)

    def use():
        thread = threading.Thread(target=run, args=(database, lambda tr: tr.set(b"a", b"2")))
        thread.start()
        thread.join(_DEADLINE_SECONDS)
        return not thread.is_alive()

    children: list[int] = []
    # In these files: Python's own locks, such as that of logging, may stay taken.
    files = (
        "/database.py",
        "/sqlite_file.py",
        "/commits.py",
        "/turn.py",
        "/files.py",
        "/watches.py",
    )
    for place in _each_place(fork, within=files):
        assert os.waitpid(children.pop(), 0)[1] == 0, place
        assert use(), place
    other()


def test_an_interrupted_watch(database, other):
    """After an exception anywhere while a watch is set, the next one fires."""

    def watch():
        transaction = database.create_transaction()
        transaction.watch(b"other")
        transaction.commit().wait()

    for place in _each_place(watch, stride=3):
        transaction = database.create_transaction()
        following = transaction.watch(b"other")
        transaction.commit().wait()
        run(database, lambda tr, place=place: tr.set(b"other", b"%d" % place))
        fired = threading.Event()
        following.on_ready(lambda _, fired=fired: fired.set())
        assert fired.wait(_DEADLINE_SECONDS)
        database.watches.abandon(RuntimeError("the next one starts a thread"))


def _count(database, key):
    return int.from_bytes(bytes(alone(database)[key]), "little")


@pytest.mark.parametrize("reads", [True, False], ids=["by its snapshot", "by the writer"])
def test_a_handler_that_commits_below_a_commit(database, other, reads):
    """Wherever it comes, it commits or is refused at once; what is below takes effect once."""
    handled = []

    def commit():
        def change(transaction):
            if reads:
                transaction[b"read by both"].wait()
            transaction.add(b"below", b"\x01\x00")

        run(database, change)

    def handler():
        handled.append(False)
        with contextlib.suppress(EngineUnavailable):
            run(database, lambda tr: tr.add(b"handler", b"\x01\x00"))
            handled[-1] = True

    for _ in handled_at_each_place(commit, handler, stride=1 if reads else 2):
        other()
    assert len(handled) > 50
    assert {True, False} == set(handled)
    assert _count(database, b"handler") == sum(handled)
    assert _count(database, b"below") == len(handled) + 1


@pytest.fixture
def adding(database):
    """A commit, the handler of a signal that commits as well, and what it adds to when it has."""
    handled = []

    def commit():
        run(database, lambda tr: tr.add(b"below", b"\x01\x00"))

    def handler():
        with contextlib.suppress(EngineUnavailable):
            run(database, lambda tr: tr.add(b"handler", b"\x01\x00"))
            handled.append(True)

    return commit, handler, handled


def test_a_handler_that_commits_while_an_unused_file_is_closed(database, adding, tmp_path):
    """Wherever it comes, both go on."""
    commit, handler, handled = adding

    def leave():
        left = embedded.open(tmp_path / "left.sqlite3")
        transactions = [left.create_transaction() for _ in range(3)]
        for transaction in transactions:
            transaction[b"a"].wait()
        run(left, lambda tr: tr.set(b"a", b"1"))

    runs = 0
    for _ in handled_at_each_place(commit, handler, leave, stride=3):
        runs += 1
    assert _count(database, b"handler") == len(handled) > 0
    assert _count(database, b"below") == runs + 1


def test_a_handler_that_commits_below_a_leader(database, adding, other):
    """The commit of another thread, for which the interrupted one leads, takes effect once."""
    follower, follow = _following(database)
    commit, handler, handled = adding
    runs = 0
    for _ in handled_at_each_place(commit, handler, follow):
        thread, future = follower
        if thread.ident is None:  # nothing led yet
            thread.start()
        thread.join(_DEADLINE_SECONDS)
        assert not thread.is_alive()
        assert future.exception() is None
        runs += 1
        assert _count(database, b"followed") == _count(database, b"below") == runs
        assert _count(database, b"handler") == len(handled)
        other()
    assert runs > 150


def test_a_handler_that_commits_while_the_file_is_opened_or_closed(database, other):
    """Its commit takes effect or is refused at once; what is below goes on."""
    outcomes = []

    def reopen():
        database.close()
        alone(database)[b"a"] = b"1"

    def handler():
        try:
            alone(database).add(b"handled", b"\x01\x00")
        except EngineUnavailable:
            outcomes.append(False)
        else:
            outcomes.append(True)

    for _ in handled_at_each_place(reopen, handler, stride=3):
        assert alone(database)[b"a"] == b"1"
        other()
    assert _count(database, b"handled") == sum(outcomes)
    assert {True, False} == set(outcomes)


def test_a_handler_that_closes_the_file_below_a_leader(database, other):
    """It is refused at once, and what it interrupted takes effect once."""
    outcomes = []

    def commit():
        run(database, lambda tr: tr.add(b"below", b"\x01\x00"))

    def enter():
        def close():
            with pytest.raises(EngineUnavailable):
                database.close()
            outcomes.append(True)

        return "_run", close

    Preemption(0, enter()).run(commit)
    assert (outcomes, _count(database, b"below")) == ([True], 1)
    other()


def test_a_commit_that_ends_just_before_its_thread_waits(database):
    """Another thread may commit it between its last look and the wait: it returns at once."""
    transaction = database.create_transaction()
    transaction[b"key"] = b"value"
    committer = database.committer
    mutex, commit = committer._mutex, transaction.commit()
    request = transaction._state._request

    class EndsFirst:
        def __enter__(self):
            mutex.acquire()
            request.end(None)

        def __exit__(self, *_):
            mutex.release()

    committer._leader = 0  # a thread that commits for all
    committer._mutex = EndsFirst()
    thread = threading.Thread(target=commit.wait, daemon=True)
    try:
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
    finally:
        committer._mutex, committer._leader = mutex, None
        committer._wake_all()
