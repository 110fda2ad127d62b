"""Names and patterns, where queues are, and which are listed."""

from __future__ import annotations

import pickle

import fdb.subspace_impl
import pytest
from django.test import override_settings

import fdbqueue
from fdbqueue import conf, deadlines
from fdbqueue.exceptions import ConfigurationError, QueueNotFound
from fdbqueue.service import KINDS, Catalog, FifoQueue, QueueSpec, run
from tests.cases import cases


def test_a_pattern_makes_queues_that_exist_once_pushed_to(setting):
    """A name that fits opens; it is listed from its first push on, until it is cleared."""
    with override_settings(FDBQUEUE=setting):
        queue = fdbqueue.queue("user-7")
        assert queue.codec.name == "tuple"
        assert conf.catalog().names() == ["legacy", "mail", "quakes"]
        queue.push(1)
        fdbqueue.queue("user-2").push(1)
        fdbqueue.queue("fire-urgent").push(1)
        assert conf.catalog().names() == [
            "fire-urgent",
            "legacy",
            "mail",
            "quakes",
            "user-2",
            "user-7",
        ]
        while queue.pop():
            pass
        fdbqueue.queue("fire-urgent").pop()
        assert {"fire-urgent", "user-7"} < {*conf.catalog().names()}
        queue.clear()
        fdbqueue.queue("fire-urgent").clear()
        assert conf.catalog().names() == ["legacy", "mail", "quakes", "user-2"]


def test_looking_at_a_queue_does_not_make_it(setting):
    """A name that was only read from, or popped from, is not listed."""
    with override_settings(FDBQUEUE=setting):
        queue = fdbqueue.queue("user-7")
        assert queue.pop() is queue.lease() is queue.peek() is queue.oldest() is None
        assert queue.size() == len(queue.page().items) == 0
        assert conf.catalog().names() == ["legacy", "mail", "quakes"]


#: What changes nothing in an empty queue, though it may keep an answer there.
WITHOUT_ITEMS = {
    "pop": lambda queue: queue.pop_many(2, once="key"),
    "pop that waited": lambda queue: queue.pop_many(1, end="max", wait=0.01, once="key"),
    "lease": lambda queue: queue.lease_many(2, once="key"),
    "push of nothing": lambda queue: queue.push_batch([], once="key"),
    "ack": lambda queue: end_lost(queue.ack_many, queue),
    "nack": lambda queue: end_lost(queue.nack_many, queue),
    "extend": lambda queue: end_lost(queue.extend_many, queue),
    "recount": lambda queue: queue.recount(),
    "redrive": lambda queue: queue.redrive(),
    "sweep": lambda queue: queue.sweep(),
    "clear": lambda queue: queue.clear(),
    "clear_state": lambda queue: queue.clear_state("dead"),
}


def end_lost(end, queue):
    """End a lease that is not held any more, under a key."""
    other = type(queue)(queue.database, fdb.subspace_impl.Subspace(("elsewhere",)))
    other.push(1)
    token = other.lease().lease
    assert end([token], once=token).lost == (token,)


@pytest.mark.parametrize("does", WITHOUT_ITEMS)
@pytest.mark.parametrize("name", ["user-7", "fire-urgent"])
def test_only_a_push_makes_a_queue(setting, name, does):
    """Whatever else is done to a queue, and under a key too, a name that fits is not listed.

    Nor does the queue say that anything is stored of it.
    """
    with override_settings(FDBQUEUE=setting):
        names = conf.catalog().names()
        WITHOUT_ITEMS[does](fdbqueue.queue(name))
        assert conf.catalog().names() == names
        assert not is_stored(fdbqueue.queue(name))
        fdbqueue.queue(name).push(1, once="push")
        WITHOUT_ITEMS[does](fdbqueue.queue(name))
        assert (name in conf.catalog().names()) is (does != "clear")
        assert is_stored(fdbqueue.queue(name)) is (does != "clear")


def is_stored(queue):
    """Tell whether a queue says that anything is stored of it."""
    return run(queue.database, lambda tr: queue.overview.begin_stored(tr)(), read_only=True)


