"""The list of queues: what it shows of each, in which order, and to whom."""

from __future__ import annotations

import datetime
import re
import sys

import pytest

from benchmarks.calls import counted
from fdbqueue import columns
from fdbqueue.columns.queue_rows import QueueRow, rates
from fdbqueue.pages import queues_page
from fdbqueue.service import Counts, Minute
from tests.cases import cases
from tests.pages.addresses import LIST, of, text
from tests.pages.test_items import walk

DASH = "\N{EN DASH}"
COLUMNS = ("kind", "ready", "leased", "delayed", "dead", "total", "oldest", "pushes", "pops")


def names(response):
    """Return the names of the queues in the list page, in their order."""
    return re.findall(r'<th scope="row"[^>]*><a [^>]*>([^<]+)</a>', text(response))


def cells(response, name):
    """Return the cells of a queue's row by their column, as a reader sees them."""
    (row,) = re.findall(
        rf'<tr role="row">(?:(?!</tr>).)*>{name}</a>.*?</tr>', text(response), re.DOTALL
    )
    cells = re.findall(r"<td.*?</td>", row, re.DOTALL)
    shown = [re.sub(r"<[^>]+>", "", cell).strip() for cell in cells]
    return dict(zip((*COLUMNS, "depth"), shown, strict=True))


def test_the_list_shows_each_queue_by_name(viewer, queue):
    """Those in the setting, empty or not, and those of a pattern that were pushed to."""
    queue("user-7").push({"to": "ada"})
    response = viewer.get(LIST)
    assert names(response) == ["mail", "pairs", "quakes", "raw", "tickets", "user-7"]


def test_a_row_says_how_many_items_there_are_in_each_state(viewer, queue):
    """Ready, leased, delayed and dead; pushes and pops; the age of the oldest."""
    quakes = queue("quakes")
    quakes.push_many([("x", 1)] * 6)
    quakes.push("later", 1, delay=3_600)
    quakes.lease_many(2)
    quakes.bury(quakes.peek().id)
    quakes.pop()
    found = cells(viewer.get(LIST), "quakes")
    counts = [found[name] for name in ("kind", "ready", "leased", "delayed", "dead", "total")]
    assert counts == ["priority", "2", "2", "1", "1", "6"]
    assert re.fullmatch(r"\d+ s", found["oldest"])
    assert float(found["pushes"]) > float(found["pops"]) > 0
    assert "Depth: 0 at the start, 6 now, 6 at the highest" in found["depth"]
    assert found["depth"].endswith("peak 6")


def test_an_empty_queue_has_no_age(viewer):
    """Dashes, and zeros."""
    found = cells(viewer.get(LIST), "mail")
    assert found["oldest"] == found["depth"] == DASH
    assert {found[column] for column in COLUMNS[1:6]} == {"0"}


@pytest.mark.parametrize("name", ["raw", "pairs"])
def test_a_codec_without_metadata_has_no_age(viewer, queue, name):
    """Nothing says when its items were pushed; the dash says why, on hovering and read aloud."""
    queue(name).push(b"x")
    response = viewer.get(LIST)
    found = cells(response, name)
    assert (found["ready"], found["oldest"]) == ("1", f"{DASH} the codec stores no push time")
    assert text(response).count('<abbr title="the codec stores no push time">') == 1


