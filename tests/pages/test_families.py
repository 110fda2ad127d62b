"""Families on the pages: one row of the list, and a page of their members."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

import fdbqueue
from fdbqueue import conf
from fdbqueue.columns import families
from fdbqueue.pages import queues_page
from tests.pages.addresses import LIST, following, of, text
from tests.pages.conftest import person
from tests.pages.test_queues import names

FAMILY = LIST + "user-*/"
PLAIN = ["mail", "pairs", "quakes", "raw", "tickets"]


@pytest.fixture
def members(queue):
    """Twenty-one members of a family, each with one item more than the one before it."""
    for number in range(21):
        queue(f"user-{number:02}").push_many(range(number + 1))


def row_of_family(response):
    """Return the cells of the family's row, as a reader sees them."""
    (row,) = re.findall(
        r'<tr role="row">(?:(?!</tr>).)*id="family-user-\*".*?</tr>', text(response)
    )
    return [re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row)]


def shown(response):
    """Return the names of the queues in the table, without families."""
    return [name for name in names(response) if "*" not in name]


def test_a_family_of_many_members_is_one_row(viewer, members):
    """With how many members have something, and a link; its members are not listed."""
    response = viewer.get(LIST)
    assert names(response) == ["user-*", *PLAIN]
    assert row_of_family(response) == ["user-*", "fifo", "21"]
    assert f'href="{FAMILY}"' in text(response)


def test_a_family_of_few_members_is_not(viewer, queue):
    """Each of twenty is a row of its own."""
    for number in range(20):
        queue(f"user-{number:02}").push("x")
    assert "user-*" not in names(viewer.get(LIST))
    assert len(names(viewer.get(LIST))) == 20 + len(PLAIN)


def test_members_are_counted_up_to_a_bound(viewer, members, monkeypatch):
    """A plus sign says that there are more; on the page of the family, too."""
    monkeypatch.setattr(families, "MAX_MEMBERS", 5)
    monkeypatch.setattr(queues_page, "MAX_MEMBERS", 5)
    assert row_of_family(viewer.get(LIST))[2] == "5+"
    page = viewer.get(FAMILY)
    assert "Members with items 1 to 5 of 5+, the noisiest first" in text(page)
    assert "More than 5 members have items; only so many are shown." in text(page)
    assert len(shown(page)) == 5


def test_the_filter_of_the_list_leads_to_members(viewer, members):
    """A family that may have what is looked for stays, and its link looks for it."""
    response = viewer.get(LIST + "?q=user-07")
    assert names(response) == ["user-*"]
    assert f'href="{FAMILY}?start=user-07"' in text(response)
    assert names(viewer.get(LIST + "?q=quakes")) == ["quakes"]


def test_the_page_has_the_noisiest_members_first(viewer, members, queue):
    """Those with most pushes; a member that nothing is left in, and was looked at, is not there."""
    conf.catalog().several(["user-0*"]).pop_many(1)
    for name in ("user-03", "user-20"):
        while queue(name).pop_many(100):
            pass
    while conf.catalog().several(["user-03", "user-03*"]).pop():
        pass
    found = shown(viewer.get(FAMILY))
    assert "user-03" not in found
    assert found[:3] == ["user-20", "user-19", "user-18"]
    assert "Members that have nothing to take now are left out" in text(viewer.get(FAMILY))


def test_the_page_reads_so_many_members_at_once(viewer, members, monkeypatch):
    """The others that have something are on its next pages, each once."""
    monkeypatch.setattr(queues_page, "QUEUES_PER_PAGE", 10)
    found, address = [], ""
    for count in (10, 10, 1):
        page = viewer.get(FAMILY + address)
        assert len(shown(page)) == count
        found += shown(page)
        address = following(page)
    assert address is None
    assert sorted(found) == [f"user-{number:02}" for number in range(21)]


