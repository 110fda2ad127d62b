"""The chart of ready items by priority: a bar for each priority, or for ranges of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fdbqueue.pages.charts import Chart, bar_chart, nice_step
from fdbqueue.pages.text import grouped, number
from fdbqueue.service import MAX_INTEGER, MIN_INTEGER, Priority

#: The counts of at most this many priorities are read, from the lowest on.
LEVELS = 1_000
#: The most bars.
BARS = 20
#: One bar alone shows nothing.
_FEWEST_BARS = 2
#: An integer with at most this many digits is exact as a float.
_FLOAT_DIGITS = 15

Level = tuple[Priority, int]


class Bucket(NamedTuple):
    """Neighbouring priorities: the lowest and the highest in use, and the number of items.

    ``tick`` is the label on the axis: the lower bound of a range.
    """

    label: str
    tick: str
    low: Priority
    high: Priority
    items: int


@dataclass(frozen=True, slots=True)
class Priorities:
    """The chart, its buckets, and the number of items that are not in any of them.

    There is no chart of a single priority: ``description`` says it. ``above`` counts items of
    higher priorities, which were not read; ``left_out`` counts items to which a foreign writer gave
    a priority that this queue does not accept.
    """

    chart: Chart | None
    description: str
    buckets: list[Bucket]
    above: int
    left_out: int


def priorities_of(
    levels: Sequence[Level], ready: int, kind: str | None, *, is_cut: bool
) -> Priorities | None:
    """Return the bars of a queue, None if there are none.

    Args:
        levels: The lowest priorities with their counts, up to :data:`LEVELS`.
        ready: How many items are ready.
        kind: The type of the queue's priorities.
        is_cut: Whether there may be higher priorities than these.
    """
    own = [(level, count) for level, count in levels if count > 0 and _is_own(level, kind)]
    above = max(0, ready - sum(count for _level, count in levels)) if is_cut else 0
    left_out = sum(c for level, c in levels if c > 0 and not _is_own(level, kind))
    if not own and not above and not left_out:
        return None
    own.sort()  # the tuple layer sorts every float behind every integer
    buckets, description = bucketed(own), _description(own, above, left_out)
    if len(buckets) < _FEWEST_BARS:
        return Priorities(None, description, buckets, above, left_out)
    chart = bar_chart(
        _("Ready items by priority"),
        description,
        [(bucket.tick, bucket.label) for bucket in buckets],
        [bucket.items for bucket in buckets],
    )
    return Priorities(chart, description, buckets, above, left_out)


def _is_own(level: Priority, kind: str | None) -> bool:
    """Tell whether the queue accepts a priority: foreign writers may store others."""
    if kind == "int":
        return isinstance(level, int) and MIN_INTEGER <= level <= MAX_INTEGER
    return isinstance(level, float) and math.isfinite(level)


def bucketed(levels: Sequence[Level]) -> list[Bucket]:
    """Return a bucket for each priority, or if there are many, for each round range.

    Ranges are 1, 2 or 5 times a power of ten wide; a range includes its lower bound only.
    Empty ranges are included, so that distances on the axis are right.
    """
    if len(levels) <= BARS:
        names = [number(level) for level, _count in levels]
        return [
            Bucket(name, name, level, level, count)
            for name, (level, count) in zip(names, levels, strict=True)
        ]
    width = _width(levels[0][0], levels[-1][0])
    first = int(levels[0][0] // width)
    found: list[list[Level]] = [[] for _n in range(BARS)]
    for level, count in levels:
        found[int(level // width) - first].append((level, count))
    while not found[-1]:
        found.pop()
    return [_bucket(some, first + n, width) for n, some in enumerate(found)]


def _bucket(levels: list[Level], index: int, width: Priority) -> Bucket:
    begin, end = index * width, (index + 1) * width  # a sum would stay at infinity
    tick = _round(begin, width)
    label = _("%(low)s to below %(high)s") % {"low": tick, "high": _round(end, width)}
    if not levels:
        return Bucket(label, tick, begin, begin, 0)
    items = sum(count for _level, count in levels)
    return Bucket(label, tick, levels[0][0], levels[-1][0], items)


def _width(lowest: Priority, highest: Priority) -> Priority:
    """Return the smallest round width that makes at most :data:`BARS` ranges."""
    rough = highest / BARS - lowest / BARS  # the difference may be beyond a float
    while True:
        nice = nice_step(rough)
        width: Priority = max(1, round(nice)) if isinstance(lowest, int) else nice
        if highest // width - lowest // width < BARS:
            return width
        rough = nice * 1.01


def _round(value: Priority, width: Priority) -> str:
    """Return a multiple of the width with just enough digits to tell it from the next."""
    if not value or math.isinf(value):  # a bound of a range may be beyond a float
        return f"{value:.0f}"
    if abs(value) < 1e6 and width >= 1e-6:
        decimals = max(0, -math.floor(math.log10(width))) if width < 1 else 0
        return f"{value:.{decimals}f}"
    digits = math.floor(math.log10(abs(value))) - math.floor(math.log10(width)) + 1
    if isinstance(value, int) and digits > _FLOAT_DIGITS:
        return str(value)
    return f"{value:.{min(max(digits, 3), _FLOAT_DIGITS + 2)}g}"


def _description(levels: Sequence[Level], above: int, left_out: int) -> str:
    sentences = []
    if len(levels) == 1:
        ((level, count),) = levels
        sentence = ngettext(
            "%(items)s ready item has the priority %(level)s.",
            "%(items)s ready items, all of the priority %(level)s.",
            count,
        )
        sentences.append(sentence % {"items": grouped(count), "level": number(level)})
    elif levels:
        sentence = _(
            "%(items)s ready items in %(priorities)s priorities, from %(lowest)s to %(highest)s."
        )
        facts = {
            "items": grouped(sum(count for _level, count in levels)),
            "priorities": grouped(len(levels)),
            "lowest": number(levels[0][0]),
            "highest": number(levels[-1][0]),
        }
        sentences.append(sentence % facts)
    if above:
        sentence = _("%(items)s more items have higher priorities and are not shown.")
        sentences.append(sentence % {"items": grouped(above)})
    if left_out:
        sentence = _("%(items)s more items have priorities that this queue does not accept.")
        sentences.append(sentence % {"items": grouped(left_out)})
    return " ".join(sentences)
