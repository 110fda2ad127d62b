"""Tables fit the terminal: no row is wider, names stay readable, and numbers are aligned."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdbqueue.management.formats import Painted, Table, TableLook, TextColumn, shortened, width_of

COLUMNS = (
    TextColumn("NAME", "name"),
    TextColumn("READY", "number"),
    TextColumn("STATUS", fold="wrap"),
)
LONG = "tenant-in-the-far-north-of-the-country"


def table(width=None, columns=COLUMNS, **look):
    return Table(columns, TableLook(width, **look))


def test_columns_grow():
    """Columns are as wide as their widest cell so far; the heading is printed once."""
    grown = table()
    assert grown.lines([]) == []
    assert grown.lines([("a", "1", "-")]) == ["NAME  READY  STATUS", "a         1  -"]
    assert grown.lines([("longer", "1,000", "x")]) == ["longer  1,000  x"]
    assert grown.lines([("b", "2", "")]) == ["b           2"]


def test_nothing_is_shortened_where_there_is_no_terminal():
    """A file or a program gets whole cells."""
    lines = table().lines([(LONG * 3, "1", "paused " * 40)])
    assert LONG * 3 in lines[1]
    assert len(lines) == 2


def test_names_are_shortened_in_the_middle():
    """Their beginning and their end are what tells them apart."""
    heading, row = table(30).lines([(LONG, "1,234", "-")])
    assert row == "tenant-…country  1,234  -"
    assert len(heading) <= 30


def test_a_last_column_wraps_beside_the_others():
    """The rest of its text is in the next lines, under its heading."""
    lines = table(44).lines([("mail", "1", "paused 5m: deploying 2.4 in the far north")])
    assert lines == [
        "NAME  READY  STATUS",
        "mail      1  paused 5m: deploying 2.4 in the",
        "             far north",
    ]


def test_a_last_column_goes_below_in_a_narrow_terminal():
    """Only where there is something to say."""
    rows = [("mail", "1", "paused 5m: deploying 2.4 in the far north"), ("quakes", "2", "-")]
    assert table(28).lines(rows) == [
        "NAME    READY",
        "mail        1",
        "  paused 5m: deploying 2.4",
        "  in the far north",
        "quakes      2",
    ]


def test_what_is_copied_is_never_cut():
    """A command or a popped value goes below the row as one line, of any length."""
    columns = (
        TextColumn("CHECK"),
        TextColumn("FOUND", fold="cut"),
        TextColumn("REMEDY", fold="whole"),
    )
    lines = table(32, columns).lines([("counts", "they differ " * 5, "manage.py " * 9 + "x")])
    assert lines == [
        "CHECK   FOUND",
        "counts  they differ they differ…",
        "  " + "manage.py " * 9 + "x",
    ]
    assert max(map(len, lines[:-1])) <= 32


def test_styles():
    """What is painted is only what is shown, and takes no room."""
    painted = table(paint=lambda text, style: f"<{style}>{text}</>")
    lines = painted.lines([(Painted.of("a", "ERROR"), "1", Painted.of("b", None))])
    assert lines[1] == "<ERROR>a</>         1  b"
    assert lines[0].startswith("<MIGRATE_LABEL>NAME</>  <MIGRATE_LABEL>READY</>")


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "ab…ef"),
        ("abcdef", 4, "ab…f"),
        ("日本語日本語", 12, "日本語日本語"),
        ("日本語日本語", 8, "日本…語"),
    ],
)
def test_shortening_in_the_middle(text, most, expected):
    """Characters of East Asia take two columns of a terminal."""
    assert shortened(text, most, in_middle=True) == expected


@given(
    st.lists(
        st.tuples(st.text("ab日 -", max_size=60), st.integers(), st.text("ab c", max_size=99))
    ),
    st.integers(40, 200),
)
def test_no_row_is_wider_than_the_terminal(rows, width):
    """Whatever is in it."""
    columns = (
        TextColumn("NAME", "name"),
        TextColumn("N", "number"),
        TextColumn("STATUS", fold="wrap"),
    )
    numbered = [(name, f"{number % 10**9:,}", text) for name, number, text in rows]
    assert all(width_of(line) <= width for line in table(width, columns).lines(numbered))
