"""An engine around another's database, as ``ENGINE`` of a setting that faults are injected in."""

from __future__ import annotations

from typing import Any

from fdbqueue.testing.faults import FaultyDatabase


def open(database: Any) -> FaultyDatabase:
    """Return a database that is able to fail, around another."""
    return FaultyDatabase(database)
