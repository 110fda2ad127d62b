"""What is made from stored results: the tables of docs/benchmarks.md, and the plots."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import plot, tables
from benchmarks.results import Results

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def line(**changes: Any) -> dict[str, Any]:
    """A line as it is stored."""
    return {
        "benchmark": "contention",
        "engine": "embedded",
        "scale": "full",
        "name": "FIFO pop",
        "our_name": "fdbqueue",
        "ours": 2_000.0,
        "peer": 500.0,
        "peer_name": "recipe",
        "ratio": 4.0,
        "lowest_ratio": 3.5,
        "highest_ratio": 4.5,
        "unit": "/s",
        "bar": "at least 5",
        "is_met": False,
        "rounds": 3,
        "our_latency": None,
        "peer_latency": None,
        "at": None,
        "note": "",
        **changes,
    }


@pytest.fixture
def page() -> str:
    """The page as it is."""
    return tables.PAGE.read_text(encoding="utf-8")


def test_the_page_is_as_its_results(page: str):
    """The tables of docs/benchmarks.md are those of the stored results."""
    assert tables.rendered(page) == page


def test_every_place_of_the_page_is_filled(page: str):
    """Each mark for results has its end, and each benchmark of the stored run is shown."""
    places = re.findall(r"<!-- results: (.+?) (?:embedded|memory|cluster) -->", page)
    assert len(places) == page.count("<!-- end -->") > 0
    shown = {name for place in places for name in place.split()}
    results = Results.read("embedded")
    assert {line["benchmark"] for line in results.lines} <= shown


def test_a_table_shows_figures_spread_and_a_missed_bar():
    """A row has ours, the peer by name, the ratio with its spread, and says what was missed."""
    results = Results("embedded", [line()])
    text = "<!-- results: contention embedded -->\nold\n<!-- end -->"
    row = (
        "| FIFO pop | 2,000 a second | recipe: 500 a second | 4.00 (3.50 to 4.50) |"
        " at least 5, **missed** |"
    )
    assert row in tables.rendered(text, lambda _: results)


def test_losses_are_told_of():
    """A missed bar and a peer that is faster are among the losses; what is better is not."""
    lines = [
        line(name="missed"),
        line(name="slower", bar="no bar", is_met=None, ratio=0.5),
        line(name="faster", bar="no bar", is_met=None, ratio=2.0),
        line(name="of others", our_name="recipe at once", ratio=0.5),
    ]
    text = "<!-- results: losses embedded -->\n<!-- end -->"
    found = tables.rendered(text, lambda _: Results("embedded", lines))
    assert "missed |" in found
    assert "slower |" in found
    assert "faster |" not in found
    assert "of others |" not in found


def test_a_line_measured_again_replaces_the_first(tmp_path: Path):
    """Of two records of one line the later counts, at the place of the earlier."""
    records = [{"machine": {"cores": 2}}, line(ours=1.0), line(name="other"), line(ours=3.0)]
    (tmp_path / "embedded.ndjson").write_text("".join(json.dumps(one) + "\n" for one in records))
    results = Results.read("embedded", tmp_path)
    assert [(one["name"], one["ours"]) for one in results.lines] == [
        ("FIFO pop", 3.0),
        ("other", 2_000.0),
    ]
    assert [run.machine for run in results.runs] == [{"cores": 2}]


def test_each_run_says_when_and_how_busy(tmp_path: Path):
    """Of two runs each is described, with its date, its load and the names of what is of it."""
    machine = Results.read("embedded").runs[0].machine
    records = [
        {"machine": {**machine, "measured": "2001-01-01", "load": 0.1}},
        line(),
        line(benchmark="growth", name="push"),
        {"machine": {**machine, "measured": "2002-02-02", "load": 9.5}},
        line(),
    ]
    (tmp_path / "embedded.ndjson").write_text("".join(json.dumps(one) + "\n" for one in records))
    text = "<!-- results: machine embedded -->\n<!-- end -->"
    found = tables.rendered(text, lambda name: Results.read(name, tmp_path)).splitlines()
    later, earlier = sorted(found[1:-1])
    assert earlier.startswith("- `growth`: Measured on 2001-01-01")
    assert "a load of 0.1" in earlier
    assert "not final" not in earlier
    assert later.startswith("- `contention`: Measured on 2002-02-02")
    assert "a load of 9.5" in later
    assert "not final" in later


def test_figures_takes_no_names():
    """``make figures`` refuses names: stored results would be replaced by some of them."""
    command = ["make", "--dry-run", "figures"]
    options, names = (
        subprocess.run(
            [*command, f"ARGS=--quick {more}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        for more in ("--folder=x", "latency")
    )
    assert options.returncode == 0, options.stderr
    assert names.returncode == 2
    assert "figures measures all" in names.stderr


@pytest.mark.parametrize("name", plot.PLOTS)
def test_plots_are_images_for_light_and_dark_pages(name: str):
    """A plot is an SVG with a title, whose colours are others on a dark page; no date is in it."""
    results = Results.read("embedded")
    drawn = plot.drawn(name, results)
    root = ElementTree.fromstring(drawn)
    assert root.tag == f"{SVG}svg"
    assert plot.PLOTS[name].title in drawn
    assert "prefers-color-scheme: dark" in drawn
    assert "var(--ours)" in drawn
    assert not re.search(r"#0[1-7]0[1-7]0[1-7]", drawn.partition("</style>")[2])
    assert drawn == plot.drawn(name, results)


def test_the_pages_images_are_there(page: str):
    """Each plot that the page shows is in the repository, and has a text in its place."""
    images = re.findall(r"!\[(.*?)\]\((images/benchmarks-.+?\.svg)\)", page)
    assert images
    for text, file in images:
        assert text
        assert (tables.PAGE.parent / file).is_file()
