"""Give back, run now, and what is done to the rows that a reader ticks."""

from __future__ import annotations

import html
import re

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from fdbqueue.service import clock
from tests.pages.addresses import text
from tests.pages.conftest import SITES, person
from tests.pages.test_actions import at, do, form_of, only_mail

__all__ = ["only_mail"]


@pytest.fixture
def letters(queue):
    """A queue with two leased items of a dead worker, one of another, and two delayed."""
    letters = queue("mail")
    letters.push_many(range(3))
    letters.dead = [item.id for item in letters.lease_many(2, worker="dead:1", seconds=1_800)]
    letters.alive = letters.lease(worker="alive:2", seconds=1_800).id
    letters.later = [letters.push(number, delay=600).id for number in range(2)]
    return letters


def counted(queue):
    """Return how many items are ready, leased and delayed."""
    counts = queue.counts()
    return counts.ready, counts.leased, counts.delayed


def ask(client, address, **ticked):
    """Send what is ticked in a list, and return the page that asks."""
    page = client.post(address, {"ask": "1", **ticked})
    assert page.status_code == 200, text(page)
    return page


def send(client, address, page, **typed):
    """Send the form of a page that asks, with the ids that are in it."""
    ids = re.findall(r'<input type="hidden" name="id" value="([^"]*)">', text(page))
    form = {"id": [html.unescape(one) for one in ids], **typed}
    return client.post(form_of(address, page), form, follow=True)


def test_a_leased_item_is_given_back(on, site, manager, letters):
    """With an attempt, or without one; the other items of the worker stay."""
    address = at(site, "mail", "give-back")
    page = do(manager, address, {"id": letters.dead[0]})
    assert "1 item was given back." in text(page)
    assert letters.get(letters.dead[0]).attempts == 1
    do(manager, address, {"id": letters.dead[1]}, unspent="on")
    assert letters.get(letters.dead[1]).attempts == 0
    assert counted(letters) == (2, 1, 2)


def test_what_a_worker_holds_is_given_back(on, site, manager, letters):
    """The page says how many there are, and whose; leases of others are not touched."""
    address = at(site, "mail", "give-back")
    page = manager.get(address, {"worker": "dead:1"})
    assert "Items now: 2" in text(page)
    assert "<bdi>dead:1</bdi>" in text(page)
    assert "2 items were given back." in text(send(manager, address, page))
    assert counted(letters) == (2, 1, 2)
    assert "disabled" in text(manager.get(address, {"worker": "dead:1"}))


def test_all_that_a_worker_holds_of_all_queues(on, site, manager, letters, queue):
    """From the page of workers, which the form leads back to."""
    other = queue("user-1")
    other.push("x")
    other.lease(worker="dead:1 (ahead)", seconds=1_800)
    address = at(site, "-", "give-back")
    page = manager.get(address, {"worker": "dead:1"})
    assert "Give back leased items of all queues" in text(page)
    assert "Items now: 3" in text(page)
    page = send(manager, address, page)
    assert "3 items were given back." in text(page)
    assert "<h1>Workers</h1>" in text(page)
    assert (counted(letters), counted(other)) == ((2, 1, 2), (1, 0, 0))
    for query in ("all=all", f"id={letters.alive}"):
        assert manager.get(f"{address}?{query}").status_code == 404
    for action in ("pause", "run-now", "remove"):
        assert manager.get(at(site, "-", action)).status_code == 404


def test_delayed_items_run_now(on, site, manager, letters):
    """One by its id, and all."""
    address = at(site, "mail", "run-now")
    assert "1 item is ready now." in text(do(manager, address, {"id": letters.later[1]}))
    assert "1 item is ready now." in text(do(manager, address, {"all": "all"}))
    assert counted(letters) == (2, 3, 0)


