"""The order of the items on the page of a queue: by their places, or by what ends first."""

from __future__ import annotations

import pytest

from fdbqueue.service import moments
from tests.cases import cases
from tests.pages.addresses import first, following, items, of, previous, text

MINUTE = 60


def by_due(queue, name="mail", count=60):
    """Push items that are due in the reverse order of their pushes; return them as they are due."""
    pushed = [queue(name).push(n, delay=(count - n) * MINUTE) for n in range(count)]
    return [item.id for item in reversed(pushed)]


def test_delayed_items_are_listed_as_they_are_due(viewer, queue):
    """Unless the reader chooses their places."""
    due = by_due(queue, count=5)
    assert items(viewer.get(of("mail") + "?state=delayed")) == due
    assert items(viewer.get(of("mail") + "?state=delayed&end=min")) == due[::-1]
    assert items(viewer.get(of("mail") + "?state=delayed&end=max")) == due
    markup = text(viewer.get(of("mail") + "?state=delayed"))
    assert '<option value="until" selected>Due first</option>' in markup
    assert 'href="?state=dead#' in markup


def test_leased_items_are_listed_as_their_leases_end(viewer, queue):
    """Delayed ones are in the same index, and are passed by."""
    by_due(queue, count=5)
    queue("mail").push_many(range(3))
    leased = [queue("mail").lease(seconds=minutes * MINUTE) for minutes in (9, 2, 4)]
    found = items(viewer.get(of("mail") + "?state=leased&end=until"))
    assert found == [leased[1].id, leased[2].id, leased[0].id]
    found = items(viewer.get(of("mail") + "?state=leased"))
    assert found == [one.id for one in leased]


def test_a_page_passes_a_bounded_number_of_others(viewer, queue, monkeypatch):
    """What it leaves out is on the next page, and nothing is there twice."""
    monkeypatch.setattr(moments, "MAX_PASSED", 45)
    by_due(queue, count=100)
    queue("mail").push_many(range(3))
    leased = [queue("mail").lease(seconds=seconds) for seconds in (30, 90 * MINUTE, 3)]
    one = viewer.get(of("mail") + "?state=leased&end=until")
    assert items(one) == [leased[2].id, leased[0].id]
    two = viewer.get(of("mail") + following(one))
    assert items(two) == [leased[1].id]
    assert items(viewer.get(of("mail") + following(two))) == []
    assert items(viewer.get(of("mail") + previous(two))) == items(one)


def test_pages_in_the_order_of_time(viewer, queue):
    """They lead forward and back without a gap, whatever ends or comes meanwhile."""
    due = by_due(queue)
    address = of("mail") + "?state=delayed&limit=25"
    one = viewer.get(address)
    two = viewer.get(of("mail") + following(one))
    queue("mail").push("soon", delay=1)
    queue("mail").remove(due[24])
    three = viewer.get(of("mail") + following(two))
    assert items(one) + items(two) + items(three) == due
    assert "Items 51 to 60 of 60" in text(three)
    back = viewer.get(of("mail") + previous(three))
    assert items(back) == due[25:50]
    assert items(viewer.get(of("mail") + first(three)))[1:] == due[:24]


def test_a_search_in_the_order_of_time(viewer, queue):
    """It finds what matches, in that order."""
    due = by_due(queue)
    found = items(viewer.get(of("mail") + "?state=delayed&q=5"))
    assert found == [
        due[59 - n] for n in (59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 45, 35, 25, 15, 5)
    ]


@pytest.mark.parametrize(
    ("state", "order"),
    [
        ("ready", "until"),
        ("dead", "until"),
        ("ready", "died"),
        ("leased", "died"),
        ("delayed", "died"),
    ],
)
def test_each_state_has_its_own_orders(viewer, state, order):
    """The others are refused, at the field."""
    response = viewer.get(f"{of('mail')}?state={state}&end={order}")
    assert response.status_code == 400
    assert "Items in this state have no such order." in text(response)
    response = viewer.get(f"{of('mail')}?state={state}&end=nope")
    assert response.status_code == 400
    assert "This is not one of the choices." in text(response)


