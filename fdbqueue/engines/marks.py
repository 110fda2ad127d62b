"""The mark by which a copy of an engine's keys refuses processes: both engines look when they open.

``engine_copy`` (``fdbqueue/service/tools/engine_copy.py``) writes it and says what it means.
"""

from __future__ import annotations

import json

from fdbqueue.exceptions import ConfigurationError


def refuse_marked(engine: str | None, mark: bytes | None) -> None:
    """Refuse a process, by the value that its mark has where it opens its queues.

    Args:
        engine: The file, or the cluster file.
        mark: What is stored; None if nothing is.

    Raises:
        ConfigurationError: The queues are elsewhere, or are being copied; the mark says what to do.
    """
    if mark is not None:
        raise ConfigurationError(engine=engine, reason=json.loads(mark)["says"])
