"""Takes from a family, held up, interrupted, killed, at random: nothing is lost or comes twice."""

from __future__ import annotations

import functools
import json
import random
import sys
import threading
from collections import Counter

import pytest

from fdbqueue.service import run
from fdbqueue.service.consume.consumer import first_with_items
from fdbqueue.service.consume.visits import SeveralRequest
from tests.concurrency.census import assert_counted
from tests.concurrency.clients import another, together
from tests.concurrency.kinds import KINDS
from tests.concurrency.preemption import preempted, raising_at
from tests.concurrency.test_killed import read_and_kill
from tests.concurrency.worker import STORMED, family_of
from tests.contract.test_contention import Meddled
from tests.engines.children import wait_until
from tests.families import assert_indexed, rows_of

PROCESSES, THREADS = 4, 3
#: So many lines of the service run from the commit of a take from a family to its end.
LAST_LINES = 120
FIFO = KINDS[0]


def fill(catalog, count, members):
    """Push numbered values to some members, and return their texts."""
    texts = [str(number) for number in range(count)]
    for number in range(members):
        own = [FIFO.value(text) for text in texts[number::members]]
        catalog.queue(f"user-{number}").push_many(own)
    return texts


def left(catalog):
    """Return the texts of the ready items, after checking that counts and rows are right."""
    assert_indexed(catalog)
    found = [assert_counted(queue)["ready"] for queue in catalog.queues()]
    return [FIFO.text(item.value) for items in found for item in items]


@pytest.mark.parametrize("members", [2, 9])
@pytest.mark.parametrize("clients", [1, 3])
def test_threads_that_are_held_up(database, subspace, clients, members):
    """Whatever line they are held up at, beside poppers of one member, pauses and delays."""
    catalogs = [family_of(another(database), subspace) for _ in range(clients)]
    pushed = fill(catalogs[0], 60, members)
    taken = []

    def toil(thread):
        catalog = catalogs[thread % clients]
        users = catalog.several(["user-*"])
        for turn in range(6):
            text = f"{thread}.{turn}"
            queue = catalog.queue(f"user-{(thread + turn) % members}")
            queue.push(FIFO.value(text), delay=0.001 if turn % 4 == 1 else None)
            pushed.append(text)
            items = users.pop_many(1 + turn % 2, end=("min", "max")[turn % 2])
            taken.extend(FIFO.text(item.value) for item in items)
            item = catalog.queue("user-0").pop()
            taken.extend([] if item is None else [FIFO.text(item.value)])
            if thread == 0:
                queue.pause()
            leased = users.lease(seconds=600)
            if leased is not None and (thread + turn) % 3:
                users.ack(leased)
                taken.append(FIFO.text(leased.value))
            elif leased is not None:
                users.nack(leased)
            if thread == 0:
                queue.resume()

    with preempted(5, 0.004):
        together(9, toil)
    while items := catalogs[0].several(["user-*"]).pop_many(50, wait=0.1):
        taken.extend(FIFO.text(item.value) for item in items)
    assert left(catalogs[0]) == []
    assert Counter(taken) == Counter(pushed)


@pytest.mark.parametrize("operation", ["pop", "lease"])
def test_an_interrupt_at_any_line(database, subspace, operation):
    """An error that says that nothing was taken is right; one that does not leaves at most one.

    At some of the lines before the commit, and at all of the last, behind it.
    """
    catalog = family_of(database, subspace)
    users, member = catalog.several(["user-*"]), catalog.queue("user-1")
    combiner = users._group.poppers["min"].combiner
    trace, count = raising_at(0, KeyboardInterrupt())
    member.push_many([FIFO.value("a"), FIFO.value("b")])
    sys.settrace(lambda *_: trace)
    getattr(users, operation)()
    sys.settrace(None)
    lines = count()
    raised, threads = 0, threading.active_count()
    for line in [*range(1, lines - LAST_LINES, 20), *range(lines - LAST_LINES, lines)]:
        member.clear()
        member.push_many([FIFO.value("a"), FIFO.value("b")])
        trace, _ = raising_at(line, KeyboardInterrupt(), passes_with=True)
        known = None
        sys.settrace(lambda *_: trace)  # noqa: B023  # called in this turn
        try:
            getattr(users, operation)(seconds=600) if operation == "lease" else users.pop()
        except KeyboardInterrupt as error:
            raised += 1
            known = getattr(error, "outcome_known", None)
        finally:
            sys.settrace(None)
        own = member.parts.group.poppers["min"].combiner
        wait_until(lambda own=own: not (combiner.orphans or combiner.is_busy or own.orphans))
        wait_until(lambda own=own: not own.is_busy)
        assert member.size() in ({2} if known is True else {1, 2})
        counts = member.counts()
        assert counts.ready + counts.leased <= 2
        assert_counted(member)
        assert_indexed(catalog)
        assert FIFO.text(users.pop().value) in {"a", "b"}
    assert raised > LAST_LINES // 2
    assert threading.active_count() < threads + 50


