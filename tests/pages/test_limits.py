"""Queues that their own limits hold: nothing is wrong with their workers."""

from __future__ import annotations

import pytest

from tests.injection import time_ahead
from tests.pages.addresses import LIST
from tests.pages.test_attention import strip

QUEUES = {
    "sms": {"kind": "fifo", "rate": "1/d"},
    "reports": {"kind": "priority", "max_leased": 2},
    "mail": {"kind": "fifo"},
}
HALF_AN_HOUR = 1_800


@pytest.fixture
def fdbqueue_queues():
    """Queues with limits, and one without."""
    return QUEUES


@pytest.mark.parametrize("order", ["name", "-trouble"])
def test_a_rate_that_holds_a_queue_is_said(viewer, queue, order):
    """Not that nothing takes items, in whatever order the list is."""
    with time_ahead(-HALF_AN_HOUR):
        queue("sms").push_many(range(3))
        queue("sms").pop()
        queue("mail").push("alone")
    found = strip(viewer.get(f"{LIST}?sort={order}"))
    assert found == {"untaken": [("mail", "30 min")], "limit": [("sms", "1/d, 30 min")]}


def test_a_rate_that_has_a_token_holds_nothing(viewer, queue):
    """Then its workers are missing."""
    with time_ahead(-HALF_AN_HOUR):
        queue("sms").push("news")
    assert list(strip(viewer.get(LIST))) == ["untaken"]


def test_leases_that_hold_a_queue_are_said(viewer, queue):
    """As many as may be leased, of how many; with one less, the oldest has waited too long."""
    reports = queue("reports")
    with time_ahead(-HALF_AN_HOUR):
        reports.push_many((n, n) for n in range(4))
        leased = reports.lease_many(4, seconds=2 * HALF_AN_HOUR)
    assert strip(viewer.get(LIST)) == {"limit": [("reports", "2 of 2 leased, 30 min")]}
    reports.ack(leased[0])
    assert list(strip(viewer.get(LIST))) == ["slow"]


def test_a_paused_queue_is_not_held(viewer, queue):
    """It waits for its readers, not for its limit."""
    with time_ahead(-HALF_AN_HOUR):
        queue("sms").push_many(range(2))
        queue("sms").pop()
        queue("sms").pause()
    assert list(strip(viewer.get(LIST))) == ["paused"]


def test_only_queues_with_limits_cost_reads(viewer, watched, setting, settings):
    """Two keys at most, however many queues there are; those without limits cost none."""

    def reads():
        watched.reads.clear()
        viewer.get(f"{LIST}?sort=-trouble")
        return len(watched.reads)

    limited = reads()
    of_limits = {"rate", "max_leased"}
    plain = {
        name: {key: value for key, value in options.items() if key not in of_limits}
        for name, options in QUEUES.items()
    }
    settings.FDBQUEUE = {**settings.FDBQUEUE, "QUEUES": plain}
    assert limited - reads() == 2
