"""Tables are as wide as their cells, whatever the terminal is, and numbers are aligned."""

from __future__ import annotations

from fdbqueue.management.formats import Painted, Table, TextColumn

COLUMNS = (TextColumn("NAME"), TextColumn("READY", is_number=True), TextColumn("STATUS"))


def table(paint=lambda text, _: text):
    return Table(COLUMNS, paint)


def test_columns_grow():
    """Columns are as wide as their widest cell so far; the heading is printed once."""
    grown = table()
    assert grown.lines([]) == []
    assert grown.lines([("a", "1", "-")]) == ["NAME  READY  STATUS", "a         1  -"]
    assert grown.lines([("longer", "1,000", "x")]) == ["longer  1,000  x"]
    assert grown.lines([("b", "2", "")]) == ["b           2"]


def test_nothing_is_cut():
    """What is copied is whole: a cell of any length is in its row."""
    name = "tenant-in-the-far-north-of-the-country" * 3
    lines = table().lines([(name, "1", "paused " * 40)])
    assert lines[1] == f"{name}      1  {'paused ' * 40}".rstrip()
    assert len(lines) == 2


def test_styles():
    """What is painted is only what is shown, and takes no room."""
    painted = table(lambda text, style: f"<{style}>{text}</>")
    lines = painted.lines([(Painted.of("a", "ERROR"), "1", Painted.of("b", None))])
    assert lines[1] == "<ERROR>a</>         1  b"
    assert lines[0].startswith("<MIGRATE_LABEL>NAME</>  <MIGRATE_LABEL>READY</>")
