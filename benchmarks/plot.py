"""Draw what one gets: ``python -m benchmarks.plot`` writes docs/images/benchmarks.svg.

The colours are variables of the SVG's own style, which has others for dark pages.
"""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

from benchmarks import tables
from benchmarks.results import Results

FILE = Path(__file__).resolve().parent.parent / "docs" / "images" / "benchmarks.svg"
TITLE = "Bars: tasks done, items popped, and the wait of a task, ours beside another's"

#: What matplotlib draws with, the variable that takes its place, and its two values.
_COLOURS = {
    "text": ("#010101", "#1f2328", "#e6edf3"),
    "grid": ("#020202", "#d0d7de", "#3d444d"),
    "ours": ("#030303", "#0969da", "#4493f8"),
    "peer": ("#040404", "#9a6700", "#d29922"),
}
_TEXT, _GRID, _OURS, _PEER = (drawn for drawn, _, _ in _COLOURS.values())
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
#: Above the bars of each gain, and what the other is called.
_PANELS = (
    ("tasks a second, one worker", "django-tasks-db"),
    ("pops a second, 64 poppers", "the recipe"),
    ("ms from enqueue to start", "django-tasks-db"),
)


def drawn(results: Results) -> str:
    """Return the picture as SVG: two bars for each gain."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    with mpl.rc_context(_STYLE):
        figure, places = pyplot.subplots(1, len(_PANELS), figsize=(9, 1.4))
        for axes, (title, other), line in zip(places, _PANELS, tables.gains(results), strict=True):
            longest = max(line["ours"], line["peer"])
            bars = ((0, "ours", "fdbqueue", _OURS), (1, "peer", other, _PEER))
            for row, who, name, colour in bars:
                axes.barh(row, line[who], 0.7, color=colour)
                label = f"{_shown(line[who])}  {name}"
                axes.text(line[who] + longest / 50, row, label, va="center", fontsize=8)
            axes.set(title=title, xlim=(0, longest * 1.8), xticks=[], yticks=[])
            axes.spines["bottom"].set_visible(False)
            axes.invert_yaxis()
        target = StringIO()
        metadata = {"Title": TITLE, "Date": None, "Creator": None}
        figure.savefig(target, format="svg", bbox_inches="tight", metadata=metadata)
        pyplot.close(figure)
    return _with_variables(target.getvalue())


def _shown(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


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


def main() -> None:
    """Draw what is stored of the local file."""
    FILE.write_text(drawn(Results.read("embedded")), encoding="utf-8")


if __name__ == "__main__":
    main()
