"""An engine that opens slowly in all threads but the main one."""

from __future__ import annotations

import threading
from typing import Any

from fdbqueue.engines import embedded

DEADLINE_SECONDS = 60


def open(making: threading.Event, go_on: threading.Event, options: dict[str, Any]) -> Any:
    """Return a database once that is allowed."""
    if threading.current_thread() is not threading.main_thread():
        making.set()
        assert go_on.wait(DEADLINE_SECONDS)
    return embedded.open(**options)