@pytest.mark.parametrize(
    ("row_of", "is_one"),
    [
        pytest.param(lambda tables: tables.paused, True, id="paused"),
        pytest.param(lambda tables: tables.minute(1), True, id="minutes"),
        pytest.param(lambda tables: tables.uniques[0], True, id="uniques"),
        pytest.param(lambda tables: tables.format, False, id="format"),
        pytest.param(lambda tables: tables.responses[0], False, id="responses"),
    ],
)
def test_a_row_of_any_table_makes_a_queue(setting, row_of, is_one):
    """But for its format and the saved responses; the queue and the list of names say the same."""
    with override_settings(FDBQUEUE=setting):
        queue = fdbqueue.queue("user-8")
        key = row_of(queue.parts.store.tables)
        run(queue.database, lambda tr: tr.set(key, b""))
        assert is_stored(queue) is ("user-8" in conf.catalog().names()) is is_one


def test_names_with_answers_alone_are_there_for_who_sweeps_them(setting):
    """They are in one order with the others, each once, wherever a page begins."""
    with override_settings(FDBQUEUE=setting):
        pushed = [f"user-{number}" for number in range(0, 40, 3)]
        for number in range(40):
            fdbqueue.queue(f"user-{number}").pop_many(1, once="key")
        for name in pushed:
            fdbqueue.queue(name).push(1)
        everything = sorted([f"user-{number}" for number in range(40)])
        plain = ["legacy", "mail", "quakes"]
        catalog = conf.catalog()
        assert catalog.names() == sorted([*plain, *pushed])
        assert catalog.names(with_responses=True) == [*plain, *everything]
        found, after = [], ""
        while page := catalog.names(after=after, limit=3):
            found += page
            after = page[-1]
        assert found == sorted([*plain, *pushed])


def test_queues_that_were_drained_are_passed_over(setting):
    """Its counts and its history are passed over at once, as its items were."""
    with override_settings(FDBQUEUE=setting):
        for name in ("a-urgent", "user-1", "z-urgent"):
            queue = fdbqueue.queue(name)
            queue.push_many((n, n) for n in range(20))
            while queue.pop():
                pass
        assert transactions_of(lambda: conf.catalog().names()) == 1


def test_names_come_a_page_at_a_time(setting):
    """Plain names and those that fit a pattern stand in one order, each once."""
    with override_settings(FDBQUEUE=setting):
        for name in ("user-1", "user-2", "a-urgent", "z-urgent", "mail"):
            fdbqueue.queue(name).push(1)
        everything = conf.catalog().names()
        assert everything == sorted({*everything})
        assert everything == [
            "a-urgent",
            "legacy",
            "mail",
            "quakes",
            "user-1",
            "user-2",
            "z-urgent",
        ]
        found, after = [], ""
        while page := conf.catalog().names(after=after, limit=2):
            found += page
            after = page[-1]
        assert found == everything


def test_the_first_pattern_that_fits_counts(setting):
    """A name that fits two patterns is of the one that stands first."""
    with override_settings(FDBQUEUE=setting):
        assert isinstance(fdbqueue.queue("user-urgent"), FifoQueue)


def test_listing_names_does_not_read_the_items_of_other_queues(setting):
    """A queue that fits no pattern is passed over at once, however long it is."""
    with override_settings(FDBQUEUE=setting):
        fdbqueue.queue("quakes").push_many((n, n) for n in range(3_000))
        fdbqueue.queue("user-1").push("x")
        assert transactions_of(lambda: conf.catalog().names()) <= 4
        assert conf.catalog().names() == ["legacy", "mail", "quakes", "user-1"]


def transactions_of(function):
    """Return how many transactions a function makes."""
    database = conf.database()
    created = []
    create = database.create_transaction
    database.create_transaction = lambda: created.append(1) or create()
    try:
        function()
    finally:
        del database.create_transaction
    return len(created)


def test_what_others_store_among_the_queues_is_no_queue(setting):
    """Names that fit no rule, other types and keys that are no tuples are passed over."""
    with override_settings(FDBQUEUE=setting):
        place = fdb.subspace_impl.Subspace(("fdbqueue", "queue"))
        transaction = conf.database().create_transaction()
        for name in (7, "user-a b", b"user-x", None):
            transaction[place.pack((name, 1))] = b""
        transaction[place.key() + b"\x02\xff\xff"] = b""
        transaction[place.key() + b"\x03"] = b""
        transaction.commit().wait()
        fdbqueue.queue("user-z").push(1)
        assert conf.catalog().names() == ["legacy", "mail", "quakes", "user-z"]


