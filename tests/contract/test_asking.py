"""What follows a conflict: a process asks others for help if that takes less time than to race."""

from __future__ import annotations

import pytest

from fdbqueue.service.consume.contention import Contention, Race
from fdbqueue.service.consume.head import Order


@pytest.fixture
def contention():
    """The policy of a process at one end, on an engine without reservations."""
    return Contention(object())


@pytest.fixture
def helped_slowly(contention):
    """That of a process that has won a race at once, and was helped in a hundred seconds."""
    win(contention)
    contention.note_help(100.0, is_given=True)
    return contention


def win(contention, seconds=0.0):
    """Meet others once, and win after so many seconds."""
    race = Race(contention)
    assert race.goes_on(others=True)
    race.since -= seconds
    race.win()


def asks(contention, seconds=0.0):
    """Meet others twice in a row, and tell whether that leads to asking for help."""
    race = Race(contention)
    assert race.goes_on(others=True)
    race.since -= seconds
    return not race.goes_on(others=True)


def test_help_is_tried_before_it_has_been_measured(contention):
    """After two conflicts with others; for a while the next takes ask without trying first."""
    assert asks(contention)
    assert contention.helped_until > 0
    contention.note_help(0.01, is_given=False)
    assert contention.helped_until == 0


def test_who_was_helped_slowly_races(helped_slowly):
    """And again, until help is hoped to have become faster."""
    tries = 0
    while not asks(helped_slowly):
        win(helped_slowly)
        tries += 1
        assert tries < 100_000
    assert tries > 10


def test_who_races_slowly_asks(helped_slowly):
    """The race under way counts: it need not be won first."""
    assert not asks(helped_slowly)
    assert asks(helped_slowly, 200.0)
    assert asks(helped_slowly)


def test_no_race_lasts_longer_than_help(helped_slowly):
    """Even if those before it were won at once."""
    for _ in range(20):
        assert not asks(helped_slowly)
        win(helped_slowly)
    assert asks(helped_slowly, 100.0)


def test_who_is_helped_faster_goes_on_to_ask(contention):
    """As long as help is given, and until racing is hoped to have become faster."""
    win(contention, 1.0)
    contention.note_help(0.1, is_given=True)
    tries = 0
    while contention.helped_until:
        contention.helped_until = 0.0
        contention.note_help(0.1, is_given=True)
        tries += 1
        assert tries < 100_000
    assert tries > 10


def test_pushes_are_no_reason_to_ask(contention):
    """However often they conflict; after two the take depends on what it takes alone."""
    race = Race(contention)
    orders = [race.order]
    for _ in range(3):
        assert race.goes_on(others=False)
        orders.append(race.order)
    assert orders == [Order.STRICT, Order.STRICT, Order.AS_SEEN, Order.AS_SEEN]
    assert race.since == 0


@pytest.mark.parametrize("is_late", [False, True])
def test_who_takes_over_never_asks_again(contention, is_late):
    """It waits for help as before, or tries until it has won."""
    race = Race(contention, lambda: is_late)
    assert race.order is Order.AS_SEEN
    assert [race.goes_on(others=True) for _ in range(3)] == [is_late] * 3
    assert contention.helped_until == 0
