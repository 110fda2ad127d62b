"""The progress of a long command, on standard error.

At a terminal it is a bar with count, rate and remaining time, drawn by tqdm where that is
installed, else a line every two seconds; elsewhere a line every ten seconds; and nothing with
``--verbosity 0``.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from fdbqueue.management.formats import item_count

#: The time between two lines where there is no bar.
LINE_SECONDS = 10.0
#: The same at a terminal.
TERMINAL_LINE_SECONDS = 2.0
#: The size of a terminal that does not tell its own.
_COLUMNS, _LINES = 80, 24


class Progress(contextlib.AbstractContextManager["Progress"]):
    """A count of items that are done, shown as it grows; a context manager.

    Args:
        note: Prints a line.
        total: How many there will be; None where that is not known.
        bar: Tqdm's bar at a terminal; None for lines.
        line_seconds: The time between two lines; ``math.inf`` for none.
    """

    def __init__(
        self,
        note: Callable[[str], None],
        total: int | None,
        bar: Any = None,
        *,
        line_seconds: float = LINE_SECONDS,
    ) -> None:
        self.done = 0
        self._note = note
        self._total = total
        self._bar = bar
        self._line_seconds = line_seconds
        self._begun_at = self._noted_at = time.monotonic()

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.refresh()
            self._bar.close()

    def advance(self, count: int) -> None:
        """Add items that are done."""
        self.done += count
        if self._bar is not None:
            self._bar.update(count)
            return
        now = time.monotonic()
        if now - self._noted_at >= self._line_seconds:
            self._noted_at = now
            self._note(self._line(now - self._begun_at))

    def expect(self, total: int) -> None:
        """Set how many there will be, as far as that is known now."""
        self._total = total
        if self._bar is not None:
            self._bar.total = total

    def _line(self, seconds: float) -> str:
        rate = self.done / max(seconds, 1e-9)
        text = f"{item_count(self.done)}, {rate:,.0f} per second"
        if self._total is None or self.done > self._total:
            return text
        left = (self._total - self.done) / max(rate, 1e-9)
        return f"{text}, {self._total:,} in total, {left:,.0f} seconds left"


def terminal_bar(description: str, total: int | None) -> Any:
    """Return a bar on standard error, None where that is not a terminal or tqdm is missing."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    size = os.get_terminal_size(sys.stderr.fileno())
    return tqdm(
        desc=description,
        total=total,
        unit=" items",
        file=sys.stderr,
        leave=False,  # the result says how many there were
        ncols=size.columns or _COLUMNS,
        nrows=size.lines or _LINES,
    )
