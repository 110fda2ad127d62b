"""Where things are on the pages: what is looked at most is in view, at every width."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from fdbqueue.service import run
from tests.browser.machinery import LIST, long_ages, pushed_out, rows_in_view

pytestmark = pytest.mark.layout

QUAKES = f"{LIST}quakes/"
#: The width of a window, and how far down its first row of items may be.
FIRST_ROWS = {390: 700, 768: 760, 1280: 450, 1440: 450}
HEIGHT = 844


#: A name without a place where it may break.
LONGEST = "user-" + "x" * 90


@pytest.fixture
def busy(queues):
    """A queue of every kind of trouble, and one with a name that is long."""
    run(
        queues.database,
        lambda tr: tr.set(
            queues.queue("user-blocked").subspace.pack((0, b"of another program")), b"no JSON"
        ),
    )
    queues.queue("user-" + "long-name-" * 6).push_many(range(3))
    for number in range(7):
        queue = queues.queue(f"user-paused-{number}")
        queue.push("x")
        queue.pause(reason="deploying")
    queues.queue("mail").push_many({"to": "ada@example.org"} for _ in range(3))
    queues.queue("mail").bury(queues.queue("mail").peek().id, reason="x" * 300)
    return queues


@pytest.fixture
def longest(queues):
    """A queue of every state, with the longest name."""
    queue = queues.queue(LONGEST)
    queue.push_many(range(3))
    queue.bury(queue.peek().id, reason="no such address")
    queue.lease(seconds=3_600, worker="worker-1")
    queue.pause(reason="deploying")
    yield queue
    queue.resume()
    queue.clear()


#: Reasons that are as long as those of mail servers.
REASONS = ("SMTPDataError: 452 the mailbox is full", "SMTPRecipientsRefused: 550 no such mailbox")


@pytest.fixture
def failing(queues):
    """A queue of dead letters that failed three times each, for one of two reasons."""
    queue = queues.queue("user-failing")
    queue.clear()
    for number in range(24):
        item = queue.push({"to": f"reader-{number}@example.org", "subject": "x" * 80})
        for is_last in (False, False, True):
            lease = queue.lease(seconds=60, worker="worker-2.example.org")
            queue.nack(lease, reason=REASONS[number % 2], retry=not is_last)
        assert queue.get(item.id).state == "dead"
    refused = queues.queue("user-refused")
    refused.clear()
    refused.bury(refused.push("x").id, reason="builtins.ConnectionRefusedError")
    return queue


def top(page, selector):
    """Return how far an element is below the top of its page."""
    return page.evaluate(
        "selector => document.querySelector(selector).getBoundingClientRect().top + scrollY",
        selector,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("mount", [LIST, "/queues/"])
def test_the_items_come_early(visit, mount, scheme):
    """After the state of the queue in a row of tiles, above the first fold."""
    visitor = visit(color_scheme=scheme)
    for width, most in FIRST_ROWS.items():
        visitor.page.set_viewport_size({"width": width, "height": HEIGHT})
        visitor.go(f"{mount}quakes/?refresh=0")
        assert top(visitor.page, "#scroll-items tbody tr") <= most, width
        assert top(visitor.page, ".fdbqueue-tiles") < top(visitor.page, ".fdbqueue-tabs")


@pytest.mark.parametrize("mount", [LIST, "/queues/"])
def test_no_page_is_wider_than_its_window(visit, busy, longest, mount):
    """Folded or not; what is wider scrolls in a place of its own."""
    visitor = visit()
    (item,) = longest.page().items
    parts = ("", "?state=dead", f"items/{item.id}/", "no/page/")
    for path in (
        *("", "quakes/", "user-blocked/", "mail/?state=dead", "user-empty/", "-/workers/"),
        *("-/failures/", f"-/find/?id={item.id}", f"{LONGEST}x/"),
        *(f"{LONGEST}/{part}" for part in parts),
    ):
        visitor.go(f"{mount}{path}{'&' if '?' in path else '?'}refresh=0")
        for unfolds in (False, True):
            if unfolds:
                visitor.page.evaluate(
                    "document.querySelectorAll('details').forEach(d => d.open = true)"
                )
            for width in visitor.at_widths(FIRST_ROWS, HEIGHT):
                wide = visitor.page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, (width, path, unfolds)
    visitor.complaints[:] = [c for c in visitor.complaints if "status of 40" not in c]


#: What the breadcrumbs of a page look like: all but their words.
_BREADCRUMBS = """() => {
    const trail = document.querySelector(".breadcrumbs");
    const look = (element) => {
        const style = getComputedStyle(element);
        return ["backgroundColor", "color", "fontSize", "listStyleType", "lineHeight"].map(
            (name) => style[name]
        );
    };
    const box = trail.getBoundingClientRect();
    const link = trail.querySelector("a");
    const between = trail.tagName === "OL"
        ? getComputedStyle(link.parentElement, "::after").content
        : link.nextSibling.textContent.trim()[0];
    const inList = [...trail.querySelectorAll("li")].map((one) => one.getBoundingClientRect());
    const gaps = inList.slice(1).map((one, at) => one.left - inList[at].right);
    const header = document.querySelector("#header").getBoundingClientRect();
    return {
        tag: trail.tagName,
        looks: [look(trail), look(link), look(link.parentElement)],
        box: [box.x, box.y - header.bottom, box.width, box.height],
        link: [link.getBoundingClientRect().x, link.textContent],
        last: trail.lastElementChild.getAttribute("aria-current"),
        between,
        gaps: [...new Set(gaps.map((gap) => gap.toFixed(1)))],
    };
}"""


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_breadcrumbs_are_those_of_the_admin_that_runs(visit, queues, scheme, width):
    """As on a page of Django's own, whatever its version: their box, their colours, their signs."""
    visitor = visit(color_scheme=scheme, viewport={"width": width, "height": HEIGHT})
    visitor.go("/admin/password_change/")
    expected = visitor.page.evaluate(_BREADCRUMBS)
    assert expected["box"][3] > 20
    item = queues.queue("mail").push("x")
    for path in ("", "quakes/", f"mail/items/{item.id}/", "nope/", "mail/items/nope/"):
        visitor.go(f"{LIST}{path}?refresh=0")
        found = visitor.page.evaluate(_BREADCRUMBS)
        if width == 390:  # a long trail has two lines there
            found["box"][3] = expected["box"][3]
        assert found == expected, path
    visitor.complaints[:] = [c for c in visitor.complaints if "status of 40" not in c]


