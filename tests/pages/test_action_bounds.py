"""What an action is done to is what its form has shown, whatever becomes of the form meanwhile.

Each event is tried with dead letters of each kind of reason, which are of three groups besides.
"""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User

from fdbqueue import verbs
from fdbqueue.pages import actions
from fdbqueue.service import clock, group_digest
from tests.cases import cases
from tests.pages.addresses import text
from tests.pages.conftest import SITES
from tests.pages.test_actions import asked, at, form_of

pytestmark = pytest.mark.usefixtures("on")

#: Reasons that a browser would change, that are cut, or that were taken for no reason.
REASONS = {
    "user-empty": "",
    "user-cr": "boom\rmore",
    "user-lf": "boom\nmore",
    "user-crlf": "boom\r\nmore",
    "user-nul": "bo\x00om",
    "user-blanks": "  \t ",
    "user-long": "r" * 4_000,
    "user-all": None,
}
#: Others of the same queue, each of another group than any of these.
OTHERS = ("boo", "boom", "m", "r" * 199)
ACTIONS = ("redrive", "purge")


class Letters:
    """A queue with dead letters, and those that an action on one reason is for."""

    def __init__(self, queue, name):
        self.queue, self.reason = queue(name), REASONS[name]
        group = actions.ALL if self.reason is None else group_digest(self.reason)
        self.chosen = {"dead": group}
        self.others = [] if self.reason is None else self._others()
        self.meant = self.die("old", 3)

    def _others(self):
        of_another = [one for one in OTHERS if group_digest(one) != group_digest(self.reason)]
        return [self._dead(reason) for reason in of_another]

    def _dead(self, reason):
        item = self.queue.push(0)
        self.queue.bury(item.id, reason=reason)
        return item.id

    def die(self, reason, count):
        """Let items die of the reason, or if all are meant of any; return their ids."""
        return [self._dead(reason if self.reason is None else self.reason) for _ in range(count)]

    def dead(self):
        """Return the ids of the dead letters."""
        return {item.id for item in self.queue.page(state="dead").items}

    def left(self, *ids):
        """Tell whether the others and these are dead, and what was meant is not."""
        return self.dead() == {*self.others, *ids}


@pytest.fixture
def each(queue):
    """Return the letters of a reason, in a queue of their own."""
    return lambda name: Letters(queue, name)


@pytest.fixture(autouse=True)
def one_at_once(monkeypatch):
    """Each dead letter has a transaction of its own, so that there is a middle."""
    monkeypatch.setattr("fdbqueue.service.bulk.remove._REMOVED_AT_ONCE", 1)
    monkeypatch.setattr("fdbqueue.service.consume.returns._AT_ONCE", 1)


@pytest.mark.parametrize("action", ACTIONS)
@cases("name", REASONS)
def test_a_fresh_form(each, site, manager, action, name):
    """It is done to as many as it has shown."""
    letters = each(name)
    address = at(site, name, action)
    page = manager.get(address, letters.chosen)
    assert "Dead letters now: 3" in text(page)
    assert "3 items were" in text(manager.post(form_of(address, page), follow=True))
    assert letters.left()


@pytest.mark.parametrize("action", ACTIONS)
@cases("name", REASONS)
def test_a_stale_form(each, manager, action, name):
    """What has died since stays, and what is gone meanwhile is not made up for by it."""
    letters = each(name)
    form = asked(manager, at(SITES["plain"], name, action), letters.chosen)
    new = letters.die("new", 5)
    letters.queue.remove(letters.meant[0])
    assert "2 items were" in text(manager.post(form, follow=True))
    assert letters.left(*new)


@pytest.mark.parametrize("action", ACTIONS)
@cases("name", REASONS)
def test_a_session_that_ends(each, site, manager, action, name):
    """The login leads back to a form for the same, which is then done to that."""
    letters = each(name)
    address = at(site, name, action)
    form = asked(manager, address, letters.chosen)
    manager.logout()
    to_login = manager.post(form)
    assert to_login.status_code == 302
    assert len(letters.dead()) == 3 + len(letters.others)
    (back,) = parse_qs(urlsplit(to_login["Location"]).query)["next"]
    assert back == form
    manager.force_login(User.objects.get(username="manager"))
    new = letters.die("new", 5)
    page = manager.get(back)
    assert "Dead letters: at most 3 of those that had died by" in text(page)
    assert form_of(address, page) == form
    assert "3 items were" in text(manager.post(form, follow=True))
    assert letters.left(*new)


