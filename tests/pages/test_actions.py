"""Actions on the pages: who may do what, that a GET only asks, what is told and written down."""

from __future__ import annotations

import contextlib
import html
import re
import threading

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpRequest, QueryDict
from django.test import Client

from fdbqueue import conf, verbs
from fdbqueue.exceptions import EngineUnavailable, OutcomeUnknown
from fdbqueue.pages import action_page, actions
from fdbqueue.service import group_digest
from tests.commands.spoiling import spoil
from tests.pages.addresses import text
from tests.pages.conftest import SITES, person


def at(site, name, action):
    return f"{site}{name}/do/{action}/"


ALL = {"dead": "all"}


def of_reason(reason):
    """Return what chooses the dead letters of a reason."""
    return {"dead": group_digest(reason)}


def form_of(address, page):
    """Return where the form on the page of an action is sent to."""
    form = re.search(r'<form method="post" action="([^"]*)" class="fdbqueue-action"', text(page))
    return address + html.unescape(form[1])


def asked(client, address, chosen=None):
    """Ask for the page of an action, and return where its form is sent to."""
    page = client.get(address, chosen or {})
    assert page.status_code == 200, text(page)
    return form_of(address, page)


def do(client, address, chosen=None, **typed):
    """Ask for the page of an action, send its form, and return the page that it leads to."""
    return client.post(asked(client, address, chosen), typed, follow=True)


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
    for action in actions.ACTIONS:
        found = manager.get(at(site, "mail", action))
        assert (found.status_code, without_token(found)) == (404, without_token(nowhere))
        assert manager.post(at(site, "mail", action)).status_code == 405
    assert stored() == before


def chosen_for(action, mail):
    """Return what the address of an action has to say."""
    if action in actions.OF_ITEMS:
        return {"id": mail.ready_id}
    if action in {"give-back", "run-now"}:
        return {"all": "all"}
    return ALL if action in {"redrive", "purge"} else {}


def test_to_ask_changes_nothing(on, site, manager, mail, stored):
    """GET and HEAD read, whatever the action."""
    before = stored()
    for action in actions.ACTIONS:
        chosen = chosen_for(action, mail)
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
    assert "1 item was redriven." in text(page)
    assert states(mail) == (2, 2)
    page = manager.get(at(site, "mail", "redrive"), of_reason("<b>gone</b>"))
    assert "&lt;b&gt;gone&lt;/b&gt;" in text(page)
    assert "Dead letters now: 1" in text(page)
    do(manager, at(site, "mail", "redrive"), of_reason("<b>gone</b>"))
    assert states(mail) == (3, 1)
    do(manager, at(site, "mail", "redrive"), ALL)
    assert states(mail) == (4, 0)
    page = manager.get(at(site, "mail", "redrive"), ALL)
    assert "disabled" in text(page)
    mail.bury(mail.ready_id)
    assert "0 items were redriven." in text(
        manager.post(form_of(at(site, "mail", "redrive"), page), follow=True)
    )


def test_several_items_are_requeued(on, site, manager, mail):
    """These ids and no others; what is not dead any more is not shown."""
    address, chosen = at(site, "mail", "redrive"), {"id": mail.dead_ids[:2]}
    assert all(one in text(manager.get(address, chosen)) for one in mail.dead_ids[:2])
    mail.remove(mail.dead_ids[0])
    form = asked(manager, address, chosen)
    assert mail.dead_ids[0] not in form
    assert "1 item was redriven." in text(manager.post(form, follow=True))
    assert [item.id for item in mail.page(state="dead").items] == mail.dead_ids[2:]


def test_a_reason_stands_for_its_group(on, site, manager, mail):
    """All that died of the same first line, of which 200 characters count, as for the API."""
    for reason in ("r" * 200 + " first", "r" * 200 + " second\nmore"):
        mail.bury(mail.push(0).id, reason=reason)
    page = manager.get(at(site, "mail", "redrive"), of_reason("r" * 200 + " third"))
    assert "Dead letters now: 2" in text(page)


def test_items_are_removed(on, site, manager, mail):
    """Dead letters of a reason, or one item in any state."""
    page = do(manager, at(site, "mail", "purge"), of_reason("broken"))
    assert "2 items were removed." in text(page)
    assert states(mail) == (1, 1)
    do(manager, at(site, "mail", "remove"), {"id": mail.ready_id})
    assert states(mail) == (0, 1)


