"""What others put into a queue is shown, and does nothing."""

from __future__ import annotations

import ast
import html
import json
import re

import fdb.tuple
import pytest

from fdbqueue.columns.text import size
from fdbqueue.service.transactions import run
from tests.cases import cases
from tests.pages.addresses import LIST, of, text


def put(queue, value, index=1):
    """Store bytes as an item, as a foreign writer may, and return the item."""
    key = queue.subspace.pack((index, b"random"))
    run(queue.database, lambda tr: tr.set(key, value))
    return queue.page(end="max", limit=1).items[0]


def main(response):
    """Return the part of a page that is ours, as a reader sees its text."""
    return html.unescape(text(response).partition("<main")[2])


def shown(response):
    """Return the whole value on an item's page."""
    return html.unescape(re.search(r"<pre[^>]*>(.*)</pre>", text(response), re.DOTALL)[1])


def deep(levels):
    """Return lists in lists."""
    value = []
    for _ in range(levels):
        value = [value]
    return value


HOSTILE = [
    "<script>alert(1)</script>",
    "</code></td><img src=x onerror=alert(1)>",
    {'"><svg onload=alert(1)>': ["'", '"', "&lt;", "{{ 7|add:7 }}", "{% now 'Y' %}"]},
    "x" * 90_000,
    "\u202e txt.exe",
    "\x00\x01\x1b[31m\x7f\x85\u2028\u2029\ufeff\u200f\u2066",
    "e" + "\u0301" * 5000,
    "\U000e0041 tag",
    deep(199),
    [0] * 40_000,
    {"k" * 60_000: 1},
    10**4000,
]


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_value_is_harmless(viewer, queue, value):
    """It is escaped and clipped on the lists, and whole on its own page."""
    mail = queue("mail")
    item = mail.push(value)
    for address in (LIST, of("mail")):
        response = viewer.get(address)
        assert response.status_code == 200
        assert len(response.content) < 60_000
        assert_harmless(response)
    response = viewer.get(of("mail", item))
    assert_harmless(response)
    assert json.loads(shown(response)) == value


def test_a_text_beyond_all_bounds_is_cut(viewer, queue, monkeypatch):
    """And says that it is."""
    monkeypatch.setattr("fdbqueue.pages.item_page.TEXT_CHARACTERS", 50)
    response = viewer.get(of("mail", queue("mail").push("x" * 100)))
    assert len(shown(response)) == 50
    assert "Showing the first 50 of 102 characters." in main(response)


def test_bytes_beyond_all_bounds_are_cut(viewer, queue, monkeypatch):
    """And say that they are."""
    monkeypatch.setattr("fdbqueue.pages.values.DUMPED_BYTES", 32)
    response = viewer.get(of("raw", queue("raw").push(b"x" * 100)))
    assert len(shown(response).splitlines()) == 2
    assert "Showing the first 32 of 100 bytes." in main(response)


def test_an_item_leads_to_its_neighbours(viewer, queue):
    """Those before and behind it in the same state; at an end there is none."""
    one, two, three = (queue("tickets").push(n, priority=n) for n in range(3))
    hidden = queue("tickets").push("hidden", priority=1, delay=60)
    response = viewer.get(of("tickets", two))
    assert f'rel="prev" href="{of("tickets", one)}"' in text(response)
    assert f'rel="next" href="{of("tickets", three)}"' in text(response)
    assert "No previous item" in main(viewer.get(of("tickets", one)))
    assert "No next item" in main(viewer.get(of("tickets", three)))
    alone = main(viewer.get(of("tickets", hidden)))
    assert "No previous item" in alone
    assert "No next item" in alone


KEY_ENDS = [bytes(range(start, start + 20)) for start in range(0, 240, 20)] + [
    b"'",
    b'"',
    b"'\";\\ ",
]


