"""Taking from several queues at once: the first that has any, in one transaction."""

from __future__ import annotations

import asyncio
import threading
import time

import fdb.tuple
import pytest

from fdbqueue.exceptions import (
    CorruptItem,
    IdempotencyKeyReused,
    InvalidInput,
    LeaseLost,
    QueueNotFound,
)
from fdbqueue.service import Catalog, IdempotencyKey, QueueSpec, run
from fdbqueue.service.consume.finding import ListFinder
from fdbqueue.service.consume.poppers import EndPoppers
from fdbqueue.service.instrumentation import Observer, Operation, add, remove
from tests.cases import cases
from tests.concurrency.census import assert_counted
from tests.concurrency.clients import another
from tests.concurrency.kinds import KINDS
from tests.contract.awaiting.gates import cancellation_of
from tests.contract.conftest import Meddled
from tests.engines.children import wait_until

LONG_SECONDS = 60
ENDS = ["min", "max"]
CONFLICT, UNKNOWN = 1020, 1021


def specs_of(kind="fifo", **options):
    """Return three plain names and a pattern."""
    names = ["high", "low", "other", "mail-*"]
    return [QueueSpec(name, kind, **options) for name in names]


@pytest.fixture
def open_catalog(subspace):
    """Open a catalog of the test's own place over a database."""

    def open_catalog(database, specs=None):
        return Catalog(database, fdb.tuple.unpack(subspace.key()), specs or specs_of())

    return open_catalog


@pytest.fixture
def catalog(open_catalog, database):
    """Queues high, low, other and mail-*."""
    return open_catalog(database)


@pytest.fixture(params=KINDS, ids=str)
def kind(request):
    """Each kind of queue, those with shards too."""
    return request.param


@pytest.fixture
def of_kind(open_catalog, database, kind):
    """A catalog of queues of one kind."""
    name = "fifo" if kind.is_fifo else "priority"
    return open_catalog(database, specs_of(name, **kind.options))


def fill(catalog, **values):
    """Push some values to each queue that is named, with _ for -."""
    for name, some in values.items():
        catalog.queue(name.replace("_", "-")).push_many(some)


def values(items):
    """Return the values of items, with the names of their queues."""
    return [(item.queue, item.value) for item in items]


# What is given, and from which queue


@pytest.mark.parametrize("end", ENDS)
def test_the_first_queue_with_items_gives(of_kind, kind, end):
    """All items of a call come from one queue, in the order of its own pops."""
    low = of_kind.queue("low")
    low.push_many(kind.pairs([kind.value(str(n)) for n in range(4)], [kind.priorities[0]] * 4))
    several = of_kind.several(["high", "low", "other"])
    of_kind.queue("other").push(kind.value("x"), *[p for p in kind.priorities[:1] if p is not None])
    expected = [item.id for item in low.peek_many(4, end=end)]
    found = several.pop_many(3, end=end)
    assert {item.queue for item in found} == {"low"}
    if kind.is_strict:
        assert [item.id for item in found] == expected[:3]
    assert several.lease(end=end).queue == "low"
    assert kind.text(several.pop(end=end).value) == "x"
    assert several.pop(end=end) is None
    for name in ("high", "low", "other"):
        assert_counted(of_kind.queue(name))


def test_every_item_says_which_queue_it_is_of(catalog):
    """However it was come by."""
    queue = catalog.queue("low")
    pushed = queue.push("a", once="k")
    assert pushed.queue == queue.push("a", once="k").queue == "low"
    assert [queue.peek().queue, queue.get(pushed.id).queue, next(iter(queue)).queue] == ["low"] * 3
    leased = queue.lease_many(1, once="l")
    assert [one.queue for one in (*leased, *queue.lease_many(1, once="l"))] == ["low"] * 2
    assert queue.extend(leased[0], 60).queue == "low"
    queue.nack(leased[0])
    assert queue.pop().queue == "low"


def test_fair_calls_begin_behind_the_queue_that_gave_last(catalog):
    """Queues that have nothing are passed over."""
    fill(catalog, high=[1, 2, 3], low=[4, 5], other=[6])
    several = catalog.several(["high", "low", "mail-1", "other"], fair=True)
    names = [several.pop().queue for _ in range(6)]
    assert names == ["high", "low", "other", "high", "low", "high"]
    assert several.pop() is None
    assert catalog.several(["high", "low", "mail-1", "other"], fair=True) is several
    assert catalog.several(["high", "low", "mail-1", "other"]) is not several


