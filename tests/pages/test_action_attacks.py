"""Attacks on the actions of the pages: what fails in the middle, what is hidden, what is gone."""

from __future__ import annotations

import html
import math
import re
import secrets

import pytest
from django.contrib.auth.models import Permission, User

from fdbqueue.pages import action_page
from tests.faulty_database import TIMED_OUT
from tests.injection import engine_unavailable
from tests.pages import watched_engine
from tests.pages.addresses import text
from tests.pages.conftest import SITES, person
from tests.pages.test_actions import at, fields, states, without_token

ONCE = "0" * 32
PLAIN = SITES["plain"]
pytestmark = pytest.mark.usefixtures("on")


@pytest.fixture
def swept_by_none(monkeypatch):
    """Let no call remove expired responses, as one in a hundred does, with reads of its own."""
    monkeypatch.setattr("fdbqueue.service.idempotency._SWEPT_BY_ONE_IN", 1 << 60)


# What fails in the middle


def form_again(page):
    """Return the form that the page of an error has, with all of its fields."""
    form = re.search(
        r'<form method="post" action="\?"[^>]*id="again".*?</form>', text(page), re.DOTALL
    )
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form[0])
    return {name: html.unescape(value) for name, value in found}


def test_an_engine_that_is_away(site, manager, mail):
    """The page of the error has the form, with the same id: sent again, it is done, once."""
    address = at(site, "mail", "redrive")
    form = fields(manager.get(address, {"reason": "broken"}))
    with engine_unavailable():
        page = manager.post(address, form)
    assert page.status_code == 503
    again = form_again(page)
    assert (again["once"], again["reason"]) == (form["once"], "broken")
    assert states(mail) == (1, 3)
    assert "2 items were requeued." in text(manager.post(address, again, follow=True))
    assert "sent before" in text(manager.post(address, again, follow=True))
    assert states(mail) == (3, 1)


@pytest.mark.parametrize("took_effect", [False, True])
def test_an_engine_that_goes_away_in_the_middle(site, manager, mail, monkeypatch, took_effect):
    """Then the form is noted, and the action is not done, or is: sent again, it is."""
    address = at(site, "mail", "redrive")
    form, begin = fields(manager.get(address)), action_page._Note.begin
    with engine_unavailable() as database:
        database.is_available = True

        def then_it_goes_away(note, **asked):
            is_new = begin(note, **asked)
            database.fail_commits(took_effect=took_effect, code=TIMED_OUT, times=math.inf)
            return is_new

        with monkeypatch.context() as patch:
            patch.setattr(action_page._Note, "begin", then_it_goes_away)
            page = manager.post(address, form)
    assert page.status_code == 503
    assert states(mail) == ((4, 0) if took_effect else (1, 3))
    # the back button, and the first form: it was sent
    assert "sent before" in text(manager.post(address, form, follow=True))
    again = form_again(page)
    assert again["once"] == form["once"]
    manager.post(address, again)
    assert states(mail) == (4, 0)
    mail.bury(mail.ready_id, reason="later")
    assert "sent before" in text(manager.post(address, again, follow=True))
    assert states(mail) == (3, 1)


def test_who_may_not_sees_no_form(site, manager, mail, viewer):
    """Nor does one whose form is wrong: the page of the error is that of any page."""
    address = at(site, "mail", "redrive")
    form = fields(manager.get(address))
    with engine_unavailable():
        assert viewer.post(address, form).status_code == 403
        for wrong in ({}, {**form, "once": "<b>"}):
            assert 'id="again"' not in text(manager.post(address, wrong))
        away = manager.get(f"{site}mail/")
    assert away.status_code == 503
    assert 'method="post" action="?"' not in text(away)


def test_the_form_again_is_text(site, manager, mail):
    """Whatever the reason is."""
    address = at(site, "mail", "bury")
    form = fields(manager.get(address, {"id": mail.ready_id}))
    reason = '"><script>alert(1)</script>'
    with engine_unavailable():
        page = manager.post(address, {**form, "reason": reason})
    assert "<script>alert" not in text(page)
    assert form_again(page)["reason"] == reason
    manager.post(address, form_again(page))
    shown = manager.get(f"{site}mail/?state=dead")
    assert "<script>alert" not in text(shown)
    assert html.escape(reason) in text(shown)


def test_a_link_cannot_say_that_a_form_has_failed(site, manager, mail):
    """Only the page of an error does."""
    page = manager.get(at(site, "mail", "redrive"), {"again": "1", "once": ONCE})
    assert re.search(r'name="again" value="1"', text(page)) is None
    assert fields(page)["once"] != ONCE


