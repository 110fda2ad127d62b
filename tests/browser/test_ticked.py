"""Boxes and buttons of the night in a real browser: a dead worker's leases, delayed items."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PREFIX
from tests.browser.machinery import LIST, ROOT, pushed_out
from tests.browser.people import KEEPER, READER, SUPERUSER
from tests.browser.test_actions import (
    PLAIN,
    TOLD,
    WAYS,
    Actor,
    address,
    cookies_of,
    enter,
    tasks,
)
from tests.engines.children import wait_until

__all__ = ["address", "cookies_of", "enter", "tasks"]

GIVE_BACK, RUN_NOW = "Give back leased items of mail", "Run delayed items of mail now"


@pytest.fixture
def mail(queues):
    """A queue with three leases of a dead worker, one of another, and sixty delayed items."""
    mail = queues.queue("mail")
    mail.clear()
    mail.resume()
    mail.push_many({"to": name, "text": "x" * 200} for name in ("ada", "grace", "mary", "emmy"))
    mail.leases = [
        *mail.lease_many(3, worker="dead:1", seconds=3_600),
        mail.lease(worker="alive:2", seconds=3_600),
    ]
    mail.push_many(({"to": number} for number in range(60)), delay=3_600)
    return mail


def counts(queue):
    """Return how many items are ready, leased and delayed."""
    found = queue.counts()
    return found.ready, found.leased, found.delayed


@pytest.mark.parametrize(
    ("width", "scheme", "mount"),
    [
        pytest.param(*way, marks=[] if way == (390, "dark", PLAIN) else pytest.mark.nightly)
        for way in WAYS
    ],
)
def test_rows_are_ticked(enter, mail, width, scheme, mount):
    """A superuser gives back and runs now what is ticked, all of a page, or all of a list."""
    actor = Actor(enter(SUPERUSER, width, scheme), mount)
    page = actor.go("mail/?state=leased").page
    actor.look()
    page.locator("#scroll-items .fdbqueue-tick").nth(0).check()
    page.locator("#scroll-items .fdbqueue-tick").nth(2).check()
    actor.do("#ticked-give-back", GIVE_BACK, "2 items were given back.")
    assert counts(mail) == (2, 2, 60)
    page.locator("#tick-page").check()
    expect(page.locator("#scroll-items .fdbqueue-tick:checked")).to_have_count(2)
    actor.do("#ticked-give-back", GIVE_BACK, "2 items were given back.")
    actor.go("mail/?state=delayed")
    actor.look()
    page.locator("#tick-all").check()
    actor.do("#ticked-run-now", RUN_NOW, "60 items are ready now.")
    assert counts(mail) == (64, 0, 0)
    actor.go("mail/?state=ready")
    page.locator("#scroll-items .fdbqueue-tick").first.check()
    actor.do("#ticked-remove", "Remove an item of mail", "The item was removed.")
    item = mail.lease(worker="dead:1", seconds=3_600)
    actor.go(f"mail/items/{item.id}/").do(
        "#do-give-back", "Give back a leased item of mail", "1 item was given back."
    )
    mail.lease_many(2, worker="dead:1", seconds=3_600)
    actor.go("-/workers/?worker=dead:1")
    actor.look()
    actor.do("#do-lease-1-give-back", "Give back a leased item of mail", "1 item was given back.")


def test_ticks_outlast_a_refresh(enter, mail):
    """The page refreshes itself every two seconds, and what is ticked stays so."""
    visitor = enter(SUPERUSER, 1024)
    page = visitor.page
    visitor.go(f"{LIST}mail/?state=leased&refresh=2")
    page.locator("#scroll-items .fdbqueue-tick").nth(1).check()
    chosen = page.locator("#scroll-items .fdbqueue-tick").nth(1).get_attribute("value")
    mail.ack(mail.leases[0])
    expect(page.locator("#scroll-items .fdbqueue-tick")).to_have_count(3)
    expect(page.locator("#scroll-items .fdbqueue-tick:checked")).to_have_value(chosen)
    page.locator("#ticked-give-back").click()
    page.locator("#action input[type=submit]").click()
    expect(page.locator(TOLD)).to_have_text("1 item was given back.")


def test_who_keeps_one_queue_and_who_only_looks(enter, mail):
    """One has the boxes of that queue, and not the button for all queues; the other has none."""
    actor = Actor(enter(KEEPER, 1024), LIST)
    actor.go("mail/?state=leased").page.locator("#tick-page").check()
    actor.do("#ticked-give-back", GIVE_BACK, "4 items were given back.")
    actor.visitor.go(f"{LIST}-/do/give-back/?worker=dead:1")
    expect(actor.page.locator("h1").last).to_have_text("Permission missing")
    actor.visitor.complaints[:] = [
        one for one in actor.visitor.complaints if "status of 403" not in one
    ]
    reader = enter(READER, 1024)
    for path in ("mail/?state=delayed", "-/workers/", "-/schedules/"):
        reader.go(LIST + path)
        expect(reader.page.locator(".fdbqueue-tick, .fdbqueue-offer")).to_have_count(0)


def test_a_schedule_is_held(enter):
    """It says so in place of its next time, and no column is out of view."""
    actor = Actor(enter(SUPERUSER, 1024), LIST).go("-/schedules/")
    title = "Hold a schedule of tasks-default"
    actor.do("#do-schedule-0-hold-schedule", title, "The schedule is held.")
    actor.go("-/schedules/").look()
    expect(actor.page.locator("#scroll-rows")).to_contain_text("Held")
    for width in actor.visitor.at_widths((390, 768, 1024, 1440)):
        assert pushed_out(actor.page) == [], width
        expect(actor.page.locator("#do-schedule-0-go-on-schedule")).to_be_in_viewport()


@pytest.mark.nightly
def test_the_night(enter, folder, queues):
    """The only worker is killed: it is shown as lost, one button gives back, another runs it."""
    mail = queues.queue("mail")
    mail.clear()
    mail.push_many({"to": number} for number in range(4))
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.browser.server_settings",
        "FDBQUEUE_BROWSER_FOLDER": str(folder),
        "FDBQUEUE_BROWSER_PREFIX": PREFIX,
    }
    work = [sys.executable, "-m", "django", "queue_work", "mail", "--threads=4"]
    hangs = [*work, "--worker=night:1", "--lease-seconds=1800", "--handler=tests.browser.shop.hang"]
    with subprocess.Popen(hangs, cwd=ROOT, env=environment) as worker:
        wait_until(lambda: mail.counts().leased == 4)
        worker.kill()
    visitor = enter(SUPERUSER, 1024)
    actor, page = Actor(visitor, LIST), visitor.page
    visitor.go(f"{LIST}-/workers/?worker=night:1&refresh=2")
    expect(page.locator("#scroll-rows")).to_contain_text("Lost")
    actor.do(
        "#do-worker-1-give-back",
        "Give back leased items of all queues",
        "4 items were given back.",
    )
    assert (mail.size(), {item.attempts for item in mail}) == (4, {1})
    ends = [*work, "--until-empty", "--handler=tests.browser.shop.end"]
    subprocess.run(ends, cwd=ROOT, env=environment, check=True, timeout=60)
    assert mail.counts().leased + mail.size() == 0
