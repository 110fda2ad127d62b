"""A database whose commits take effect, and then fail with an unknown outcome."""

from __future__ import annotations

import math
from typing import Any

from tests.faulty_database import FaultyDatabase


def unsure_database(database: Any, code: int) -> FaultyDatabase:
    """Return a database whose commits all take effect, and report with a code that they may not."""
    faulty = FaultyDatabase(database)
    faulty.fail_commits(took_effect=True, code=code, times=math.inf)
    return faulty
