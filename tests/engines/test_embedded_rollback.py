"""A commit that fails, and whose rollback fails too."""

from __future__ import annotations

import sqlite3

import pytest

from fdbqueue.engines import embedded
from fdbqueue.engines.embedded.commit_groups import CommitGroup


class Stubborn(sqlite3.Connection):
    """A connection that can be made to refuse rollbacks."""

    refuses = False

    def rollback(self):
        """Refuse, or do as told."""
        if type(self).refuses:
            raise sqlite3.OperationalError("no rollback")
        super().rollback()


@pytest.fixture
def database(tmp_path, monkeypatch):
    """A database of its own, with such connections."""
    connect = sqlite3.connect

    def connect_stubbornly(*arguments, **options):
        return connect(*arguments, factory=Stubborn, **options)

    monkeypatch.setattr("fdbqueue.engines.embedded.sqlite_file.sqlite3.connect", connect_stubbornly)
    monkeypatch.setattr(Stubborn, "refuses", False)
    return embedded.open(str(tmp_path / "queues.sqlite3"))


def put(database, key, value, *, reads):
    """Set a key in a transaction that has read before, or not."""
    tr = database.create_transaction()
    if reads:
        tr[b"other"].present()
    tr[key] = value
    tr.commit().wait()


@pytest.mark.parametrize("reads", [True, False], ids=["by its snapshot", "by the writer"])
@pytest.mark.parametrize("times", [1, 3])
def test_the_next_commits_go_on(database, monkeypatch, caplog, reads, times):
    """Nothing of the failed one takes effect, whichever connection it was made by."""
    put(database, b"before", b"1", reads=reads)
    apply = CommitGroup.apply

    def fail(group, *arguments):
        apply(group, *arguments)
        raise sqlite3.OperationalError("no commit")

    for number in range(times):
        with monkeypatch.context() as patched:
            patched.setattr(CommitGroup, "apply", fail)
            patched.setattr(Stubborn, "refuses", True)
            with pytest.raises(embedded.FDBError) as caught:
                put(database, b"refused %d" % number, b"1", reads=reads)
            assert caught.value.code == 1510
        put(database, b"after %d" % number, b"1", reads=not reads)
        put(database, b"later %d" % number, b"1", reads=reads)
    tr = database.create_transaction()
    found = [bytes(row.key) for row in tr.get_range(b"", b"\xff")]
    expected = [b"%s %d" % (name, n) for name in (b"after", b"later") for n in range(times)]
    assert found == sorted([b"before", *expected])
    assert "a transaction did not end" in [record.message for record in caplog.records]


def test_a_rollback_that_goes_on_failing(database, monkeypatch):
    """Each commit is told so, and none waits; then they go on."""
    put(database, b"before", b"1", reads=False)
    with monkeypatch.context() as patched:
        patched.setattr(CommitGroup, "apply", _fail)
        patched.setattr(Stubborn, "refuses", True)
        for _ in range(3):
            with pytest.raises(embedded.FDBError):
                put(database, b"refused", b"1", reads=False)
    put(database, b"after", b"1", reads=False)
    tr = database.create_transaction()
    assert [bytes(row.key) for row in tr.get_range(b"", b"\xff")] == [b"after", b"before"]


def _fail(*_):
    raise sqlite3.OperationalError("no commit")