@cases("name", ["nope", "user", "", "user-/7", "user-" + "x" * 200, "user-*"])
def test_an_unknown_name_is_no_queue(setting, name):
    """No spec and no pattern: the error names the queue."""
    with override_settings(FDBQUEUE=setting), pytest.raises(QueueNotFound) as caught:
        fdbqueue.queue(name)
    assert caught.value.context == {"name": name}


@cases(
    ("name", "closest"),
    [
        ("mial", "mail"),
        ("Mail", "mail"),
        ("weather", None),
        ("quake", "quakes"),
        ("user", None),
        ("user-\x1b", None),
        ("m" * 101, None),
    ],
)
def test_the_name_that_was_meant(setting, name, closest):
    """The error says which plain name is most like it; patterns and their queues are none.

    Who looks in the catalog, as the REST API and the pages do, is told no name.
    """
    with override_settings(FDBQUEUE=setting):
        fdbqueue.queue("user-1").push("x")
        with pytest.raises(QueueNotFound) as caught:
            fdbqueue.queue(name)
        with pytest.raises(QueueNotFound) as untold:
            conf.catalog().queue(name)
    error = caught.value
    assert error.context.get("did_you_mean") == closest
    hint = "" if closest is None else f"; did you mean {closest!r}?"
    assert str(error) == f"No queue has this name: name={name!r}{hint}"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert untold.value.context == {"name": name}
    assert untold.value.__cause__ is None


def test_a_thousand_names_are_looked_through(setting):
    """A setting of more names costs no more: the hint is among the first thousand."""
    queues = {f"q{n:05}": {"kind": "fifo"} for n in range(1_500)}
    catalog = Catalog(None, ("x",), [QueueSpec(name, **spec) for name, spec in queues.items()])
    assert catalog.closest_name("q-00999") == "q00999"
    assert catalog.closest_name("q-01499") != "q01499"


def test_queues_do_not_see_each_other(setting):
    """Each queue has its own place under the prefix."""
    with override_settings(FDBQUEUE=setting):
        fdbqueue.queue("user-1").push("one")
        fdbqueue.queue("user-12").push("twelve")
        assert fdbqueue.queue("user-1").pop().value == "one"
        assert fdbqueue.queue("user-1").pop() is None


@pytest.mark.parametrize("prefix", [("fdbqueue",), ("ours", 7), ()])
def test_the_receipts_are_under_the_prefix(setting, prefix):
    """What operations leave is at PREFIX and "receipt", for reading catalogs too."""
    setting = {**setting, "PREFIX": prefix}
    with override_settings(FDBQUEUE=setting):
        place = fdb.subspace_impl.Subspace((*prefix, "receipt"))
        deadlines.limited_catalog(5).queue("mail").peek()
        assert stored(place) == []
        fdbqueue.queue("mail").push(1)
        deadlines.limited_catalog(5).queue("mail").peek()
        (key,) = stored(place)
        assert place.contains(key)
        fdbqueue.queue("mail").clear()
        everything = fdb.subspace_impl.Subspace(rawPrefix=b"")
        assert [one for one in stored(everything) if b"\xff\x02\x02" not in one] == [key]


def stored(place):
    """Return the keys in a subspace."""
    transaction = conf.database().create_transaction()
    return [row.key for row in transaction[place.range()]]


def test_a_database_may_be_of_any_class():
    """A catalog opens queues on one that has no weak references, as an engine may make it."""

    class Slotted:
        __slots__ = ()

    queue = Catalog(Slotted(), ("p",), [QueueSpec("mail", "fifo")]).queue("mail")
    assert queue.name == "mail"


def test_kinds_have_one_table(setting, monkeypatch):
    """A kind that is added to it is one that the setting may name; any other is refused."""

    class Lifo(FifoQueue):
        kind = "lifo"

    with pytest.raises(ConfigurationError, match=r"kind='lifo', allowed='fifo, priority'"):
        QueueSpec("mail", "lifo")
    monkeypatch.setitem(KINDS, "lifo", Lifo)
    setting["QUEUES"] = {"mail": {"kind": "lifo", "order": "commit"}}
    assert list(conf.problems(setting)) == []
    with override_settings(FDBQUEUE=setting):
        assert type(fdbqueue.queue("mail")) is Lifo
