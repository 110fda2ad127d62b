"""Write what pages have of the stored results: ``python -m benchmarks.tables``.

What stands between ``<!-- results: WHAT -->`` and ``<!-- end -->`` is replaced, in
docs/benchmarks.md, which has the headlines, and in results/README.md, which has every row. A table
has a column for each engine on which any of its benchmarks was measured; if none was, there is
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
from benchmarks.results import FOLDER, Record, Results, Run

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
#: The page with every row.
ROWS = FOLDER / "README.md"
#: The rows that stand for many: a benchmark, what was measured, and beside what. First where people
#: start (one thread, a few processes, many customers), then the others.
HEADLINES = (
    ("sqlite", "FIFO push, 1 thread", "raw SQLite"),
    ("sqlite", "FIFO pop, 1 thread", "raw SQLite"),
    ("libraries", "FIFO push, 1 thread", "huey"),
    ("libraries", "FIFO pop, 1 thread", "huey"),
    ("recipe", "FIFO push, alone", "recipe"),
    ("recipe", "FIFO pop, alone", "recipe"),
    ("shapes", "FIFO pop, 4 x 1", "recipe"),
    ("shapes", "FIFO pop, 16 x 1", "recipe"),
    ("shapes", "FIFO pop, 16 x 1", "huey, SQLite"),
    ("shapes", "FIFO pop, 16 x 1", "1 x 1"),
    ("shapes", "FIFO lease and ack, 16 x 1", "1 x 1"),
    ("families-many", "pop_from, 10,000 members, 4 x 16", "pops of one queue"),
    ("shards", "priority pop, 16 shards, 4 x 16", "the strict queue"),
    ("tasks", "task enqueued, 1 thread", "django-tasks-db"),
    ("tasks", "tasks done, 4 workers", "1 worker of ours"),
    ("key-limits", "tasks with limits of 100 keys, 4 workers of 4 threads", "tasks without limits"),
    ("libraries", "FIFO pop, 8 threads", "huey"),
    ("libraries", "FIFO lease and ack, 1 thread", "persist-queue, acked"),
    ("push-contention", "FIFO push, 4 x 16", "recipe"),
    ("contention", "FIFO pop, 4 x 16", "recipe"),
    ("contention", "priority pop, 4 x 16", "recipe"),
    ("shapes", "FIFO pop, 1 x 16", "recipe"),
    ("shards", "fifo pop, 16 shards, 16 x 1", "the strict queue"),
    ("worker", "FIFO Worker, 16 x 1", "recipe's pop"),
    ("growth", "pop, 100,000 items", "1,000 items"),
    ("http", "HTTP push", "bare DRF view"),
    ("tasks", "task enqueued, 1 thread", "django-tasks-db, PostgreSQL"),
    ("tasks", "tasks done, 1 worker", "django-tasks-db"),
    ("tasks", "tasks done, 1 worker", "django-tasks-db, PostgreSQL"),
    ("tasks", "enqueue to start, idle worker, p50", "django-tasks-db, every 1 s"),
    ("groups", "group of 1,000 and what follows it", "1,000 tasks"),
    ("outbox", "row of the outbox inserted and moved", "a task enqueued"),
)
#: The engines' names in the stored results, and on the page.
COLUMNS = {
    "embedded": "on a disk",
    "memory": "in memory",
    "cluster": "on a cluster",
    "simulated": "simulated",
}
#: Benchmarks that have rows of others, by a model.
_MODELS = ("distant",)
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


def _headlines(_: list[str], stored: Stored) -> str:
    """Return the ratios of some rows on each engine; those that are lost are bold."""
    rows = []
    for benchmark, name, peer in HEADLINES:
        lines = [
            next((one for one in of.of(benchmark, *_MODELS) if _titles(one) == (name, peer)), None)
            for of in stored
        ]
        ratios = [f"{line['ratio']:.2f}" if line else "" for line in lines]
        marked = [
            f"**{ratio}**" if line and is_lost(line) else ratio
            for ratio, line in zip(ratios, lines, strict=True)
        ]
        rows.append((name, peer, *marked))
    return _markdown(("", "beside", *(COLUMNS[of.engine] for of in stored)), rows)


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
    "machines": _machines,
    "headlines": _headlines,
    "percentiles": _percentiles,
    "losses": _losses,
    "plot": _pictures,
}


def main() -> None:
    """Write the pages; with ``--check``, only fail if a page would change."""
    for page in (PAGE, ROWS):
        text = page.read_text(encoding="utf-8")
        new = rendered(text)
        if "--check" not in sys.argv:
            page.write_text(new, encoding="utf-8")
        elif new != text:
            sys.exit(f"{page.name} is not as its results: make plots")


if __name__ == "__main__":
    main()
