"""Rows of workers, as workers write them about themselves, of any age."""

from __future__ import annotations

import json
from typing import Any

from fdbqueue.service import now_us, run
from fdbqueue.service.tools.presence import Presences


def write_rows(presences: Presences, *rows: dict[str, Any], silent_seconds: float = 0) -> None:
    """Write rows of workers that gave their last sign of life so long ago.

    Args:
        presences: Where.
        rows: What each says of itself.
        silent_seconds: How long ago.
    """
    silent_us = int(silent_seconds * 1_000_000)

    def write(tr: Any) -> None:
        version = max(0, tr.get_read_version().wait() - silent_us)
        for number, row in enumerate(rows):
            said = {**row, "said_us": now_us() - silent_us}
            key = presences._subspace.pack((silent_us, number))
            tr.set(key, version.to_bytes(8, "big") + bytes(2) + json.dumps(said).encode())

    run(presences._database, write)