def test_the_next_page_begins_at_the_table(visit):
    """Its first rows are in view, and so are the links that go on and back."""
    visitor = visit(viewport={"width": 1280, "height": HEIGHT})
    page = visitor.page
    visitor.go(f"{QUAKES}?refresh=0")
    for link, caption in (
        ("#page-next", "Items 51 to 100 of 1,707"),
        ("#page-nextbelow", "Items 101 to 150 of 1,707"),
        ("#page-previous", "Items 51 to 100 of 1,707"),
    ):
        page.locator(link).click()
        expect(page.locator("#items-caption")).to_have_text(caption)
        expect(page.locator("#scroll-items tbody tr").first).to_be_in_viewport()
        expect(page.locator("#page-next")).to_be_in_viewport()


def test_a_row_of_the_list_is_a_card_on_a_telephone(visit, busy):
    """All of it is in view, with what each figure is; its name, too, if it is long."""
    visitor = visit(viewport={"width": 390, "height": HEIGHT})
    visitor.go(f"{LIST}?refresh=0")
    page = visitor.page
    expect(page.locator("#scroll-queues thead")).to_be_hidden()
    for cell in page.locator("#scroll-queues tbody tr").first.locator("th, td").all():
        box = cell.bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
    label = page.evaluate(
        "getComputedStyle(document.querySelector('td[data-label=Ready]'), '::before').content"
    )
    assert label == '"Ready"'


@pytest.mark.parametrize("mount", [LIST, "/queues/"])
@pytest.mark.usefixtures("failing")
def test_no_column_is_pushed_out_of_view(visit, busy, mount):
    """Beside the admin's sidebar, too: what is wide asks for the width of the content."""
    busy.queue("mail").lease(seconds=3_600, worker="mailer-1@host.example.org")
    expired = busy.queue("user-expired")
    expired.push("x")
    expired.lease(seconds=0.001, worker="mailer-2@host.example.org")
    visitor = visit()
    for path in (
        "",
        "quakes/",
        "mail/",
        "mail/?state=dead",
        "mail/?state=leased",
        "user-expired/?state=leased",
        "user-failing/?state=dead",
        f"user-failing/?state=dead&group={REASONS[0]}",
        "-/workers/",
        "-/failures/",
    ):
        visitor.go(f"{mount}{path}{'&' if '?' in path else '?'}refresh=0")
        long_ages(visitor.page)
        for width in visitor.at_widths((390, 768, 940, 1024, 1280, 1440), HEIGHT):
            assert pushed_out(visitor.page) == [], (width, path)


