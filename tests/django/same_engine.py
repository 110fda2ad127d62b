"""An engine that always returns the same database object, as the cluster engine does."""

from __future__ import annotations

from typing import Any


def open(database: Any) -> Any:
    """Return a database as it is."""
    return database
