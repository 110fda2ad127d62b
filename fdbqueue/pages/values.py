"""How the value of an item is shown, and how much of it: a preview, text, a dump, and a tree.

Every page shows values by these functions. The preview is one line of a table, or what is around
the hit of a search. The page of an item shows JSON as a tree that folds by ``<details>``, which
needs no script, with the text of the whole value below it; bytes are dumped. All of it is bounded,
whatever the value. The nodes of a tree are chosen level by level, so a member that is large hides
none of its siblings. Only this module and :mod:`fdbqueue.pages.search` turn values into markup,
and they escape every text.
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fdbqueue.columns.text import PREVIEW_CHARACTERS, clip, grouped, visible
from fdbqueue.pages.search import Highlighter, places, text_of
from fdbqueue.service import Codec, LongText, Undecodable

#: A preview has this much of the value before a hit.
_BEFORE_HIT = 30
#: JSON that would be longer than this once indented is not indented: deep nesting turns a
#: value of 100 kB into hundreds of megabytes of spaces.
INDENTED_CHARACTERS = 400_000

#: No text on an item's page is longer than this,
TEXT_CHARACTERS = 500_000
#: unless the reader asks for the whole value; then it is this, more than most values have.
WHOLE_CHARACTERS = 5_000_000
#: At most this many bytes are dumped: as many as FoundationDB stores under one key.
DUMPED_BYTES = 100_000

#: A tree shows at most this many values,
TREE_NODES = 1_000
#: and this many levels: a browser's parser flattens what is nested more than 512 elements deep.
TREE_LEVELS = 100
#: At most this many characters of a text or of a number in a tree are shown.
TREE_CHARACTERS = 1_000
#: So many rows of a list say what they share above it, and not in each.
_MANY = 3
#: Each container shows this many members before any shows more.
_FIRST_MEMBERS = 50
#: Values deeper than this are folded at first.
_OPEN_LEVELS = 4
#: Lists and objects with more members are folded, too.
_OPEN_MEMBERS = 50

_HEX_COLUMNS = 16
_JSON = json.JSONEncoder(ensure_ascii=False)
_INDENTED = json.JSONEncoder(ensure_ascii=False, indent=2)


@dataclass(frozen=True, slots=True)
class Preview:
    """The beginning of a value, in one line, or what is around a hit in it.

    Attributes:
        text: The beginning, or what is before the hit.
        clipped: Whether the value goes on after what is shown.
        decodable: Whether the codec can read the value.
        hit: What a search has found; empty if there was none.
        rest: What is after the hit.
        begins_later: Whether the value has more before what is shown.
    """

    text: str
    clipped: bool
    decodable: bool
    hit: str = ""
    rest: str = ""
    begins_later: bool = False


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
    problem = shortened = hit = SafeString("")
    if not value.decodable:
        shown = '<strong class="fdbqueue-problem">{}</strong> '
        problem = format_html(shown, _("Cannot be decoded"))
    if value.hit:
        hit = format_html("<mark>{}</mark>{}", value.hit, value.rest)
    if value.clipped or value.begins_later:
        shown = '<span class="visually-hidden"> {}</span>'
        shortened = format_html(shown, _("(shortened)"))
    return format_html(
        '{}<bdi dir="ltr"><code>{}{}{}{}</code></bdi>{}',
        problem,
        "…" if value.begins_later else "",
        value.text,
        hit,
        "…" if value.clipped else "",
        shortened,
    )


def preview(value: Any, codec: Codec, wanted: str = "", shared: Collection[str] = ()) -> Preview:
    """Return the beginning of a value, or what is around the first hit of a search in it.

    Without a text to look for, the rest of the value costs nothing. Members that are shared with
    the other values of a list are left out.
    """
    found = _around_hit(value, codec, wanted) if wanted else None
    if found is not None:
        return found
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
        return dumped(value.raw, problem=visible(value.reason))
    if isinstance(value, bytes):
        return dumped(value)
    if isinstance(value, LongText):
        shown = _texted(value, _("JSON"), most)
        return replace(shown, problem=_("This value is too long to show as a tree."))
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


def _around_hit(value: Any, codec: Codec, wanted: str) -> Preview | None:
    """Return what is around the first hit in a value, None if there is none."""
    text, folded = text_of(value, codec), visible(wanted).casefold()
    found = next(places(text, folded), None)
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


def _beginning(value: Any, codec: Codec) -> str:
    if isinstance(value, bytes):
        return repr(value[: PREVIEW_CHARACTERS + 1])
    if isinstance(value, LongText):
        return value[: PREVIEW_CHARACTERS + 1]
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


@dataclass(slots=True)
class _Node:
    """A value that is shown, with its members that are shown."""

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


def tree(value: Any, highlighter: Highlighter | None = None) -> SafeString:
    """Return the markup of a JSON value.

    Args:
        value: The value.
        highlighter: Highlights a text in it; what is folded opens if it has a hit.
    """
    return _Tree(highlighter or Highlighter("")).markup(_chosen(value))


def _chosen(value: Any) -> _Node:
    """Return the nodes to show: all of a level before any of the next, up to the limit.

    First a few members of each container, then more of each, so that no long one uses up the limit.
    """
    root = _Node(value)
    left = TREE_NODES - 1
    for most in (_FIRST_MEMBERS, TREE_NODES):
        containers = deque([root])
        while containers and left > 0:
            node = containers.popleft()
            if node.is_container and node.level < TREE_LEVELS:
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

    def __init__(self, highlighter: Highlighter) -> None:
        self._highlighter = highlighter

    def markup(self, node: _Node) -> SafeString:
        if node.is_container:
            return self._container(node)
        key = self._key(node.key)
        return format_html('<div class="fdbqueue-leaf">{}{}</div>', key, self._scalar(node.value))

    def _container(self, node: _Node) -> SafeString:
        summary = self._summary(node)
        hits = self._highlighter.count
        members = self._members(node)
        is_open = not node.level or self._highlighter.count > hits
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
        if node.level >= TREE_LEVELS:
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
        return format_html(
            '<span class="fdbqueue-key">{}</span>: ', self._clipped(_JSON.encode(key))
        )

    def _scalar(self, value: Any) -> SafeString:
        text = _JSON.encode(value)
        markup = '<span class="fdbqueue-{}">{}</span>'
        shown = format_html(markup, _kind(value), self._clipped(text))
        if len(text) <= TREE_CHARACTERS:
            return shown
        size = _("%(count)s characters; see the text below") % {"count": grouped(len(text))}
        return format_html('{} <span class="fdbqueue-size">({})</span>', shown, size)

    def _clipped(self, text: str) -> SafeString:
        shown = self._highlighter.highlighted(visible(text[:TREE_CHARACTERS]))
        return shown if len(text) <= TREE_CHARACTERS else format_html("{}…", shown)


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool) or value is None:
        return "literal"
    return "number" if isinstance(value, int | float) else "bracket"


def _note(text: str) -> SafeString:
    return format_html('<div class="fdbqueue-leaf fdbqueue-size">{}</div>', text)
