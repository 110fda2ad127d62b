"""Values as markup, and the buttons of a page, for templates: ``{% load fdbqueue_pages %}``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.translation import gettext as _

from fdbqueue.columns import markup
from fdbqueue.pages import action_page
from fdbqueue.pages.values import previewed

register = template.Library()
WRITTEN = (
    markup.text,
    markup.code,
    markup.moment,
    markup.reason,
    markup.traceback,
    previewed,
)
for written in WRITTEN:
    register.filter(written.__name__, written)


@register.simple_tag
def copy(copies: str, words: str, *, number: object = "", label: str = "", own_id: str = "") -> str:
    """Return the button that copies a text.

    Args:
        copies: The id of what has the text, or with ``number`` its beginning.
        words: What the button says.
        number: The end of that id.
        label: What the button says to a screen reader; empty for the same words.
        own_id: The button's own id; empty for none.
    """
    return format_html(
        '<button type="button"{} class="fdbqueue-copy" data-copies="{}{}" data-copied="{}" '
        'data-failed="{}"{} hidden>{}</button>',
        format_html(' id="{}"', own_id) if own_id else "",
        copies,
        number,
        _("Copied"),
        _("Could not copy. The text is selected: copy it with the keyboard."),
        format_html(' aria-label="{}"', label) if label else "",
        words,
    )


@register.simple_tag(takes_context=True)
def offers(
    context: Any, names: str, of: str = "", others: Iterable[str] = (), **chosen: str
) -> list[action_page.Offer]:
    """Return the buttons of actions on the queue or the family of a page; none if they are off.

    Args:
        context: That of the page.
        names: The names of the actions, apart by blanks.
        of: The name of another queue or family; empty for the page's.
        others: Other queues that the user must be allowed to do them to.
        chosen: The ``id`` of the item; or ``dead``, ``all`` or the digest of a reason.
    """
    name = of or (context.get("queue") or context["family"]).name
    addresses, user = context["addresses"], context.request.user
    return action_page.offers(user, addresses, name, *names.split(), others=others, **chosen)
