"""Numbers as people of a language write them."""

from __future__ import annotations

from django.utils.formats import number_format


def grouped(number: int) -> str:
    """Return an integer, exactly, with the language's marks between thousands."""
    return str(number_format(number, use_l10n=True, force_grouping=True))


def mean(number: float) -> str:
    """Return a mean: in whole numbers from ten on, with one decimal below."""
    if number == int(number) or number >= 9.95:
        return grouped(round(number))
    return str(number_format(round(number, 1), decimal_pos=1, use_l10n=True))