def test_turns_are_those_of_the_process(catalog):
    """A view of the catalog with a time limit takes its turn with the others."""
    fill(catalog, high=[1, 2], low=[3, 4])
    names = ["high", "low"]
    view = catalog.over(another(catalog.database))
    found = [one.several(names, fair=True).pop().queue for one in (catalog, view, catalog, view)]
    assert found == ["high", "low", "high", "low"]


def test_patterns_stand_for_the_queues_there_are(catalog):
    """Not in turn: in the order of their names; a queue that is named before counts there."""
    fill(catalog, mail_3=[3], mail_1=[1], mail_2=[2], low=[0])
    several = catalog.several(["mail-2", "mail-*", "low"], fair=False)
    assert [queue.name for queue in several.queues()] == ["mail-2", "mail-1", "mail-3", "low"]
    found = [several.pop() for _ in range(4)]
    assert values(found) == [("mail-2", 2), ("mail-1", 1), ("mail-3", 3), ("low", 0)]
    assert [queue.name for queue in catalog.several(["*"]).queues()][:2] == ["high", "low"]
    assert [queue.name for queue in catalog.several(["*-3", "hi*h"]).queues()] == ["mail-3", "high"]


def test_a_queue_that_is_new_is_noticed_within_five_seconds(catalog, monkeypatch):
    """Its name is looked for again then, if queues do not take turns."""
    fill(catalog, mail_1=[1])
    several = catalog.several(["mail-*"], fair=False)
    assert several.pop().value == 1
    fill(catalog, mail_2=[2])
    assert several.pop() is None
    now = time.monotonic()
    monkeypatch.setattr("fdbqueue.service.several.monotonic", lambda: now + 5.1)
    assert several.pop().queue == "mail-2"


# What is refused


@cases(
    ("names", "error"),
    [
        (["high", "nowhere"], QueueNotFound),
        (["nowhere-*"], QueueNotFound),
        (["low", "mail-*x", "mai"], QueueNotFound),
        (["!*"], InvalidInput),
        ([], InvalidInput),
        ("high", InvalidInput),
        (b"high", InvalidInput),
        (None, InvalidInput),
        (7, InvalidInput),
        (["high", 7], InvalidInput),
        (["high", None], InvalidInput),
        (["high", ["low"]], InvalidInput),
        ([f"mail-{n}" for n in range(1_001)], InvalidInput),
    ],
)
def test_names_that_make_no_sense_are_refused(catalog, names, error):
    """Before anything is taken."""
    fill(catalog, high=[1], low=[2])
    before = catalog.queue("high").size()
    with pytest.raises(error):
        catalog.several(names)
    assert catalog.queue("high").size() == catalog.queue("low").size() == before


def test_a_thousand_queues_are_the_most(catalog):
    """A pattern may find more, which the call says if queues do not take turns."""
    assert len(catalog.several([f"mail-{n}" for n in range(1_000)]).queues()) == 1_000
    for begin in range(0, 998, 200):  # in one transaction they may take longer than five seconds
        names = [f"mail-{n}" for n in range(begin, min(begin + 200, 998))]
        run(
            catalog.database,
            lambda tr, names=names: [catalog.queue(n).push(1, tr=tr) for n in names],
        )
    assert len(catalog.several(["low", "high", "mail-*"]).queues()) == 1_000
    with pytest.raises(InvalidInput, match="at most 1000 queues"):
        catalog.several(["low", "high", "other", "mail-*"], fair=False).pop()
    assert catalog.queue("mail-0").size() == 1


@cases(
    "options",
    [
        {"count": 0},
        {"count": 10_001},
        {"count": "1"},
        {"count": True},
        {"end": "middle"},
        {"wait": -1},
        {"wait": "1"},
        {"wait": float("nan")},
        {"once": ""},
        {"once": 7},
        {"once": "x" * 1_001},
    ],
)
@cases("names", [["high", "low"], ["mail-*"]])
def test_arguments_that_make_no_sense_are_refused(catalog, names, options):
    """And nothing is taken, where there are no queues at all, too."""
    fill(catalog, low=[1])
    before = catalog.queue("low").size()
    several = catalog.several(names)
    with pytest.raises(InvalidInput):
        several.pop_many(**{"count": 1, **options})
    with pytest.raises(InvalidInput):
        several.lease_many(**{"count": 1, **options})
    with pytest.raises(InvalidInput):
        several.lease(seconds=-1)
    assert catalog.queue("low").size() == before


