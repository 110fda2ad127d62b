"""Write the tables of docs/benchmarks.md from the stored results: ``python -m benchmarks.tables``.

What stands between ``<!-- results: WHAT ENGINE -->`` and ``<!-- end -->`` is replaced.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks import plot
from benchmarks.measure import OURS
from benchmarks.results import Record, Results, Run

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
_PLACE = re.compile(
    r"(<!-- results: (?P<what>[\w -]+?) (?P<engine>embedded|memory|cluster) -->\n)"
    r".*?(<!-- end -->)",
    re.DOTALL,
)
_HEAD = ("", "ours", "the other", "ratio (lowest to highest)", "bar")
_PERCENTILES = ("p50", "p90", "p99", "max")
#: What is worse than a peer and has no bar is told of below this.
_LOSS = 0.95
#: A machine with a higher load has other work.
_BUSY = 0.7
#: Peers that are ours in another way, or ours at another size.
_OURSELVES = re.compile(r"items|queues|thread|pop|one by one|not counted|bar|records")


def rendered(text: str, read: Callable[[str], Results] = Results.read) -> str:
    """Return a page with its results as they are stored."""

    def replaced(found: re.Match[str]) -> str:
        results = read(found["engine"])
        body = _body(found["what"], results) if results.lines else _nothing(results.engine)
        return f"{found[1]}{body}\n{found[4]}"

    return _PLACE.sub(replaced, text)


def _body(what: str, results: Results) -> str:
    if what in _SPECIAL:
        return _SPECIAL[what](results)
    if what.startswith("plot "):
        return _picture(what.removeprefix("plot "), results)
    lines = results.of(*what.split())
    return _table(lines) if lines else _nothing(results.engine)


def _nothing(engine: str) -> str:
    where = {"cluster": "on a cluster", "memory": "in memory"}.get(engine, "on a disk")
    return f"*No such run {where} is stored.*"


def _table(lines: Iterable[Record]) -> str:
    return _markdown(_HEAD, [_row(line) for line in lines])


def _row(line: Record) -> tuple[str, ...]:
    unit = line["unit"]
    bar = line["bar"].replace("no bar", "")
    return (
        line["name"],
        ("" if line["our_name"] == OURS else f"{line['our_name']}: ") + _number(line["ours"], unit),
        f"{line['peer_name']}: {_number(line['peer'], unit)}",
        f"{line['ratio']:.2f}" + _spread(line),
        bar + (", **missed**" if line["is_met"] is False else ""),
    )


def _spread(line: Record) -> str:
    if line["rounds"] == 1:
        return ""
    return f" ({line['lowest_ratio']:.2f} to {line['highest_ratio']:.2f})"


def _number(number: float, unit: str) -> str:
    shown = f"{number:,.0f}" if number >= 100 else f"{number:,.1f}"
    return f"{shown} {unit}".replace(" /s", " a second").replace("items/s", "items a second")


def _latency(results: Results) -> str:
    head = ("milliseconds", *(f"{who} {p}" for p in _PERCENTILES for who in ("ours", "recipe")))
    rows = [
        (
            line["name"],
            *(
                f"{line[who][p]:,.1f}"
                for p in _PERCENTILES
                for who in ("our_latency", "peer_latency")
            ),
        )
        for line in results.of("latency")
    ]
    return _markdown(head, rows)


def _losses(results: Results) -> str:
    """Return the lines whose bar is missed, and those that are worse than a peer."""
    lost = [line for line in results.lines if _is_lost(line)]
    return _table(lost) if lost else "Nowhere, in this run."


def _is_lost(line: Record) -> bool:
    if line["our_name"] != OURS:
        return False
    if line["is_met"] is not None:
        return not line["is_met"]
    return line["ratio"] < _LOSS and not _OURSELVES.search(line["peer_name"])


def _machine(results: Results) -> str:
    """Return what each run was measured on; of several, each says what is of it."""
    if len(results.runs) == 1:
        return _described(results.runs[0])
    return "\n".join(f"- {_names(run)}: {_described(run)}" for run in results.runs)


def _names(run: Run) -> str:
    return ", ".join(f"`{name}`" for name in dict.fromkeys(line["benchmark"] for line in run.lines))


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
    packages = ", ".join(
        f"{name} {of[name]}"
        for name in (
            "Django",
            "djangorestframework",
            "gunicorn",
            "huey",
            "persist-queue",
            "django-tasks-db",
        )
    )
    return (
        f"Measured on {of['measured']}: {of['system']}, {of['cores']} cores, a load of"
        f" {of['load']} when it began, a disk whose fsync takes {of['fsync_ms']} ms in the"
        f" median; Python {of['python']}, SQLite {of['sqlite']}, {packages}.{cluster}{length}"
    )


def _picture(name: str, results: Results) -> str:
    return f"![{plot.described(name)}](images/{plot.file_name(name, results.engine)})"


def _markdown(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines).replace("|  |", "| |")


_SPECIAL = {"machine": _machine, "percentiles": _latency, "losses": _losses}


def main() -> None:
    """Write the page anew; with ``--check``, fail where that would change it."""
    text = PAGE.read_text(encoding="utf-8")
    new = rendered(text)
    if "--check" in sys.argv:
        sys.exit(0 if new == text else f"{PAGE.name} is not as its results: make plots")
    PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
