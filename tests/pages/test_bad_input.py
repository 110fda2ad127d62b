"""Whatever is asked of a page, it answers in its frame, and changes nothing."""

from __future__ import annotations

import html
import re
from collections import deque
from urllib.parse import quote, urljoin, urlsplit

import pytest

from tests.cases import cases
from tests.pages.addresses import LIST, text

FRAME = 'class="breadcrumbs"'
PARAMETERS = {
    "": ("q", "name", "sort", "after", "page", "refresh"),
    "mail/": (
        *("state", "end", "q", "limit", "span", "after", "before", "start", "refresh"),
        *("reason", "group"),
    ),
    "quakes/": ("min_priority", "max_priority"),
    "mail/items/ID/": ("show", "refresh"),
    "-/find/": ("id", "queue", "after", "refresh"),
}
#: Raw, as they stand in an address: NUL bytes, a lone surrogate in UTF-8, half a character, what is
#: long, numbers beyond all bounds, markup, and paths.
VALUES = [
    "%00",
    "a%00b",
    "%ED%A0%80",
    "%FF%FE",
    "%E2%80%AE",
    "x" * 20_000,
    "9" * 5_000,
    "-1",
    "1e400",
    "nan",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "../../etc/passwd",
    "%F0%9F%90%8C",
    "%0D%0ASet-Cookie:%20a=b",
    "AAAA",
    "%25s%25n",
    "{{7*7}}",
]


@pytest.fixture
def pages(queue):
    """The address of each page, of something that exists."""
    item = queue("mail").push({"to": "ada"})
    queue("quakes").push("x", priority=1)
    return {page: LIST + page.replace("ID", item.id) for page in PARAMETERS}


@pytest.mark.parametrize("page", PARAMETERS)
def test_every_odd_parameter_is_answered_in_the_frame(viewer, pages, page):
    """200 where it is a text like others, else 400 or 404; never a traceback, never markup."""
    for name in PARAMETERS[page]:
        for value in VALUES:
            response = viewer.get(f"{pages[page]}?{name}={value}")
            assert response.status_code in {200, 400, 404}, (name, value)
            assert FRAME in text(response)
            assert "<script>alert" not in text(response)
            assert "\u202e" not in re.sub(r'value="[^"]*"', "", text(response))  # the reader's own
            assert "Set-Cookie" not in response.headers
            assert len(response.content) < 200_000


@pytest.mark.parametrize("page", PARAMETERS)
def test_a_parameter_that_is_repeated_is_refused(viewer, pages, page):
    """Which of the two was meant is not guessed."""
    for name in PARAMETERS[page]:
        response = viewer.get(f"{pages[page]}?{name}=1&{name}=2")
        assert response.status_code == 400
        assert f"The parameter “{name}” is given more than once." in text(response)


@cases("page", PARAMETERS)
@cases("name", ["utm_source", "%00", "%E2%80%AE", "<b>", "x" * 5_000, "q[]"])
def test_a_parameter_that_no_page_has_is_ignored(viewer, pages, page, name):
    """Others add theirs to the address of a link; what they are called is not shown as markup."""
    response = viewer.get(f"{pages[page]}?{quote(name, safe='%')}=1")
    assert response.status_code == viewer.get(pages[page]).status_code
    assert "This page has no parameter" not in text(response)
    assert "<b>" not in text(response)
    assert "\u202e" not in text(response).partition("<main")[2]


@pytest.mark.parametrize("page", sorted(PARAMETERS.keys() - {"quakes/"}))
def test_a_parameter_of_another_page_is_refused(viewer, pages, page):
    """A filter that is not applied would show more than was asked for."""
    names = {name for names in PARAMETERS.values() for name in names} - {*PARAMETERS[page]}
    for name in names:
        response = viewer.get(f"{pages[page]}?{name}=1")
        assert response.status_code == 400
        assert f"This page has no parameter “{name}”." in text(response)


@pytest.mark.parametrize("place", ["{}/", "mail/items/{}/", "mail/tasks/{}/"])
def test_every_odd_place_is_not_found_in_the_frame(viewer, pages, place):
    """A name, an item's id and a task's id may be anything."""
    for value in VALUES:
        if "/" in value:
            continue  # these are other addresses
        response = viewer.get(LIST + place.format(value))
        assert response.status_code == 404, value
        assert FRAME in text(response)
        assert len(response.content) < 30_000


def addresses(response, page):
    """Return the addresses of pages that a page leads to, its forms' among them."""
    found = re.findall(r'(?:href|action|hx-get)="([^"]*)"', text(response))
    joined = (urljoin(page, html.unescape(one)).partition("#")[0] for one in found)
    return [one for one in joined if urlsplit(one).path.startswith(LIST)]


def test_a_crawler_changes_no_key(viewer, queue, stored, watched):
    """It follows every link, of the live parts too, and all keys are as they were before."""
    quakes = queue("quakes")
    quakes.push_many([({"place": "Hualian"}, n % 7) for n in range(60)])
    for item in quakes.peek_many(2):
        quakes.bury(item.id, reason="no 'answer'")
    quakes.push("later", delay=0.001, priority=1)
    quakes.lease(seconds=0.001)  # has expired: the next consumer requeues it
    queue("user-1").push(1)
    before = stored()
    watched.writes.clear()
    waiting, seen = deque([LIST, f"{LIST}quakes/?q=h"]), set()
    while waiting and len(seen) < 100:
        page = waiting.popleft()
        if page in seen:
            continue
        seen.add(page)
        response = viewer.get(page)
        assert response.status_code in {200, 400}, page
        viewer.head(page)
        live = viewer.get(page, headers={"HX-Request": "true"})
        waiting.extend(addresses(response, page) + addresses(live, page))
    kinds = {re.sub(r"[^/]*$", "", urlsplit(page).path).count("/") for page in seen}
    assert len(kinds) >= 3
    assert len(seen) == 100
    assert watched.reads
    assert watched.writes == []
    assert stored() == before