def test_an_item_is_buried(on, site, manager, mail):
    """With a reason of the reader's."""
    do(manager, at(site, "mail", "bury"), {"id": mail.ready_id}, reason="not ours")
    assert states(mail) == (0, 4)
    assert mail.get(mail.ready_id).reason == "not ours"


def test_two_people_at_once(on, site, manager, mail):
    """The forms of two are for the same; there is nothing left for the second, who is told so."""
    other = person("other", "view_queue", "manage_queue")
    address = at(site, "mail", "redrive")
    forms = [(one, asked(one, address, ALL)) for one in (manager, other)]
    pages = [text(one.post(form, follow=True)) for one, form in forms]
    assert "3 items were redriven." in pages[0]
    assert re.search(r'class="warning"[^>]*>0 items were redriven\.', pages[1])


def test_what_was_not_paused_is_not_said_to_be_resumed(on, site, manager, mail):
    """The message is of what was found."""
    page = text(do(manager, at(site, "mail", "resume")))
    assert "It was not paused: mail" in page
    assert "Resumed" not in page


def test_there_is_more_to_do(on, site, manager, mail, monkeypatch):
    """The page of the action comes again, for the rest of the number."""
    monkeypatch.setattr(actions, "MAX_AT_ONCE", 2)
    page = do(manager, at(site, "mail", "redrive"), ALL)
    assert "2 items were redriven. There are more" in text(page)
    assert "Dead letters: at most 1 of those that had died by" in text(page)
    assert states(mail) == (3, 1)
    mail.bury(mail.ready_id, reason="broken")
    page = manager.post(form_of(at(site, "mail", "redrive"), page), follow=True)
    assert "1 item was redriven.</li>" in text(page)
    assert states(mail) == (3, 1)


@pytest.mark.parametrize("action", actions.ACTIONS)
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
        ("redrive", "all"): "Redrive dead letters of mail",
        ("redrive", mail.dead_ids[0]): "Redrive an item of mail",
        ("purge", "all"): "Remove dead letters of mail",
        ("remove", mail.ready_id): "Remove an item of mail",
        ("bury", mail.ready_id): "Make an item of mail a dead letter",
    }
    for (action, which), title in titles.items():
        chosen = ALL if which == "all" else {"id": which}
        page = text(manager.get(at(site, "mail", action), chosen))
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
    form, before = asked(strict, at(site, "mail", "redrive"), ALL), stored()
    assert strict.post(form).status_code == 403
    assert stored() == before