@pytest.mark.parametrize("end", KEY_ENDS, ids=range(len(KEY_ENDS)))
def test_an_items_key_is_shown(viewer, queue, end):
    """As a tuple, and as fdbcli takes it, whatever the bytes that end it."""
    tickets = queue("tickets")
    key = tickets.subspace.pack((7, 0, end))
    run(tickets.database, lambda tr: tr.set(key, fdb.tuple.pack(('"x"',))))
    (item,) = tickets.page().items
    cells = re.findall(r'<bdi dir="ltr"><code>(.*?)</code>', text(viewer.get(of("tickets", item))))
    _, as_tuple, for_fdbcli = map(html.unescape, cells)
    assert ast.literal_eval(as_tuple) == fdb.tuple.unpack(key)
    assert re.fullmatch(r'([^\\";\s]|\\x[0-9a-f]{2})+', for_fdbcli)  # others mean something there
    unescaped = re.sub(r"\\x(..)", lambda found: chr(int(found[1], 16)), for_fdbcli)
    assert unescaped.encode("latin-1") == key


def assert_harmless(response):
    """Nothing but our markup is in the page, and no character that hides or reorders."""
    markup = text(response)
    for tag in ("<script", "<img", "<svg onload"):
        assert tag not in markup.partition("<main")[2].partition("</main>")[0]
    assert not re.search(
        "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2066]", markup
    )


def test_a_preview_is_about_a_hundred_characters(viewer, queue):
    """What is longer is clipped, and says so for those who do not see the dots."""
    queue("mail").push("x" * 90_000)
    markup = text(viewer.get(of("mail")))
    assert re.search(r"<code>(.*?)</code>", markup.partition('id="items-caption"')[2])[1] == (
        "&quot;" + "x" * 99 + "…"
    )
    assert "(shortened)" in markup


def test_a_page_of_the_largest_values_is_small(viewer, queue):
    """Two hundred rows of 90 kB stay a page that a browser likes, and can be paged through."""
    queue("mail").push_many("x" * 90_000 for _ in range(120))
    response = viewer.get(of("mail") + "?limit=200")
    assert len(response.content) < 200_000
    assert 'rel="next"' in text(response)


def test_integers_are_exact(viewer, queue):
    """Those beyond what a browser's numbers hold too."""
    item = queue("mail").push({"id": 12345678901234567890123, "big": 2**53 + 1})
    markup = main(viewer.get(of("mail", item)))
    assert '"id": 12345678901234567890123,' in markup
    assert '"big": 9007199254740993' in markup


def test_json_is_indented(viewer, queue):
    """One member a line, in the order it was pushed in, unicode as it is."""
    item = queue("mail").push({"to": "Zoë", "parts": [1, None]})
    wanted = '{\n  "to": "Zoë",\n  "parts": [\n    1,\n    null\n  ]\n}'
    assert shown(viewer.get(of("mail", item))) == wanted


def test_deep_nesting_makes_no_big_page(viewer, queue):
    """Where indentation would outgrow the value, the JSON is shown in one piece."""
    value = [deep(198)] * 200
    item = queue("mail").push(value)
    response = viewer.get(of("mail", item))
    assert len(response.content) < 300_000
    assert json.loads(shown(response)) == value


def test_nesting_beyond_all_bounds_is_no_traceback(viewer, queue):
    """A foreign writer's ten thousand brackets are shown, or said to be too many."""
    text_ = "[" * 10_000 + "]" * 10_000
    item = put(queue("mail"), fdb.tuple.pack((text_,)))
    assert viewer.get(of("mail")).status_code == 200
    response = viewer.get(of("mail", item))
    assert response.status_code == 200
    assert len(response.content) < 500_000


def test_a_lone_surrogate_is_shown(viewer, queue):
    """JSON may name one, and no page could be encoded with it."""
    item = put(queue("mail"), fdb.tuple.pack((r'"\ud800"',)))
    assert r'"\ud800"' in main(viewer.get(of("mail")))
    assert shown(viewer.get(of("mail", item))) == r'"\ud800"'


@cases("moment", [2**62, -(2**62), 253_402_300_799_999_999, 10**200, "now", None])
def test_a_moment_that_is_none_is_left_out(viewer, queue, moment):
    """A foreign writer may claim any time for its push."""
    item = put(queue("mail"), fdb.tuple.pack(("1", moment, 7)))
    for address in (LIST, of("mail"), of("mail", item)):
        response = viewer.get(address)
        assert response.status_code == 200
        assert "<time" not in text(response)


