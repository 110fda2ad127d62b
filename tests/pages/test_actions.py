"""Actions on the pages: who may do what, that a GET only asks, and that a form counts once."""

from __future__ import annotations

import html
import re
import threading

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.test import Client

from fdbqueue import conf
from fdbqueue.pages import action_page
from tests.commands.spoiling import spoil
from tests.pages.addresses import text
from tests.pages.conftest import SITES, person


def at(site, name, action):
    return f"{site}{name}/do/{action}/"


def fields(page):
    """Return the fields of the form on the page of an action."""
    form = re.search(r'<form method="post" action="\?".*?</form>', text(page), re.DOTALL)[0]
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form)
    names = ("id", "reason", "once")
    return {name: html.unescape(value) for name, value in found if name in names}


def do(client, address, chosen=None, **more):
    """Ask for the page of an action, send its form, and return the page that it leads to."""
    page = client.get(address, chosen or {})
    assert page.status_code == 200, text(page)
    return client.post(address, {**fields(page), **more}, follow=True)


def without_token(page):
    """Return the markup of a page without Django's token, which is another one each time."""
    return re.sub(r'name="csrfmiddlewaretoken" value="[^"]+"', "", text(page))


def states(queue):
    """Return how many items of a queue are ready and dead."""
    counts = queue.counts()
    return queue.size(), counts.dead


def test_there_is_none_if_they_are_off(site, manager, mail, stored):
    """The address is as any other that leads nowhere, and takes no POST."""
    before = stored()
    nowhere = manager.get(f"{site}mail/do/nothing/")
    for action in action_page.ACTIONS:
        found = manager.get(at(site, "mail", action))
        assert (found.status_code, without_token(found)) == (404, without_token(nowhere))
        assert manager.post(at(site, "mail", action)).status_code == 405
    assert stored() == before


def test_to_ask_changes_nothing(on, site, manager, mail, stored):
    """GET and HEAD read, whatever the action."""
    before = stored()
    for action in action_page.ACTIONS:
        chosen = {"id": mail.ready_id} if action in action_page.OF_ONE_ITEM else {}
        assert manager.get(at(site, "mail", action), chosen).status_code == 200
        assert manager.head(at(site, "mail", action), chosen).status_code == 200
    assert stored() == before


def test_pause_and_resume(on, site, manager, mail):
    """With the reason that is given, shown as text."""
    page = do(manager, at(site, "mail", "pause"), reason="<script>deploying</script>")
    assert mail.paused().reason == "<script>deploying</script>"
    assert "&lt;script&gt;deploying" in text(page)
    assert "Paused: mail" in text(page)
    page = do(manager, at(site, "mail", "resume"))
    assert mail.paused() is None
    assert "Resumed: mail" in text(page)


def test_a_pause_without_a_reason_keeps_the_one_there_is(on, site, manager, mail):
    """To say it again is no reason to forget why."""
    mail.pause(reason="deploying")
    do(manager, at(site, "mail", "pause"))
    assert mail.paused().reason == "deploying"


def test_dead_letters_are_requeued(on, site, manager, mail):
    """One, those of a reason, and all."""
    page = do(manager, at(site, "mail", "redrive"), {"id": mail.dead_ids[0]})
    assert "1 item was requeued." in text(page)
    assert states(mail) == (2, 2)
    asked = manager.get(at(site, "mail", "redrive"), {"reason": "<b>gone</b>"})
    assert "&lt;b&gt;gone&lt;/b&gt;" in text(asked)
    assert "Dead letters now: 1" in text(asked)
    do(manager, at(site, "mail", "redrive"), {"reason": "<b>gone</b>"})
    assert states(mail) == (3, 1)
    do(manager, at(site, "mail", "redrive"))
    assert states(mail) == (4, 0)
    assert "disabled" in text(manager.get(at(site, "mail", "redrive")))


def test_a_reason_stands_for_its_group(on, site, manager, mail):
    """All that died of the same first line, of which 200 characters count, as for the API."""
    for reason in ("r" * 200 + " first", "r" * 200 + " second\nmore"):
        mail.bury(mail.push(0).id, reason=reason)
    asked = manager.get(at(site, "mail", "redrive"), {"reason": "r" * 200 + " third"})
    assert "Dead letters now: 2" in text(asked)


