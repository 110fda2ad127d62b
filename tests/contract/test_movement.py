"""Whether a queue moves, and if not, why: one answer, for each cause."""

from __future__ import annotations

import fdb.tuple
import pytest

from fdbqueue.columns.attention import CONCERN_READS, concerns_of
from fdbqueue.columns.queue_rows import read_rows
from fdbqueue.service import Catalog, QueueSpec, Worker
from fdbqueue.service.tools import presence
from fdbqueue.service.tools.presence import SERVED_SECONDS
from tests.engines.children import wait_until
from tests.injection import time_ahead
from tests.presences import write_rows

LONG = 1_800
QUEUES = {
    "mail": {},
    "raw": {"codec": "bytes"},
    "few": {"max_leased": 1},
    "patient": {"attention_seconds": 7_200},
}
ANNA = {"name": "anna", "kind": "items", "serves": "mail"}


@pytest.fixture
def catalog(database, subspace):
    """Queues by name, none of them an app's."""
    specs = [QueueSpec(name, "fifo", **options) for name, options in QUEUES.items()]
    return Catalog(database, fdb.tuple.unpack(subspace.key()), specs)


@pytest.fixture
def mail(catalog):
    """A queue with two items that were pushed half an hour ago."""
    with time_ahead(-LONG):
        catalog.queue("mail").push_many(["a", "b"])
    return catalog.queue("mail")


@pytest.fixture
def row(catalog):
    """Return what is known of a queue."""

    def row(name="mail"):
        (found,) = read_rows(catalog.database, [catalog.queue(name)], CONCERN_READS)
        return found

    return row


@pytest.fixture
def why(row):
    """Return why a queue does not move."""
    return lambda name="mail": [*row(name).causes]


def worked(queue, catalog, **options):
    """Let a worker work on a queue until it is empty."""
    Worker(queue, lambda _item: None, worker="anna", presences=catalog.presences, **options).run()


def test_a_queue_that_moves(catalog, why):
    """Nothing is wrong if items were just pushed, or wait for their time, or are leased."""
    mail = catalog.queue("mail")
    assert why() == []
    mail.push_many(range(3))
    mail.push("later", delay=600)
    mail.lease(worker="anna")
    write_rows(catalog.presences, ANNA)
    assert why() == []


def test_nothing_takes_items(mail, why, row, catalog):
    """None that is known, in the time that the queue allows; a pop or a lease is a take."""
    assert why() == ["untaken"]
    assert row().causes["untaken"].seconds == pytest.approx(LONG, abs=60)
    mail.lease()
    assert why() == ["slow"]  # one still waits for too long
    mail.pop()
    assert why() == []
    with time_ahead(-LONG):
        catalog.queue("patient").push("a")
    assert why("patient") == []


def test_an_item_whose_lease_or_delay_is_over(catalog, why):
    """Could be taken, too, though it does not count as ready."""
    with time_ahead(-LONG):
        catalog.queue("mail").push("a", delay=1)
    assert catalog.queue("mail").size() == 0
    assert why() == ["untaken"]


def test_items_that_do_not_say_since_when(catalog, why):
    """More are there than were pushed in that time."""
    raw = catalog.queue("raw")
    with time_ahead(-LONG):
        raw.push_many([b"a", b"b"])
    raw.push(b"c")
    assert why("raw") == ["untaken"]
    raw.pop_many(2)
    assert why("raw") == []


def test_a_worker_that_is_alive_takes_nothing(mail, why, row, catalog):
    """It hangs, or is busy with what it has."""
    write_rows(catalog.presences, ANNA)
    assert why() == ["idle"]
    assert row().causes["idle"].worker.name == "anna"
    with time_ahead(-LONG):
        mail.lease(seconds=2 * LONG, worker="anna")
    assert why() == ["idle"]


def test_a_worker_that_is_lost(mail, why, row, catalog):
    """Is said as soon as it is lost; not beside one that is alive, nor if others take."""
    write_rows(catalog.presences, ANNA, silent_seconds=60)
    assert why() == ["lost"]
    assert row().causes["lost"].worker.name == "anna"
    write_rows(catalog.presences, {**ANNA, "name": "bob"})
    assert why() == ["idle"]


def test_a_program_without_a_row_takes_what_a_lost_worker_left(mail, why, catalog):
    """Then the queue moves."""
    write_rows(catalog.presences, ANNA, silent_seconds=60)
    mail.lease()
    assert why() == ["slow"]


