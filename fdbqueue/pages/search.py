"""Tell which items of a queue a search finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from fdbqueue.pages.text import visible
from fdbqueue.service import Codec, Item, Undecodable

_ENCODE = json.JSONEncoder(ensure_ascii=False).encode


def contains(wanted: str, codec: Codec) -> Callable[[Item], bool]:
    """Return a function that tells whether an item's value contains a text, ignoring case."""
    if not wanted:
        return lambda _item: True
    folded = _visible(wanted).casefold()
    return lambda item: folded in _visible(_text(item.value, codec)).casefold()


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
