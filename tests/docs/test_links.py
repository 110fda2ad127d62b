"""The documentation hangs together: its links lead somewhere, and its index to everything."""

from __future__ import annotations

import itertools
import re
from urllib.parse import urlsplit

from tests.cases import cases
from tests.docs.blocks import ROOT, Page, pages


def links(page):
    """Yield where the links and pictures of a page lead to."""
    for token in page.tokens:
        for child in token.children or []:
            for name in ("href", "src"):
                if target := child.attrGet(name):
                    yield str(target)


def anchors(page):
    """Return the anchors of a page's headings, as GitHub makes them."""
    found = set()
    for token, inline in itertools.pairwise(page.tokens):
        if token.type == "heading_open":
            text = "".join(child.content for child in inline.children or [])
            anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            count = sum(1 for one in found if re.fullmatch(re.escape(anchor) + r"(-\d+)?", one))
            found.add(f"{anchor}-{count}" if count else anchor)
    return found


def wrong(page):
    """Yield the links of a page that lead nowhere."""
    here = (ROOT / page.path).parent
    for target in links(page):
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            continue
        file = (here / parts.path).resolve() if parts.path else ROOT / page.path
        if not file.exists() or not file.is_relative_to(ROOT):
            yield target
            continue
        is_page = bool(parts.fragment) and file.suffix == ".md"
        if is_page and parts.fragment not in anchors(Page(str(file.relative_to(ROOT)))):
            yield target


@cases("page", pages())
def test_the_links_of_a_page_lead_somewhere(page):
    """Each relative link is a file of the repository, and its anchor a heading in it."""
    assert list(wrong(page)) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path, monkeypatch):
    """A file that is not there, an anchor that is not there, and a way out of the repository."""
    monkeypatch.setattr("tests.docs.test_links.ROOT", tmp_path)
    monkeypatch.setattr("tests.docs.blocks.ROOT", tmp_path)
    (tmp_path / "a.md").write_text("# One `two`\n# One two\n[a](#one-two) [b](#one-two-1)\n")
    (tmp_path / "b.md").write_text("[a](a.md#one) [b](c.md) [c](..) [d](https://x.test) ![](e.png)")
    assert list(wrong(Page("a.md"))) == []
    assert list(wrong(Page("b.md"))) == ["a.md#one", "c.md", "..", "e.png"]


def test_the_index_leads_to_every_page():
    """Nothing is documented where nobody finds it; decisions have an index of their own."""
    indexes = [Page("docs/README.md"), Page("docs/decisions/README.md")]
    linked = {
        ((ROOT / index.path).parent / urlsplit(target).path).resolve()
        for index in indexes
        for target in links(index)
    }
    there = {path.resolve() for path in (ROOT / "docs").rglob("*.md")} - {ROOT / indexes[0].path}
    assert there <= linked
