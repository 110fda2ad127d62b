"""Texts, numbers, sizes, times, durations and keys as readers of pages and of terminals see them.

What is in a queue comes from anyone who may push, so it is not trusted. Its text consists of
printable characters: control characters, direction marks and lone surrogates are shown as escapes,
so that they can neither hide nor reorder the text beside them. Pages use JSON's (:func:`visible`),
and their templates escape the text for HTML. Terminals obey more characters, so theirs are
Python's, and line feeds are among them (:func:`printable`). How a value as a whole is shown on a
page is in :mod:`fdbqueue.pages.values`.

Pages are in the language of the request. What terminals show is English in all projects
(:func:`in_english`).
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import json
import shlex
from typing import NamedTuple

from django.utils.formats import number_format
from django.utils.timesince import timesince, timeuntil
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext, override

from fdbqueue.service import Queue, tuples

#: The beginning of a text is this long.
PREVIEW_CHARACTERS = 100

_MAX_CHARACTERS = 200
_MESSAGE_CHARACTERS = 300
_KILOBYTE = 1_000
_MINUTE, _DAY = 60, 86_400
#: The units of time in which ages and durations are said, everywhere. A terminal's table has the
#: first letter alone.
_UNITS = (
    (_DAY, gettext_noop("%(count)s d")),
    (3_600, gettext_noop("%(count)s h")),
    (_MINUTE, gettext_noop("%(count)s min")),
    (1, gettext_noop("%(count)s s")),
)
#: Less than two days is in hours, so that a unit begins where its number says something.
_DAYS_FROM = 2 * _DAY
#: What is said of a lease or a delay that is over.
EXPIRED = gettext_noop("expired; returns at the next pop or lease")
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

    @classmethod
    def since(cls, at: datetime.datetime) -> Moment:
        """Return a moment that is over with how long ago it was, for one line of a list."""
        if seconds_since(at) <= -60:  # the clock of the client that pushed it is ahead
            return cls.ago(at)
        return cls(at, _("%(time)s ago") % {"time": short_age(at)})

    @classmethod
    def until(cls, at: datetime.datetime) -> Moment:
        """Return the moment at which a lease or a delay ends, for one line of a list."""
        seconds = -seconds_since(at)
        return cls(
            at, _("in %(time)s") % {"time": duration(seconds)} if seconds > 0 else _(EXPIRED)
        )


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
    return "".join(c if c.isprintable() or c in _KEPT else json.dumps(c)[1:-1] for c in text)


def bounded(text: str) -> str:
    """Return the visible beginning of a text that should be short, such as a worker's name."""
    return visible(text[:_MAX_CHARACTERS])


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


# Times and durations


def seconds_since(moment: datetime.datetime) -> float:
    """Return how long ago a moment was; less than 0 for one to come."""
    return (datetime.datetime.now(datetime.timezone.utc) - moment).total_seconds()


def age(moment: datetime.datetime) -> str:
    """Return how long ago a moment was, in words."""
    seconds = seconds_since(moment)
    if seconds <= -60:  # the clock of the client that pushed it is ahead
        return _("in the future")
    if seconds < 60:
        return _("less than a minute ago")
    return _("%(time)s ago") % {"time": timesince(moment, depth=1)}


def ahead(moment: datetime.datetime) -> str:
    """Return how long it is until a moment at which a lease or a delay ends, in words."""
    seconds = -seconds_since(moment)
    if seconds <= 0:
        return _(EXPIRED)
    if seconds < 60:
        return _("in less than a minute")
    return _("in %(time)s") % {"time": timeuntil(moment, depth=1)}


def short_age(moment: datetime.datetime) -> str:
    """Return how long ago a moment was, in one unit."""
    return duration(seconds_since(moment))


def duration(seconds: float) -> str:
    """Return how long something takes, in one unit; less than nothing is nothing."""
    count, unit = _in_one_unit(seconds)
    return _(unit) % {"count": number_format(count, force_grouping=True)}


def lasting(seconds: float) -> str:
    """Return how long something lasts: in milliseconds below a second, else in two units at most.

    A negative duration, which clocks that differ make, is none.
    """
    seconds = max(0.0, seconds)
    if seconds < 1:
        return _("%(count)s ms") % {"count": _rounded(seconds * 1_000, seconds < 0.01)}
    if seconds < _MINUTE:
        return _("%(count)s s") % {"count": _rounded(seconds, seconds < 10)}
    pairs = itertools.pairwise(_UNITS)
    length, unit, smaller, next_unit = next((*a, *b) for a, b in pairs if seconds >= a[0])
    count, rest = int(seconds // length), int(seconds % length // smaller)
    if length == _DAY:
        first = ngettext("%(count)s day", "%(count)s days", count) % {"count": count}
    else:
        first = _(unit) % {"count": count}
    return f"{first} {_(next_unit) % {'count': rest}}" if rest else first


def _in_one_unit(seconds: float) -> tuple[int, str]:
    """Return a whole number of a unit, and the text of that unit."""
    seconds = max(0.0, seconds)
    for length, unit in _UNITS:
        if seconds >= (_DAYS_FROM if length == _DAY else length):
            return int(seconds // length), unit
    return 0, _UNITS[-1][1]


def _rounded(value: float, has_decimal: bool) -> str:
    rounded = round(value, 1 if has_decimal else 0)
    decimals = 0 if rounded == int(rounded) else 1
    return str(number_format(rounded, decimal_pos=decimals, use_l10n=True))


# Terminals


def in_english() -> contextlib.AbstractContextManager[None]:
    """Let texts be English, as everything that the commands print is."""
    return override("en")


def printable(text: str) -> str:
    r"""Return a text with each character that is not printable as an escape, like ``\x1b``."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def clipped(text: str, most: int = _MESSAGE_CHARACTERS) -> str:
    """Return the beginning of a text, safe for a terminal."""
    shown = printable(text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def command(name: str, *words: str, **options: str) -> str:
    """Return a command to type: ``python manage.py NAME WORDS --OPTION=VALUE``, each quoted."""
    given = [f"--{option}={shlex.quote(value)}" for option, value in options.items()]
    return " ".join(["python manage.py", name, *map(shlex.quote, words), *given])


def counted(count: int, noun: str) -> str:
    """Return a number of things in words, such as ``"1 receipt"`` or ``"1,707 receipts"``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def cell_duration(seconds: float) -> str:
    """Return a duration in one unit for a table at a terminal, as ``"3d"`` or ``"0s"``."""
    count, unit = _in_one_unit(seconds)
    return f"{count}{unit.rpartition(' ')[2][0]}"


def cell_age(moment: datetime.datetime) -> str:
    """Return how long ago a moment was, for a table at a terminal."""
    return cell_duration(seconds_since(moment))


def cell_ahead(moment: datetime.datetime) -> str:
    """Return in how long a lease or a delay ends, for a table at a terminal."""
    seconds = -seconds_since(moment)
    return f"in {cell_duration(seconds)}" if seconds > 0 else "expired"


def short_time(moment: datetime.datetime) -> str:
    """Return a UTC time to the second."""
    return f"{moment:%Y-%m-%d %H:%M:%S}"


def timestamp(moment: datetime.datetime) -> str:
    """Return a UTC time as JSON has it, with microseconds."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


# Subspaces and keys


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
