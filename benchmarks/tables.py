"""Write the tables of docs/benchmarks.md from the stored results: ``python -m benchmarks.tables``.

What stands between ``<!-- results: WHAT -->`` and ``<!-- end -->`` is replaced. A table has a
column for each engine on which any of its benchmarks was measured; where none was, there is
nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import plot
from benchmarks.machine import PACKAGES
from benchmarks.measure import OURS
from benchmarks.plan import ENGINES
from benchmarks.results import Record, Results, Run

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
#: The engines' names in the stored results, and on the page.
COLUMNS = {"embedded": "on a disk", "memory": "in memory", "cluster": "on a cluster"}
_PLACE = re.compile(r"(<!-- results: (?P<what>[\w -]+?) -->\n)(?:.*?\n)??(<!-- end -->)", re.DOTALL)
_PERCENTILES = ("p50", "p99", "max")
#: What is worse than a peer and has no bar is told of below this.
_LOSS = 0.95
#: A machine with a higher load has other work.
_BUSY = 0.7
#: Peers that are ours in another way, or ours at another size.
_OURSELVES = re.compile(
    r"[\d,]+ (items|queues|records|thread)|pop( of \d+)?|one by one|not counted|no key"
)

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


def _losses(names: list[str], stored: Stored) -> str:
    """Return how many lines of some benchmarks miss their bar, or are worse than a peer."""
    columns = _with_any(names, stored)
    texts = []
    for results in columns:
        lines = results.of(*names)
        if ratios := sorted(line["ratio"] for line in lines if is_lost(line)):
            found = f"{ratios[0]:.2f}" + (f" to {ratios[-1]:.2f}" if ratios[1:] else "")
            count = f"{len(ratios)} of {len(lines)} rows"
            texts.append(f"{count} {COLUMNS[results.engine]} (ratio {found})")
    if not columns:
        return ""
    return f"Lost: {'; '.join(texts) or 'nothing'}."


def is_lost(line: Record) -> bool:
    """Tell whether a line misses its bar or, where it has none, is worse than a peer."""
    if line["our_name"] != OURS:
        return False
    if line["is_met"] is not None:
        return not line["is_met"]
    return line["ratio"] < _LOSS and not _OURSELVES.fullmatch(line["peer_name"])


def _machine(_: list[str], stored: Stored) -> str:
    """Return what each run was measured on; of several, each says what is of it."""
    return "\n".join(
        f"- {COLUMNS[results.engine].capitalize()}{_names(results, run)}: {_described(run)}"
        for results in stored
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


def _pictures(names: list[str], stored: Stored) -> str:
    """Return a plot, for each engine that has one."""
    (name,) = names
    return "\n\n".join(
        f"{COLUMNS[results.engine].capitalize()}:\n\n"
        f"![{plot.described(name)}](images/{plot.file_name(name, results.engine)})"
        for results in _with_any([*plot.PLOTS[name].benchmarks], stored)
        if results.engine in ENGINES
    )


def _markdown(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("".join(f"| {cell} " if cell else "| " for cell in row) + "|" for row in lines)


_SPECIAL: dict[str, Callable[[list[str], Stored], str]] = {
    "machine": _machine,
    "percentiles": _percentiles,
    "losses": _losses,
    "plot": _pictures,
}


def main() -> None:
    """Write the page anew; with ``--check``, fail where that would change it."""
    text = PAGE.read_text(encoding="utf-8")
    new = rendered(text)
    if "--check" in sys.argv:
        sys.exit(0 if new == text else f"{PAGE.name} is not as its results: make plots")
    PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
