"""Tasks of the demo project: reports on its earthquakes, and an alert that nobody can receive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fdbqueue.tasks import task

_EARTHQUAKES = Path(__file__).parent / "sample_data" / "earthquakes.ndjson"


@task(queue_name="reports")
def summarise(place: str) -> dict[str, Any]:
    """Return how many earthquakes of the sample were near a place, and how strong they were."""
    with _EARTHQUAKES.open(encoding="utf-8") as lines:
        quakes = [json.loads(line) for line in lines]
    found = [quake["magnitude"] for quake in quakes if place in quake["place"]]
    return {"place": place, "count": len(found), "strongest": max(found, default=None)}


@task(priority=50, max_attempts=1)
def alert(magnitude: float) -> None:
    """Tell somebody of an earthquake: it fails, because the demo has nobody to tell."""
    raise ConnectionRefusedError(f"nobody receives alerts of magnitude {magnitude}")
