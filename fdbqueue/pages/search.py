"""Search the values and the reasons of items for a text, and tell how far a search has come."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fdbqueue.pages.marks import places
from fdbqueue.pages.text import PREVIEW_CHARACTERS, Preview, grouped, visible
from fdbqueue.service import Codec, Item, Undecodable, group_named

_ENCODE = json.JSONEncoder(ensure_ascii=False).encode
#: A preview has this much of the value before a hit.
_BEFORE_HIT = 30


class LookedAt(Protocol):
    """Which items a search looked at, and the address that searches on."""

    @property
    def start(self) -> int:
        """The number of the first item."""

    @property
    def looked_at(self) -> int:
        """How many items."""

    @property
    def following(self) -> str | None:
        """The address that searches on; None at the end of the queue."""


class Progress(NamedTuple):
    """How far a search has come.

    Attributes:
        hits: How many items it has found.
        looked_at: How many items it looked at, and which.
        following: The address that searches on; None at the end of the queue.
        go_on: What the link there says.
    """

    hits: str
    looked_at: str
    following: str | None
    go_on: str


def contains(wanted: str, codec: Codec) -> Callable[[Item], bool]:
    """Return a function that tells whether an item's value contains a text, ignoring case."""
    if not wanted:
        return lambda _item: True
    folded = _visible(wanted).casefold()
    return lambda item: folded in text_of(item.value, codec).casefold()


def reason_contains(wanted: str) -> Callable[[Item], bool]:
    """Return a function that tells whether an item died of a reason that contains a text."""
    folded = visible(wanted).casefold()
    return lambda item: folded in visible(item.reason or "").casefold()


def died_of(reason: str) -> Callable[[Item], bool]:
    """Return a function that tells whether an item is in the group of a reason."""
    group = group_named(reason)
    return lambda item: group_named(item.reason or "") == group


def text_of(value: Any, codec: Codec) -> str:
    """Return the text of a value that searches look in."""
    return _visible(_text(value, codec))


def hit_preview(value: Any, codec: Codec, wanted: str) -> Preview | None:
    """Return what is around the first hit in a value, None where there is none."""
    text, folded = text_of(value, codec), _visible(wanted).casefold()
    found = next(places(text, folded), None) if folded else None
    if found is None:
        return None
    begin, end = found
    first = max(0, begin - _BEFORE_HIT)
    last = max(end, first + PREVIEW_CHARACTERS)
    return Preview(
        text[first:begin],
        clipped=last < len(text),
        decodable=not isinstance(value, Undecodable),
        hit=text[begin:end],
        rest=text[end:last],
        begins_later=first > 0,
    )


def progress(hits: int, found: LookedAt, total: str) -> Progress:
    """Return how far a search has come, in words.

    Args:
        hits: How many items it has found.
        found: What it looked at.
        total: How many items there are to look at; empty where nothing counts these.
    """
    count, last = found.looked_at, found.start + found.looked_at - 1
    text = ngettext("in %(count)s item looked at", "in %(count)s items looked at", count)
    text %= {"count": grouped(count)}
    if found.start > 1 and count:
        place = {"looked_at": text, "first": grouped(found.start), "last": grouped(last)}
        text = _("%(looked_at)s, from %(first)s to %(last)s") % place
    if total and (found.following or found.start > 1):
        text = _("%(looked_at)s of %(total)s") % {"looked_at": text, "total": total}
    return Progress(
        ngettext("%(count)s hit", "%(count)s hits", hits) % {"count": grouped(hits)},
        text,
        found.following,
        _("Go on from item %(number)s") % {"number": grouped(last + 1)},
    )


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