@pytest.mark.parametrize("chosen", ["id", "worker", "all"])
def test_a_form_that_is_sent_twice(on, site, manager, letters, chosen):
    """What was leased since by others is beyond its bound."""
    address = at(site, "mail", "give-back")
    which = {"id": letters.dead[0], "worker": "dead:1", "all": "all"}[chosen]
    page = manager.get(address, {chosen: which})
    send(manager, address, page)
    given = letters.size()
    clock.set_ahead(2_000_000)
    try:
        letters.lease_many(5, worker="dead:1", seconds=1_800)
        assert "0 items were given back." in text(send(manager, address, page))
    finally:
        clock.set_ahead(-2_000_000)
    assert (given, letters.size()) == ({"id": 1, "worker": 2, "all": 3}[chosen], 0)


def test_run_now_twice(on, site, manager, letters):
    """What waits again, for longer, is beyond its bound."""
    address = at(site, "mail", "run-now")
    page = manager.get(address, {"all": "all"})
    send(manager, address, page)
    for item in letters.lease_many(2, seconds=60):
        letters.nack(item, delay=900)
    assert "0 items are ready now." in text(send(manager, address, page))
    assert counted(letters) == (0, 3, 2)


# What is ticked


def test_ticked_rows_are_asked_about_and_done(on, site, manager, letters):
    """Exactly these, whatever the list shows by then; the ids are in the form, not its address."""
    address = at(site, "mail", "give-back")
    page = ask(manager, address, id=[letters.dead[1], letters.alive])
    assert "Give back leased items of mail" in text(page)
    assert letters.dead[1] in text(page)
    assert letters.alive in text(page)
    form = form_of(address, page)
    assert "id=" not in form
    assert "before=" in form
    letters.give_back([letters.alive])
    page = send(manager, address, page, unspent="on")
    assert "1 item was given back." in text(page)
    assert counted(letters) == (2, 1, 2)
    assert letters.get(letters.dead[1]).attempts == 0


def test_all_of_a_list(on, site, manager, letters):
    """The number that the page has shown, and no more."""
    address = at(site, "mail", "run-now")
    page = ask(manager, address, all="all", id=letters.later[0])
    assert "Items now: 2" in text(page)
    assert letters.later[0] not in text(page)
    assert "2 items are ready now." in text(send(manager, address, page))


@pytest.mark.parametrize("action", ["remove", "bury"])
def test_several_are_removed_or_buried(on, site, manager, queue, action):
    """Those that are not there any more are passed over; if none is, that is said."""
    mail = queue("mail")
    ids = [mail.push(number).id for number in range(4)]
    address = at(site, "mail", action)
    page = ask(manager, address, id=ids[:3])
    mail.remove(ids[0])
    done = {"remove": "2 items were removed.", "bury": "2 items are dead letters now."}[action]
    assert done in text(send(manager, address, page))
    assert mail.size() == 1
    mail.clear()
    assert send(manager, address, page).status_code == 404


def test_nothing_is_ticked(on, site, manager, letters):
    """That is said; of what is for rows alone, also if all of the list is ticked."""
    for action, ticked in (("give-back", {}), ("remove", {"all": "all", "id": letters.alive})):
        page = manager.post(at(site, "mail", action), {"ask": "1", **ticked})
        assert page.status_code == 400
        assert "tick" in text(page)
    assert counted(letters) == (0, 3, 2)


def test_to_ask_changes_nothing(on, site, manager, letters, stored):
    """Whatever is ticked."""
    before = stored()
    ask(manager, at(site, "mail", "give-back"), id=letters.dead)
    ask(manager, at(site, "mail", "run-now"), all="all")
    ask(manager, at(site, "mail", "remove"), id=letters.dead)
    assert stored() == before


