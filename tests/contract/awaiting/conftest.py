"""Event loops, and databases that stop in the middle of a commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.contract.awaiting.gates import DEADLINE_SECONDS, Gated


@pytest.fixture
def in_loop() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Run a coroutine in an event loop of its own; it fails when it takes too long."""

    def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
        async def bounded() -> Any:
            return await asyncio.wait_for(coroutine, DEADLINE_SECONDS)

        return asyncio.run(bounded())

    return run


@pytest.fixture(params=["before", "after"])
def gated(request: pytest.FixtureRequest, database: Any) -> Any:
    """The database, its commits stopping before or after they take effect."""
    return Gated(database, after=request.param == "after")
