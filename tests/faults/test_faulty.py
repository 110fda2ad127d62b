"""The faults themselves: what a failed commit leaves behind is what it says."""

from __future__ import annotations

import pytest

from tests.faults.faulty import AFTER, BEFORE, LATE, Fault


def stored(database, key):
    """Return what is stored at a key, None for nothing."""
    transaction = database.create_transaction()
    value = transaction[key]
    return bytes(value) if value.present() else None


def fail(database, key, value=b"x"):
    """Read and set a key in a transaction that fails, and return it and its error."""
    transaction = database.create_transaction()
    transaction[key].wait()
    transaction[key] = value
    with pytest.raises(database.error) as caught:
        transaction.commit().wait()
    return transaction, caught.value


@pytest.mark.parametrize("fault", [*BEFORE, *AFTER, *LATE], ids=str)
def test_a_fault_is_an_error_of_the_engine(faulty, prefix, engine, fault):
    """It has its code, the commit took effect if it says so, and a retry goes well."""
    database = faulty(seed=1, rate=1, faults=[fault])
    transaction, error = fail(database, prefix)
    assert isinstance(error, engine.error)
    assert error.code == fault.code
    assert stored(engine.database, prefix) == (b"x" if fault in AFTER else None)
    transaction.on_error(error.code).wait()
    transaction[prefix] = b"again"
    database._rate = 0
    transaction.commit().wait()
    assert stored(engine.database, prefix) == b"again"
    assert database.happened[fault] == 1


@pytest.mark.parametrize(
    ("moment", "seen"), [("late: first", b"x"), ("late: meanwhile", None), ("late: last", None)]
)
def test_a_late_commit_takes_effect_in_the_end(faulty, prefix, engine, moment, seen):
    """The next attempt sees it only when it came first, and it lands all the same."""
    database = faulty(seed=1, rate=1, faults=[Fault(1039, moment)])
    transaction, error = fail(database, prefix)
    transaction.on_error(error.code).wait()
    assert stored(engine.database, prefix) == seen
    database._rate = 0
    transaction.commit().wait()
    assert stored(engine.database, prefix) == b"x"
    assert database.happened["landed"] == 1


def test_a_late_commit_that_was_overtaken_is_refused(faulty, prefix, engine):
    """What it read has changed when it comes, so it conflicts."""
    database = faulty(seed=1, rate=1, faults=[Fault(1039, "late: last")])
    transaction, error = fail(database, prefix)
    transaction.on_error(error.code).wait()
    transaction[prefix] = b"overtaken"
    database._rate = 0
    transaction.commit().wait()
    assert stored(engine.database, prefix) == b"overtaken"
    assert database.happened["refused"] == 1


def test_a_blind_commit_under_way_conflicts_with_what_came_after_it(faulty, prefix, engine):
    """It reads at a version from its start, not from when it lands."""
    database = faulty(seed=1, rate=1, faults=[Fault(1039, "late: last")])
    transaction = database.create_transaction()
    transaction.add_read_conflict_key(prefix)
    transaction[prefix] = b"x"
    with pytest.raises(engine.error):
        transaction.commit().wait()
    other = engine.database.create_transaction()
    other[prefix] = b"other"
    other.commit().wait()
    database.land("late: last")
    assert stored(engine.database, prefix) == b"other"


def test_the_same_seed_gives_the_same_faults(faulty):
    """With one thread a run can be repeated."""
    first, second = faulty(seed=7), faulty(seed=7)
    assert [first.draw() for _ in range(50)] == [second.draw() for _ in range(50)]
