"""Charts as coordinates for SVG: depth, rates and priorities; the templates draw them.

A drawing is as wide as its place on the page, and nothing in it is scaled but the plot, which is
stretched: its lines have a width of their own, and its texts are beside it, at a share of its
width, in the size of the page's other texts. Each chart has its data three times: drawn, as a
description for screen readers, and as a table. The ready items of a priority queue have a bar for
each priority, or for ranges of them.
"""

from __future__ import annotations

import datetime
import itertools
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fdbqueue.columns import markup
from fdbqueue.columns.text import grouped, mean, number
from fdbqueue.service import MAX_INTEGER, MIN_INTEGER, Depth, Minute, Priority

#: The width of a plot in its own units, of which the drawing makes as many pixels as fit.
PLOT_WIDTH = 1_000
#: Pixels: the drawing, and where its plot begins and ends.
HEIGHT, _TOP, _BASE = 176, 24, 148
_PLOT_HEIGHT = _BASE - _TOP

#: About this many characters fit below the narrowest plot.
_AXIS_CHARACTERS = 40
#: No bar is wider, so that a few are bars, and no slabs.
_WIDEST_BAR = 90.0

SPARKLINE_WIDTH, SPARKLINE_HEIGHT = 80, 24
_DAY_BUCKET_MINUTES = 15
_LABEL_EVERY = {"hour": 15 * 60, "day": 6 * 3600}

#: The counts of at most this many priorities are read, from the lowest on.
MAX_PRIORITIES = 1_000
#: The most bars of priorities.
BARS = 20
#: One bar alone shows nothing.
_FEWEST_BARS = 2
#: An integer with at most this many digits is exact as a float.
_FLOAT_DIGITS = 15

Level = tuple[Priority, int]


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on an axis, and its label."""

    at: str
    label: str


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a chart: its name, its style, its points, and the area under it.

    ``is_open`` says that the last point is of a period that has not ended: what leads there is
    drawn in another way.
    """

    name: str
    style: str
    points: str
    area: str = ""
    is_open: bool = False

    @property
    def drawn(self) -> str:
        """The points of what has ended."""
        return self.points.rpartition(" ")[0] if self.is_open else self.points

    @property
    def unfinished(self) -> str:
        """The last two points if the last is of a period that has not ended, else nothing."""
        return " ".join(self.points.split(" ")[-2:]) if self.is_open else ""


