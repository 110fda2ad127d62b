"""An engine that always has the same database object, as that of a cluster does."""

from __future__ import annotations

from typing import Any


def open(database: Any) -> Any:
    """Return a database as it is."""
    return database
