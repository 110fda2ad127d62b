"""Attacks on the actions of the pages: what fails in the middle, what is hidden, what is gone."""

from __future__ import annotations

import html
import math
import re
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import Permission, User
from django.http import QueryDict

from fdbqueue.pages import actions
from fdbqueue.service import Queue
from tests.faulty_database import TIMED_OUT
from tests.injection import engine_unavailable
from tests.pages import watched_engine
from tests.pages.addresses import text
from tests.pages.conftest import SITES, person
from tests.pages.test_actions import ALL, asked, at, form_of, of_reason, states, without_token

PLAIN = SITES["plain"]
pytestmark = pytest.mark.usefixtures("on")


# What fails in the middle


def form_again(address, page):
    """Return where the form of the page of an error is sent to, and its fields."""
    action, form = re.search(
        r'<form method="post" action="([^"]*)"[^>]*id="again"(.*?)</form>', text(page), re.DOTALL
    ).groups()
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form)
    typed = {name: html.unescape(value) for name, value in found if name in {"reason", "by_force"}}
    return address + html.unescape(action), typed


def test_an_engine_that_is_away(site, manager, mail):
    """The page of the error has the form for the same: sent again, it is done, once."""
    address = at(site, "mail", "redrive")
    form = asked(manager, address, of_reason("broken"))
    with engine_unavailable():
        page = manager.post(form)
    assert page.status_code == 503
    again, typed = form_again(address, page)
    assert (again, typed) == (form, {})
    assert states(mail) == (1, 3)
    assert "2 items were redriven." in text(manager.post(again, follow=True))
    assert "0 items were redriven." in text(manager.post(again, follow=True))
    assert states(mail) == (3, 1)


@pytest.mark.parametrize("took_effect", [False, True])
def test_an_engine_that_goes_away_in_the_middle(site, manager, mail, monkeypatch, took_effect):
    """The action is not done, or is, and nobody knows: sent again, it is done, to the same."""
    address = at(site, "mail", "redrive")
    form, redrive = asked(manager, address, ALL), Queue.redrive
    with engine_unavailable() as database:
        database.is_available = True

        def goes_away(queue, *given, **asked):
            database.fail_commits(took_effect=took_effect, code=TIMED_OUT, times=math.inf)
            return redrive(queue, *given, **asked)

        with monkeypatch.context() as patch:
            patch.setattr(Queue, "redrive", goes_away)
            page = manager.post(form)
    assert page.status_code == 503
    assert states(mail) == ((4, 0) if took_effect else (1, 3))
    again, _typed = form_again(address, page)
    assert again == form
    told = text(manager.post(again, follow=True))
    assert f"{0 if took_effect else 3} items were redriven." in told
    assert states(mail) == (4, 0)
    mail.bury(mail.ready_id, reason="later")
    assert "0 items were redriven." in text(manager.post(again, follow=True))
    assert states(mail) == (3, 1)


def test_who_may_not_sees_no_form(site, manager, mail, viewer):
    """Nor does one whose form is wrong: the page of the error is that of any page."""
    address = at(site, "mail", "redrive")
    form = asked(manager, address, ALL)
    with engine_unavailable():
        assert viewer.post(form).status_code == 403
        for wrong in ("", "?dead=all", "?dead=<b>&most=1&before=1"):
            assert 'id="again"' not in text(manager.post(address + wrong))
        away = manager.get(f"{site}mail/")
    assert away.status_code == 503
    assert 'id="again"' not in text(away)


def test_the_form_again_is_text(site, manager, mail):
    """Whatever the reason is."""
    address = at(site, "mail", "bury")
    form = asked(manager, address, {"id": mail.ready_id})
    reason = '"><script>alert(1)</script>'
    with engine_unavailable():
        page = manager.post(form, {"reason": reason})
    assert "<script>alert" not in text(page)
    again, typed = form_again(address, page)
    assert (again, typed) == (form, {"reason": reason})
    manager.post(again, typed)
    shown = manager.get(f"{site}mail/?state=dead")
    assert "<script>alert" not in text(shown)
    assert html.escape(reason) in text(shown)


