"""Auto-refresh: the parts that htmx requests, and the choice of how often."""

from __future__ import annotations

import re

import pytest
from django.test import modify_settings

from fdbqueue.pages import item_page
from fdbqueue.pages.forms import LIVE_HEADER
from tests.pages.addresses import LIST, items, of, text

PART = {"HX-Request": "true"}


@pytest.mark.parametrize("address", [LIST, of("mail")])
def test_htmx_gets_the_live_part_alone(viewer, queue, address):
    """Without the frame, marked as what it is, and never out of a cache."""
    queue("mail").push("news")
    whole, part = viewer.get(address), viewer.get(address, headers=PART)
    assert "<html" not in text(part)
    assert "<form" not in text(part)
    assert part.headers[LIVE_HEADER] == "1"
    assert LIVE_HEADER not in whole.headers
    assert "HX-Request" in whole.headers["Vary"]
    assert "no-store" in whole.headers["Cache-Control"]
    assert len(part.content) < len(whole.content)


def test_the_part_of_a_queue_has_figures_and_items(viewer, queue):
    """Both places are refreshed by one answer."""
    item = queue("mail").push("news")
    part = viewer.get(of("mail"), headers=PART)
    assert items(part) == [item.id]
    assert '<div id="fdbqueue-figures" hx-swap-oob="innerHTML">' in text(part)
    assert re.search(r"<dt>Ready</dt><dd><a [^>]*>1</a></dd>", text(part))


@pytest.mark.parametrize("address", [LIST, of("mail")])
def test_a_page_asks_for_itself_every_few_seconds(viewer, address):
    """With all that was asked for, every five seconds unless told otherwise."""
    assert 'hx-trigger="every 5s"' in text(viewer.get(address))
    markup = text(viewer.get(address + "?refresh=30&q=a"))
    assert f'hx-get="{address}?refresh=30&amp;q=a" hx-trigger="every 30s"' in markup


def test_the_part_of_an_item_has_its_facts_alone(viewer, queue, monkeypatch):
    """Its value stays as it is; an item that is long to read is not asked for again."""
    address = of("mail", queue("mail").push("news"))
    assert f'hx-get="{address}" hx-trigger="every 5s"' in text(viewer.get(address))
    part = viewer.get(address, headers=PART)
    assert part.headers[LIVE_HEADER] == "1"
    assert "metadata-caption" in text(part)
    assert "hx-swap-oob" not in text(part)
    assert "value-heading" not in text(part)
    monkeypatch.setattr(item_page, "MAX_REFRESHED_BYTES", 3)
    assert "hx-get" not in text(viewer.get(address))


@pytest.mark.parametrize(("address", "query"), [(LIST, "q=a"), (of("mail"), "end=max")])
def test_refreshing_is_switched_off_by_a_link(viewer, address, query):
    """The page then asks for nothing, and its links keep it off."""
    markup = text(viewer.get(f"{address}?{query}"))
    assert f'href="?{query}&amp;refresh=0">off</a>' in markup
    still = text(viewer.get(f"{address}?{query}&refresh=0"))
    assert "hx-get" not in still
    assert 'aria-current="true">off</a>' in still
    assert '<input type="hidden" name="refresh" value="0"' in still


def test_a_search_is_repeated_only_when_asked_for(viewer):
    """It may read for seconds, so its page refreshes itself only where a reader chooses that."""
    assert "hx-get" not in text(viewer.get(of("mail") + "?q=a"))
    assert 'hx-trigger="every 5s"' in text(viewer.get(of("mail") + "?q=a&refresh=5"))


@pytest.mark.parametrize("address", [LIST, of("mail")])
def test_without_django_htmx_a_page_is_the_same(viewer, queue, address):
    """It has no script of htmx, and a link to refresh it."""
    queue("mail").push("news")
    with modify_settings(INSTALLED_APPS={"remove": "django_htmx"}):
        response = viewer.get(address + "?refresh=2")
    assert response.status_code == 200
    assert "htmx-2" not in text(response)
    assert "hx-get" not in text(response)
    assert f'<a href="{address}?refresh=2">Refresh now</a>' in text(response)


def test_a_page_that_cannot_be_made_is_no_part(viewer, queue):
    """So the script keeps what is shown: an error has no mark."""
    for address, status in ((of("nope"), 404), (of("mail") + "?limit=1", 400)):
        response = viewer.get(address, headers=PART)
        assert response.status_code == status
        assert LIVE_HEADER not in response.headers


def test_who_was_logged_out_gets_no_part(viewer):
    """The admin's login page is not taken for one."""
    viewer.logout()
    response = viewer.get(LIST, headers=PART, follow=True)
    assert response.status_code == 200
    assert LIVE_HEADER not in response.headers


def test_there_is_a_place_to_say_that_a_refresh_failed(viewer):
    """One that screen readers announce, with the words in the page's language."""
    markup = text(viewer.get(LIST))
    assert 'role="status" aria-live="polite"' in markup
    assert "Refresh failed" in markup
