"""Several processes on one file of the embedded engine, and the sudden death of some."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import threading
from itertools import groupby
from pathlib import Path

import pytest

from fdbqueue.engines import embedded
from tests.engines.alone import alone
from tests.engines.children import run, wait_until

_INCREMENT = """
def increment(transaction):
    for name in (b"read", b"shared"):
        value = transaction[name]
        transaction[name] = b"%d" % (int(value) + 1 if value.present() else 1)
    transaction.add(b"added", (1).to_bytes(8, "little"))

def work():
    for _ in range(int(sys.argv[2])):
        run(database, increment)

threads = [threading.Thread(target=work) for _ in range(3)]
say("ready")
sys.stdin.readline()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""

_STAMPED = """
def stamp(transaction):
    transaction.set_versionstamped_key(b"log/" + bytes(10) + (4).to_bytes(4, "little"), name)

name = sys.argv[2].encode()
if sys.argv[4:]:
    alone(database)[b"opened already"]
say("ready")
sys.stdin.readline()
say("going")
for _ in range(int(sys.argv[3])):
    run(database, stamp)
"""

_ACKNOWLEDGE = """
database = embedded.open(sys.argv[1], durability=sys.argv[2])
number = int(sys.argv[3])
while True:
    number += 1
    def put(transaction):
        for part in range(5):
            transaction[b"%d/%08d" % (part, number)] = bytes(200)
        transaction[b"newest"] = b"%d" % number
    run(database, put)
    say(number)
"""

_HOLD_THE_WRITERS_TURN = """
def hold(connection):
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO kv VALUES (x'61', x'62')")
    say("holding")
    sys.stdin.readline()

database._store.write(None, hold)
"""


def _check(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_the_first_use_by_many_at_once(path, start):
    """Processes that open a new file together all write to the same one."""
    children = [start(_STAMPED, name, 1) for name in "abcd"]
    for child in children:
        child.expect("ready")
    for child in children:
        child.tell()
    for child in children:
        child.end()
    rows = alone(embedded.open(path))[:]
    assert sorted(row.value for row in rows) == [b"a", b"b", b"c", b"d"]


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="only Linux lists who waits")
def test_processes_take_turns(database, start):
    """While several processes commit, none is kept waiting for long by the others."""
    commits = 2_000  # a process woken may need the time of a few hundred to run
    alone(database)[b"a"] = b""
    children = [start(_STAMPED, name, commits, "opened") for name in "abc"]
    for child in children:
        child.expect("ready")

    def let_go(_):
        for child in children:
            child.tell()
            child.expect("going")
        wait_until(lambda: _blocked() >= {child.pid for child in children})

    database._store.write(None, let_go)  # none commits before all have been told
    for child in children:
        child.end()
    writers = [row.value for row in alone(database)[b"log/":b"log0"]]
    assert len(writers) == 3 * commits
    ends = [len(writers) - writers[::-1].index(name) for name in (b"a", b"b", b"c")]
    together = writers[: min(ends)]
    assert max(len(list(same)) for _, same in groupby(together)) <= commits // 2
    for name in (b"a", b"b", b"c"):
        assert together.count(name) >= commits // 4


def _blocked():
    """Return the processes that wait for a file lock, as Linux lists them."""
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return {int(fields[5]) for fields in lines if fields[1] == "->"}


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_nothing_acknowledged_is_lost_to_a_kill(path, start, durability):
    """A process killed at any instant loses no acknowledged commit and leaves no half one."""
    acknowledged = 0
    for _ in range(5):
        child = start(_ACKNOWLEDGE, durability, acknowledged)
        for _ in range(random.randrange(1, 60)):
            acknowledged = int(child.line())
        said = child.kill()
        acknowledged = int(said[-1]) if said else acknowledged
        database = embedded.open(path)
        newest = int(alone(database)[b"newest"])
        assert newest in {acknowledged, acknowledged + 1}
        expected = [b"%08d" % number for number in range(1, newest + 1)]
        for part in range(5):
            rows = alone(database)[b"%d/" % part : b"%d0" % part]
            assert [row.key[2:] for row in rows] == expected
        _check(path)
        database.close()
        acknowledged = newest


def test_a_killed_writer_gives_up_its_turn(database, start):
    """The turn of a process killed in the middle of its commit goes to who waits for it."""
    assert alone(database)[b"a"] is None
    victim = start(_HOLD_THE_WRITERS_TURN)
    victim.expect("holding")
    transaction = database.create_transaction()
    transaction[b"mine"] = b""
    commit = transaction.commit()
    waiting = threading.Thread(target=commit.block_until_ready, daemon=True)
    waiting.start()
    wait_until(lambda: database.committer._leader)
    assert database.create_transaction()[b"a"] == None  # reads need no turn
    assert waiting.is_alive()
    victim.kill()
    waiting.join(60)
    assert not waiting.is_alive()
    commit.wait()
    assert [row.key for row in alone(database)[:]] == [b"mine"]


def test_a_killed_watchers_pipe_is_taken_away(database, path, start):
    """The pipe of a killed process holds no commit up, and the next one removes it."""
    watcher = start("""
transaction = database.create_transaction()
watch = transaction.watch(b"a")
transaction.commit().wait()
say("watching")
sys.stdin.readline()
""")
    watcher.expect("watching")
    sync = path.with_name(path.name + "-sync")
    assert [name.name for name in sync.glob("watch-*")] != []
    watcher.kill()
    run(database, lambda transaction: transaction.set(b"a", b"1"))
    assert [name.name for name in sync.glob("watch-*")] == []


def test_a_stopped_watcher_holds_nobody_up(database, path, start):
    """A process that watches and never looks is rung at without end, and nobody waits."""
    watcher = start("""
transaction = database.create_transaction()
watch = transaction.watch(b"last")
transaction.commit().wait()
say("watching")
os.kill(os.getpid(), signal.SIGSTOP)
watch.wait()
say("fired")
""")
    watcher.expect("watching")
    (pipe,) = path.with_name(path.name + "-sync").glob("watch-*")
    for _ in range(3):
        run(database, lambda transaction: transaction.add(b"count", b"\x01"))
    for _ in range(100_000):  # more than a pipe takes
        database._notifier.notify()
    run(database, lambda transaction: transaction.set(b"last", b"1"))
    assert pipe.exists()
    watcher.go_on()
    watcher.expect("fired")
