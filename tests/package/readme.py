"""The blocks of README.md, as a reader would copy them."""

from __future__ import annotations

import re
import textwrap

from tests.package.building import ROOT

_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    """Return the blocks of a language, in their order."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return [textwrap.dedent(body) for _, name, body in _BLOCK.findall(text) if name == language]


def file(name: str) -> str:
    """Return the first block that says that it belongs into a file."""
    return next(block for block in blocks("python") if block.startswith(f"# {name}\n"))
