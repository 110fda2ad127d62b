"""The rows of workers: who is alive, who is lost, and what a broken row does."""

from __future__ import annotations

import json
import logging
import struct
import time

import pytest

from fdbqueue.deadlines import TimedDatabase
from fdbqueue.exceptions import EngineUnavailable
from fdbqueue.service import FifoQueue, Worker, WorkerCounts, run, worker_here
from fdbqueue.service.clock import set_ahead
from fdbqueue.service.tools import presence
from fdbqueue.service.tools.presence import Presences
from tests.presences import write_rows
from tests.wrapped import WrappedDatabase

PATIENCE_SECONDS = 60
HOUR_US = 3_600_000_000


@pytest.fixture
def rows(database, subspace):
    """The rows of workers, none yet."""
    return Presences(database, subspace["workers"])


@pytest.fixture
def anna(rows):
    """The row of one worker."""
    about = worker_here("anna", "items", "mail, quakes", threads=4)
    return rows.of(about, lambda: WorkerCounts(2, 7, 1))


@pytest.fixture
def silent(monkeypatch):
    """Workers write their row once, and are lost at once."""
    monkeypatch.setattr(presence, "BEAT_SECONDS", 3600.0)
    monkeypatch.setattr(presence, "LOST_SECONDS", 0.0)