def test_an_address_is_text(site, manager, mail):
    """Whatever a link says besides, which the form then says, too."""
    reason = '"><script>alert(1)</script>&dead=all'
    page = manager.get(at(site, "mail", "bury"), {"id": mail.ready_id, "reason": reason})
    assert "<script>alert" not in text(page)
    query = QueryDict(form_of("", page).partition("?")[2])
    assert query.dict() == {"id": mail.ready_id, "reason": reason}


# What is gone meanwhile


def test_a_user_who_was_deactivated_or_may_not_view_any_more(site, manager, mail):
    """Between the page and the form."""
    form = asked(manager, at(site, "mail", "redrive"), ALL)
    user = User.objects.get(username="manager")
    user.user_permissions.remove(Permission.objects.get(codename="view_queue"))
    assert manager.post(form).status_code == 403
    user.is_active = False
    user.save()
    assert manager.post(form).status_code in {302, 403}
    assert states(mail) == (1, 3)


# What is hidden


def only_mail(user, permission, name):
    """Allow everything for one queue alone, and to view the pages."""
    return name == "mail" or permission == "fdbqueue.view_queue"


@pytest.fixture
def guest(settings):
    """Who may do everything to one queue, and only look at others."""
    rule = {"AUTHORIZER": "tests.pages.test_action_attacks.only_mail"}
    settings.FDBQUEUE = {**settings.FDBQUEUE, "API": rule, "ENGINE": "tests.pages.watched_engine"}
    return person("guest")


def answers(client, address, chosen):
    """Return what a user learns: status, page, where it leads; and what was read and written."""
    found = []
    for ask in (client.get, client.post, client.put, client.head):
        watched_engine.reads.clear()
        watched_engine.writes.clear()
        response = ask(f"{address}?{urlencode(chosen)}")
        page = without_token(response).replace(address, "")
        found.append((response.status_code, page, response.get("Location")))
        found.append((len(watched_engine.reads), len(watched_engine.writes)))
    return found


@pytest.mark.parametrize("action", [*actions.ACTIONS])
def test_whether_a_queue_is_there(guest, queue, mail, action):
    """Status, page, and what it costs are the same for a queue of others and for none."""
    item = queue("user-7").push("secret")
    queue("user-7").bury(item.id, reason="secret")
    for chosen in (
        {},
        {"id": item.id, "before": 10**16},
        {**of_reason("secret"), "most": 1, "before": 10**16},
    ):
        there = answers(guest, at(PLAIN, "user-7", action), chosen)
        assert there == answers(guest, at(PLAIN, "user-8", action), chosen)
        assert there == answers(guest, at(PLAIN, "none", action), chosen)
        assert {status for status, _page, _to in there[::2]} <= {403, 405}
    assert queue("user-7").get(item.id).state == "dead"
    assert guest.get(at(PLAIN, "mail", "pause")).status_code == 200


@pytest.mark.parametrize("action", ["redrive", "remove", "bury"])
def test_whether_an_item_is_elsewhere(guest, queue, mail, action):
    """An id that a hidden queue has is as one that none has."""
    hidden = [queue("user-7").push(number).id for number in range(2)]
    queue("user-7").bury(hidden[1])
    for item_id in hidden:
        chosen = {"id": item_id, "before": 10**16}
        there = answers(guest, at(PLAIN, "mail", action), chosen)
        queue("user-7").remove(item_id)
        gone = answers(guest, at(PLAIN, "mail", action), chosen)
        assert there == gone


# While the actions are off


def test_pages_are_read_only_while_actions_are_off(site, manager, mail, queue, settings):
    """No page has a form that sends a POST, but that which logs out, nor a way to an action."""
    settings.FDBQUEUE = {**settings.FDBQUEUE, "PAGES": {}}
    queue("user-7").push(1)
    mail.pause(reason="deploying")
    paths = ["", "mail/?state=dead", "?name=user-*", "-/workers/", "-/failures/", "none/"]
    paths += [f"mail/items/{one}/" for one in (mail.ready_id, mail.dead_ids[0])]
    for path in paths:
        page = manager.get(site + path)
        content = text(page).partition("<main")[2] or text(page)
        forms = re.findall(r'<form[^>]*method="post"[^>]*>', content)
        assert [one for one in forms if "log" not in one] == [], path
        assert "/do/" not in text(page), path
        for refused in (manager.post, manager.put, manager.patch, manager.delete):
            assert refused(site + path).status_code == 405, path
