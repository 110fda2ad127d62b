"""How the value of an item is shown, and how much of it: its beginning, and the value as text.

Every page shows values by these functions. Lists have the beginning, in one line. The page of an
item has the value: JSON, indented; else text, as Python writes it; else bytes in hexadecimal. All
of it is bounded, whatever the value. Only this module turns values into markup, and it escapes
every text; templates escape what it returns as text.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from fdbqueue.columns.text import PREVIEW_CHARACTERS, clip, grouped, visible
from fdbqueue.service import Codec, Undecodable

#: JSON that would be longer than this once indented is not indented: deep nesting turns a
#: value of 100 kB into hundreds of megabytes of spaces.
INDENTED_CHARACTERS = 400_000

#: No text on an item's page is longer than this,
TEXT_CHARACTERS = 500_000
#: unless the reader asks for the whole value; then it is this, more than most values have.
WHOLE_CHARACTERS = 5_000_000
#: At most this many bytes are dumped: as many as FoundationDB stores under one key.
DUMPED_BYTES = 100_000

#: So many rows of a list say what they share above it, and not in each.
_MANY = 3
#: At most so many members of a value may be shared.
_FIRST_MEMBERS = 50
_HEX_COLUMNS = 16
_JSON = json.JSONEncoder(ensure_ascii=False)
_INDENTED = json.JSONEncoder(ensure_ascii=False, indent=2)


@dataclass(frozen=True, slots=True)
class Preview:
    """The beginning of a value, in one line.

    Attributes:
        text: The beginning.
        clipped: Whether the value goes on after what is shown.
        decodable: Whether the codec can read the value.
    """

    text: str
    clipped: bool
    decodable: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """A value: its text, what kind of text that is, and why it cannot be decoded.

    ``cut`` says how much of the value the text shows; it is empty if that is all of it.
    """

    text: str
    form: str
    problem: str = ""
    is_dump: bool = False
    cut: str = ""


def previewed(value: Preview) -> SafeString:
    """Return the markup of a preview."""
    problem = shortened = SafeString("")
    if not value.decodable:
        shown = '<strong class="fdbqueue-problem">{}</strong> '
        problem = format_html(shown, _("Cannot be decoded"))
    if value.clipped:
        shown = '<span class="visually-hidden"> {}</span>'
        shortened = format_html(shown, _("(shortened)"))
    return format_html(
        '{}<bdi dir="ltr"><code>{}{}</code></bdi>{}',
        problem,
        value.text,
        "…" if value.clipped else "",
        shortened,
    )


def preview(value: Any, codec: Codec, shared: Collection[str] = ()) -> Preview:
    """Return the beginning of a value; the rest of it costs nothing.

    Members that are shared with the other values of a list are left out.
    """
    if isinstance(value, Undecodable):
        return Preview(*clip(repr(value.raw[: PREVIEW_CHARACTERS + 1])), decodable=False)
    if shared:
        rest = {name: member for name, member in value.items() if name not in shared}
        text = _beginning(rest, codec)
        return Preview(*clip(f"{{…, {text[1:]}" if rest else "{…}"), decodable=True)
    return Preview(*clip(_beginning(value, codec)), decodable=True)


def shared_members(values: Sequence[Any]) -> dict[str, Any]:
    """Return the members that all of several objects have alike, so that rows need not say them.

    Only texts, numbers and the like, not too long; none if nothing else would be left of an object.
    """
    if len(values) < _MANY or not all(isinstance(value, dict) and value for value in values):
        return {}
    first, *others = values
    shared = {
        name: member
        for name, member in itertools.islice(first.items(), _FIRST_MEMBERS)
        if isinstance(member, str | int | float | None) and len(str(member)) <= PREVIEW_CHARACTERS
    }
    for value in others:
        shared = {
            name: member
            for name, member in shared.items()
            if name in value and type(value[name]) is type(member) and value[name] == member
        }
        if not shared:
            return {}
    return shared if any(len(value) > len(shared) for value in values) else {}


def show(value: Any, codec: Codec, most: int = TEXT_CHARACTERS) -> Shown:
    """Return a value: JSON, a dump of bytes, or what Python writes for others.

    Args:
        value: The value.
        codec: The codec of its queue.
        most: The most characters of a text.
    """
    if isinstance(value, Undecodable):
        return _dumped(value.raw, visible(value.reason))
    if isinstance(value, bytes):
        return _dumped(value)
    try:
        if codec.holds == "json":
            return _texted(_indented(value), _("JSON"), most)
        return _texted(repr(value), _("Python"), most)
    except RecursionError:
        return Shown("", _("JSON"), _("This value is nested too deeply to show."))


def _dumped(data: bytes, problem: str = "") -> Shown:
    cut = ""
    if len(data) > DUMPED_BYTES:
        cut = _("Showing the first %(shown)s of %(all)s bytes.") % {
            "shown": grouped(DUMPED_BYTES),
            "all": grouped(len(data)),
        }
    return Shown(hex_dump(data[:DUMPED_BYTES]), _("hexadecimal"), problem, is_dump=True, cut=cut)


def hex_dump(data: bytes) -> str:
    """Return lines of an offset, 16 bytes in hexadecimal, and the same in ASCII."""
    starts = range(0, len(data), _HEX_COLUMNS)
    return "\n".join(_hex_line(start, data[start : start + _HEX_COLUMNS]) for start in starts)


def _texted(text: str, form: str, most: int) -> Shown:
    cut = ""
    if len(text) > most:
        cut = _("Showing the first %(shown)s of %(all)s characters.") % {
            "shown": grouped(most),
            "all": grouped(len(text)),
        }
    return Shown(visible(text[:most]), form, cut=cut)


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


def _hex_line(start: int, data: bytes) -> str:
    text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)
    return f"{start:08x}  {data.hex(' '):<{3 * _HEX_COLUMNS - 1}}  |{text}|"
