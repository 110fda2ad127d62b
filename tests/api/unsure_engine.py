"""An engine whose commits take effect and time out."""

from __future__ import annotations

from typing import Any

from fdbqueue.engines import embedded
from tests.contract.unsure import unsure_database
from tests.faulty_database import FaultyDatabase


def open(path: Any) -> FaultyDatabase:
    """Return the embedded engine's database, its commits not saying what they did."""
    return unsure_database(embedded.open(path), 1031)