def test_a_foreign_writers_long_number_is_clipped(viewer, queue):
    """FoundationDB's tuples hold integers of 600 digits; what a queue here writes is exact."""
    tickets = queue("tickets")
    tickets.push(1, priority=-(2**63))
    key = tickets.subspace.pack((10**600, 0, b"random"))
    value = fdb.tuple.pack(("1", 1, 10**600))
    run(tickets.database, lambda tr: tr.set(key, value))
    markup = main(viewer.get(of("tickets")))
    assert ">-9223372036854775808</td>" in markup
    assert markup.count(f">1{'0' * 29}…</td>") == 1  # the priority; such attempts are none
    assert "0" * 30 not in markup


def test_the_future_is_called_so(viewer, queue):
    """A client's clock may be ahead of the server's."""
    put(queue("mail"), fdb.tuple.pack(("1", 10**17, 0)))
    assert "in the future" in main(viewer.get(of("mail")))


@pytest.mark.parametrize(
    "raw", [b"", b"\xff\x00garbage", fdb.tuple.pack((5,)), fdb.tuple.pack(("{broken",))]
)
def test_a_value_that_cannot_be_decoded_is_shown_as_its_bytes(viewer, queue, raw):
    """With the reason on its own page; the items around it are shown as ever."""
    good = queue("mail").push("good")
    bad = put(queue("mail"), raw, index=9)
    markup = main(viewer.get(of("mail")))
    assert markup.count("Cannot be decoded") == 1
    assert '"good"' in markup
    response = viewer.get(of("mail", bad))
    assert "Cannot be decoded:" in main(response)
    assert raw[:16].hex(" ") in main(response)
    assert viewer.get(of("mail", good)).status_code == 200


def test_bytes_are_dumped(viewer, queue):
    """Offset, hexadecimal, ASCII."""
    item = queue("raw").push(b"<b>hello</b>\x00\xff and more")
    assert "b'<b>hello</b>\\x00\\xff and more'" in main(viewer.get(of("raw")))
    assert shown(viewer.get(of("raw", item))).splitlines() == [
        "00000000  3c 62 3e 68 65 6c 6c 6f 3c 2f 62 3e 00 ff 20 61  |<b>hello</b>.. a|",
        "00000010  6e 64 20 6d 6f 72 65                             |nd more|",
    ]


@pytest.mark.parametrize(
    "value", [("a", (1, None, 2.5)), 10**300, "\u202e<b>", b"\x00", (b"\x00",)]
)
def test_a_tuples_value_is_shown_as_python_writes_it(viewer, queue, value):
    """Or as a dump where it is bytes."""
    item = queue("pairs").push(value)
    assert repr(value)[:99] in main(viewer.get(of("pairs")))
    whole = shown(viewer.get(of("pairs", item)))
    assert whole == repr(value) or (isinstance(value, bytes) and whole.startswith("00000000  00 "))


def test_an_items_page_shows_its_metadata(viewer, queue):
    """Queue, priority, time, attempts, size and id."""
    item = queue("quakes").push({"place": "Hualian"}, priority=6.4)
    markup = text(viewer.get(of("quakes", item)))
    for fact in ("quakes", "6.4", f"{item.size_bytes} bytes", "0"):
        assert f"<td>{fact}</td>" in markup
    assert f"<code>{item.id}</code>" in markup
    assert item.pushed_at.strftime("%Y-%m-%d %H:%M:%S UTC") in markup


@cases(
    ("count", "words"),
    [
        (1, "1 byte"),
        (999, "999 bytes"),
        (1_000, "1 kB"),
        (1_234, "1.2 kB"),
        (9_960, "10 kB"),
        (43_210, "43 kB"),
        (999_400, "999 kB"),
        (999_600, "1.0 MB"),
        (4_940_000, "4.9 MB"),
    ],
)
def test_sizes_are_written_as_people_read_them(count, words):
    """In thousands, with at most one decimal; the exact number is beside it."""
    assert size(count).words == words
    assert size(count).exact == f"{count:,} byte{'s' * (count > 1)}"


def test_a_size_is_exact_where_it_is_asked_for(viewer, queue):
    """On the page of the item, and when a reader points at it in the list."""
    item = queue("mail").push("x" * 43_000)
    exact = f"{item.size_bytes:,} bytes"
    assert f"<td>43 kB ({exact})</td>" in text(viewer.get(of("mail", item)))
    assert f'<span title="{exact}">43 kB</span>' in text(viewer.get(of("mail")))