def test_a_transaction_cannot_wait(catalog):
    """As for one queue."""
    tr = catalog.database.create_transaction()
    with pytest.raises(InvalidInput):
        catalog.several(["low"]).pop(tr=tr, wait=1)


# Leases


def test_leases_end_by_their_queues(catalog):
    """An item says which; a token alone does not."""
    fill(catalog, high=[1], low=[2, 3])
    several = catalog.several(["high", "low"])
    first, second, third = (several.lease() for _ in range(3))
    several.ack(first)
    several.nack(second, reason="no")
    assert several.extend(third, 600).until > third.until
    assert catalog.queue("low").pop().attempts == 1
    with pytest.raises(LeaseLost):
        several.ack(first)
    for wrong in (third.lease, None, catalog.queue("other").push("x")):
        with pytest.raises(InvalidInput):
            several.ack(wrong)
    several.ack(third)
    assert_counted(catalog.queue("low"))


@pytest.mark.parametrize("within", [False, True])
def test_queues_whose_expired_items_die_are_passed_over(open_catalog, database, clock, within):
    """Whatever is requeued on the way."""
    catalog = open_catalog(database, specs_of(max_attempts=1))
    names = [f"mail-{n}" for n in range(3)]
    for name in names:
        catalog.queue(name).push_many(range(130))
        catalog.queue(name).lease_many(130, seconds=1)
    fill(catalog, low=["here"])
    clock.advance(2)
    several = catalog.several([*names, "low"])
    found = run(database, lambda tr: several.pop(tr=tr)) if within else several.pop()
    assert found.value == "here"
    assert [catalog.queue(name).counts().dead for name in names] == [130] * 3
    assert several.pop() is None


# Strictness, and others that take and push


@pytest.fixture
def meddled(open_catalog, database):
    """A catalog with something done before each commit, and another client's catalog."""
    meddled = Meddled(database)
    return meddled, open_catalog(meddled), open_catalog(another(database))


@pytest.mark.parametrize("operation", ["pop", "lease"])
def test_what_a_look_has_found_is_taken(meddled, operation):
    """What is pushed to a queue before, after the look, comes with the next call."""
    meddler, catalog, rival = meddled
    fill(rival, low=["found"])
    pushed = threading.Event()

    def push():
        if not pushed.is_set():
            pushed.set()
            rival.queue("high").push("late")

    meddler.meddle = push
    several = catalog.several(["high", "low"])
    assert getattr(several, operation)().value == "found"
    assert getattr(several, operation)().value == "late"
    assert getattr(several, operation)() is None


@pytest.mark.parametrize("operation", ["pop", "lease"])
def test_a_call_goes_on_if_others_take_what_it_has_found(meddled, operation):
    """It looks again, from the first queue on."""
    meddler, catalog, rival = meddled
    fill(rival, high=["theirs"], low=["found"])

    def take():
        rival.queue("high").pop()

    meddler.meddle = take
    several = catalog.several(["high", "low"])
    assert getattr(several, operation)().value == "found"
    assert getattr(several, operation)() is None


def test_a_push_to_a_queue_before_conflicts_with_the_callers_transaction(catalog):
    """It depends on the queues that had nothing."""
    fill(catalog, low=["a"])
    tr = catalog.database.create_transaction()
    assert catalog.several(["high", "low"]).pop(tr=tr).value == "a"
    catalog.queue("high").push("b")
    with pytest.raises(Exception, match=r"1020|conflict"):
        tr.commit().wait()
    assert catalog.several(["high", "low"]).pop().value == "b"


def test_a_push_behind_does_not_conflict(catalog):
    """To the same queue, or to those behind it."""
    fill(catalog, high=["a"])
    tr = catalog.database.create_transaction()
    assert catalog.several(["high", "low"]).pop(tr=tr).value == "a"
    fill(catalog, high=["b"], low=["c"])
    tr.commit().wait()
    assert catalog.queue("high").size() == 1


