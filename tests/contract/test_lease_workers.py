"""Who holds each lease: the name that a worker gives, shown until the lease ends."""

from __future__ import annotations

import re
import socket

import pytest

from fdbqueue.exceptions import IdempotencyKeyReused
from fdbqueue.service import FifoQueue, Worker, run
from fdbqueue.service.clock import moment, now_us
from fdbqueue.service.consume.help.asking import alike
from fdbqueue.service.storage.tables import State
from tests.concurrency.clients import another
from tests.concurrency.requests import requests_of
from tests.contract.conftest import Meddled


@pytest.fixture
def queue(kind, database, subspace, clock):
    """A queue of a to f, for which the time stands still."""
    queue = kind.open(database, subspace)
    values = [kind.value(text) for text in "abcdef"]
    queue.push_many(kind.pairs(values, [kind.priorities[0]] * 6))
    return queue


def facts_of(queue, item):
    """Return the stored facts of a lease."""
    place = queue.parts.store.keys.place_named(item.id)
    key = queue.parts.store.tables.hidden_keys(State.LEASED, place)[0]
    return run(queue.database, lambda tr: bytes(tr[key]))


def test_every_way_to_lease_takes_a_name(queue, in_loop):
    """One by one, many at once, in a block, and awaited."""
    found = [
        queue.lease(worker="w"),
        queue.lease_min(worker="w"),
        queue.lease_max(worker="w"),
        *queue.lease_many(1, worker="w"),
    ]
    with queue.leased(worker="w") as item:
        found.append(item)
        assert queue.get(item.id).worker == "w"

    async def lease():
        async with queue.aleased(worker="w") as item:
            return [item, queue.get(item.id)]

    found += in_loop(lease())
    assert [item.worker for item in found] == ["w"] * 7


def test_an_extend_keeps_the_name(queue):
    """And so do many at a time."""
    item = queue.lease(worker="w")
    assert queue.extend(item, 90).worker == "w"
    assert queue.extend_many([item], 120) == 1
    assert queue.get(item.id).worker == "w"
    queue.ack(item)


def test_the_facts_of_a_lease_have_its_name_and_when_it_began(queue):
    """After the secret stands the time; after that the name, if there is one."""
    item, other = queue.lease(), queue.lease(worker="\u00e9")
    assert len(facts_of(queue, other)) == len(facts_of(queue, item)) + 2
    began = now_us().to_bytes(8, "big")
    assert facts_of(queue, other).endswith(began + "\u00e9".encode())
    assert facts_of(queue, item).endswith(began)


def test_when_a_lease_began_is_kept(queue, clock):
    """For as long as it is held, however often it is extended; the next lease begins anew."""
    began = moment(now_us())
    item = queue.lease(seconds=60, worker="w")
    clock.advance(40)
    assert queue.extend(item, 60).leased_at is None
    clock.advance(40)
    queue.extend_many([item], 60)
    assert queue.get(item.id).leased_at == began
    assert [one.leased_at for one in queue.page(state="leased").items] == [began]
    queue.nack(item)
    assert queue.get(item.id).leased_at is None
    again = queue.lease(seconds=60)
    assert queue.get(again.id).leased_at == moment(now_us()) > began


@pytest.mark.nightly
def test_the_longest_name(fifo):
    """Of 200 characters, however many bytes these are; with as many items as fit."""
    fifo.push_many(range(10_000))
    items = fifo.lease_many(10_000, worker="\U0001f600" * 200)
    assert len(items) > 1_000
    assert {item.worker for item in items} == {"\U0001f600" * 200}
    assert fifo.ack_many(items) == len(items)


def test_a_saved_response_has_the_name(queue):
    """Under another name it is another call, because the leases say whose they are."""
    first = queue.lease_many(2, worker="w1", once="key")
    assert queue.lease_many(2, worker="w1", once="key") == first
    assert [item.worker for item in first] == ["w1", "w1"]
    plain = queue.lease_many(1, once="other")
    for key, worker in (("key", "w2"), ("key", None), ("other", "w2")):
        with pytest.raises(IdempotencyKeyReused):
            queue.lease_many(2 if key == "key" else 1, worker=worker, once=key)
    assert queue.lease_many(1, once="other") == plain


# Leases that another process writes


def test_the_asking_process_returns_its_own_name(database, subspace):
    """Where a rival's pops make it ask for help."""
    meddled = Meddled(database)
    rival, queue = FifoQueue(another(database), subspace), FifoQueue(meddled, subspace)
    rival.push_many(range(40))

    def pop_before():
        if not any(one.is_handed for one in requests_of(rival)):
            rival.pop_many(1)

    meddled.meddle = pop_before
    items = queue.lease_many(2, worker="asker")
    meddled.meddle = lambda: None
    assert [one.worker for one in requests_of(rival)] == [b"asker"]
    assert [item.worker for item in items] == ["asker"] * 2
    assert [rival.get(item.id).worker for item in items] == ["asker"] * 2
    queue.ack_many(items)


def test_only_threads_of_one_name_share_a_help_request(fifo):
    """Those of another name ask in the next."""

    def request(worker, seconds=60):
        return fifo._consumer.lease_request("min", 1, seconds, None, (), worker)

    batch = [request("w1"), request("w2"), request("w1"), request(None), request("w1", 30)]
    assert alike(batch) == [batch[0], batch[2]]
    assert alike(batch[1:]) == [batch[1]]
    assert alike(batch[3:]) == [batch[3]]


# Workers


@pytest.mark.parametrize("name", [None, "mine"])
def test_a_worker_gives_its_name(fifo, name):
    """Its own, or its host's and its process's number."""
    fifo.push("x")
    seen = []
    Worker(
        fifo, lambda item: seen.append((item.worker, fifo.get(item.id).worker)), worker=name
    ).run()
    assert len(set(seen[0])) == 1
    if name is None:
        assert re.fullmatch(re.escape(socket.gethostname()) + r":\d+", seen[0][0])
    else:
        assert seen[0][0] == "mine"
