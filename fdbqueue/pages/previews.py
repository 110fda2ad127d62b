"""Show what is in a queue without trusting it.

Values come from anyone who may push. Their text is made of printable characters alone:
control characters, direction marks and lone surrogates are shown as JSON escapes, so that
they can neither hide nor reorder what stands beside them. Escaping for HTML is left to
the templates. No text is longer than a stated number of characters.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from typing import Any

from django.utils.timesince import timesince
from django.utils.translation import gettext as _

from fdbqueue.service import tuples
from fdbqueue.service.base import Queue
from fdbqueue.service.items import Undecodable

#: A preview is clipped here.
PREVIEW_CHARACTERS = 100
#: JSON that would be longer once indented is shown in one piece: deep nesting makes a
#: value of 100 kB hundreds of megabytes of indentation.
INDENTED_CHARACTERS = 400_000

_HEX_COLUMNS = 16
#: Room for every 64-bit integer and every float; a foreign writer's may have 600 digits.
_NUMBER_CHARACTERS = 30
#: Not printable by Python's rule, but harmless and part of ordinary text: the line feeds
#: of indented JSON, the ideographic space, the joiners of Persian, Hindi and emoji.
_KEPT = frozenset("\n\u3000\u200c\u200d")

_JSON = json.JSONEncoder(ensure_ascii=False)
_INDENTED = json.JSONEncoder(ensure_ascii=False, indent=2)


@dataclass(frozen=True, slots=True)
class Preview:
    """The beginning of a value, in one line."""

    text: str
    clipped: bool
    decodable: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """A whole value: its text, what kind of text that is, and why it cannot be read."""

    text: str
    form: str
    problem: str = ""
    is_dump: bool = False


def preview(value: Any, codec: str) -> Preview:
    """Return the beginning of a value, at no more cost than that of its beginning."""
    if isinstance(value, Undecodable):
        return Preview(*clip(repr(value.raw[: PREVIEW_CHARACTERS + 1])), decodable=False)
    return Preview(*clip(_beginning(value, codec)), decodable=True)


def show(value: Any, codec: str) -> Shown:
    """Return a whole value: JSON, a dump of bytes, or what Python writes for a tuple."""
    if isinstance(value, Undecodable):
        return Shown(hex_dump(value.raw), _("hexadecimal"), visible(value.reason), is_dump=True)
    if isinstance(value, bytes):
        return Shown(hex_dump(value), _("hexadecimal"), is_dump=True)
    try:
        if codec == "json":
            return Shown(visible(_indented(value)), _("JSON"))
        return Shown(repr(value), _("Python"))
    except RecursionError:
        return Shown("", _("JSON"), _("It is nested too deeply to be shown."))


def number(value: float) -> str:
    """Return a number exactly, in no locale's writing; clipped only beyond 64 bits."""
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


def subspace(queue: Queue) -> str:
    """Return the tuple of a queue's subspace, or its bytes where it is no tuple."""
    prefix: bytes = queue.subspace.key()
    try:
        return repr(tuples.unpack(prefix))
    except ValueError:
        return repr(prefix)


def _beginning(value: Any, codec: str) -> str:
    if isinstance(value, bytes):
        return repr(value[: PREVIEW_CHARACTERS + 1])
    if codec != "json":
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
