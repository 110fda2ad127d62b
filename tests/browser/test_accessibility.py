"""What axe-core finds wrong with the pages: nothing."""

from __future__ import annotations

from pathlib import Path

import axe_playwright_python
import pytest

from tests.browser.machinery import LIST

AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("mount", "width"), [(LIST, 1280), (LIST, 390), ("/queues/", 1280)])
def test_axe_finds_nothing(visit, queues, scheme, width, mount):
    """On the list, a queue in each state, and items, in both schemes, wide and narrow."""
    mail = queues.queue("mail")
    mail.clear()
    mail.resume()
    mail.push_many({"to": "ada", "parts": [1, None, True, "x" * 2_000]} for _ in range(3))
    mail.push("later", delay=3_600)
    mail.bury(mail.peek().id, reason="no such address")
    mail.lease(seconds=3_600)
    mail.pause(reason="no such host: mail.example.com, until the certificate is renewed")
    binary = queues.queue("raw").push(b"\x00\xff bytes")
    item = mail.page().items[0]
    visitor = visit(color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
    for path in (
        "",
        "?sort=-ready&q=a",
        "quakes/?q=taiwan&end=max&limit=25",
        *(f"mail/?state={state}" for state in ("leased", "delayed", "dead")),
        f"mail/items/{item.id}/",
        f"raw/items/{binary.id}/",
        "nope/",
    ):
        visitor.go(mount + path + ("&" if "?" in path else "?") + "refresh=0")
        if "state" not in path:  # there they are the same, and long
            visitor.page.evaluate(
                "document.querySelectorAll('details').forEach(d => d.open = true)"
            )
        assert violations(visitor.page) == [], path
    visitor.complaints[:] = [c for c in visitor.complaints if "status of 40" not in c]


def violations(page):
    """Return what axe-core says of a page: the rule, and where it is broken."""
    page.add_script_tag(path=AXE)
    found = page.evaluate("axe.run()")
    return [
        (violation["id"], [node["html"][:200] for node in violation["nodes"]])
        for violation in found["violations"]
    ]
