"""What somebody does with the pages in a real browser, under a strict policy."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from playwright.sync_api import expect

from project.demo.earthquakes import records
from tests.browser.machinery import LIST

QUAKES = f"{LIST}quakes/"


def earthquakes():
    """Return the demo's earthquakes, the strongest first."""
    return sorted(records(), key=lambda record: -record["magnitude"])


def priorities(page):
    """Return the priorities in the table of items, once all of its page is there."""
    page.wait_for_load_state()
    return [float(text) for text in page.locator("#scroll-items td:nth-child(2)").all_inner_texts()]


def test_the_earthquakes_are_browsed_from_the_strongest(visit):
    """Open the queue, turn the order, page forward and back, open one."""
    page = visit().page
    page.locator("#queue-quakes").click()
    expect(page.locator("#tab-ready .fdbqueue-count")).to_have_text("1,707")
    page.get_by_label("Order").select_option("max")
    page.get_by_label("Rows per page").fill("100")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#items-caption")).to_have_text("Items 1 to 100 of 1,707")
    magnitudes = [record["magnitude"] for record in earthquakes()]
    assert priorities(page) == magnitudes[:100]
    page.locator("#page-next").click()
    expect(page.locator("#items-caption")).to_have_text("Items 101 to 200 of 1,707")
    assert priorities(page) == magnitudes[100:200]
    page.locator("#page-previous").click()
    expect(page.locator("#items-caption")).to_have_text("Items 1 to 100 of 1,707")
    assert priorities(page) == magnitudes[:100]
    page.get_by_role("link", name="1", exact=True).click()
    expect(page.locator("h1")).to_have_text("Item in quakes")
    expect(page.locator("#fdbqueue-text")).to_contain_text('"magnitude": 6.4')
    page.get_by_role("link", name="Previous item").click()
    expect(page.locator("#fdbqueue-text")).to_contain_text(f'"magnitude": {magnitudes[1]}')


def test_a_push_appears_by_itself(visit, queues):
    """In the list and in the queue's page, pushed by another process; and so does a pop."""
    mail = queues.queue("mail")
    mail.clear()
    listed, one = visit(), visit()
    listed.go(LIST + "?refresh=2")
    one.go(f"{LIST}mail/?refresh=2")
    expect(one.page.locator("#fdbqueue-live")).to_contain_text("No items to show.")
    mail.push({"to": "ada"})
    expect(one.page.locator("#fdbqueue-live")).to_contain_text('{"to": "ada"}')
    expect(one.page.locator("#tab-ready .fdbqueue-count")).to_have_text("1")
    row = listed.page.locator("tr", has=listed.page.get_by_role("link", name="mail"))
    expect(row.locator("td").nth(1)).to_have_text("1")
    mail.pop()
    expect(one.page.locator("#fdbqueue-live")).to_contain_text("No items to show.")


def test_what_a_reader_has_opened_stays_open(visit, queues):
    """A refresh folds no table, moves no focus, and clears no half-written filter."""
    mail = queues.queue("mail")
    mail.clear()
    mail.push("old")
    visitor = visit()
    visitor.go(f"{LIST}mail/?refresh=2")
    page = visitor.page
    page.locator("#fold-charts > summary").click()
    page.locator("#table-depth > summary").click()
    page.get_by_label("Value contains").fill("half-writ")
    page.locator("#tab-dead").focus()
    mail.push("news")
    expect(page.locator("#fdbqueue-live")).to_contain_text("news")
    expect(page.locator("#tab-ready .fdbqueue-count")).to_have_text("2")
    expect(page.locator("#fold-charts")).to_have_attribute("open", "")
    expect(page.locator("#table-depth")).to_have_attribute("open", "")
    expect(page.locator("#tab-dead")).to_be_focused()
    expect(page.get_by_label("Value contains")).to_have_value("half-writ")


def test_a_paused_page_asks_for_nothing(visit):
    """The link pauses it, and another goes on."""
    visitor = visit()
    visitor.go(LIST)
    page = visitor.page
    page.get_by_role("link", name="off", exact=True).click()
    expect(page.get_by_role("link", name="off", exact=True)).to_have_attribute(
        "aria-current", "true"
    )
    assert page.locator("[hx-get]").count() == 0
    page.get_by_role("link", name="2 s", exact=True).click()
    with page.expect_response(lambda response: "X-Fdbqueue-Live".lower() in response.headers):
        pass


@pytest.mark.parametrize(
    ("kind", "message"),
    [("503", "data from before the failure"), ("login", "You may have been logged out")],
)
def test_a_failed_refresh_keeps_the_page_and_says_so(visit, kind, message):
    """And the next one that works takes the message away."""
    visitor = visit()
    visitor.go(QUAKES + "?refresh=2")
    page = visitor.page

    def fail(route):
        if kind == "503":
            route.fulfill(status=503, body="no answer", content_type="text/html")
        else:
            route.fulfill(status=200, body="<h1>Log in</h1>", content_type="text/html")

    page.route(re.compile("refresh=2"), fail)
    expect(page.locator("#fdbqueue-status")).to_contain_text(message)
    expect(page.locator("#items-caption")).to_have_text("Items 1 to 50 of 1,707")
    expect(page.locator("h1")).to_have_text("quakes")
    page.unroute_all()
    expect(page.locator("#fdbqueue-status")).to_be_empty()
    visitor.complaints[:] = [c for c in visitor.complaints if "503" not in c]


