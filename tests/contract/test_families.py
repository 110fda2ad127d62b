"""Taking from a family: each member that has something in turn, by its index."""

from __future__ import annotations

import functools
import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import fdb.tuple
import pytest

from fdbqueue.exceptions import CorruptItem, IdempotencyKeyReused, InvalidInput
from fdbqueue.service import Catalog, IdempotencyKey, QueueSpec, run
from fdbqueue.service.consume import ring, visits
from fdbqueue.service.consume.round import Round
from fdbqueue.service.storage.family_index import Member
from fdbqueue.service.tools.examination import Examiner
from fdbqueue.service.tools.worker import Worker
from tests.concurrency.census import assert_counted
from tests.concurrency.clients import another, together
from tests.engines.children import wait_until
from tests.families import assert_indexed, rows_of

LONG_SECONDS = 60
CONFLICT, UNKNOWN = 1020, 1021
MEMBERS = [f"user-{n}" for n in range(5)]


@pytest.fixture
def open_catalog(subspace):
    """Open a catalog of the test's own place over a database."""

    def open_catalog(database, kind="fifo", **options):
        specs = [QueueSpec(name, kind, **options) for name in ("mail", "user-*", "team-*")]
        return Catalog(database, fdb.tuple.unpack(subspace.key()), specs)

    return open_catalog


@pytest.fixture
def catalog(open_catalog, database):
    """A queue mail, and the families user-* and team-*."""
    return open_catalog(database)


@pytest.fixture
def users(catalog):
    """The family user-*."""
    return catalog.several(["user-*"])


def fill(catalog, count=3, members=MEMBERS):
    """Push so many numbers to each member."""
    for name in members:
        catalog.queue(name).push_many(range(count))


def drained(several, **options):
    """Take all items, one by one; return the names of their queues and their values."""
    found = []
    while (item := several.pop(**options)) is not None:
        found.append((item.queue, item.value))
    return found


def in_line(combiner, pool, calls):
    """Let the calls that are not refused be in line together; return the future of each."""
    gate = threading.Lock()
    with gate:
        combiner._turns[0] = gate
        found = [pool.submit(call) for call in calls]
        wait_until(lambda: len(combiner.line) + sum(one.done() for one in found) == len(calls))
    return found


# Order and turns


@pytest.mark.parametrize("end", ["min", "max"])
def test_each_member_has_a_turn_in_each_circle(catalog, users, end):
    """And within a member items come in its order, from either end."""
    fill(catalog)
    found = drained(users, end=end)
    circles = [found[at : at + 5] for at in range(0, 15, 5)]
    numbers = [0, 1, 2] if end == "min" else [2, 1, 0]
    assert [sorted(circle) for circle in circles] == [[(m, n) for m in MEMBERS] for n in numbers]
    assert_indexed(catalog)
    assert rows_of(catalog, "user-*") == {}


@pytest.mark.parametrize("operation", ["pop_many", "lease_many"])
def test_a_member_with_many_items_delays_none_by_more_than_a_turn(catalog, users, operation):
    """However many a call takes, and however many there are."""
    catalog.queue("user-0").push_many(range(500))
    fill(catalog, 2, MEMBERS[1:])
    found = [getattr(users, operation)(3) for _ in range(7)]
    assert all(len({item.queue for item in items}) == 1 for items in found)
    names = [items[0].queue for items in found]
    assert sorted(names[:5]) == MEMBERS
    assert set(names[5:]) == {"user-0"}
    assert [len(items) for items in found if items[0].queue == "user-0"] == [3, 3, 3]


def test_more_members_than_a_page_have_their_turns(catalog, users):
    """A page of rows is read after the other."""
    names = [f"user-{n}" for n in range(230)]
    fill(catalog, 2, names)
    found = [name for name, _ in drained(users)]
    assert sorted(found[:230]) == sorted(found[230:]) == sorted(names)


