"""What axe-core finds wrong with the pages: nothing."""

from __future__ import annotations

from pathlib import Path

import axe_playwright_python
import pytest

from fdbqueue.service import run
from tests.browser.machinery import LIST

AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
#: Each frame, width and scheme; in the second each third page, because pages share their parts.
WAYS = [(LIST, 1280, "light", 1), ("/queues/", 390, "dark", 3)]
#: What comes after twenty of its like: axe takes as long for a thousand hidden cells as for others.
_ALIKE = "tbody tr:nth-child(n+21), .fdbqueue-node > :nth-child(n+22):not(:last-child)"
#: What axe does not ask by itself: whether who says what a button shows finds it.
_RULES = ["label-content-name-mismatch"]
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.mark.parametrize(("mount", "width", "scheme", "step"), WAYS)
def test_axe_finds_nothing(visit, queues, mount, width, scheme, step):
    """On the list, a queue in each state and one that is blocked, and items, by WCAG 2.2 AA."""
    mail = queues.queue("mail")
    mail.clear()
    mail.resume()
    mail.push_many({"to": "ada", "parts": [1, None, True, "x" * 2_000]} for _ in range(3))
    mail.push("later", delay=3_600)
    mail.bury(mail.peek().id, reason="no such address")
    mail.lease(seconds=3_600, worker="w<1>")
    mail.pause(reason="no such host: mail.example.com, until the certificate is renewed")
    blocked = queues.queue("user-blocked")
    key = blocked.subspace.pack((0, b"of another program"))
    run(blocked.database, lambda tr: tr.set(key, b"no JSON"))
    blocked.push_many(range(2))
    binary = queues.queue("raw").push(b"\x00\xff bytes")
    queues.queue("raw").pause(reason="deploying")
    item = mail.page().items[0]
    visitor = visit(color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
    paths = [
        "",
        "?sort=-ready&q=a",
        "-/workers/",
        "-/workers/?name=w%3C1%3E",
        "-/workers/?sort=nothing",
        "-/failures/",
        "-/functions/",
        "-/schedules/",
        "-/find/?id=nothing",
        "user-blocked/",
        "quakes/?q=taiwan&end=max&limit=5",
        *(f"mail/?state={state}" for state in ("leased", "delayed", "dead")),
        "mail/?q=ada",
        f"mail/items/{item.id}/",
        f"mail/items/{item.id}/?show=whole",
        f"mail/items/{item.id}/?show=nothing",
        f"raw/items/{binary.id}/",
        "nope/",
    ]
    for path in paths[::step]:
        visitor.go(mount + path + ("&" if "?" in path else "?") + "refresh=0")
        if "state" not in path:  # there they are the same, and long
            unfold(visitor.page)
        assert violations(visitor.page) == [], path
    visitor.go(f"{mount}quakes/?refresh=0")
    visitor.page.locator(".fdbqueue-byid > summary").click()
    assert violations(visitor.page, within=".fdbqueue-find") == []
    visitor.complaints[:] = [c for c in visitor.complaints if "status of 40" not in c]


def unfold(page):
    """Open all that is folded, but for the field that covers what is below it."""
    page.evaluate(
        "document.querySelectorAll('details:not(.fdbqueue-byid)').forEach(d => d.open = true)"
    )


def violations(page, within="html"):
    """Return what axe-core says of a page: the rule, and where it is broken."""
    page.evaluate("alike => document.querySelectorAll(alike).forEach(e => e.remove())", _ALIKE)
    page.add_script_tag(path=AXE)
    found = page.evaluate(
        """([within, values, rules]) => axe.run(
            within, {runOnly: {type: "tag", values}, rules, resultTypes: ["violations"]}
        )""",
        [within, _TAGS, {name: {"enabled": True} for name in _RULES}],
    )
    return [
        (violation["id"], [node["html"][:200] for node in violation["nodes"]])
        for violation in found["violations"]
    ]