@pytest.mark.usefixtures("failing")
def test_many_rows_are_in_view(visit, queues):
    """Fifteen items, dead letters or leases on a screen of 1440 by 900 pixels."""
    queues.queue("raw").push_many(b"x" for _ in range(20))
    for number in range(20):
        queues.queue("raw").lease(seconds=600, worker=f"worker-{number % 3}.example.org")
    visitor = visit(viewport={"width": 1440, "height": 900})
    for path in ("quakes/", "user-failing/?state=dead", "-/workers/"):
        visitor.go(f"{LIST}{path}")
        assert rows_in_view(visitor.page) >= 15, path


def test_finding_an_id_moves_nothing(visit):
    """The field opens over what is below, and is in view at every width."""
    visitor = visit()
    for width in FIRST_ROWS:
        visitor.page.set_viewport_size({"width": width, "height": HEIGHT})
        for path in ("quakes/", "-/workers/"):
            visitor.go(f"{LIST}{path}?refresh=0")
            before = top(visitor.page, "#content-main")
            visitor.page.locator(".fdbqueue-byid > summary").click()
            expect(visitor.page.locator("#find-id")).to_be_in_viewport()
            assert top(visitor.page, "#content-main") == before
            box = visitor.page.locator(".fdbqueue-find").bounding_box()
            assert 0 <= box["x"] <= box["x"] + box["width"] <= width


@pytest.mark.usefixtures("failing")
def test_a_reason_stands_above_the_dead_letters_once(visit):
    """Rows show its number, which leads to those that died of it; then they show none."""
    visitor = visit()
    visitor.go(f"{LIST}user-failing/?state=dead&refresh=0")
    page = visitor.page
    above = page.locator("#scroll-reasons tbody th").first.inner_text()
    assert above.startswith("1 SMTP")
    first = page.locator("#scroll-items td.fdbqueue-reason a").first
    number, whole = first.inner_text(), first.get_attribute("title")
    reasons = page.locator("#scroll-items td.fdbqueue-reason")
    expect(reasons).to_have_count(24)
    expect(reasons.get_by_text("SMTP").filter(visible=True)).to_have_count(0)
    assert f"{number} {whole}" in page.locator("#scroll-reasons").inner_text()
    first.click()
    expect(page.locator("#chosen-reason")).to_contain_text(whole)
    expect(page.locator("#shared")).to_contain_text(whole)
    expect(page.locator("#scroll-items td.fdbqueue-reason")).to_have_count(0)
    expect(page.locator("#scroll-items tbody tr")).to_have_count(12)


@pytest.mark.usefixtures("failing")
def test_nothing_is_cut_off_on_a_telephone(visit):
    """The buttons of the reasons are below their names, and the pages of all queues in one row."""
    visitor = visit(viewport={"width": 390, "height": HEIGHT})
    visitor.go(f"{LIST}user-failing/?state=dead&refresh=0")
    gaps = visitor.page.locator("#scroll-reasons .fdbqueue-copy").evaluate_all(
        """found => found.map((one) => one.getBoundingClientRect().top
            - one.closest("td").getBoundingClientRect().top)"""
    )
    assert len(gaps) == 4
    assert min(gaps) >= 0
    visitor.go(f"{LIST}-/workers/?refresh=0")
    tabs = visitor.page.locator(".fdbqueue-tabs a")
    assert len({box["y"] for box in (tab.bounding_box() for tab in tabs.all())}) == 1
    assert tabs.count() >= 3


def test_what_a_column_cuts_off_is_shown_on_hovering(visit, queues):
    """The names of queues, values, and the names of workers where these are cut off."""
    queue = queues.queue("user-" + "long-name-" * 6)
    queue.clear()
    queue.push("x" * 90)
    worker = "worker-of-a-long-name.department.example.org:4711"
    queue.lease(seconds=600, worker=worker)
    visitor = visit()
    visitor.go(f"{LIST}{queue.name}/?state=leased")
    expect(visitor.page.locator(f'td [title="{worker}"]')).to_be_visible()
    visitor.go(f"{LIST}-/workers/")
    expect(visitor.page.get_by_text(worker)).to_be_visible()
    expect(visitor.page.locator(f'[title="{queue.name}"]')).to_be_visible()
    value = '"' + "x" * 90 + '"'
    expect(visitor.page.locator(f"td [title='{value}']")).to_be_visible()
    queue.clear()