def test_priorities_are_those_of_the_member(open_catalog, database):
    """Whose turn it is does not depend on them."""
    catalog = open_catalog(database, "priority")
    for name, priority in (("user-1", 5), ("user-1", 3), ("user-2", 9), ("user-2", 1)):
        catalog.queue(name).push(f"{name} {priority}", priority)
    found = drained(catalog.several(["user-*"]))
    assert {value for _, value in found[:2]} == {"user-1 3", "user-2 1"}


def test_patterns_and_names_are_one_circle(catalog):
    """Of several families, a part of one, and queues that are named or fit."""
    fill(catalog, 2, ["mail", "user-1", "user-2", "user-10", "team-1"])
    found = [name for name, _ in drained(catalog.several(["user-1*", "mail"]))]
    assert sorted(found[:3]) == sorted(found[3:]) == ["mail", "user-1", "user-10"]
    fill(catalog, 1, ["mail", "user-1"])
    assert Counter(name for name, _ in drained(catalog.several(["*"]))) == {
        "mail": 1,
        "team-1": 2,
        "user-1": 1,
        "user-2": 2,
    }
    assert_indexed(catalog)


def test_not_in_turn_means_in_order(catalog):
    """As it is without an index, and at most 1,000 queues."""
    fill(catalog, 2)
    names = [name for name, _ in drained(catalog.several(["user-*"], fair=False))]
    assert names == sorted(names)


@pytest.mark.nightly
def test_more_than_a_thousand_members_are_no_limit(catalog, users):
    """Those that have nothing are not looked at."""
    names = [f"user-{n}" for n in range(1_020)]
    for at in range(0, len(names), 60):
        run(
            catalog.database,
            lambda tr, at=at: [catalog.queue(n).push(n, tr=tr) for n in names[at : at + 60]],
        )
    assert len(users.queues()) == 1_020
    assert len(users.queues(limit=7)) == 7
    assert users.size() == 1_020
    assert sorted(name for name, _ in drained(users)) == sorted(names)


def test_as_many_reads_however_many_members_there_are(open_catalog, observed):
    """Only members that have a row are looked at."""
    catalog = open_catalog(observed)
    users = catalog.several(["user-*"])
    names = [f"user-{n}" for n in range(150)]
    reads = []
    for _ in range(2):
        fill(catalog, 1, names[:10])
        before = len(observed.reads)
        assert len(drained(users)) == 10
        reads.append(len(observed.reads) - before)
        fill(catalog, 1, names)
        drained(users)
    assert reads[1] <= 1.2 * reads[0]


def test_a_push_outside_a_family_writes_no_row(catalog):
    """And one to a member writes two keys, whatever it pushes."""
    catalog.queue("mail").push(1)
    assert rows_of(catalog, "user-*") == {}
    catalog.queue("user-1").push_many(range(50))
    assert rows_of(catalog, "user-*") == {"user-1": [0]}


def test_pushes_and_takes_of_other_items_do_not_conflict(catalog, users):
    """A push writes its row without reading it."""
    fill(catalog, 2, ["user-1"])
    trs = [catalog.database.create_transaction() for _ in range(3)]
    for tr in trs:
        catalog.queue("user-1").push("x", tr=tr)
    assert users.pop().value == 0
    for tr in trs:
        tr.commit().wait()
    assert_indexed(catalog)


# What gives a member something new


def test_many_delayed_items_have_few_rows(catalog):
    """One for each second at most."""
    queue = catalog.queue("user-1")
    for number in range(40):
        queue.push(number, delay=600 + number / 100)
    assert len(rows_of(catalog, "user-*")["user-1"]) <= 3
    assert_indexed(catalog)


def test_leases_that_looks_have_met_leave_one_row(catalog, users):
    """The row of the one that is held, however many have ended before."""
    for number in range(20):
        catalog.queue("user-1").push(number)
        item = users.lease(seconds=100 + number)
        assert users.pop() is None
        assert_indexed(catalog)
        users.ack(item)
    assert len(rows_of(catalog, "user-*")["user-1"]) == 1


