"""Searching: by time, with a summary, and with the hits marked where they are."""

from __future__ import annotations

import html
import re

import pytest

from fdbqueue import deadlines
from fdbqueue.pages.search import Highlighter, places
from tests.pages.addresses import following, items, of, previous, text
from tests.pages.test_items import numbers, progress


def late(monkeypatch):
    """Have no time left after the first thousand items."""
    monkeypatch.setattr(deadlines, "is_half_over", lambda: True)


@pytest.fixture
def mail(queue):
    """A queue of 2,500 items, of which four have the text."""
    mail = queue("mail")
    wanted = {10, 1_500, 1_501, 2_400}
    mail.push_many({"to": "Ada" if n in wanted else "Grace", "n": n} for n in range(2_500))
    return mail


def test_a_search_with_time_looks_at_everything(viewer, mail, monkeypatch):
    """One request is enough, and the summary says so."""
    monkeypatch.setattr(deadlines, "is_half_over", lambda: False)
    response = viewer.get(of("mail") + "?q=ada")
    assert numbers(response) == ["11", "1501", "1502", "2401"]
    assert progress(response) == "4 hits in 2,500 items looked at; there are no more."
    assert following(response) is None


def test_a_search_ends_by_time_and_goes_on_from_there(viewer, mail, monkeypatch):
    """It names the place so far; going on finds the rest, each hit once, and back again."""
    late(monkeypatch)
    start = viewer.get(of("mail") + "?q=ada")
    assert numbers(start) == ["11"]
    assert progress(start) == "1 hit in 1,001 items looked at of 2,500. Go on from item 1,002"
    second = viewer.get(of("mail") + following(start))
    assert numbers(second) == ["1501", "1502"]
    assert "from 1,002 to 2,002 of 2,500. Go on from item 2,003" in progress(second)
    third = viewer.get(of("mail") + following(second))
    assert numbers(third) == ["2401"]
    assert progress(third).endswith("there are no more.")
    assert numbers(viewer.get(of("mail") + previous(third))) == ["1501", "1502"]


def test_a_search_from_the_other_end_ends_by_time_too(viewer, mail, monkeypatch):
    """The newest first."""
    late(monkeypatch)
    start = viewer.get(of("mail") + "?q=ada&end=max")
    assert len(items(start)) == 3
    assert "1,001 items looked at of 2,500. Go on" in progress(start)


def test_a_list_without_a_search_does_not_depend_on_the_time(viewer, mail, monkeypatch):
    """Its rows are all there."""
    late(monkeypatch)
    response = viewer.get(of("mail") + "?limit=200")
    assert len(items(response)) == 200
    assert following(response) is not None
    assert progress(response) == ""


def test_a_search_reads_a_bounded_number_of_bytes(viewer, queue, monkeypatch):
    """Large values end it before the time does."""
    monkeypatch.setattr(deadlines, "is_half_over", lambda: False)
    monkeypatch.setattr("fdbqueue.pages.item_list.MAX_BYTES_SEARCHED", 1)
    queue("mail").push_many("x" * 90_000 for _ in range(120))
    response = viewer.get(of("mail") + "?q=ada")
    assert re.fullmatch(
        r"0 hits in \d\d items looked at of 120. Go on from item \d\d", progress(response)
    )


def marks(response):
    """Return what is marked on a page."""
    return re.findall(r"<mark[^>]*>([^<]*)</mark>", text(response))


def test_a_hit_is_marked_in_the_list(viewer, queue):
    """Also far behind the beginning of the value: what is around it is shown."""
    queue("mail").push({"text": "x" * 5_000 + " NEEDLE <b> " + "y" * 5_000})
    response = viewer.get(of("mail") + "?q=needle+%3C")
    assert marks(response) == ["NEEDLE &lt;"]
    cell = re.search(r"<code>(.*?)</code>", text(response).partition("<mark")[0][-200:] + "</code>")
    assert cell is None or len(cell[1]) < 200
    assert "…" in text(response)
    assert "x" * 60 not in text(response)


def test_a_hit_leads_to_its_mark_on_the_page_of_the_item(viewer, queue):
    """The link of the row is that of the mark, which is in an open part of the tree."""
    value = {"a": {"b": {"c": {"d": {"e": {"f": ["hay", "a Needle"]}}}}}, "other": {"x": [0] * 99}}
    queue("mail").push(value)
    listed = text(viewer.get(of("mail") + "?q=needle"))
    address = html.unescape(re.search(r'<a id="item-[^"]+" href="([^"]+)"', listed)[1])
    assert address.endswith("/?q=needle#hit")
    page = viewer.get(address.partition("#")[0])
    assert marks(page) == ["Needle"]
    assert text(page).count('<mark id="hit">') == 1
    assert '1 hit is marked. <a href="#hit">' in text(page)
    before = text(page).partition('<mark id="hit">')[0].partition('class="fdbqueue-tree"')[2]
    opened = re.findall(r"<details[^>]*>", before)
    assert len(opened) == 7
    assert all(" open" in one for one in opened)


def test_a_hit_that_the_tree_leaves_out_is_marked_in_the_text(viewer, queue):
    """The text is open then."""
    item = queue("mail").push({"text": "x" * 5_000 + "needle"})
    page = text(viewer.get(of("mail", item) + "?q=NEEDLE"))
    assert 'x<mark id="hit">needle</mark>' in page
    assert '<details class="fdbqueue-figures" open>' in page


def test_what_cannot_be_marked_is_said(viewer, queue):
    """A text across members is found in the list, and is no part of the tree."""
    item = queue("mail").push({"to": "ada", "n": 1})
    listed = viewer.get(of("mail"), {"q": '"ada", "n"'})
    assert items(listed) == [item.id]
    assert marks(listed) == ["&quot;ada&quot;, &quot;n&quot;"]
    page = text(viewer.get(of("mail", item), {"q": '"ada", "n"'}))
    assert "cannot be marked here" in page


@pytest.mark.parametrize(
    ("value", "wanted", "marked"),
    [
        ("Straße und STRASSE", "strasse", ["Straße", "STRASSE"]),
        ("ﬁne", "f", ["ﬁ"]),
        ("oﬀer", "f", ["ﬀ"]),
        ("İstanbul", "istanbul", []),
        ("\u202eevil", "\\u202e", ["\\u202e"]),
        ("aaaa", "aa", ["aa", "aa"]),
    ],
)
def test_letters_that_fold_to_several_are_marked_whole(value, wanted, marked):
    """The marks are around whole letters of the text, and the text stays as it is."""
    from fdbqueue.columns.text import visible

    highlighter = Highlighter(wanted)
    found = highlighter.highlighted(visible(value))
    assert re.findall(r"<mark[^>]*>([^<]*)</mark>", found) == marked
    assert re.sub(r"<[^>]+>", "", found) == visible(value)
    assert highlighter.count == len(marked)


def test_marks_are_bounded_and_escaped():
    """A page has a thousand of them, whatever the value."""
    highlighter = Highlighter("<")
    found = highlighter.highlighted("<" * 5_000)
    assert highlighter.count == 1_000
    assert found.count("<mark") == 1_000
    assert found.count("&lt;") == 5_000
    assert list(places("abc", "d")) == []