def test_an_item_is_a_card_on_a_telephone(visit, busy):
    """Its value and what is said of it are in view, each with its name."""
    visitor = visit(viewport={"width": 390, "height": HEIGHT})
    visitor.go(f"{LIST}mail/?state=dead&refresh=0")
    page = visitor.page
    expect(page.locator("#scroll-items thead")).to_be_hidden()
    for cell in page.locator("#scroll-items tbody tr").first.locator("th, td").all():
        box = cell.bounding_box()
        if box is not None:
            assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
    label = page.evaluate(
        "getComputedStyle(document.querySelector('td[data-label=Died]'), '::before').content"
    )
    assert label == '"Died"'


def test_the_letters_of_charts_are_not_scaled(visit):
    """They are as large as the page says at every width, and none is outside its figure."""
    visitor = visit()
    for width in FIRST_ROWS:
        visitor.page.set_viewport_size({"width": width, "height": HEIGHT})
        visitor.go(f"{QUAKES}?refresh=0")
        visitor.page.locator("#fold-charts").evaluate("fold => { fold.open = true; }")
        outside, heights = visitor.page.evaluate(
            """() => {
                const texts = [...document.querySelectorAll(".fdbqueue-chart text")];
                const outside = texts.filter((text) => {
                    const box = text.getBoundingClientRect();
                    const figure = text.closest("figure").getBoundingClientRect();
                    return box.left < figure.left || box.right > figure.right;
                });
                return [
                    outside.map((text) => text.textContent),
                    texts.map((text) => text.getBoundingClientRect().height),
                ];
            }"""
        )
        assert outside == [], width
        assert len(heights) > 20
        assert min(heights) == pytest.approx(max(heights), abs=1)
        assert 12 <= min(heights) <= 18


def test_the_charts_stay_unfolded(visit):
    """On the next page, and where their period is chosen; folded, they stay folded."""
    visitor = visit()
    visitor.go(f"{QUAKES}?refresh=0")
    page = visitor.page
    expect(page.locator("#chart-depth-caption")).to_be_hidden()
    page.locator("#fold-charts > summary").click()
    page.locator("#span-2").click()
    expect(page.locator("#chart-depth-caption")).to_have_text("Depth, last day")
    expect(page.locator("#chart-depth-caption")).to_be_visible()
    visitor.go(f"{LIST}mail/?refresh=0")
    page.locator("#fold-charts > summary").click()
    visitor.go(f"{QUAKES}?refresh=0")
    expect(page.locator("#chart-depth-caption")).to_be_hidden()


def test_the_filters_fold_on_a_telephone_alone(visit):
    """The text to look for stays in sight; what is filled in is not folded away."""
    visitor = visit(viewport={"width": 390, "height": HEIGHT})
    visitor.go(f"{QUAKES}?refresh=0")
    page = visitor.page
    expect(page.get_by_label("Value contains")).to_be_visible()
    expect(page.get_by_label("Rows per page")).to_be_hidden()
    visitor.go(f"{QUAKES}?refresh=0&limit=25")
    expect(page.get_by_label("Rows per page")).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": HEIGHT})
    visitor.go(f"{QUAKES}?refresh=0")
    expect(page.get_by_label("Rows per page")).to_be_visible()


def test_a_blocked_queue_is_put_right_with_the_command_of_its_page(visit, busy):
    """It is copied, and when it is done the banner goes."""
    blocked = busy.queue("user-blocked")
    blocked.push("next")
    visitor = visit(permissions=["clipboard-read", "clipboard-write"])
    page = visitor.page
    expect(page.locator("#blocked-user-blocked")).to_be_visible()
    visitor.go(f"{LIST}user-blocked/?refresh=2")
    page.get_by_role("button", name="Copy the command that buries it").click()
    expect(page.locator(".fdbqueue-blocked .fdbqueue-copied")).to_have_text("Copied")
    words = page.evaluate("navigator.clipboard.readText()").split()
    assert words[:4] == ["python", "manage.py", "queue_bury", "user-blocked"]
    blocked.bury(words[4], reason=words[5].removeprefix("--reason="))
    expect(page.locator(".fdbqueue-blocked")).to_have_count(0)
    assert blocked.pop().value == "next"
