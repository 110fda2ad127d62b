"""An engine around another's database, as ``ENGINE`` of a setting that faults are injected in."""

from __future__ import annotations

from fdbqueue.engines.protocols import Database
from fdbqueue.testing.faults import FaultyDatabase


def open(database: Database) -> FaultyDatabase:
    """Return a database that is able to fail, around another."""
    return FaultyDatabase(database)
