"""The page of a queue: the table of its items, and how one pages through."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from django.utils.translation import override

from tests.cases import cases
from tests.pages.addresses import first, following, items, of, previous, text

EARTHQUAKES = Path(__file__).resolve().parents[2] / "project" / "sample_data" / "earthquakes.ndjson"


@pytest.fixture
def push_earthquakes(queue):
    """Push every nth earthquake into a queue, with the magnitudes as priorities."""

    def push(n):
        lines = EARTHQUAKES.read_text(encoding="utf-8").splitlines()[2::n]
        queue("quakes").push_many((one, one["magnitude"]) for one in map(json.loads, lines))
        return queue("quakes")

    return push


@pytest.fixture
def earthquakes(push_earthquakes):
    """A queue of 427 earthquakes: a page of 200 rows takes half a second."""
    return push_earthquakes(4)


def walk(viewer, start, address=""):
    """Yield the pages of a list from the first on."""
    while address is not None:
        response = viewer.get(start + address)
        assert response.status_code == 200
        yield response
        address = following(response)


@pytest.mark.parametrize(
    ("end", "limit", "pages"), [("min", 200, 3), ("max", 200, 3), ("max", 25, 18)]
)
def test_paging_shows_each_item_once_in_order(viewer, earthquakes, end, limit, pages):
    """Hundreds of earthquakes, from either end, in the order of the queue."""
    found = [items(page) for page in walk(viewer, of("quakes"), f"?end={end}&limit={limit}")]
    assert len(found) == pages
    assert [item for page in found for item in page] == [
        item.id for item in earthquakes.iterate(end=end)
    ]


def test_a_page_has_fifty_rows_and_counts_them(viewer, earthquakes):
    """The default; the next page counts on, and leads back to the first."""
    beginning = viewer.get(of("quakes"))
    assert len(items(beginning)) == 50
    assert "Items 1 to 50" in text(beginning)
    assert first(beginning) is None
    second = viewer.get(of("quakes") + following(beginning))
    assert "Items 51 to 100" in text(second)
    assert items(viewer.get(of("quakes") + first(second))) == items(beginning)


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
    assert "No items to show." in text(viewer.get(of("tickets")))


def test_the_queues_settings_are_shown(viewer, setting):
    """Kind, priorities, codec, what is not set, and where it is stored."""
    markup = text(viewer.get(of("quakes")))
    for fact in ("priority", "float", "json", "none: one part", "none: in order", "no limit"):
        assert f"<dd>{fact}</dd>" in markup
    assert f"(&#x27;fdbqueue-test&#x27;, &#x27;{setting['PREFIX'][1]}&#x27;, " in markup


def test_the_table_shows_time_attempts_and_size(viewer, queue):
    """As an age, whose moment shows on hovering; and in the stored bytes."""
    item = queue("mail").push({"to": "ada"})
    markup = text(viewer.get(of("mail")))
    moment = item.pushed_at.strftime("%Y-%m-%d %H:%M:%S UTC")
    assert re.search(rf'<time [^>]*title="{moment}">\d+ \w+ ago</time>', markup)
    assert f">{moment}</time>" in text(viewer.get(of("mail", item)))
    size = f'<span title="{item.size_bytes} bytes">{item.size_bytes} bytes</span>'
    minor = '<td class="fdbqueue-number fdbqueue-minor" role="cell" data-label='
    assert f'{minor}"Size">{size}</td>' in markup
    assert f'{minor}"Failed attempts">0</td>' in markup


@cases(
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
        "before=AAAA",
        "state=popped",
        "span=year",
        "refresh=1",
        "q=" + "x" * 201,
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
    assert "Please correct the errors below." in text(response)
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


@pytest.mark.parametrize("end", ["min", "max"])
def test_paging_back_shows_the_pages_that_were_left(viewer, earthquakes, end):
    """Each page, its items, their numbers and its links, the other way round."""
    there = list(walk(viewer, of("quakes"), f"?end={end}&limit=50"))
    assert len(there) == 9
    response = there[-1]
    for left in there[-2::-1]:
        response = viewer.get(of("quakes") + previous(response))
        assert items(response) == items(left)
        assert numbers(response) == numbers(left)
        assert following(response) is not None
    assert previous(response) is None
    assert first(response) is None


def numbers(response):
    """Return the positions in a table of items."""
    return re.findall(r'<a id="item-[^>]*>(\d+)</a>', text(response))


def test_paging_back_stays_right_while_others_push_and_pop(viewer, queue):
    """Nothing is shown twice, nothing is passed by; what came before is reached."""
    mail = queue("mail")
    mail.push_many(range(100))
    everything = [item.id for item in mail]
    last = viewer.get(of("mail") + following(viewer.get(of("mail"))))
    mail.pop_many(10)
    mail.push_many(range(5))
    back = viewer.get(of("mail") + previous(last))
    assert items(back)[:40] == everything[10:50]
    assert items(back) == [item.id for item in mail.page(limit=50).items]
    assert previous(back) is None  # the beginning is reached: a whole first page is shown


def test_back_from_a_page_that_has_become_empty(viewer, queue):
    """What was behind the cursor is gone; no link passes by the item before it."""
    mail = queue("mail")
    mail.push_many(range(60))
    address = following(viewer.get(of("mail")))
    mail.pop_many(10, end="max")
    empty = viewer.get(of("mail") + address)
    assert "There are no more items." in text(empty)
    assert previous(empty) is None
    beginning = viewer.get(of("mail") + first(empty))
    assert items(beginning) == [item.id for item in mail]
    assert numbers(beginning) == [str(number) for number in range(1, 51)]


@pytest.mark.parametrize("state", ["leased", "delayed", "dead"])
def test_a_tab_shows_the_items_of_a_state(viewer, queue, state):
    """With until when, or why; the tab says how many there are, and is marked."""
    tickets = queue("tickets")
    tickets.push("ready", 1)
    item = tickets.push("hidden", 2, delay=7_200 if state == "delayed" else None)
    if state == "leased":
        tickets.lease_max(seconds=7_200)
    if state == "dead":
        tickets.bury(item.id, reason="<b>broken</b>")
    response = viewer.get(of("tickets") + f"?state={state}")
    assert items(response) == [item.id]
    assert re.search(rf'id="tab-{state}"[^>]* aria-current="page"', text(response))
    expected = "&lt;b&gt;broken&lt;/b&gt;" if state == "dead" else "in 2\xa0hours"
    assert expected in text(response) or re.search(r"in [12] h<", text(response))
    shown = text(viewer.get(of("tickets", item)))
    assert f"<td>{state.capitalize()}</td>" in shown
    assert expected in shown or "in 1\xa0hour" in shown


def test_a_lease_that_is_over_says_so(viewer, queue, monkeypatch):
    """It says what happens next."""
    queue("mail").push("x")
    queue("mail").lease(seconds=0.001)
    response = viewer.get(of("mail") + "?state=leased")
    assert "expired; returns at the next pop or lease" in text(response)


def test_a_text_is_looked_for_in_the_values(viewer, push_earthquakes):
    """In capitals or not, with their places; the page says how far it looked."""
    earthquakes = push_earthquakes(1)
    response = viewer.get(of("quakes") + "?q=HUALIAN&limit=200")
    wanted = [
        (number, item.id)
        for number, item in enumerate(earthquakes.iterate(), 1)
        if "hualian" in json.dumps(item.value, ensure_ascii=False).lower()
    ]
    assert len(wanted) > 5
    assert items(response) == [item_id for _, item_id in wanted]
    assert numbers(response) == [str(number) for number, _ in wanted]
    summary = progress(response)
    assert summary == f"{len(wanted)} hits in 1,705 items looked at; there are no more."


def progress(response):
    """Return the line that says how far a search has come, without its markup."""
    line = text(response).partition('<p id="looked-at"')[2].partition(">")[2]
    return re.sub(r"<[^>]+>", "", line.partition("</p>")[0])


def test_a_search_goes_on_where_it_stopped(viewer, queue, monkeypatch):
    """It looks at so many items, says which, and one can go on from there, and back."""
    monkeypatch.setattr("fdbqueue.pages.item_list.MAX_ITEMS_SEARCHED", 100)
    mail = queue("mail")
    mail.push_many([*["hay"] * 150, "needle", *["hay"] * 70, "needle"])
    start = viewer.get(of("mail") + "?q=needle")
    assert items(start) == []
    assert "None of these items contains the text." in text(start)
    assert progress(start) == "0 hits in 100 items looked at of 222. Go on from item 101"
    second = viewer.get(of("mail") + following(start))
    assert numbers(second) == ["151"]
    assert progress(second) == (
        "1 hit in 100 items looked at, from 101 to 200 of 222. Go on from item 201"
    )
    third = viewer.get(of("mail") + following(second))
    assert numbers(third) == ["222"]
    assert following(third) is None
    assert numbers(viewer.get(of("mail") + previous(third))) == ["151"]


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("raw", b"caf\xc3\xa9 \xff", "CAFÉ"),
        ("pairs", ("a", 5), "'a', 5"),
        ("mail", {"n": 10**30}, "1000000000000000000000000000000"),
        ("mail", "<b>", "<b>"),
    ],
)
def test_a_text_is_looked_for_in_what_is_shown(viewer, queue, name, value, wanted):
    """In bytes as UTF-8, in tuples as Python writes them, in JSON as it is."""
    item = queue(name).push(value)
    queue(name).push(b"other" if name == "raw" else "other")
    response = viewer.get(of(name), {"q": wanted})
    assert items(response) == [item.id]


def test_a_direction_mark_is_found_as_it_is_shown(viewer, queue):
    """As the escape that the page has in its place, and as itself."""
    item = queue("mail").push("\u202etxt.exe\x7f")
    queue("mail").push("txt.exe")
    for wanted in (r"\u202ETXT", "\u202etxt", r"exe\u007f"):
        assert items(viewer.get(of("mail"), {"q": wanted})) == [item.id]


@pytest.mark.parametrize("state", ["ready", "delayed"])
def test_values_of_two_chunks_are_read_once(viewer, queue, settings, watched, state):
    """A page that ended early has read as much as one may, and is not asked for again."""
    wide = {"kind": "fifo", "max_value_bytes": 200_000}
    settings.FDBQUEUE = {**settings.FDBQUEUE, "QUEUES": {"wide": wide}}
    wide = queue("wide")
    delay = 600 if state == "delayed" else None
    wide.push_many(("x" * 100_500 for _ in range(60)), delay=delay)
    watched.reads.clear()
    pages = list(walk(viewer, of("wide"), f"?limit=200&state={state}"))
    assert [len(items(page)) for page in pages] == [25, 25, 10]
    assert [item for page in pages for item in items(page)] == [
        item.id for item in wide.iterate(state=state)
    ]


@pytest.mark.parametrize("name", ["state", "end", "span", "refresh"])
def test_what_is_no_choice_is_not_repeated(viewer, name):
    """It may be long, and may turn the text beside it round."""
    response = viewer.get(of("mail"), {name: "\u202eWRONG" + "x" * 3_000})
    assert response.status_code == 400
    assert "This is not one of the choices." in text(response)
    error = text(response).partition("Please correct the errors below.")[2]
    assert "xxxx" not in error.partition("</form>")[0]
    assert "\u202e" not in error.partition("</form>")[0]


def test_the_links_keep_what_was_asked_for(viewer, earthquakes):
    """Order, range, text, rows, time of the charts, and how often to refresh."""
    query = "?end=max&min_priority=1&q=a&limit=25&span=day&refresh=30"
    for link in (following(viewer.get(of("quakes") + query)),):
        for part in query[1:].split("&"):
            assert part in link


def test_the_queues_counts_are_shown(viewer, queue):
    """Each state's, the oldest, and what goes in and out a minute."""
    queue("mail").push_many(range(1_234))
    queue("mail").lease_many(3)
    markup = text(viewer.get(of("mail")))
    for state, count in (("Ready", "1,231"), ("Leased", "3"), ("Delayed", "0"), ("Dead", "0")):
        address = "" if state == "Ready" else f"state={state.lower()}"
        link = rf'<a id="figure-{state.lower()}" href="\?{address}#fdbqueue-live">'
        assert re.search(rf"<dt>{state}</dt><dd>{link}{count}</a></dd>", markup)
    assert re.search(r"<dt>Oldest</dt><dd><time [^>]*>\d+ s</time>", markup)


@pytest.mark.parametrize("query", ["", "?span=day", "?q=nothing", "?state=dead", "?end=max"])
@pytest.mark.parametrize("name", ["quakes", "mail"])
def test_a_queues_page_takes_few_reads(viewer, queue, watched, name, query):
    """At most fifteen, whatever it shows, and two for each thousand items that a search reads."""
    many = ((n, n % 300 / 10) for n in range(2_500)) if name == "quakes" else range(2_500)
    queue(name).push_many(many)
    watched.reads.clear()
    response = viewer.get(of(name) + query)
    assert response.status_code == 200
    assert len(watched.reads) <= 15 + (4 if "q=" in query else 0)


def test_the_reads_do_not_grow_with_the_queue(viewer, queue, watched):
    """A page of fifty of two thousand takes as many as a page of fifty of sixty."""
    found = []
    queue("tickets").push(0)
    viewer.get(of("tickets"))  # has seen the queue's format
    for count in (59, 2_000):
        queue("tickets").push_many((n, n % 10) for n in range(count))
        watched.reads.clear()
        viewer.get(of("tickets"))
        found.append(len(watched.reads))
    assert found[0] == found[1]