def test_more_due_members_than_a_page(catalog, users, clock):
    """All of them come, and none twice in a circle."""
    names = [f"user-{n}" for n in range(230)]
    for name in names:
        catalog.queue(name).push(name, delay=60)
    clock.advance(100)
    assert sorted(name for name, _ in drained(users)) == sorted(names)
    assert rows_of(catalog, "user-*") == {}


def test_leases_whose_items_die_are_passed_over(open_catalog, database, clock):
    """A take goes on to the members behind them."""
    catalog = open_catalog(database, max_attempts=1)
    users = catalog.several(["user-*"])
    fill(catalog, 1)
    assert len([users.lease(seconds=10) for _ in MEMBERS]) == 5
    assert users.lease() is None
    clock.advance(11)
    catalog.queue("user-9").push("alive")
    assert drained(users) == [("user-9", "alive")]
    assert sum(catalog.queue(name).counts().dead for name in MEMBERS) == 5
    assert rows_of(catalog, "user-*") == {}


def test_a_row_that_is_missing_is_found_and_written(catalog, users, database, subspace):
    """Writers that do not know the catalog write none."""
    queue = catalog.queue("user-1")
    foreign = type(queue)(database, queue.subspace)
    foreign.push("unseen")
    assert users.pop() is None
    assert Examiner(queue).is_indexed() is False
    queue.recount()
    assert Examiner(queue).is_indexed() is True
    assert drained(users) == [("user-1", "unseen")]
    foreign.push("later", delay=600)
    assert Examiner(queue).is_indexed() is False
    Examiner(queue).write_index()
    assert Examiner(queue).is_indexed() is True
    assert Examiner(catalog.queue("mail")).is_indexed() is None


def test_rows_that_are_too_many_cost_a_look(catalog, users):
    """They are removed by it."""
    fill(catalog)
    for name in MEMBERS:
        catalog.queue(name).pop_many(3)
    assert len(rows_of(catalog, "user-*")) == 5
    assert users.pop() is None
    assert rows_of(catalog, "user-*") == {}


def test_more_empty_members_than_a_transaction_looks_at(catalog, users, monkeypatch):
    """Then several say that there is nothing."""
    monkeypatch.setattr(visits, "MAX_LOOKS", 3)
    names = [f"user-{n}" for n in range(20)]
    fill(catalog, 1, names)
    for name in names:
        catalog.queue(name).pop()
    catalog.queue("user-7").push("there")
    assert drained(users) == [("user-7", "there")]
    assert users.pop(once="key") is None
    assert rows_of(catalog, "user-*") == {}


def test_where_nothing_is_found_more_are_looked_at_at_once(open_catalog, observed):
    """And those that were not asked in the end have their turns."""
    catalog = open_catalog(observed)
    users = catalog.several(["user-*"])
    names = [f"user-{n}" for n in range(60)]
    fill(catalog, 1, names)
    for name in names[10:]:
        catalog.queue(name).pop()
    assert sorted(drained(users)) == sorted((name, 0) for name in names[:10])
    assert rows_of(catalog, "user-*") == {}


# Arguments


def test_a_wrong_argument_fails_no_other_call(catalog, users, pool):
    """Threads that lease at the same moment get their items."""
    fill(catalog, 1)
    combiner = users._group.poppers["min"].combiner
    names = ["right", "", "right"]
    calls = [functools.partial(users.lease, worker=name) for name in names]
    first, wrong, last = in_line(combiner, pool, calls)
    assert [one.result(LONG_SECONDS).worker for one in (first, last)] == ["right", "right"]
    assert isinstance(wrong.exception(LONG_SECONDS), InvalidInput)


