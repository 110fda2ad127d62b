"""Handoffs expire by the clock, as batches do; and what version 1.0.0 wrote of them."""

from __future__ import annotations

import struct
import time

import pytest

from fdbqueue.service import FifoQueue, run
from fdbqueue.service.storage.handoffs import (
    Handoff,
    all_handoffs,
    packed_lease_keys,
    remove_pieces,
    write_pieces,
)
from fdbqueue.service.storage.item_keys import Row
from fdbqueue.service.storage.tables import Kind
from fdbqueue.service.tools.examination import Examiner
from tests.concurrency.census import assert_counted, values
from tests.concurrency.clients import another
from tests.concurrency.requests import ask, requests_of
from tests.contract.test_contention import HANDOFFS, REQUESTS, tables
from tests.engines.children import wait_until

DUES = 0x04
HOUR = 3_600
NAME = b"12345678"
#: The facts of rows of version 1.0.0, behind the stamp: an open request for three items, one that
#: is handed over, and one for leases of a minute. Each is valid for 30,000,000 versions.
OPEN = bytes.fromhex("0000000000030000000001c9c380")
HANDED = bytes.fromhex("0100000000030000000001c9c380")
LEASING = bytes.fromhex("0000000000030000000001c9c38000000000039387000000")


@pytest.fixture
def rival(database, subspace):
    """Another client's queue, of ten items."""
    queue = FifoQueue(another(database), subspace)
    queue.push_many(range(10))
    return queue


@pytest.fixture
def queue(meddled, rival, subspace):
    """The queue of a client that always meets the other one."""
    return FifoQueue(meddled, subspace)


def batches_due(queue):
    """Return what expires of batches and handoffs, and when."""
    keys = queue.parts.store.tables
    read = run(queue.database, lambda tr: [*tr.get_range(*keys.dues)], read_only=True)
    dues = [keys.parse_due(bytes(row.key)) for row in read]
    return [(one.moment, one.rest) for one in dues if one.kind is Kind.BATCH]


def write_old(queue, facts, *, handed=0):
    """Write a request as version 1.0.0 did, and hand over the first items for it."""
    store = queue.parts.store
    items = queue.peek_many(handed) if handed else []

    def write(tr):
        stamped = bytes(10) + facts + bytes(4)
        tr.set_versionstamped_value(store.tables.request(NAME), stamped)
        found = []
        for item in items:
            place = store.keys.place_named(item.id)
            found.append(Row(place, bytes(tr[store.keys.key(place)])))
            del tr[store.keys.key(place)]
        if found:
            write_pieces(tr, store.tables, NAME, Handoff(found, False, False))

    run(queue.database, write, wrote=lambda _: True)


def test_a_handoff_has_the_row_of_a_batch(rival, everything):
    """It says when its items return; an open request and a handoff of nothing have none."""
    request = ask(rival, "min", 2)
    assert batches_due(rival) == []
    assert rival.pop().value == 0
    assert batches_due(rival) == [(request.until, request.name)]
    rival.clear()
    ask(rival, "min", 2)
    assert rival.pop() is None
    assert [one.is_handed for one in requests_of(rival)] == [True]
    assert batches_due(rival) == []


def test_two_processes_serve_a_request_once(meddled, database, subspace):
    """They take items of different shards, which do not conflict: the request itself does."""
    queue, rival = (FifoQueue(one, subspace, shards=64) for one in (meddled, another(database)))
    rival.push_many(range(200))
    rounds = 5
    for _ in range(rounds):
        ask(rival, "min", 2)
        pops = [rival.pop]
        meddled.meddle = lambda pops=pops: pops and pops.pop()()
        assert queue.pop() is not None
        assert pops == []
    store = queue.parts.store
    found = run(rival.database, lambda tr: [*all_handoffs(tr, store.tables)], read_only=True)
    assert [len(handoff.rows) for _, handoff in found] == [2] * rounds
    in_place = len([*rival])
    assert (in_place, rival.size()) == (200 - 4 * rounds, 200 - 2 * rounds)


def test_who_collects_removes_all_rows(queue, rival, meddled, everything):
    """The one that says when the handoff expires, too."""
    seen = []

    def pop_before():
        seen.extend(batches_due(rival))
        if not seen:
            rival.pop()

    meddled.meddle = pop_before
    assert queue.pop() is not None
    assert seen
    meddled.meddle = lambda: None
    assert not tables(everything) & {REQUESTS, HANDOFFS, DUES}


class Noted:
    """A database object around another, which keeps its transactions."""

    def __init__(self, database):
        self.made = []
        self._database = database

    def create_transaction(self):
        self.made.append(self._database.create_transaction())
        return self.made[-1]


