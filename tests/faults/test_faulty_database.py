"""The database of the tests whose commits fail on demand."""

from __future__ import annotations

import pytest

from tests.faulty_database import FaultyDatabase


def test_a_commit_that_fails_by_itself_leaves_the_fault_to_the_next(engine, prefix):
    """A conflict is a conflict; only what would have succeeded is made uncertain."""
    faulty = FaultyDatabase(engine.database)
    transaction, other = faulty.create_transaction(), engine.database.create_transaction()
    transaction[prefix].wait()
    transaction[prefix] = b"mine"
    other[prefix] = b"theirs"
    other.commit().wait()
    faulty.fail_commits(took_effect=True)
    with pytest.raises(engine.error) as caught:
        transaction.commit().wait()
    assert (caught.value.code, faulty.happened) == (1020, 0)
    transaction.on_error(caught.value.code).wait()
    transaction[prefix] = b"mine"
    with pytest.raises(engine.error) as caught:
        transaction.commit().wait()
    assert (caught.value.code, faulty.happened) == (1021, 1)
    other = engine.database.create_transaction()
    assert bytes(other[prefix]) == b"mine"
