"""The names of all queues are kept for a short time, and listed by one thread at a time."""

from __future__ import annotations

import os
import threading

import pytest

from fdbqueue.exceptions import DeadlineExceeded
from fdbqueue.service.names import KeptNames

NAMES = [f"user-{number}" for number in range(10)]
DEADLINE_SECONDS = 60


@pytest.fixture
def clock(monkeypatch):
    """What the time is."""
    now = [1_000.0]
    monkeypatch.setattr("fdbqueue.service.names.monotonic", lambda: now[0])
    return now


@pytest.fixture
def asked():
    """After which names it was listed."""
    return []


@pytest.fixture
def listing(clock, asked):
    """List names, each of which takes a second; the time of a request is over after some."""

    def make(most=100, names=NAMES):
        def list_after(after):
            asked.append(after)
            for number, name in enumerate(name for name in names if name > after):
                if number == most:
                    raise DeadlineExceeded
                clock[0] += 1
                yield name

        return list_after

    return make


def test_what_cannot_be_listed_in_time_is_listed_bit_by_bit(listing, asked):
    """Each request goes on from where the one before it stopped; then the names are there."""
    kept = KeptNames()
    for _ in range(3):
        with pytest.raises(DeadlineExceeded):
            kept.get(5, listing(most=3))
    assert kept.get(5, listing(most=3)) == NAMES
    assert kept.get(5, listing(most=3)) == NAMES
    assert asked == ["", "user-2", "user-5", "user-8"]


def test_they_are_kept_for_a_time(listing, asked, clock):
    """Twenty times as long as it took, or as long as is asked for."""
    kept = KeptNames()
    assert kept.get(5, listing()) == NAMES
    clock[0] += 189  # it has taken ten seconds
    assert kept.get(5, listing(names=["mail"])) == NAMES
    clock[0] += 2
    assert kept.get(5, listing(names=["mail"])) == ["mail"]
    clock[0] += 21
    assert kept.get(60, listing(names=[])) == ["mail"]
    assert kept.get(5, listing(names=[])) == []
    assert len(asked) == 3


def test_a_part_that_is_old_is_listed_again(listing, asked, clock):
    """A name of long ago may be of a queue that is not there any more."""
    kept = KeptNames()
    with pytest.raises(DeadlineExceeded):
        kept.get(5, listing(most=3))
    clock[0] += 100
    assert kept.get(5, listing()) == NAMES
    assert asked == ["", ""]


def test_threads_that_ask_at_once_list_once():
    """The others wait for the one that lists."""
    kept, begun, gate, asked = KeptNames(), threading.Event(), threading.Event(), []

    def list_after(after):
        asked.append(after)
        begun.set()
        assert gate.wait(DEADLINE_SECONDS)
        return NAMES

    found = []
    threads = [
        threading.Thread(target=lambda: found.append(kept.get(5, list_after)), daemon=True)
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    assert begun.wait(DEADLINE_SECONDS)
    gate.set()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    assert found == [NAMES] * 5
    assert asked == [""]


def test_a_forked_process_does_not_wait_for_a_thread_of_its_parent():
    """That thread is not there."""
    kept, begun, gate = KeptNames(), threading.Event(), threading.Event()

    def list_after(_after):
        begun.set()
        assert gate.wait(DEADLINE_SECONDS)
        return NAMES

    thread = threading.Thread(target=lambda: kept.get(5, list_after), daemon=True)
    thread.start()
    assert begun.wait(DEADLINE_SECONDS)
    child = os.fork()
    if not child:
        os._exit(0 if kept.get(5, lambda _: ["mail"]) == ["mail"] else 1)
    gate.set()
    thread.join(DEADLINE_SECONDS)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
