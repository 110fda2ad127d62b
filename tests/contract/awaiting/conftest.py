"""Databases that stop in the middle of a commit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.awaiting.gates import Gated


@pytest.fixture(params=["before", "after"])
def gated(request: pytest.FixtureRequest, database: Any) -> Any:
    """The database, its commits stopping before or after they take effect."""
    return Gated(database, after=request.param == "after")