@pytest.mark.parametrize("fair", [False, True])
def test_an_interrupt_under_a_key(database, subspace, fair):
    """At the last lines, around the commit: the same call takes one item, and takes it once."""
    catalog = family_of(database, subspace)
    users, member = catalog.several(["user-*"], fair=fair), catalog.queue("user-1")
    member.push(FIFO.value("a"))
    users.pop(once="first")  # fills the caches
    trace, count = raising_at(0, KeyboardInterrupt())
    member.push(FIFO.value("a"))
    sys.settrace(lambda *_: trace)
    users.pop(once="counted")
    sys.settrace(None)
    raised = 0
    for line in range(count() - LAST_LINES, count()):
        member.clear()
        member.push_many([FIFO.value("a"), FIFO.value("b")])
        trace, _ = raising_at(line, KeyboardInterrupt(), passes_with=True)
        sys.settrace(lambda *_: trace)  # noqa: B023  # called in this turn
        try:
            users.pop(once=f"key {line}")
        except KeyboardInterrupt:
            raised += 1
        finally:
            sys.settrace(None)
        own = member.parts.group.poppers["min"].combiner
        wait_until(lambda own=own: not (own.orphans or own.is_busy))
        assert FIFO.text(users.pop(once=f"key {line}").value) == "a"
        assert [FIFO.text(item.value) for item in member] == ["b"]
        assert_counted(member)
    assert raised > LAST_LINES // 2


def test_processes_that_are_killed(engine, subspace, start):
    """Those who pop on get everything but what the dead may have taken, each once."""
    catalog = family_of(engine.database, subspace)
    texts = fill(catalog, 1_500, 40)
    children = [start(FIFO, "pop_family", threads=THREADS) for _ in range(PROCESSES)]
    for child in children:
        child.expect('"ready"')
    for child in children:
        child.tell()
    *victims, survivor = children
    lines = [random.randrange(20, 150) for _ in victims]
    said = together(len(victims), lambda n: read_and_kill(victims[n], lines[n]))
    popped = [text for each in said for text in each]
    popped += [json.loads(line) for line in survivor.end()]

    def is_empty():
        items = catalog.several(["user-*"]).pop_many(500)
        popped.extend(FIFO.text(item.value) for item in items)
        return not items and not any(queue.size() for queue in catalog.queues())

    wait_until(is_empty)
    assert [text for text, count in Counter(popped).items() if count > 1] == []
    assert len(set(texts) - set(popped)) <= len(victims) * THREADS
    assert set(popped) <= set(texts)
    assert rows_of(catalog, "user-*") == {}


@pytest.mark.parametrize("threads", [0, 2])
def test_a_storm_of_signals(database, subspace, start, threads):
    """Nothing is lost but what the interrupted thread was told may be."""
    child = start(FIFO, "storm_family", seconds=2.5, threads=threads, longest_seconds=0.003, seed=1)
    said = json.loads(child.line())
    child.end()
    assert (said["errors"], said["hung"]) == ([], 0)
    assert said["interrupted"] > 20
    found = Counter(said["taken"] + left(family_of(database, subspace)))
    assert [text for text, count in found.items() if count > 1] == []
    assert STORMED - len(found) <= said["unknown"]


