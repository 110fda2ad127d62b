"""Searches: which items have a text in their value or reason.

A search ignores case, and looks in what the pages show: see :func:`fdbqueue.columns.text.visible`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from fdbqueue.columns.text import visible
from fdbqueue.service import Codec, Item, Undecodable, group_of_text

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
    try:
        return _ENCODE(value) if codec.holds == "json" else repr(value)
    except RecursionError:
        return ""
