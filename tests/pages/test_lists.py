"""The list of queues and the table of items: what they show, and how one pages through."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from django.utils.translation import override

from tests.pages.addresses import LIST, following, items, of, text

EARTHQUAKES = Path(__file__).resolve().parents[2] / "project" / "sample_data" / "earthquakes.ndjson"


@pytest.fixture
def earthquakes(queue):
    """A queue with the magnitudes of 1,707 earthquakes as priorities."""
    records = [json.loads(line) for line in EARTHQUAKES.read_text(encoding="utf-8").splitlines()]
    quakes = queue("quakes")
    assert quakes.push_many((record, record["magnitude"]) for record in records) == 1707
    return quakes


def walk(viewer, start, address=""):
    """Yield the pages of a list from the first on."""
    while address is not None:
        response = viewer.get(start + address)
        assert response.status_code == 200
        yield response
        address = following(response)


def names(response):
    """Return the names of the queues in the list page, in their order."""
    return re.findall(r'<th scope="row"><a href="[^"]+">([^<]+)</a>', text(response))


def test_the_list_shows_each_queue_by_name(viewer, queue):
    """Those in the setting, empty or not, and those of a pattern that were pushed to."""
    queue("user-7").push({"to": "ada"})
    response = viewer.get(LIST)
    assert names(response) == ["mail", "pairs", "quakes", "raw", "tickets", "user-7"]
    assert text(response).count('<span class="quiet">empty</span>') == 10


def test_the_list_shows_both_ends_of_a_queue(viewer, queue):
    """The first and the last item with priority, age and a preview that links to it."""
    low = queue("quakes").push({"place": "Amboy"}, priority=0.31)
    queue("quakes").push({"place": "between"}, priority=2)
    high = queue("quakes").push({"place": "Hualian"}, priority=6.4)
    markup = text(viewer.get(LIST))
    assert "priority 0.31" in markup
    assert "priority 6.4" in markup
    assert "less than a minute ago" in markup
    assert of("quakes", low) in markup
    assert of("quakes", high) in markup
    assert "between" not in markup


def test_many_queues_are_listed_on_several_pages(viewer, queue):
    """No queue is left out, and none is shown twice."""
    for number in range(100):
        queue(f"user-{number:02}").push(number)
    pages = [names(page) for page in walk(viewer, LIST)]
    assert [len(page) for page in pages] == [100, 5]
    assert [name for page in pages for name in page] == [
        *("mail", "pairs", "quakes", "raw", "tickets"),
        *(f"user-{number:02}" for number in range(100)),
    ]
    assert "There are no more queues." in text(viewer.get(LIST + "?after=zzz"))


@pytest.mark.parametrize(
    ("end", "limit", "pages"), [("min", 200, 9), ("max", 200, 9), ("max", 25, 69)]
)
def test_paging_shows_each_item_once_in_order(viewer, earthquakes, end, limit, pages):
    """All 1,707 earthquakes, from either end, in the order of the queue."""
    found = [items(page) for page in walk(viewer, of("quakes"), f"?end={end}&limit={limit}")]
    assert len(found) == pages
    assert [item for page in found for item in page] == [
        item.id for item in earthquakes.iterate(end=end)
    ]


def test_a_page_has_fifty_rows_and_counts_them(viewer, earthquakes):
    """The default; the next page counts on, and leads back to the first."""
    first = viewer.get(of("quakes"))
    assert len(items(first)) == 50
    assert "Items 1 to 50" in text(first)
    assert "First page" not in text(first)
    second = viewer.get(of("quakes") + following(first))
    assert "Items 51 to 100" in text(second)
    assert 'href="?end=min&amp;limit=50"' in text(second)


def test_a_full_last_page_links_to_no_empty_one(viewer, queue):
    """Fifty items make one page."""
    queue("mail").push_many(range(50))
    response = viewer.get(of("mail"))
    assert (len(items(response)), following(response)) == (50, None)


@pytest.mark.parametrize(
    ("query", "low", "high"),
    [
        ("min_priority=5", 5, 9),
        ("max_priority=0", -9, 0),
        ("min_priority=2&max_priority=2.5&end=max", 2, 2.5),
        ("min_priority=6.4&max_priority=6.4", 6.4, 6.4),
        ("min_priority=&max_priority=", -9, 9),
    ],
)
def test_a_range_of_priorities_is_shown(viewer, earthquakes, query, low, high):
    """Both bounds are included, and the links to further pages keep them."""
    wanted = {item.id for item in earthquakes.iterate() if low <= item.priority <= high}
    pages = walk(viewer, of("quakes"), f"?limit=100&{query}")
    found = [item for page in pages for item in items(page)]
    assert len(found) == len(wanted)
    assert set(found) == wanted


def test_an_item_pushed_or_popped_between_two_pages_moves_no_other(viewer, queue):
    """The cursor is a place: what stands behind it is shown once."""
    mail = queue("mail")
    mail.push_many(range(60))
    expected = [item.id for item in mail][50:]
    address = following(viewer.get(of("mail")))
    mail.pop_many(50)
    added = mail.push("new")
    assert items(viewer.get(of("mail") + address)) == [*expected, added.id]


def test_a_page_past_the_end_says_so(viewer, queue):
    """When all that would follow was popped, nothing is left to show."""
    item = queue("mail").push(1)
    response = viewer.get(of("mail") + f"?after={item.id}&start=2")
    assert "There are no more items." in text(response)
    assert "There are no such items." in text(viewer.get(of("tickets")))


def test_the_queues_settings_are_shown(viewer, setting):
    """Kind, priorities, codec, and where it is stored."""
    markup = text(viewer.get(of("quakes")))
    for fact in ("priority", "float", "json"):
        assert f"<dd>{fact}</dd>" in markup
    assert f"(&#x27;fdbqueue-test&#x27;, &#x27;{setting['PREFIX'][1]}&#x27;, " in markup


def test_the_table_shows_time_attempts_and_size(viewer, queue):
    """As UTC and as an age, in the stored bytes."""
    item = queue("mail").push({"to": "ada"})
    markup = text(viewer.get(of("mail")))
    assert item.pushed_at.strftime("%Y-%m-%d %H:%M:%S UTC") in markup
    assert f'<td class="fdbqueue-number">{item.size_bytes}</td>' in markup
    assert '<td class="fdbqueue-number">0</td>' in markup


@pytest.mark.parametrize(
    "query",
    [
        "end=middle",
        "limit=24",
        "limit=201",
        "limit=many",
        "limit=" + "9" * 5000,
        "limit=1e2",
        "start=0",
        "start=-1",
        "after=%3Cscript%3E",
        "after=AAAA",
        "after=" + "A" * 20_000,
        "after=%00",
        "after=%F0%28%8C%28",
        "min_priority=high",
        "min_priority=nan",
        "max_priority=inf",
        "max_priority=1e999",
        "min_priority=3&max_priority=2",
    ],
)
def test_a_bad_parameter_is_pointed_out_in_the_page(viewer, queue, query):
    """400, in the admin's frame, with the form to correct it and no items."""
    queue("quakes").push("an item", priority=1)
    response = viewer.get(f"{of('quakes')}?{query}")
    assert response.status_code == 400
    assert "These items cannot be shown." in text(response)
    assert 'class="errorlist' in text(response)
    assert "an item" not in text(response)
    assert "<script>" not in text(response).partition("<main")[2]


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("mail", "min_priority=1"),
        ("mail", "max_priority=0"),
        ("tickets", "min_priority=1.5"),
        ("tickets", "max_priority=9223372036854775808"),
    ],
)
def test_a_priority_must_fit_the_queue(viewer, name, query):
    """A FIFO queue has none, and those of an integer queue are 64-bit integers."""
    assert viewer.get(f"{of(name)}?{query}").status_code == 400


