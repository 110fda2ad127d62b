"""The engine under test, with commits that fail at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.concurrency.conftest import clock
from tests.conftest import Engine
from tests.faults.faulty import Faulty

__all__ = ["clock", "faulty"]


@pytest.fixture
def faulty(engine: Engine) -> Callable[..., Faulty]:
    """Put a database of the engine behind faults: ``faulty(seed=1)``."""

    def faulty(database: Any = engine.database, **options: Any) -> Faulty:
        return Faulty(database, engine.error, **options)

    return faulty
