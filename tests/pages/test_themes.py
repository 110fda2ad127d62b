"""Themes of the admin: a page says all that it says in what each of them has."""

from __future__ import annotations

import re

import pytest
from django.contrib.staticfiles import finders

from tests.pages.addresses import LIST, of, text

#: What the templates of django-unfold, django-jazzmin and Django's own admin all have.
THEME = """<title>{% block title %}{% endblock %}</title>
{% block extrastyle %}{% endblock %}{% block extrahead %}{% endblock %}
<body class="{% block bodyclass %}{% endblock %}">{% block content %}{% endblock %}</body>"""


@pytest.fixture
def theme(settings, tmp_path):
    """A theme stands before the admin."""
    folder = tmp_path / "admin"
    folder.mkdir()
    (folder / "base_site.html").write_text(THEME)
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [tmp_path]}]


def test_a_page_has_its_heading_and_its_links_in_each_theme(theme, viewer, queue):
    """Which queue or item it is, the way to an id, and the one that refreshes it."""
    item = queue("mail").push(1)
    for address, heading in (
        (LIST, "Queues"),
        (of("mail"), "mail"),
        (of("mail", item), "Item in mail"),
        (f"{LIST}-/workers/", "Workers"),
        (of("nothing"), "Queue not found"),
    ):
        page = text(viewer.get(address))
        assert re.findall("<h1>(.*?)</h1>", page) == [heading]
        assert 'href="/static/fdbqueue/pages.css"' in page
        assert re.search('<body class="[^"]*fdbqueue-pages', page)
        is_read = heading != "Queue not found"
        assert (">Refresh now</a>" in page) is is_read
        assert ("Find by id" in page) is (is_read and not heading.startswith("Item"))


def test_the_styles_need_no_colour_of_the_admin():
    """Where a theme has none of its names, another takes its place."""
    with open(finders.find("fdbqueue/pages.css"), encoding="utf-8") as file:
        styles = file.read()
    used = re.findall(r"var\(--([\w-]+)(,?)", styles)
    assert len(used) > 80
    assert [name for name, other in used if not (name.startswith("fdbqueue-") or other)] == []
    defined = set(re.findall(r"--([\w-]+):", styles))
    assert {name for name, _ in used if name.startswith("fdbqueue-")} <= defined
