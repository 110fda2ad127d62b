"""Tasks of the demo project: reports on its earthquakes, and an alert that nobody can receive."""

from __future__ import annotations

import asyncio
import operator
import threading
from typing import Any

from fdbqueue.tasks import group_result, task
from project.demo.earthquakes import records

#: Set when the demo ends, so that no task keeps it waiting.
closing = threading.Event()


@task(queue_name="reports")
def summarise(place: str) -> dict[str, Any]:
    """Return how many earthquakes of the sample were near a place, and how strong they were."""
    found = [quake["magnitude"] for quake in records() if place in quake["place"]]
    return {"place": place, "count": len(found), "strongest": max(found, default=None)}


@task(takes_context=True)
def listen(context: Any, place: str, seconds: float = 10) -> dict[str, Any]:
    """Listen to the ground at a place for some seconds, and say how many of them are over."""
    steps = max(1, round(seconds))
    context.metadata["station"] = f"{place}-1"
    for step in range(steps):
        context.progress(step, of=steps)
        closing.wait(seconds / steps)
    context.progress(steps, of=steps)
    return {"place": place, "heard": "nothing"}


@task
def headline(found: dict[str, str]) -> str:
    """Return a headline of what was heard at a place: what follows the listening in a chain."""
    return f"{found['place']}: {found['heard']} was heard"


@task(concurrency_key="{place}", max_running=1, rate="30/m", burst=10)
def ask_station(place: str, seconds: float = 5) -> str:
    """Ask the station of a place, which answers one question at a time, and thirty in a minute."""
    closing.wait(seconds)
    return f"{place} is quiet"


@task(timeout=6, max_attempts=1)
async def await_wave(place: str) -> str:
    """Wait half a minute for a wave: it fails with ``TaskTimeout``, because that is too long."""
    await asyncio.sleep(30)
    return f"no wave at {place}"


@task
def compare(group: str) -> dict[str, Any]:
    """Return at which of some places there were most earthquakes: what follows their reports."""
    results = [part.result() for part in group_result(group).parts()]
    return max((result.return_value for result in results), key=operator.itemgetter("count"))


@task(backend="rows")
def recount() -> int:
    """Return how many earthquakes there are: it goes through the outbox."""
    return len(records())


@task(max_attempts=2, backoff=lambda _error, _result: 1_800.0)
def locate(quake_id: str) -> None:
    """Locate an earthquake: it fails, and is tried again after half an hour."""
    raise TimeoutError(f"no station has answered for {quake_id}")


@task(priority=50, max_attempts=1)
def alert(magnitude: float) -> None:
    """Tell somebody of an earthquake: it fails, because the demo has nobody to tell."""
    raise ConnectionRefusedError(f"nobody receives alerts of magnitude {magnitude}")
