"""The blocks of README.md and the quickstart, as a reader would copy them."""

from __future__ import annotations

import re
import textwrap

from tests.package.building import ROOT

_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def blocks(language: str, page: str = "README.md") -> list[str]:
    """Return the blocks of a language on a page, in their order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [textwrap.dedent(body) for _, name, body in _BLOCK.findall(text) if name == language]


def file(name: str) -> str:
    """Return the first block of the quickstart for a file, without what is for tasks.

    On Django 5.2 tasks need a package that is not installed with this one.
    """
    found = blocks("python", "docs/quickstart.md")
    block = next(block for block in found if block.startswith(f"# {name}\n"))
    lines = block.replace(', "fdbqueue.tasks"', "").splitlines()
    return "\n".join(line for line in lines if not line.startswith("TASKS"))


def session() -> str:
    """Return what README.md shows of a queue in Python."""
    return next(block for block in blocks("pycon") if block.startswith(">>> import fdbqueue\n"))
