"""Is there an order of calls, each at one moment while it ran, that explains their results?

A search after Wing and Gong, "Testing and Verifying Concurrent Objects" (1993): of the calls
that could come first, try each and go on with the rest. What has been tried is remembered:
the set of calls done, and the queue they left (Lowe, "Testing for Linearizability", 2017).
For long histories, where that takes too long, there are the rules that follow from it.

A pop at the max end may take what was the last at a moment while it ran, and remove it later:
so much is promised there. The search notes of each such pop whether that moment has been.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from tests.concurrency.history import Call

#: The items of a queue in their order: pairs of priority and text.
State = tuple[tuple[Any, str], ...]

MAX_POPS = frozenset({"pop_max", "pop_many_max"})


def linearization(calls: Sequence[Call]) -> list[Call] | None:
    """Return an order of the calls that explains their results, None where there is none.

    Calls without an end may be left out: nobody knows whether they took effect.
    """
    search = _Search(sorted(calls, key=lambda call: (call.start, call.end)))
    seen: set[tuple[int, int, State]] = set()
    pending: list[tuple[int, int, State, tuple[int, ...]]] = [(0, 0, (), ())]
    while pending:
        done, last_seen, state, order = pending.pop()
        if done & search.needed == search.needed:
            return [search.calls[number] for number in order]
        last_seen = search.last_seen(done, last_seen, state)
        for number, following in reversed(search.steps(done, last_seen, state)):
            step = (done | 1 << number, last_seen & ~(1 << number), following)
            if step not in seen:
                seen.add(step)
                pending.append((*step, (*order, number)))
    return None


class _Search:
    """What can come next, the likeliest first."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls
        self.needed = sum(1 << n for n, call in enumerate(calls) if call.end < math.inf)
        self._places = {text: place for call in calls for text, place in call.places}
        self._peeks = [
            (1 << n, set(call.result))
            for n, call in enumerate(calls)
            if call.name.startswith("peek") and call.result
        ]

    def last_seen(self, done: int, before: int, state: State) -> int:
        """Return the pops at the max end that have seen what they took as the last."""
        for number in self._possible(done):
            if self.calls[number].name in MAX_POPS and apply(state, self.calls[number]) is not None:
                before |= 1 << number
        return before

    def steps(self, done: int, last_seen: int, state: State) -> list[tuple[int, State]]:
        """Return the calls that can be next, and the queue as each leaves it.

        Where one can be next without making anything else impossible that is to come, it is
        the only one: a pop that gives what it gave, unless somebody has yet to see that.
        """
        found = []
        for number in self._possible(done):
            call = self.calls[number]
            following = apply(state, call)
            if following is None and last_seen >> number & 1:
                following = without(state, call)
            if following is None:
                continue
            if not call.name.startswith("push") and not self._is_yet_to_be_seen(call, done):
                return [(number, following)]
            found.append((number, following))
        return sorted(found, key=lambda step: self._likelihood(self.calls[step[0]]))

    def _possible(self, done: int) -> list[int]:
        """Return the calls that began before any other of the rest has returned."""
        rest = [number for number in range(len(self.calls)) if not done >> number & 1]
        first_end = min(self.calls[number].end for number in rest)
        return [number for number in rest if self.calls[number].start <= first_end]

    def _is_yet_to_be_seen(self, call: Call, done: int) -> bool:
        return call.name.startswith("pop") and any(
            not done & bit and not seen.isdisjoint(call.result) for bit, seen in self._peeks
        )

    def _likelihood(self, call: Call) -> tuple[str, float]:
        texts = [text for _, text in call.argument] if call.name.startswith("push") else []
        return min((self._places.get(text, "~") for text in texts), default=""), call.end


def apply(state: State, call: Call) -> State | None:
    """Return the queue as a call leaves it, None where its result is impossible."""
    if call.name.startswith("push"):
        for priority, text in call.argument:
            at = bisect_right(state, _key(priority), key=lambda item: _key(item[0]))
            state = (*state[:at], (priority, text), *state[at:])
        return state
    count = min(call.argument, len(state))
    at_min = call.name.endswith("min")
    ends = state[:count] if at_min else state[len(state) - count :][::-1]
    if call.result != tuple(text for _, text in ends):
        return None
    if call.name.startswith("peek"):
        return state
    return state[count:] if at_min else state[: len(state) - count]


def without(state: State, call: Call) -> State | None:
    """Return the queue without what a pop took, None where something of it is not there."""
    left = tuple(item for item in state if item[1] not in call.result)
    return left if len(left) == len(state) - len(call.result) else None


def _key(priority: Any) -> Any:
    return 0 if priority is None else priority


def broken_rules(calls: Sequence[Call]) -> list[str]:
    """Return what in a long history of single pushes and pops no order can explain.

    The rules: what was popped had been pushed, and is popped once; a pop at the min end
    takes nothing while an item of a lower priority, or an earlier one of the same, is there
    all the time that it runs, and at the max end while one of a higher priority is; and it
    finds nothing only when no item is there all the time.
    """
    pushes = {c.argument[0][1]: c for c in calls if c.name == "push"}
    pops: dict[str, Call] = {}
    broken = []
    for call in calls:
        for text in call.result:
            if text in pops:
                broken.append(f"{text} was popped twice")
            if text not in pushes:
                broken.append(f"{text} was never pushed")
            elif pushes[text].start > call.end:
                broken.append(f"{text} was popped before it was pushed")
            pops[text] = call
    return broken or list(_out_of_order(calls, pushes, pops))


class _Stays:
    """When the items of one priority were there for certain: from a push to a pop."""

    def __init__(self, stays: list[tuple[float, float]]) -> None:
        stays.sort()
        self._since = [since for since, _ in stays]
        self._longest = list(accumulate((until for _, until in stays), max))

    def until(self, moment: float) -> float:
        """Return how long one of those stays that were there before a moment."""
        at = bisect_left(self._since, moment)
        return self._longest[at - 1] if at else -math.inf


def _out_of_order(
    calls: Sequence[Call], pushes: dict[str, Call], pops: dict[str, Call]
) -> Iterator[str]:
    stays = defaultdict(list)
    for text, push in pushes.items():
        until = pops[text].start if text in pops else math.inf
        stays[_key(push.argument[0][0])].append((push.end, until))
    levels = {level: _Stays(found) for level, found in stays.items()}
    for call in calls:
        if not call.name.startswith("pop"):
            continue
        own = _key(pushes[call.result[0]].argument[0][0]) if call.result else None
        for level, items in levels.items():
            if own is not None and level == own:
                earlier = call.name.endswith("min")
                since = pushes[call.result[0]].start if earlier else -math.inf
            elif own is None or (level < own) == call.name.endswith("min"):
                since = call.start
            else:
                continue
            if items.until(since) > call.end:
                yield f"{call} passed over an item of {level}"