def test_a_paused_queue_is_passed_over_strictly(meddled):
    """One that is resumed before the commit conflicts."""
    _, catalog, rival = meddled
    fill(rival, high=["a"], low=["b"])
    rival.queue("high").pause()
    several = catalog.several(["high", "low"])
    tr = rival.database.create_transaction()
    assert rival.several(["high", "low"]).pop(tr=tr).queue == "low"
    rival.queue("high").resume()
    with pytest.raises(Exception, match=r"1020|conflict"):
        tr.commit().wait()
    rival.queue("high").pause()
    assert values([several.pop()]) == [("low", "b")]
    assert several.pop() is None
    assert not several.wait_for_items(0.05)
    rival.queue("high").resume()
    assert several.wait_for_items(LONG_SECONDS)
    assert several.pop().value == "a"


@pytest.mark.parametrize("fair", [False, True])
def test_threads_that_take_from_the_same_queues_share_looks(meddled, pool, fair):
    """In order all go to the first as long as it has items; in turn to one after the other."""
    meddler, catalog, rival = meddled
    fill(rival, high=range(7), low=range(6))
    begun, go_on, commits = threading.Event(), threading.Event(), []

    def hold():
        commits.append(1)
        begun.set()
        assert go_on.wait(LONG_SECONDS)

    meddler.meddle = hold
    several = catalog.several(["other", "high", "low"], fair=fair)
    first = pool.submit(several.pop)
    assert begun.wait(LONG_SECONDS)
    rest = [pool.submit(several.pop) for _ in range(8)]
    wait_until(lambda: several._group.finder.combiner.in_line == 8)
    go_on.set()
    assert first.result(LONG_SECONDS).queue == "high"
    names = [one.result(LONG_SECONDS).queue for one in rest]
    assert (names.count("high"), names.count("low")) == ((4, 4) if fair else (6, 2))
    assert len(commits) < 18  # each thread by itself would look and take: 18


# In the caller's transaction


def test_takes_take_part_in_a_transaction(catalog):
    """They see what it has done, and nothing is taken unless it is committed."""
    fill(catalog, low=[1, 2])
    several = catalog.several(["high", "low", "mail-*"])
    tr = catalog.database.create_transaction()
    catalog.queue("high").push(0, tr=tr)
    found = [several.pop(tr=tr), several.lease(tr=tr), *several.pop_many(5, tr=tr)]
    assert [item.value for item in found] == [0, 1, 2]
    assert several.pop(tr=tr) is None
    assert catalog.queue("low").size() == 2
    tr.commit().wait()
    counts = catalog.queue("low").counts()
    assert (counts.ready, counts.leased) == (0, 1)
    for name in ("high", "low"):
        assert_counted(catalog.queue(name))


# Corrupt items


@pytest.fixture
def corrupt(catalog):
    """Corrupt the first item of a queue."""

    def corrupt(name):
        queue = catalog.queue(name)
        item = queue.push("whole")
        key = queue.parts.store.keys.key(queue.parts.store.keys.place_named(item.id))
        run(catalog.database, lambda tr: tr.set(key, b"\xff\xff broken"))
        return item

    return corrupt


@pytest.mark.parametrize("within", [False, True])
def test_a_corrupt_item_is_not_passed_over(catalog, corrupt, within):
    """The error names its queue, and nothing is taken from any."""
    item = corrupt("high")
    fill(catalog, high=["behind"], low=["next"])
    several = catalog.several(["other", "high", "low"])
    with pytest.raises(CorruptItem) as caught:
        run(catalog.database, lambda tr: several.pop(tr=tr)) if within else several.pop()
    assert caught.value.context["queue"] == "high"
    assert caught.value.context["id"] == item.id
    if not within:
        assert caught.value.outcome_known is True
    assert [catalog.queue(name).size() for name in ("high", "low")] == [2, 1]
    assert several.bury_corrupt(caught.value)
    assert [several.pop().value for _ in range(2)] == ["behind", "next"]


def test_a_corrupt_item_behind_the_queue_that_gives_is_not_met(catalog, corrupt):
    """As an item behind those that are taken."""
    fill(catalog, high=["a"])
    corrupt("low")
    assert catalog.several(["high", "low"]).pop().value == "a"


# Idempotency keys


