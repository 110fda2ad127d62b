"""Rows of items, and what they are decoded to."""

from __future__ import annotations

from typing import Literal, NamedTuple

import fdb.tuple

from fdbqueue.exceptions import CorruptItem
from fdbqueue.service.items import Item, Priority

#: Which end of a queue: ``"min"`` is the lowest priority and the earliest pushed.
End = Literal["min", "max"]
ENDS: tuple[End, End] = ("min", "max")


class Position(NamedTuple):
    """The parts of a place: the priority (None in a FIFO queue), and the order among equals.

    ``sequence`` is the recipes' count or index, or a versionstamp in commit order. ``chunks``
    is the number of keys that hold the value. ``tag`` is that of the item's unique key, empty
    if it has none.
    """

    priority: Priority | None
    sequence: int | fdb.tuple.Versionstamp
    chunks: int
    tag: bytes = b""


class Row(NamedTuple):
    """A stored item: its place, and its value or the first chunk of it."""

    place: bytes
    value: bytes


class Loaded(NamedTuple):
    """A decoded item, or the error of decoding it, and what its removal needs to know.

    ``pushed_at`` is the stored time, in microseconds, which may be known of an item that cannot
    be decoded. ``has_attempts`` says that the attempts
    are in a row of their own. ``data`` is the whole stored value, all chunks of it.
    """

    row: Row
    position: Position
    item: Item | CorruptItem
    pushed_at: int | None
    has_attempts: bool
    data: bytes = b""
