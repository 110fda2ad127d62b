"""Draw the stored results: ``python -m benchmarks.plot`` writes docs/images/benchmarks-*.svg.

The colours are variables of the SVG's own style, which has others for dark pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import OURS
from benchmarks.plan import ENGINES
from benchmarks.results import Record, Results

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"

#: What matplotlib draws with, the variable that takes its place, and its two values.
_COLOURS = {
    "text": ("#010101", "#1f2328", "#e6edf3"),
    "grid": ("#020202", "#d0d7de", "#3d444d"),
    "ours": ("#030303", "#0969da", "#4493f8"),
    "peer": ("#040404", "#9a6700", "#d29922"),
    "third": ("#050505", "#8250df", "#ab7df8"),
    "fourth": ("#060606", "#1a7f37", "#3fb950"),
    "fifth": ("#070707", "#cf222e", "#f85149"),
}
_TEXT, _GRID, _OURS, _PEER, *_MORE = (drawn for drawn, _, _ in _COLOURS.values())
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "fdbqueue",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _TEXT,
    "axes.labelcolor": _TEXT,
    "axes.edgecolor": _GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "grid.color": _GRID,
    "xtick.color": _TEXT,
    "ytick.color": _TEXT,
    "legend.frameon": False,
    "savefig.transparent": True,
}
_PERCENTILES = ("p50", "p99")
_MARKERS = "osD^v"


class Plot(NamedTuple):
    """A plot: of which benchmarks, how it is drawn, and what it shows in words."""

    benchmarks: tuple[str, ...]
    draw: Callable[[Any, list[Record]], None]
    title: str


def file_name(name: str, engine: str) -> str:
    """Return the name of a plot's file."""
    return f"benchmarks-{engine}-{name}.svg"


def described(name: str) -> str:
    """Return a plot in words, for those who do not see it."""
    return f"{PLOTS[name].title}."


