"""The names of queues: found many at a time, each once, in order."""

from __future__ import annotations

import itertools
import random

import fdb.tuple
import pytest
from fdb.subspace_impl import Subspace

from fdbqueue.service import Catalog, QueueSpec, run
from fdbqueue.service.names import RangeSearch
from tests.cases import cases


def fill(database, keys):
    """Set keys, some in each transaction."""
    keys = iter(keys)
    while some := list(itertools.islice(keys, 1_000)):
        run(database, lambda tr, some=some: [tr.set(key, b"") for key in some] and None)


def by_two(key):
    """Group keys by what comes before their last two bytes."""
    return key[:-2], key[:-2] + b"\xff\xff\xff"


@cases("at_once", [1, 7, 1_000])
@pytest.mark.parametrize("seed", range(12))
def test_each_group_is_found_once_and_in_order(database, prefix, seed, at_once):
    """Whatever the names, however many keys each has, and in however many transactions."""
    chance = random.Random(seed)
    letters = [b"a", b"ab", b"\x00", b"\xff", b"z", b"user-"]
    names = {
        b"".join(chance.choices(letters, k=chance.randrange(1, 9))) + bytes([chance.randrange(256)])
        for _ in range(chance.choice([0, 1, 2, 30, 300]))
    }
    stored = {b"%s%04x%s" % (prefix, number, name) for number, name in enumerate(sorted(names))}
    fill(database, [key + b"%02d" % n for key in stored for n in range(chance.randrange(1, 5))])
    search, found = RangeSearch(prefix, prefix + b"\xff\xff", by_two), []
    while some := run(database, lambda tr: search.following(tr, at_once)):
        found += some
    assert found == sorted((key, key + b"\xff\xff\xff") for key in stored)


def test_five_hundred_names_take_few_rounds(observed, database, subspace):
    """About two reads a name, and not one round trip each."""
    prefix = subspace.key()
    fill(database, (b"%s%03d00" % (prefix, n) for n in range(500)))
    search = RangeSearch(prefix, prefix + b"\xff\xff", by_two)
    for _ in range(6):  # the last one finds that there are no more
        run(observed, lambda tr: search.following(tr, 100))
    assert len(observed.reads) <= 2.2 * 500


def test_only_so_many_are_looked_for_as_are_wanted(observed, database, subspace):
    """The first ten of five thousand do not cost the reads of all."""
    prefix = subspace.key()
    fill(database, (b"%s%04d00" % (prefix, n) for n in range(5_000)))

    def first(tr):
        return RangeSearch(prefix, prefix + b"\xff\xff", by_two).following(tr, 10)

    found = run(observed, first, read_only=True)
    assert [key for key, _ in found] == [b"%s%04d" % (prefix, n) for n in range(10)]
    assert len(observed.reads) < 2_000


@pytest.fixture
def catalog(database, subspace, monkeypatch):
    """A catalog of queues that exist by a pattern, whose names are looked for ten at a time."""
    monkeypatch.setattr("fdbqueue.service.catalog._NAMES_AT_ONCE", 10)
    place = fdb.tuple.unpack(subspace.key())
    return Catalog(database, place, [QueueSpec("user-*", "fifo"), QueueSpec("mail", "fifo")])


def test_names_go_on_from_one_transaction_to_the_next(catalog):
    """None is left out at the seam, from the start or behind any name."""
    names = [f"user-{n:02}" for n in range(35)]
    for name in names:
        catalog.queue(name).push(1)
    assert catalog.names() == ["mail", *names]
    for n in (0, 8, 9, 10, 34):
        assert catalog.names(after=names[n]) == names[n + 1 :]
    assert catalog.names(limit=12) == ["mail", *names[:11]]


def test_what_is_no_name_hides_none(catalog, database, subspace):
    """Keys that others have put between the queues' are passed by."""
    catalog.queue("user-1").push(1)
    catalog.queue("user-3").push(1)
    queues = Subspace(("queue",), subspace.key())
    fill(
        database,
        [
            queues.key() + b"\x02user-2\xff\xff",
            queues.pack(("user-2 x", 1)),
            queues.pack((7, 1)),
            queues.pack((b"user-2", 1)),
            queues.pack((None,)),
        ],
    )
    assert catalog.names() == ["mail", "user-1", "user-3"]
