"""An engine as a project may write one: a module with ``open``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fdbqueue.engines import embedded


def open(folder: Path) -> Any:
    """Return a database in a folder."""
    return embedded.open(folder / "own.sqlite3", durability="normal")
