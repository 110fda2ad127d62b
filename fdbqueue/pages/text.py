"""Values, keys, numbers and times as text that is safe to show.

Values come from anyone who may push, so they are not trusted. Their text consists of printable
characters: control characters, direction marks and lone surrogates are shown as JSON escapes, so
that they can neither hide nor reorder the text beside them. The templates escape it for HTML.
No text is longer than a stated number of characters.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.utils.formats import number_format
from django.utils.timesince import timesince
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fdbqueue.service import Codec, Queue, Undecodable, tuples

#: A preview is clipped here.
PREVIEW_CHARACTERS = 100
#: JSON that would be longer than this once indented is not indented: deep nesting turns a
#: value of 100 kB into hundreds of megabytes of spaces.
INDENTED_CHARACTERS = 400_000

#: No text on an item's page is longer than this,
TEXT_CHARACTERS = 500_000
#: unless the reader asks for the whole value; then it is this, more than most values have.
WHOLE_CHARACTERS = 5_000_000
#: At most this many bytes are dumped: as many as FoundationDB stores under one key.
DUMPED_BYTES = 100_000

_KILOBYTE = 1_000
_HEX_COLUMNS = 16
#: Signs that quote, end a command, or escape in fdbcli.
_FDBCLI_SIGNS = b'";\\'
#: Room for every 64-bit integer and every float; a foreign writer's may have 600 digits.
_NUMBER_CHARACTERS = 30
#: Not printable by Python's rule, but harmless and part of ordinary text: the line feeds
#: of indented JSON, the ideographic space, the joiners of Persian, Hindi and emoji.
_KEPT = frozenset("\n\u3000\u200c\u200d")

_JSON = json.JSONEncoder(ensure_ascii=False)
_INDENTED = json.JSONEncoder(ensure_ascii=False, indent=2)


class Moment(NamedTuple):
    """A moment, and how long ago or in how long that is, in words."""

    at: datetime.datetime
    words: str


@dataclass(frozen=True, slots=True)
class Preview:
    """The beginning of a value, in one line, or what is around a hit in it.

    Attributes:
        text: The beginning, or what is before the hit.
        clipped: Whether the value goes on after what is shown.
        decodable: Whether the codec can read the value.
        hit: What a search has found; empty where there was none.
        rest: What is after the hit.
        begins_later: Whether the value has more before what is shown.
    """

    text: str
    clipped: bool
    decodable: bool
    hit: str = ""
    rest: str = ""
    begins_later: bool = False


class FoldedText(NamedTuple):
    """A text whose beginning is shown; ``whole`` is empty where that is all of it."""

    beginning: str
    whole: str
    element_id: str


class Size(NamedTuple):
    """A number of bytes as people read it, and exactly."""

    words: str
    exact: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A value: its text, what kind of text that is, and why it cannot be decoded.

    ``cut`` says how much of the value the text shows; it is empty where that is all of it.
    """

    text: str
    form: str
    problem: str = ""
    is_dump: bool = False
    cut: str = ""


def preview(value: Any, codec: Codec) -> Preview:
    """Return the beginning of a value; the rest of it costs nothing."""
    if isinstance(value, Undecodable):
        return Preview(*clip(repr(value.raw[: PREVIEW_CHARACTERS + 1])), decodable=False)
    return Preview(*clip(_beginning(value, codec)), decodable=True)


def show(value: Any, codec: Codec, most: int = TEXT_CHARACTERS) -> Shown:
    """Return a value: JSON, a dump of bytes, or what Python writes for others.

    Args:
        value: The value.
        codec: The codec of its queue.
        most: The most characters of a text.
    """
    if isinstance(value, Undecodable):
        return dumped(value.raw, problem=visible(value.reason))
    if isinstance(value, bytes):
        return dumped(value)
    try:
        if codec.holds == "json":
            return _texted(_indented(value), _("JSON"), most)
        return _texted(repr(value), _("Python"), most)
    except RecursionError:
        return Shown("", _("JSON"), _("This value is nested too deeply to show."))


def dumped(data: bytes, size: int | None = None, problem: str = "") -> Shown:
    """Return the beginning of bytes in hexadecimal.

    Args:
        data: The bytes, or the first of them.
        size: How many there are; None for those of ``data``.
        problem: Why they cannot be decoded.
    """
    cut = ""
    size = len(data) if size is None else size
    shown = min(len(data), DUMPED_BYTES)
    if size > shown:
        cut = _("Showing the first %(shown)s of %(all)s bytes.") % {
            "shown": grouped(shown),
            "all": grouped(size),
        }
    return Shown(hex_dump(data[:DUMPED_BYTES]), _("hexadecimal"), problem, is_dump=True, cut=cut)


def _texted(text: str, form: str, most: int) -> Shown:
    cut = ""
    if len(text) > most:
        cut = _("Showing the first %(shown)s of %(all)s characters.") % {
            "shown": grouped(most),
            "all": grouped(len(text)),
        }
    return Shown(visible(text[:most]), form, cut=cut)


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
    """Return a visible text, folded where it is long or has several lines.

    Args:
        text: The text.
        element_id: The id of what unfolds it.
    """
    line, _newline, more = text.strip().partition("\n")
    if len(line) <= PREVIEW_CHARACTERS and not more:
        return FoldedText(line, "", element_id)
    return FoldedText(f"{line[:PREVIEW_CHARACTERS]}…", text, element_id)


def hex_dump(data: bytes) -> str:
    """Return lines of an offset, 16 bytes in hexadecimal, and the same in ASCII."""
    starts = range(0, len(data), _HEX_COLUMNS)
    return "\n".join(_hex_line(start, data[start : start + _HEX_COLUMNS]) for start in starts)


def age(moment: datetime.datetime) -> str:
    """Return how long ago a moment was, in words."""
    now = datetime.datetime.now(datetime.timezone.utc)
    seconds = (now - moment).total_seconds()
    if seconds <= -60:  # the clock of the client that pushed it is ahead
        return _("in the future")
    if seconds < 60:
        return _("less than a minute ago")
    return _("%(time)s ago") % {"time": timesince(moment, now, depth=1)}


def ahead(moment: datetime.datetime) -> str:
    """Return how long it is until a moment at which a lease or a delay ends, in words."""
    now = datetime.datetime.now(datetime.timezone.utc)
    seconds = (moment - now).total_seconds()
    if seconds <= 0:
        return _("expired; returns at the next pop or lease")
    if seconds < 60:
        return _("in less than a minute")
    return _("in %(time)s") % {"time": timesince(now, moment, depth=1)}


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


def _beginning(value: Any, codec: Codec) -> str:
    if isinstance(value, bytes):
        return repr(value[: PREVIEW_CHARACTERS + 1])
    if codec.holds != "json":
        return _python(value)
    text = ""
    for chunk in _JSON.iterencode(value):
        text += chunk
        if len(text) > PREVIEW_CHARACTERS:
            break
    return text


def _python(value: Any) -> str:
    try:
        return repr(value)
    except RecursionError:
        return "(…)"


def _indented(value: Any) -> str:
    chunks, size = [], 0
    try:
        for chunk in _INDENTED.iterencode(value):
            chunks.append(chunk)
            size += len(chunk)
            if size > INDENTED_CHARACTERS:
                return _JSON.encode(value)
    except RecursionError:
        return _JSON.encode(value)
    return "".join(chunks)


def _escape(character: str) -> str:
    return json.dumps(character)[1:-1]


def _hex_line(start: int, data: bytes) -> str:
    text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)
    return f"{start:08x}  {data.hex(' '):<{3 * _HEX_COLUMNS - 1}}  |{text}|"
