"""The tables of the documentation."""

from __future__ import annotations

import re

from tests.docs.blocks import Page

Row = dict[str, str]


def tables(page: Page) -> list[list[Row]]:
    """Return the tables of a page: each is its rows, by the texts of the head."""
    found: list[list[Row]] = []
    head: list[str] = []
    cells: list[str] = []
    for token in page.tokens:
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            cells = []
        elif token.type == "inline" and token.level > 1:
            cells.append(token.content)
        elif token.type == "thead_close":
            head = cells
        elif token.type == "tr_close" and head and cells is not head:
            found[-1].append(dict(zip(head, cells, strict=True)))
        if token.type == "table_close":
            head = []
    return found


def table(page: Page, *head: str) -> list[Row]:
    """Return the rows of the only table whose first columns have these heads."""
    (rows,) = [rows for rows in tables(page) if rows and tuple(rows[0])[: len(head)] == head]
    return rows


def code(cell: str) -> str:
    """Return the only code of a cell."""
    (name,) = re.findall(r"`([^`]+)`", cell)
    return name