@pytest.mark.parametrize("operation", ["pop_many", "lease_many"])
@pytest.mark.parametrize("names", [["high", "low"], ["high", "mail-*", "low"]], ids=str)
def test_the_same_call_under_a_key_returns_the_same(catalog, operation, names):
    """Whatever has been pushed meanwhile, and to which queue."""
    fill(catalog, low=[1, 2, 3])
    several = catalog.several(names, fair=False)
    key = IdempotencyKey("key")
    found = getattr(several, operation)(2, once=key)
    assert values(found) == [("low", 1), ("low", 2)]
    assert not key.replayed
    fill(catalog, high=["x"], mail_1=["y"])
    assert getattr(several, operation)(2, once=key, wait=LONG_SECONDS) == found
    assert key.replayed
    assert (
        run(catalog.database, lambda tr: getattr(several, operation)(2, once="key", tr=tr)) == found
    )
    assert [catalog.queue(name).size() for name in ("high", "low", "mail-1")] == [1, 1, 1]
    with pytest.raises(IdempotencyKeyReused):
        getattr(several, operation)(1, once="key")
    for other in ([*names, "other"], ["other"], ["mail-*"]):
        for fair in (False, True):
            with pytest.raises(IdempotencyKeyReused):
                getattr(catalog.several(other, fair=fair), operation)(2, once="key")
    assert values(getattr(catalog.queue("low"), operation)(1, once="key")) == [("low", 3)]


def test_a_response_in_a_queue_that_is_new_is_found(open_catalog, database):
    """Another process whose patterns were looked up before finds it at once."""
    first, second = open_catalog(database), open_catalog(another(database))
    fill(first, mail_2=[2])
    kept = second.several(["mail-*"], fair=False)
    assert [queue.name for queue in kept.queues()] == ["mail-2"]
    fill(first, mail_1=[1])
    found = first.several(["mail-*"], fair=False).pop(once="key")
    assert values([found]) == [("mail-1", 1)]
    assert kept.pop(once="key") == found


# Waiting


@pytest.fixture
def waiting(observed, open_catalog):
    """A catalog whose waits are seen."""
    return open_catalog(observed)


@pytest.mark.usefixtures("only_woken")
def test_waiters_of_one_queue_and_of_several_share_a_watch(waiting, catalog, observed, pool):
    """Each queue has one watch, however many threads wait for it, alone or with others."""
    both, low = waiting.several(["high", "low"]), waiting.queue("low")
    found = [pool.submit(both.pop, wait=LONG_SECONDS)]
    wait_until(lambda: len(observed.watches) == 2)
    found += [pool.submit(low.pop, wait=LONG_SECONDS) for _ in range(3)]
    found += [pool.submit(both.lease, wait=LONG_SECONDS) for _ in range(3)]
    wait_until(lambda: low.parts.group.watch.waiting == 7)
    assert len(observed.watches) == 2
    fill(catalog, low=range(7))
    assert sorted(one.result(LONG_SECONDS).value for one in found) == list(range(7))


def test_a_wait_ends_in_time(catalog):
    """With nothing, also where no queue exists yet."""
    for names in (["high", "low"], ["mail-*"]):
        several = catalog.several(names)
        began = time.monotonic()
        assert several.pop(wait=0.1) is None
        assert several.lease_many(3, wait=0.1) == []
        assert not several.wait_for_items(0.1)
        assert time.monotonic() - began >= 0.3
    fill(catalog, low=[1])
    assert catalog.several(["high", "low"]).wait_for_items(0)


@pytest.mark.usefixtures("only_woken")
def test_who_waits_notices_a_queue_that_is_new(catalog, pool, monkeypatch):
    """Though nothing wakes it."""
    monkeypatch.setattr("fdbqueue.service.several._KEPT_SECONDS", 0.2)
    several = catalog.several(["mail-*"], fair=False)
    found = pool.submit(several.pop, wait=LONG_SECONDS)
    time.sleep(0.05)
    catalog.queue("mail-7").push("x")
    assert values([found.result(LONG_SECONDS)]) == [("mail-7", "x")]


@pytest.mark.usefixtures("only_woken")
def test_many_queues_are_waited_for(waiting, catalog, observed, pool):
    """Their watches are set some in each transaction."""
    names = [f"mail-{n:02}" for n in range(60)]
    several = waiting.several(names)
    assert several.pop() is None
    before = observed.transactions
    found = pool.submit(several.pop, wait=LONG_SECONDS)
    wait_until(lambda: len(observed.watches) == 60)
    assert observed.transactions - before <= 5
    catalog.queue("mail-59").push("x")
    assert found.result(LONG_SECONDS).queue == "mail-59"
    wait_until(lambda: all(watch.is_ready() for watch in observed.watches))


# Tasks