def test_a_push_beside_a_take_that_looks_at_its_member_again(
    catalog, users, pool, clock, monkeypatch
):
    """The take conflicts, though it has written the member's row itself; the item is found."""
    one = catalog.queue("user-1")
    one.push("due", delay=10)
    clock.advance(20)
    replace_rows, pushed = Member.replace_rows, []

    def push_before(*arguments):
        if not pushed:
            pushed.append(one.push("beside"))
        replace_rows(*arguments)

    monkeypatch.setattr(Member, "replace_rows", push_before)
    calls = in_line(users._group.poppers["min"].combiner, pool, [users.pop] * 2)
    assert {call.result(LONG_SECONDS).value for call in calls} == {"due", "beside"}
    assert_indexed(catalog)


# The caller's transaction


def test_takes_take_part_in_a_transaction(catalog, users):
    """They see what it has done; nothing is taken, or a row replaced, unless it is committed."""
    fill(catalog, 1, ["user-1"])
    tr = catalog.database.create_transaction()
    catalog.queue("user-2").push("own", tr=tr)
    found = [users.pop(tr=tr), users.lease(tr=tr)]
    assert {item.value for item in found} == {0, "own"}
    assert users.pop(tr=tr) is None
    assert users.size() == 1
    tr.commit().wait()
    assert users.size() == 0
    for name in ("user-1", "user-2"):
        assert_counted(catalog.queue(name))
    assert_indexed(catalog)
    with pytest.raises(InvalidInput, match="cannot wait"):
        users.pop(tr=tr, wait=1)


def test_that_there_was_nothing_is_part_of_a_transaction(catalog, users):
    """It conflicts with a push to any member."""
    tr = catalog.database.create_transaction()
    assert users.pop(tr=tr) is None
    catalog.queue("mail").push("there was nothing", tr=tr)
    catalog.queue("user-3").push(1)
    with pytest.raises(Exception) as error:  # noqa: PT011  # each engine has its own
        tr.commit().wait()
    assert error.value.code == CONFLICT


# Items that cannot be decoded, and queues that cannot be read


def test_a_corrupt_item_is_the_error_of_one_call(catalog, users):
    """The other members have their turns, and the item stays."""
    fill(catalog, 2, ["user-1", "user-2"])
    queue = catalog.queue("user-1")
    key = queue.parts.store.keys.key(queue.parts.store.keys.place_named(queue.peek().id))
    run(catalog.database, lambda tr: tr.set(key, b"\xff\xff broken"))
    found, errors = [], []
    for _ in range(4):
        try:
            found.append(users.pop())
        except CorruptItem as error:
            errors.append(error)
    assert [item.queue for item in found] == ["user-2", "user-2"]
    assert {error.context["queue"] for error in errors} == {"user-1"}
    assert users.bury_corrupt(errors[0])
    assert drained(users) == [("user-1", 1)]


@pytest.fixture
def mismatched(open_catalog, database):
    """A catalog in which user-2 is one of its members, and user-1 was written by another codec.

    And a catalog of that codec.
    """
    other = open_catalog(another(database), codec="bytes")
    other.queue("user-1").push(b"theirs")
    catalog = open_catalog(database)
    catalog.queue("user-2").push_many(range(3))
    return catalog, other


TAKES = {
    "pop": lambda users: users.pop(),
    "lease": lambda users: users.lease(wait=0),
    "under a key": lambda users: users.pop(once=IdempotencyKey(os.urandom(8).hex())),
    "in a transaction": lambda users: run(users.database, lambda tr: users.pop(tr=tr)),
}


@pytest.mark.parametrize("take", TAKES)
def test_a_member_of_another_format_fails_no_take(mismatched, caplog, take):
    """It is logged once and passed over; processes with its settings find it."""
    catalog, other = mismatched
    users = catalog.several(["user-*"])
    assert [TAKES[take](users).value for _ in range(3)] == [0, 1, 2]
    assert TAKES[take](users) is None
    assert TAKES[take](users) is None
    (said,) = [one for one in caplog.records if one.name == ring.__name__]
    assert (said.levelname, said.queue) == ("WARNING", "user-1")
    assert "codec bytes" in said.written
    assert other.several(["user-*"]).pop().value == b"theirs"


