"""Members of a family whose limits keep items back, from the consumers that they hold alone."""

from __future__ import annotations

import os
import threading

import fdb.tuple
import pytest

from fdbqueue.exceptions import LeaseLost
from fdbqueue.service import Catalog, QueueSpec, ack_in_several, run
from fdbqueue.service.consume.acks import Acks
from fdbqueue.service.storage.handoffs import answer
from fdbqueue.service.tools.alternating import AlternatingLeases
from fdbqueue.service.tools.examination import Examiner
from fdbqueue.service.tools.worker import Worker
from tests.concurrency.clients import another
from tests.concurrency.requests import ask
from tests.engines.children import wait_until
from tests.families import assert_indexed, multiply, rows_of
from tests.wrapped import Meanwhile

LONG_SECONDS = 60
DAY = 86_400


@pytest.fixture
def open_catalog(subspace):
    """Open a catalog of a family and of a queue with limits, over the test's own place."""

    def open_catalog(database, **limits):
        specs = [QueueSpec(name, "fifo", **limits) for name in ("user-*", "mail")]
        return Catalog(database, fdb.tuple.unpack(subspace.key()), specs)

    return open_catalog


@pytest.fixture
def open_stored(subspace, database):
    """Open a catalog of a family whose members have one limit, in a row, as those of tasks do."""
    row = subspace["limits"].key()
    run(database, lambda tr: tr.set(row, b'{"max_leased": 1}'))

    def open_stored(database):
        spec = QueueSpec("user-*", "fifo", limits_at=lambda _: row)
        return Catalog(database, fdb.tuple.unpack(subspace.key()), [spec])

    return open_stored


def pushed_since_the_lease(catalog):
    """Lease all that a member has, and push to it; return the family, and what was leased."""
    users = catalog.several(["user-*"])
    catalog.queue("user-1").push("a")
    (item,) = users.lease_many(2, seconds=LONG_SECONDS)  # so it sees that there is no other
    catalog.queue("user-1").push("b")
    return users, item


def held_member(catalog, count=3):
    """Fill a member, lease as many as may be, and let a take find it at its limit."""
    catalog.queue("user-1").push_many(range(count))
    users = catalog.several(["user-*"])
    taken = []
    while (item := users.lease(seconds=LONG_SECONDS)) is not None:
        taken.append(item)
    assert 0 not in rows_of(catalog, "user-*")["user-1"]
    assert_indexed(catalog)
    return taken


@pytest.mark.parametrize("verb", ["pop", "lease"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"max_leased": 1}, {"max_leased": 5}),
        ({"max_leased": 1}, {}),
        ({"rate": "1/d", "burst": 1}, {"rate": "100/s", "burst": 100}),
        ({"rate": "1/d", "burst": 1}, {"max_leased": 5}),
        ({"max_leased": 1, "rate": "1/d", "burst": 2}, {"rate": "2/m", "burst": 2}),
    ],
    ids=str,
)
def test_a_higher_limit_counts_at_once(open_catalog, database, clock, verb, before, after):
    """For processes that have it, whatever those before them have found."""
    old = open_catalog(database, **before)
    (item, *_) = held_member(old)
    assert old.several(["user-*"]).lease() is None
    clock.advance(30)  # of the faster rate a token
    new = open_catalog(another(database), **after)
    users = new.several(["user-*"])
    assert getattr(users, verb)().value == item.value + 1
    assert_indexed(new)


@pytest.mark.parametrize("limits", [{"max_leased": 2}, {"rate": "2/d", "burst": 1}], ids=str)
def test_a_lower_limit_is_not_asked_again_and_again(open_catalog, observed, database, limits):
    """Two processes with two limits, both of which hold: neither undoes the other's rows."""
    high, low = {**limits}, {**limits}
    low.update({"max_leased": 1} if "max_leased" in limits else {"rate": "1/d"})
    (slow, fast) = open_catalog(observed, **low), open_catalog(another(database), **high)
    held_member(fast, count=9)
    for catalog in (slow, fast, slow, fast):
        assert catalog.several(["user-*"]).lease() is None
    rows = rows_of(fast, "user-*")
    for catalog in (slow, fast, slow, fast):
        assert catalog.several(["user-*"]).lease() is None
        assert not catalog.several(["user-*"]).wait_for_items(0, to_lease=True)
    assert rows_of(fast, "user-*") == rows
    assert_indexed(fast)


