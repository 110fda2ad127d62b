"""The queues that need attention: above the list, in its order, and on their own pages."""

from __future__ import annotations

import html
import re
import shlex

import pytest
from django.core.management import call_command

from fdbqueue.columns.queue_rows import Cause, QueueRow
from fdbqueue.pages import queues_page
from fdbqueue.service import Counts, Ends, FifoQueue, run
from tests.injection import time_ahead
from tests.pages.addresses import LIST, following, items, of, text
from tests.pages.test_queues import names

HOUR = 3_600
PART = {"HX-Request": "true"}


def strip(response):
    """Return the queues above the list by concern, each with its figure."""
    found = re.findall(
        r'<div class="fdbqueue-concern-(\w+)">(.*?)</div>', text(response), re.DOTALL
    )
    return {
        concern: [
            (name, html.unescape(re.sub(r"<[^>]+>", "", figure)).strip())
            for name, figure in re.findall(r'-mention"><a [^>]*>([^<]+)</a>(.*?)</span> ', group)
        ]
        for concern, group in found
    }


def block(queue, end="min"):
    """Store what cannot be decoded at an end of a FIFO queue, as another program may."""
    place = (0, b"before") if end == "min" else (2**40, b"behind")
    key = queue.subspace.pack(place)
    run(queue.database, lambda tr: tr.set(key, b"no JSON"))
    return key


def row(**known):
    """Return what is known of a queue, the rest being empty."""
    return QueueRow(None, **known)


def test_nothing_is_said_of_queues_that_are_well(viewer, queue):
    """But that they are."""
    queue("mail").push("news")
    response = viewer.get(LIST)
    assert strip(response) == {}
    assert "No queue needs attention." in text(response)


def test_the_strip_names_the_queues_and_how_much(viewer, queue):
    """Each concern is a line, the worst first; names lead to what is wrong."""
    queue("mail").push("x")
    block(queue("mail"))
    for n in range(3):
        queue("tickets").push(n, n)
        queue("tickets").bury(queue("tickets").peek().id)
    queue("raw").pause()
    response = viewer.get(LIST)
    found = strip(response)
    assert list(found) == ["blocked", "dead", "paused"]
    assert found["blocked"] == [("mail", "")]
    assert found["dead"] == [("tickets", "3")]
    assert re.fullmatch(r"\d+ s", found["paused"][0][1])
    assert "3 of 5 queues" in text(response)
    assert f'href="{of("tickets")}?state=dead">tickets</a>' in text(response)


def test_the_strip_is_refreshed(viewer, queue):
    """It is a part that htmx puts in place."""
    queue("raw").pause()
    part = text(viewer.get(LIST, headers=PART))
    assert '<div id="fdbqueue-figures" hx-swap-oob="innerHTML">' in part
    assert 'class="fdbqueue-concern-paused"' in part


def test_a_line_names_a_few_queues(viewer, queue):
    """And says how many others there are; the link sorts these to the top."""
    for number in range(9):
        queue(f"user-{number}").pause()
    response = viewer.get(LIST)
    assert len(strip(response)["paused"]) == queues_page.NAMED
    assert 'id="paused-others" href="?sort=-trouble">4 more</a>' in text(response)


def test_trouble_comes_first_by_choice(viewer, queue):
    """The blocked queue before dead letters, these before a pause; then all others by name."""
    queue("mail").pause()
    queue("tickets").push(1, 1)
    queue("tickets").bury(queue("tickets").peek().id)
    block(queue("user-7"))
    queue("user-7").push("x")
    assert names(viewer.get(LIST))[0] == "mail"
    response = viewer.get(LIST + "?sort=-trouble")
    assert names(response) == ["user-7", "tickets", "mail", "pairs", "quakes", "raw"]
    assert 'value="-trouble" selected' in text(response)
    assert 'id="trouble-first"' not in text(response)


def test_of_many_queues_the_strip_says_which_it_looked_at(viewer, queue, monkeypatch):
    """Those of the page; sorted by trouble, all of them."""
    monkeypatch.setattr(queues_page, "QUEUES_PER_PAGE", 3)
    queue("tickets").pause()
    by_name = viewer.get(LIST)
    assert strip(by_name) == {}
    assert "No queue on this page needs attention." in text(by_name)
    assert "on this page" in text(viewer.get(LIST + following(by_name)))
    by_trouble = viewer.get(LIST + "?sort=-trouble")
    assert list(strip(by_trouble)) == ["paused"]
    assert "1 of 5 queues" in text(by_trouble)
    assert "on this page" not in text(by_trouble)


def test_the_totals_are_those_of_all_queues(viewer, queue, monkeypatch):
    """Whichever are on the page; the rates are there where those of all were read."""
    queue("mail").push_many(range(1_200))
    queue("tickets").push("later", 1, delay=600)
    assert tiles(viewer.get(LIST))["total"] == "1,201"
    monkeypatch.setattr(queues_page, "QUEUES_PER_PAGE", 2)
    found = tiles(viewer.get(LIST + "?page=3"))
    assert found == {
        "queues": "5",
        "total": "1,201",
        "ready": "1,200",
        "leased": "0",
        "delayed": "1",
        "dead": "0",
    }


def tiles(response):
    """Return the figures above the list."""
    return dict(
        re.findall(r'id="tile-(\w+)"><dt>[^<]*</dt><dd>(?:<a [^>]*>)?([^<]*)<', text(response))
    )