@pytest.mark.parametrize("column", COLUMNS)
def test_the_list_is_sorted_by_each_column(viewer, queue, column):
    """Both ways, over all queues; what has no value comes last."""
    tickets, mail = queue("tickets"), queue("mail")
    for chosen, count in ((tickets, 3), (mail, 9)):
        chosen.push_many([("x", 1)] * count if chosen is tickets else ["x"] * count)
        chosen.pop_many(count // 3)
        chosen.lease_many(count // 3)
        chosen.push("x", delay=60)
        if chosen is mail:
            chosen.push("x", delay=60)
            chosen.bury(chosen.peek().id)
    down = names(viewer.get(f"{LIST}?sort=-{column}"))
    up = names(viewer.get(f"{LIST}?sort={column}"))
    if column == "oldest":
        assert down[:2] == up[1::-1] == ["tickets", "mail"]
    elif column == "kind":
        assert down[:2] == ["quakes", "tickets"]
        assert up[-2:] == ["quakes", "tickets"]
    else:
        assert down[0] == up[-1] == "mail"
    assert set(down) == set(up) == {"mail", "pairs", "quakes", "raw", "tickets"}


def test_a_header_sorts_by_its_column_and_says_so(viewer):
    """Once the largest first, then the other way round; the filter stays."""
    markup = text(viewer.get(LIST + "?q=a"))
    assert 'aria-sort="ascending"><a id="sort-name" href="?q=a&amp;sort=-name"' in markup
    assert 'href="?q=a&amp;sort=-ready"' in markup
    again = text(viewer.get(LIST + "?sort=-ready"))
    assert 'aria-sort="descending"><a id="sort-ready" href="?sort=ready"' in again


def test_the_list_is_filtered_by_name(viewer):
    """By a part of the name, in capitals or not."""
    assert names(viewer.get(LIST + "?q=AI")) == ["mail", "pairs"]
    assert "No queue name contains this text." in text(viewer.get(LIST + "?q=zzz"))


def test_many_queues_are_listed_on_several_pages(viewer, queue, monkeypatch):
    """No queue is left out, none is shown twice, and the order is that of all."""
    monkeypatch.setattr(queues_page, "QUEUES_PER_PAGE", 10)
    for number in range(20):
        queue(f"user-{number:02}").push_many(range(number + 1))
    pages = [names(page) for page in walk(viewer, LIST, "?sort=-ready")]
    assert [len(page) for page in pages[:2]] == [10, 10]
    found = [name for page in pages for name in page]
    assert found[:20] == [f"user-{number:02}" for number in reversed(range(20))]
    assert sorted(found) == sorted({*found, "mail", "pairs", "quakes", "raw", "tickets"})


def test_the_list_says_when_it_did_not_look_at_all_queues(viewer, queue, monkeypatch):
    """So many are looked at and sorted; a link goes on behind them."""
    monkeypatch.setattr(queues_page, "MAX_QUEUES_READ", 3)
    response = viewer.get(LIST)
    assert names(response) == ["mail", "pairs", "quakes"]
    (address,) = re.findall(r'id="further" href="([^"]+)"', text(response))
    assert names(viewer.get(LIST + address)) == ["raw", "tickets"]


@cases(
    "query", ["sort=size", "sort=--name", "page=0", "page=x", "page=99999", "refresh=1", "q=%00"]
)
def test_a_bad_parameter_is_pointed_out_in_the_list(viewer, query):
    """400 in the frame, and no rows."""
    response = viewer.get(f"{LIST}?{query}")
    assert response.status_code == 400
    assert "Please correct the errors below." in text(response)
    assert names(response) == []


def test_a_page_behind_the_last_says_so(viewer):
    """An old address of a page that has gone is no error."""
    assert "There are no queues." in text(viewer.get(LIST + "?page=7"))
    assert "There are no more queues." in text(viewer.get(LIST + "?after=zzz"))


def test_rates_are_means_up_to_this_moment():
    """Over whole minutes and the part of the present one that is over."""
    now = datetime.datetime.now(datetime.timezone.utc)
    minutes = [
        Minute(now - datetime.timedelta(seconds=30 + 60 * back), 9, 3) for back in range(60)
    ][::-1]
    pushes, pops = rates(minutes)
    assert pushes == pytest.approx(9 * 5 / 4.5, rel=0.01)
    assert pops == pytest.approx(3 * 5 / 4.5, rel=0.01)


def test_numbers_are_written_as_the_language_does(viewer, queue):
    """Thousands are set apart."""
    queue("mail").push_many(range(1_234))
    assert cells(viewer.get(LIST), "mail")["ready"] == "1,234"
    german = viewer.get(LIST, headers={"accept-language": "de"})
    assert german.status_code == 200


@pytest.mark.parametrize("sort", ["name", "-ready", "-oldest", "-pushes", "-trouble"])
def test_the_list_asks_for_all_queues_together(viewer, queue, watched, sort, monkeypatch):
    """One transaction for the names and one for the figures, a few reads for each queue.

    Eight reads: two counts, two for the oldest, the minutes, the pause, and both ends; of a member
    the pause of its family, too. A queue without items may have no format yet, which is looked for
    again.
    """
    monkeypatch.setattr(queues_page, "MEMBERS_LISTED", 30)
    for number in range(30):
        queue(f"user-{number:02}").push_many(range(40))
    viewer.get(LIST)  # has seen the formats of those that have items
    watched.reads.clear()
    watched.transactions.clear()
    assert len(names(viewer.get(f"{LIST}?sort={sort}"))) == 35
    assert len(watched.transactions) == 2
    names_take, figures_take, again = 3 * 31, 8 * 35 + 30, 1 * 35
    assert len(watched.reads) <= names_take + figures_take + again


def test_a_row_of_the_list_costs_few_calls(queue):
    """A count of calls is the same on every machine: a change that adds to each cell shows."""
    minutes = [Minute(datetime.datetime.now(datetime.timezone.utc), 1, 1)] * 60
    row = QueueRow(queue("mail"), "/mail/", Counts(1, 0, 0, 2), minutes[0].at, minutes)
    shown = queues_page.COLUMNS
    columns.cells(shown, row)  # fills the caches
    count, markup = counted(lambda: columns.cells(shown, row))
    assert markup.count("<td") == len(shown) - 1
    # 1,149 on Python 3.11, a few less on later ones, and 1,279 on 3.10
    assert count.calls <= (1_180 if sys.version_info >= (3, 11) else 1_310)


def test_each_setting_says_what_it_means(viewer):
    """Whatever the kind of the queue; an option without words would be seen here."""
    for name in ("mail", "quakes"):
        folded = text(viewer.get(of(name))).partition('id="fold-settings"')[2]
        settings = folded.partition("</dl>")[0]
        assert settings.count("<dt>") == settings.count("fdbqueue-meaning") > 8
