"""Run seeds, cut what is found down to a few steps, and print it.

A history is a plan and the seed of its order and faults. It is cut by leaving out clients, blocks
of operations, strikes, faults and options, as long as the same is found in the same order or in one
of some others.
"""

from __future__ import annotations

import copy
import functools
import gc
import json
import operator
import re
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.simulation.schedule import UNCLEAR, Ended, Found
from tests.simulation.workload import draw_plan, lines
from tests.simulation.world import World

#: With how many orders a plan that was cut is tried.
_ORDERS = 5
_SHRINK_SECONDS = 240.0
#: What an operation, a client and the engine need not have.
_OPTIONAL = ("strike", "delay", "unique", "once", "wait", "then", "chain", "more", "prefetch")
_OPTIONAL += ("reserves", "process", "lines", "small")
_NUMBERS = re.compile(r"\[.*?\]|b'.*?'|[0-9.]+|p[0-9]/\w+|\bm-\w\b")


class History(NamedTuple):
    """One run: how it ended, how long it took, and what happened."""

    plan: dict[str, Any]
    order: str
    found: str | None
    steps: int
    log: list[str]
    #: Why nobody can say whether it is as it must be: it ended there.
    unclear: str | None = None

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


def _ignored(raised: Any) -> None:
    """Tell of an error that nobody can be told of, but for one of a coroutine that is left."""
    is_left = isinstance(raised.exc_value, Ended) or "different Context" in str(raised.exc_value)
    if not is_left:
        sys.__unraisablehook__(raised)


def run(plan: dict[str, Any], order: str) -> History:
    """Run a plan in an order."""
    gc.disable()
    gc.freeze()  # garbage is looked for among what the run makes
    hook, sys.unraisablehook = sys.unraisablehook, _ignored
    found = None
    try:
        world: World | None = World(copy.deepcopy(plan), order)
        schedule = world.schedule
        try:
            world.run()
        except Found as error:
            found = str(error)
        is_unclear = found is not None and found.startswith(UNCLEAR)
        ends = (None, found) if is_unclear else (found, None)
        return History(plan, order, ends[0], schedule.steps, schedule.log, ends[1])
    finally:
        world = None
        gc.collect()
        gc.unfreeze()
        gc.enable()
        sys.unraisablehook = hook


def run_seed(seed: int) -> History:
    """Run the plan of a seed."""
    return run(draw_plan(seed), str(seed))


def run_line(line: str) -> History:
    """Run a history that :meth:`History.line` returned."""
    plan = json.loads(line)
    return run(plan, plan.pop("order"))


def shrink(history: History, seconds: float = _SHRINK_SECONDS) -> History:
    """Return a history in which the same is found, cut for so many seconds of processor time."""
    until, at, since = time.process_time() + seconds, 0, 0
    while time.process_time() < until:
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
    for *path, last in _paths(plan):
        cut = copy.deepcopy(plan)
        del functools.reduce(operator.getitem, path, cut)[last]
        yield cut


def _paths(part: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """Yield where there is something that a plan need not have: blocks of lists, and options."""
    if path[-1:] in (("clients",), ("ops",)):
        size = block = len(part)
        while block:
            yield from ((*path, slice(start, start + block)) for start in range(0, size, block))
            block //= 2
    keyed: Any = enumerate(part) if isinstance(part, list) else ()
    for key, value in part.items() if isinstance(part, dict) else keyed:
        is_option = path[:1] in (("queues",), ("processes",)) and len(path) == 2 and key != "kind"
        if is_option or key in _OPTIONAL or path == ("faults",):
            yield (*path, key)
        yield from _paths(value, *path, key)
