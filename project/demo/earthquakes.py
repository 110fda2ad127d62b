"""The earthquakes of the sample: 1,707 of a week of 2018, as the USGS reported them."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

PATH = Path(__file__).resolve().parents[1] / "sample_data" / "earthquakes.ndjson"


@functools.cache
def records() -> list[dict[str, Any]]:
    """Return the earthquakes, the earliest first."""
    with PATH.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