def test_items_are_removed(on, site, manager, mail):
    """Dead letters of a reason, or one item in any state."""
    page = do(manager, at(site, "mail", "purge"), {"reason": "broken"})
    assert "2 items were removed." in text(page)
    assert states(mail) == (1, 1)
    do(manager, at(site, "mail", "remove"), {"id": mail.ready_id})
    assert states(mail) == (0, 1)


def test_an_item_is_buried(on, site, manager, mail):
    """With a reason of the reader's."""
    do(manager, at(site, "mail", "bury"), {"id": mail.ready_id}, reason="not ours")
    assert states(mail) == (0, 4)
    assert mail.get(mail.ready_id).reason == "not ours"


def test_a_form_counts_once(on, site, manager, mail, queue):
    """Sent again, by a double click or after the back button, it changes nothing."""
    form = fields(manager.get(at(site, "mail", "redrive")))
    manager.post(at(site, "mail", "redrive"), form)
    mail.bury(mail.ready_id, reason="broken")
    page = manager.post(at(site, "mail", "redrive"), form, follow=True)
    assert "This form was sent before" in text(page)
    assert states(mail) == (3, 1)


def test_two_people_at_once(on, site, manager, mail):
    """The forms of two are two; there is nothing left for the second."""
    other = person("other", "view_queue", "manage_queue")
    address = at(site, "mail", "redrive")
    forms = [fields(one.get(address)) for one in (manager, other)]
    pages = [
        one.post(address, form, follow=True)
        for one, form in zip((manager, other), forms, strict=True)
    ]
    assert "3 items were requeued." in text(pages[0])
    assert "0 items were requeued." in text(pages[1])


def test_there_is_more_to_do(on, site, manager, mail, monkeypatch):
    """The page of the action comes again, with another id."""
    monkeypatch.setattr(action_page, "MAX_AT_ONCE", 2)
    page = do(manager, at(site, "mail", "redrive"))
    assert "2 items were requeued. There are more" in text(page)
    assert fields(page)["once"]
    assert states(mail) == (3, 1)
    manager.post(at(site, "mail", "redrive"), fields(page))
    assert states(mail) == (4, 0)


@pytest.mark.parametrize("action", action_page.ACTIONS)
def test_who_may_not_manage(on, site, mail, viewer, pusher, stored, action):
    """A viewer may not, nor who may manage but not view, nor a visitor."""
    before, chosen = stored(), {"id": mail.ready_id}
    for client in (viewer, pusher):
        assert client.get(at(site, "mail", action), chosen).status_code == 403
        assert client.post(at(site, "mail", action), chosen).status_code == 403
    assert Client().get(at(site, "mail", action)).status_code == 302
    assert Client().post(at(site, "mail", action)).status_code == 302
    assert stored() == before


def test_what_is_asked_is_said(on, site, manager, mail):
    """The title says whether one item is meant, or dead letters, and of which queue."""
    titles = {
        ("pause", ""): "Pause mail",
        ("redrive", ""): "Requeue dead letters of mail",
        ("redrive", mail.dead_ids[0]): "Requeue an item of mail",
        ("purge", ""): "Remove dead letters of mail",
        ("remove", mail.ready_id): "Remove an item of mail",
        ("bury", mail.ready_id): "Make an item of mail a dead letter",
    }
    for (action, item_id), title in titles.items():
        page = text(manager.get(at(site, "mail", action), {"id": item_id}))
        assert f"<h1>{title}</h1>" in page


def test_who_may_manage_one_queue_alone(on, setting, settings, viewer, mail, queue):
    """The project's own rule decides, as for the API."""
    settings.FDBQUEUE = {
        **settings.FDBQUEUE,
        "API": {"AUTHORIZER": "tests.pages.test_actions.only_mail"},
    }
    address = SITES["plain"]
    do(viewer, at(address, "mail", "pause"))
    assert mail.paused() is not None
    assert viewer.get(at(address, "quakes", "pause")).status_code == 403
    assert viewer.get(at(address, "user-*", "pause")).status_code == 403