def test_leases_of_a_worker_that_is_lost(mail, why, row, catalog):
    """Are named with their number, also if nothing else waits or another worker is alive."""
    with time_ahead(-60):
        mail.lease_many(2, seconds=600, worker="anna")
    write_rows(catalog.presences, ANNA, silent_seconds=40)
    assert why() == ["lost_leases"]
    assert row().causes["lost_leases"].leases == 2
    mail.push("c")
    with time_ahead(20):
        assert why() == ["lost", "lost_leases"]
    write_rows(catalog.presences, {**ANNA, "name": "bob"})
    assert why() == ["lost_leases"]
    write_rows(catalog.presences, ANNA)  # it was only silent
    assert why() == []


def test_a_queue_whose_worker_is_gone(mail, why, catalog):
    """One has served it within a day, and none is alive; it was no worker of another queue."""
    worked(catalog.queue("patient"), catalog, follow=False)
    assert why() == ["untaken"]
    with time_ahead(-LONG):
        worked(mail, catalog, limit=1)
    assert catalog.presences.read().rows == []
    assert why() == ["no_worker"]


def test_that_a_queue_had_a_worker_is_known_for_a_day(mail, catalog, database, monkeypatch):
    """Workers of the same queues share the row; the next that begins removes an old one."""
    for _ in range(2):
        worked(mail, catalog)

    def served():
        tr = database.create_transaction()
        return [one.name for one in catalog.presences.served_in(tr).rows]

    assert served() == ["anna"]
    monkeypatch.setattr("fdbqueue.service.tools.presence.SERVED_SECONDS", 0.0)
    assert served() == []
    assert SERVED_SECONDS == 86_400
    worked(catalog.queue("patient"), catalog)
    monkeypatch.undo()
    wait_until(lambda: len(served()) == 1)


def test_that_a_queue_has_a_worker_is_not_written_with_each_beat(mail, catalog, monkeypatch):
    """It is written when the worker begins, and about once an hour; again at once if that fails."""
    monkeypatch.setattr(presence, "BEAT_SECONDS", 0.001)
    written = []

    def write(self, tr, keys):
        written.append(len(keys))
        if len(written) == 1:
            raise RuntimeError
        return commit(self, tr, keys)

    commit = presence.Presence._write
    monkeypatch.setattr(presence.Presence, "_write", write)
    mail.push_many(["c", "d"])
    Worker(
        mail, lambda _: wait_until(lambda: len(written) > 5), limit=1, presences=catalog.presences
    ).run()
    assert written[:6] == [2, 2, 1, 1, 1, 1]
    written.clear()
    monkeypatch.setattr(presence, "SERVED_BEAT_SECONDS", 0.0)
    Worker(
        mail, lambda _: wait_until(lambda: len(written) > 5), limit=1, presences=catalog.presences
    ).run()
    assert written[:6] == [2] * 6


def test_a_queue_at_its_limit(catalog, why):
    """Its leases allow nothing; no worker could take more."""
    few = catalog.queue("few")
    with time_ahead(-LONG):
        few.push_many("ab")
    few.lease(seconds=600)
    assert why("few") == ["limit"]


def test_a_queue_that_is_blocked_or_paused(mail, why, spoiled):
    """Nothing vaguer is said."""
    mail.pause()
    assert why() == ["paused"]
    mail.resume()
    spoiled(mail)
    assert why() == ["blocked"]


@pytest.fixture
def spoiled():
    """Spoil the first item of a queue, as another program may."""

    def spoil(queue):
        key = queue.overview.key_of(queue.peek())
        tr = queue.database.create_transaction()
        tr[key] = b"no JSON"
        tr.commit().wait()

    return spoil


def test_each_cause_has_words_and_a_remedy(mail, row, catalog):
    """A command that helps in this case."""
    with time_ahead(-60):
        mail.lease(seconds=600, worker="anna smith")
    write_rows(catalog.presences, {**ANNA, "name": "anna smith"}, silent_seconds=50)
    found = row()
    said = {one.name: (str(one.label), one.remedy(found)) for one in concerns_of(found)}
    assert said == {
        "lost": ("No worker: lost", "queue_work mail --handler PATH"),
        "lost_leases": (
            "Leases of a lost worker",
            "queue_give_back mail --worker 'anna smith'",
        ),
    }
