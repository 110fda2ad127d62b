"""Every action in a real browser: by who may do all, who may manage one queue, and who may look."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from fdbqueue.service import run
from tests.browser.conftest import PREFIX
from tests.browser.machinery import LIST, log_in, served
from tests.browser.people import KEEPER, READER, SUPERUSER
from tests.browser.test_accessibility import violations

PLAIN = "/queues/"
#: Each width and scheme, and where the pages are.
WAYS = [
    (width, scheme, mount)
    for mount in (LIST, PLAIN)
    for width in (390, 1024, 1440)
    for scheme in ("light", "dark")
]
TOLD = ".messagelist li"


@pytest.fixture(scope="module")
def address(browser, folder):
    """The address of a server whose pages have actions, under a strict policy."""
    with served(folder, "--tasks", "--actions", prefix=PREFIX) as found:
        yield found


@pytest.fixture(scope="module")
def tasks(address, folder):
    """The addresses of tasks below the list, by their state and function."""
    return json.loads((folder / "tasks.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def cookies_of(browser, address):
    """Log a user in, once for all tests, and return the cookies."""
    known = {}

    def of(name):
        if name not in known:
            with browser.new_context() as context:
                context.set_default_timeout(60_000)
                log_in(context.new_page(), address, name)
                known[name] = context.storage_state()
        return known[name]

    return of


@pytest.fixture
def enter(visit, cookies_of):
    """Open the list as a user, at a width and in a scheme."""

    def as_user(name, width=1280, scheme="light"):
        viewport = {"width": width, "height": 900}
        return visit(
            storage_state=cookies_of(name), viewport=viewport, color_scheme=scheme, bypass_csp=True
        )

    return as_user


@pytest.fixture
def mail(queues):
    """A queue with three ready items, and dead letters of two reasons."""
    mail = queues.queue("mail")
    mail.clear()
    mail.resume()
    for reason in ("no such address", "no such address", "<b>mailbox</b> full", "late", "late"):
        mail.bury(mail.push({"to": "ada", "text": "x" * 300}).id, reason=reason)
    mail.push_many({"to": name} for name in ("grace", "mary", "emmy"))
    return mail


class Actor:
    """A user who does actions, and looks at each page on the way."""

    def __init__(self, visitor, mount):
        self.visitor = visitor
        self.page = visitor.page
        self.mount = mount

    def go(self, path):
        """Open a page below the list, which does not refresh by itself."""
        self.visitor.go(self.mount + path + ("&" if "?" in path else "?") + "refresh=0")
        return self

    def do(self, button, title, told, reason=None):
        """Click a button, see what is asked, send the form, and see what is told."""
        self.page.locator(button).first.click()
        expect(self.page.locator("h1").last).to_have_text(title)
        self.look()
        if reason is not None:
            self.page.get_by_label("Reason").fill(reason)
        self.page.locator("#action input[type=submit]").click()
        expect(self.page.locator(TOLD)).to_have_text(told)
        self.look()

    def look(self):
        """Nothing is out of the window, and axe finds nothing."""
        self.page.wait_for_load_state()
        self.page.evaluate("new Promise(requestAnimationFrame)")  # once it is laid out
        width = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        assert self.page.evaluate(width), self.page.url
        assert violations(self.page) == [], self.page.url


def count(queue):
    """Return how many items of a queue are ready and dead."""
    counts = queue.counts()
    return counts.ready, counts.dead


@pytest.mark.parametrize(
    ("width", "scheme", "mount"),
    [
        pytest.param(*way, marks=[] if way == (390, "dark", PLAIN) else pytest.mark.nightly)
        for way in WAYS
    ],
)
def test_every_action(enter, queues, mail, tasks, width, scheme, mount):
    """A superuser sees what each asks and what becomes of it, at each width, light and dark."""
    actor = Actor(enter(SUPERUSER, width, scheme), mount)
    actor.go("mail/").do("#do-pause", "Pause mail", "Paused: mail", "<b>deploying</b>")
    expect(actor.page.locator(".fdbqueue-paused")).to_contain_text("<b>deploying</b>")
    assert mail.paused().reason == "<b>deploying</b>"
    actor.do("#do-resume", "Resume mail", "Resumed: mail")
    assert mail.paused() is None
    dead = actor.go("mail/?state=dead")
    of_one = "#scroll-reasons tr:has-text('no such address')"
    dead.do(
        f"{of_one} .fdbqueue-offer:has-text('Redrive')",
        "Redrive dead letters of mail",
        "2 items were redriven.",
    )
    assert count(mail) == (5, 3)
    of_one = "#scroll-reasons tr:has-text('late')"
    actor.go("mail/?state=dead").do(
        f"{of_one} .fdbqueue-offer:has-text('Remove')",
        "Remove dead letters of mail",
        "2 items were removed.",
    )
    assert count(mail) == (5, 1)
    actor.go("mail/?state=dead").do(
        "#do-all-redrive", "Redrive dead letters of mail", "1 item was redriven."
    )
    assert count(mail) == (6, 0)
    item = mail.peek()
    actor.go(f"mail/items/{item.id}/").do(
        "#do-bury", "Make an item of mail a dead letter", "The item is a dead letter now.", "mine"
    )
    assert mail.get(item.id).reason == "mine"
    actor.go(f"mail/items/{item.id}/").do(
        "#do-redrive", "Redrive an item of mail", "1 item was redriven."
    )
    actor.go(f"mail/items/{item.id}/").do(
        "#do-remove", "Remove an item of mail", "The item was removed."
    )
    assert count(mail) == (5, 0)
    _acts_on_others(actor, queues, tasks)


def _acts_on_others(actor, queues, tasks):
    """Bury what blocks a queue, pause a family, and run and abort tasks."""
    blocked = queues.queue("user-blocked")
    blocked.clear()
    key = blocked.subspace.pack((0, b"of another program"))
    run(blocked.database, lambda tr: tr.set(key, b"no JSON"))
    actor.go("user-blocked/").do(
        "#do-bury", "Make an item of user-blocked a dead letter", "The item is a dead letter now."
    )
    assert blocked.counts().dead == 1  # the program that wrote it counts nothing
    actor.go("?name=user-*").do("#do-pause", "Pause user-*", "Paused: user-*", "all of them")
    actor.do("#do-resume", "Resume user-*", "Resumed: user-*")
    errands = "tasks-errands/"
    actor.go(f"{errands}?state=dead").page.locator("#scroll-items tbody th a").first.click()
    actor.do("#do-redrive", "Redrive an item of tasks-errands", "1 item was redriven.")
    actor.go(f"{errands}?state=ready").page.locator("#scroll-items tbody th a").first.click()
    actor.do(
        "#do-abort",
        "Abort a task of tasks-errands",
        "The task was aborted, or asked to end if it runs.",
    )
    waiting = "tasks-default/?state=ready&function=bill"
    actor.go(waiting).page.locator("#scroll-items tbody th a").first.click()
    actor.do(
        "#do-abort-group",
        "Abort a group of tasks of tasks-default",
        "The group was aborted: tasks that wait will not run.",
    )


def test_who_keeps_one_queue(enter, mail, queues):
    """They act on it, and not on others."""
    queues.queue("user-7").push(1)
    visitor = enter(KEEPER, 1024)
    actor = Actor(visitor, LIST)
    actor.go("mail/").do("#do-pause", "Pause mail", "Paused: mail", "")
    actor.do("#do-resume", "Resume mail", "Resumed: mail")
    for path in ("user-7/do/pause/", "none/do/pause/", "user-*/do/pause/"):
        visitor.go(LIST + path)
        expect(actor.page.locator("h1").last).to_have_text("Permission missing")
        expect(actor.page.locator("form[method=post]#action")).to_have_count(0)
    visitor.complaints[:] = [one for one in visitor.complaints if "status of 403" not in one]


def test_who_only_looks(enter, mail, tasks):
    """They have the commands, each with a button that copies it, and no way to an action."""
    visitor = enter(READER, 1024)
    page = visitor.page
    for path in ("mail/", "mail/?state=dead", f"mail/items/{mail.peek().id}/", "?name=user-*"):
        visitor.go(LIST + path)
        expect(page.locator(".fdbqueue-offer")).to_have_count(0)
    visitor.go(f"{LIST}mail/?state=dead&refresh=0")
    expect(page.locator("#scroll-reasons .fdbqueue-copy").first).to_be_visible()
    visitor.go(LIST + tasks["ready-send"])
    expect(page.get_by_role("button", name="Copy command").first).to_be_visible()
    assert violations(page) == []
    visitor.go(f"{LIST}mail/do/pause/")
    expect(page.locator("h1").last).to_have_text("Permission missing")
    visitor.complaints[:] = [one for one in visitor.complaints if "status of 403" not in one]


@pytest.mark.nightly
def test_a_double_click_and_the_back_button(enter, mail):
    """Only the first changes anything."""
    actor = Actor(enter(SUPERUSER), LIST)
    page = actor.go("mail/?state=dead").page
    page.locator("#do-all-redrive").click()
    page.locator("#action input[type=submit]").dblclick()
    expect(page.locator(TOLD).first).to_have_text(re.compile("[50] items were redriven"))
    assert count(mail) == (8, 0)
    mail.bury(mail.peek().id)
    page.goto(f"{actor.visitor.address}{LIST}mail/do/redrive/?dead=all")
    form = page.locator("#action").get_attribute("action")
    page.locator("#action input[type=submit]").click()
    expect(page.locator(TOLD).last).to_contain_text("1 item was redriven.")
    mail.bury(mail.peek().id)
    page.go_back()
    is_same = page.locator("#action").get_attribute("action") == form  # else it is asked again
    page.locator("#action input[type=submit]").click()
    told = "0 items were redriven." if is_same else "1 item was redriven."
    expect(page.locator(TOLD).last).to_contain_text(told)
    assert count(mail) == ((7, 1) if is_same else (8, 0))


@pytest.mark.nightly
def test_a_reason_that_a_browser_would_change_and_a_session_that_ends(enter, mail):
    """The form is for this reason alone, and so is that to which the login leads back."""
    for reason in ("late\rvery", "late\rvery"):
        mail.bury(mail.push(1).id, reason=reason)
    mail.bury(mail.push(1).id, reason="x" * 1_000)
    visitor = enter(SUPERUSER, 390)
    actor = Actor(visitor, PLAIN).go("mail/?state=dead")
    page = actor.page
    page.locator("#scroll-reasons tr:has-text('xxx') .fdbqueue-offer").first.click()
    expect(page.locator("#how-many")).to_have_text("Dead letters now: 1")
    actor.look()
    actor.go("mail/?state=dead")
    row = "#scroll-reasons tr:has-text('late\\\\rvery')"
    page.locator(f"{row} .fdbqueue-offer:has-text('Remove')").click()
    expect(page.locator("#how-many")).to_have_text("Dead letters now: 2")
    page.context.clear_cookies(name="sessionid")
    page.locator("#action input[type=submit]").click()
    page.locator("#id_username").fill(SUPERUSER)
    page.locator("#id_password").fill(SUPERUSER)
    page.locator("#id_password").press("Enter")
    expect(page.locator("#how-many")).to_contain_text("at most 2 of those that had died by")
    mail.bury(mail.push(1).id, reason="late\rvery")
    page.locator("#action input[type=submit]").click()
    expect(page.locator(TOLD)).to_have_text("2 items were removed.")
    left = {one.reason: one.count for one in mail.dead_by_reason()}
    assert (left["late"], left["late\rvery"]) == (2, 1)
