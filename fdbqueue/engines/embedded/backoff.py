"""The pauses of ``on_error`` before a transaction is run again."""

from __future__ import annotations

import random

from fdbqueue.engines.embedded.errors import BACKED_OFF, REPORTED_AS, VERSION_ERRORS, FDBError

_FIRST_SECONDS = 0.01
_VERSION_SECONDS = 0.01


class Backoff:
    """Count the retries of one transaction, and lengthen the pauses between them."""

    def __init__(self) -> None:
        self._retries = 0
        self._seconds = _FIRST_SECONDS

    def pause(self, code: int, retry_limit: int, longest_seconds: float) -> float:
        """Return how many seconds to wait after an error.

        Args:
            code: The error's.
            retry_limit: How many retries there may be, -1 for no limit.
            longest_seconds: No pause is longer.

        Raises:
            FDBError: Running again would not help, or the limit is reached.
        """
        code = REPORTED_AS.get(code, code) if code >= 0 else 4000
        self._retries += 1
        if retry_limit != -1 and self._retries > retry_limit:
            raise FDBError(code)
        if code in VERSION_ERRORS:
            return min(_VERSION_SECONDS, longest_seconds)
        if code not in BACKED_OFF:
            raise FDBError(code)
        pause = min(self._seconds, longest_seconds) * random.random()
        self._seconds = min(self._seconds * 2, longest_seconds)
        return pause
