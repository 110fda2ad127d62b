"""Reservations of the embedded engine: who retries waits before it reads, and for nobody long."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import signal
import threading
import time

import pytest

from fdbqueue.engines import embedded
from fdbqueue.engines.embedded import reservations
from fdbqueue.engines.embedded.reservations import Reservations
from fdbqueue.engines.embedded.turn import WriterTurn
from tests.engines.alone import alone
from tests.engines.children import Child, run, wait_until
from tests.engines.interrupts import Preemption

#: Less than a reservation holds that these tests have made a long one, on a busy machine too.
_WITHIN_SECONDS = 300.0
#: How long 64 processes may take to start and to work.
_MANY_SECONDS = 600

_RETRY = """
import time

from fdbqueue.engines.embedded import reservations

def retried():
    "Return a transaction that has conflicted, and reads again."
    transaction = database.create_transaction()
    transaction[b"mine"]
    alone(database)[b"mine"] = b"another's"
    transaction[b"mine"] = b"lost"
    try:
        transaction.commit().wait()
    except embedded.FDBError as error:
        transaction.on_error(error).wait()
    return transaction

def increment(transaction):
    value = transaction[b"count"]
    transaction[b"count"] = b"%d" % (int(value) + 1 if value.present() else 1)
"""

_FOR_LONG = """
from fdbqueue.engines.embedded import reservations
reservations._THINK = reservations._COMMIT = 600_000_000_000
"""
_STAND = (
    _RETRY
    + """
transaction = retried()
increment(transaction)
say("reserved")
if sys.argv[2] == "think":
    sys.stdin.readline()
elif sys.argv[2] == "stop":
    os.kill(os.getpid(), signal.SIGSTOP)
elif sys.argv[2] == "stop in the commit":
    wait = database.committer.wait
    def stop(request):
        say("holding")
        os.kill(os.getpid(), signal.SIGSTOP)
        wait(request)
    database.committer.wait = stop
else:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    transaction.commit().wait()
    say("committed")
except embedded.FDBError as error:
    say(error.code)
"""
)

_LINE_UP = (
    _RETRY
    + """
reservations._THINK = reservations._COMMIT = 600_000_000_000
reservations._LATE = reservations._UNCLAIMED = 600_000_000_000
reservations._PATIENCE = 600_000_000_000
transaction = retried()
say("ready")
sys.stdin.readline()
value = transaction[b"log"]
transaction[b"log"] = (bytes(value) if value.present() else b"") + sys.argv[2].encode()
transaction.commit().wait()
say("done")
"""
)

_INCREMENT = (
    _RETRY
    + """
say("ready")
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    run(database, increment)
say("done")
"""
)

_CUT_OFF = (
    _RETRY
    + """
from tests.engines.interrupts import handled_at_each_place

def work():
    transaction = retried()
    increment(transaction)
    transaction.commit().wait()

def cut_off():
    os.truncate(sys.argv[1] + "-sync/turn", int(sys.argv[2]))

work()
runs = 2 + sum(1 for _ in handled_at_each_place(work, cut_off, stride=7))
say(runs > 50 and int(alone(database)[b"count"]) == runs)
"""
)

_FORK = (
    _RETRY
    + """
