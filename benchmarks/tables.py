"""Write what pages have of the stored results: ``python -m benchmarks.tables``.

``embedded`` is on a disk, ``memory`` the same engine with its files in memory; ``simulated`` is on
no machine at all (:mod:`benchmarks.distant`).

What stands between ``<!-- results: WHAT -->`` and ``<!-- end -->`` is replaced, in the README and
docs/benchmarks.md, which say what one gets, and in results/README.md, which has every row. A table
has a column for each engine on which any of its benchmarks was measured; if none was, there is
nothing.

It draws ``docs/images/benchmarks.svg``, too: what one gets. The colours are variables of its own
style, which has others for dark pages.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from benchmarks.measure import OURS
from benchmarks.plan import PACKAGES

FOLDER = Path(__file__).parent / "results"

Record = dict[str, Any]


@dataclass
class Run:
    """The lines of one run that count.

    Attributes:
        machine: What they were measured on, and how busy that was when the run began.
        lines: The lines.
    """

    machine: Record
    lines: list[Record] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether all was measured at its full length."""
        return all(line["scale"] == "full" for line in self.lines)


@dataclass
class Results:
    """What was measured on one engine: of a line that was measured again, the last.

    Attributes:
        engine: The engine's name, ``memory`` or ``simulated``.
        lines: The lines, in the order of their first measurement.
        runs: Those of each run, where the run has any that was not measured again.
    """

    engine: str
    lines: list[Record] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    @classmethod
    def read(cls, engine: str, folder: Path = FOLDER) -> Results:
        """Return what is stored of an engine, nothing where that is nothing."""
        file = folder / f"{engine}.ndjson"
        if not file.exists():
            return cls(engine)
        runs: list[Run] = []
        lines: dict[tuple[str, ...], tuple[Record, Run]] = {}
        for text in file.read_text(encoding="utf-8").splitlines():
            record = json.loads(text)
            if "machine" in record:
                runs.append(Run(record["machine"]))
            else:
                key = record["benchmark"], record["name"], record["peer_name"]
                lines[key] = record, runs[-1]
        for line, run in lines.values():
            run.lines.append(line)
        return cls(engine, [line for line, _ in lines.values()], [run for run in runs if run.lines])

    def of(self, *benchmarks: str) -> list[Record]:
        """Return the lines of some benchmarks, in the order of these."""
        return [line for name in benchmarks for line in self.lines if line["benchmark"] == name]


PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
#: The page with every row.
ROWS = FOLDER / "README.md"
README = PAGE.parent.parent / "README.md"
#: What one gets, in the order of the sentences and of the picture: a benchmark, what was measured,
#: and beside what.
GAINS = (
    ("tasks", "tasks done, 1 worker", "django-tasks-db"),
    ("contention", "FIFO pop, 4 x 16", "recipe"),
    ("tasks", "enqueue to start, idle worker, p50", "django-tasks-db, every 1 s"),
)
_SENTENCES = (
    "One worker does **{ours} tasks a second**; the worker of django-tasks-db does {peer}.",
    (
        "Sixty-four poppers pop **{ours} items a second** from one queue, in strict order; with"
        " FoundationDB's published recipe {peer}."
    ),
    (
        "A waiting worker begins a task **{ours} ms** after its enqueue; django-tasks-db's, which"
        " looks each second, after {peer} ms."
    ),
)
#: What the rows of a benchmark are called in the table of losses.
LOSSES = {
    "sqlite": "one thread",
    "recipe": "one client",
    "libraries": "one thread, and eight of one process",
    "push-many": "a push of many items",
    "push-contention": "many pushers",
    "contention": "pops of 64 poppers",
    "shapes": "pops of 1, 4 and 16 processes",
    "latency": "1 to 64 clients",
    "worker": "leases and acks",
    "shards": "pops with shards",
    "http": "REST",
    "tasks": "tasks",
}
#: Programs of others; all other peers are ours in another way or at another size, or a target.
OTHERS = re.compile(
    r"(recipe('s pop)?|high-contention layer|raw SQLite|huey|persist-queue|django-tasks-db"
    r"|bare (DRF )?view)(,? .+)?"
)
#: The engines' names in the stored results, and on the page.
COLUMNS = {
    "embedded": "on a disk",
    "memory": "in memory",
    "cluster": "on a cluster",
    "simulated": "simulated",
}
_PLACE = re.compile(r"(<!-- results: (?P<what>[\w -]+?) -->\n)(?:.*?\n)??(<!-- end -->)", re.DOTALL)
_PERCENTILES = ("p50", "p99", "max")
#: A machine with a higher load has other work.
_BUSY = 0.7
#: What is stored of each engine.
Stored = list[Results]


