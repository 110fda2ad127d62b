"""Slots that were swept, written late, or inherited: no receipt is taken for another."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest
from fdb.subspace_impl import Subspace

from fdbqueue.engines import embedded
from fdbqueue.engines.embedded.keys import encoded
from fdbqueue.exceptions import EngineUnavailable, OutcomeUnknown
from fdbqueue.service import FifoQueue, run, transactions
from fdbqueue.service.tools.examination import sweep as sweep_receipts
from tests.engines.alone import alone
from tests.engines.children import Child
from tests.faults.faulty import AFTER, BEFORE, Fault, FaultyTransaction
from tests.faults.telling import FailingOnce

AGAIN = [fault for fault in BEFORE if fault.code in {1021, 1039}]
LEAST = transactions.MIN_SWEPT_SECONDS
TIMED_OUT = 1031


class Pausing(FailingOnce):
    """A database whose first commit fails, and where something happens before what follows."""

    def __init__(self, database, fault, meanwhile):
        super().__init__(database, embedded.FDBError, fault)
        self._meanwhile: Callable[[], object] | None = meanwhile

    def create_transaction(self):
        self.pause()
        return _Pausing(self)

    def pause(self):
        """Let it happen, once the commit has failed."""
        if self.happened and self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()


class _Pausing(FaultyTransaction):
    def on_error(self, error):
        self._faulty.pause()
        return super().on_error(error)


@pytest.fixture
def path(tmp_path):
    """The file of a database of the test's own."""
    return tmp_path / "queues.sqlite3"


@pytest.fixture
def sound(path):
    """That database, none of whose commits fail."""
    return embedded.open(path, durability="normal")


def move_on(sound, seconds):
    """Let versions move on at once, as a cluster's do when it recovers, and sweep."""
    with sqlite3.connect(sound.path) as connection:
        (newest,) = connection.execute("SELECT max(version) FROM commits").fetchone()
        ranges = encoded([])
        connection.execute(
            "INSERT INTO commits VALUES (?, ?)", (newest + 1 + int(seconds * 1_000_000), ranges)
        )
    connection.close()
    return sweep_receipts(sound, older_than_seconds=LEAST)


@pytest.fixture
def emails(sound):
    """A queue of two items."""
    queue = FifoQueue(sound, Subspace(("emails",)))
    queue.push_many(["a", "b"])
    return queue


@pytest.mark.parametrize("fault", AFTER, ids=str)
def test_a_receipt_that_was_swept_is_missed(sound, emails, fault):
    """A pop whose receipt versions have outrun does not pop again: its outcome is unknown."""
    database = Pausing(sound, fault, lambda: move_on(sound, LEAST + 100))
    with pytest.raises(OutcomeUnknown):
        FifoQueue(database, Subspace(("emails",))).pop()
    assert [item.value for item in emails] == ["b"]


@pytest.mark.parametrize("fault", AGAIN, ids=str)
def test_a_slot_that_never_was_says_nothing_after_that(sound, emails, fault):
    """Neither does a pop that had no effect: whether it had cannot be told any more."""
    database = Pausing(sound, fault, lambda: move_on(sound, LEAST + 100))
    transactions.keep_receipts_at(database, Subspace(("new",)))
    with pytest.raises(OutcomeUnknown):
        FifoQueue(database, Subspace(("emails",))).pop()
    assert [item.value for item in emails] == ["a", "b"]


@pytest.mark.parametrize("fault", [*AFTER, *AGAIN], ids=str)
@pytest.mark.parametrize("seconds", [0, LEAST - 100])
def test_before_that_it_is_found_out(sound, emails, fault, seconds):
    """While no receipt of the call can have been swept, it pops once."""
    database = Pausing(sound, fault, lambda: move_on(sound, seconds))
    transactions.keep_receipts_at(database, Subspace(("new",)))
    assert FifoQueue(database, Subspace(("emails",))).pop().value == "a"
    assert [item.value for item in emails] == ["b"]


@pytest.mark.parametrize("fault", AGAIN, ids=str)
def test_an_older_receipt_in_the_slot_tells(sound, emails, fault):
    """While the slot holds one, none of this call's was swept, however far versions moved on."""
    database = Pausing(sound, fault, lambda: move_on(sound, LEAST - 100))
    queue = FifoQueue(database, Subspace(("emails",)))
    draw, database.draw = database.draw, lambda: None
    queue.push("c")
    database.draw = draw
    assert queue.pop().value == "a"
    assert [item.value for item in emails] == ["b", "c"]


# What is still under way


class Late(FailingOnce):
    """A database whose first commit times out before it has a read version, and lands later."""

    def leave_under_way(self, transaction, moment):
        self._kept().append((moment, transaction))


def test_what_lands_late_overwrites_no_receipt(sound):
    """A blind commit that timed out lands in the middle of another call: that finds its own."""
    numbers = Subspace(("numbers",))
    late = Late(sound, embedded.FDBError, Fault(TIMED_OUT, "late: first"))
    with pytest.raises(OutcomeUnknown):
        run(late, lambda tr: tr.add(numbers["late"].key(), b"\x01"))
    database = Pausing(sound, AFTER[0], late.land_all)
    run(database, lambda tr: tr.add(numbers["own"].key(), b"\x01"))
    assert alone(sound)[numbers["late"].key()] == b"\x01"
    assert alone(sound)[numbers["own"].key()] == b"\x01"


def test_an_unavailable_engine_hides_no_commit(sound, path, emails):
    """When the file cannot be read after a commit of unknown outcome, that is what is raised."""

    def spoil():
        sound.close()
        path.rename(path.with_suffix(".kept"))
        path.write_bytes(b"not a database" * 100)

    queue = FifoQueue(Pausing(sound, AFTER[0], spoil), Subspace(("emails",)))
    with pytest.raises(OutcomeUnknown) as caught:
        queue.pop()
    assert isinstance(caught.value.__cause__, EngineUnavailable)
    sound.close()
    path.with_suffix(".kept").replace(path)
    assert [item.value for item in emails] == ["b"]


# Forks

_FORKS = """
from fdb.subspace_impl import Subspace
from fdbqueue.service import (run, transactions)

subspace = Subspace(rawPrefix=bytes.fromhex(sys.argv[2]))
transactions.keep_receipts_at(database, subspace["receipts"])
runs, children = [], []

def push(tr):
    runs.append(os.getpid())
    if len(runs) == 1:
        tr[subspace["seen"].key()].wait()
        run(database, lambda other: other.set(subspace["seen"].key(), b"x"))
    elif not children:
        children.append(os.fork())
    tr[subspace["by"][os.getpid()].key()] = b"x"

run(database, push)
if children[0]:
    assert os.waitpid(children[0], 0)[1] == 0
    say("done")
else:
    os._exit(0)
"""


@pytest.mark.parametrize("engine", ["embedded"], indirect=True)
def test_a_fork_in_the_function_is_another_client(database, subspace):
    """A process that forks in a function's second run does not share its slot with its child."""
    with Child(database.path, _FORKS, subspace.key().hex()) as child:
        assert child.end() == ["done"]
    found = subspace["by"].range()
    assert len(alone(database).get_range(found.start, found.stop)) == 2
    found = subspace["receipts"].range()
    keys = [row.key for row in alone(database).get_range(found.start, found.stop)]
    clients = {subspace["receipts"].unpack(key)[0] for key in keys}
    assert len(clients) == 2
