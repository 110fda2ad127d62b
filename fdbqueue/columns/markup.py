"""Single values as markup: texts, moments, sizes, reasons. What is not markup yet is escaped.

The kinds of columns write values by these functions, and so do the templates of the pages, which
have them as filters (``{{ worker|text }}``).
"""

from __future__ import annotations

import html
from typing import Any

from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext as _

from fdbqueue.columns.text import FoldedText, Moment, Size

#: What a page shows of nothing.
DASH = "\N{EN DASH}"
#: Words of more characters may take several lines.
_ONE_LINE = 20


def escaped(value: Any) -> SafeString:
    """Return a value as markup; Django's own way to escape it makes many more calls."""
    if hasattr(value, "__html__"):
        return SafeString(value.__html__())
    return SafeString(html.escape(str(value)))


def filled(shown: str, *values: Any) -> SafeString:
    """Return markup with values in the places of its braces, each escaped."""
    return SafeString(shown.format(*map(escaped, values)))


def quiet(words: str | Promise) -> SafeString:
    """Return words that stand back."""
    return filled('<span class="fdbqueue-quiet">{}</span>', words)


def text(value: str | Promise) -> SafeString:
    """Return a text that anyone may have made, in its own direction."""
    return filled("<bdi>{}</bdi>", value)


def cut(value: str) -> SafeString:
    """Return a text that its column may cut off: hovering shows all of it."""
    return filled('<bdi title="{0}">{0}</bdi>', value) if value else text(value)


def breakable(path: str) -> SafeString:
    """Return a dotted path as markup, which a narrow column breaks after its dots."""
    parts = path.replace("_", "_\0").replace(".", ".\0").split("\0")
    return filled("<bdi>{}</bdi>", SafeString("<wbr>".join(map(escaped, parts))))


def lines(value: str) -> SafeString:
    """Return a text that keeps its lines."""
    return filled('<div class="fdbqueue-unfolded">{}</div>', text(value))


def code(value: str | Promise) -> SafeString:
    """Return a text for programs."""
    return filled('<bdi dir="ltr"><code>{}</code></bdi>', value)


def age(value: Moment) -> SafeString:
    """Return how far away a moment is; hovering shows the moment."""
    css = ' class="fdbqueue-words"' if len(value.words) > _ONE_LINE else ""
    shown = f'<time{css} datetime="{{}}" title="{{}}">{{}}</time>'
    return filled(shown, *_in_time_zone(value), value.words)


def moment(value: Moment) -> SafeString:
    """Return a moment, and how far away it is."""
    shown = '<time datetime="{}">{}</time> <span class="fdbqueue-quiet fdbqueue-fact">{}</span>'
    return filled(shown, *_in_time_zone(value), value.words)


def _in_time_zone(value: Moment) -> tuple[str, str]:
    """Return a moment in the project's time zone, for programs and for people."""
    at = localtime(value.at)
    return at.isoformat(), f"{at:%Y-%m-%d %H:%M:%S %Z}"


def size(value: Size) -> SafeString:
    """Return a number of bytes; hovering shows it exactly."""
    return filled('<span title="{}">{}</span>', value.exact, value.words)


def reason(value: FoldedText) -> SafeString:
    """Return the reason of a dead letter; what is more than its beginning unfolds."""
    if value.whole:
        return filled(
            '<details id="{}" class="fdbqueue-folded"><summary>{}</summary>{}</details>',
            value.element_id,
            _beginning(value.beginning),
            lines(value.whole),
        )
    return _beginning(value.beginning) if value.beginning else quiet(_("no reason given"))


def _beginning(value: str) -> SafeString:
    return text(value) if " " in value else breakable(value)


def traceback(value: str, label: str) -> SafeString:
    """Return the markup of a traceback; ``label`` is its name for screen readers."""
    return filled(
        '<pre class="fdbqueue-whole fdbqueue-traceback" role="region" aria-label="{}" tabindex="0" '
        'dir="ltr">{}</pre>',
        label,
        value,
    )
