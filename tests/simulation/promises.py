"""What must hold of one queue at each commit, and whenever all wait."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from tests.simulation.cluster import KeyValue, State
from tests.simulation.schedule import Found
from tests.simulation.tasks import PREFIX
from tests.simulation.workload import PATTERN

if TYPE_CHECKING:
    from tests.simulation.world import World

#: Verbs that take items from the middle of a queue, or give its tokens back.
_BY_ID = {"remove", "remove_many", "bury", "clear_state", "abort", "abort_group"}
_UNPAID = _BY_ID | {"requeue", "clear"}


class Promises:
    """The promises of one queue that a plan lets be checked.

    Args:
        world: The run.
        catalog: Opens the queue, under the options of the plan.
        name: Its name.
    """

    def __init__(self, world: World, catalog: Any, name: str) -> None:
        self._cluster, self.name, program = world.cluster, name, world.doctor
        verbs, ops = world.verbs, world.ops
        pattern = PATTERN if name.startswith("m-") else name
        is_changed = "settings" in verbs or any(pattern in one.options for one in world.processes)
        sleeps = max((op.get("strike", {}).get("sleeps", 0) for op in ops), default=0)
        #: By how much commits may come later than what decided them.
        self._slack_us = world.longest_us + int(sleeps * 1e6)
        self._queue = queue = catalog.queue(name)
        self._examiner = program["service.tools.examination"].Examiner(queue)
        self._tables, self._bounds = queue.parts.store.tables, queue.parts.store.keys.bounds
        self._keys = catalog.index(catalog.spec(name))
        self._member, self._store = self._tables.member, queue.parts.store
        options, limits = queue.options, world.plan["queues"].get(pattern, {})
        is_limited = name.startswith("limited.")
        if is_limited:
            limits = {"max_leased": world.plan["tasks"].get("limits", {}).get("max_running")}
        self._is_strict = options.shards is None and not verbs & _BY_ID
        self._only_takes = not verbs & {*_BY_ID, "clear"}
        is_limited = is_limited or limits.get("max_leased") or limits.get("rate")
        self._is_free = not (is_changed or is_limited)
        self.most_leased = None if is_changed else limits.get("max_leased")
        limits_key = program["tasks.key_limit_queues"].limits_key
        #: The row that has the limits of tasks, which take part in each commit that leases.
        self._limits_at = limits_key(PREFIX, name) if name.startswith("limited.") else None
        self._states = program["service.storage.tables"].State
        self._leases = self._tables.state_bounds(self._states.LEASED)
        rate = program["service.options"].parse_rate(limits.get("rate"))
        is_paced = rate is not None and not (is_changed or verbs & _UNPAID or world.is_skewed)
        self._rate = rate.items / rate.period_us if is_paced else 0.0
        self._burst, self._level, self._since = limits.get("burst", options.burst), 0.0, 0
        self._is_open = self._is_free and not verbs & {"pause", "pause_family"}
        #: Whether nothing keeps it once it is empty: no responses, tokens, clocks that are ahead.
        has_keys = verbs & {"push_shared", "pop_shared"} or any("once" in op for op in ops)
        self._is_plain = self._is_free and not has_keys and not world.is_skewed
        #: When each of its ready items became that, and those that were.
        self._ready_since: dict[bytes, int] = {}
        #: When each row of the index was written last.
        self._noted: dict[bytes, int] = {}

    def see(
        self, before: State, after: State, changes: dict[bytes, Any], request: Any, now_us: int
    ) -> None:
        """Check a commit: what was stored before and after it, and which keys it has written."""
        (begin, end), (first, stop) = self._bounds, self._leases
        taken = [key for key in changes if begin <= key < end and key not in after.values]
        for key, value in changes.items():
            if begin <= key < end and (value is None or key not in after.values):
                self._ready_since[key] = now_us
        if taken:
            self._check_taken(taken, before, after, request, now_us)
        if self.most_leased is not None and any(first <= key < stop for key in changes):
            was, number = [_count(one.between(first, stop)) for one in (before, after)]
            row = before.values.get(self._limits_at) if self._limits_at else None
            most = self.most_leased if row is None else json.loads(row)["max_leased"]
            if number > max(was, most or math.inf):
                raise Found(f"{self.name} has {number} leases, of {most}")
        if self._member is not None:
            self._check_rows(after, changes, request)
            if self._is_free:
                self._check_index(after)

    def _check_taken(
        self, taken: list[bytes], before: State, after: State, request: Any, now_us: int
    ) -> None:
        if self._rate and not self._cluster.is_sound:
            self._check_rate(len(taken), now_us)
        paused = [self._tables.paused, *([self._member.paused] if self._member else [])]
        if self._only_takes and any(key in before.values for key in paused):
            raise Found(f"{self.name} is paused, and {taken[0]!r} was taken")
        if self._is_strict:
            self._check_order(taken, after, request)

    def was_filled(self, since_us: int) -> bool:
        """Tell whether it has had an item, which takes may take, from a moment until now."""
        ready = self._cluster.state.between(*self._bounds) if self._is_open else ()
        return any(self._ready_since[key] < since_us for key in ready)

    def _check_rate(self, taken: int, now_us: int) -> None:
        """Check that no more is taken than the rate allows, if messages take their time."""
        level = max(0.0, self._level - self._rate * (now_us - self._since)) + taken
        self._level, self._since = level, now_us
        if level > self._burst + self._rate * self._slack_us + 0.01:
            raise Found(f"{taken} of {self.name} were taken, after {level - taken:.2f}")

    def _check_order(self, taken: list[bytes], after: State, request: Any) -> None:
        """Check that what was taken was first, or last when the transaction read."""
        left = after.between(*self._bounds)
        seen = self._cluster.state_at(request.read_version)
        others = [] if seen is None else seen.between(*self._bounds)
        last = max((key for key in others if key not in taken), default=b"")
        wrong = [key for key in taken if left and key > left[0] and key < last]
        if wrong:
            raise Found(f"{self.name}: {wrong[0]!r} was taken before {left[0]!r}")

    def _check_rows(self, after: State, changes: dict[bytes, Any], request: Any) -> None:
        """Check that no row of the index is removed that was written after the removal had read."""
        begin, end = self._keys.bounds
        for key in changes:
            if begin <= key < end and key.endswith(self.name.encode()):
                if key in after.values:
                    self._noted[key] = after.version
                elif (
                    self._noted.get(key, 0) > request.read_version
                    and self._member.ready not in after.values
                ):
                    raise Found(f"a row of {self.name} was removed that is newer than the take")

    def _check_index(self, after: State) -> None:
        """Check that its family finds it, from when it has something."""
        tables = self._tables
        if tables.paused in after.values or self._member.ready in after.values:
            return
        dues = [tables.parse_due(key) for key in after.between(*tables.dues)[:1]]
        moment = 0 if after.between(*self._bounds) else dues[0].moment if dues else None
        if moment is not None:
            later = after.between(*self._keys.later(None, moment))
            rows = self._keys.rows([KeyValue(key, b"") for key in later])
            if not any(row.name == self.name for row in rows):
                raise Found(f"{self.name} has something that its family does not find")

    def check_counts(self) -> None:
        """Check that the counts and levels equal a scan, and that nothing lies elsewhere."""
        name, queue, census = self.name, self._queue, self._examiner.census(math.inf)
        if census.counts != queue.counts() or not census.is_exact:
            raise Found(f"{name}: counted {census.counts}, stored {queue.counts()}")
        levels = {} if queue.kind == "fifo" else dict(queue.by_priority())
        if queue.kind != "fifo" and levels != census.levels:
            raise Found(f"{name}: levels {levels} are not {dict(census.levels)}")
        if self._examiner.strays():
            raise Found(f"{name} has strays")
        is_paused = self._tables.paused in self._cluster.state.values
        if self._is_free and not is_paused and self._examiner.is_indexed() is False:
            raise Found(f"{name} is not in the index of its family")
        self._examiner.overdue()

    def check_end(self) -> None:
        """Check that nothing is overdue, and that a queue with nothing leaves nothing."""
        counts, overdue = self._queue.counts(), self._examiner.overdue()
        if overdue.total:
            raise Found(f"{self.name} has {overdue} at the end")
        stored = self._cluster.state.between(*self._tables.bounds)
        is_empty = not (counts.ready or counts.leased or counts.delayed or counts.dead)
        is_removed = self._examiner.remove_idle(0)
        is_sure = is_empty and bool(stored) and self._is_plain
        if is_removed > is_empty or (is_sure and not is_removed):
            raise Found(f"{self.name} was removed: {is_removed}; it has {counts}")
        if is_removed and self._cluster.state.between(*self._tables.bounds):
            raise Found(f"{self.name} was removed, and something is left")


def _count(keys: list[bytes]) -> int:
    """Return how many leases there are, given the keys of their facts and values."""
    return sum(key.endswith(b"\x00") for key in keys)
