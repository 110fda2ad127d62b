"""The documentation's site has each page, once, and its home is the README."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace

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


def test_the_home_is_the_readme_with_the_list_of_pages():
    """It begins as the README does, and each of its links leads to a page or to the repository."""
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / ".ci" / "site_hooks.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    readme, index = (path.read_text() for path in (ROOT / "README.md", DOCS / "README.md"))
    page = SimpleNamespace(file=SimpleNamespace(src_uri="README.md"))
    config = SimpleNamespace(repo_url="https://example.com/us")
    home = hooks.on_page_markdown(index, page=page, config=config)
    assert home.startswith(readme[: readme.index("](")])
    assert "\n## How to\n" in home
    links = re.findall(r"\]\(([^)\s]+)\)", home)
    files = {link.partition("#")[0] for link in links if "://" not in link}
    assert len(files) > 40
    assert [file for file in files if not (DOCS / file).exists()] == []
    assert "https://example.com/us/blob/main/CHANGELOG.md" in links
