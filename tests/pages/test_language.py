"""Every word a reader sees can be translated."""

from __future__ import annotations

import ast
import gettext
import re
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


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_a_template_has_no_word_that_is_not_marked(template):
    """All text stands in a tag that translates it."""
    assert not re.search(r"\w", _TAGS.sub(" ", template.read_text(encoding="utf-8")))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_attribute_has_a_word_that_is_not_marked(template):
    """Labels and titles that readers hear are translated too."""
    markup = template.read_text(encoding="utf-8")
    for name in ("aria-label", "title", "alt", "placeholder", "data-failed", "value"):
        for value in re.findall(rf'\s{name}="([^"]*)"', markup):
            assert not re.search(r"\w", _TAGS.sub(" ", value)), value


def catalog():
    """Return the German translations of the package, by what they translate."""
    with (PACKAGE / "locale" / "de" / "LC_MESSAGES" / "django.mo").open("rb") as file:
        return gettext.GNUTranslations(file)


def marked():
    """Return the texts that are marked in the templates and in the pages' modules."""
    found = set()
    for path in TEMPLATES:
        markup = path.read_text(encoding="utf-8")
        found |= {words for _, words in re.findall(r"""{% translate (["'])(.*?)\1 %}""", markup)}
    for path in [*PACKAGE.glob("pages/*.py"), PACKAGE / "views.py", PACKAGE / "models.py"]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "_":
                found.add(node.args[0].value)
    return found


def test_every_text_has_a_german_translation():
    """The catalog that is shipped is complete, and compiled."""
    translations = catalog()
    texts = marked()
    assert len(texts) > 100
    assert {words for words in texts if words not in translations._catalog} == set()


@pytest.fixture
def polyglot(settings):
    """A project that asks each reader's browser for the language."""
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    yield
    translation.deactivate()  # the middleware leaves the last reader's in place


def test_a_reader_gets_the_pages_in_their_language(viewer, queue, polyglot):
    """Headers, numbers, plurals and problems."""
    queue("mail").push_many(range(1_234))
    german = {"accept-language": "de"}
    listed, one = (text(viewer.get(page, headers=german)) for page in (LIST, of("mail")))
    assert ">Eingänge je Minute</a>" in listed
    assert ">1.234</td>" in listed
    assert "Einträge 1 bis 50" in one
    assert "vor weniger als einer Minute" in one
    assert "1234 Einträge wurden angesehen." in text(
        viewer.get(of("mail") + "?q=x", headers=german)
    ).replace("1.234", "1234")
    assert "Keine Warteschlange hat diesen Namen." in text(viewer.get(of("no"), headers=german))
    for english in ("Ready", "Pushed", "Next page", "every 5"):
        assert f">{english}" not in one.partition("<main")[2]


def test_a_language_that_is_read_from_the_right_changes_nothing_stored(viewer, queue, polyglot):
    """The frame turns round; values and ids stay as they are."""
    item = queue("mail").push({"n": 1_234})
    markup = text(viewer.get(of("mail", item), headers={"accept-language": "ar"}))
    assert 'dir="rtl"' in markup
    assert item.id in markup
    assert "&quot;n&quot;: 1234" in markup
