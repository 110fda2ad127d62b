"""How far a long command has come: on standard error, for a person who waits.

At a terminal it is a bar with count, rate and remaining time, drawn by tqdm where that is
installed. Elsewhere, in a log, it is a line now and then. With ``--verbosity 0`` it is nothing.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any

#: How often there is a line where there is no bar.
LINE_SECONDS = 10.0
#: How large a terminal is that does not say it.
_COLUMNS, _LINES = 80, 24


class Progress(contextlib.AbstractContextManager["Progress"]):
    """Tell how many items are done; to be used as a context.

    Args:
        note: Prints a line.
        total: How many there will be; None where nobody knows.
        bar: Draws them at a terminal; None for lines.
        line_seconds: How often there is a line.
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
            self._bar.close()

    def advance(self, count: int) -> None:
        """Note that so many more are done."""
        self.done += count
        if self._bar is not None:
            self._bar.update(count)
            return
        now = time.monotonic()
        if now - self._noted_at >= self._line_seconds:
            self._noted_at = now
            self._note(self._line(now - self._begun_at))

    def expect(self, total: int) -> None:
        """Note how many there will be, as far as that is known now."""
        self._total = total
        if self._bar is not None:
            self._bar.total = total

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        if self._bar is not None:
            self._bar.clear()
        self._note(text)

    def _line(self, seconds: float) -> str:
        rate = self.done / max(seconds, 1e-9)
        text = f"{self.done:,} items, {rate:,.0f} a second"
        if self._total is None or self.done > self._total:
            return text
        left = (self._total - self.done) / max(rate, 1e-9)
        return f"{text}, {self._total:,} in all, {left:,.0f} seconds left"


def terminal_bar(description: str, total: int | None) -> Any:
    """Return a bar on standard error, None where that is no terminal or tqdm is missing."""
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
        ncols=size.columns or _COLUMNS,
        nrows=size.lines or _LINES,
    )
