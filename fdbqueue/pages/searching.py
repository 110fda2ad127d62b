"""Which items contain a text: it is looked for in what the pages show of a value."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from fdbqueue.pages.previews import visible
from fdbqueue.service.items import Item, Undecodable

_ENCODE = json.JSONEncoder(ensure_ascii=False).encode


def contains(wanted: str, codec: str) -> Callable[[Item], bool]:
    """Return what tells whether an item's value contains a text, in capitals or not."""
    if not wanted:
        return lambda _item: True
    folded = _visible(wanted).casefold()
    return lambda item: folded in _visible(_text(item.value, codec)).casefold()


def _visible(text: str) -> str:
    """Return what :func:`visible` does, fast where megabytes are not printable."""
    if text.isprintable():
        return text
    return text.translate({ord(c): visible(c) for c in set(text) if not c.isprintable()})


def _text(value: Any, codec: str) -> str:
    if isinstance(value, Undecodable):
        value = value.raw
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    try:
        return _ENCODE(value) if codec == "json" else repr(value)
    except RecursionError:
        return ""