def until(is_so):
    """Wait until something is so, and return it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := is_so()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def test_a_row_is_there_while_the_worker_works(rows, anna):
    """With what it says of itself and of its items."""
    with anna:
        (row,) = until(lambda: rows.read().rows)
        assert (row.name, row.kind, row.queues, row.threads) == (
            *("anna", "items", "mail, quakes", 4),
        )
        assert (row.running, row.done, row.failed) == (2, 7, 1)
        assert row.process > 0
        assert row.host
        assert not row.is_lost
    assert rows.read() == ([], True)


def test_a_worker_works_again(rows, anna):
    """Its row comes and goes each time."""
    for _ in range(2):
        with anna:
            assert until(lambda: rows.read().rows)
        assert rows.read().rows == []


def test_a_row_is_written_again_and_again(rows, anna, monkeypatch):
    """With the counts of the moment; so it does not grow old."""
    monkeypatch.setattr(presence, "BEAT_SECONDS", 0.01)
    done = iter(range(1_000_000))
    with rows.of(
        worker_here("bob", "items", "mail", threads=1), lambda: WorkerCounts(0, next(done), 0)
    ):
        until(lambda: any(row.done > 3 for row in rows.read().rows))


def test_a_worker_without_a_sign_of_life_is_lost(rows, anna, silent):
    """It comes after those that are alive."""
    with anna:
        (row,) = until(lambda: [row for row in rows.read().rows if row.is_lost])
        assert row.name == "anna"


def test_a_lost_worker_is_shown_for_an_hour(rows, anna, silent, database, subspace, monkeypatch):
    """Then it is not, and the next worker that begins removes its row."""
    with anna:
        until(lambda: rows.read().rows)
        bob = rows.of(worker_here("bob", "items", "mail", threads=1), anna._counts)
        with bob:
            until(lambda: b"bob" in _values(database, subspace))
            assert b"anna" in _values(database, subspace)
        monkeypatch.setattr(presence, "SHOWN_SECONDS", 0.0)
        until(lambda: rows.read().rows == [])
        until(lambda: _stored(database, subspace) == 1)
        with bob:
            until(lambda: b"bob" in _values(database, subspace))
            assert b"anna" not in _values(database, subspace)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_jumps(rows, anna, monkeypatch, hours):
    """Nobody is lost by it, but on one machine until the row is written again."""
    monkeypatch.setattr(presence, "BEAT_SECONDS", 0.01)
    with anna:
        until(lambda: rows.read().rows)
        set_ahead(hours * HOUR_US)
        try:
            (row,) = until(lambda: [row for row in rows.read().rows if not row.is_lost])
            assert row.name == "anna"
        finally:
            set_ahead(-hours * HOUR_US)


@pytest.mark.parametrize(
    "said",
    [
        *(
            b"",
            b"\xff",
            b"[]",
            b"null",
            b"[" * 10_000,
            b'{"name": 5, "queues": {}, "threads": "4"}',
        ),
        b'{"name": "a", "said_us": -1' + b"0" * 400 + b', "threads": 1' + b"0" * 30 + b"}",
        json.dumps({"name": "n" * 5_000, "since_us": True, "age_seconds": -5}).encode(),
    ],
)
def test_a_row_of_another_version_or_of_a_stranger(rows, database, subspace, said):
    """It is read as far as it can be, and is bounded."""
    row = bytes(10) + said + struct.pack("<I", 0)
    run(database, lambda tr: tr.set_versionstamped_value(subspace["workers"].pack((b"x",)), row))
    for one in rows.read().rows:  # whose moment it does not say: a cluster knows it
        assert len(one.name) <= 200
        assert (one.threads, one.since_us, one.queues) == (0, 0, "")
        assert one.age_seconds >= 0


def test_a_time_limit_makes_no_row_older_or_younger(rows, database, monkeypatch):
    """A database with one tells the age as the one that it limits."""
    monkeypatch.setattr(presence, "SHOWN_SECONDS", 20.0)  # a cluster may be some seconds old
    write_rows(rows, {"name": "abe"}, silent_seconds=10)
    write_rows(rows, {"name": "old"}, silent_seconds=30)
    (row,) = rows.over(TimedDatabase(database, lambda: 60.0)).read().rows
    assert (row.name, row.is_lost) == ("abe", True)
    assert row.age_seconds >= 10


def test_more_workers_than_are_read(rows, database, subspace):
    """The first thousand rows are read, and that there are more is said."""

    def write(tr):
        said = json.dumps({"name": "many", "said_us": presence.now_us()}).encode()
        for number in range(presence.MAX_ROWS + 1):
            row = bytes(10) + said + struct.pack("<I", 0)
            tr.set_versionstamped_value(subspace["workers"].pack((number,)), row)

    run(database, write)
    found = rows.read()
    assert (len(found.rows), found.is_complete) == (presence.MAX_ROWS, False)


def test_an_engine_that_is_away(database, subspace, caplog):
    """The worker works on; the log says that its row was not written."""

    class Away(WrappedDatabase):
        def create_transaction(self):
            raise EngineUnavailable(reason="away")

    about = worker_here("anna", "items", "mail", threads=1)
    with (
        caplog.at_level(logging.WARNING),
        Presences(Away(database), subspace["workers"]).of(about, _no_counts),
    ):
        until(lambda: caplog.records)
    assert {record.error for record in caplog.records} == {"EngineUnavailable"}


def _no_counts():
    return WorkerCounts(0, 0, 0)


def _stored(database, subspace):
    return len(run(database, lambda tr: list(tr[subspace["workers"].range()]), read_only=True))


def _values(database, subspace):
    rows = run(database, lambda tr: list(tr[subspace["workers"].range()]), read_only=True)
    return b"".join(bytes(row.value) for row in rows)


@pytest.mark.parametrize("is_shown", [True, False])
def test_a_worker_of_a_queue_has_a_row_if_it_is_to(rows, database, subspace, is_shown):
    """With its own name and its queue; and none otherwise."""
    queue = FifoQueue(database, subspace["queue"], name="mail")
    queue.push(1)
    seen = []

    def look(_item):
        seen.extend(until(lambda: rows.read().rows) if is_shown else rows.read().rows)

    Worker(queue, look, worker="anna", presences=rows if is_shown else None).run()
    found = [(row.name, row.kind, row.queues, row.threads) for row in seen]
    assert found == ([("anna", "items", "mail", 1)] if is_shown else [])
    assert rows.read().rows == []
