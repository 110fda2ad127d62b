"""Write out the README's links in full for a package index; the rest is in pyproject.toml."""

from __future__ import annotations

import re
from pathlib import Path

from setuptools import setup

REPOSITORY = "https://github.com/fdbqueue/fdbqueue"
FILES = "https://raw.githubusercontent.com/fdbqueue/fdbqueue"
_HERE = Path(__file__).parent
#: A link or picture that begins with neither an address nor an anchor.
_RELATIVE = re.compile(r"(!?)(\[[^\]]*\])\((?!\w+:|#)([^)]+)\)")


def readme() -> str:
    """Return README.md with links that lead to this version's files in the repository."""
    pyproject = (_HERE / "pyproject.toml").read_text(encoding="utf-8")
    tag = "v" + re.findall(r'^version = "(.+)"$', pyproject, re.MULTILINE)[0]

    def absolute(link: re.Match[str]) -> str:
        is_picture, text, path = link.groups()
        base = f"{FILES}/{tag}" if is_picture else f"{REPOSITORY}/blob/{tag}"
        return f"{is_picture}{text}({base}/{path})"

    return _RELATIVE.sub(absolute, (_HERE / "README.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    setup(long_description=readme(), long_description_content_type="text/markdown")
