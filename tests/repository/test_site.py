"""The documentation's site has each page, once."""

from __future__ import annotations

from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def _pages(nav):
    """Yield the pages of a part of ``nav``."""
    if isinstance(nav, str):
        yield nav
        return
    for one in nav.values() if isinstance(nav, dict) else nav:
        yield from _pages(one)


def test_each_page_is_in_the_navigation():
    """A page that is not there would end the site's build; a decision is found by their index."""
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    found = sorted(_pages(settings["nav"]))
    there = set(DOCS.rglob("*.md")) - set(DOCS.glob(settings["not_in_nav"].strip("/")))
    assert found == sorted(str(page.relative_to(DOCS)) for page in there)
