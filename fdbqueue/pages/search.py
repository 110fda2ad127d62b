"""Searches: which items have a text in their value or reason, and where the pages highlight it.

A search ignores case, and looks in what the pages show: see :func:`fdbqueue.columns.text.visible`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from fdbqueue.columns.text import visible
from fdbqueue.service import Codec, Item, LongText, Undecodable, group_of_text

#: The id of the first highlight of a page, where its address leads.
FIRST_HIT = "hit"
#: At most this many hits of a page are highlighted.
MAX_HITS = 1_000

_ENCODE = json.JSONEncoder(ensure_ascii=False).encode


def contains(wanted: str, codec: Codec) -> Callable[[Item], bool]:
    """Return a function that tells whether an item's value contains a text, ignoring case."""
    if not wanted:
        return lambda _item: True
    folded = _visible(wanted).casefold()
    return lambda item: folded in text_of(item.value, codec).casefold()


def text_contains(wanted: str) -> Callable[[str | None], bool]:
    """Return a function that tells whether a text, as pages show it, contains another."""
    folded = visible(wanted).casefold()
    return lambda text: folded in visible(text or "").casefold()


def reason_contains(wanted: str) -> Callable[[Item], bool]:
    """Return a function that tells whether an item died of a reason that contains a text."""
    has_text = text_contains(wanted)
    return lambda item: has_text(item.reason)


def worker_contains(wanted: str) -> Callable[[Item], bool]:
    """Return a function that tells whether the name of an item's worker contains a text."""
    has_text = text_contains(wanted)
    return lambda item: has_text(item.worker)


def died_of(reason: str) -> Callable[[Item], bool]:
    """Return a function that tells whether an item is in the group of a reason."""
    group = group_of_text(reason)
    return lambda item: group_of_text(item.reason or "") == group


def text_of(value: Any, codec: Codec) -> str:
    """Return the text of a value that searches look in."""
    return _visible(_text(value, codec))


def _visible(text: str) -> str:
    """Return what :func:`visible` does, fast for megabytes that are not printable."""
    if text.isprintable():
        return text
    return text.translate({ord(c): visible(c) for c in set(text) if not c.isprintable()})


def _text(value: Any, codec: Codec) -> str:
    if isinstance(value, Undecodable):
        value = value.raw
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, LongText):
        return value
    try:
        return _ENCODE(value) if codec.holds == "json" else repr(value)
    except RecursionError:
        return ""


class Highlighter:
    """Highlights a text wherever it is in others, and counts the hits.

    Args:
        wanted: The text; with an empty one nothing is highlighted.
    """

    def __init__(self, wanted: str) -> None:
        self.count = 0
        self._wanted = visible(wanted).casefold()

    def highlighted(self, text: str) -> SafeString:
        """Return a text as markup, with its hits highlighted; the first of all has an id."""
        if not self._wanted or self.count >= MAX_HITS:
            return format_html("{}", text)
        parts, end = [], 0
        for begin, stop in places(text, self._wanted):
            if begin < end:  # one character that folds to several, which the text has twice
                continue
            parts.append(format_html("{}{}", text[end:begin], self._hit(text[begin:stop])))
            end = stop
            if self.count >= MAX_HITS:
                break
        return format_html("{}{}", format_html_join("", "{}", ((p,) for p in parts)), text[end:])

    def _hit(self, hit: str) -> SafeString:
        self.count += 1
        if self.count > 1:
            return format_html("<mark>{}</mark>", hit)
        return format_html('<mark id="{}">{}</mark>', FIRST_HIT, hit)


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
