"""JSON as markup: highlighted, and collapsible by ``<details>``, which needs no script.

Only this module turns values into markup; it escapes every text. The markup is bounded in nodes,
levels and characters of a text, whatever the value. The page shows the whole value as text below.
"""

from __future__ import annotations

import json
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fdbqueue.pages.text import grouped, visible

#: At most this many values are shown.
NODES = 1_000
#: A browser's parser flattens what is nested more than 512 elements deep.
LEVELS = 100
#: At most this many characters of a text or of a number are shown.
TEXT_CHARACTERS = 1_000
#: Values deeper than this are folded at first.
_OPEN_LEVELS = 4
#: Lists and objects with more members are folded, too.
_OPEN_MEMBERS = 50

_ENCODE = json.JSONEncoder(ensure_ascii=False).encode


def tree(value: Any) -> SafeString:
    """Return the markup of a JSON value."""
    return _Tree().node(value, mark_safe(""), 0)


class _Tree:
    """Makes the markup of one value, and counts the nodes."""

    def __init__(self) -> None:
        self._left = NODES

    def node(self, value: Any, key: SafeString, level: int) -> SafeString:
        self._left -= 1
        if isinstance(value, dict | list) and value:
            return self._container(value, key, level)
        return format_html('<div class="fdbqueue-leaf">{}{}</div>', key, _scalar(value))

    def _container(self, value: Any, key: SafeString, level: int) -> SafeString:
        is_open = level < _OPEN_LEVELS and len(value) <= _OPEN_MEMBERS
        brackets = "{}" if isinstance(value, dict) else "[]"
        size = ngettext("%(count)s member", "%(count)s members", len(value)) % {
            "count": grouped(len(value))
        }
        summary = format_html(
            '{}<span class="fdbqueue-bracket">{}</span>'
            ' <span class="fdbqueue-size">{}</span> <span class="fdbqueue-bracket">{}</span>',
            key,
            brackets[0],
            size,
            brackets[1],
        )
        return format_html(
            '<details class="fdbqueue-node"{}><summary>{}</summary>{}</details>',
            mark_safe(" open") if is_open or not level else "",
            summary,
            self._members(value, level + 1),
        )

    def _members(self, value: Any, level: int) -> SafeString:
        if level > LEVELS:
            return _note(_("Nested too deeply to show here; see the text below."))
        pairs = value.items() if isinstance(value, dict) else ((None, v) for v in value)
        parts: list[SafeString] = []
        for key, member in pairs:
            if self._left <= 0:
                rest = grouped(len(value) - len(parts))
                parts.append(_note(_("%(count)s more; see the text below.") % {"count": rest}))
                break
            parts.append(self.node(member, _key(key), level))
        return format_html_join("", "{}", ((part,) for part in parts))


def _key(key: str | None) -> SafeString:
    if key is None:
        return mark_safe("")
    return format_html('<span class="fdbqueue-key">{}</span>: ', _clipped(_ENCODE(key)))


def _scalar(value: Any) -> SafeString:
    kind = _kind(value)
    text = _ENCODE(value)
    whole = len(text) <= TEXT_CHARACTERS
    shown = format_html('<span class="fdbqueue-{}">{}</span>', kind, _clipped(text))
    if whole:
        return shown
    size = _("%(count)s characters; see the text below") % {"count": grouped(len(text))}
    return format_html('{} <span class="fdbqueue-size">({})</span>', shown, size)


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool) or value is None:
        return "literal"
    return "number" if isinstance(value, int | float) else "bracket"


def _clipped(text: str) -> str:
    if len(text) <= TEXT_CHARACTERS:
        return visible(text)
    return visible(text[:TEXT_CHARACTERS]) + "…"


def _note(text: str) -> SafeString:
    return format_html('<div class="fdbqueue-leaf fdbqueue-size">{}</div>', text)
