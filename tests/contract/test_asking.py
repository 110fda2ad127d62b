"""What follows a conflict: a process asks others for help if that takes less time than to race."""

from __future__ import annotations

import pytest

from fdbqueue.service.consume.contention import Contention


@pytest.fixture
def contention():
    """The policy of a process at one end, on an engine without reservations."""
    return Contention(object())


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


def test_who_was_helped_slowly_races(contention):
    """And again, until help is hoped to have become faster."""
    contention.note_help(100.0, is_given=True)
    assert not asks(contention)
    contention.note_commit()
    assert not asks(contention)
    tries = 0
    while not asks(contention):
        contention.note_commit()
        tries += 1
        assert tries < 10_000


def test_who_races_slowly_asks(contention):
    """The race under way counts: it need not be won first."""
    contention.note_help(100.0, is_given=True)
    assert not asks(contention)
    contention.racing_since -= 200.0
    assert contention.after_conflict(2, others=True) is None
    assert asks(contention)


def test_pushes_are_no_reason_to_ask(contention):
    """However often they conflict."""
    assert [contention.after_conflict(n, others=False) for n in (1, 2, 3)] == [1, 2, 3]
    assert contention.racing_since == 0
