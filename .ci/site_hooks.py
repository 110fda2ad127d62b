"""On the site the home begins with the README, and links out of docs/ lead to the repository."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

_README = Path(__file__).resolve().parent.parent / "README.md"
_HOME = "README.md"
_LINK = re.compile(r"\]\((\.\.?/[^)\s]+)\)")
#: A link that begins with neither an address nor an anchor.
_RELATIVE = re.compile(r"\]\((?!\w+:|#)([^)\s]+)\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Return a page's text with the links to files outside docs/ written out in full."""
    if page.file.src_uri == _HOME:
        pages = markdown[markdown.index("\n## ") :]
        markdown = f"{_pitch()}{pages}"
    folder = posixpath.dirname(page.file.src_uri)

    def leave(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", folder, link[1]))
        if path.startswith("docs/"):
            return link[0]
        return f"]({config.repo_url}/blob/main/{path})"

    return _LINK.sub(leave, markdown)


def _pitch() -> str:
    """Return the README with its links as they are from docs/."""
    text = _README.read_text(encoding="utf-8")
    return _RELATIVE.sub(lambda link: f"]({posixpath.relpath(link[1], 'docs')})", text)
