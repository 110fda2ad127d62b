"""What somebody does with tasks in a real browser, under a strict policy."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PREFIX
from tests.browser.machinery import LIST, long_ages, pushed_out, rows_in_view, served
from tests.browser.test_accessibility import WAYS, unfold, violations

QUEUE, ERRANDS = "tasks-default/", "tasks-errands/"
WIDTHS = (390, 768, 1280, 1440)


@pytest.fixture(scope="module")
def address(browser, folder):
    """The address of a server with tasks in every state, under a strict policy."""
    with served(folder, "--tasks", prefix=PREFIX) as found:
        yield found


@pytest.fixture(scope="module")
def tasks(address, folder):
    """The addresses of tasks below the list, by their state and function."""
    return json.loads((folder / "tasks.json").read_text(encoding="utf-8"))


def test_a_failed_task_is_found(visit):
    """From the list of queues to its exception, its traceback, its attempts and its item."""
    visitor = visit(permissions=["clipboard-read", "clipboard-write"])
    page = visitor.page
    page.locator("#queue-tasks-default").click()
    page.locator("#tab-dead").click()
    expect(page.locator("#tab-dead .fdbqueue-count")).to_have_text("5")
    page.get_by_role("link", name="of ConnectionError").click()
    expect(page.locator("#items-caption")).to_have_text("Tasks 1 to 5: 2 matching")
    expect(page.locator("#show-exception")).to_have_value("builtins.ConnectionError")
    page.locator("#scroll-items summary").first.click()
    expect(page.locator("#scroll-items pre").first).to_contain_text("<b>timed out</b>")
    page.locator("#scroll-items").get_by_role("link", name="ship").first.click()
    expect(page.locator("h1")).to_have_text("Task ship")
    expect(page.locator(".fdbqueue-attempts li")).to_have_count(3)
    page.get_by_role("button", name="Copy command").click()
    expect(page.locator("#fdbqueue-copied")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("python manage.py queue_redrive tasks-default --id=")
    page.locator("#item").click()
    expect(page.locator("h1")).to_have_text("Item in tasks-default")
    page.get_by_role("link", name="tests.browser.shop.ship").click()
    expect(page.locator("h1")).to_have_text("Task ship")


@pytest.mark.parametrize(("mount", "width", "scheme", "step"), WAYS)
def test_axe_finds_nothing(visit, tasks, mount, width, scheme, step):
    """In each tab, and on the pages of tasks, with everything unfolded."""
    visitor = visit(color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
    for path in paths(tasks)[::step]:
        visitor.go(mount + path)
        unfold(visitor.page)
        assert violations(visitor.page) == [], path
    visitor.complaints[:] = [c for c in visitor.complaints if "status of 40" not in c]


@pytest.mark.layout
@pytest.mark.parametrize("mount", [LIST, "/queues/"])
def test_no_column_is_pushed_out_of_view(visit, tasks, mount):
    """In any tab, on the pages across queues, and on those of tasks, beside the sidebar, too.

    No page is wider than its window; tables scroll within it.
    """
    visitor = visit()
    for path in (*paths(tasks), f"{ERRANDS}?state=dead"):
        visitor.go(f"{mount}{path}{'&' if '?' in path else '?'}refresh=0")
        long_ages(visitor.page)
        for width in visitor.at_widths((*WIDTHS, 1024)):
            assert pushed_out(visitor.page) == [], (width, path)
            assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width, path
    visitor.complaints[:] = [c for c in visitor.complaints if "status of 40" not in c]


@pytest.mark.layout
@pytest.mark.parametrize("width", [1024, 1280, 1440])
def test_the_name_of_a_function_is_one_line(visit, width):
    """It is not broken within a word, wherever a value asks for the width; nor is its state."""
    visitor = visit(viewport={"width": width, "height": 900})
    for state in ("ready", "leased", "dead", "done"):
        visitor.go(f"{LIST}{QUEUE}?state={state}&refresh=0")
        names = visitor.page.locator("#scroll-items tbody th a")
        heights = names.evaluate_all("found => found.map(one => one.offsetHeight)")
        assert heights
        assert max(heights) < 34, state
    if width > 1024:
        visitor.go(f"{LIST}{QUEUE}?state=delayed&function=collect&refresh=0")
        expect(visitor.page.locator("#scroll-items tbody")).to_contain_text("Retry scheduled")
        row = visitor.page.locator("#scroll-items tbody tr").first
        assert row.evaluate("row => row.offsetHeight") < 34


@pytest.mark.parametrize("width", [360, 390, 480])
def test_the_figures_of_a_function_stand_together_on_a_telephone(visit, width):
    """Those of the last hour in a line, with the mean, and those of the last day in another."""
    visitor = visit(viewport={"width": width, "height": 900})
    visitor.go(f"{LIST}-/functions/?refresh=0")
    rows = visitor.page.evaluate(
        """() => [...document.querySelectorAll("#scroll-rows tbody tr")].map((row) =>
            [...row.querySelectorAll("td")].map((cell) => [
                cell.dataset.label, Math.round(cell.getBoundingClientRect().top)]))"""
    )
    assert rows
    for row in rows:
        lines = {}
        for label, at in row:
            lines.setdefault(at, []).append(label)
        assert list(lines.values()) == [
            ["Runs, hour", "Failed, hour", "Mean, hour", "95 %, hour", "Wait 95 %, hour"],
            ["Runs, day", "Failed, day", "Mean, day", "95 %, day", "Wait 95 %, day"],
            ["Ended in"],
        ]
    assert pushed_out(visitor.page) == []


def test_no_worker_is_cut_off_on_a_telephone(visit):
    """The leases, each with its worker, are as high as they are."""
    visitor = visit(viewport={"width": 390, "height": 900})
    visitor.go(f"{LIST}-/workers/?refresh=0")
    expect(visitor.page.locator("#scroll-rows tbody tr")).not_to_have_count(0)
    assert visitor.page.evaluate(
        """() => [...document.querySelectorAll("#scroll-rows")].every(
            (box) => box.scrollHeight <= box.clientHeight)"""
    )


@pytest.mark.layout
def test_many_failed_tasks_are_in_view(visit):
    """Fifteen on a screen of 1440 by 900 pixels, each with its message in one line."""
    visitor = visit(viewport={"width": 1440, "height": 900})
    visitor.go(f"{LIST}{ERRANDS}?state=dead&refresh=0")
    assert rows_in_view(visitor.page) >= 15
    errors = visitor.page.locator("#scroll-items td.fdbqueue-error")
    expect(errors.first).to_contain_text("no route to the carrier for parcel 19")
    errors.first.locator("summary").click()
    expect(errors.first.locator("pre")).to_contain_text("Traceback")


def test_what_a_reader_has_folded_stays_folded(visit, tasks):
    """The traceback that the page shows unfolded: a refresh does not unfold it again."""
    visitor = visit()
    visitor.go(f"{LIST}{tasks['dead-ship']}?refresh=2")
    page = visitor.page
    traceback = page.locator("details[id^=traceback-]").first
    expect(traceback).to_have_attribute("open", "")
    traceback.locator("summary").click()
    for _ in range(2):  # the second is asked for when the first is shown
        with page.expect_response(lambda response: "X-Fdbqueue-Live".lower() in response.headers):
            pass
    expect(traceback).not_to_have_attribute("open", "")


def paths(tasks):
    """Return the pages with tasks: each tab, and tasks in each state."""
    states = ("ready", "leased", "delayed", "dead", "done")
    return [
        *(f"{QUEUE}?refresh=0&state={state}" for state in states),
        *(f"-/{page}/?refresh=0" for page in ("workers", "failures", "functions", "schedules")),
        "-/functions/?refresh=0&sort=slowest&function=nobody",
        "-/schedules/?refresh=0&sort=nothing",
        f"{QUEUE}?refresh=0&state=done&after=x",
        *tasks.values(),
        f"{QUEUE}tasks/nope/",
    ]


@pytest.mark.parametrize("mount", [LIST, "/queues/"])
def test_the_trouble_of_an_outbox_fits_a_telephone(visit, mount):
    """All of it is said in the window, in as many lines as it takes."""
    visitor = visit(viewport={"width": 390, "height": 844})
    visitor.go(f"{mount}?refresh=0")
    trouble = visitor.page.locator("#trouble-outbox")
    expect(trouble).to_have_text(re.compile("^1 task set aside, the oldest task waits for 5 h"))
    assert trouble.evaluate("one => one.getBoundingClientRect().right") <= 390
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 390