def bury(queue, count, name="mail"):
    """Let items die in an order that is not that of their places; return them as they died."""
    queue(name).push_many(range(count))
    ids = [item.id for item in queue(name)]
    died = ids[1::2] + ids[::2]
    for item_id in died:
        queue(name).bury(item_id)
    return died


def test_dead_letters_are_listed_as_they_died(viewer, queue):
    """The newest failure first, unless the reader chooses their places."""
    died = bury(queue, 6)
    assert items(viewer.get(of("mail") + "?state=dead")) == died[::-1]
    assert items(viewer.get(of("mail") + "?state=dead&end=died")) == died[::-1]
    places = [item.id for item in queue("mail").iterate(state="dead")]
    assert items(viewer.get(of("mail") + "?state=dead&end=min")) == places
    assert items(viewer.get(of("mail") + "?state=dead&end=max")) == places[::-1]
    markup = text(viewer.get(of("mail") + "?state=dead"))
    assert '<option value="died" selected>Newest failure first</option>' in markup


def test_dead_letters_of_a_reason(viewer, queue):
    """A group is searched in the same order."""
    died = bury(queue, 9)
    queue("mail").push("other")
    queue("mail").bury(queue("mail").peek().id, reason="other")
    address = of("mail") + "?state=dead&group=buried"
    assert items(viewer.get(address)) == died[::-1]
    assert items(viewer.get(of("mail") + "?state=dead&reason=oth&end=died"))[0] not in died


def test_dead_letters_in_a_range_of_priorities(viewer, queue):
    """They are listed by priority, and not by their deaths."""
    for n in (3, 1, 2):
        queue("tickets").bury(queue("tickets").push(n, n).id)
    address = of("tickets") + "?state=dead"
    values = [queue("tickets").get(one).value for one in items(viewer.get(address))]
    assert values == [2, 1, 3]
    found = items(viewer.get(address + "&min_priority=2"))
    assert [queue("tickets").get(one).value for one in found] == [2, 3]
    response = viewer.get(address + "&min_priority=2&end=died")
    assert response.status_code == 400
    assert "not in the order of time" in text(response)


def test_priorities_have_an_order_of_their_own(viewer, queue):
    """A range of them is listed by priority; with the order of time it is refused."""
    items_of = [queue("tickets").push(n, n, delay=(9 - n) * MINUTE) for n in range(5)]
    address = of("tickets") + "?state=delayed"
    assert items(viewer.get(address)) == [one.id for one in reversed(items_of)]
    found = items(viewer.get(address + "&min_priority=2&max_priority=3"))
    assert found == [items_of[2].id, items_of[3].id]
    response = viewer.get(address + "&min_priority=2&end=until")
    assert response.status_code == 400
    assert "not in the order of time" not in text(viewer.get(address + "&end=until"))


@cases("place", ["nope", "-", "12-", "12-~", "x-AA", "9" * 19 + "-AA", "%C2%B2-AA", "12"])
def test_places_that_cannot_be(viewer, queue, place):
    """They are refused, as ids are that are none of this queue."""
    by_due(queue, count=2)
    for name in ("after", "before"):
        response = viewer.get(f"{of('mail')}?state=delayed&{name}={place}")
        assert response.status_code == 400
        assert "This address is not valid" in text(response)


def test_the_reads_of_a_page_are_those_of_its_rows(viewer, queue, watched):
    """Two for each, however many items there are; none of them depends on what it reads."""

    def reads():
        watched.reads.clear()
        assert viewer.get(of("mail") + "?state=delayed&limit=25").status_code == 200
        return len(watched.reads)

    by_due(queue, count=30)
    few = reads()
    by_due(queue, count=60)
    assert reads() == few <= 15 + 2 * 26
