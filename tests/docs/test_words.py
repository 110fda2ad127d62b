"""The documentation is short, and the pages that are read first have short sentences."""

from __future__ import annotations

import re

from tests.cases import cases
from tests.docs.blocks import Page, pages

#: Words of a page, code and tables included; of a page that is not named, ``MAX_WORDS``.
MAX_WORDS = 2_000
LIMITS = {
    "README.md": 700,
    "docs/quickstart.md": 650,
    "docs/tasks.md": 1_800,
    "docs/benchmarks.md": 900,
    "docs/other-task-queues.md": 900,
}
#: Lines of a how-to, which answers one question.
MAX_LINES_OF_A_HOW_TO = 80
#: Words of a decision, and of all together.
MAX_WORDS_OF_A_DECISION = 500
MAX_WORDS_OF_DECISIONS = 7_000
#: Words of ``docs/`` and the README together, without the decisions.
MAX_WORDS_IN_ALL = 32_000
#: Words of one sentence, on the pages that most readers begin with.
MAX_WORDS_OF_A_SENTENCE = 30
PLAIN = ("README.md", "docs/quickstart.md", "docs/guarantees.md", "docs/tasks.md")
DECISIONS = "docs/decisions/"
DOCUMENTATION = [
    page
    for page in pages()
    if page.path == "README.md"
    or (page.path.startswith("docs/") and not page.path.startswith(DECISIONS))
]


def words(text):
    """Return how many words a text has: what stands between spaces and has a letter or a digit.

    The signs of tables are no words, nor is a comment, which no reader sees.
    """
    shown = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    return sum(1 for one in shown.split() if re.search(r"\w", one))


def sentences(page):
    """Yield the sentences of a page: of paragraphs, list items, headings and cells, not of code."""
    for token in page.tokens:
        if token.type == "inline":
            text = "".join(
                " " if child.type == "softbreak" else child.content
                for child in token.children or []
            )
            yield from re.split(r"(?<=[.!?])\s+", text)


@cases("page", DOCUMENTATION)
def test_a_page_is_short(page):
    """No page has more words than its limit: what is said twice, or is for few, goes elsewhere."""
    assert words(page.text) <= LIMITS.get(page.path, MAX_WORDS)


@cases("page", [page for page in pages() if page.path.startswith("docs/how-to/")])
def test_a_how_to_is_short(page):
    """A second question has a page of its own."""
    assert len(page.text.splitlines()) <= MAX_LINES_OF_A_HOW_TO


@cases("page", [page for page in pages() if page.path.startswith(DECISIONS)])
def test_a_decision_is_a_page(page):
    """It has the reasons, and no more."""
    assert words(page.text) <= MAX_WORDS_OF_A_DECISION


def test_the_decisions_are_short():
    """Who wants to change what was decided can read all of them."""
    found = [words(page.text) for page in pages() if page.path.startswith(DECISIONS)]
    assert len(found) > 20
    assert sum(found) <= MAX_WORDS_OF_DECISIONS


def test_the_documentation_is_short():
    """All pages together have few enough words to be read."""
    assert sum(words(page.text) for page in DOCUMENTATION) <= MAX_WORDS_IN_ALL


@cases("path", PLAIN)
def test_sentences_are_short(path):
    """A sentence of a page that is read first says one thing."""
    long = [one for one in sentences(Page(path)) if words(one) > MAX_WORDS_OF_A_SENTENCE]
    assert long == []


def test_sentences_are_found(tmp_path, monkeypatch):
    """A full stop ends one, in a cell too; a link counts by its text, and a block not at all."""
    monkeypatch.setattr("tests.docs.blocks.ROOT", tmp_path)
    text = "# Head\nOne `two`. [Three\nfour](x.md)!\n\n| a | b |\n|---|---|\n| c. d | e |\n"
    (tmp_path / "page.md").write_text(f"{text}\n```python\nfive\n```\n")
    found = list(sentences(Page("page.md")))
    assert found == ["Head", "One two.", "Three four!", "a", "b", "c.", "d", "e"]
