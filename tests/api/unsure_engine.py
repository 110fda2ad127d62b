"""An engine whose commits take effect and time out."""

from __future__ import annotations

from typing import Any

from fdbqueue.engines import embedded
from tests.contract.unsure import Unsure


def open(path: Any) -> Unsure:
    """Return the embedded engine's database, its commits not saying what they did."""
    return Unsure(embedded.open(path), embedded.FDBError(1031))
