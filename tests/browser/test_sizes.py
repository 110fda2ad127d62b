"""The page of a family with 100,000 members, or a fifth, and the list, in a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.machinery import LIST, pushed_out
from tests.browser.test_accessibility import violations
from tests.families import multiply
from tests.thorough import size

MEMBERS = size(100_000, 20_000)
FAMILY = f"{LIST}user-*/"
#: The number of the last member, and how those of the last hundred begin.
LAST = f"{MEMBERS - 1:06}"
START = LAST[:-2]


@pytest.fixture
def members(queues):
    """So many members: most with an item, and three that are noisier."""
    model = queues.queue("user-000000")
    model.push({"to": "ada@example.org"})
    multiply(queues, model, [f"user-{number:06}" for number in range(1, MEMBERS)])
    found = queues.family("user-*").names("")
    assert sum(1 for _name, _ in zip(found, range(2_000), strict=False)) == 2_000
    return queues


def test_a_family_of_very_many_members(visit, members):
    """Its page has the first hundred, says of how many, goes on, and finds any by its name."""
    visitor = visit(bypass_csp=True)
    page = visitor.page
    page.locator("#sort-ready").click()
    row = page.locator("#scroll-families tbody tr")
    expect(row).to_contain_text("1,000+")
    row.get_by_role("link", name="user-*").click()
    expect(page.locator("#tile-members")).to_contain_text("1,000+")
    expect(page.locator("#scroll-queues tbody tr")).to_have_count(100)
    caption = page.locator("#queues-caption")
    expect(caption).to_have_text(re.compile("Members with items 1 to 100 of 1,000[+], the noisi"))
    expect(page.locator("#left-out")).to_contain_text("More than 1,000 members have items")
    page.locator("#page-next").click()
    expect(caption).to_have_text(re.compile("Members with items 101 to 200 of 1,000[+]"))
    page.get_by_label("Name begins with").fill(START)
    page.get_by_role("button", name="Show").click()
    expect(page.locator(f"#queue-user-{START}00")).to_be_visible()
    expect(page.locator("#scroll-queues tbody tr")).to_have_count(100)
    page.get_by_label("Name begins with").fill(LAST)
    page.get_by_role("button", name="Show").click()
    page.locator(f"#queue-user-{LAST}").click()
    expect(page.locator("#figure-ready")).to_have_text("1")
    for path in (FAMILY, f"{FAMILY}?start={START}", LIST):
        visitor.go(f"{path}{'&' if '?' in path else '?'}refresh=0")
        for width in visitor.at_widths((390, 768, 1024, 1280, 1440)):
            assert pushed_out(page) == [], (width, path)
    visitor.go(f"{FAMILY}?refresh=0")
    for one in ("workers", "failures"):
        expect(page.locator(f"#view-{one}")).to_be_visible()
    assert violations(page) == []