@pytest.mark.parametrize("way", ["from all", "alone"])
def test_an_interrupt_after_the_commit_requeues_what_was_taken(meddled, monkeypatch, way):
    """By the helper thread, to its places, before what is pushed meanwhile."""
    meddler, catalog, rival = meddled
    fill(rival, low=range(3))
    popper, pushed = threading.get_ident(), []

    def push_before_the_helper():
        if threading.get_ident() != popper and not pushed:
            pushed.append(rival.queue("low").push("later"))

    def interrupted(*arguments, do=EndPoppers.alone):
        is_done = do(*arguments)
        if threading.get_ident() == popper:
            raise KeyboardInterrupt
        return is_done

    meddler.meddle = push_before_the_helper
    taking = catalog.queue("low") if way == "alone" else catalog.several(["high", "low"])
    with monkeypatch.context() as patch:
        patch.setattr(EndPoppers, "alone", interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            taking.pop_many(3)
    assert caught.value.outcome_known is False
    low = rival.queue("low")
    wait_until(lambda: low.size() == 4)
    assert [item.value for item in low.pop_many(5)] == [0, 1, 2, "later"]
    assert_counted(low)


def test_an_interrupt_while_it_looks_takes_nothing(catalog, monkeypatch):
    """And says so."""
    fill(catalog, low=[1])
    several = catalog.several(["high", "low"])

    def interrupted(*arguments, do=ListFinder.alone):
        do(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ListFinder, "alone", interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            several.pop()
    assert caught.value.outcome_known is True
    assert several.pop().value == 1


@pytest.mark.parametrize(("names", "name"), [(["high", "low"], "low"), (["mail-*"], "mail-1")])
@pytest.mark.parametrize("operation", ["apop_many", "alease_many"])
def test_a_task_that_is_cancelled_while_it_takes_requeues(meddled, operation, names, name):
    """In the queue that gave, with no attempt counted."""
    meddler, catalog, rival = meddled
    fill(rival, **{name: range(3)})
    begun, go_on = threading.Event(), threading.Event()

    def hold():
        begun.set()
        assert go_on.wait(LONG_SECONDS)

    meddler.meddle = hold
    several = catalog.several(names)

    async def work():
        task = asyncio.ensure_future(cancellation_of(getattr(several, operation)(2)))
        await asyncio.to_thread(begun.wait, LONG_SECONDS)
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        assert (await task).outcome_known is True

    asyncio.run(work())
    queue = rival.queue(name)
    assert [(item.value, item.attempts) for item in queue.pop_many(5)] == [(n, 0) for n in range(3)]
    assert_counted(queue)


# Interrupts, and what observers see


class Noting(Observer):
    """Keeps what it is told."""

    def __init__(self):
        self.done: list[Operation] = []

    def operation(self, done):
        """Keep it."""
        self.done.append(done)


def test_observers_are_told_of_the_queue_that_gave(catalog):
    """Or of the first that is named, a queue or a pattern, if none did."""
    fill(catalog, low=[1, 2, 3])
    several = catalog.several(["high", "low"])
    noting = Noting()
    add(noting)
    try:
        several.pop_many(2)
        several.lease()
        several.pop()
        catalog.several(["high", "mail-*"]).pop()
        catalog.several(["mail-*", "high"]).pop(once="key")
    finally:
        remove(noting)
    told = [(done.verb, done.queue, done.items, done.error) for done in noting.done]
    assert told[:2] == [("pop", "low", 2, None), ("lease", "low", 1, None)]
    assert told[2:4] == [("pop", "high", 0, None)] * 2
    assert ("pop", "mail-*", 0, None) in told[4:]


# What it costs


def test_the_reads_of_all_queues_go_out_together(waiting, catalog, observed):
    """Three for each queue, in one transaction; 25 queues at a time. Another takes."""
    names = [f"mail-{n:02}" for n in range(10)]
    fill(catalog, low=range(3))
    several = waiting.several([*names, "low"])
    several.pop()
    observed.reads.clear()
    before = observed.transactions
    assert several.pop().queue == "low"
    assert observed.transactions - before == 2
    assert observed.reads.count("get_range") == 3 * 11 + 2
    fill(catalog, mail_00=["first"])
    observed.reads.clear()
    many = waiting.several([f"mail-{n:02}" for n in range(60)])
    assert many.pop().value == "first"
    assert observed.reads.count("get_range") <= 3 * 25 + 2
