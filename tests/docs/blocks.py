"""The fenced code blocks of the documentation, in their order."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
#: Kept for what it was: a changelog shows no code, and decisions tell of the past.
NOT_LOOKED_AT = frozenset({"CHANGELOG.md"})
_PROJECT = re.compile(r"<!-- project: (\w+) -->")
_FILE = re.compile(r"# ([\w./-]+\.py)\n")


class Block(NamedTuple):
    """A code block: its language, its text, and the line it begins in."""

    kind: str
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The file that the block is, where its first line names one."""
        found = _FILE.match(self.text) if self.kind == "python" else None
        return found[1] if found else None


class Page(NamedTuple):
    """A file of the documentation."""

    path: str

    @property
    def text(self) -> str:
        """What is in the file."""
        return (ROOT / self.path).read_text(encoding="utf-8")

    @property
    def tokens(self) -> list[Token]:
        """The file as Markdown."""
        return _parsed(self.text)

    @property
    def project(self) -> str:
        """The kind of project that its blocks are run in."""
        found = _PROJECT.search(self.text)
        return found[1] if found else "ready"

    @property
    def blocks(self) -> list[Block]:
        """Its code blocks; one that is only indented has no kind."""
        found = []
        for token in self.tokens:
            if token.type in {"fence", "code_block"}:
                assert token.map
                kind = token.info.strip() if token.type == "fence" else ""
                found.append(Block(kind, token.content, token.map[0] + 1))
        return found


@functools.cache
def _parsed(text: str) -> list[Token]:
    """Parse a page once: each of its links and blocks is looked at by itself."""
    return MarkdownIt("commonmark").enable("table").parse(text)


def pages() -> list[Page]:
    """Return all files of the documentation."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "project" / "README.md"]
    names = {str(path.relative_to(ROOT)) for path in found}
    return [Page(name) for name in sorted(names - NOT_LOOKED_AT)]
