"""Every word a reader sees can be translated."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from django.utils import translation

import fdbqueue
from tests.pages.addresses import LIST, of, text

PACKAGE = Path(fdbqueue.__file__).parent
TEMPLATES = sorted(PACKAGE.glob("templates/**/*.html"))

#: What is no word: units of time that follow a translated number, marks, keywords of HTML.
_TAGS = re.compile(
    r"{% block bodyclass.*?{% endblock %}|{% blocktranslate.*?{% endblocktranslate %}"
    r"|{%.*?%}|{{.*?}}|<!DOCTYPE html>|<[^>]*>|&\w+;",
    re.DOTALL,
)


_ATTRIBUTE = re.compile(r'\s(?:aria-label|title|alt|placeholder|data-failed|value)="([^"]*)"')


def has_a_word(markup):
    """Tell whether a word stands outside of the tags that translate it."""
    return bool(re.search(r"\w", _TAGS.sub(" ", markup)))


def test_no_template_has_a_word_that_is_not_marked():
    """All text stands in a tag that translates it."""
    assert [t.name for t in TEMPLATES if has_a_word(t.read_text(encoding="utf-8"))] == []


def test_no_attribute_has_a_word_that_is_not_marked():
    """Labels and titles that readers hear are translated too."""
    values = [(t.name, v) for t in TEMPLATES for v in _ATTRIBUTE.findall(t.read_text("utf-8"))]
    assert values
    assert [(name, value) for name, value in values if has_a_word(value)] == []


WORDS = {
    "Pushes/min": "Eingänge/min",
    "Items %(first)s to %(last)s of %(total)s": "Einträge %(first)s bis %(last)s von %(total)s",
    "%(time)s ago": "vor %(time)s",
    "There is no queue with this name.": "Keine Warteschlange hat diesen Namen.",
}


def compiled(words):
    """Return a catalogue as gettext reads it: a header, two tables and the texts."""
    pairs = sorted({"": "Content-Type: text/plain; charset=UTF-8\n", **words}.items())
    count = len(pairs)
    tables, texts, start = b"", b"", 28 + 16 * count
    for side in (0, 1):
        for pair in pairs:
            text_bytes = pair[side].encode()
            tables += struct.pack("<2I", len(text_bytes), start + len(texts))
            texts += text_bytes + b"\0"
    header = struct.pack("<7I", 0x950412DE, 0, count, 28, 28 + 8 * count, 0, 0)
    return header + tables + texts


@pytest.fixture
def polyglot(settings, tmp_path):
    """A project with a catalogue of its own, that asks each reader's browser for the language."""
    folder = tmp_path / "de" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    (folder / "django.mo").write_bytes(compiled(WORDS))
    settings.LOCALE_PATHS = [tmp_path]
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    yield
    translation.deactivate()  # the middleware leaves the last reader's in place


def test_a_reader_gets_the_pages_in_their_language(viewer, queue, polyglot):
    """Headers, sentences, ages, numbers and problems, from the project's catalogue."""
    queue("mail").push_many(range(1_234))
    german = {"accept-language": "de"}
    listed, one = (text(viewer.get(page, headers=german)) for page in (LIST, of("mail")))
    assert ">Eingänge/min</a>" in listed
    assert ">1.234</a></td>" in listed
    assert "Einträge 1 bis 50 von 1.234" in one
    assert re.search(r">vor \d+ s</time>", one)
    assert "Keine Warteschlange hat diesen Namen." in text(viewer.get(of("no"), headers=german))


def test_a_language_that_is_read_from_the_right_changes_nothing_stored(viewer, queue, polyglot):
    """The frame turns round; values and ids stay as they are."""
    item = queue("mail").push({"n": 1_234})
    markup = text(viewer.get(of("mail", item), headers={"accept-language": "ar"}))
    assert 'dir="rtl"' in markup
    assert item.id in markup
    assert "&quot;n&quot;: 1234" in markup