def show_all(response):
    """Return the address that shows all of a value, None if the page does."""
    found = re.search(r'<a id="show-all" href="([^"]+)">Show all</a>', text(response))
    return None if found is None else html.unescape(found[1])


def test_a_value_is_shown_whole_by_a_link(viewer, queue, monkeypatch):
    """The link is there if the text is cut, and leads to all of it."""
    item = queue("mail").push({"text": "x" * 90_000})
    assert show_all(viewer.get(of("mail", item))) is None
    monkeypatch.setattr("fdbqueue.pages.item_page.TEXT_CHARACTERS", 50)
    page = viewer.get(of("mail", item))
    assert len(shown(page)) == 50
    whole = viewer.get(of("mail", item) + show_all(page).partition("#")[0])
    assert json.loads(shown(whole)) == {"text": "x" * 90_000}
    assert show_all(whole) is None
    assert "Showing the first" not in text(whole)


def test_there_is_one_button_that_copies_a_value(viewer, queue):
    """It copies the text that is shown."""
    page = text(viewer.get(of("mail", queue("mail").push({"to": "ada"}))))
    assert len(re.findall(r'data-copies="fdbqueue-text"[^>]*>Copy</button>', page)) == 1
    assert page.count('<pre id="fdbqueue-text"') == 1


def test_a_list_leads_to_what_it_shortens(viewer, queue):
    """In words, and only where something is left out."""
    long = queue("mail").push("x" * 300)
    queue("mail").push("x")
    response = text(viewer.get(of("mail")))
    link = (
        f'<a class="fdbqueue-more" href="{of("mail", long)}" title="Show the whole value">'
        "Show all</a>"
    )
    assert response.count('"fdbqueue-more"') == response.count(link) == 1
    bad = put(queue("mail"), b"\xff not a tuple", 9)
    assert f'href="{of("mail", bad)}">Show the bytes</a>' in text(viewer.get(of("mail")))


def test_an_items_page_tells_of_its_unique_key(viewer, queue):
    """And until when it has it; one that has none, or none any more, shows a dash."""
    mail = queue("mail")

    def key_of(item):
        found = re.search(
            r'<th scope="row">Unique key</th><td>(.*?)</td>', text(viewer.get(of("mail", item)))
        )
        return found[1]

    assert key_of(mail.push("plain")) == "\N{EN DASH}"
    mail.pop()
    pending = mail.push("a", unique="secret name")
    assert key_of(pending) == "Kept until the item is done"
    assert "secret name" not in text(viewer.get(of("mail", pending)))
    mail.lease()
    assert key_of(pending) == "Kept until the item is done"
    ready = mail.push("b", unique="b", unique_while="ready")
    assert key_of(ready) == "Kept until the item is popped or leased"
    mail.lease()
    assert key_of(ready) == "\N{EN DASH}"
    mail.bury(mail.push("c", unique="c").id)
    (dead,) = mail.page(state="dead").items
    assert key_of(dead) == "\N{EN DASH}"


def test_a_key_that_is_no_items_does_no_harm(viewer, queue):
    """What else a foreign writer stores in the queue's subspace is shown as undecodable."""
    mail = queue("mail")
    mail.push("good")
    run(mail.database, lambda tr: tr.set(mail.subspace.pack(("a", "b", "c")), b"<b>"))
    markup = main(viewer.get(of("mail")))
    assert "Cannot be decoded" in markup
    assert '"good"' in markup
    assert viewer.get(LIST).status_code == 200


@pytest.mark.parametrize("name", ["user-a b", "user-<b>", "user-/", 7])
def test_what_is_no_queues_name_is_not_listed(viewer, queue, setting, name):
    """A foreign writer's subspace among the queues breaks no page."""
    key = fdb.tuple.pack((*setting["PREFIX"], "queue", name, 1, b"random"))
    run(queue("mail").database, lambda tr: tr.set(key, b""))
    response = viewer.get(LIST)
    assert response.status_code == 200
    assert text(response).count('<a id="queue-') == 5
