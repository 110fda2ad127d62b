"""Watches of the embedded engine, across threads and processes."""

from __future__ import annotations

import errno
import gc
import os
import threading
import time
from contextlib import closing, contextmanager
from types import SimpleNamespace

import pytest

from fdbqueue.engines import embedded
from fdbqueue.engines.embedded import FDBError, watches
from fdbqueue.engines.embedded.watches import Notifier, _Pipe
from fdbqueue.exceptions import EngineUnavailable
from tests.engines.alone import alone
from tests.engines.children import code_of, run, wait_until

_DEADLINE_SECONDS = 60
_idle = threading.Event()


def _watch(database, *keys):
    transaction = database.create_transaction()
    futures = [transaction.watch(key) for key in keys]
    transaction.commit().wait()
    return futures


def _fires(watch):
    fired = threading.Event()
    watch.on_ready(lambda _: fired.set())
    return fired.wait(_DEADLINE_SECONDS)


def _sync_files(path):
    return sorted(file.name for file in path.with_name(path.name + "-sync").iterdir())


@pytest.fixture
def watching_threads():
    """Return a function that lists the watching threads begun by this test.

    One of an earlier test may still be about to end.
    """
    earlier = set(threading.enumerate())
    return lambda: [
        thread
        for thread in threading.enumerate()
        if thread.name == "fdbqueue-watches" and thread not in earlier
    ]


