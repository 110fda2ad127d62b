"""Selections of the combinations of several factors, for tests that need not run all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any


def pairs(*factors: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return combinations of values, one of each factor, in which any two values meet.

    They are far fewer than all combinations, and enough where a factor alone, or two together,
    decide what happens. The selection depends on the factors alone, so a test keeps its names.
    """
    rows = list(product(*(range(len(factor)) for factor in factors)))
    left = set().union(*map(_meetings, rows))
    chosen = []
    while left:
        row = max(rows, key=lambda row: len(_meetings(row) & left))
        left -= _meetings(row)
        chosen.append(row)
    return [
        tuple(factor[number] for factor, number in zip(factors, row, strict=True)) for row in chosen
    ]


def _meetings(row: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
    """Return the pairs of values that meet in a combination; each with the place of its factor."""
    return set(combinations(enumerate(row), 2))