def only_mail(user, permission, name):
    """Allow everything for one queue, and to view all others."""
    return name == "mail" or permission == "fdbqueue.view_queue"


def test_a_token_is_asked_for(on, site, mail, manager, stored):
    """A form from elsewhere is refused."""
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.get(username="manager"))
    form, before = fields(strict.get(at(site, "mail", "redrive"))), stored()
    assert strict.post(at(site, "mail", "redrive"), form).status_code == 403
    assert stored() == before


def test_what_is_not_there_any_more(on, site, manager, mail):
    """The item, or the queue; nothing else is done."""
    form = fields(manager.get(at(site, "mail", "remove"), {"id": mail.ready_id}))
    mail.remove(mail.ready_id)
    for response in (
        manager.post(at(site, "mail", "remove"), form),
        manager.get(at(site, "mail", "remove"), {"id": mail.ready_id}),
        manager.get(at(site, "mail", "bury"), {"id": "no id"}),
        manager.get(at(site, "mail", "bury")),
        manager.get(at(site, "nothing", "pause")),
        manager.post(at(site, "nothing", "pause")),
    ):
        assert response.status_code == 404
    assert states(mail) == (0, 3)


@pytest.mark.parametrize(
    ("action", "of"), [("purge", "id"), ("pause", "id"), ("resume", "reason"), ("remove", "reason")]
)
def test_what_an_action_does_not_take_is_not_shown(on, site, manager, mail, action, of):
    """A link with an item's id does not make the removal of all look like that of one."""
    chosen = {"id": mail.dead_ids[0], "reason": "broken"}
    taken = {"id": mail.ready_id} if action == "remove" else {}
    form = fields(manager.get(at(site, "mail", action), {**taken, of: chosen[of]}))
    assert form.get(of, "") == ""
    assert chosen[of] not in text(manager.get(at(site, "mail", action), {**taken, of: chosen[of]}))


@pytest.mark.parametrize("name", ["redrive", "purge", "remove", "bury"])
def test_a_family_has_no_other_action(on, site, manager, mail, name):
    """Neither by asking nor by a form that is made up."""
    address = at(site, "user-*", name)
    assert manager.get(address, {"id": mail.ready_id}).status_code == 404
    form = {"id": mail.ready_id, "once": "0" * 32}
    assert manager.post(address, form).status_code == 404
    assert states(mail) == (1, 3)


def test_two_threads_send_the_same_form(on, manager, mail):
    """One of them does it."""
    user, outcomes = User.objects.get(username="manager"), []
    action = action_page.ACTIONS["pause"]
    form = action_page.fresh_form(action, {})
    assert form.is_valid()
    request, barrier = HttpRequest(), threading.Barrier(2)
    request.user = user

    def send():
        barrier.wait(60)
        outcomes.append(action_page.perform(request, "mail", action, form).is_repeated)

    threads = [threading.Thread(target=send) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes) == [False, True]


@pytest.mark.parametrize("wrong", ["yes", {"actions": 1}, {"action": True}, None])
def test_a_setting_that_is_wrong(setting, settings, site, manager, mail, wrong):
    """No page acts, and each says what is wrong."""
    settings.FDBQUEUE = {**setting, "PAGES": wrong}
    for path in ("", "mail/", "mail/do/pause/"):
        page = manager.get(site + path)
        assert page.status_code == 503
        assert "manage.py check" in text(page)
    assert manager.post(at(site, "mail", "pause"), {"once": "0" * 32}).status_code == 405


def test_every_visitor_logs_in(on, settings, site, mail):
    """A project may ask for it with Django's middleware."""
    settings.MIDDLEWARE = [
        *settings.MIDDLEWARE,
        "django.contrib.auth.middleware.LoginRequiredMiddleware",
    ]
    for ask in (Client().get, Client().post):
        found = ask(at(site, "mail", "pause"))
        assert found.status_code == 302
        assert "login" in found["Location"]
    assert mail.paused() is None


@pytest.mark.parametrize(
    "wrong", [{"once": ""}, {"once": "x" * 32}, {"reason": "r" * 2_000}, {"id": "i" * 20_000}, {}]
)
def test_a_form_that_is_wrong(on, site, manager, mail, stored, wrong):
    """It is refused, and nothing is done."""
    before = stored()
    form = {**fields(manager.get(at(site, "mail", "redrive"))), **wrong} if wrong else {}
    assert manager.post(at(site, "mail", "redrive"), form).status_code == 400
    assert stored() == before


