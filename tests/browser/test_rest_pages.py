"""The browsable API in a browser: its forms work under a policy that forbids inline scripts."""

from __future__ import annotations

import json
import re

from playwright.sync_api import expect

#: What a browser says of each page whose status is not 2xx, which the tests ask for.
REFUSED = "Failed to load resource: the server responded with a status of 4"
#: An integer that a script would round.
EXACT = 12345678901234567890123456789


def send(visitor, path, body, status):
    """Open the page of an address, send a body by its form, and return what is shown of it."""
    assert visitor.go(path).status == 405
    page = visitor.page
    page.locator("textarea[name=_content]").fill(json.dumps(body))
    page.get_by_role("button", name="POST").click()
    shown = page.locator(".response-info")
    expect(shown).to_contain_text(f"HTTP {status}")
    return str(shown.inner_text())


def forgive(visitor):
    """Forget what the browser says of pages that are 405 on purpose."""
    visitor.complaints[:] = [each for each in visitor.complaints if REFUSED not in each]


def test_push_lease_and_ack_by_forms(visit, queues):
    """The forms send JSON with the CSRF token; big integers and markup come back as they were."""
    visitor, name = visit(), "/api/queues/user-forms"
    value = [EXACT, "<script>alert(1)</script>"]
    assert f"{EXACT}" in send(visitor, f"{name}/push/", {"value": value}, "201")
    shown = send(visitor, f"{name}/lease/", {"end": "max"}, "200")
    assert f"{EXACT}" in shown
    assert value[1] in shown
    lease = re.search(r'"lease": "([^"]+)"', shown)
    assert lease
    assert '"acked": 1' in send(visitor, f"{name}/ack/", {"lease": lease[1]}, "200")
    assert '"code": "lease_lost"' in send(visitor, f"{name}/ack/", {"lease": lease[1]}, "409")
    assert queues.queue("user-forms").size() == 0
    forgive(visitor)


def test_remove_by_its_button(visit, queues):
    """The page of an item has a button that asks first, and then removes the item."""
    queue = queues.queue("user-removed")
    item = queue.push("gone")
    visitor = visit()
    page = visitor.page
    visitor.go(f"/api/queues/user-removed/items/{item.id}/")
    page.get_by_role("button", name="DELETE").click()
    assert queue.size() == 1
    page.locator("#deleteModal .btn-danger").click()
    expect(page.locator(".response-info")).to_contain_text('"removed": 1')
    assert queue.size() == 0


def test_pages_fit_a_phone(visit, queues):
    """Nothing is wider than the screen, but what scrolls in its own frame."""
    item = queues.queue("user-phone").push({"text": "x" * 300})
    visitor = visit(viewport={"width": 390, "height": 844})
    for path in ("", "queues/", "queues/user-phone/", "queues/user-phone/items/", "pop-from/"):
        visitor.go(f"/api/{path}")
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 390, path
    visitor.go(f"/api/queues/user-phone/items/{item.id}/")
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 390
    forgive(visitor)
    queues.queue("user-phone").clear()