def test_threads_are_woken(database, put):
    """Every thread that waits on a changed key goes on, and no other."""
    changed, other = _watch(database, b"a", b"b")
    more = _watch(database, b"a")
    threads = [threading.Thread(target=watch.wait) for watch in (changed, changed, *more)]
    for thread in threads:
        thread.start()
    put({b"a": b"1"})
    for thread in threads:
        thread.join(_DEADLINE_SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    assert not other.is_ready()


@pytest.mark.parametrize(
    "change",
    [
        lambda tr: tr.set(b"k", b"2"),
        lambda tr: tr.clear(b"k"),
        lambda tr: tr.clear_range(b"a", b"z"),
        lambda tr: tr.add(b"k", b"\x01"),
        lambda tr: tr.set_versionstamped_value(b"k", bytes(14)),
        lambda tr: tr.compare_and_clear(b"k", b"1"),
    ],
)
def test_every_kind_of_change_fires(database, put, change):
    """Whatever changes the value makes the watch ready."""
    put({b"k": b"1"})
    (watch,) = _watch(database, b"k")
    run(database, change)
    assert _fires(watch)
    assert watch.wait() is None


def test_a_versionstamped_key_fires(database):
    """A watch of a key that gets its name from a versionstamp fires when it appears."""
    first = run(database, lambda tr: tr.set_versionstamped_key(bytes(14), b"1"))
    key = first.get_committed_version().to_bytes(8, "big") + b"\x00\x00"
    assert alone(database)[key] == b"1"
    (watch,) = _watch(database, key)
    run(database, lambda tr: tr.set(key, b"2"))
    assert _fires(watch)


def test_other_processes_are_woken(database, start):
    """A commit of one process makes the watch of another ready, both ways."""
    other = start("""
transaction = database.create_transaction()
watch = transaction.watch(b"here")
transaction.commit().wait()
say("watching")
watch.wait()
say(bytes(alone(database)[b"here"]).decode())
alone(database)[b"there"] = b"answer"
""")
    (watch,) = _watch(database, b"there")
    other.expect("watching")
    run(database, lambda tr: tr.set(b"here", b"question"))
    other.expect("question")
    assert _fires(watch)
    assert alone(database)[b"there"] == b"answer"


def test_who_commits_just_after_it_closed_its_pipes_wakes_others(database, path, put, monkeypatch):
    """As a process does that forks: it looks for the pipes again, though none is new."""
    monkeypatch.setattr(watches, "CHECK_SECONDS", 3_600)
    with closing(embedded.Database(str(path), "full")) as other:
        (watch,) = _watch(other, b"a")

        def has_looked():
            put({b"b": b""})
            return database._notifier._look_at > 0

        wait_until(has_looked)
        database.close()
        put({b"a": b"1"})
        assert _fires(watch)


def test_a_change_between_the_read_and_the_commit_fires(database, put):
    """A key changed after the watch read it, before its commit, makes it ready at once."""
    transaction = database.create_transaction()
    watch = transaction.watch(b"a")
    put({b"a": b"1"})
    transaction.commit().wait()
    assert watch.is_ready()


@contextmanager
def _changing(database, key):
    """Let a thread change a key all the time."""
    stop = threading.Event()

    def change():
        while not stop.is_set():
            run(database, lambda tr: tr.add(key, b"\x01\x00"))

    changing = threading.Thread(target=change)
    changing.start()
    try:
        yield
    finally:
        stop.set()
        changing.join()


def test_no_watch_is_lost_among_changes(database):
    """Watches set while the key keeps changing all become ready: none sleeps for ever."""
    with _changing(database, b"count"):
        for _ in range(200):
            assert _fires(_watch(database, b"count")[0])


def test_no_watch_fires_without_a_change(database):
    """A watch of what its transaction wrote stays while other keys are written."""
    spurious = 0
    with _changing(database, b"other"):
        held = _watch(database, b"a")
        for number in range(300):
            transaction = database.create_transaction()
            transaction[b"a"] = b"%d" % number
            held.append(transaction.watch(b"a"))
            transaction.commit().wait()
            held[-2].wait()
            spurious += held[-1].is_ready()
    assert spurious == 0


def test_a_cancelled_watch(database, put):
    """A watch that is cancelled ends with 1101, before or after its commit."""
    transaction = database.create_transaction()
    early, late = transaction.watch(b"a"), transaction.watch(b"a")
    early.cancel()
    transaction.commit().wait()
    late.cancel()
    late.cancel()
    put({b"a": b"1"})
    assert [code_of(early), code_of(late)] == [1101, 1101]


def test_a_watch_whose_transaction_ends_before_its_commit(database):
    """A reset, a retry or a cancel ends the watch with 1025."""
    for end in ("reset", "cancel", "on_error"):
        transaction = database.create_transaction()
        watch = transaction.watch(b"a")
        getattr(transaction, end)(*([1020] if end == "on_error" else []))
        assert code_of(watch) == 1025


def test_a_watch_outlives_its_transaction(database, put):
    """Once committed, a watch stays set whatever becomes of the transaction."""
    transaction = database.create_transaction()
    watch = transaction.watch(b"a")
    transaction.commit().wait()
    transaction.reset()
    transaction.cancel()
    del transaction
    gc.collect()
    assert not watch.is_ready()
    put({b"a": b"1"})
    assert _fires(watch)


def test_watches_that_cannot_be_set(database):
    """1034 without read-your-writes, 2102 for a long key, 2004 for a system key."""
    transaction = database.create_transaction()
    transaction.options.set_read_your_writes_disable()
    assert code_of(transaction.watch(b"a")) == 1034
    transaction = database.create_transaction()
    assert code_of(transaction.watch(bytes(10_001))) == 2102
    assert code_of(transaction.watch(b"\xff")) == 2004


def test_too_many_watches(database, monkeypatch):
    """The watch past the limit fails with 1032, until another one is gone."""
    monkeypatch.setattr(watches, "MAX_WATCHES", 3)  # 10,000 in earnest
    held = _watch(database, b"a", b"b")
    transaction = database.create_transaction()
    held.append(transaction.watch(b"c"))
    assert code_of(transaction.watch(b"d")) == 1032
    held.pop(0).cancel()
    assert _fires_not(transaction.watch(b"d"))
    del held[0]
    transaction.reset()
    gc.collect()
    assert _fires_not(database.create_transaction().watch(b"e"))


def _fires_not(watch):
    return not watch.is_ready()


def test_nothing_is_left_once_the_watches_are_gone(database, path, put, watching_threads):
    """Without watches the thread ends and its pipe goes, however busy the database is."""
    for leave in ("cancel", "drop", "fire"):
        held = _watch(database, b"a")
        assert len(watching_threads()) == 1
        assert len(_sync_files(path)) == 5
        if leave == "cancel":
            held[0].cancel()
        elif leave == "fire":
            put({b"a": b"1"})
            assert _fires(held[0])
        held.clear()
        gc.collect()
        wait_until(lambda: put({b"busy": b""}) and not watching_threads())
        assert _sync_files(path) == ["turn", "turnstile", "used"]
        assert not database.watches._watches


def test_nothing_polls(database, put):
    """While nothing is committed the file is not read, however many watches there are."""
    held = _watch(database, *(b"%d" % number for number in range(100)))
    put({b"a": b""})
    wait_until(lambda: not database.watches._pipe._has_bytes(0))
    looks = []
    look = database.watches._look
    database.watches._look = lambda seen: looks.append(1) or look(seen)
    assert not _idle.wait(1.2)  # longer than any pause of the watching thread
    assert looks == []
    put({b"0": b"1"})
    assert _fires(held[0])
    assert len(looks) == 1


@pytest.fixture
def looks(database, monkeypatch):
    """The looks at what commits have changed, as they are made."""
    looks, look = [], database.watches._look
    monkeypatch.setattr(database.watches, "_look", lambda seen: looks.append(1) or look(seen))
    return looks


def test_nothing_is_looked_at_without_watches(database, put, looks, watching_threads):
    """Not even while the thread stays for the next watch."""
    (watch,) = _watch(database, b"a")
    watch.cancel()
    for number in range(10):
        put({b"b": b"%d" % number})
    wait_until(lambda: not watching_threads())
    assert looks == []


def test_a_watch_that_is_set_while_the_thread_stays_for_it(
    database, put, watching_threads, monkeypatch
):
    """The thread goes on for it at once, as often as that happens."""
    monkeypatch.setattr(watches, "_LINGER_SECONDS", 3_600)
    for number in range(50):
        (watch,) = _watch(database, b"a")
        put({b"a": b"%d" % number})
        assert _fires(watch)
    assert len(watching_threads()) == 1


def test_after_a_look_in_vain_the_thread_rests(database, put, looks, monkeypatch):
    """Then it looks once at all that was committed meanwhile, and misses nothing of it."""
    resting, rested, rests = threading.Event(), threading.Event(), []

    def rest(seconds):
        rests.append(seconds)
        resting.set()
        assert rested.wait(_DEADLINE_SECONDS)

    put({b"a": b""})
    (watch,) = _watch(database, b"a")
    monkeypatch.setattr(watches, "time", SimpleNamespace(**{**vars(time), "sleep": rest}))
    put({b"a": b""})
    assert resting.wait(_DEADLINE_SECONDS)
    for number in range(20):
        put({b"a": b"%d" % number})
    assert len(looks) == 1
    assert not watch.is_ready()
    rested.set()
    assert _fires(watch)
    assert len(looks) == 2
    assert rests[0] == watches._FIRST_REST_SECONDS


def test_what_nobody_watches_wakes_nobody(database, put, looks):
    """Neither a key nor a range, nor a key whose watch has been cancelled, after one look."""
    watch, left = _watch(database, b"k", b"left")
    left.cancel()
    put({b"left": b"1"})
    wait_until(lambda: database.watches._pipe.listed == {b"k"})
    assert len(looks) == 1
    for number in range(20):
        put({b"a": b"%d" % number, b"l": b"", b"left": b"%d" % number})
        run(database, lambda tr: tr.clear_range(b"a", b"k"))
    assert not database.watches._pipe._has_bytes(0)
    assert len(looks) == 1
    run(database, lambda tr: tr.clear_range(b"a", b"l"))
    put({b"k": b"1"})
    assert _fires(watch)


def test_a_list_that_cannot_be_read_stands_for_all_keys(database, path, put):
    """It is too long, half written, cut off, or missing: then every commit wakes."""
    sync = path.with_name(path.name + "-sync")
    (one,) = _watch(database, b"one")
    (listed,) = sync.glob("keys-*")

    whole = listed.read_bytes()
    torn = whole[:-1] + bytes([whole[-1] ^ 1])
    for damaged in (torn, b"", None):
        if damaged is None:
            listed.unlink()
        else:
            listed.write_bytes(damaged)
        put({b"other": os.urandom(8)})
        put({b"one": os.urandom(8)})
        assert _fires(one)
        (one,) = _watch(database, b"one")
    many = _watch(database, *(b"%d" % number for number in range(watches._MOST_LISTED)))
    assert database.watches._pipe.listed is None
    put({b"99": b"1", b"one": b"1"})
    assert _fires(many[99])
    assert _fires(one)


def test_a_watch_of_a_signal_handler_is_listed_beside_that_of_its_thread(
    database, put, monkeypatch
):
    """It may come while the list is being written: neither is lost."""
    (first,) = _watch(database, b"first")
    pipe, pwrite, nested = database.watches._pipe, os.pwrite, []

    def interrupted(descriptor, data, offset):
        if descriptor == pipe._listing and not nested:
            nested.append(None)
            nested.extend(_watch(database, b"nested"))
        return pwrite(descriptor, data, offset)

    monkeypatch.setattr(watches.os, "pwrite", interrupted)
    (outer,) = _watch(database, b"outer")
    monkeypatch.undo()
    assert pipe.listed == {b"first", b"nested", b"outer"}
    put({b"nested": b"1"})
    assert _fires(nested[1])
    put({b"outer": b"1", b"first": b"1"})
    assert _fires(outer)
    assert _fires(first)


def test_an_interrupt_once_the_list_is_written_loses_no_watch(database, put, monkeypatch):
    """What was listed before is not in that list any more, if its watch has fired meanwhile."""
    pipe_before, pwrite = _watch(database, b"kept"), os.pwrite
    pipe = database.watches._pipe
    monkeypatch.setattr(watches.WatchRegistry, "_shorten", lambda *_: None)
    (fired,) = _watch(database, b"fired")
    put({b"fired": b"1"})
    assert _fires(fired)

    def interrupted(descriptor, data, offset):
        pwrite(descriptor, data, offset)
        if descriptor == pipe._listing:
            raise KeyboardInterrupt

    monkeypatch.setattr(watches.os, "pwrite", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _watch(database, b"other")
    monkeypatch.setattr(watches.os, "pwrite", pwrite)
    (again,) = _watch(database, b"fired")
    put({b"fired": b"2"})
    assert _fires(again)
    assert not pipe_before[0].is_ready()


def test_a_pipe_whose_list_cannot_be_made_leaves_no_descriptor(database, put, monkeypatch):
    """The error names the file, and the next watch has a pipe."""
    put({b"a": b"1"})
    opened, counts = watches.Descriptors.open, []

    def refuse(descriptors, path, flags):
        if "keys-" in path:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return opened(descriptors, path, flags)

    monkeypatch.setattr(watches.Descriptors, "open", refuse)
    for _ in range(3):
        (watch,) = _watch(database, b"a")
        with pytest.raises(EngineUnavailable):
            watch.wait()
        counts.append(len(os.listdir("/dev/fd")))
    assert counts[1:] == counts[:-1]
    monkeypatch.undo()
    (watch,) = _watch(database, b"a")
    put({b"a": b"2"})
    assert _fires(watch)


def test_lists_of_the_killed_are_removed(database, path, put):
    """But for those that may yet get their pipe."""
    (watch,) = _watch(database, b"a")
    sync = path.with_name(path.name + "-sync")
    orphan, new = sync / "keys-1-orphan", sync / "keys-1-new"
    for one in (orphan, new):
        one.write_bytes(b"")
    long_ago = time.time() - 2 * watches._ORPHANED_SECONDS
    os.utime(orphan, (long_ago, long_ago))

    def is_removed():
        put({b"b": os.urandom(8)})
        return not orphan.exists()

    wait_until(is_removed)
    assert new.exists()
    assert not watch.is_ready()


def test_a_rest_is_short(database, put, looks, monkeypatch):
    """However many looks are in vain, none is later than two milliseconds; after a hit none is."""
    put({b"a": b""})
    (watch,) = _watch(database, b"a")
    rests = []
    fake = SimpleNamespace(**{**vars(time), "sleep": rests.append})
    monkeypatch.setattr(watches, "time", fake)
    for number in range(5):
        put({b"a": b""})
        wait_until(lambda number=number: len(rests) > number)
    assert rests[:5] == [0.0005, 0.001, 0.002, 0.002, 0.002]
    put({b"a": b"1"})
    assert _fires(watch)
    wait_until(lambda: rests[-1] == 0)


def test_a_callback_keeps_its_watch(database, put):
    """A watch that nobody holds still calls back, if a callback was given."""
    fired = threading.Event()
    _watch(database, b"a")[0].on_ready(lambda _: fired.set())
    gc.collect()
    put({b"a": b"1"})
    assert fired.wait(_DEADLINE_SECONDS)


def test_closing_ends_the_watches(database, path, watching_threads):
    """Closing the database ends its watches with 1101 and leaves nothing behind."""
    (watch,) = _watch(database, b"a")
    database.close()
    assert code_of(watch) == 1101
    wait_until(lambda: not watching_threads())
    assert _sync_files(path) == ["turn", "turnstile", "used"]
    assert not database._store._ready


def test_a_new_pipe_is_never_taken_for_a_dead_one(database, path):
    """Whoever commits at the moment a pipe is made leaves it alone."""
    alone(database)[b"a"] = b""
    turn = database._store.turn
    stop = threading.Event()

    def notify():
        while not stop.is_set():
            with closing(Notifier(turn)) as notifier:
                notifier.notify()

    notifying = threading.Thread(target=notify)
    notifying.start()
    try:
        for _ in range(300):
            pipe = _Pipe(turn)
            with closing(Notifier(turn)) as notifier:
                notifier.notify()
            assert pipe.wait(_DEADLINE_SECONDS)
            pipe.remove()
    finally:
        stop.set()
        notifying.join()


def test_an_error_of_the_file_is_no_watch(tmp_path, watching_threads):
    """A watch on a file that cannot be opened gives the error, and sets nothing."""
    database = embedded.open(tmp_path / "missing" / "queues.sqlite3")
    future = database.create_transaction().watch(b"a")
    assert not isinstance(future.exception(), FDBError)
    assert future.exception().code == "engine_unavailable"
    assert watching_threads() == []


class Alarm(Exception):
    """What a signal handler raises."""


def test_an_interrupt_as_the_thread_starts(database, monkeypatch):
    """What a signal handler raises then is the watch's error, not one of threading's."""
    name = "_start_joinable_thread"
    name = name if hasattr(threading, name) else "_start_new_thread"
    begin = getattr(threading, name)

    def interrupted(*arguments, **keywords):
        begin(*arguments, **keywords)
        assert database.watches._thread._started.wait(60)
        raise Alarm

    transaction = database.create_transaction()
    watch = transaction.watch(b"a")  # reads, so that all other threads run
    with monkeypatch.context() as patched:
        patched.setattr(threading, name, interrupted)
        transaction.commit().wait()
    with pytest.raises(Alarm):
        watch.wait()
    transaction = database.create_transaction()
    watch = transaction.watch(b"a")
    transaction.commit().wait()
    alone(database)[b"a"] = b"changed"
    wait_until(watch.is_ready)
    watch.wait()