@pytest.mark.parametrize("order", ["name", "-trouble"])
def test_items_without_push_times_wait_too_long(viewer, queue, order):
    """More are ready than came in ten minutes; the page says why it has no age."""
    with time_ahead(-HOUR):
        queue("raw").push_many([b"a", b"b"])
    queue("pairs").push(("new", 1))
    assert strip(viewer.get(f"{LIST}?sort={order}")) == {"untaken": [("raw", "")]}
    tile = '<dt>Oldest</dt><dd><abbr title="the codec stores no push time">'
    assert tile in text(viewer.get(of("raw")))
    queue("raw").pop_many(2)
    assert "stores no push time" not in text(viewer.get(of("raw")))
    assert strip(viewer.get(f"{LIST}?sort={order}")) == {}


def test_the_worst_concern_counts_most():
    """One blocked queue is before one with everything else."""
    blocked = row(ends=Ends(is_empty=False, undecodable=("max",), undecodable_ids=("x",)))
    others = row(counts=Counts(5, 0, 0, 5), causes={"lost": Cause(), "slow": Cause()})
    assert queues_page.trouble(blocked) > queues_page.trouble(others) > 0
    assert queues_page.trouble(row()) is None


@pytest.mark.parametrize("end", ["min", "max"])
def test_the_page_of_a_blocked_queue_says_what_to_do(viewer, queue, end):
    """Which end it is, and the commands that find and bury the item."""
    mail = queue("mail")
    mail.push_many(range(2))
    block(mail, end)
    markup = text(viewer.get(of("mail")))
    assert f"The item at the {end} end" in markup
    assert "python manage.py queue_doctor mail</code>" in markup
    (ids,) = re.findall(r"queue_bury mail (\S+) --reason=undecodable</code>", markup)
    mail.bury(ids, reason="undecodable")
    assert mail.pop().value == 0
    assert "queue_bury" not in text(viewer.get(of("mail")))


def test_the_page_of_an_item_that_blocks_says_what_to_do(viewer, queue):
    """It has the command that buries it; an item that can be decoded has none."""
    mail = queue("mail")
    good = mail.push(1)
    block(mail)
    bad = mail.page().items[0]
    assert "queue_bury" not in text(viewer.get(of("mail", good)))
    page = text(viewer.get(of("mail", bad)))
    (command,) = re.findall(r'<code id="fdbqueue-remedy">(.*?)</code>', page)
    call_command(*shlex.split(html.unescape(command))[2:])
    (dead,) = mail.page(state="dead").items
    assert (dead.id, dead.reason) == (bad.id, "undecodable")
    page = text(viewer.get(of("mail", dead)))
    assert ("queue_remove mail " in page, "queue_redrive" in page) == (True, False)
    assert mail.pop().value == 1


def test_an_item_that_is_at_both_ends_is_named_once(viewer, queue):
    """It is the only one."""
    block(queue("mail"))
    markup = text(viewer.get(of("mail")))
    assert "The items at both ends cannot be decoded." in markup
    assert re.search(r"queue_bury mail \S+ --reason", markup)


def test_a_blocked_queue_is_marked_in_the_list(viewer, queue):
    """As long as it is blocked."""
    key = block(queue("mail"))
    mark = r'>mail</a> <span class="fdbqueue-mark fdbqueue-bad" title="[^"]+">Blocked</span>'
    assert re.search(mark, text(viewer.get(LIST)))
    run(queue("mail").database, lambda tr: tr.clear(key))
    assert not re.search(mark, text(viewer.get(LIST)))


def test_a_refresh_brings_what_blocks_a_queue_and_takes_it(viewer, queue):
    """With the banner of a pause, which may be there, too."""
    queue("mail").pause()
    key = block(queue("mail"))
    part = text(viewer.get(of("mail"), headers=PART))
    assert "fdbqueue-blocked" in part
    assert "queue_resume mail" in part
    run(queue("mail").database, lambda tr: tr.clear(key))
    assert "fdbqueue-blocked" not in text(viewer.get(of("mail"), headers=PART))


def test_an_old_item_is_seen_on_its_page(viewer, queue):
    """The tile of the oldest stands out, and so does that of the dead; and what to do is said."""
    with time_ahead(-HOUR):
        queue("mail").push_many(range(2))
        assert 'fdbqueue-tile" id="tile-oldest"' in text(viewer.get(of("mail")))
        queue("mail").bury(queue("mail").peek().id)
    markup = text(viewer.get(of("mail")))
    assert "Nothing takes items" in markup
    assert "python manage.py queue_work mail --handler PATH</code>" in markup
    assert 'fdbqueue-tile fdbqueue-warning" id="tile-oldest"' in markup
    assert 'fdbqueue-tile fdbqueue-bad" id="tile-dead"' in markup
    assert list(strip(viewer.get(LIST))) == ["untaken", "dead"]
    assert items(viewer.get(of("mail")))


def test_a_queue_that_was_written_under_other_settings(viewer, queue):
    """It is named before all others, its page says what differs, and no item is shown."""
    mail = queue("mail")
    other = FifoQueue(mail.database, mail.subspace, codec="tuple")
    other.push(("a", 1))
    markup = text(viewer.get(LIST))
    assert list(strip(viewer.get(LIST))) == ["mismatched"]
    assert "Other settings" in markup
    response = viewer.get(of("mail"))
    assert response.status_code == 409
    page = html.unescape(text(response))
    assert "written under codec tuple, but the setting here says codec json" in page
    assert "manage.py queue_doctor mail" in page
