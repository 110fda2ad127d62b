"""Output formats of the commands: JSON lines for programs, texts for people.

Values in a queue are not trusted, because a terminal obeys control characters in them. JSON
lines are plain ASCII, and texts show such characters as escapes.
"""

from __future__ import annotations

import base64
import datetime
import json
from typing import Any

from fdbqueue.service import Undecodable

_PREVIEW_CHARACTERS = 60
_MESSAGE_CHARACTERS = 300
_AGES = (("d", 86_400), ("h", 3_600), ("m", 60))


def json_line(record: dict[str, Any]) -> str:
    """Return a record as one line of JSON, in ASCII.

    Bytes become base64, infinities and NaN strings, and other types that JSON lacks, such
    as a UUID, their text: an item that was popped must not fail to be printed.
    """
    text = _encode(record)
    if "NaN" in text or "Infinity" in text:
        text = json.dumps(json.loads(text, parse_constant=str))
    return text


def value_text(value: Any) -> str:
    """Return a value as JSON, and bytes as Python writes them."""
    if isinstance(value, Undecodable):
        return f"(undecodable: {value.reason})"
    if isinstance(value, bytes):
        return repr(value)
    return json.dumps(value, ensure_ascii=False, default=_foreign)


def preview(value: Any) -> str:
    """Return the beginning of a value, safe for a terminal."""
    return clipped(value_text(value), _PREVIEW_CHARACTERS)


def clipped(text: str, most: int = _MESSAGE_CHARACTERS) -> str:
    """Return the beginning of a text, safe for a terminal."""
    shown = visible(text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def visible(text: str) -> str:
    r"""Return a text with each character that is not printable as an escape, like ``\x1b``."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def timestamp(moment: datetime.datetime | None) -> str | None:
    """Return a UTC time as the REST API writes it, with microseconds."""
    if moment is None:
        return None
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def short_time(moment: datetime.datetime | None) -> str:
    """Return a UTC time for a table, to the second; a dash for None."""
    return "-" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def age(seconds: float) -> str:
    """Return a time span in its largest unit, as ``"3d"`` or ``"0s"``."""
    for unit, length in _AGES:
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{max(0, int(seconds))}s"


def or_dash(value: object) -> str:
    """Return the text of a value, a dash for None."""
    return "-" if value is None else str(value)


def counted(number: int, noun: str) -> str:
    """Return a number of things in words, such as ``"1 receipt"`` or ``"1,707 receipts"``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def item_count(number: int, state: str = "") -> str:
    """Return a number of items in words, such as ``"1,707 dead items"``."""
    return counted(number, f"{state} item".lstrip())


def _foreign(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


_encode = json.JSONEncoder(default=_foreign).encode
