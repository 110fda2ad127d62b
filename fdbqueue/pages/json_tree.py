"""JSON as markup: highlighted, and collapsible by ``<details>``, which needs no script.

Only this module turns values into markup; it escapes every text. The markup is bounded in nodes,
levels and characters of a text, whatever the value. The nodes are chosen level by level, so a
member that is large hides none of its siblings. The page shows the whole value as text below.
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fdbqueue.pages.marks import Marker
from fdbqueue.pages.text import grouped, visible

#: At most this many values are shown.
NODES = 1_000
#: A browser's parser flattens what is nested more than 512 elements deep.
LEVELS = 100
#: At most this many characters of a text or of a number are shown.
TEXT_CHARACTERS = 1_000
#: Each container shows this many members before any shows more.
_FIRST_MEMBERS = 50
#: Values deeper than this are folded at first.
_OPEN_LEVELS = 4
#: Lists and objects with more members are folded, too.
_OPEN_MEMBERS = 50

_ENCODE = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(slots=True)
class _Node:
    """A value that is shown, and those of its members that are."""

    value: Any
    key: str | None = None
    level: int = 0
    members: list[_Node] = field(default_factory=list)

    @property
    def is_container(self) -> bool:
        return isinstance(self.value, dict | list) and bool(self.value)

    @property
    def left_out(self) -> int:
        """How many members are not shown."""
        return len(self.value) - len(self.members)

    def grow(self, most: int) -> int:
        """Show at most ``most`` more members, and return how many were added."""
        begin = len(self.members)
        pairs = itertools.islice(_pairs(self.value), begin, begin + max(0, most))
        self.members += [_Node(member, key, self.level + 1) for key, member in pairs]
        return len(self.members) - begin


def tree(value: Any, marker: Marker | None = None) -> SafeString:
    """Return the markup of a JSON value.

    Args:
        value: The value.
        marker: Marks a text in it; what is folded opens where it has a mark.
    """
    return _Tree(marker or Marker("")).markup(_chosen(value))


def _chosen(value: Any) -> _Node:
    """Return the nodes to show: all of a level before any of the next, up to the limit.

    First a few members of each container, then more of each, so that no long one uses up the limit.
    """
    root = _Node(value)
    left = NODES - 1
    for most in (_FIRST_MEMBERS, NODES):
        containers = deque([root])
        while containers and left > 0:
            node = containers.popleft()
            if node.is_container and node.level < LEVELS:
                left -= node.grow(min(most - len(node.members), left))
                containers.extend(node.members)
    return root


def _pairs(value: dict[str, Any] | list[Any]) -> Iterator[tuple[str | None, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    else:
        yield from ((None, member) for member in value)


class _Tree:
    """Makes the markup of chosen nodes."""

    def __init__(self, marker: Marker) -> None:
        self._marker = marker

    def markup(self, node: _Node) -> SafeString:
        if node.is_container:
            return self._container(node)
        key = self._key(node.key)
        return format_html('<div class="fdbqueue-leaf">{}{}</div>', key, self._scalar(node.value))

    def _container(self, node: _Node) -> SafeString:
        summary = self._summary(node)
        marks = self._marker.count
        members = self._members(node)
        is_open = not node.level or self._marker.count > marks
        is_open = is_open or (node.level < _OPEN_LEVELS and len(node.value) <= _OPEN_MEMBERS)
        return format_html(
            '<details class="fdbqueue-node"{}><summary>{}</summary>{}</details>',
            mark_safe(" open") if is_open else "",
            summary,
            members,
        )

    def _summary(self, node: _Node) -> SafeString:
        brackets = "{}" if isinstance(node.value, dict) else "[]"
        count = len(node.value)
        size = ngettext("%(count)s member", "%(count)s members", count) % {"count": grouped(count)}
        return format_html(
            '{}<span class="fdbqueue-bracket">{}</span>'
            ' <span class="fdbqueue-size">{}</span> <span class="fdbqueue-bracket">{}</span>',
            self._key(node.key),
            brackets[0],
            size,
            brackets[1],
        )

    def _members(self, node: _Node) -> SafeString:
        if node.level >= LEVELS:
            return _note(_("Nested too deeply to show here; see the text below."))
        parts = [self.markup(member) for member in node.members]
        if node.left_out:
            counted = {"count": grouped(node.left_out)}
            text = _("%(count)s more; see the text below.")
            if not node.members:
                text = _("%(count)s not shown here; see the text below.")
            parts.append(_note(text % counted))
        return format_html_join("", "{}", ((part,) for part in parts))

    def _key(self, key: str | None) -> SafeString:
        if key is None:
            return mark_safe("")
        return format_html('<span class="fdbqueue-key">{}</span>: ', self._clipped(_ENCODE(key)))

    def _scalar(self, value: Any) -> SafeString:
        text = _ENCODE(value)
        markup = '<span class="fdbqueue-{}">{}</span>'
        shown = format_html(markup, _kind(value), self._clipped(text))
        if len(text) <= TEXT_CHARACTERS:
            return shown
        size = _("%(count)s characters; see the text below") % {"count": grouped(len(text))}
        return format_html('{} <span class="fdbqueue-size">({})</span>', shown, size)

    def _clipped(self, text: str) -> SafeString:
        shown = self._marker.marked(visible(text[:TEXT_CHARACTERS]))
        return shown if len(text) <= TEXT_CHARACTERS else format_html("{}…", shown)


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool) or value is None:
        return "literal"
    return "number" if isinstance(value, int | float) else "bracket"


def _note(text: str) -> SafeString:
    return format_html('<div class="fdbqueue-leaf fdbqueue-size">{}</div>', text)
