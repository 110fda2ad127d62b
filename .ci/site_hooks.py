"""Let links of the pages that leave docs/ lead to the repository, when the site is built."""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\]\((\.\.?/[^)\s]+)\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Return a page's text with the links to files outside docs/ written out in full."""
    folder = posixpath.dirname(page.file.src_uri)

    def leave(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", folder, link[1]))
        if path.startswith("docs/"):
            return link[0]
        return f"]({config.repo_url}/blob/main/{path})"

    return _LINK.sub(leave, markdown)
