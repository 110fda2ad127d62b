"""An hour's work with the demo's earthquakes, so that pictures have something to show."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import fdbqueue
from fdbqueue.service import clock

EARTHQUAKES = Path(__file__).resolve().parents[2] / "project" / "sample_data" / "earthquakes.ndjson"
MINUTES = 60


class _Then:
    """Takes the place of the module ``time`` for the service: so many seconds ago."""

    def __init__(self) -> None:
        self.seconds_ago = 0.0

    def time_ns(self) -> int:
        """Return the time, as ``time.time_ns`` does."""
        return time.time_ns() - int(self.seconds_ago * 1e9)


def work() -> None:
    """Push all earthquakes over an hour, work on some, and write and read some mail."""
    then, chance = _Then(), random.Random(7)
    clock.time = then  # all that the service takes of it
    try:
        _shake(then, chance)
    finally:
        clock.time = time


def _shake(then: _Then, chance: random.Random) -> None:
    quakes, mail = fdbqueue.queue("quakes"), fdbqueue.queue("mail")
    records = [json.loads(line) for line in EARTHQUAKES.read_text(encoding="utf-8").splitlines()]
    per_minute = -(-len(records) // MINUTES)
    for minute in range(MINUTES):
        then.seconds_ago = (MINUTES - minute - 1) * 60 + 1
        some = records[minute * per_minute : (minute + 1) * per_minute]
        quakes.push_many((record, record["magnitude"]) for record in some)
        again = quakes.pop_many(min(quakes.size(), 1 + chance.randrange(11)))
        mail.push_many({"to": f"reader-{n}@example.org"} for n in range(1 + chance.randrange(11)))
        mail.pop_many(1 + chance.randrange(10))
        fdbqueue.queue("user-ada").push({"minute": minute})
        quakes.push_many((item.value, item.priority + 1) for item in again[:6])
    then.seconds_ago = 0
    quakes.lease_many(12, end="max", seconds=900)
    quakes.push_many(((record, record["magnitude"]) for record in records[:7]), delay=1_800)
    for item in quakes.page(limit=3).items:
        quakes.bury(item.id, reason="no station within 500 km")