@dataclass(frozen=True, slots=True)
class TooltipColumn:
    """A column of a chart that shows its values in a tooltip, and a row of the chart's table.

    ``units`` are those of the values in the tooltip; the table has them in its headings. ``top``,
    ``height``, ``bar_left`` and ``bar_width`` are those of its bar, if it has one.
    """

    left: str
    width: str
    when: str
    values: tuple[str, ...]
    units: tuple[str, ...] = ()
    top: str = ""
    height: str = ""
    bar_left: str = ""
    bar_width: str = ""

    @property
    def tooltip(self) -> str:
        """Return the values with their units."""
        pairs = itertools.zip_longest(self.values, self.units, fillvalue="")
        return ", ".join(f"{value} {unit}".rstrip() for value, unit in pairs)


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, its description, and its table."""

    name: str
    title: str
    description: str
    unit: str
    columns: tuple[str, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[Curve, ...]
    tooltips: tuple[TooltipColumn, ...]
    plot_width: int = PLOT_WIDTH
    height: int = HEIGHT
    top: int = _TOP
    base: int = _BASE
    plot_height: int = _PLOT_HEIGHT


@dataclass(frozen=True, slots=True)
class Sparkline:
    """Small lines without axes: what they show in words, and the highest value."""

    title: str
    text: str
    peak: str
    lines: tuple[Curve, ...]
    width: int = SPARKLINE_WIDTH
    height: int = SPARKLINE_HEIGHT


def sparkline(found: Sequence[Depth]) -> Sparkline:
    """Return the depth of a queue as a small line; its scale begins at 0."""
    values = [depth.items for depth in found]
    text = _("Depth: %(first)s at the start, %(last)s now, %(most)s at the highest") % {
        "first": grouped(values[0]),
        "last": grouped(values[-1]),
        "most": grouped(max(values)),
    }
    return _sparkline(_("Depth"), text, [(_("Items"), "first", values)], grouped(max(values)))


def drawn(found: Sparkline) -> SafeString:
    """Return the markup of a small line in a row of a table."""
    polyline = '<polyline class="fdbqueue-line fdbqueue-{}" points="{}"/>'
    lines = [markup.filled(polyline, line.style, line.points) for line in found.lines]
    return markup.filled(
        '<span class="fdbqueue-sparkline"><svg role="img" viewBox="0 0 {0} {1}" width="{0}" '
        'height="{1}" aria-label="{2}"><title>{2}</title>{3}</svg> '
        '<span class="fdbqueue-peak">{4}</span></span>',
        found.width,
        found.height,
        found.text,
        SafeString("".join(lines)),
        _("peak %(peak)s") % {"peak": found.peak},
    )


def rate_sparkline(minutes: Sequence[Minute], span: str) -> Sparkline:
    """Return the pushes and pops of each minute as small lines on one scale."""
    rates = _rates(_buckets(minutes, span))
    text = _("%(pushed)s items pushed and %(popped)s popped or acknowledged") % _sums(minutes)
    return _sparkline(
        _("Rates"),
        text,
        [(_("Pushes"), "first", rates["pushes"]), (_("Pops"), "second", rates["pops"])],
        _("%(rate)s/min") % {"rate": mean(max(map(max, rates.values())))},
        is_open=True,
    )


def _sparkline(
    title: str,
    text: str,
    series: Sequence[tuple[str, str, Sequence[float]]],
    peak: str,
    *,
    is_open: bool = False,
) -> Sparkline:
    highest = max(1, *(max(values) for _name, _style, values in series))
    drawn = SPARKLINE_HEIGHT - 4
    lines = []
    for name, style, values in series:
        step = SPARKLINE_WIDTH / max(1, len(values) - 1)
        places = [(n * step, 2 + drawn * (1 - v / highest)) for n, v in enumerate(values)]
        lines.append(Curve(name, style, _points(places), is_open=is_open))
    return Sparkline(title, text, peak, tuple(lines))


def _sums(minutes: Sequence[Minute]) -> dict[str, str]:
    return {
        "pushed": grouped(sum(map(attrgetter("pushes"), minutes))),
        "popped": grouped(sum(map(attrgetter("pops"), minutes))),
    }


def _rates(groups: Sequence[Sequence[Minute]]) -> dict[str, list[float]]:
    """Return the means of the pushes and of the pops of groups of minutes."""
    return {
        name: [sum(map(attrgetter(name), group)) / len(group) for group in groups]
        for name in ("pushes", "pops")
    }


def depth_chart(found: Sequence[Depth], span: str) -> Chart:
    """Return the chart of the number of items over time."""
    sampled = [group[-1] for group in _buckets(found, span)]
    values = [depth.items for depth in sampled]
    scale = _Scale(max(values))
    begins = [group[0].at for group in _buckets(found, span)]
    return Chart(
        name="depth",
        title=_("Depth, last hour") if span == "hour" else _("Depth, last day"),
        description=_(
            "Items in all states: %(first)s at the start, %(last)s at the end;"
            " lowest %(least)s, highest %(most)s."
        )
        % {
            "first": grouped(values[0]),
            "last": grouped(values[-1]),
            "least": grouped(min(values)),
            "most": grouped(max(values)),
        },
        unit=_("items"),
        columns=(_("Items"),),
        x_ticks=_time_ticks(begins, span),
        y_ticks=scale.ticks,
        lines=(_line(_("Items"), "first", values, scale, fill=True),),
        tooltips=_time_tooltips(begins, [[grouped(value)] for value in values], [_("items")]),
    )


def rate_chart(minutes: Sequence[Minute], span: str) -> Chart:
    """Return the chart of the pushes and pops of each minute, or their averages."""
    groups = _buckets(minutes, span)
    begins = [group[0].at for group in groups]
    rates = _rates(groups)
    scale = _Scale(max(map(max, rates.values())))
    return Chart(
        name="rates",
        title=(
            _("Pushes and pops, last hour") if span == "hour" else _("Pushes and pops, last day")
        ),
        description=_(
            "%(pushed)s items pushed and %(popped)s popped or acknowledged in this period."
            " The last point covers a period that has not ended yet."
        )
        % _sums(minutes),
        unit=_("per minute"),
        columns=(_("Pushes per minute"), _("Pops per minute")),
        x_ticks=_time_ticks(begins, span),
        y_ticks=scale.ticks,
        lines=(
            replace(_line(_("Pushes"), "first", rates["pushes"], scale), is_open=True),
            replace(_line(_("Pops"), "second", rates["pops"], scale), is_open=True),
        ),
        tooltips=_time_tooltips(
            begins,
            [[mean(one), mean(other)] for one, other in zip(*rates.values(), strict=True)],
            [_("pushes per minute"), _("pops per minute")],
        ),
    )


def bar_chart(
    title: str, description: str, labels: Sequence[tuple[str, str]], values: Sequence[int]
) -> Chart:
    """Return a chart of bars, from the left to the right.

    Args:
        title: The title.
        description: The same data in words.
        labels: For each bar its label on the axis, shown if there is room, and its tooltip.
        values: The height of each bar.
    """
    scale = _Scale(max(values, default=0))
    step = PLOT_WIDTH / max(1, len(values))
    wide = min(step * 0.85, _WIDEST_BAR)
    tooltips = tuple(
        TooltipColumn(
            left=_f(n * step),
            width=_f(step),
            when=label,
            values=(grouped(value),),
            top=_f(scale.y(value)),
            height=_f(_PLOT_HEIGHT - scale.y(value)),
            bar_left=_f((n + 0.5) * step - wide / 2),
            bar_width=_f(wide),
        )
        for n, ((_tick, label), value) in enumerate(zip(labels, values, strict=True))
    )
    longest = max((len(tick) for tick, _label in labels), default=0)
    every = math.ceil(len(labels) * (longest + 1) / _AXIS_CHARACTERS) or 1
    x_ticks = tuple(
        Tick(_share((n + 0.5) * step), tick)
        for n, (tick, _label) in enumerate(labels)
        if n % every == 0
    )
    return Chart(
        name="priorities",
        title=title,
        description=description,
        unit=_("items"),
        columns=(_("Items"),),
        x_ticks=x_ticks,
        y_ticks=scale.ticks,
        lines=(),
        tooltips=tooltips,
    )


def nice_step(rough: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is at least a number."""
    if rough <= 0:
        return 1
    # below the normal numbers a power of ten may be 0
    power = max(10.0 ** math.floor(math.log10(rough)), sys.float_info.min)
    steps = (n * power for n in (1, 2, 5) if n * power >= rough * (1 - 1e-9))
    return next(steps, 10 * power)