@pytest.mark.parametrize("start", ["user-1", "1"])
def test_members_are_found_by_how_their_names_begin(viewer, members, queue, start, monkeypatch):
    """Empty ones too, in the order of their names, with a link to those behind them."""
    queue("user-10").pop_many(100)
    monkeypatch.setattr(queues_page, "QUEUES_PER_PAGE", 6)
    page = viewer.get(f"{FAMILY}?start={start}")
    assert shown(page) == [f"user-1{digit}" for digit in range(6)]
    assert shown(viewer.get(FAMILY + following(page))) == [
        f"user-1{digit}" for digit in range(6, 10)
    ]


def test_nothing_begins_with_it(viewer, members):
    """The page says so."""
    assert "There are no such members." in text(viewer.get(FAMILY + "?start=user-9"))
    assert "There are no more members." in text(viewer.get(FAMILY + "?page=2"))


@pytest.mark.parametrize("query", ["?page=0", "?page=x", "?state=dead", "?start=" + "x" * 101])
def test_bad_parameters_of_the_page(viewer, members, query):
    """They are pointed out, with 400."""
    assert viewer.get(FAMILY + query).status_code == 400


def test_a_pattern_that_is_no_family(viewer):
    """It is not found; an empty family is an empty page."""
    assert viewer.get(LIST + "nothing-*/").status_code == 404
    assert "No member has items to take now." in text(viewer.get(FAMILY))


def test_who_may_not_view_learns_nothing(pusher, client, members):
    """The same for a family that is there and one that is not."""
    assert pusher.get(FAMILY).status_code == pusher.get(LIST + "none-*/").status_code == 403
    assert client.get(FAMILY).status_code == 302


PAGES = ["", "-/workers/", "-/failures/", "-/find/?id=x"]


def test_names_that_take_too_long_are_left_out(viewer, queue, monkeypatch):
    """A family is one row then, and the other pages say where to go on."""
    for number in range(3):
        queue(f"user-{number}").push(1)
    monkeypatch.setattr("fdbqueue.deadlines.is_half_over", lambda: True)
    assert "user-*" in names(viewer.get(LIST))
    for page in PAGES[1:]:
        assert 'id="further"' in text(viewer.get(LIST + page))


def test_who_has_no_permission_is_refused_at_once(members, watched):
    """No queue is looked for."""
    other = person("other")
    for page in (*PAGES, "user-*/", "none-*/"):
        assert other.get(LIST + page).status_code == 403
    assert not watched.reads


def test_the_page_outside_the_admin(viewer, members):
    """It is there, too, with the way back."""
    address = reverse("fdbqueue:family", args=["user-*"])
    response = viewer.get(address)
    assert len(shown(response)) == 21
    assert f'<a href="{reverse("fdbqueue:queues")}">Queues</a>' in text(response)


def test_the_page_costs_the_same_beside_many_members(viewer, members, watched, queue):
    """What is read depends on the members shown, not on those there are."""
    viewer.get(FAMILY)
    watched.reads.clear()
    viewer.get(FAMILY)
    before = len(watched.reads)
    for number in range(60):
        name = f"user-old{number}"
        queue(name).push("x")
        queue(name).pop()
    while conf.catalog().several(["user-old*"]).pop():
        pass
    watched.reads.clear()
    viewer.get(FAMILY)
    assert len(watched.reads) == before


def test_nothing_is_written(viewer, members, watched):
    """By neither page."""
    viewer.get(LIST)
    viewer.get(FAMILY)
    viewer.get(FAMILY + "?start=user-0")
    assert not watched.writes


def test_a_paused_family_is_marked(viewer, queue, members):
    """In the list, on its page with the command, and on the page of each member."""
    family = fdbqueue.family("user-*")
    assert "Paused since" not in text(viewer.get(FAMILY))
    family.pause(reason="moving </bdi><b>")
    assert row_of_family(viewer.get(LIST))[0] == "user-* Paused"
    for address in (FAMILY, of("user-01")):
        page = text(viewer.get(address))
        assert "All queues of the family user-* are paused." in page
        assert "<bdi>moving &lt;/bdi&gt;&lt;b&gt;</bdi>" in page
        assert "python manage.py queue_resume &#x27;user-*&#x27;</code>" in page
    assert "Family paused" in text(viewer.get(f"{FAMILY}?start=01"))
    family.resume()
    assert "Paused since" not in text(viewer.get(FAMILY))