def test_a_server_that_is_gone_keeps_the_page(visit):
    """What was shown stays, with a word about it."""
    visitor = visit()
    visitor.go(QUAKES + "?refresh=2")
    page = visitor.page
    page.route(re.compile("refresh=2"), lambda route: route.abort())
    expect(page.locator("#fdbqueue-status")).to_contain_text("data from before the failure")
    expect(page.locator("#items-caption")).to_have_text("Items 1 to 50 of 1,707")
    visitor.complaints.clear()  # a connection that fails is an error of the console


def test_the_pages_work_without_javascript(visit):
    """List, sort, filter, page, open: all but refreshing and the copy button."""
    page = visit(java_script_enabled=False).page
    page.get_by_role("link", name="Ready").click()
    page.locator("#queue-quakes").click()
    page.get_by_label("Value contains").fill("alaska")
    page.get_by_role("button", name="Show").click()
    page.locator("#page-next").click()
    page.locator("#scroll-items tbody a").first.click()
    expect(page.locator("#fdbqueue-text")).to_contain_text("Alaska")
    expect(page.locator(".fdbqueue-copy")).to_be_hidden()
    page.go_back()
    expect(page.locator("noscript p")).to_be_visible()


def test_a_value_is_copied(visit, queues, address):
    """The whole text, with integers exact."""
    value = {"id": 12345678901234567890123, "name": "Zoë"}
    item = queues.queue("user-copy").push(value)
    visitor = visit(permissions=["clipboard-read", "clipboard-write"])
    visitor.go(f"{LIST}user-copy/items/{item.id}/")
    visitor.page.get_by_role("button", name="Copy", exact=True).click()
    expect(visitor.page.locator("#fdbqueue-copied")).to_have_text("Copied")
    copied = visitor.page.evaluate("navigator.clipboard.readText()")
    assert "12345678901234567890123" in copied
    assert json.loads(copied) == value


@pytest.mark.parametrize("width", [390, 1440])
def test_a_long_reason_fits(visit, queues, width):
    """The page of a paused queue is not wider than the window."""
    queues.queue("user-long").pause(reason="x" * 1_000)
    visitor = visit(viewport={"width": width, "height": 900})
    visitor.go(f"{LIST}user-long/")
    expect(visitor.page.locator(".fdbqueue-paused")).to_be_visible()
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_hostile_value_does_nothing(visit, queues):
    """No script of it runs, and no element of it is made."""
    hostile = '<script>alert(1)</script><img src="x" onerror="alert(2)">\u202e{"x"}</td></table>'
    item = queues.queue("user-evil").push(
        {hostile: [hostile], "deep": json.loads("[" * 150 + "]" * 150)}
    )
    visitor = visit()
    spoken = []
    visitor.page.on("dialog", lambda dialog: (spoken.append(dialog.message), dialog.dismiss()))
    for path in (f"{LIST}user-evil/", f"{LIST}user-evil/items/{item.id}/"):
        visitor.go(path)
        assert visitor.page.locator("main img, main script").count() == 0
        expect(visitor.page.locator("main")).to_contain_text("<script>alert(1)</script>")
    assert spoken == []


def test_the_command_that_redrives_is_copied(visit, queues):
    """Also after the page has refreshed; the failures of an item unfold, and stay so."""
    queue = queues.queue("user-dead")
    queue.push_many(range(2))
    for _ in range(2):
        queue.nack(queue.lease(worker="mail1:4711"), reason="no 'answer'")
    for item in list(queue):
        queue.bury(item.id, reason="no 'answer'")
    visitor = visit(permissions=["clipboard-read", "clipboard-write"])
    visitor.go(f"{LIST}user-dead/?state=dead&refresh=2")
    page = visitor.page
    page.locator("summary", has_text="2 failures").click()
    expect(page.locator(".fdbqueue-failures").first).to_contain_text("mail1:4711")
    queue.push("later")
    queue.bury(queue.peek().id, reason="another")
    expect(page.locator(".fdbqueue-reasons tbody tr")).to_have_count(2)
    expect(page.locator(".fdbqueue-failures").first).to_be_visible()
    page.get_by_role("button", name="Copy redrive for no 'answer'").click()
    expect(page.locator("#fdbqueue-copied")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert shlex.split(copied) == [
        "python",
        "manage.py",
        "queue_redrive",
        "user-dead",
        "--reason=no 'answer'",
    ]


def test_the_content_is_one_key_away(visit):
    """The first link that the Tab key reaches in the plain frame skips the header."""
    visitor = visit()
    visitor.go("/queues/?refresh=0")
    visitor.page.keyboard.press("Tab")
    expect(visitor.page.locator(".fdbqueue-skip")).to_be_focused()
    expect(visitor.page.locator(".fdbqueue-skip")).to_be_in_viewport()
    visitor.page.keyboard.press("Enter")
    expect(visitor.page.locator("main")).to_be_focused()


def test_the_pages_across_queues_are_a_key_apart(visit):
    """Their tabs are links in order, and each page says which one it is."""
    visitor = visit()
    visitor.go(LIST + "?refresh=0")
    page = visitor.page
    page.locator("#view-queues").focus()
    for name in ("Workers", "Failures", "Functions", "Schedules"):
        page.keyboard.press("Tab")
        expect(page.locator(f"#view-{name.lower()}")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("h1", has_text=name)).to_be_visible()
        expect(page.locator(f"#view-{name.lower()}")).to_have_attribute("aria-current", "page")
        page.locator(f"#view-{name.lower()}").focus()