def test_a_cursor_of_another_queue_is_refused(viewer, queue):
    """An item's id means nothing elsewhere."""
    item = queue("mail").push(1)
    assert viewer.get(of("quakes") + f"?after={item.id}").status_code == 400


def test_unknown_parameters_are_ignored(viewer):
    """What other tools append to an address does no harm."""
    assert viewer.get(of("quakes") + "?utm_source=x&end=").status_code == 200
    assert viewer.get(LIST + "?e=1&p=zz&after=%00").status_code == 200


def test_controls_and_tables_say_what_they_are(viewer, queue):
    """Each control has its label, each table a caption, each header its scope."""
    queue("quakes").push(1, priority=1)
    markup = text(viewer.get(of("quakes"))).partition("<main")[2]
    for control in re.findall(r'<(?:input|select)[^>]* id="([^"]+)"', markup):
        assert f'<label for="{control}"' in markup
    assert "<caption" in markup
    assert not re.search(r"<th(?! scope=)[ >]", markup)


def test_another_language_changes_no_number(viewer, queue, settings):
    """Priorities and positions stay exact where a locale writes commas and points."""
    settings.USE_THOUSAND_SEPARATOR = True
    queue("quakes").push(1, priority=1234.5)
    with override("de"):
        response = viewer.get(of("quakes"), headers={"accept-language": "de"})
    assert ">1234.5</td>" in text(response)
