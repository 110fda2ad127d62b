"""What comes, or may be taken, while a :class:`Worker` waits: it is handled; the worker lives on.

Each of :data:`PAIRS` is one feature beside a worker that waits, as a generator: what it does before
it first yields comes before the worker; it goes on each time the worker waits; and it returns what
is handled in the end.
"""

from __future__ import annotations

import datetime

import fdb.tuple
import pytest

from fdbqueue.service import Catalog, Counts, IdempotencyKey, QueueSpec, Worker, run
from fdbqueue.service.consume import waiting
from tests.asleep import is_asleep, work_in_thread
from tests.engines.children import wait_until
from tests.faulty_database import UNKNOWN_RESULT, FaultyDatabase

__all__ = ["is_asleep"]

MOMENT = 0.5
#: How long the leases of who died still last.
DEAD_SECONDS = 2
NOTHING = Counts(0, 0, 0, 0)


def pushed(catalog, _):
    mail = catalog.queue("mail")
    yield
    mail.push("a")
    yield
    mail.push_many("bc")
    mail.push("d", once=IdempotencyKey("k"))
    run(catalog.database, lambda tr: mail.push("e", tr=tr))
    return list("abcde")


def delayed(catalog, _):
    yield
    mail = catalog.queue("mail")
    mail.push("a", delay=MOMENT)
    moment = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=MOMENT)
    mail.push("b", not_before=moment)
    return ["a", "b"]


def given_up_and_requeued(catalog, fails_once):
    fails_once.append("a")
    yield
    catalog.queue("mail").push("a")
    return ["a"]


def rate(catalog, _):
    yield
    catalog.queue("paced").push_many("ab")
    yield
    catalog.queue("paced").push("c")
    return list("abc")


def leased_by_another(catalog, _):
    one = catalog.queue("one")
    one.push_many("ab")
    item = one.lease(seconds=3_600)
    yield
    one.ack(item)
    return ["b"]


def leased_by_one_that_died(catalog, _):
    catalog.queue("one").push_many("ab")
    catalog.queue("one").lease(seconds=DEAD_SECONDS)
    yield
    return ["a", "b"]


def unique(catalog, _):
    mail = catalog.queue("mail")
    yield
    first = mail.push("a", unique="k")
    wait_until(lambda: mail.counts() == NOTHING)
    yield
    assert mail.push("b", unique="k").id != first.id
    return ["a", "b"]


def paused(catalog, _):
    mail = catalog.queue("mail")
    yield
    mail.pause()
    mail.push("a")
    yield
    mail.resume()
    return ["a"]


def family(catalog, _):
    yield
    catalog.queue("user-1").push("a")
    yield
    catalog.queue("user-2").push("b", delay=MOMENT)
    return ["a", "b"]


def family_that_is_paused(catalog, _):
    catalog.family("user-*").pause()
    yield
    catalog.queue("user-1").push("a")
    yield
    catalog.family("user-*").resume()
    return ["a"]


def family_at_its_rate(catalog, _):
    yield
    catalog.queue("paced-1").push_many("ab")
    catalog.queue("paced-2").push("c")
    return list("abc")


def family_at_its_leases(catalog, _):
    one = catalog.queue("one-1")
    one.push_many("ab")
    item = one.lease(seconds=3_600)
    yield
    one.ack(item)
    return ["b"]


def family_of_one_that_died(catalog, _):
    catalog.queue("one-1").push_many("ab")
    catalog.queue("one-1").lease(seconds=DEAD_SECONDS)
    yield
    return ["a", "b"]


def several(catalog, _):
    yield
    catalog.queue("one").push("a")
    yield
    catalog.queue("mail").push("b", delay=MOMENT)
    catalog.queue("user-1").push("c")
    return list("abc")


def shards(catalog, _):
    yield
    catalog.queue("wide").push_many("abcd")
    yield
    catalog.queue("wide").push("e", delay=MOMENT)
    return list("abcde")


def priorities(catalog, _):
    yield
    catalog.queue("urgent").push("a", 2)
    yield
    catalog.queue("urgent").push("b", 1, delay=MOMENT)
    return ["a", "b"]


def redriven(catalog, _):
    mail = catalog.queue("mail")
    item = mail.push("a")
    mail.bury(item.id)
    yield
    mail.redrive()
    return ["a"]


def moved(catalog, _):
    catalog.queue("urgent").push("a", 1)
    yield
    catalog.queue("urgent").move_many(catalog.queue("mail"), 1)
    return ["a"]