def test_many_members_of_another_format(open_catalog, database, observed, monkeypatch):
    """A transaction looks at a bounded number of them."""
    monkeypatch.setattr(visits, "MAX_LOOKS", 5)
    other = open_catalog(another(database), codec="bytes")
    for number in range(12):
        other.queue(f"user-{number}").push(b"theirs")
    users = open_catalog(observed).several(["user-*"])
    before = observed.transactions
    assert users.pop() is None
    assert observed.transactions - before >= 3
    before = observed.transactions
    assert users.pop() is None
    assert observed.transactions - before == 1


@pytest.mark.parametrize("to_lease", [False, True])
def test_a_member_of_another_format_ends_no_wait(mismatched, to_lease):
    """Who waits does not look at it again and again."""
    users = mismatched[0].several(["user-*"])
    assert len(drained(users)) == 3
    assert not users.wait_for_items(0, to_lease=to_lease)
    assert users.held_until(to_lease=to_lease) is None
    mismatched[0].queue("user-3").push(1)
    assert users.wait_for_items(0, to_lease=to_lease)


def test_a_member_that_was_set_aside_is_looked_at_again(mismatched, monkeypatch):
    """Its format may have been corrected."""
    catalog, _ = mismatched
    users = catalog.several(["user-*"])
    monkeypatch.setattr(ring, "_ASIDE_SECONDS", 0.0)
    assert len(drained(users)) == 3
    catalog.queue("user-1").clear()
    catalog.queue("user-1").adopt_settings()
    catalog.queue("user-1").push("mine")
    assert users.pop().value == "mine"


def test_a_worker_goes_on_beside_a_member_of_another_format(mismatched):
    """It handles the items of the others, and ends when there are no more."""
    done = []
    worker = Worker(mismatched[0].several(["user-*"]), lambda item: done.append(item.value))
    worker.run()
    assert sorted(done) == [0, 1, 2]


# Idempotency keys


@pytest.mark.parametrize("operation", ["pop_many", "lease_many"])
def test_the_same_call_under_a_key_returns_the_same(catalog, users, operation):
    """Whatever has been pushed meanwhile, and to which member."""
    fill(catalog, 3, ["user-1"])
    key = IdempotencyKey("key")
    found = getattr(users, operation)(2, once=key)
    assert [(item.queue, item.value) for item in found] == [("user-1", 0), ("user-1", 1)]
    assert not key.replayed
    fill(catalog, 1, ["user-2", "user-3"])
    assert getattr(users, operation)(2, once=key, wait=LONG_SECONDS) == found
    assert key.replayed
    assert run(catalog.database, lambda tr: getattr(users, operation)(2, once=key, tr=tr)) == found
    with pytest.raises(IdempotencyKeyReused):
        getattr(users, operation)(1, once="key")
    with pytest.raises(IdempotencyKeyReused):
        getattr(catalog.several(["user-*", "mail"]), operation)(2, once="key")
    assert [catalog.queue(name).size() for name in ("user-1", "user-2", "user-3")] == [1, 1, 1]


def test_expired_responses_are_swept(catalog, users, clock):
    """As those of a queue are."""
    users.pop(once="key")
    clock.advance(86_400 + 3_700)
    assert catalog.sweep() == 1
    assert catalog.sweep() == 0


# Waiting


@pytest.mark.usefixtures("only_woken")
@pytest.mark.parametrize("delay", [None, 0.3])
@pytest.mark.parametrize("operation", ["pop", "lease"])
def test_a_push_to_any_member_wakes_who_waits(catalog, users, pool, operation, delay):
    """At once or in its time, also to one that is new."""
    watch = users._group.watches(to_lease=operation == "lease")[0]
    for name in ("user-1", "user-new"):
        found = pool.submit(getattr(users, operation), wait=LONG_SECONDS)
        wait_until(watch.is_watched)
        catalog.queue(name).push(name, delay=delay)
        assert found.result(LONG_SECONDS).value == name
        wait_until(lambda: not watch.waiting)