# What is gone meanwhile


def test_a_user_who_was_deactivated_or_may_not_view_any_more(site, manager, mail):
    """Between the page and the form."""
    form = fields(manager.get(at(site, "mail", "redrive")))
    user = User.objects.get(username="manager")
    user.user_permissions.remove(Permission.objects.get(codename="view_queue"))
    assert manager.post(at(site, "mail", "redrive"), form).status_code == 403
    user.is_active = False
    user.save()
    assert manager.post(at(site, "mail", "redrive"), form).status_code in {302, 403}
    assert states(mail) == (1, 3)


# What is hidden


def only_mail(user, permission, name):
    """Allow everything for one queue alone."""
    return name == "mail"


@pytest.fixture
def guest(settings):
    """Who may do everything to one queue, and nothing to others."""
    rule = {"AUTHORIZER": "tests.pages.test_action_attacks.only_mail"}
    settings.FDBQUEUE = {**settings.FDBQUEUE, "API": rule, "ENGINE": "tests.pages.watched_engine"}
    return person("guest")


def answers(client, address, chosen):
    """Return what a user learns: status, page, where it leads; and what was read and written."""
    found = []
    for ask in (client.get, client.post, client.put, client.head):
        watched_engine.reads.clear()
        watched_engine.writes.clear()
        response = ask(address, {"once": secrets.token_hex(16), **chosen})
        page = without_token(response).replace(address, "")
        found.append((response.status_code, page, response.get("Location")))
        found.append((len(watched_engine.reads), len(watched_engine.writes)))
    return found


@pytest.mark.usefixtures("swept_by_none")
@pytest.mark.parametrize("action", [*action_page.ACTIONS, "abort", "abort-group", "nothing"])
def test_whether_a_queue_is_there(guest, queue, mail, action):
    """Status, page, and what it costs are the same for a hidden queue and for none."""
    item = queue("user-7").push("secret")
    queue("user-7").bury(item.id, reason="secret")
    for chosen in ({}, {"id": item.id}, {"reason": "secret"}):
        there = answers(guest, at(PLAIN, "user-7", action), chosen)
        assert there == answers(guest, at(PLAIN, "user-8", action), chosen)
        assert there == answers(guest, at(PLAIN, "none", action), chosen)
        assert {status for status, _page, _to in there[::2]} <= {403, 405}
    assert queue("user-7").get(item.id).state == "dead"
    assert guest.get(at(PLAIN, "mail", "pause")).status_code == 200


@pytest.mark.usefixtures("swept_by_none")
@pytest.mark.parametrize("action", ["redrive", "remove", "bury"])
def test_whether_an_item_is_elsewhere(guest, queue, mail, action):
    """An id that a hidden queue has is as one that none has."""
    hidden = [queue("user-7").push(number).id for number in range(2)]
    queue("user-7").bury(hidden[1])
    for item_id in hidden:
        there = answers(guest, at(PLAIN, "mail", action), {"id": item_id})
        queue("user-7").remove(item_id)
        gone = answers(guest, at(PLAIN, "mail", action), {"id": item_id})
        assert [one[0] for one in there] == [one[0] for one in gone]
        assert without_ids(there) == without_ids(gone)


def without_ids(found):
    """Return answers without the ids of forms, which are drawn."""
    return [re.sub(r"[0-9a-f]{32}", "", str(one)) for one in found[::2]]


# While the actions are off


def test_pages_are_read_only_while_actions_are_off(site, manager, mail, queue, settings):
    """No page has a form that sends a POST, but that which logs out, nor a way to an action."""
    settings.FDBQUEUE = {**settings.FDBQUEUE, "PAGES": {}}
    queue("user-7").push(1)
    mail.pause(reason="deploying")
    paths = ["", "mail/?state=dead", "user-*/", "-/workers/", "-/failures/", "none/"]
    paths += [f"mail/items/{one}/" for one in (mail.ready_id, mail.dead_ids[0])]
    for path in paths:
        page = manager.get(site + path)
        content = text(page).partition("<main")[2] or text(page)
        forms = re.findall(r'<form[^>]*method="post"[^>]*>', content)
        assert [one for one in forms if "log" not in one] == [], path
        assert "/do/" not in text(page), path
        for refused in (manager.post, manager.put, manager.patch, manager.delete):
            assert refused(site + path, {"once": ONCE}).status_code == 405, path
