"""The addresses of the pages, and helpers to find things in them."""

from __future__ import annotations

import html
import re
from typing import Any

LIST = "/admin/fdbqueue/queuename/"


def of(name: str, item: Any = None) -> str:
    """Return the address of a queue's page, or of the page of one of its items."""
    return f"{LIST}{name}/" if item is None else f"{LIST}{name}/items/{item.id}/"


def text(response: Any) -> str:
    """Return the markup of a page."""
    return response.content.decode()


def items(response: Any) -> list[str]:
    """Return the ids of the items in a queue's page, in their order."""
    return re.findall(r'<a id="item-([^"]+)"', text(response))


def following(response: Any) -> str | None:
    """Return the address of the next page, None where there is no link to one."""
    return _link("next", response)


def previous(response: Any) -> str | None:
    """Return the address of the page before, None where there is no link to one."""
    return _link("prev", response)


def first(response: Any) -> str | None:
    """Return the address of the first page, None where there is no link to it."""
    found = re.search(r'id="page-first" href="([^"]+)"', text(response))
    return html.unescape(found[1]) if found else None


def _link(rel: str, response: Any) -> str | None:
    found = re.search(rf'rel="{rel}" href="([^"]+)"', text(response))
    return html.unescape(found[1]) if found else None