def test_the_boxes_of_a_list(on, site, manager, viewer, letters, settings):
    """Each row has one, for who may act; the buttons are those of the state."""
    buttons = {"leased": ["give-back", "remove"], "delayed": ["run-now", "remove"]}
    for state, names in buttons.items():
        page = text(manager.get(f"{site}mail/?state={state}"))
        ids = [*letters.dead, letters.alive] if state == "leased" else letters.later
        assert re.findall(r'name="id" value="([^"]+)"', page) == ids
        assert re.findall(r'<button type="submit" id="ticked-([a-z-]+)"', page) == names
        assert "of this list" not in page  # it is all on the page
        assert "fdbqueue-tick" not in text(viewer.get(f"{site}mail/?state={state}"))
    letters.push_many(range(60), delay=600)
    page = text(manager.get(f"{site}mail/?state=delayed"))
    assert "All 62 of this list: Delayed" in page
    page = text(manager.get(f"{site}mail/?state=delayed&q=7"))
    assert "of this list" not in page  # nobody has counted those
    settings.FDBQUEUE = {**settings.FDBQUEUE, "PAGES": {"ACTIONS": False}}
    assert "fdbqueue-tick" not in text(manager.get(f"{site}mail/?state=delayed"))


def test_the_buttons_of_the_workers(on, site, manager, viewer, letters):
    """Each lease has one, and each worker; who may only view has none."""
    page = text(manager.get(f"{site}-/workers/"))
    assert len(re.findall(r'id="do-lease-\d+-give-back"', page)) == 3
    assert "do-lease" not in text(viewer.get(f"{site}-/workers/"))


# Who may


def test_who_may_not(on, site, letters, viewer, pusher, stored):
    """A viewer may not, nor a visitor, whatever is sent."""
    before = stored()
    for action, name in (("give-back", "mail"), ("give-back", "-"), ("run-now", "mail")):
        address = at(site, name, action)
        for client in (viewer, pusher):
            assert client.post(address, {"ask": "1", "id": letters.dead}).status_code == 403
            assert client.post(address, {"id": letters.dead}).status_code == 403
            assert client.get(address, {"worker": "dead:1"}).status_code == 403
        assert Client().post(address).status_code == 302
    assert stored() == before


def test_all_queues_need_the_permission_for_all(on, setting, settings, viewer, letters):
    """Who may manage one queue alone gives back what a worker holds of that."""
    settings.FDBQUEUE = {
        **settings.FDBQUEUE,
        "API": {"AUTHORIZER": "tests.pages.test_actions.only_mail"},
    }
    address = SITES["plain"]
    assert viewer.get(at(address, "-", "give-back"), {"worker": "dead:1"}).status_code == 403
    assert viewer.get(at(address, "mail", "give-back"), {"worker": "dead:1"}).status_code == 200


def test_a_token_is_asked_for(on, site, manager, letters, stored):
    """Also to ask about what is ticked."""
    strict, before = Client(enforce_csrf_checks=True), stored()
    strict.force_login(User.objects.get(username="manager"))
    found = strict.post(at(site, "mail", "give-back"), {"ask": "1", "id": letters.dead})
    assert found.status_code == 403
    assert stored() == before


def test_it_is_written_down(on, site, manager, letters, caplog):
    """Who gave back what, in the log and in the admin's."""
    do(manager, at(site, "mail", "give-back"), {"worker": "dead:1"})
    (line,) = [one for one in caplog.records if one.name == "fdbqueue.pages"]
    assert (line.action, line.queue, line.items, line.worker) == ("give-back", "mail", 2, "dead:1")
    entry = LogEntry.objects.get()
    assert entry.change_message.startswith("Give back: 2 items were given back.")
    assert 'worker = "dead:1"' in entry.change_message


def test_names_are_text(on, site, letters):
    """Of a worker that anybody may have made up."""
    client = person("another", "view_queue", "manage_queue")
    letters.push("x")
    letters.lease(worker="<b>bad</b>")
    page = text(client.get(at(site, "mail", "give-back"), {"worker": "<b>bad</b>"}))
    assert "&lt;b&gt;bad" in page
    assert "<b>bad" not in page
