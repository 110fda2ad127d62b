"""Time that passes for queues without a test's waiting for it."""

from __future__ import annotations

from django.test.utils import TestContextDecorator

from fdbqueue.service import clock


class time_ahead(TestContextDecorator):  # noqa: N801  # as override_settings
    """Set the clock that queues go by ahead, in this process.

    Delays and leases that end by then are over for whoever consumes. Nobody who waits is
    woken by it. Blocks in one another add up.

    Args:
        seconds: By how much.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._ahead_us = int(seconds * 1_000_000)

    def enable(self) -> None:
        """Set the clock ahead."""
        clock.set_ahead(self._ahead_us)

    def disable(self) -> None:
        """Set it back."""
        clock.set_ahead(-self._ahead_us)
