"""What follows a conflict: a process asks others for help if that takes less time than to race."""

from __future__ import annotations

import pytest

from fdbqueue.service.consume.contention import Contention


@pytest.fixture
def contention():
    """The policy of a process at one end, on an engine without reservations."""
    return Contention(object())


@pytest.fixture
def helped_slowly(contention):
    """That of a process that has won a race at once, and was helped in a hundred seconds."""
    contention.after_conflict(1, others=True)
    contention.note_commit()
    contention.note_help(100.0, is_given=True)
    return contention


def asks(contention):
    """Meet others twice in a row, and tell whether that leads to asking for help."""
    assert contention.after_conflict(1, others=True) == 1
    return contention.after_conflict(2, others=True) is None


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
        helped_slowly.note_commit()
        tries += 1
        assert tries < 100_000
    assert tries > 10


def test_who_races_slowly_asks(helped_slowly):
    """The race under way counts: it need not be won first."""
    assert not asks(helped_slowly)
    helped_slowly.racing_since -= 200.0
    assert helped_slowly.after_conflict(2, others=True) is None
    assert asks(helped_slowly)


def test_no_race_lasts_longer_than_help(helped_slowly):
    """Even if those before it were won at once."""
    for _ in range(20):
        assert not asks(helped_slowly)
        helped_slowly.note_commit()
    assert not asks(helped_slowly)
    helped_slowly.racing_since -= 100.0
    assert helped_slowly.after_conflict(2, others=True) is None


def test_who_is_helped_faster_goes_on_to_ask(contention):
    """As long as help is given, and until racing is hoped to have become faster."""
    contention.after_conflict(1, others=True)
    contention.racing_since -= 1.0
    contention.note_commit()
    contention.note_help(0.1, is_given=True)
    tries = 0
    while contention.helped_until:
        contention.helped_until = 0.0
        contention.note_help(0.1, is_given=True)
        tries += 1
        assert tries < 100_000
    assert tries > 10


def test_pushes_are_no_reason_to_ask(contention):
    """However often they conflict."""
    assert [contention.after_conflict(n, others=False) for n in (1, 2, 3)] == [1, 2, 3]
    assert contention.racing_since == 0
