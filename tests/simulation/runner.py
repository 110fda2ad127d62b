"""Run seeds, cut what is found down to a few steps, and print it.

A history is a plan and the seed of its order and faults. It is cut by leaving out clients, blocks of
operations, strikes, faults and options as long as the same is found, with the same order or one of
some others: the history that is left is found again by them all.
"""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.simulation.schedule import Found
from tests.simulation.workload import draw_plan, lines
from tests.simulation.world import World

#: With how many orders a plan that was cut is tried.
_ORDERS = 5
_SHRINK_SECONDS = 240.0
_NUMBERS = re.compile(r"\[.*?\]|b'.*?'|[0-9.]+|p[0-9]/\w+|\bm-\w\b")


class History(NamedTuple):
    """One run: how it ended, how long it took, and what happened."""

    plan: dict[str, Any]
    order: str
    found: str | None
    steps: int
    log: list[str]

    @property
    def kind(self) -> str:
        """What was found, without the numbers and names of this history."""
        return _NUMBERS.sub("_", self.found or "")[:60]

    def lines(self) -> list[str]:
        """Return it for a person to read."""
        return [*lines(self.plan), "", *self.log]

    def line(self) -> str:
        """Return the plan and the order as a line that runs it again."""
        return json.dumps({"order": self.order, **self.plan}, separators=(",", ":"))


def run(plan: dict[str, Any], order: str) -> History:
    """Run a plan in an order."""
    world = World(copy.deepcopy(plan), order)
    found = None
    try:
        world.run()
    except Found as error:
        found = str(error)
    return History(plan, order, found, world.schedule.steps, world.schedule.log)


def run_seed(seed: int) -> History:
    """Run the plan of a seed."""
    return run(draw_plan(seed), str(seed))


def run_line(line: str) -> History:
    """Run a history that :meth:`History.line` returned."""
    plan = json.loads(line)
    return run(plan, plan.pop("order"))


def shrink(history: History, seconds: float = _SHRINK_SECONDS) -> History:
    """Return a history in which the same is found, and from which nothing can be cut."""
    until, at, since = time.monotonic() + seconds, 0, 0
    while time.monotonic() < until:
        cuts = [*_cuts(history.plan)]
        if since > len(cuts):
            break
        smaller = _found_in(cuts[at % len(cuts)], history)
        if smaller is not None:
            history, since = smaller, 0
        else:
            at, since = at + 1, since + 1
    return history


def _found_in(plan: dict[str, Any], history: History) -> History | None:
    for order in [history.order, *map(str, range(_ORDERS))]:
        found = run(plan, order)
        if found.found is not None and found.kind == history.kind:
            return found
    return None


def _cuts(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the plan with less in it, the largest cuts first."""

    def changed(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        cut = copy.deepcopy(plan)
        change(cut)
        return cut

    for at in range(len(plan["clients"])):
        if len(plan["clients"]) > 1:
            yield changed(lambda cut, at=at: cut["clients"].pop(at))
    for at, client in enumerate(plan["clients"]):
        size = len(client["ops"])
        block = size
        while block >= 1:
            for start in range(0, size, block):
                if block < size or len(plan["clients"]) > 1:
                    yield changed(
                        lambda cut, at=at, start=start, block=block: cut["clients"][at][
                            "ops"
                        ].__delitem__(slice(start, start + block))
                    )
            block //= 2
    for fault, rate in plan["faults"].items():
        least = 0.02 if fault == "longest" else 0
        if rate > least:
            yield changed(
                lambda cut, fault=fault, least=least: cut["faults"].update({fault: least})
            )
    for at, process in enumerate(plan["processes"]):
        if process:
            yield changed(lambda cut, at=at: cut["processes"][at].clear())
    for at, client in enumerate(plan["clients"]):
        if client["process"]:
            yield changed(lambda cut, at=at: cut["clients"][at].update(process=0))
        for place, op in enumerate(client["ops"]):
            for name in ("strike", "delay", "unique", "once", "wait"):
                if name in op:
                    yield changed(
                        lambda cut, at=at, place=place, name=name: cut["clients"][at]["ops"][
                            place
                        ].pop(name)
                    )
    for name, options in plan["queues"].items():
        for option in options:
            if option not in ("kind", "rate"):
                yield changed(lambda cut, name=name, option=option: cut["queues"][name].pop(option))
            elif option == "rate":
                yield changed(
                    lambda cut, name=name: [
                        cut["queues"][name].pop("rate"),
                        cut["queues"][name].pop("burst", 0),
                    ]
                )