@pytest.mark.parametrize("action", ACTIONS)
@cases("name", REASONS)
def test_a_form_that_is_sent_twice(each, manager, action, name):
    """The second finds nothing and says so, though more have died, the same ones too."""
    letters = each(name)
    form = asked(manager, at(SITES["plain"], name, action), letters.chosen)
    manager.post(form)
    new = letters.die("new", 1)
    if action == "redrive":
        letters.queue.bury(letters.meant[0], reason=letters.reason or "again")
        new.append(letters.meant[0])
    page = text(manager.post(form, follow=True))
    assert "0 items were" in page
    assert letters.left(*new)


@pytest.mark.parametrize("action", ACTIONS)
@cases("name", REASONS)
def test_a_form_whose_process_is_killed(each, manager, action, name):
    """What it has done stays done; sent again it does the rest, and says how much that was."""
    letters = each(name)
    form = asked(manager, at(SITES["plain"], name, action), letters.chosen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verbs.Outcome, "add", killed)
        with pytest.raises(SystemExit):
            manager.post(form)
    assert len(letters.dead()) == 2 + len(letters.others)
    new = letters.die("new", 2)
    assert "2 items were" in text(manager.post(form, follow=True))
    assert letters.left(*new)


def killed(outcome, number):
    """Stand in for what counts after a commit: gunicorn ends a worker that is late like this."""
    if number:
        raise SystemExit


@cases("name", REASONS)
def test_enter_in_the_address_bar(each, site, manager, name):
    """The address of a form that was sent asks for the same, and changes nothing."""
    letters = each(name)
    address = at(site, name, "purge")
    form = asked(manager, address, letters.chosen)
    before = letters.dead()
    for _ in range(2):
        assert form_of(address, manager.get(form)) == form
    assert letters.dead() == before
    manager.post(form)
    letters.die("new", 1)
    assert form_of(address, manager.get(form)) == form


def test_a_death_by_a_clock_that_is_behind(each, manager):
    """There are never more than the form has shown."""
    letters = each("user-all")
    form = asked(manager, at(SITES["plain"], "user-all", "purge"), letters.chosen)
    clock.set_ahead(-60_000_000)
    try:
        letters.die("new", 4)
    finally:
        clock.set_ahead(60_000_000)
    assert "3 items were removed." in text(manager.post(form, follow=True))
    assert len(letters.dead()) == 4


# Of one item, and of the queue


def test_an_item_that_has_died_again(site, manager, mail):
    """It is not redriven by a form that has redriven it, and another form asks for it again."""
    address, chosen = at(site, "mail", "redrive"), {"id": mail.dead_ids[0]}
    form = asked(manager, address, chosen)
    manager.post(form)
    mail.bury(mail.dead_ids[0], reason="again")
    assert "0 items were redriven." in text(manager.post(form, follow=True))
    assert manager.get(form).status_code == 404
    assert mail.counts().dead == 3
    assert "1 item was redriven." in text(
        manager.post(asked(manager, address, chosen), follow=True)
    )
    assert mail.counts().dead == 2


@pytest.mark.parametrize("action", ["redrive", "remove", "bury"])
def test_an_item_after_a_login_and_twice(site, manager, mail, action):
    """It is this item alone; the second time there is nothing to do, and nothing is said done."""
    item_id = mail.ready_id if action == "bury" else mail.dead_ids[0]
    address = at(site, "mail", action)
    form = asked(manager, address, {"id": item_id, "reason": "a\r\nb"})
    assert ("reason=a%0D%0Ab" in form) == (action == "bury")
    manager.logout()
    to_login = manager.post(form, {"reason": "why"})
    (back,) = parse_qs(urlsplit(to_login["Location"]).query)["next"]
    manager.force_login(User.objects.get(username="manager"))
    assert form_of(address, manager.get(back)) == form
    assert manager.post(form, {"reason": "why"}, follow=True).status_code == 200
    counts = mail.counts()
    again = manager.post(form, {"reason": "why"}, follow=True)
    assert again.status_code == {"redrive": 200, "remove": 404, "bury": 409}[action]
    assert 'class="success"' not in text(again)
    assert mail.counts() == counts
    others = {"redrive": (2, 2), "remove": (1, 2), "bury": (0, 4)}
    assert (mail.size(), counts.dead) == others[action]


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_a_queue_is_paused_by_a_form_whose_process_was_killed(site, manager, mail, action):
    """Sent again, it is done if it was not, and told by what was found."""
    if action == "resume":
        mail.pause()
    form = asked(manager, at(site, "mail", action))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"fdbqueue.service.queues.Queue.{action}", killed_before)
        with pytest.raises(SystemExit):
            manager.post(form)
    assert (mail.paused() is None) == (action == "pause")
    assert 'class="success"' in text(manager.post(form, follow=True))
    assert (mail.paused() is None) == (action == "resume")


def killed_before(queue, **_given):
    """Stand in for a verb whose process is killed before its commit."""
    raise SystemExit