#: The pairs, and from which queues their workers take.
PAIRS = {
    pushed: ["mail"],
    delayed: ["mail"],
    given_up_and_requeued: ["mail"],
    rate: ["paced"],
    leased_by_another: ["one"],
    leased_by_one_that_died: ["one"],
    unique: ["mail"],
    paused: ["mail"],
    family: ["user-*"],
    family_that_is_paused: ["user-*"],
    family_at_its_rate: ["paced-*"],
    family_at_its_leases: ["one-*"],
    family_of_one_that_died: ["one-*"],
    several: ["mail", "one", "user-*"],
    shards: ["wide"],
    priorities: ["urgent"],
    redriven: ["mail"],
    moved: ["mail"],
}


@pytest.fixture
def catalog(database, subspace):
    """Queues of each kind, and families, in a place of the test's own."""
    specs = [
        QueueSpec("mail", "fifo"),
        QueueSpec("urgent", "priority"),
        QueueSpec("wide", "fifo", shards=4),
        QueueSpec("user-*", "fifo"),
        *(QueueSpec(name, "fifo", rate="2/s", burst=1) for name in ("paced", "paced-*")),
        *(QueueSpec(name, "fifo", max_leased=1) for name in ("one", "one-*")),
    ]
    return Catalog(database, fdb.tuple.unpack(subspace.key()), specs)


def check(steps, catalog, names, is_asleep, fails_once=()):
    """Have a pair go on each time its worker waits; all it pushes is handled."""
    handled = []

    def handle(item):
        if item.value in fails_once:
            fails_once.remove(item.value)
            raise LookupError
        handled.append(item.value)

    next(steps)
    is_one = len(names) == 1 and "*" not in names[0]
    queue = catalog.queue(names[0]) if is_one else catalog.several(names)
    worker = Worker(queue, handle, follow=True, retry_delay_seconds=MOMENT)
    thread, errors = work_in_thread(worker)
    expected = None
    try:
        while expected is None:
            wait_until(lambda: is_asleep() or errors)
            try:
                next(steps)
            except StopIteration as end:
                expected = sorted(end.value)
        wait_until(lambda: len(handled) == len(expected) or errors)
        wait_until(lambda: is_asleep() or errors)
    finally:
        worker.stop()
        catalog.queue(names[0].replace("*", "1")).push("the end", *([9] * ("urgent" in names)))
        thread.join(60)
    assert errors == []
    assert sorted(handled) == expected
    assert not thread.is_alive()


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.__name__)
def test_a_worker_that_waits_handles_what_may_be_taken(catalog, is_asleep, pair):
    """However long its waits last, and whatever it has met before."""
    fails_once = []
    check(pair(catalog, fails_once), catalog, PAIRS[pair], is_asleep, fails_once)


@pytest.mark.parametrize("took_effect", [True, False])
@pytest.mark.parametrize("names", [["mail"], ["user-*"]], ids=str)
def test_a_worker_that_waits_survives_an_unknown_outcome(catalog, is_asleep, names, took_effect):
    """What it leases and acknowledges then is handled once, and it waits again."""
    database = FaultyDatabase(catalog.database)
    name = names[0].replace("*", "1")

    def steps():
        yield
        for value in "ab":
            database.fail_commits(code=UNKNOWN_RESULT, took_effect=took_effect)
            catalog.queue(name).push(value)
            wait_until(lambda: catalog.queue(name).counts() == NOTHING)
            yield
        assert database.happened == 2
        return ["a", "b"]

    check(steps(), catalog.over(database), names, is_asleep)


class CountingDatabase(FaultyDatabase):
    """A database that counts its transactions."""

    count = 0

    def create_transaction(self):
        """Count it."""
        self.count += 1
        return super().create_transaction()


@pytest.mark.parametrize("names", [["mail"], ["user-*"], ["mail", "user-*"]], ids=str)
def test_a_worker_that_waits_does_not_poll(catalog, is_asleep, monkeypatch, names):
    """It makes no transaction while nothing happens, however often it looks at its own stop."""
    monkeypatch.setattr(waiting, "_CHECK_SECONDS", 0.005)
    monkeypatch.setattr("fdbqueue.service.several._KEPT_SECONDS", 3_600.0)
    database = CountingDatabase(catalog.database)
    opened = catalog.over(database)
    queue = opened.queue("mail") if names == ["mail"] else opened.several(names)
    beats, handled = [], []
    worker = Worker(queue, lambda item: handled.append(item.value), follow=True)
    real = worker._goes_on
    monkeypatch.setattr(worker, "_goes_on", lambda: beats.append(database.count) or real())
    thread, errors = work_in_thread(worker)
    try:
        wait_until(lambda: is_asleep() or errors)
        before = len(beats)
        wait_until(lambda: len(beats) >= before + 100 or errors)
        assert len({*beats[before + 1 : before + 100]}) == 1, "it has looked at its queues"
        catalog.queue(names[-1].replace("*", "1")).push("a")
        wait_until(lambda: handled == ["a"] or errors)
    finally:
        worker.stop()
        thread.join(60)
    assert errors == []
    assert not thread.is_alive()
