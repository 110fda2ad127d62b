"""A journal of what tasks and signals did, in a file that all processes of a test append to."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

#: The environment of a worker process names the folder of the running test, and its backend.
FOLDER_VARIABLE = "TASKS_CONFORMANCE_FOLDER"
ALIAS_VARIABLE = "TASKS_CONFORMANCE_ALIAS"


def folder() -> Path:
    """Return the folder of the running test.

    Raises:
        RuntimeError: No test of the kit is running, or its environment was not inherited.
    """
    if not (found := os.environ.get(FOLDER_VARIABLE)):
        raise RuntimeError(
            f"No {FOLDER_VARIABLE} in the environment: a worker needs that of the test. "
            "Start it in worker_process() or run_worker()."
        )
    return Path(found)


def write(event: str, **facts: Any) -> None:
    """Append an event.

    One write in append mode is whole, whatever else writes or dies at the same time.
    """
    line = json.dumps({"event": event, "at": time.time(), "pid": os.getpid(), **facts}) + "\n"
    file = os.open(folder() / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def entries(event: str, **facts: Any) -> list[dict[str, Any]]:
    """Return the entries of an event that have these facts, the earliest first."""
    try:
        text = (folder() / "journal").read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    found = [json.loads(line) for line in text.splitlines()]
    return [entry for entry in found if entry["event"] == event and facts.items() <= entry.items()]
