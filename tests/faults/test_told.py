"""No caller is told that nothing happened where something did, or may yet."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

import fdbqueue.service
from fdbqueue.exceptions import CorruptItem, LeaseLost, PushInterrupted
from fdbqueue.service import FifoQueue, run
from fdbqueue.service import transactions as loop
from fdbqueue.service.transactions import run_stamped
from tests.cases import cases
from tests.faults.faulty import AFTER, BEFORE, LATE, Fault
from tests.faults.telling import (
    DONE,
    MAY_HOLD,
    NOTHING,
    TRIPS,
    UNKNOWN,
    Alarm,
    FailingOnce,
    Tripwire,
    tell,
)

MOMENTS = ("before", "after", "late: first", "late: meanwhile", "late: last")
TIMED_OUT = [Fault(1031, moment) for moment in MOMENTS]
FAULTS = [*BEFORE, *AFTER, *LATE, *TIMED_OUT]


def add(key):
    """Return a function that adds one to a number, by an operation that reads nothing."""
    return lambda tr: tr.add(key, (1).to_bytes(8, "little"))


def number(database, key):
    """Return the number at a key."""
    transaction = database.create_transaction()
    value = transaction[key]
    return int.from_bytes(bytes(value), "little") if value.present() else 0


@pytest.mark.parametrize("call", [run, run_stamped])
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_whatever_fails_after_a_commit_did(engine, subspace, fault, call):
    """Each step after the first commit in turn, with each error: what is told is true."""
    told = Counter()
    for trip in TRIPS:
        step, has_tripped = 0, True
        while has_tripped:
            key = subspace[repr(trip)][step].key()
            wire = Tripwire(engine.database, engine.error, fault, trip, step)
            end = tell(lambda wire=wire, key=key: call(wire, add(key), wrote=lambda _: True))
            wire.land_all()
            held = number(engine.database, key)
            assert held in MAY_HOLD[end], (trip, step, end)
            told[end, held] += 1
            step, has_tripped = step + 1, wire.has_tripped
    assert told[DONE, 1] if fault not in TIMED_OUT else told[UNKNOWN, 1] + told[UNKNOWN, 0]
    assert told[UNKNOWN, 1] or fault not in AFTER


@cases("raised", [CorruptItem, LeaseLost, LookupError, 2101, KeyboardInterrupt])
@cases("fault", [*BEFORE, *AFTER, *LATE])
def test_an_error_of_a_later_run_is_true(engine, subspace, fault, raised):
    """When the function's second run fails, its first has not taken effect, and never will."""
    database = FailingOnce(engine.database, engine.error, fault)
    key = subspace[str(fault)][str(raised)].key()
    runs = []

    def add_or_fail(tr):
        runs.append(fault)
        if len(runs) > 1:
            raise engine.error(raised) if isinstance(raised, int) else raised
        add(key)(tr)

    end = tell(lambda: run(database, add_or_fail))
    database.land_all()
    assert number(engine.database, key) in MAY_HOLD[end]
    assert end == (DONE if len(runs) == 1 else NOTHING)


# Many transactions

MANY = [b"x" * 90_000] * 20  # about a megabyte is one transaction


class Alarming(FailingOnce):
    """A database whose second commit takes effect, and then raises an error."""

    def __init__(self, database, error):
        super().__init__(database, lambda _: error(), None)
        self._draws = iter([None, Fault(0, "after")])

    def draw(self):
        return next(self._draws, None)


class Closing(FailingOnce):
    """A database that is interrupted when its second transaction begins."""

    def __init__(self, database, error):
        super().__init__(database, error, None)

    def create_transaction(self):
        if self.happened:
            raise self.error
        self.count("begun")
        return super().create_transaction()


def test_an_alarm_in_a_push_of_many(engine, subspace):
    """It says how many are in, and how many after these may be."""
    database = Alarming(engine.database, Alarm)
    with pytest.raises(PushInterrupted) as caught:
        FifoQueue(database, subspace, codec="bytes").push_many(MANY)
    assert isinstance(caught.value.__cause__, Alarm)
    pushed, unknown = caught.value.context["pushed"], caught.value.context["unknown"]
    assert 0 < pushed < pushed + unknown == len(MANY)
    assert FifoQueue(engine.database, subspace).size() == len(MANY)


@pytest.mark.parametrize("interrupted", [Alarming, Closing])
def test_an_interrupt_of_a_push_of_many(engine, subspace, interrupted):
    """It is raised as it is, and does not say that nothing happened."""
    interrupted = interrupted(engine.database, KeyboardInterrupt)
    queue = FifoQueue(interrupted, subspace, codec="bytes")
    assert tell(lambda: queue.push_many(MANY)) == UNKNOWN
    assert FifoQueue(engine.database, subspace).size() > 0


def test_an_interrupt_before_a_push_of_many(engine, subspace):
    """One that comes while the first values are read says that nothing was pushed."""
    queue = FifoQueue(engine.database, subspace)

    def values():
        yield 1
        raise KeyboardInterrupt

    assert tell(lambda: queue.push_many(values())) == NOTHING
    assert queue.size() == 0


# Each line

SERVICE = Path(fdbqueue.service.__file__).parent
LOOP = {str(SERVICE / "transactions.py")}


class Lines:
    """Raise an error at the n-th line of the retry loop that this thread comes to."""

    def __init__(self, at, error):
        self.left, self.error = at, error

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)

    def _call(self, frame, event, _):
        return self._line if frame.f_code.co_filename in LOOP else None

    def _line(self, frame, event, _):
        if event == "line":
            self.left -= 1
            if self.left == -1:
                raise self.error
        return self._line


@pytest.mark.parametrize("error", [Alarm, KeyboardInterrupt])
@pytest.mark.parametrize("fault", [None, *BEFORE, *AFTER, *LATE], ids=str)
def test_an_error_at_any_line(engine, subspace, fault, error):
    """Raised at each line of the loop in turn: what is told is true, and the next call is sound."""
    told, line, lines = Counter(), 0, Lines(-1, error)
    while line == 0 or lines.left < 0:
        key = subspace[line].key()
        database = FailingOnce(engine.database, engine.error, fault)
        lines = Lines(line, error)
        with lines:
            end = tell(lambda database=database, key=key: run(database, add(key)))
        database.land_all()
        held = number(engine.database, key)
        assert held in MAY_HOLD[end], (line, end)
        run(database, add(key))
        assert number(engine.database, key) == held + 1
        free = loop.Receipt(database).slots.free
        assert len(set(free)) == len(free), "a slot was given back twice"
        told[end, held] += 1
        line += 1
    assert told[DONE, 1]
    assert told[NOTHING, 0]
    assert told[UNKNOWN, 0] + told[UNKNOWN, 1]