def rendered(text: str, read: Callable[[str], Results] = Results.read) -> str:
    """Return a page with its results as they are stored."""
    stored = [read(engine) for engine in COLUMNS]

    def replaced(found: re.Match[str]) -> str:
        body = _body(found["what"].split(), stored)
        return found[1] + (f"{body}\n" if body else "") + found[3]

    return _PLACE.sub(replaced, text)


def _body(what: list[str], stored: Stored) -> str:
    first, *names = what
    special = _SPECIAL.get(first)
    return special(names, stored) if special else _table(what, stored)


def _measured(stored: Stored) -> Stored:
    """Return what was measured on a machine."""
    return [results for results in stored if results.engine != "simulated"]


def _with_any(names: list[str], stored: Stored) -> Stored:
    """Return the engines on which any of some benchmarks was measured."""
    return [results for results in stored if results.of(*names)]


def _table(names: list[str], stored: Stored) -> str:
    """Return a row for each line of some benchmarks, with a cell for each engine."""
    columns = _with_any(names, stored)
    if not columns:
        return ""
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for name in names:
        for results in columns:
            for line in results.of(name):
                rows.setdefault((name, *_titles(line)), {})[results.engine] = _cell(line)
    head = ("", "beside", *(COLUMNS[results.engine] for results in columns))
    return _markdown(
        head,
        [
            (*titles, *(cells.get(results.engine, "") for results in columns))
            for (_, *titles), cells in rows.items()
        ],
    )


def _titles(line: Record) -> tuple[str, str]:
    """Return what was measured, and beside what."""
    ours = "" if line["our_name"] == OURS else f" ({line['our_name']})"
    return line["name"] + ours, line["peer_name"]


def _cell(line: Record) -> str:
    """Return the ratio, ours and the peer's figure, and the bar."""
    spread = f" ({line['lowest_ratio']:.2f} to {line['highest_ratio']:.2f})"
    unit = {"/s": "a second", "items/s": "items a second"}.get(line["unit"], line["unit"])
    parts = [
        f"{line['ratio']:.2f}" + (spread if line["rounds"] > 1 else ""),
        f"{_number(line['ours'])} / {_number(line['peer'])} {unit}",
    ]
    if line["unit"] == "items" and line["note"]:  # how far out of order: the mean is not all
        parts.append(line["note"])
    if line["is_met"] is not None:
        parts.append(line["bar"] + ("" if line["is_met"] else ", **missed**"))
    return "<br>".join(parts)


def _number(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:,.1f}"


def _gains(names: list[str], stored: Stored) -> str:
    """Return a sentence for each of the first gains, by default for all, on the first engine."""
    lines = gains(stored[0])[: int(names[0])] if names else gains(stored[0])
    return "\n".join(
        text.format(ours=_number(line["ours"]), peer=_number(line["peer"]))
        for text, line in zip(_SENTENCES, lines, strict=False)
    )


def gains(results: Results) -> list[Record]:
    """Return the rows of ``GAINS``; none if one was not measured."""
    found = {(line["benchmark"], line["name"], line["peer_name"]): line for line in results.lines}
    return [found[key] for key in GAINS] if found.keys() >= set(GAINS) else []


def _percentiles(names: list[str], stored: Stored) -> str:
    """Return how long single operations took, ours and the peer's, on each engine."""
    columns = _with_any(names, stored)
    if not columns:
        return ""
    rows: dict[str, dict[tuple[str, str], str]] = {}
    for results in columns:
        for line in results.of(*names):
            for p in _PERCENTILES:
                both = f"{line['our_latency'][p]:,.1f} / {line['peer_latency'][p]:,.1f}"
                rows.setdefault(line["name"], {})[results.engine, p] = both
    places = [(results.engine, p) for results in columns for p in _PERCENTILES]
    return _markdown(
        ("milliseconds", *(f"{COLUMNS[engine]}, {p}" for engine, p in places)),
        [(name, *(cells.get(place, "") for place in places)) for name, cells in rows.items()],
    )


def _losses(_: list[str], stored: Stored) -> str:
    """Return a row for each benchmark and peer: how many of its rows are lost, by how much."""
    columns = [results for results in _measured(stored) if any(map(is_lost, results.lines))]
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for results in columns:
        groups: dict[tuple[str, str], list[Record]] = {}
        for line in results.of(*LOSSES):
            if is_beside_another(line):
                groups.setdefault((LOSSES[line["benchmark"]], line["peer_name"]), []).append(line)
        for group, lines in groups.items():
            if lost := sorted(_share(line) for line in lines if is_lost(line)):
                found = " to ".join(dict.fromkeys(f"{one:.2f}" for one in (lost[0], lost[-1])))
                rows.setdefault(group, {})[results.engine] = f"{found}, {len(lost)} of {len(lines)}"
    if not rows:
        return ""
    head = ("", "beside", *(COLUMNS[results.engine] for results in columns))
    engines = [results.engine for results in columns]
    return _markdown(
        head, [(*group, *(cells.get(one, "") for one in engines)) for group, cells in rows.items()]
    )


