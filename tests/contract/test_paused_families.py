"""Pausing a family: no member gives anything, however it is taken, and one key says so."""

from __future__ import annotations

import pytest

from fdbqueue.exceptions import InvalidInput, QueueNotFound
from fdbqueue.service import IdempotencyKey, Worker, run
from tests.concurrency.clients import another
from tests.contract.test_families import MEMBERS, catalog, open_catalog
from tests.engines.children import wait_until
from tests.families import assert_indexed, rows_of

__all__ = ["catalog", "open_catalog"]

LONG_SECONDS = 60


@pytest.fixture
def family(catalog):
    """The family user-*, each of whose members has an item."""
    for name in MEMBERS:
        catalog.queue(name).push(name)
    return catalog.family("user-*")


def pop_from(catalog, **options):
    return catalog.several(["user-*"]).pop(**options)


#: Every way to take from a member.
WAYS = {
    "family": pop_from,
    "part": lambda catalog, **options: catalog.several(["user-3*"]).pop(**options),
    "in order": lambda catalog, **options: catalog.several(["user-*"], fair=False).pop(**options),
    "by name": lambda catalog, **options: catalog.queue("user-3").pop(**options),
    "max": lambda catalog, **options: catalog.queue("user-3").pop_max(**options),
    "lease": lambda catalog, **options: catalog.queue("user-3").lease(**options),
    "names": lambda catalog, **options: catalog.several(["user-3", "mail"]).lease(**options),
    "turns": lambda catalog, **options: catalog.several(["user-3", "mail"], fair=True).lease(
        **options
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_nothing_is_taken_from_any_member(catalog, family, way):
    """However it is asked for; once the family is resumed there is everything."""
    pause = family.pause(reason="moving")
    assert way(catalog) is None
    assert run(catalog.database, lambda tr: way(catalog, tr=tr), read_only=True) is None
    assert (family.paused(), pause.family) == (pause, "user-*")
    assert family.resume()
    assert not family.resume()
    assert way(catalog).value in MEMBERS


def test_members_say_with_what_they_are_paused(catalog, family):
    """Also those that are created later; a pause of their own comes first, and stays."""
    pause = family.pause(reason="moving")
    assert catalog.queue("user-1").paused() == catalog.queue("user-99").paused() == pause
    own = catalog.queue("user-1").pause(reason="spam")
    assert catalog.queue("user-1").paused() == own
    assert own.family is None
    family.resume()
    assert catalog.queue("user-1").paused() == own
    assert catalog.queue("user-2").paused() is None
    assert {pop_from(catalog).queue for _ in range(4)} == {*MEMBERS} - {"user-1"}
    assert pop_from(catalog) is None
    catalog.queue("user-1").resume()
    assert pop_from(catalog).value == "user-1"


def test_a_member_is_not_resumed_by_itself(catalog, family):
    """Its own pause is all that it can end."""
    family.pause()
    assert not catalog.queue("user-1").resume()
    assert catalog.queue("user-1").pop() is None


def test_the_reason_changes_and_the_time_stays(family, clock):
    """As for a queue."""
    first = family.pause(reason="a")
    clock.advance(60)
    second = family.pause(reason="b")
    assert (first.since, second.reason) == (second.since, "b")
    with pytest.raises(InvalidInput):
        family.pause(reason=5)


def test_other_families_and_queues_are_not_concerned(catalog, family):
    """Nor is a take from both."""
    family.pause()
    for name in ("team-1", "mail"):
        catalog.queue(name).push(name)
    found = [catalog.several(["user-*", "team-*", "mail"]).pop() for _ in range(3)]
    assert {item.queue for item in found if item is not None} == {"team-1", "mail"}
    assert found[-1] is None
    assert catalog.queue("team-1").paused() is None


def test_only_a_pattern_of_the_setting_is_a_family(catalog):
    """A part of one cannot be paused, because nothing would say so to who takes by name."""
    for name in ("user-1*", "user-1", "*", "no-*"):
        with pytest.raises(QueueNotFound):
            catalog.family(name)


def test_rows_are_left_as_they_are(catalog, family):
    """By takes that find nothing; pushes go on to write them."""
    before = rows_of(catalog, "user-*")
    assert len(before) == 5
    family.pause()
    for _ in range(3):
        assert pop_from(catalog) is None
    catalog.queue("user-7").push("more")
    assert pop_from(catalog) is None
    assert rows_of(catalog, "user-*") == before | {"user-7": [0]}
    for name in ("user-7", "user-1"):  # as queue_doctor --repair would write them
        catalog.queue(name).recount()
    assert rows_of(catalog, "user-*") == before | {"user-7": [0]}
    family.resume()
    assert_indexed(catalog)
    assert len(catalog.several(["user-*"]).pop_many(9)) == 1
    found = [pop_from(catalog).queue for _ in range(5)]
    assert len({*found}) == 5


def test_few_rows_are_written_and_read_however_many_members(open_catalog, observed):
    """To pause and resume writes one key, and a take from a paused family passes over all."""
    catalog = open_catalog(observed)
    users, family = catalog.several(["user-*"]), catalog.family("user-*")
    reads = []
    for count in (10, 300):
        for number in range(count):
            catalog.queue(f"user-{number}").push(number)
        assert users.pop() is not None  # the names of a page are at hand now
        family.pause()
        before = len(observed.reads)
        assert users.pop() is None
        assert users.pop() is None
        reads.append(len(observed.reads) - before)
        family.resume()
    assert reads[1] <= reads[0] + 5


def test_a_take_by_name_reads_one_key_more_in_a_family_alone(open_catalog, observed):
    """And one from the family one for all members that it looks at."""
    catalog = open_catalog(observed)
    reads = {}
    for name in ("mail", "user-1"):
        catalog.queue(name).push(1)
        before = len(observed.reads)
        assert catalog.queue(name).pop() is not None
        reads[name] = len(observed.reads) - before
    assert reads["user-1"] == reads["mail"] + 1


@pytest.mark.parametrize("way", ["family", "by name", "in order", "names"])
def test_who_waits_is_woken_when_it_is_resumed(catalog, family, pool, way):
    """Not by pushes meanwhile."""
    family.pause()
    several = catalog.several(["user-*"])
    watch = {
        "family": several._group.watches(to_lease=False)[0],
        "by name": catalog.queue("user-3").parts.group.watch,
        "in order": catalog.queue("user-3").parts.group.watch,
        "names": catalog.queue("user-3").parts.group.watch,
    }[way]
    found = pool.submit(WAYS[way], catalog, wait=LONG_SECONDS)
    wait_until(watch.is_watched)
    generation = watch.generation
    catalog.queue("user-3").push("more")
    assert not found.done()
    assert watch.generation == generation
    family.resume()
    assert found.result(LONG_SECONDS) is not None


def test_whether_there_is_something_is_asked_in_vain(catalog, family):
    """A paused family has nothing to wait for."""
    family.pause()
    assert not catalog.several(["user-*"]).wait_for_items(0)
    assert not catalog.queue("user-3").wait_for_items(0)
    family.resume()
    assert catalog.several(["user-*"]).wait_for_items(0)


def test_that_it_was_paused_is_part_of_a_transaction(catalog, family, open_catalog, database):
    """Which conflicts with its being resumed, as with a push where there was nothing."""
    family.pause()
    tr = catalog.database.create_transaction()
    assert pop_from(catalog, tr=tr) is None
    tr[b"\x02of this test"] = b""
    open_catalog(another(database)).family("user-*").resume()
    with pytest.raises(Exception, match=r"1020|conflict"):
        tr.commit().wait()


def test_under_a_key_that_there_was_nothing_is_saved(catalog, family):
    """As for a queue that is paused."""
    family.pause()
    key = IdempotencyKey("a call")
    users = catalog.several(["user-*"])
    assert users.pop_many(1, once=key) == []
    family.resume()
    assert users.pop_many(1, once=key) == []
    assert users.pop_many(1) != []


def test_a_worker_follows_a_pause(catalog, family, pool):
    """It works on nothing until the family is resumed."""
    done = []
    family.pause()
    users = catalog.several(["user-*"])
    worker = Worker(users, done.append, follow=True)
    running = pool.submit(worker.run)
    wait_until(users._group.watches(to_lease=True)[0].is_watched)
    assert done == []
    family.resume()
    wait_until(lambda: len(done) == 5)
    worker.stop()
    running.result(LONG_SECONDS)


def test_both_take_part_in_a_transaction(catalog, family):
    """Nothing is paused unless it commits."""
    tr = catalog.database.create_transaction()
    family.pause(tr=tr)
    assert family.paused(tr=tr) is not None
    assert family.paused() is None
    tr.commit().wait()
    assert catalog.queue("user-1").pop() is None
