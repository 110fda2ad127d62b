"""When a failed task runs again."""

from __future__ import annotations

import random
from typing import Any

#: The pause before the second attempt, and the longest pause; each is then made longer or shorter
#: by up to a quarter, so that tasks that failed together do not return together.
FIRST_SECONDS = 15.0
MAX_SECONDS = 3_600.0
_JITTER = 0.25


def exponential(exception: BaseException | None, result: Any) -> float:  # noqa: ARG001  # as all backoffs
    """Return 15 seconds, twice as many after each further attempt, and at most an hour.

    Args:
        exception: What the task raised.
        result: The task's result: ``result.attempts`` is how many attempts there have been.
    """
    seconds = min(MAX_SECONDS, FIRST_SECONDS * 2.0 ** min(result.attempts - 1, 20))
    return seconds * random.uniform(1 - _JITTER, 1 + _JITTER)