def test_members_that_are_not_asked_for_do_not_wake(catalog, pool):
    """A part of a family waits for its own members."""
    some = catalog.several(["user-1*"])
    fill(catalog, 1, ["user-2"])
    catalog.queue("user-3").push("later", delay=0.01)
    found = pool.submit(some.pop, wait=LONG_SECONDS)
    watch = some._group.watches(to_lease=False)[0]
    wait_until(watch.is_watched)
    generation = watch.generation
    assert not found.done()
    assert watch.generation == generation
    catalog.queue("user-12").push("mine")
    assert found.result(LONG_SECONDS).value == "mine"


# Threads, processes


def test_threads_share_a_transaction(open_catalog, observed, monkeypatch):
    """Each gets an item of another member."""
    catalog = open_catalog(observed)
    fill(catalog, 1, [f"user-{n}" for n in range(16)])
    users = catalog.several(["user-*"])
    combiner = users._group.poppers["min"].combiner
    before = observed.transactions
    with ThreadPoolExecutor(16) as pool:
        found = in_line(combiner, pool, [users.pop] * 16)
        names = {one.result(LONG_SECONDS).queue for one in found}
    assert len(names) == 16
    assert observed.transactions - before <= 2


class Meddling(Round):
    """A round before which something else happens, once."""

    meddle: ClassVar[list[Any]] = []

    def serve(self, *arguments, **options):
        """Let it happen first."""
        if self.meddle:
            self.meddle.pop()()
        return super().serve(*arguments, **options)


@pytest.fixture
def meddling(monkeypatch):
    """What happens before the next round."""
    monkeypatch.setattr(visits, "Round", Meddling)
    monkeypatch.setattr(Meddling, "meddle", [])
    return Meddling.meddle


def test_a_call_joins_a_transaction_that_reads(open_catalog, observed, pool, meddling):
    """It gets an item of a member of its own, or of one that has more."""
    catalog = open_catalog(observed)
    fill(catalog, 1, MEMBERS[:3])
    users, found = catalog.several(["user-*"]), []
    combiner = users._group.poppers["min"].combiner

    def join():
        found.append(pool.submit(users.pop))
        wait_until(lambda: combiner.line)

    meddling.append(join)
    before = observed.transactions
    found += in_line(combiner, pool, [users.pop] * 2)
    wait_until(lambda: len(found) == 3)
    assert sorted(one.result(LONG_SECONDS).queue for one in found) == MEMBERS[:3]
    assert observed.transactions - before == 1


def test_a_call_that_joins_is_not_told_that_there_is_nothing(catalog, users, pool, meddling):
    """What was pushed before it began may be unknown to that transaction."""
    fill(catalog, 2, MEMBERS[:1])
    combiner, found = users._group.poppers["min"].combiner, []

    def push_and_join():
        catalog.queue(MEMBERS[1]).push("pushed before")
        found.append(pool.submit(users.pop))
        wait_until(lambda: combiner.line)

    meddling.append(push_and_join)
    early = in_line(combiner, pool, [users.pop] * 2)
    assert sorted(one.result(LONG_SECONDS).value for one in early) == [0, 1]
    assert found[0].result(LONG_SECONDS).value == "pushed before"


def test_a_transaction_begins_in_as_many_members_as_the_last_ones_needed(
    catalog, users, pool, monkeypatch
):
    """So their reads are under way at once."""
    fill(catalog, 1, [f"user-{n}" for n in range(100)])
    combiner, met = users._group.poppers["min"].combiner, []

    def following(walk, count, do=ring.Walk.next):
        met.append(count)
        return do(walk, count)

    monkeypatch.setattr(ring.Walk, "next", following)
    for _ in range(10):
        del met[:]
        for one in in_line(combiner, pool, [users.pop] * 8):
            assert one.result(LONG_SECONDS) is not None
    assert met == [8]


