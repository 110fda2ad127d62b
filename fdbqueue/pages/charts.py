"""Charts as coordinates for SVG; the templates draw them.

All coordinates are in the units of the chart's ``viewBox``. Each chart has its data three times:
drawn, as a description for screen readers, and as a table.
"""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from fdbqueue.pages.text import grouped, mean
from fdbqueue.service import Depth, Minute

WIDTH, HEIGHT = 360, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 8, 22, 22
_PLOT_WIDTH = WIDTH - _LEFT - _RIGHT
_PLOT_HEIGHT = HEIGHT - _TOP - _BOTTOM
_BASE = _TOP + _PLOT_HEIGHT

#: About this many characters fit below the plot.
_AXIS_CHARACTERS = 52

SPARKLINE_WIDTH, SPARKLINE_HEIGHT = 100, 24
_DAY_BUCKET_MINUTES = 15
_LABEL_EVERY = {"hour": 15 * 60, "day": 6 * 3600}


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis, and its label."""

    at: str
    label: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart: its name, its style, its points, and the area under it."""

    name: str
    style: str
    points: str
    area: str = ""


@dataclass(frozen=True, slots=True)
class TooltipColumn:
    """A column of a chart that shows its values in a tooltip, and a row of the chart's table."""

    left: str
    width: str
    when: str
    values: tuple[str, ...]
    top: str = ""
    height: str = ""


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
    lines: tuple[Line, ...]
    marks: tuple[TooltipColumn, ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    top: int = _TOP
    base: int = _BASE
    plot_height: int = _PLOT_HEIGHT


@dataclass(frozen=True, slots=True)
class Sparkline:
    """A small line of the depth over the last hour, and its description."""

    points: str
    text: str
    width: int = SPARKLINE_WIDTH
    height: int = SPARKLINE_HEIGHT


def sparkline(found: Sequence[Depth]) -> Sparkline:
    """Return the depth of a queue as a small line; its scale begins at 0."""
    values = [depth.items for depth in found]
    highest = max(*values, 1)
    step = SPARKLINE_WIDTH / (len(values) - 1)
    drawn = SPARKLINE_HEIGHT - 4
    points = _points((n * step, 2 + drawn * (1 - v / highest)) for n, v in enumerate(values))
    text = _("Depth: %(first)s an hour ago, %(last)s now, %(most)s at the highest") % {
        "first": grouped(values[0]),
        "last": grouped(values[-1]),
        "most": grouped(max(values)),
    }
    return Sparkline(points, text)


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
        marks=_time_marks(begins, [[grouped(value)] for value in values], [_("items")]),
    )


def rate_chart(minutes: Sequence[Minute], span: str) -> Chart:
    """Return the chart of the pushes and pops of each minute, or their averages."""
    groups = _buckets(minutes, span)
    begins = [group[0].at for group in groups]
    rates = {
        name: [sum(getattr(m, name) for m in group) / len(group) for group in groups]
        for name in ("pushes", "pops")
    }
    scale = _Scale(max(map(max, rates.values())))
    pushed, popped = (sum(getattr(m, name) for m in minutes) for name in ("pushes", "pops"))
    return Chart(
        name="rates",
        title=(
            _("Pushes and pops, last hour") if span == "hour" else _("Pushes and pops, last day")
        ),
        description=_(
            "%(pushed)s items pushed and %(popped)s popped or acknowledged in this period."
            " The last point covers a period that has not ended yet."
        )
        % {"pushed": grouped(pushed), "popped": grouped(popped)},
        unit=_("per minute"),
        columns=(_("Pushes per minute"), _("Pops per minute")),
        x_ticks=_time_ticks(begins, span),
        y_ticks=scale.ticks,
        lines=(
            _line(_("Pushes"), "first", rates["pushes"], scale),
            _line(_("Pops"), "second", rates["pops"], scale),
        ),
        marks=_time_marks(
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
        labels: For each bar its label on the axis, shown where there is room, and its tooltip.
        values: The height of each bar.
    """
    scale = _Scale(max(values, default=0))
    step = _PLOT_WIDTH / max(1, len(values))
    gap = min(2.0, step * 0.15)
    marks = tuple(
        TooltipColumn(
            left=_f(_LEFT + n * step + gap / 2),
            width=_f(step - gap),
            when=label,
            values=(grouped(value),),
            top=_f(scale.y(value)),
            height=_f(_BASE - scale.y(value)),
        )
        for n, ((_tick, label), value) in enumerate(zip(labels, values, strict=True))
    )
    longest = max((len(tick) for tick, _label in labels), default=0)
    every = math.ceil(len(labels) * (longest + 1) / _AXIS_CHARACTERS) or 1
    x_ticks = tuple(
        Tick(_f(_LEFT + (n + 0.5) * step), tick)
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
        marks=marks,
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
        self.ticks = tuple(Tick(_f(self.y(n * step)), _short(n * step)) for n in range(count + 1))

    def y(self, value: float) -> float:
        """Return the coordinate of a value."""
        return _BASE - _PLOT_HEIGHT * value / self._most


def _buckets(found: Sequence[Any], span: str) -> list[Sequence[Any]]:
    size = 1 if span == "hour" else _DAY_BUCKET_MINUTES
    return [found[n : n + size] for n in range(0, len(found), size)]


def _line(
    name: str, style: str, values: Sequence[float], scale: _Scale, *, fill: bool = False
) -> Line:
    step = _PLOT_WIDTH / len(values)
    places = [(_LEFT + (n + 0.5) * step, scale.y(value)) for n, value in enumerate(values)]
    area = _points([(places[0][0], _BASE), *places, (places[-1][0], _BASE)]) if fill else ""
    return Line(name, style, _points(places), area)


def _time_marks(
    begins: Sequence[datetime.datetime], values: Sequence[Sequence[str]], units: Sequence[str]
) -> tuple[TooltipColumn, ...]:
    step = _PLOT_WIDTH / len(begins)
    return tuple(
        TooltipColumn(
            left=_f(_LEFT + n * step),
            width=_f(step),
            when=_clock(begin),
            values=tuple(f"{value} {unit}" for value, unit in zip(some, units, strict=True)),
        )
        for n, (begin, some) in enumerate(zip(begins, values, strict=True))
    )


def _time_ticks(begins: Sequence[datetime.datetime], span: str) -> tuple[Tick, ...]:
    """Return marks at round times of the current time zone."""
    step, every = _PLOT_WIDTH / len(begins), _LABEL_EVERY[span]
    local = [timezone.localtime(begin) for begin in begins]
    width = (local[1] - local[0]).total_seconds() if len(local) > 1 else 60
    return tuple(
        Tick(_f(_LEFT + n * step), _clock(begin))
        for n, begin in enumerate(local)
        if (begin.hour * 3600 + begin.minute * 60) % every < width
    )


def _clock(moment: datetime.datetime) -> str:
    return date_format(timezone.localtime(moment), "H:i", use_l10n=False)


def _points(places: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{_f(x)},{_f(y)}" for x, y in places)


def _f(number: float) -> str:
    """Return a coordinate as text, with a decimal point in every language."""
    return f"{number:.1f}".removesuffix(".0")


def _short(number: float) -> str:
    """Return a round number in short form: 15000 as 15k."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size and (number / size * 10).is_integer():
            return f"{number / size:g}{letter}"
    return grouped(int(number))
