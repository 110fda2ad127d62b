"""Texts, numbers, sizes, times, durations and keys as readers see them.

What is in a queue comes from anyone who may push, so it is not trusted. Its text consists of
printable characters (:func:`visible`): control characters, direction marks and lone surrogates are
shown as JSON escapes, so that they can neither hide nor reorder the text beside them. The templates
escape it for HTML. How a value as a whole is shown is in :mod:`fdbqueue.pages.values`.
"""

from __future__ import annotations

import datetime
import json
from typing import NamedTuple

from django.utils.formats import number_format
from django.utils.timesince import timesince
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fdbqueue.service import Queue, tuples

#: The beginning of a text is this long.
PREVIEW_CHARACTERS = 100


_KILOBYTE = 1_000
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
#: Two days are written as 48 h, so that a unit begins where its number says something.
_HOURS_UP_TO = 2 * _DAY
#: Signs that quote, end a command, or escape in fdbcli.
_FDBCLI_SIGNS = b'";\\'
#: Room for every 64-bit integer and every float; a foreign writer's may have 600 digits.
_NUMBER_CHARACTERS = 30
#: Not printable by Python's rule, but harmless and part of ordinary text: the line feeds
#: of indented JSON, the ideographic space, the joiners of Persian, Hindi and emoji.
_KEPT = frozenset("\n\u3000\u200c\u200d")


class Moment(NamedTuple):
    """A moment, and how long ago or in how long that is, in words."""

    at: datetime.datetime
    words: str

    @classmethod
    def ago(cls, at: datetime.datetime) -> Moment:
        """Return a moment with how long ago it was."""
        return cls(at, age(at))

    @classmethod
    def ahead(cls, at: datetime.datetime) -> Moment:
        """Return the moment at which a lease or a delay ends, with how long it is until then."""
        return cls(at, ahead(at))

    @classmethod
    def short(cls, at: datetime.datetime) -> Moment:
        """Return a moment with how long ago it was, in one unit."""
        return cls(at, short_age(at))


class FoldedText(NamedTuple):
    """A text whose beginning is shown; ``whole`` is empty if that is all of it."""

    beginning: str
    whole: str
    element_id: str


class Size(NamedTuple):
    """A number of bytes as people read it, and exactly."""

    words: str
    exact: str


def grouped(value: int) -> str:
    """Return an integer, exactly, with the language's marks between thousands."""
    return str(number_format(value, use_l10n=True, force_grouping=True))


def size(count: int) -> Size:
    """Return a number of bytes: whole below 1 kB, else with one decimal below ten."""
    exact = ngettext("%(count)s byte", "%(count)s bytes", count) % {"count": grouped(count)}
    if count < _KILOBYTE:
        return Size(exact, exact)
    number, unit = count / _KILOBYTE, _("%(count)s kB")
    if round(number) >= _KILOBYTE:
        number, unit = number / _KILOBYTE, _("%(count)s MB")
    return Size(unit % {"count": mean(number)}, exact)


def mean(value: float) -> str:
    """Return a mean: in whole numbers from ten on, with one decimal below."""
    if value == int(value) or value >= 9.95:
        return grouped(round(value))
    return str(number_format(round(value, 1), decimal_pos=1, use_l10n=True))


def number(value: float) -> str:
    """Return a number exactly, the same in all languages; clipped only beyond 64 bits."""
    text = str(value)
    return text if len(text) <= _NUMBER_CHARACTERS else text[:_NUMBER_CHARACTERS] + "…"


def visible(text: str) -> str:
    r"""Return the text with what is not printable as JSON escapes (``\u202e``)."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _KEPT else _escape(c) for c in text)


def clip(text: str) -> tuple[str, bool]:
    """Return the visible beginning of a text, and whether there is more."""
    beginning = visible(text[: PREVIEW_CHARACTERS + 1])
    return beginning[:PREVIEW_CHARACTERS], len(beginning) > PREVIEW_CHARACTERS


def folded(text: str, element_id: str) -> FoldedText:
    """Return a visible text, folded if it is long or has several lines.

    Args:
        text: The text.
        element_id: The id of what unfolds it.
    """
    line, _newline, more = text.strip().partition("\n")
    if len(line) <= PREVIEW_CHARACTERS and not more:
        return FoldedText(line, "", element_id)
    return FoldedText(f"{line[:PREVIEW_CHARACTERS]}…", text, element_id)


def age(moment: datetime.datetime) -> str:
    """Return how long ago a moment was, in words."""
    now = _now()
    seconds = (now - moment).total_seconds()
    if seconds <= -60:  # the clock of the client that pushed it is ahead
        return _("in the future")
    if seconds < 60:
        return _("less than a minute ago")
    return _("%(time)s ago") % {"time": timesince(moment, now, depth=1)}


def ahead(moment: datetime.datetime) -> str:
    """Return how long it is until a moment at which a lease or a delay ends, in words."""
    now = _now()
    seconds = (moment - now).total_seconds()
    if seconds <= 0:
        return _("expired; returns at the next pop or lease")
    if seconds < 60:
        return _("in less than a minute")
    return _("in %(time)s") % {"time": timesince(now, moment, depth=1)}


def short_age(moment: datetime.datetime) -> str:
    """Return how long ago a moment was, in one unit."""
    return duration((_now() - moment).total_seconds())


def duration(seconds: float) -> str:
    """Return how long something takes, in one unit; less than nothing is nothing."""
    seconds = max(0.0, seconds)
    if seconds < _MINUTE:
        return _("%(count)s s") % {"count": int(seconds)}
    if seconds < _HOUR:
        return _("%(count)s min") % {"count": int(seconds // _MINUTE)}
    if seconds < _HOURS_UP_TO:
        return _("%(count)s h") % {"count": int(seconds // _HOUR)}
    return _("%(count)s d") % {"count": number_format(int(seconds // _DAY), force_grouping=True)}


def subspace(queue: Queue) -> str:
    """Return the tuple of a queue's subspace, or its bytes if they are not a tuple."""
    return key_text(queue.subspace.key())


def key_text(key: bytes) -> str:
    """Return the tuple that a key encodes, or its bytes if they are not a tuple."""
    try:
        return visible(repr(tuples.unpack(key)))
    except ValueError:
        return repr(key)


def key_escaped(key: bytes) -> str:
    r"""Return a key as fdbcli reads it: bytes that it cannot read as they are become ``\xff``."""
    plain = (chr(b) if 32 < b < 127 and b not in _FDBCLI_SIGNS else f"\\x{b:02x}" for b in key)
    return "".join(plain)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def _escape(character: str) -> str:
    return json.dumps(character)[1:-1]