def test_a_member_that_has_few_items_passes_the_rest_of_its_turn_on(catalog, users, pool):
    """And one that has many gives to eight calls in its turn, in its order."""
    catalog.queue("user-0").push_many(range(30))
    fill(catalog, 2, MEMBERS[1:3])
    calls = in_line(users._group.poppers["min"].combiner, pool, [users.pop] * 12)
    found = [one.result(LONG_SECONDS) for one in calls]
    numbers = {name: [one.value for one in found if one.queue == name] for name in MEMBERS[:3]}
    assert sorted(map(len, numbers.values())) == [2, 2, 8]
    assert sorted(numbers["user-0"]) == [*range(8)]


def test_a_take_makes_no_poppers_of_a_member(catalog, users):
    """Who takes from many members opens as many queues."""
    fill(catalog, 1)
    assert len(drained(users)) == len(MEMBERS)
    assert not any(catalog.queue(name).parts.group.poppers for name in MEMBERS)
    assert catalog.queue("user-0").pop() is None
    assert [*catalog.queue("user-0").parts.group.poppers] == ["min"]


def test_large_items_of_several_members_fit_into_transactions(catalog, users):
    """What does not fit is taken in the next."""
    for name in MEMBERS:
        catalog.queue(name).push_many("x" * 90_000 for _ in range(30))

    def take(_):
        return sum(len(users.lease_many(30)) for _ in range(2))

    assert sum(together(4, take)) == 150
    assert users.lease() is None
    assert ring.PAGE_ROWS < 1_000


# Limits of the members


def test_a_member_at_its_limit_is_not_looked_at(open_catalog, database):
    """Others are leased from; an ack lets it give again, and the index stays true."""
    catalog = open_catalog(database, max_leased=1)
    users = catalog.several(["user-*"])
    fill(catalog, members=MEMBERS[:2])
    held = [users.lease(seconds=LONG_SECONDS) for _ in range(2)]
    assert {item.queue for item in held} == {*MEMBERS[:2]}
    assert users.lease(seconds=LONG_SECONDS) is None
    assert all(0 not in moments for moments in rows_of(catalog, "user-*").values())
    assert users.held_until(to_lease=True) is not None
    users.ack(held[0])
    again = users.lease(seconds=LONG_SECONDS)
    assert (again.queue, again.value) == (held[0].queue, 1)
    users.nack(held[1])
    assert users.lease(seconds=LONG_SECONDS).id == held[1].id


def test_a_member_that_spent_its_rate_comes_again_with_a_token(open_catalog, database, clock):
    """Until then the others give, and a row says from when it has something."""
    catalog = open_catalog(database, rate="1/m", burst=1)
    users = catalog.several(["user-*"])
    fill(catalog, members=MEMBERS[:2])
    assert {users.pop().queue for _ in range(2)} == {*MEMBERS[:2]}
    assert users.pop() is None
    assert all(0 not in moments for moments in rows_of(catalog, "user-*").values())
    clock.advance(61)
    assert {users.pop().queue for _ in range(2)} == {*MEMBERS[:2]}
    assert users.pop() is None


@pytest.mark.parametrize("kind", ["fifo", "priority"])
def test_members_may_have_shards(open_catalog, database, clock, kind):
    """Each member in turn, from whichever of its shards; its row stays until all are empty."""
    catalog = open_catalog(database, kind, shards=4, choices=4)
    users = catalog.several(["user-*"])
    for name in ("user-1", "user-2", "user-3"):
        catalog.queue(name).push_many(range(6) if kind == "fifo" else [(n, n) for n in range(6)])
    taken = [users.pop() for _ in range(18)]
    for turn in range(6):
        circle = taken[3 * turn : 3 * turn + 3]
        assert {item.queue for item in circle} == {"user-1", "user-2", "user-3"}
        assert {item.value for item in circle} == {turn}  # with as many choices as shards
    assert users.pop() is None
    catalog.queue("user-2").push("leased")
    held = users.lease(seconds=10)
    assert users.lease() is None
    clock.advance(11)
    assert users.pop().id == held.id
    assert_indexed(catalog)
