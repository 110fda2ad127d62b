"""What is made from stored results: tables of pages, and plots."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import tables
from benchmarks.__main__ import BENCHMARKS
from benchmarks.tables import Results

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def line(**changes):
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
def page():
    """The page as it is."""
    return tables.PAGE.read_text(encoding="utf-8")


@pytest.fixture
def rows():
    """The page with every row."""
    return tables.ROWS.read_text(encoding="utf-8")


def test_the_pages_are_as_their_results(page, rows):
    """What three pages show of results is what is stored."""
    readme = tables.README.read_text(encoding="utf-8")
    assert names_of(readme) == [["gains", "1"]]
    for text in (readme, page, rows):
        assert tables.rendered(text) == text


def test_what_one_gets_was_measured():
    """Each gain is a stored row, so that no sentence is left out because a row has another name."""
    assert len(tables.gains(Results.read("embedded"))) == len(tables.GAINS)


def names_of(page):
    """The words of each mark for results."""
    return [found.split() for found in re.findall(r"<!-- results: (.+?) -->", page)]


def on(engine, *lines):
    """What reads stored results, of one engine alone."""
    return lambda name: Results(name, [*lines] if name == engine else [])


def test_every_benchmark_has_a_place(page, rows):
    """Each mark for results has its end, and each benchmark is shown, once it was measured."""
    marks = names_of(page)
    assert len(marks) == page.count("<!-- end -->") > 0
    marks = names_of(rows)
    assert len(marks) == rows.count("<!-- end -->") > 0
    shown = {name for mark in marks for name in mark}
    assert set(BENCHMARKS) <= shown


def test_every_peer_is_counted(page):
    """Each benchmark beside another program has its words in the table of losses."""
    beside = {
        one["benchmark"]
        for engine in tables.COLUMNS
        for one in Results.read(engine).lines
        if engine != "simulated" and tables.is_beside_another(one)
    }
    assert beside == tables.LOSSES.keys()
    assert ["losses"] in names_of(page)


def test_losses_are_what_is_slower_than_another_program():
    """A loss is under 1 beside a peer, if a time takes longer, too; a missed target is none."""
    lines = [
        line(name="a", ratio=0.5),
        line(name="b", ratio=0.75),
        line(name="c", ratio=1.5),  # over 1, and misses its target
        line(name="d", ratio=0.5, peer_name="1 x 1"),  # beside ourselves
        line(name="e", ratio=2.0, unit="ms", peer_name="huey"),
        line(name="f", ratio=0.5, unit="ms", peer_name="huey"),
    ]
    found = tables.rendered("<!-- results: losses -->\n<!-- end -->", on("embedded", *lines))
    assert found.splitlines()[1:-1] == [
        "| | beside | on a disk |",
        "| --- | --- | --- |",
        "| pops of 64 poppers | recipe | 0.50 to 0.75, 2 of 3 |",
        "| pops of 64 poppers | huey | 0.50, 1 of 2 |",
    ]


def test_missed_targets_are_counted():
    """Of the rows that have a target, how many miss it."""
    lines = [line(name="a"), line(name="b", is_met=True), line(name="c", is_met=None)]
    found = tables.rendered("<!-- results: missed -->\n<!-- end -->", on("embedded", *lines))
    assert found.splitlines()[1] == "1 of 2 rows with a target miss it."


def test_what_one_gets_is_said_in_figures():
    """Each gain has its sentence, and a page may have only the first."""
    keys = ("benchmark", "name", "peer_name")
    lines = [line(**dict(zip(keys, gain, strict=True))) for gain in tables.GAINS]
    found = tables.rendered("<!-- results: gains -->\n<!-- end -->", on("embedded", *lines))
    assert found.count("**2,000 ") == len(tables.GAINS)
    first = tables.rendered("<!-- results: gains 1 -->\n<!-- end -->", on("embedded", *lines))
    assert first.splitlines()[1:-1] == found.splitlines()[1:2]


def test_a_table_shows_figures_spread_and_a_missed_bar():
    """A cell has the ratio with its spread, both figures, and says what was missed."""
    text = "<!-- results: contention -->\nold\n<!-- end -->"
    assert tables.rendered(text, on("embedded", line())).splitlines() == [
        "<!-- results: contention -->",
        "| | beside | on a disk |",
        "| --- | --- | --- |",
        (
            "| FIFO pop | recipe | 4.00 (3.50 to 4.50)<br>2,000 / 500 a second<br>"
            "at least 5, **missed** |"
        ),
        "<!-- end -->",
    ]


@pytest.mark.parametrize(
    "what",
    ["worker leases", "gains", "percentiles latency", "losses", "missed", "machine", "machines"],
)
def test_what_was_not_measured_yet_is_left_out(what):
    """A place without stored results is empty, and is filled when there are some."""
    empty = f"<!-- results: {what} -->\n<!-- end -->"
    assert tables.rendered(empty, Results) == empty
    old = f"<!-- results: {what} -->\nold\n<!-- end -->"
    assert tables.rendered(old, Results) == empty


def test_a_line_measured_again_replaces_the_first(tmp_path):
    """Of two records of one line the later counts, at the place of the earlier."""
    records = [{"machine": {"cores": 2}}, line(ours=1.0), line(name="other"), line(ours=3.0)]
    (tmp_path / "embedded.ndjson").write_text("".join(json.dumps(one) + "\n" for one in records))
    results = Results.read("embedded", tmp_path)
    assert [(one["name"], one["ours"]) for one in results.lines] == [
        ("FIFO pop", 3.0),
        ("other", 2_000.0),
    ]
    assert [run.machine for run in results.runs] == [{"cores": 2}]


def test_each_run_says_when_and_how_busy(tmp_path):
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
    text = "<!-- results: machine -->\n<!-- end -->"
    found = tables.rendered(text, lambda name: Results.read(name, tmp_path)).splitlines()
    later, earlier = sorted(found[1:-1])
    assert earlier.startswith("- On a disk (`growth`): measured on 2001-01-01")
    assert "a load of 0.1" in earlier
    assert "not final" not in earlier
    assert later.startswith("- On a disk (`contention`): measured on 2002-02-02")
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


def test_the_picture_is_for_light_and_dark_pages(page):
    """It is an SVG with a title, whose colours are others on a dark page; no date is in it."""
    results = Results.read("embedded")
    drawn = tables.drawn(results)
    root = ElementTree.fromstring(drawn)
    assert root.tag == f"{SVG}svg"
    assert tables.TITLE in drawn
    assert "prefers-color-scheme: dark" in drawn
    assert "var(--ours)" in drawn
    assert not re.search(r"#0[1-7]0[1-7]0[1-7]", drawn.partition("</style>")[2])
    assert drawn == tables.drawn(results)
    assert tables.FILE.is_file()
    assert f"![{tables.TITLE}.](images/{tables.FILE.name})" in page
