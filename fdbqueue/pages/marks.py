"""Find the places of a text that a search has found, and mark them.

A search ignores case, and looks in what the pages show: see :func:`fdbqueue.pages.text.visible`.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from fdbqueue.pages.text import visible

#: The id of the first mark of a page, where its address leads.
FIRST = "hit"
#: At most this many places of a page are marked.
MOST = 1_000


class Marker:
    """Marks a text wherever it is in others, and counts the marks.

    Args:
        wanted: The text; with an empty one nothing is marked.
    """

    def __init__(self, wanted: str) -> None:
        self.count = 0
        self._wanted = visible(wanted).casefold()

    def marked(self, text: str) -> SafeString:
        """Return a text as markup, with its hits marked; the first of all has an id."""
        if not self._wanted or self.count >= MOST:
            return format_html("{}", text)
        parts, end = [], 0
        for begin, stop in places(text, self._wanted):
            if begin < end:  # one character that folds to several, which the text has twice
                continue
            parts.append(format_html("{}{}", text[end:begin], self._mark(text[begin:stop])))
            end = stop
            if self.count >= MOST:
                break
        return format_html("{}{}", format_html_join("", "{}", ((p,) for p in parts)), text[end:])

    def _mark(self, hit: str) -> SafeString:
        self.count += 1
        if self.count > 1:
            return format_html("<mark>{}</mark>", hit)
        return format_html('<mark id="{}">{}</mark>', FIRST, hit)


def places(text: str, folded: str) -> Iterator[tuple[int, int]]:
    """Yield where a text has another, which is not empty and case-folded, from left to right."""
    inside = text.casefold()
    origin = None if len(inside) == len(text) else _origins(text)
    begin = inside.find(folded)
    while begin >= 0:
        stop = begin + len(folded)
        yield (begin, stop) if origin is None else (origin[begin], origin[stop - 1] + 1)
        begin = inside.find(folded, stop)


def _origins(text: str) -> list[int]:
    """Return of which character of a text each character of its folded form is."""
    return [n for n, character in enumerate(text) for _ in character.casefold()]
