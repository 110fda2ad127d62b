"""A file of queues that was written before the service was rebuilt is read after it.

``recorded/record.py`` says how the file was made, and what it holds: items in every state, long
values, attempts that are kept apart, both orders, saved responses, counts and history.
"""

from __future__ import annotations

import gzip
import json

import pytest

from fdbqueue.exceptions import LeaseLost
from tests.contract.recorded import record

RECORDED = json.loads((record.HERE / f"{record.NAME}.json").read_text(encoding="utf-8"))


@pytest.fixture
def clock(monkeypatch):
    """The service's clock, as it stood when the file was made."""
    clock = record.Clock()
    clock.advance(120)
    monkeypatch.setattr("fdbqueue.service.clock.time", clock)
    return clock


@pytest.fixture(params=record.QUEUES)
def name(request):
    """The name of each queue of the file."""
    return request.param


@pytest.fixture
def recorded(name):
    """What was noted of the queue."""
    return RECORDED[name]


@pytest.fixture
def queue(name, clock, tmp_path):
    """The queue, in a copy of the file."""
    path = tmp_path / "queues.sqlite3"
    path.write_bytes(gzip.decompress((record.HERE / f"{record.NAME}.sqlite3.gz").read_bytes()))
    queue = record.opened(path)[name]
    yield queue
    queue.database.close()


def seen(found):
    """Return what JSON makes of facts."""
    return json.loads(json.dumps(found))


def test_every_queue_was_recorded():
    """Each has items in every state, and the file is small."""
    assert RECORDED.keys() == record.QUEUES.keys()
    for recorded in RECORDED.values():
        assert all(recorded["facts"]["counts"])
    assert (record.HERE / f"{record.NAME}.sqlite3.gz").stat().st_size < 100_000


def test_items_counts_and_history_are_found(queue, recorded):
    """Each item is in its state, with its value, attempts, times and reason."""
    assert seen(record.facts(queue)) == recorded["facts"]
    for state in record.STATES:
        for fields in recorded["facts"][state]:
            assert seen(record.facts_of(queue.get(fields[0]))) == fields


def test_counts_are_what_is_there(queue):
    """A recount changes nothing."""
    before = queue.counts()
    assert queue.recount() == before


def test_items_come_in_their_order(queue, recorded, clock):
    """Those too whose lease or delay has expired; and afterwards the rest is the same."""
    clock.advance(record.LATER_SECONDS)
    assert seen(record.popped(queue)) == recorded["popped"]
    assert seen(record.facts(queue)) == recorded["left"]


def test_leases_that_were_held_are_held(queue, recorded):
    """Their tokens end and extend them, once."""
    (fields,), last = recorded["responses"]["lease"], recorded["responses"]["last"]
    held = fields[4]
    before = queue.counts()
    assert queue.extend(held, 90).id == fields[0]
    queue.ack(held)
    queue.nack(last, reason="late")
    assert queue.counts().leased == before.leased - 2
    assert queue.counts().ready == before.ready + 1
    for token in (held, last):
        with pytest.raises(LeaseLost):
            queue.ack(token)


def test_dead_items_are_redriven(queue, recorded):
    """They return to their places, as if they had never been tried."""
    dead = {fields[0] for fields in recorded["facts"]["dead"]}
    assert queue.redrive() == len(dead) == 2
    assert queue.counts().dead == 0
    back = {item.id: item.attempts for item in queue if item.id in dead}
    assert back == dict.fromkeys(dead, 0)


def test_saved_responses_are_returned_under_their_keys(queue, recorded):
    """The calls are not made again."""
    said = recorded["responses"]
    before = record.facts(queue)
    again = queue.push(*record.pushed(queue.name, 3), once="a push")
    assert seen(record.facts_of(again)) == said["push"]
    leased = queue.lease_many(1, seconds=86_400, once="a lease")
    assert seen([record.facts_of(item) for item in leased]) == said["lease"]
    taken = queue.pop_many(2, once="a pop")
    assert seen([record.facts_of(item) for item in taken]) == said["pop"]
    queue.ack(said["done"], once="an ack")
    assert record.facts(queue) == before


def test_what_is_pushed_now_comes_behind(queue, clock):
    """Old items and new ones are in one order."""
    pushed = record.pushed(queue.name, 14)
    highest = (pushed[0], 9) if len(pushed) == 2 else pushed
    clock.advance(record.LATER_SECONDS)
    item = queue.push(*highest)
    assert record.popped(queue)[-1][0] == item.id


def test_what_that_version_did_not_store_is_none(queue, recorded):
    """Who held a lease, what failed, and how many died of what, which a recount finds out."""
    for fields in recorded["facts"]["leased"] + recorded["facts"]["dead"]:
        item = queue.get(fields[0])
        assert (item.worker, item.failures) == (None, ())
        assert (item.died_at is not None) == (item.state == "dead")
    assert queue.dead_by_reason() == []
    (first, *_) = recorded["facts"]["dead"]
    queue.redrive([first[0]])
    assert queue.dead_by_reason() == []
    queue.bury(first[0], reason="again")
    queue.recount()
    assert sum(one.count for one in queue.dead_by_reason()) == len(recorded["facts"]["dead"])