class _Day:
    """A random order of operations on a family of four members, and what they must do."""

    def __init__(self, database, subspace, clock, seed, **options):
        self._meddled = Meddled(database)
        self.catalog, self._clock = family_of(self._meddled, subspace, **options), clock
        self._rival = family_of(another(database), subspace)
        self._users = self.catalog.several(["user-*"])
        self._dice = random.Random(seed)
        self._numbers = iter(range(10_000))
        self._leased = []

    def go_on(self, count):
        """Do so many operations; the rows are right after each."""
        operations = [
            self._push,
            self._push,
            self._push_delayed,
            self._take,
            self._take,
            self._take,
            self._take_together,
            self._take_together,
            self._take_one,
            self._end,
            self._end,
            self._extend,
            self._pause,
            self._redrive,
            self._purge,
            self._wait,
        ]
        for _ in range(count):
            self._dice.choice(operations)()
            assert_indexed(self.catalog)

    def _queue(self):
        return self.catalog.queue(f"user-{self._dice.randrange(4)}")

    def _push(self):
        self._queue().push_many([next(self._numbers) for _ in range(self._dice.randrange(1, 4))])

    def _push_delayed(self):
        self._queue().push(next(self._numbers), delay=self._dice.uniform(0.1, 40))

    def _expected(self, *, to_lease):
        """Return what can be taken, by asking each member for what its own pop would return."""
        queues = [self.catalog.queue(f"user-{n}") for n in range(4)]
        return {queue.name: queue.peek() for queue in queues if self._gives(queue, to_lease)}

    def _gives(self, queue, to_lease):
        look = functools.partial(
            first_with_items, consumers=[queue.parts.consumer], to_lease=to_lease
        )
        return run(self.catalog.database, look, read_only=True) and queue.peek() is not None

    def _take(self):
        to_lease = self._dice.random() < 0.5
        expected = self._expected(to_lease=to_lease)
        tr = None
        if self._dice.random() < 0.3:
            tr = self.catalog.database.create_transaction()
        if to_lease:
            item = self._users.lease(seconds=self._dice.uniform(1, 40), tr=tr)
        else:
            item = self._users.pop(tr=tr)
        if tr is not None:
            tr.commit().wait()
        if item is None:
            assert expected == {}
            return
        assert expected[item.queue].id == item.id
        if item.lease is not None:
            self._leased.append(item)

    def _take_together(self):
        """Take for several threads in one transaction, while another client pushes.

        To a member with something that is due, so that the transaction writes its row as well.
        """
        member = self._queue()
        if self._dice.random() < 0.5:
            member.push(next(self._numbers), delay=0.1)
        else:
            member.lease_many(100, seconds=0.1)  # and now it is empty
        self._wait()
        leases, most = self._dice.random() < 0.5, self._dice.choice([1, 10])
        delay = self._dice.choice([None, None, 0.3, 20])
        rival = self._rival.queue(member.name)
        pushes = [lambda: rival.push(next(self._numbers), delay=delay)]
        self._meddled.meddle = lambda: pushes.pop()() if pushes else None

        def request(consumer):
            if leases:
                return consumer.lease_request("min", most, self._dice.uniform(1, 40), None)
            return consumer.pop_request("min", most, None)

        requests = [
            SeveralRequest(most, request, leases=leases) for _ in range(self._dice.randrange(1, 20))
        ]
        served = self._users._group.take_each(self._meddled, "min", requests, None)
        self._meddled.meddle = lambda: None
        items = [item for _, found in served.results for item in found]
        self._leased += items if leases else []

    def _take_one(self):
        self._queue().pop()

    def _end(self):
        if self._leased:
            item = self._leased.pop(self._dice.randrange(len(self._leased)))
            queue = self._dice.choice([self.catalog, self._rival]).queue(item.queue)
            if self._dice.random() < 0.4:
                queue.ack_many([item])
            else:
                queue.nack_many([item], delay=self._dice.choice([None, 0.5, 20]))

    def _extend(self):
        if self._leased:
            item = self._dice.choice(self._leased)
            self._users.extend_many([item], self._dice.uniform(0.1, 60))

    def _pause(self):
        queue = self._queue()
        queue.resume() if queue.paused() else queue.pause()

    def _redrive(self):
        self._queue().redrive()

    def _purge(self):
        if self._dice.random() < 0.2:
            self._queue().clear()

    def _wait(self):
        self._clock.advance(self._dice.choice([0.2, 5, 30]))


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 2},
        {"max_attempts": 1, "max_leased": 50},
        {"max_leased": 2},
        {"rate": "10/m", "burst": 2},
        {"max_leased": 1, "rate": "1/s", "burst": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", range(4))
def test_the_index_after_random_operations(engine, subspace, clock, seed, options):
    """A take finds what any member has, and finds nothing only if none has; rows are right.

    The other client has no limits, and ends leases, too. The high limit is never met: each end of
    a lease writes a row because of it, also if nothing is left.
    """
    day = _Day(engine.database, subspace, clock, seed, **options)
    catalog = day.catalog
    day.go_on(80)
    for number in range(4):
        catalog.queue(f"user-{number}").resume()
    clock.advance(100)
    users = catalog.several(["user-*"])
    while users.pop() is not None or any(queue.size() for queue in catalog.queues()):
        clock.advance(10 if "rate" in options else 0)
    assert not any(assert_counted(queue)["ready"] for queue in catalog.queues())
    clock.advance(100)
    assert users.pop() is None
    assert rows_of(catalog, "user-*") == {}