class _Scale:
    """The axis of values: from 0 to a round number."""

    def __init__(self, highest: float) -> None:
        step = max(1.0, nice_step(highest / 4)) if highest > 3 else 1.0
        self._most = max(step, math.ceil(highest / step) * step)
        count = round(self._most / step)
        self.ticks = tuple(
            Tick(_f(_TOP + self.y(n * step)), _short(n * step)) for n in range(count + 1)
        )

    def y(self, value: float) -> float:
        """Return how far below the top of the plot a value is."""
        return _PLOT_HEIGHT * (1 - value / self._most)


def _buckets(found: Sequence[Any], span: str) -> list[Sequence[Any]]:
    size = 1 if span == "hour" else _DAY_BUCKET_MINUTES
    return [found[n : n + size] for n in range(0, len(found), size)]


def _line(
    name: str, style: str, values: Sequence[float], scale: _Scale, *, fill: bool = False
) -> Curve:
    step = PLOT_WIDTH / len(values)
    places = [((n + 0.5) * step, scale.y(value)) for n, value in enumerate(values)]
    ends = (places[0][0], float(_PLOT_HEIGHT)), (places[-1][0], float(_PLOT_HEIGHT))
    area = _points([ends[0], *places, ends[1]]) if fill else ""
    return Curve(name, style, _points(places), area)


def _time_tooltips(
    begins: Sequence[datetime.datetime], values: Sequence[Sequence[str]], units: Sequence[str]
) -> tuple[TooltipColumn, ...]:
    step = PLOT_WIDTH / len(begins)
    return tuple(
        TooltipColumn(
            left=_f(n * step),
            width=_f(step),
            when=_clock(begin),
            values=tuple(some),
            units=tuple(units),
        )
        for n, (begin, some) in enumerate(zip(begins, values, strict=True))
    )


def _time_ticks(begins: Sequence[datetime.datetime], span: str) -> tuple[Tick, ...]:
    """Return ticks at the round times of the current time zone, wherever in a bucket they are."""
    step, every = PLOT_WIDTH / len(begins), _LABEL_EVERY[span]
    local = [timezone.localtime(begin) for begin in begins]
    width = (local[1] - local[0]).total_seconds() if len(local) > 1 else 60
    ticks = []
    for n, begin in enumerate(local):
        ahead = -(begin.hour * 3600 + begin.minute * 60) % every
        if ahead < width:
            at = _share((n + ahead / width) * step)
            ticks.append(Tick(at, _clock(begin + datetime.timedelta(seconds=ahead))))
    return tuple(ticks)


def _clock(moment: datetime.datetime) -> str:
    return date_format(timezone.localtime(moment), "H:i", use_l10n=False)


def _points(places: Iterable[tuple[float, float]]) -> str:
    """Return coordinates as :func:`_f` writes each, by fewer calls."""
    text = "".join([f"{x:.1f},{y:.1f} " for x, y in places])
    return text.replace(".0,", ",").replace(".0 ", " ").rstrip()


def _share(place: float) -> str:
    """Return a place as a share of the plot's width."""
    return f"{place / PLOT_WIDTH:.2%}"


def _f(number: float) -> str:
    """Return a coordinate as text, with a decimal point in every language."""
    return f"{number:.1f}".removesuffix(".0")


def _short(number: float) -> str:
    """Return a round number in short form: 15000 as 15k."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size and (number / size * 10).is_integer():
            return f"{number / size:g}{letter}"
    return grouped(int(number))


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
        levels: The lowest priorities with their counts, up to :data:`MAX_PRIORITIES`.
        ready: How many items are ready.
        kind: The type of the queue's priorities.
        is_cut: Whether there may be higher priorities than these.
    """
    own = [(level, count) for level, count in levels if count > 0 and _is_own(level, kind)]
    above = max(0, ready - sum(count for _level, count in levels)) if is_cut else 0
    left_out = sum(c for level, c in levels if c > 0 and not _is_own(level, kind))
    if not own and not above and not left_out:
        return None
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