def test_a_family_is_paused(on, site, manager, queue):
    """All of its queues, by a user who may manage all."""
    member = queue("user-7")
    member.push(1)
    do(manager, at(site, "user-*", "pause"), reason="all of them")
    assert member.pop() is None
    do(manager, at(site, "user-*", "resume"))
    assert member.pop().value == 1


def test_the_log_says_who_did_what(on, site, manager, mail, caplog):
    """One line, without values and reasons."""
    caplog.set_level("INFO", "fdbqueue.pages")
    do(manager, at(site, "mail", "redrive"), {"reason": "broken"})
    (record,) = caplog.records
    user = User.objects.get(username="manager")
    assert (record.user, record.action, record.queue, record.items) == (
        *(str(user.pk), "redrive", "mail", 2),
    )


def test_a_project_without_messages(on, settings, manager, mail):
    """A page says what was done."""
    settings.MIDDLEWARE = [one for one in settings.MIDDLEWARE if "messages" not in one]
    page = do(manager, at(SITES["plain"], "mail", "redrive"))
    assert page.status_code == 200
    assert "3 items were requeued." in text(page)
    assert f'href="{SITES["plain"]}mail/"' in text(page)


def buttons(page):
    """Return where the buttons of a page lead."""
    found = re.findall(r'class="fdbqueue-choice fdbqueue-offer"[^>]* href="([^"]+)"', text(page))
    return [html.unescape(address) for address in found]


def test_the_buttons_of_a_queue(on, site, manager, viewer, mail):
    """They are in place of the commands, for who may do it; each leads to its action."""
    page = manager.get(f"{site}mail/?state=dead")
    found = buttons(page)
    base = f"{site}mail/do/"
    assert found[0] == f"{base}pause/"
    assert {f"{base}redrive/", f"{base}purge/"} <= set(found)
    assert {f"{base}redrive/?reason=broken", f"{base}purge/?reason=broken"} <= set(found)
    assert "queue_redrive" not in text(page)
    for address in found:
        assert manager.get(address).status_code == 200
    seen = viewer.get(f"{site}mail/?state=dead")
    assert buttons(seen) == []
    assert "queue_redrive" in text(seen)


def test_the_button_of_a_paused_queue(on, site, manager, mail, queue):
    """It resumes what is paused: the queue, or its family."""
    mail.pause()
    assert buttons(manager.get(f"{site}mail/")) == [f"{site}mail/do/resume/"]
    queue("user-7").push(1)
    conf.family("user-*").pause()
    assert buttons(manager.get(f"{site}user-7/")) == [f"{site}user-*/do/resume/"]
    assert buttons(manager.get(f"{site}user-*/")) == [f"{site}user-*/do/resume/"]


def test_the_buttons_of_an_item(on, site, manager, mail):
    """By its state."""
    names = {}
    for item_id in (mail.ready_id, mail.dead_ids[0]):
        found = buttons(manager.get(f"{site}mail/items/{item_id}/"))
        names[item_id] = [address.split("/do/")[1] for address in found]
        for address in found:
            assert manager.get(address).status_code == 200
    assert names == {
        mail.ready_id: [f"bury/?id={mail.ready_id}", f"remove/?id={mail.ready_id}"],
        mail.dead_ids[0]: [f"redrive/?id={mail.dead_ids[0]}", f"remove/?id={mail.dead_ids[0]}"],
    }


def test_what_blocks_a_queue_is_buried(on, site, manager, queue, setting):
    """An item that cannot be decoded is out of the way after it, and stays so."""
    raw = queue("mail")
    item = raw.push(1)
    spoil(raw, item)
    (address,) = [one for one in buttons(manager.get(f"{site}mail/")) if "/bury/" in one]
    do(manager, address.partition("?")[0], {"id": item.id, "reason": "undecodable"})
    page = do(manager, at(site, "mail", "redrive"))
    assert "Some cannot be decoded and stay dead" in text(page)
    assert states(raw) == (0, 1)