reservations._THINK = 600_000_000_000
reservations._COMMIT = 610_000_000_000
transaction = retried()
increment(transaction)
before = database._store.turn.reservations._process
pid = os.fork()
if not pid:
    alone(database)[b"child"] = b""
    after = database._store.turn.reservations._process
    database._store.turn.reservations.release(1)  # the parent's, which it cannot end
    os._exit(0 if after != before else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
transaction.commit().wait()
run(database, increment)
say("ended")
"""
)


@pytest.fixture
def patient(monkeypatch):
    """Let a reservation hold for ten minutes, so that nothing here depends on the machine."""
    monkeypatch.setattr(reservations, "_THINK", 600_000_000_000)
    monkeypatch.setattr(reservations, "_COMMIT", 600_000_000_000)
    monkeypatch.setattr(reservations, "_PATIENCE", 600_000_000_000)


def _retried(database, key=b"own"):
    """Return a transaction that has conflicted, before it reads again."""
    transaction = database.create_transaction()
    assert transaction[key] is not None
    alone(database)[key] = b"another's"
    transaction[key] = b"lost"
    with pytest.raises(embedded.FDBError) as raised:
        transaction.commit().wait()
    assert raised.value.code == 1020
    transaction.on_error(raised.value).wait()
    return transaction


def _increment(transaction):
    value = transaction[b"count"]
    transaction[b"count"] = b"%d" % (int(value) + 1 if value.present() else 1)


def _note(database):
    """Return the process and the attempt that have the file reserved; zeros if none has."""
    process, number, until, _ = database._store.turn.reservations.open().note()
    return (process, number) if until > time.monotonic_ns() else (0, 0)


def _until(database):
    """Return until when the file is reserved, whoever has it."""
    return database._store.turn.reservations.open().note()[2]


def _places(database):
    """Return since when each process waits that has a place in line."""
    places = database._store.turn.reservations.open().places()
    return [since for process, since, _ in reservations._PLACE.iter_unpack(places) if process]


@pytest.mark.parametrize("how", ["stop", "stop in the commit", "think", "die"])
def test_who_stands_still_blocks_nobody(database, start, how):
    """A process that has the file reserved and goes no further costs others less than a second."""
    alone(database)[b"opened"] = b""  # with what processes note
    child = start(_STAND, how)
    child.expect("reserved")
    assert _until(database) - time.monotonic_ns() <= 1_000_000_000
    if how == "stop in the commit":
        child.expect("holding")
    began = time.monotonic()
    _retried(database)[b"count"]
    for _ in range(20):
        run(database, _increment)
    assert time.monotonic() - began < _WITHIN_SECONDS
    assert int(alone(database)[b"count"]) == 20
    if how == "die":
        return
    child.go_on()
    if how == "think":
        child.tell()
    # The check of its commit finds what was written meanwhile, or that five seconds have passed.
    assert child.line() in {"1020", "1007"}
    assert int(alone(database)[b"count"]) == 20


def test_one_that_thinks_for_four_seconds_commits_if_nothing_changed(database):
    """A reservation that is lost by thinking is no error."""
    transaction = _retried(database)
    _increment(transaction)
    time.sleep(4)
    transaction.commit().wait()
    assert alone(database)[b"count"] == b"1"


def test_who_reserves_reads_what_the_one_before_has_written(patient, database, start):
    """An attempt that waits reads after the commit of the one that has the reservation."""
    transaction = _retried(database)
    transaction[b"log"]
    child = start(_LINE_UP, "b")
    child.expect("ready")
    child.tell()
    wait_until(lambda: _places(database))
    transaction[b"log"] = b"a"
    transaction.commit().wait()
    child.expect("done")
    assert alone(database)[b"log"] == b"ab"


def test_first_come_first_served(patient, database, start):
    """Processes that wait reserve the file in the order in which they came."""
    transaction = _retried(database)
    transaction[b"log"]
    children = [start(_LINE_UP, name) for name in "abcd"]
    for child in children:
        child.expect("ready")
    for waiting, child in enumerate(children, 1):
        child.tell()
        wait_until(lambda waiting=waiting: len(_places(database)) == waiting)
    transaction.commit().wait()
    for child in children:
        child.expect("done")
    assert alone(database)[b"log"] == b"abcd"


def test_a_commit_that_has_not_conflicted_waits_for_nobody(patient, database, start):
    """Pushes, and attempts that are the first, go between."""
    child = start(_FOR_LONG + _STAND, "think")
    child.expect("reserved")
    began = time.monotonic()
    alone(database)[b"other"] = b""
    run(database, lambda tr: tr.set(b"third", bytes(tr[b"other"])))
    assert time.monotonic() - began < _WITHIN_SECONDS
    assert _note(database) != (0, 0)


def test_threads_share_one_place_in_line(patient, database, start):
    """Of the threads of a process that wait, one waits for the process; all have their turn."""
    child = start(_FOR_LONG + _STAND, "think")
    child.expect("reserved")
    transactions = [_retried(database, b"own %d" % number) for number in range(3)]
    ended = []

    def work(transaction):
        _increment(transaction)
        transaction.commit().wait()
        ended.append(transaction)

    threads = [threading.Thread(target=work, args=(one,), daemon=True) for one in transactions]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(database._store.turn.reservations._line) == 3)
    wait_until(lambda: _places(database))
    assert len(_places(database)) == 1
    assert not ended
    child.tell()
    child.expect("committed")
    for thread in threads:
        thread.join(60)
    assert len(ended) == 3
    assert alone(database)[b"count"] == b"4"
    assert not _places(database)


def test_a_thread_does_not_wait_for_itself(patient, database):
    """Of two transactions of one thread the second goes on without a reservation."""
    first, second = _retried(database, b"first"), _retried(database, b"second")
    _increment(first)
    began = time.monotonic()
    second[b"unrelated"]
    assert time.monotonic() - began < _WITHIN_SECONDS
    first.commit().wait()


@pytest.mark.parametrize("end", ["commit", "reset", "cancel", "drop"])
def test_whoever_only_reads_releases(patient, database, end):
    """A reservation ends with its transaction, also if that has written nothing."""
    transaction = _retried(database)
    transaction[b"count"]
    assert _note(database) != (0, 0)
    if end == "commit":
        transaction.commit().wait()
    elif end == "drop":
        del transaction
        gc.collect()
    else:
        getattr(transaction, end)()
    assert _note(database)[1] == 0


def test_a_deadline_ends_the_wait(patient, database, start):
    """A transaction with a time limit does not wait beyond it."""
    child = start(_FOR_LONG + _STAND, "think")
    child.expect("reserved")
    transaction = _retried(database)
    transaction.options.set_timeout(1)
    began = time.monotonic()
    with pytest.raises(embedded.FDBError) as raised:
        transaction[b"count"].wait()
    assert raised.value.code == 1031
    assert time.monotonic() - began < _WITHIN_SECONDS


def test_a_note_of_another_clock_is_void(database):
    """What another machine, or a clock that jumped, has left in the file holds up nobody."""
    alone(database)[b"a"] = b""
    shared = database._store.turn.reservations.open().descriptor
    for until in (2**64 - 1, time.monotonic_ns() + 3_600 * 10**9, 0):
        os.pwrite(shared, reservations._NOTE.pack(1, 1, until, 1), 0)
        os.pwrite(shared, os.urandom(len(reservations._NOBODY)), reservations._PLACES_AT)
        began = time.monotonic()
        run_by = _retried(database)
        _increment(run_by)
        run_by.commit().wait()
        assert time.monotonic() - began < _WITHIN_SECONDS


def test_a_full_disk_leaves_the_retries_as_they_were():
    """Without room for the shared file nobody reserves, and nobody waits."""
    without = Reservations("/dev/full")
    assert without.open() is None
    assert without.reserve(None) is None
    without.hold(1)
    without.release(1)


def test_lock_files_that_are_deleted_while_one_is_opened(tmp_path, monkeypatch):
    """A thread that is late has the old one; all others have the new one."""
    turn = WriterTurn(str(tmp_path))
    turn.open()
    real = os.fstat

    def late(*arguments):
        monkeypatch.undo()
        for name in ("turn", "turnstile"):
            (tmp_path / name).unlink()
        turn.reopen_deleted()
        return real(*arguments)

    monkeypatch.setattr(reservations.os, "fstat", late)
    before = turn.reservations
    before.open()
    assert before.shared is None
    assert turn.reservations.note_pipe()
    length, at = reservations.PIPES
    assert (tmp_path / "turn").read_bytes()[at : at + length] != bytes(length)
    turn.close()


@pytest.mark.parametrize("size", [0, 20, 3_212])
def test_a_lock_file_that_is_cut_off_at_any_place(start, size):
    """As by a copy over it: nobody dies of it, and each commit takes effect once."""
    start(_CUT_OFF, size).expect("True")


def test_a_bell_that_is_bound_while_the_file_is_closed(tmp_path, monkeypatch):
    """It is closed, too."""
    (tmp_path / "turn").touch()
    closed = Reservations(str(tmp_path / "turn"))
    address = reservations._address

    def late(process):
        closed.close()
        return address(process)

    monkeypatch.setattr(reservations, "_address", late)
    assert closed._own_bell() is None


def test_a_fork_has_no_reservation_of_its_parent(database, start):
    """The child is another process: it neither has the parent's reservation nor ends it."""
    child = start(_FORK)
    child.expect("ended")
    assert alone(database)[b"count"] == b"2"


def test_processes_that_increment_lose_nothing(database, start):
    """Many processes that change one key end at the exact sum, and none is left behind."""
    children = [start(_INCREMENT, 40) for _ in range(8)]
    for child in children:
        child.expect("ready")
    for child in children:
        child.tell()
    victim = start(_STAND, "stop")
    victim.expect("reserved")
    for child in children:
        child.expect("done")
    assert alone(database)[b"count"] == b"320"
    os.kill(victim.pid, signal.SIGKILL)


_TAKE_PART = (
    _RETRY
    + """
def pop(transaction):
    for key, value in transaction.get_range(b"item/", b"item0", limit=1):
        del transaction[key]
        return taken.append(value)

def commits():
    return int(alone(database)[b"count"] or 0)

taken, most = [], 0
say("ready")
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    for work in (increment, pop):
        before = commits()
        attempt = database.create_transaction()
        while True:
            found = len(taken)
            try:
                work(attempt)
                attempt.commit().wait()
                break
            except embedded.FDBError as error:
                del taken[found:]
                attempt.on_error(error).wait()
        most = max(most, commits() - before)
say(most)
for value in taken:
    say(bytes(value).decode())
"""
)


@pytest.mark.nightly
def test_sixty_four_processes(database, path, put):
    """Nothing is lost or taken twice, and no process waits until all others are done."""
    processes, turns = 64, 30
    put({b"item/%04d" % number: b"%d" % number for number in range(processes * turns)})
    with contextlib.ExitStack() as stack:
        children = [
            stack.enter_context(Child(path, _TAKE_PART, turns, deadline_seconds=_MANY_SECONDS))
            for _ in range(processes)
        ]
        for child in children:
            child.expect("ready")
        for child in children:
            child.tell()
        said = [child.end() for child in children]
    assert alone(database)[b"count"] == b"%d" % (processes * turns)
    assert sorted(int(value) for _, *taken in said for value in taken) == list(
        range(processes * turns)
    )
    assert {len(taken) for _, *taken in said} == {turns}
    assert max(int(most) for most, *_ in said) < (processes - 1) * turns


_FULL = (
    _RETRY
    + """
import resource

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
alone(database)[b"before"]
say("ready")
sys.stdin.readline()
transaction = retried()
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), most))
while True:
    increment(transaction)
    for number in range(40):
        transaction[b"full/%d" % number] = os.urandom(50_000)
    error = transaction.commit().exception()
    if error.code != 1020:
        break
    transaction.on_error(error).wait()
say(error.code)
sys.stdin.readline()
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
run(database, increment)
say("done")
"""
)

_GO_ON = (
    _RETRY
    + """
stop = threading.Event()

def work():
    done = 0
    while not stop.is_set():
        run(database, increment)
        done += 1
    say(done)

thread = threading.Thread(target=work)
say("ready")
sys.stdin.readline()
thread.start()
sys.stdin.readline()
stop.set()
thread.join()
"""
)


# Reservations are in a file, too, and a disk that is full has room for what is there already.
@pytest.mark.parametrize("allowed", [4_096, 300_000], ids=["none of it", "some of it"])
def test_a_disk_that_is_full_for_one_while_others_wait(database, start, allowed):
    """Its commit fails with io_error and writes nothing; others go on within a second."""
    victim = start(_FULL, allowed)
    victim.expect("ready")
    others = [start(_GO_ON) for _ in range(4)]
    for other in others:
        other.expect("ready")
    for other in others:
        other.tell()
    wait_until(lambda: alone(database)[b"count"] is not None)
    victim.tell()
    victim.expect("1510")
    before = int(alone(database)[b"count"])
    wait_until(lambda: int(alone(database)[b"count"]) > before, _WITHIN_SECONDS)
    victim.tell()
    victim.expect("done")
    for other in others:
        other.tell()
    done = [int(other.end()[0]) for other in others]
    assert all(done)
    assert alone(database)[b"count"] == b"%d" % (sum(done) + 1)
    assert not alone(database)[b"full/":b"full0"]


_NO_ROOM = (
    _RETRY
    + """
import resource

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
alone(database)[b"count"]
resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
say("ready")
sys.stdin.readline()
codes, longest = set(), 0.0
for _ in range(20):
    began = time.monotonic()
    try:
        run(database, increment)
        codes.add(0)
    except embedded.FDBError as error:
        codes.add(error.code)
    longest = max(longest, time.monotonic() - began)
say(longest)
say(codes)
sys.stdin.readline()
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
for _ in range(20):
    run(database, increment)
say("done")
"""
)


def test_a_disk_that_is_full_for_all(database, start, put):
    """Each attempt fails with io_error at once; with room again all go on, and nothing is lost."""
    put({b"count": b"5"})
    children = [start(_NO_ROOM) for _ in range(4)]
    for child in children:
        child.expect("ready")
    for child in children:
        child.tell()
    for child in children:
        assert float(child.line()) < _WITHIN_SECONDS
        child.expect("{1510}")
    assert alone(database)[b"count"] == b"5"
    for child in children:
        child.tell()
    for child in children:
        child.expect("done")
    assert alone(database)[b"count"] == b"%d" % (5 + 4 * 20)


_CONTEND = """
def touch(transaction):
    transaction[b"key 0000"] = b"%d" % (int(transaction[b"key 0000"]) + 1)

say("ready")
sys.stdin.readline()
stop = threading.Event()

def work():
    while not stop.is_set():
        run(database, touch)

thread = threading.Thread(target=work)
thread.start()
sys.stdin.readline()
stop.set()
thread.join()
"""


def test_a_long_transaction_is_done_beside_many_short_ones(database, start, put):
    """One that always loses the race, and never finds the others in conflict, is let pass."""
    put({b"key %04d" % number: b"0" for number in range(1_000)})
    child = start(_CONTEND)
    child.expect("ready")
    child.tell()
    attempts = []

    def rewrite(transaction):
        attempts.append(transaction)
        for key, value in transaction[b"key ":b"key!"]:
            transaction[key] = value
        time.sleep(0.05)  # longer than a reservation holds at first

    wait_until(lambda: int(alone(database)[b"key 0000"]) > 3)
    for _ in range(3):
        run(database, rewrite)
    assert len(attempts) <= 15
    child.tell()
    child.end()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one dropped then
def test_an_exception_at_any_place(database):
    """Wherever a handler raises, the next one reserves within a second."""
    place, total = 0, 0
    while True:
        place += 1
        transaction = _retried(database)

        def work(transaction=transaction):
            _increment(transaction)
            transaction.commit().wait()

        preemption = Preemption(place, within="reservations.py")
        preemption.run(work)
        del transaction
        began = time.monotonic()
        run(database, _increment)
        again = _retried(database)
        _increment(again)
        again.commit().wait()
        assert time.monotonic() - began < _WITHIN_SECONDS
        assert not database._store.turn.reservations._line
        total = int(alone(database)[b"count"])
        if not preemption.was_interrupted:
            break
    assert place > 20
    assert total >= 2 * place


def test_memory_that_is_closed_at_any_place(tmp_path):
    """As by a fork in another thread: who reserves goes on without a reservation."""
    (tmp_path / "turn").touch()
    for place in itertools.count(1):
        own = Reservations(str(tmp_path / "turn"))

        def work(own=own):
            given = own.reserve(None)
            number = 0 if given is None else given.number
            own.hold(number)
            own.release(number)

        preemption = Preemption(place, handler=own.close, within="reservations.py")
        preemption.run(work)
        own.close()
        if not preemption.was_interrupted:
            break
    assert place > 20
