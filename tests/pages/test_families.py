"""Families on the pages: one row of the list, and the list of their members."""

from __future__ import annotations

import html
import re

import pytest

import fdbqueue
from fdbqueue import conf
from fdbqueue.columns import families
from fdbqueue.pages import queues_page
from tests.pages.addresses import LIST, of, text
from tests.pages.conftest import person
from tests.pages.test_queues import names

FAMILY = LIST + "?name=user-*"
NOISIEST = FAMILY + "&sort=-pushes"
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
    assert f'href="{LIST}?name=user-%2A&amp;sort=-pushes"' in text(response)


def test_a_family_of_few_members_is_not(viewer, queue):
    """Each of twenty is a row of its own."""
    for number in range(20):
        queue(f"user-{number:02}").push("x")
    assert "user-*" not in names(viewer.get(LIST))
    assert len(names(viewer.get(LIST))) == 20 + len(PLAIN)


def test_members_are_counted_up_to_a_bound(viewer, members, monkeypatch):
    """A plus sign says that there are more; in the list of the members, too."""
    monkeypatch.setattr(families, "MAX_MEMBERS", 5)
    monkeypatch.setattr(queues_page, "MAX_QUEUES_READ", 5)
    assert row_of_family(viewer.get(LIST))[2] == "5+"
    page = viewer.get(FAMILY)
    assert "5+ members of user-* have items." in text(page)
    assert len(shown(page)) == 5


def test_the_filter_of_the_list_leads_to_members(viewer, members):
    """A family that may have what is looked for stays, and its link looks for it."""
    response = viewer.get(LIST + "?q=user-07")
    assert names(response) == ["user-*"]
    assert f'href="{LIST}?name=user-07%2A&amp;sort=-pushes"' in text(response)
    assert names(viewer.get(LIST + "?q=quakes")) == ["quakes"]


def test_a_pattern_chooses_the_queues(viewer, members, queue, monkeypatch):
    """Empty ones too, in the order of their names, with a link to those after them."""
    queue("user-10").pop_many(100)
    assert shown(viewer.get(f"{LIST}?name=*ail")) == ["mail"]
    assert shown(viewer.get(f"{LIST}?name=user-1*&q=8")) == ["user-18"]
    monkeypatch.setattr(queues_page, "MAX_QUEUES_READ", 6)
    page = viewer.get(f"{LIST}?name=user-1*")
    assert shown(page) == [f"user-1{digit}" for digit in range(6)]
    further = re.search(r'id="further" href="([^"]*)"', text(page))[1]
    assert shown(viewer.get(LIST + html.unescape(further))) == [
        f"user-1{digit}" for digit in range(6, 10)
    ]


def test_a_pattern_that_nothing_fits(viewer):
    """The list says so, of a family and of any other."""
    assert "No member has items to take now." in text(viewer.get(FAMILY))
    for pattern in ("none-*", "[", "%3Cb%3E"):
        assert "There are no such queues." in text(viewer.get(f"{LIST}?name={pattern}"))
    assert viewer.get(f"{LIST}?name={'x' * 101}").status_code == 400


def test_the_page_has_the_noisiest_members_first(viewer, members, queue):
    """Those with most pushes; a member that nothing is left in, and was looked at, is not there."""
    conf.catalog().several(["user-0*"]).pop_many(1)
    for name in ("user-03", "user-20"):
        while queue(name).pop_many(100):
            pass
    while conf.catalog().several(["user-03", "user-03*"]).pop():
        pass
    found = shown(viewer.get(NOISIEST))
    assert "user-03" not in found
    assert found[:3] == ["user-20", "user-19", "user-18"]
    assert "Members that have nothing to take now are left out" in text(viewer.get(FAMILY))


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
    for page in (*PAGES, "?name=user-*", "?name=none-*"):
        assert other.get(LIST + page).status_code == 403
    assert not watched.reads


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
    """By no list."""
    viewer.get(LIST)
    viewer.get(FAMILY)
    viewer.get(LIST + "?name=user-0*")
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
    assert "Family paused" in text(viewer.get(f"{LIST}?name=user-01*"))
    family.resume()
    assert "Paused since" not in text(viewer.get(FAMILY))