def test_what_is_not_there_any_more(on, site, manager, mail):
    """The item, or the queue; nothing else is done."""
    form = asked(manager, at(site, "mail", "remove"), {"id": mail.ready_id})
    mail.remove(mail.ready_id)
    for response in (
        manager.post(form),
        manager.get(at(site, "mail", "remove"), {"id": mail.ready_id}),
        manager.get(at(site, "mail", "bury"), {"id": "no id"}),
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
    chosen = {"id": mail.dead_ids[0], "reason": "broken"}[of]
    page = manager.get(at(site, "mail", action), {**chosen_for(action, mail), of: chosen})
    assert page.status_code == 200
    assert f"{of}=" not in form_of("", page)
    assert chosen not in text(page)


@pytest.mark.parametrize("name", ["redrive", "purge", "remove", "bury"])
def test_a_family_has_no_other_action(on, site, manager, mail, name):
    """Neither by asking nor by a form that is made up."""
    address = at(site, "user-*", name)
    chosen = f"?id={mail.ready_id}&before={10**16}"
    if name == "purge":
        chosen = f"?dead=all&most=9&before={10**16}"
    assert manager.get(address + chosen).status_code == 404
    assert manager.post(address + chosen).status_code == 404
    assert states(mail) == (1, 3)


def test_two_threads_send_the_same_form(on, manager, mail):
    """Each item is requeued by one of them, and counted by that one."""
    user, outcomes = User.objects.get(username="manager"), []
    action, barrier = actions.ACTIONS["redrive"], threading.Barrier(2)
    request = HttpRequest()
    request.method, request.user = "POST", user
    request.GET = QueryDict(f"dead=all&most=3&before={10**16}")

    def send():
        form = action_page.ActionForm(action, request)
        assert form.is_valid()
        barrier.wait(60)
        outcome = verbs.Outcome()
        action.work(mail, form.cleaned_data, outcome)
        outcomes.append(outcome.number)

    threads = [threading.Thread(target=send) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(outcomes) == 2
    assert sum(outcomes) == 3
    assert states(mail) == (4, 0)


@pytest.mark.parametrize("wrong", ["yes", {"actions": 1}, {"action": True}, None])
def test_a_setting_that_is_wrong(setting, settings, site, manager, mail, wrong):
    """No page acts, and each says what is wrong."""
    settings.FDBQUEUE = {**setting, "PAGES": wrong}
    for path in ("", "mail/", "mail/do/pause/"):
        page = manager.get(site + path)
        assert page.status_code == 503
        assert "manage.py check" in text(page)
    assert manager.post(at(site, "mail", "pause")).status_code == 405


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


WRONG = [
    "",
    "dead=",
    "dead=all",
    "dead=all&most=3",
    "dead=all&before=1",
    "dead=all&most=&before=",
    "dead=all&most=-1&before=1",
    "dead=all&most=3&before=x",
    "dead=broken&most=3&before=1",
    "dead=all%00&most=3&before=1",
    "reason=broken",
    "reason=",
    "id=",
    "id=" + "i" * 20_000,
]


def test_a_form_that_is_wrong(on, site, manager, mail, stored):
    """It is refused, and nothing is done: what is left out stands for nothing, never for all."""
    before = stored()
    for wrong in WRONG:
        for action in ("redrive", "purge"):
            found = manager.post(f"{at(site, 'mail', action)}?{wrong}")
            assert found.status_code == 400, (action, wrong)
    one = f"id={mail.dead_ids[0]}"
    for wrong in (one, f"{one}&dead=all&most=3&before={10**16}"):
        assert manager.post(f"{at(site, 'mail', 'redrive')}?{wrong}").status_code == 400
    for action in ("give-back", "run-now"):
        for wrong in ("", "all=x&most=1&before=9", "all=all", f"{one}", f"{one}&all=all&before=9"):
            assert manager.post(f"{at(site, 'mail', action)}?{wrong}").status_code == 400
    for action in actions.OF_ITEMS:
        for wrong in ("", "id=", "id=" + "i" * 20_000):
            assert manager.post(f"{at(site, 'mail', action)}?{wrong}").status_code == 400
    assert manager.post(at(site, "mail", "pause"), {"reason": "r" * 2_000}).status_code == 400
    assert stored() == before


def test_a_family_is_paused(on, site, manager, queue):
    """All of its queues, by a user who may manage all."""
    member = queue("user-7")
    member.push(1)
    do(manager, at(site, "user-*", "pause"), reason="all of them")
    assert member.pop() is None
    do(manager, at(site, "user-*", "resume"))
    assert member.pop().value == 1


def lines(caplog):
    """Return the facts of the log's lines about actions."""
    names = ("user", "action", "queue", "items", "id", "dead", "most", "reason", "error")
    return [
        (one.levelname, {name: vars(one)[name] for name in names if name in vars(one)})
        for one in caplog.records
        if one.getMessage() == "a user's action on a page has ended"
    ]


def test_the_log_says_who_did_what(on, site, manager, mail, caplog):
    """One warning for each action: of which reason, or of which item, and how many."""
    user = {"user": str(User.objects.get(username="manager").pk), "queue": "mail"}
    do(manager, at(site, "mail", "redrive"), of_reason("broken"))
    do(manager, at(site, "mail", "purge"), ALL)
    do(manager, at(site, "mail", "bury"), {"id": mail.ready_id}, reason="not ours")
    of_broken = {**of_reason("broken"), "most": 2, "reason": "broken"}
    assert lines(caplog) == [
        ("WARNING", {**user, "action": "redrive", "items": 2, **of_broken}),
        ("WARNING", {**user, "action": "purge", "items": 1, "dead": "all", "most": 1}),
        (
            "WARNING",
            {**user, "action": "bury", "items": 1, "id": [mail.ready_id], "reason": "not ours"},
        ),
    ]


def entries():
    """Return what the admin's log says of the queues: the user, the queue, and the message."""
    found = LogEntry.objects.filter(content_type__model="queuename").order_by("pk")
    return [(one.user.username, one.object_id, one.get_change_message()) for one in found]


def test_the_admins_log_says_who_did_what(on, site, manager, mail):
    """*Recent actions* leads to the queue, and its history has what was done to what."""
    do(manager, at(site, "mail", "purge"), of_reason("<b>gone</b>"))
    do(manager, at(site, "mail", "redrive"), {"id": mail.dead_ids[0]})
    do(manager, at(site, "user-*", "pause"), reason="a\x1bb")
    assert entries() == [
        ("manager", "mail", 'Remove: 1 item was removed. most = 1, reason = "<b>gone</b>"'),
        ("manager", "mail", f'Redrive: 1 item was redriven. id = ["{mail.dead_ids[0]}"]'),
        ("manager", "user-*", 'Pause: Paused: user-* reason = "a\\u001bb"'),
    ]
    address = SITES["admin"]
    for name in ("mail", "user-*"):
        assert f'href="{address}{name}/change/"' in text(manager.get("/admin/"))
        assert manager.get(f"{address}{name}/change/")["Location"] == f"{address}{name}/"
    history = text(manager.get(f"{address}mail/history/"))
    assert "&lt;b&gt;gone&lt;/b&gt;" in history
    assert mail.dead_ids[0] in history
    assert "Paused" not in history
    page = text(manager.get(at(address, "mail", "pause")))
    assert f'id="history" href="{address}mail/history/"' in page


def test_who_may_see_the_history(on, manager, viewer, pusher, mail):
    """Who may view the queue, in the admin alone; a name with an underscore has its own."""
    do(manager, at(SITES["plain"], "mail", "pause"))
    address = f"{SITES['admin']}mail/history/"
    assert "Paused: mail" in text(viewer.get(address))
    assert pusher.get(address).status_code == 403
    assert Client().get(address).status_code == 302
    assert viewer.post(address).status_code == 405
    assert 'id="history"' not in text(manager.get(at(SITES["plain"], "mail", "pause")))
    to = viewer.get(f"{SITES['admin']}user_5F7/change/")["Location"]
    assert to == f"{SITES['admin']}user_7/"


@pytest.mark.parametrize("error", [EngineUnavailable, OutcomeUnknown, RuntimeError, SystemExit])
@pytest.mark.django_db(transaction=True)
def test_what_ends_in_the_middle_is_written_down(on, site, mail, monkeypatch, caplog, error):
    """How many were done until then, also if each request is one transaction of the database."""
    monkeypatch.setattr("fdbqueue.service.bulk.remove._REMOVED_AT_ONCE", 1)
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    manager = person("manager", "view_queue", "manage_queue")
    form = asked(manager, at(site, "mail", "purge"), ALL)
    manager.raise_request_exception = False
    with monkeypatch.context() as patch, contextlib.suppress(SystemExit):
        patch.setattr(verbs.Outcome, "add", fails_after_one(error))
        manager.post(form)
    ((level, facts),) = lines(caplog)
    assert (level, facts["items"], facts["error"]) == ("WARNING", 1, error.__name__)
    assert (facts["dead"], facts["most"]) == ("all", 3)
    ((_user, _queue, message),) = entries()
    assert f"failed by {error.__name__} after 1 items." in message
    assert mail.counts().dead == 2
    assert "2 items were removed." in text(manager.post(form, follow=True))


def fails_after_one(error):
    """Return what stands in for what counts the items: it raises when it has counted."""

    def add(outcome, number):
        outcome.number += number
        raise error

    return add


def test_a_log_of_the_admin_that_cannot_be_written_stops_nothing(
    on, site, manager, mail, monkeypatch, caplog
):
    """What was done is told, and the log says so."""
    form = asked(manager, at(site, "mail", "purge"), ALL)
    monkeypatch.setattr(LogEntry._meta, "db_table", "no_such_table")
    assert "3 items were removed." in text(manager.post(form, follow=True))
    assert "an action is missing in the admin's log" in caplog.text


def test_a_project_without_messages(on, settings, manager, mail):
    """A page says what was done."""
    settings.MIDDLEWARE = [one for one in settings.MIDDLEWARE if "messages" not in one]
    page = do(manager, at(SITES["plain"], "mail", "redrive"), ALL)
    assert page.status_code == 200
    assert "3 items were redriven." in text(page)
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
    assert {f"{base}redrive/?dead=all", f"{base}purge/?dead=all"} <= set(found)
    broken = f"?dead={group_digest('broken')}"
    assert {f"{base}redrive/{broken}", f"{base}purge/{broken}"} <= set(found)
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
    assert buttons(manager.get(f"{site}?name=user-*")) == [f"{site}user-*/do/resume/"]


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
    do(manager, address.partition("?")[0], {"id": item.id}, reason="undecodable")
    page = do(manager, at(site, "mail", "redrive"), ALL)
    assert "Some cannot be decoded and stay dead" in text(page)
    assert states(raw) == (0, 1)
