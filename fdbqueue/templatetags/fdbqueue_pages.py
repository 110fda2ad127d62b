"""The buttons of a page: ``{% offers "pause" as pausing %}``."""

from __future__ import annotations

from typing import Any

from django import template

from fdbqueue.pages import actions

register = template.Library()


@register.simple_tag(takes_context=True)
def offers(context: Any, names: str, of: str = "", **chosen: str) -> list[actions.Offer]:
    """Return the buttons of actions on the queue or the family of a page; none if they are off.

    Args:
        context: That of the page.
        names: The names of the actions, apart by blanks.
        of: The name of another queue or family; empty for the page's.
        chosen: The ``id`` of the item, or the ``reason`` of the dead letters.
    """
    if not actions.are_on():
        return []
    name = of or (context.get("queue") or context["family"]).name
    addresses, user = context["addresses"], context.request.user
    return actions.offers(user, addresses, name, *names.split(), **chosen)
