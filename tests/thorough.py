"""Sizes that ``make soak`` has in full, and the usual run of the tests in part."""

from __future__ import annotations

import os

IS_THOROUGH = os.environ.get("FDBQUEUE_TEST_THOROUGH") == "1"


def size(full: int, usual: int) -> int:
    """Return the size for this run."""
    return full if IS_THOROUGH else usual
