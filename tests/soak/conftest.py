"""The long tests, which run only when their folder is named: ``pytest tests/soak``.

``FDBQUEUE_SOAK_OPERATIONS`` says how many operations each kind of test does in all.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.concurrency.conftest import clock, start
from tests.live.conftest import prepared

__all__ = ["clock", "prepared", "start"]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave these tests out unless the command line names them."""
    return None if any("soak" in str(argument) for argument in config.args) else True