@pytest.mark.parametrize("processes", ["one limit", "two limits"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_lease_that_takes_the_place_of_a_longer_one_is_seen_to_end(
    open_catalog, database, clock, processes, count
):
    """Whoever ends a lease as it takes the next: the family finds the item when that expires."""
    low = open_catalog(database, max_leased=1)
    high = open_catalog(another(database), max_leased=1 if processes == "one limit" else 2)
    (item,) = held_member(low)
    taken = high.queue("user-1").lease_many(count, seconds=LONG_SECONDS / 10, ack=[item])
    assert_indexed(low)
    clock.advance(LONG_SECONDS / 5)
    assert low.several(["user-*"]).lease(seconds=LONG_SECONDS).value == taken[0].value
    assert_indexed(low)


def test_leases_as_long_as_those_they_follow_write_no_rows(open_catalog, database, clock):
    """The index has a moment that is early enough."""
    catalog = open_catalog(database, max_leased=1)
    taken = held_member(catalog, count=9)
    rows = rows_of(catalog, "user-*")
    for _ in range(4):
        clock.advance(3)
        taken = catalog.queue("user-1").lease_many(1, seconds=LONG_SECONDS, ack=taken)
        assert len(taken) == 1
        assert rows_of(catalog, "user-*") == rows


def test_an_ack_in_a_family_without_limits_writes_no_row(open_catalog, database):
    """Only the first member that is found at its limit makes it one."""
    catalog = open_catalog(database)
    users = catalog.several(["user-*"])
    catalog.queue("user-1").push("a")
    item = users.lease(seconds=LONG_SECONDS)
    assert users.lease() is None
    before = rows_of(catalog, "user-*")
    users.ack(item)
    assert rows_of(catalog, "user-*") == before


@pytest.mark.parametrize("end", ["ack", "nack", "requeue", "ack_many"])
def test_a_take_that_has_not_seen_the_end_of_a_lease_runs_again(open_stored, database, end):
    """Else it would say that the lease keeps back what was pushed since."""
    meanwhile = Meanwhile(database)
    catalog, other = open_stored(meanwhile), open_stored(another(database))
    users, item = pushed_since_the_lease(catalog)
    queue = other.queue("user-1")
    leases = [item] if end == "ack_many" else item
    meanwhile.let(lambda: getattr(queue, end)(leases))
    assert users.lease(seconds=LONG_SECONDS).value == ("b" if "ack" in end[:3] else "a")
    assert meanwhile.commits is None
    assert_indexed(catalog)


def test_the_end_of_a_lease_that_has_not_seen_a_take_is_news(open_stored, database):
    """Else no take would find what was pushed until the time of the lease is over."""
    meanwhile = Meanwhile(database)
    catalog, other = open_stored(meanwhile), open_stored(another(database))
    users, item = pushed_since_the_lease(catalog)
    found = []
    meanwhile.let(lambda: found.append(other.several(["user-*"]).lease()))
    users.ack(item)
    assert found == [None]
    assert_indexed(catalog)
    assert users.lease(seconds=LONG_SECONDS).value == "b"


def test_a_clock_far_ahead_hides_no_member(open_catalog, database, clock):
    """A client that knows that this clock is wrong looks at the member again."""
    catalog = open_catalog(database, rate="1/s", burst=1)
    users = catalog.several(["user-*"])
    catalog.queue("user-1").push_many(range(4))
    clock.advance(3_600)
    assert users.pop().value == 0
    assert users.pop() is None
    clock.advance(-3_600)
    assert users.wait_for_items(0)
    assert users.pop() is None
    assert not users.wait_for_items(0)
    clock.advance(1)
    assert users.pop().value == 1
    clock.advance(3_600)
    assert [users.pop().value, users.pop()] == [2, None]
    clock.advance(-3_540)  # this is ahead by less than a minute: it may be right
    assert users.pop() is None
    clock.advance(61)
    assert users.pop().value == 3
    assert users.pop() is None
    clock.advance(DAY)
    assert users.pop() is None
    assert rows_of(catalog, "user-*") == {}


def test_a_clock_far_ahead_hides_no_handoff(open_catalog, database, clock):
    """Who takes from the family finds the member when its handoff expires, by its own clock."""
    catalog = open_catalog(database)
    queue, users = catalog.queue("user-1"), catalog.several(["user-*"])
    queue.push_many("ab")
    ask(queue, "min", 1, 30)
    assert queue.pop().value == "a"
    clock.advance(-3_600)
    assert users.pop() is None
    clock.advance(3_600)
    assert users.pop() is None
    clock.advance(31)
    assert users.pop().value == "b"


@pytest.mark.parametrize("count", [3, 5], ids=["all there is", "not all"])
@pytest.mark.parametrize("limits", [{"max_leased": 3}, {"rate": "3/d", "burst": 3}], ids=str)
def test_a_take_that_brings_a_member_to_its_limit_says_so(open_catalog, database, limits, count):
    """No other take looks at it for nothing; one with a higher limit finds what is left."""
    catalog = open_catalog(database, **limits)
    users = catalog.several(["user-*"])
    catalog.queue("user-1").push_many(range(count))
    (first,) = users.lease_many(1, seconds=LONG_SECONDS)
    assert 0 in rows_of(catalog, "user-*")["user-1"]
    assert len(users.lease_many(2, seconds=LONG_SECONDS)) == 2
    assert 0 not in rows_of(catalog, "user-*")["user-1"]
    assert_indexed(catalog)
    unlimited = open_catalog(another(database)).several(["user-*"])
    found = unlimited.lease_many(9, seconds=LONG_SECONDS)
    assert [item.value for item in found] == [*range(3, count)]
    users.ack(first)
    assert_indexed(catalog)


def test_leases_of_several_members_end_together(open_catalog, database, monkeypatch):
    """The reads of all are under way before the first is awaited; a lost one ends none."""
    catalog = open_catalog(database)
    items = {}
    for name in ("user-1", "user-2"):
        queue = catalog.queue(name)
        queue.push_many("ab")
        items[queue] = [queue.lease(seconds=LONG_SECONDS)]
    done, begin = [], Acks.begin_ack

    def noting(acks, tr, leases):
        done.append("begun")
        end = begin(acks, tr, leases)
        return lambda: (done.append("ended"), end())[1]

    monkeypatch.setattr(Acks, "begin_ack", noting)
    run(database, lambda tr: ack_in_several(tr, items))
    assert done == ["begun", "begun", "ended", "ended"]
    assert [(queue.size(), queue.counts().leased) for queue in items] == [(1, 0), (1, 0)]
    one, other = items
    items[one] = [one.lease(seconds=LONG_SECONDS)]
    with pytest.raises(LeaseLost):
        run(database, lambda tr: ack_in_several(tr, items))
    assert (one.counts().leased, other.size()) == (1, 1)


def test_who_leases_beside_passes_over_what_others_brought_to_a_limit(
    open_catalog, observed, database
):
    """It reads the index again: what is left of its last look would cost a look each."""
    catalog = open_catalog(observed, max_leased=1)
    for number in range(20):
        catalog.queue(f"user-{number}").push_many("ab")
    beside = AlternatingLeases(catalog.queue("mail"), catalog, catalog.families(), lambda _: True)
    try:
        assert len(beside.lease(1, seconds=LONG_SECONDS, worker="anna")) == 1
        others = open_catalog(another(database), max_leased=1).several(["user-*"])
        for _ in range(19):
            assert others.lease(seconds=LONG_SECONDS) is not None
        before = len(observed.reads)
        assert beside.lease(1, seconds=LONG_SECONDS, worker="anna") == []
        assert len(observed.reads) - before < 20
    finally:
        beside.close()


def test_who_leases_beside_goes_on_anywhere_after_a_conflict(open_catalog, database, monkeypatch):
    """Whoever was in the way goes on from there, and both would meet again and again."""
    meanwhile = Meanwhile(database)
    catalog = open_catalog(meanwhile, max_leased=1)
    names = [f"user-{number}" for number in range(9)]
    for name in names:
        catalog.queue(name).push("a")
    names.sort(key=lambda name: catalog.queue(name).parts.store.tables.member.ready)
    beside = AlternatingLeases(catalog.queue("mail"), catalog, catalog.families(), lambda _: True)

    def lease():
        (item,) = beside.lease(1, seconds=LONG_SECONDS, worker="anna")
        return names.index(item.queue)

    try:
        first = lease()
        following, anywhere = (first + 1) % 9, (first + 5) % 9
        other = open_catalog(another(database), max_leased=1).queue(names[following])
        hashed = catalog.queue(names[anywhere]).parts.store.tables.member.ready
        hashed = hashed[: -len(names[anywhere])][-2:]
        draw = os.urandom
        monkeypatch.setattr(os, "urandom", lambda count: hashed if count == 2 else draw(count))
        meanwhile.let(lambda: other.lease(seconds=LONG_SECONDS))
        assert [lease(), lease()] == [anywhere, (anywhere + 1) % 9]
    finally:
        beside.close()


@pytest.mark.parametrize("limits", [{"max_leased": 1}, {"rate": "1/d", "burst": 1}], ids=str)
def test_a_member_that_is_pushed_to_at_its_limit_keeps_its_rows(open_catalog, database, limits):
    """Each push is news, and each look finds the same: as many rows as after the first."""
    catalog = open_catalog(database, **limits)
    held_member(catalog)
    rows = rows_of(catalog, "user-*")
    for _ in range(4):
        catalog.queue("user-1").push("more")
        assert catalog.several(["user-*"]).lease() is None
        assert rows_of(catalog, "user-*") == rows


@pytest.mark.parametrize("limits", [{"max_leased": 1}, {"rate": "1/d", "burst": 1}], ids=str)
def test_members_at_their_limit_cost_a_take_nothing(open_catalog, observed, limits):
    """However many there are beside one that gives."""
    catalog = open_catalog(observed, **limits)
    model = catalog.queue("user-model")
    users = catalog.several(["user-*"])
    model.push_many(range(3))
    assert users.lease(seconds=LONG_SECONDS) is not None
    reads = []
    for count in (5, 400):
        multiply(catalog, model, [f"user-{count}-{n}" for n in range(count)])
        while users.lease() is not None:
            pass
        rows = rows_of(catalog, "user-*")
        assert len(rows) >= count
        catalog.queue(f"user-new-{count}").push("there")
        before = len(observed.reads)
        assert users.lease(seconds=LONG_SECONDS).value == "there"
        assert users.lease() is None
        reads.append(len(observed.reads) - before)
    assert reads[1] <= reads[0] + 5


@pytest.mark.parametrize("limits", [{"max_leased": 1}, {"rate": "1/h", "burst": 1}], ids=str)
@pytest.mark.parametrize("names", [["user-*", "mail"], ["*"], ["mail", "user-*"]], ids=str)
def test_who_waits_for_a_family_and_a_queue_at_their_limits_rests(
    open_catalog, observed, limits, names
):
    """Leases wait where the end of a lease is noticed, not where items are."""
    catalog = open_catalog(observed, **limits)
    for name in ("mail", "user-1"):
        catalog.queue(name).push_many(range(3))
        assert catalog.queue(name).lease(seconds=LONG_SECONDS) is not None
    several = catalog.several(names)
    before = observed.transactions
    assert several.lease(wait=1) is None
    assert not several.wait_for_items(1, to_lease=True)
    worker = Worker(several, print, follow=True)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    wait_until(lambda: all(one.is_watched() for one in several._group.watches(to_lease=True)))
    worker.stop()
    thread.join(LONG_SECONDS)
    assert observed.transactions - before < 30


@pytest.mark.parametrize("limits", [{"max_leased": 1}, {"rate": "1/h", "burst": 1}], ids=str)
def test_the_examiner_knows_a_member_at_its_limit_from_one_without_a_row(
    open_catalog, database, limits
):
    """The first is healthy; the other is not, and is repaired."""
    catalog = open_catalog(database, **limits)
    held_member(catalog)
    examiner, keys = Examiner(catalog.queue("user-1")), catalog.index(catalog.spec("user-1"))
    assert examiner.is_indexed() is True
    lost = {
        "held": keys.all_held,
        "later": keys.later(None, 2**62),
        "all": (keys._clock, keys.wakes[0]),
    }
    for bounds in lost.values():
        run(database, lambda tr, bounds=bounds: tr.clear_range(*bounds), wrote=lambda _: True)
        assert examiner.is_indexed() is False
        examiner.write_index()
        assert examiner.is_indexed() is True
        while catalog.several(["user-*"]).lease() is not None:
            pass
        assert examiner.is_indexed() is True


def test_help_requests_are_nothing_to_take(database, open_catalog):
    """Open or served: the examiner knows the member."""
    member = open_catalog(database).queue("user-1")
    tables = member.parts.store.tables
    request = ask(member, "min", 1, lease_us=60_000_000)
    assert Examiner(member).is_indexed()
    run(database, lambda tr: answer(tr, tables, request))
    assert Examiner(member).is_indexed()