def is_beside_another(line: Record) -> bool:
    """Tell whether a line compares fdbqueue with a program of others."""
    return line["our_name"] == OURS and bool(OTHERS.fullmatch(line["peer_name"]))


def is_lost(line: Record) -> bool:
    """Tell whether fdbqueue is slower than a program of others."""
    return is_beside_another(line) and _share(line) < 1


def _share(line: Record) -> float:
    """Return how fast ours is, with the peer's speed as 1."""
    return float(line["ratio"] if line["unit"].endswith("/s") else 1 / line["ratio"])


def _missed(_: list[str], stored: Stored) -> str:
    """Return how many rows miss their bars."""
    aimed = [line for of in _measured(stored) for line in of.lines if line["is_met"] is not None]
    missed = sum(not line["is_met"] for line in aimed)
    return f"{missed} of {len(aimed)} rows with a target miss it." if aimed else ""


def _machines(_: list[str], stored: Stored) -> str:
    """Return in short when and on what all was measured, and how much of that is not final."""
    runs = [run for results in _measured(stored) for run in results.runs]
    if not runs:
        return ""
    dates = sorted({run.machine["measured"] for run in runs})
    latest = max(runs, key=lambda run: run.machine["measured"]).machine
    versions = {run.machine["foundationdb"] for run in runs if "foundationdb" in run.machine}
    quick = sum(not run.is_whole for run in runs)
    busy = sum(run.machine["load"] > _BUSY for run in runs)
    packages = ", ".join(f"{name} {latest[name]}" for name in PACKAGES)
    return (
        f"Measured from {dates[0]} to {dates[-1]} in {len(runs)} runs: {latest['system']},"
        f" {latest['cores']} cores; Python {latest['python']}, SQLite {latest['sqlite']},"
        f" FoundationDB {', '.join(sorted(versions))}, {packages}. Of these runs {quick} are"
        f" **quick**, which says less, and {busy} ran beside other work:"
        " those figures are **not final**."
    )


def _machine(_: list[str], stored: Stored) -> str:
    """Return what each run was measured on; of several, each says what is of it."""
    return "\n".join(
        f"- {COLUMNS[results.engine].capitalize()}{_names(results, run)}: {_described(run)}"
        for results in _measured(stored)
        for run in results.runs
    )


def _names(results: Results, run: Run) -> str:
    if len(results.runs) == 1:
        return ""
    names = dict.fromkeys(line["benchmark"] for line in run.lines)
    return " (" + ", ".join(f"`{name}`" for name in names) + ")"


def _described(run: Run) -> str:
    of = run.machine
    length = "" if run.is_whole else " A **quick** run, which says less."
    if of["load"] > _BUSY:
        length += " Others were at work on the machine: **these figures are not final**."
    cluster = (
        f" FoundationDB {of['foundationdb']}, storage engine `{of['storage']}`, processes:"
        f" {of['processes']}."
        if "foundationdb" in of
        else ""
    )
    packages = ", ".join(f"{name} {of[name]}" for name in PACKAGES)
    return (
        f"measured on {of['measured']}: {of['system']}, {of['cores']} cores, a load of"
        f" {of['load']} when it began, a disk whose fsync takes {of['fsync_ms']} ms in the"
        f" median; Python {of['python']}, SQLite {of['sqlite']}, {packages}.{cluster}{length}"
    )


def _markdown(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("".join(f"| {cell} " if cell else "| " for cell in row) + "|" for row in lines)


_SPECIAL: dict[str, Callable[[list[str], Stored], str]] = {
    "machine": _machine,
    "machines": _machines,
    "gains": _gains,
    "percentiles": _percentiles,
    "losses": _losses,
    "missed": _missed,
}


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
        for axes, (title, other), line in zip(places, _PANELS, gains(results), strict=True):
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
    """Write the pages; with ``--check``, only fail if a page would change."""
    for page in (README, PAGE, ROWS):
        text = page.read_text(encoding="utf-8")
        new = rendered(text)
        if "--check" not in sys.argv:
            page.write_text(new, encoding="utf-8")
        elif new != text:
            sys.exit(f"{page.name} is not as its results: make plots")
    if "--check" not in sys.argv:
        FILE.write_text(drawn(Results.read("embedded")), encoding="utf-8")


if __name__ == "__main__":
    main()