def test_a_round_that_finds_nothing_commits_nothing(rival, database, subspace):
    """Though other processes have yet to collect: a commit that writes nothing has no version."""
    ask(rival, "min", 20)
    assert rival.pop().value == 0
    noted = Noted(database)
    queue = FifoQueue(noted, subspace)
    assert queue.pop() is None
    assert {tr.get_committed_version() for tr in noted.made} == {-1}
    queue.push("more")
    assert queue.pop().value == "more"
    assert noted.made[-1].get_committed_version() > 0


def test_a_helped_pop_is_two_commits_of_its_own(queue, rival, meddled, subspace):
    """It asks, and it collects; what it does meanwhile writes nothing."""
    noted = Noted(meddled)
    queue = FifoQueue(noted, subspace)
    poppers = queue.parts.group.poppers["min"]
    poppers._contention.helped_until = time.monotonic() + HOUR
    is_served = []

    def pop_once_asked():
        if requests_of(rival) and not is_served:
            is_served.append(rival.pop())

    meddled.meddle = pop_once_asked
    assert queue.pop().value == 1
    assert is_served
    versions = [tr.get_committed_version() for tr in noted.made]
    assert sum(one > 0 for one in versions) == 2


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
def test_who_meets_a_client_with_another_time_takes_each_item_once(
    queue, rival, meddled, clock, ahead
):
    """That client requeues at once what it hands over, or long after; both go on."""
    taken = []

    def pop_before():
        clock.advance(ahead)
        if len(taken) < 4:
            taken.append(rival.pop().value)
        clock.advance(-ahead)

    meddled.meddle = pop_before
    found = values(queue.pop_many(3))
    assert len(found) == 3
    assert sorted([*taken, *found, *values(assert_counted(rival)["ready"])]) == list(range(10))


# Rows of version 1.0.0


def test_a_process_of_the_first_version_is_helped(rival, clock, everything):
    """It finds its items as it always did; if it has died, they return by the clock."""
    write_old(rival, OPEN)
    assert rival.pop().value == 0
    (served,) = requests_of(rival)
    assert (served.is_handed, served.is_dated) == (True, True)
    assert values(rival.peek_many(9)) == [4, 5, 6, 7, 8, 9]
    assert [name for _, name in batches_due(rival)] == [NAME]
    clock.advance(31)
    assert rival.pop().value == 1
    assert not tables(everything) & {REQUESTS, HANDOFFS, DUES}
    assert_counted(rival)


def test_what_the_first_version_handed_over_is_requeued(rival, everything):
    """By the first pop: no row says when it expires. Its process asks again, as it does."""
    write_old(rival, HANDED, handed=3)
    assert Examiner(rival).overdue().handoffs == 1
    assert rival.wait_for_items(0)
    assert values(rival.pop_many(20)) == list(range(10))
    assert not tables(everything) & {REQUESTS, HANDOFFS, DUES}
    assert_counted(rival)


def test_leases_for_a_process_of_the_first_version(rival, database):
    """The rows are ones that it can read, and the request's goes by the database's versions."""
    versions = struct.pack(">Q", 200_000)
    write_old(rival, LEASING[:6] + versions + LEASING[14:])
    assert rival.pop().value == 0
    key = rival.parts.store.tables.request(NAME)
    row = bytes(run(database, lambda tr: tr[key], read_only=True))[10:]
    assert row[:24] == b"\x01" + LEASING[1:6] + versions + LEASING[14:]
    leased = assert_counted(rival)["leased"]
    assert values(leased) == [1, 2, 3]
    assert [(one.worker, one.leased_at) for one in leased] == [(None, None)] * 3
    keys = [(rival.parts.store.keys.place_named(one.id), b"") for one in leased]
    assert len(row[24:]) > len(packed_lease_keys(keys))

    def is_gone():
        rival.pop()
        rival.push("more")
        return not requests_of(rival)

    wait_until(is_gone)


def requeue_as_old(queue):
    """Requeue handoffs as version 1.0.0 does by their rows DUE: the requests' rows stay."""
    store = queue.parts.store

    def requeue(tr):
        count_change = store.count_change(tr)
        for name, handoff in [*all_handoffs(tr, store.tables)]:
            remove_pieces(tr, store.tables, name)
            store.requeue_rows(count_change, handoff.rows)
        count_change.write()

    run(queue.database, requeue, wrote=lambda _: True)


def test_who_comes_late_after_the_first_version_requeued_takes_again(queue, rival, meddled):
    """Its request says that it was served, and there is nothing to collect, and nobody else."""
    poppers = queue.parts.group.poppers["min"]
    poppers._contention.helped_until = time.monotonic() + HOUR
    look, looks = poppers._asking._look, []

    def look_late(*given):
        if not looks:
            assert rival.pop().value == 0
            requeue_as_old(rival)
        looks.append(given)
        assert len(looks) < 9
        return look(*given)

    poppers._asking._look = look_late
    assert queue.pop().value == 1
    assert looks
    assert_counted(rival)
