"""Tasks that do nothing; imported once Django is set up."""

from __future__ import annotations

import time
from typing import Any

from django_tasks import task


@task()
def nothing(value: Any) -> None:
    """Take the value, and do nothing with it."""


@task()
def moment() -> float:
    """Return the time, in seconds."""
    return time.time()