def drawn(name: str, results: Results) -> str:
    """Return a plot as SVG."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    plot = PLOTS[name]
    with mpl.rc_context(_STYLE):
        figure = pyplot.figure()
        plot.draw(figure, results.of(*plot.benchmarks))
        target = StringIO()
        metadata = {"Title": plot.title, "Date": None, "Creator": None}
        figure.savefig(target, format="svg", bbox_inches="tight", metadata=metadata)
        pyplot.close(figure)
    return _with_variables(target.getvalue())


def _with_variables(svg: str) -> str:
    """Replace the colours by variables, and say what they are, light and dark."""
    for name, (drawn_with, _, _) in _COLOURS.items():
        svg = svg.replace(drawn_with, f"var(--{name})")
    light, dark = (
        " ".join(f"--{name}: {values[which]};" for name, values in _COLOURS.items())
        for which in (1, 2)
    )
    in_the_dark = f"@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
    style = f"<style>:root {{ {light} }} {in_the_dark}</style>"
    return re.sub(r"(<svg [^>]*>)", rf"\1\n {style}", svg, count=1)


# The plots


def _bars(figure: Any, lines: list[Record]) -> None:
    """Draw ours and the peer of each line as two bars."""
    figure.set_size_inches(8, 0.5 * len(lines) + 0.6)
    axes = figure.add_subplot()
    longest = max(max(line["ours"], line["peer"]) for line in lines)
    for row, line in enumerate(lines):
        for offset, who, name in ((-0.19, "ours", "our_name"), (0.19, "peer", "peer_name")):
            label = f"{_shown(line[who])}  {line[name]}"
            is_ours = line[name] == OURS
            axes.barh(row + offset, line[who], 0.36, color=_OURS if is_ours else _PEER)
            axes.text(line[who] + longest / 100, row + offset, label, va="center", fontsize=8)
    axes.set_yticks(range(len(lines)), _labels([line["name"] for line in lines]))
    axes.invert_yaxis()
    axes.set_xlim(0, longest * 1.25)
    axes.set_xlabel("a second; more is better")
    axes.grid(axis="x", linewidth=0.6)
    axes.tick_params(length=0)


def _labels(names: list[str]) -> list[str]:
    """Return the names, without their number of clients where that is the same for all."""
    same = ", 4 x 16"
    if all(name.endswith(same) for name in names):
        return [name.removesuffix(same) for name in names]
    return names


def _latencies(figure: Any, lines: list[Record]) -> None:
    """Draw the percentiles by the number of clients, pushes and pops side by side."""
    figure.set_size_inches(8, 3.4)
    for column, verb in enumerate(("push", "pop")):
        chosen = [line for line in lines if f" {verb}," in line["name"]]
        axes = figure.add_subplot(1, 2, column + 1)
        for who, key, colour in (
            ("fdbqueue", "our_latency", _OURS),
            ("recipe", "peer_latency", _PEER),
        ):
            for percentile, marker in zip(_PERCENTILES, _MARKERS, strict=False):
                values = [line[key][percentile] for line in chosen]
                style = {"color": colour, "marker": marker, "markersize": 4, "linewidth": 1.2}
                places = range(len(chosen))
                axes.plot(places, values, label=f"{who} {percentile}", **style)
        axes.set_xticks(range(len(chosen)), [str(line["at"]) for line in chosen])
        axes.set(yscale="log", title=verb, xlabel="clients")
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.yaxis.set_minor_formatter("")
        axes.grid(axis="y", linewidth=0.6)
    figure.axes[0].set_ylabel("milliseconds; less is better")
    figure.axes[1].legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8)


def _growths(figure: Any, lines: list[Record]) -> None:
    """Draw the ratio to a thousand items by size, a line for each verb."""
    figure.set_size_inches(8, 3.4)
    axes = figure.add_subplot()
    verbs = dict.fromkeys(line["name"].partition(",")[0] for line in lines)
    for verb, colour, marker in zip(verbs, (_OURS, _PEER, *_MORE), _MARKERS, strict=True):
        chosen = [line for line in lines if line["name"].startswith(f"{verb},")]
        sizes = [1_000, *(line["at"] for line in chosen)]
        ratios = [1.0, *(line["ratio"] for line in chosen)]
        axes.plot(sizes, ratios, label=verb, color=colour, marker=marker, markersize=5)
    axes.set(xscale="log", xlabel="items in the queue")
    axes.set_ylabel("as many a second as with 1,000;\nmore is better")
    axes.set_ylim(bottom=0)
    sizes = sorted({1_000, *(line["at"] for line in lines)})
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.grid(axis="y", linewidth=0.6)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))


def _shown(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


PLOTS = {
    "libraries": Plot(
        ("libraries",),
        _bars,
        "Bars: pushes and takes a second, ours beside those of other libraries on SQLite",
    ),
    "contention": Plot(
        ("contention",),
        _bars,
        "Bars: pops a second of 64 poppers, ours beside the recipe and the layer",
    ),
    "push-contention": Plot(
        ("push-contention",),
        _bars,
        "Bars: pushes a second of many pushers, ours beside the recipe and other libraries",
    ),
    "worker": Plot(
        ("worker",),
        _bars,
        "Bars: items leased and acknowledged a second, beside pops of ours and of the recipe",
    ),
    "latency": Plot(
        ("latency",),
        _latencies,
        "Lines: how long single pushes and pops take by number of clients, ours and the recipe's",
    ),
    "growth": Plot(
        ("growth", "growth-million"),
        _growths,
        "Lines: how push, pop, peek, page and drain do with more items, beside 1,000",
    ),
}


def main() -> None:
    """Draw what is stored of each engine."""
    for engine in ENGINES:
        results = Results.read(engine)
        for name, plot in PLOTS.items():
            if results.of(*plot.benchmarks):
                target = IMAGES / file_name(name, engine)
                target.write_text(drawn(name, results), encoding="utf-8")


if __name__ == "__main__":
    main()
