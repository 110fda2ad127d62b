"""The status of a queue as tables show it: what keeps pops from its items."""

from __future__ import annotations

from fdbqueue.management import pauses
from fdbqueue.management.tables import Column, Painted
from fdbqueue.service import Ends, Pause

COLUMN = Column("STATUS", fold="wrap")


def cell(ends: Ends, pause: Pause | None) -> str:
    """Return where a queue is blocked, for how long it has been paused, and why; or a dash."""
    words = []
    if len(ends.undecodable) > 1:
        words.append("blocked at both ends")
    elif ends.undecodable:
        words.append(f"blocked at {ends.undecodable[0]}")
    if pause is not None:
        words.append(pauses.words(pause))
    style = "ERROR" if ends.undecodable else "WARNING" if pause else None
    return Painted.of(", ".join(words) or "-", style)
