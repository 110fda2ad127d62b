"""Actions on the pages: pause, resume, redrive, remove, bury; off unless the setting has them on.

An action does exactly what its form has shown, whatever becomes of the form, of who sends it, and
of the queue. What it is for is its *bound*, which stands in the address of the form:

- ``id``, once or several times: these items, or this task. Items that a list has ticked are in
  hidden fields of the form instead: an address has no room for so many. With ``before`` if they are
  to be dead, leased or delayed: if they died, were leased, or are due before that moment;
- ``dead``, ``most``, ``before``: dead letters, at most that many, of those that died before that
  moment. ``dead`` is ``all``, or the digest of the reason that is stored (:func:`group_digest`): no
  text that a browser could change. That of an empty reason is as any other, and no ``dead`` is an
  error, never all;
- ``all`` or ``worker``, ``most``, ``before``: what is leased, or delayed, or what a worker holds,
  at most that many, of leases that began, or delays that end, before that moment. A delay that
  begins meanwhile and ends before it may take the place of another.

Who may do what
    Who may view a queue and has the permission to manage it, and for the abort of a group the same
    for each queue of its tasks. That is asked for the button, for the page and for the form.

How it goes
    1. *A button* is a link to the page of an action: with ids, or with ``dead`` alone. Beside a
       list it sends what is ticked (POST, with ``ask``), which is the same as such a link.
    2. *The page* (GET) changes nothing. In one transaction it reads how many dead letters there are
       and when the last one died, and shows that number, or these items. It writes a form whose
       address has the bound; of an address with a bound it keeps that, and shows at most its
       number.
    3. *The form* (POST, with Django's token) has besides only what the reader types. It acts on
       its bound: of what is left of that, ten thousand at most, in transactions of some hundreds;
       in each an item is as it was in the bound, or is passed over.
    4. *What was done* is what these transactions have done, and is told as it is, also if it is
       nothing. If the time is over or ten thousand are done, a page comes again whose bound has the
       rest of the number.
    5. *The log* has a warning for each form that got so far, whatever ended it, with who, what, how
       many until then, and the ids or the reason; so has the admin's own log, if it is installed.

What is left by
    - *a form that is sent twice*, by a double click, a reload or the back button, or by two people:
      what the first has done is out of the bound (an item that is removed, or requeued; one that
      dies again has died after the moment), so the second finds nothing, and says so;
    - *the end of a session, a token that is refused, Enter in the address bar*: the address, which
      asks the same again, with the same bound;
    - *items that die meanwhile*: they died after the moment, and stay as they are. Moments are by
      the clocks of those who note deaths: one that dies meanwhile by a clock that is behind may
      take the place of another, but there are never more than the number;
    - *an exception, a deadline, an engine that goes away*: what was committed. The line of the log
      says how many that are; of a last commit whose outcome is not known it counts nothing. The
      page of the error has the same form: what was not done is done when it is sent again;
    - *a process that is killed*: the same, but no line, because nothing has ended.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.apps import apps
from django.contrib import messages
from django.db import Error as OrmError
from django.db import router, transaction
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from fdbqueue import access, conf, deadlines
from fdbqueue.columns import markup
from fdbqueue.columns.items import reason_text
from fdbqueue.columns.text import clip, grouped, visible
from fdbqueue.exceptions import ItemNotFound
from fdbqueue.logs import get_logger
from fdbqueue.models import QueueName
from fdbqueue.pages.actions import (
    ALL,
    MAX_AT_ONCE,
    Of,
    PageAction,
    action_named,
    group_of,
)
from fdbqueue.pages.sites import EVERY, Addresses, actions_are_on
from fdbqueue.service import (
    MAX_REASON_CHARACTERS,
    MAX_WORKER_CHARACTERS,
    Item,
    Queue,
    SeveralQueues,
    ahead,
    microseconds,
    moment,
    now_us,
    run,
)
from fdbqueue.verbs import Outcome

logger = get_logger("fdbqueue.pages")

_MAX_ID = 14_000
_MAX_AT = 10**9
_MAX_NUMBER = 10**15
#: Of the moments that a datetime can tell, in microseconds.
_LAST_MOMENT = 10**17
#: What a reader types or ticks; all else of a form is in its address.
_TYPED = ("reason", "by_force", "unspent")
_BOUND = ("most", "before")
#: The moments by which actions on items in a state are bound.
_MOMENTS = {
    "dead": attrgetter("died_at"),
    "leased": attrgetter("leased_at"),
    "delayed": attrgetter("until"),
}


class _Ids(forms.Field):
    """Ids, each of which is given as a parameter of its own."""

    widget = forms.MultipleHiddenInput

    def clean(self, value: Any) -> list[str]:
        """Return those that are not empty, each once."""
        ids = [one for one in dict.fromkeys(value or ()) if one]
        if any(len(one) > _MAX_ID for one in ids):
            raise forms.ValidationError(_("This is too long for an id."))
        return ids


class ActionForm(forms.Form):
    """What an action is for, by the address of its form, and what the reader has typed.

    What the action does not take is ignored.

    Args:
        action: The action.
        request: GET for a form that is not sent yet, POST for one that is.
    """

    id = _Ids(required=False)
    dead = forms.RegexField(rf"\A(?:{ALL}|[0-9a-f]{{32}})\Z", required=False)
    most = forms.IntegerField(required=False, min_value=0, max_value=_MAX_NUMBER)
    before = forms.IntegerField(required=False, min_value=0, max_value=_LAST_MOMENT)
    all = forms.RegexField(rf"\A{ALL}\Z", required=False)
    worker = forms.CharField(required=False, strip=False, max_length=MAX_WORKER_CHARACTERS)
    latest = forms.CharField(required=False, max_length=MAX_REASON_CHARACTERS)
    at = forms.IntegerField(required=False, min_value=0, max_value=_MAX_AT)
    reason = forms.CharField(
        label=_("Reason"), required=False, strip=False, max_length=MAX_REASON_CHARACTERS
    )
    by_force = forms.BooleanField(label=_("Also end what runs"), required=False)
    unspent = forms.BooleanField(
        label=_("Count no attempt: nobody has begun with them"), required=False
    )

    def __init__(self, action: PageAction, request: HttpRequest) -> None:
        self._action = action
        sent, given = request.POST, request.GET.copy()
        self.is_sent = request.method == "POST" and "ask" not in sent
        if ALL in sent and action.of_list and not self.is_sent:  # all of a list was ticked
            given[action.of_list] = ALL
        elif "id" in sent:
            given.setlist("id", sent.getlist("id"))
        data = given.copy()
        for name in _TYPED if self.is_sent else ():
            data.setlist(name, sent.getlist(name))
        self._wants_all = ALL in sent and not action.of_list
        #: Whether the ids are in the form itself.
        self.has_ids = "id" in sent
        super().__init__(data)
        bound = _BOUND if action.of_list else ()
        for name in {*self.fields}.difference(action.takes, bound):
            del self.fields[name]
        self._given = {name: given.getlist(name) for name in self.fields}

    def clean(self) -> dict[str, Any]:
        """Refuse an address that does not say what the action is for."""
        asked, takes = self.cleaned_data, self.fields
        if self.errors:
            return asked
        ids, of_list = asked.get("id") or [], self._action.of_list
        if self._wants_all:
            self.add_error(None, _("This can be done to the rows of a page alone: tick these."))
        whole = [name for name in (of_list, "worker") if asked.get(name)]
        if of_list and len(whole) + bool(ids) != 1:
            text = _("This address does not say which items are meant: tick some.")
            if of_list == "dead":
                text = _("This address does not say which dead letters are meant.")
            self.add_error(None, text)
        elif (not of_list and "id" in takes and not ids) or (self._action.chosen and len(ids) > 1):
            self.add_error(None, _("This address does not say which item is meant."))
        elif self.is_sent and of_list:
            needed = _BOUND if whole else ("before",)
            if any(asked[name] is None for name in needed):
                self.add_error(None, _("This address does not say how many had died by then."))
        elif self.is_sent and "latest" in takes and not self._given["latest"]:
            self.add_error(None, _("This address does not say which task was the latest."))
        return asked

    def address(self, **changed: Any) -> str:
        """Return the query of the form's address, with parameters changed."""
        given = {**self._given, **changed}
        if self.has_ids:
            given.pop("id", None)
        said = {name: one for name, one in given.items() if one != []}
        return "?" + urlencode(said, doseq=True)

    def ids(self) -> list[str]:
        """Return the ids that are in the form itself, if they are not in its address."""
        return self.cleaned_data["id"] if self.has_ids else []

    def bound_given(self) -> dict[str, Any]:
        """Return the bound of the address that is an app's own: it is kept."""
        return {name: one for name, one in self._given.items() if name == "latest" and one}

    def typed(self) -> list[forms.BoundField]:
        """Return the fields that the reader fills in."""
        return [self[name] for name in _TYPED if name in self.fields]


@dataclass(frozen=True)
class Offer:
    """A button: what it says, and the page of its action."""

    name: str
    verb: str | Promise
    address: str


def may_act(user: Any, *queue_names: str) -> bool:
    """Tell whether a user may do actions to queues, to families, or to all queues."""
    names = (None if name == EVERY else name for name in queue_names)
    return all(access.may(user, access.MANAGE, name) for name in names)


def offers(
    user: Any,
    addresses: Addresses,
    queue_name: str,
    *names: str,
    others: Iterable[str] = (),
    **chosen: str,
) -> list[Offer]:
    """Return the buttons of the actions that a user may do; none if actions are off.

    Args:
        user: The user of the request.
        addresses: Those of the site.
        queue_name: The name of a queue, or of a family.
        names: The names of the actions.
        others: Other queues that the user must be allowed to do them to.
        chosen: The ``id`` of the item; or ``dead``, ``ALL`` or the digest of a reason.
    """
    if not actions_are_on() or not may_act(user, queue_name, *others):
        return []
    return [
        Offer(name, action.verb, addresses.action(queue_name, name, **chosen))
        for name in names
        if (action := action_named(name)) is not None
    ]


def links(offered: Iterable[Offer], prefix: str, label: str) -> SafeString | None:
    """Return the markup of buttons in a table, None if there are none."""
    shown = '<a class="fdbqueue-choice fdbqueue-offer" id="do-{0}-{1}" href="{2}" '
    shown += 'aria-label="{3}: {4}">{3}</a>'
    found = [
        markup.filled(shown, prefix, one.name, one.address, one.verb, label) for one in offered
    ]
    return SafeString(" ".join(found)) if found else None


# What a reader is asked and told


def label_of(of: Of) -> str:
    """Return what readers call a queue, a family, or all queues."""
    return gettext("all queues") if isinstance(of, SeveralQueues) else of.label


def question(of: Of, action: PageAction, form: ActionForm) -> dict[str, Any]:
    """Return what the page of an action asks: what it is done to, how many, and what it means.

    Raises:
        ItemNotFound: No item that was chosen is there, or is in the state that is asked.
        InvalidInput: One is not the id of an item of this queue.
    """
    wanted = form.cleaned_data
    ids: list[str] = wanted.get("id") or []
    asked: dict[str, Any] = {"address": form.address(), "chosen_ids": ids}
    if isinstance(of, Queue) and wanted.get("dead"):
        asked |= run(of.database, functools.partial(_dead, of, form), read_only=True)
    elif not ids and action.of_list:
        asked |= _all(of, action, form)
    elif isinstance(of, Queue) and ids and not action.chosen:
        asked |= _items(of, action, form)
    elif ids:
        given = {**action.bound(of, ids[0]), **form.bound_given()}
        asked["address"] = form.address(**given)
    form.cleaned_data["id"] = asked["chosen_ids"]  # what the form has is what is shown
    title = (len(ids) == 1 and action.title_of_some) or action.title
    chosen = [clip(visible(one))[0] for one in asked.pop("chosen_ids")]
    named = {"title": str(title) % {"queue": label_of(of)}, "action": action, "chosen_ids": chosen}
    return {**named, **asked}


def _items(queue: Queue, action: PageAction, form: ActionForm) -> dict[str, Any]:
    """Look which items of a form are there, and give it a bound if they are to be in a state."""
    ids, before = form.cleaned_data["id"], form.cleaned_data.get("before")

    def read(tr: Any) -> list[Item]:
        found = []
        for one in ids:
            with contextlib.suppress(ItemNotFound):
                found.append(queue.get(one, tr=tr))
        return found

    found, bound = run(queue.database, read, read_only=True), {}
    there = [item.id for item in found]
    if action.state:
        at = _MOMENTS[action.state]
        moments = {
            item.id: microseconds(at(item))
            for item in found
            if item.state == action.state and at(item) is not None
        }
        before = 1 + max(moments.values(), default=0) if before is None else before
        there = [item_id for item_id, when in moments.items() if when < before]
        bound = {"before": before}
    if not there:
        raise ItemNotFound(queue=queue.name, id=ids[0])
    return {"chosen_ids": there, "address": form.address(id=there, **bound)}


def _dead(queue: Queue, form: ActionForm, tr: Any) -> dict[str, Any]:
    """Read which dead letters a form is for, and give it a bound if it has none."""
    dead = form.cleaned_data["dead"]
    group = None if dead == ALL else group_of(queue, dead, tr)
    number = max(0, queue.counts(tr=tr).dead) if dead == ALL else group.count if group else 0
    latest = queue.page(state="dead", order="time", end="max", limit=1, tr=tr).items
    died = latest[0].died_at if latest else None
    asked: dict[str, Any] = {
        "is_all": dead == ALL,
        "chosen_reason": group and (reason_text(group.reason) or _("no reason given")),
        "is_dead": True,
    }
    return asked | _bounded(form, number, now_us() if died is None else microseconds(died))


def _all(of: Of, action: PageAction, form: ActionForm) -> dict[str, Any]:
    """Read how many items of a list, or of a worker, a form is for, and bound it if need be."""
    state, worker, last = action.state, form.cleaned_data.get("worker"), now_us()
    if worker:
        theirs = (one for one in _leased(of) if one.worker in {worker, ahead(worker)})
        number = sum(1 for _one in itertools.islice(theirs, MAX_AT_ONCE))
    else:
        number = max(0, getattr(of.counts(), state)) if isinstance(of, Queue) else 0
    if state == "delayed" and isinstance(of, Queue):
        items = of.page(state=state, order="time", end="max", limit=1).items
        last = max([last, *(microseconds(one.until) for one in items if one.until)])
    return {"chosen_worker": worker and visible(worker), **_bounded(form, number, last)}


def _leased(of: Of) -> Iterable[Item]:
    """Yield what is leased of a queue, or of all that have any."""
    if isinstance(of, Queue):
        yield from of.iterate(state="leased")
    elif isinstance(of, SeveralQueues):
        for queue, _number in of.counted("leased"):
            yield from queue.iterate(state="leased")


def _bounded(form: ActionForm, number: int, last: int) -> dict[str, Any]:
    """Return what is shown of a number of items, and the address of the form with its bound."""
    most, before = (form.cleaned_data[name] for name in _BOUND)
    asked: dict[str, Any] = {}
    if most is None or before is None:
        most, before = number, 1 + last
    else:
        number = min(number, most)
        asked["before"] = moment(before)
    address = form.address(most=most, before=before)
    return {**asked, "number": grouped(number), "is_nothing": not number, "address": address}


def perform(request: HttpRequest, of: Of, action: PageAction, form: ActionForm) -> Outcome:
    """Do an action to what its form is for, and write down what was done, whatever ends it.

    Raises:
        FdbQueueError: As the verb of the queue; what was done until then stays done.
    """
    asked = form.cleaned_data
    names = ("id", "dead", "all", "worker", "most", "reason", "unspent")
    outcome = Outcome(facts={name: asked[name] for name in names if asked.get(name)})
    deadlines.limited_catalog(conf.api().timeout_seconds)  # from now on
    failed: BaseException | None = None
    try:
        action.work(of, asked, outcome)
    except BaseException as error:
        failed = error
        raise
    finally:
        _write_down(request.user, of, action, outcome, failed)
    return outcome


def _write_down(
    user: Any,
    of: Of,
    action: PageAction,
    outcome: Outcome,
    failed: BaseException | None,
) -> None:
    """Write what an action has done to the log, and to the admin's."""
    facts: dict[str, Any] = {"user": str(user.pk), "action": action.name, "queue": of.name}
    facts |= {"items": outcome.number, **outcome.facts}
    if failed is not None:
        facts["error"] = type(failed).__name__
    logger.warning("a user's action on a page has ended", extra=facts)
    if not apps.is_installed("django.contrib.admin"):
        return
    from django.contrib.admin.models import CHANGE, LogEntry
    from django.contrib.auth import get_user_model
    from django.contrib.contenttypes.models import ContentType

    if not isinstance(user, get_user_model()):  # the admin's log can name no other
        return
    try:
        with transaction.atomic(using=router.db_for_write(LogEntry)):
            LogEntry.objects.create(
                user_id=user.pk,
                content_type=ContentType.objects.get_for_model(QueueName),
                object_id=of.name,
                object_repr=label_of(of),
                action_flag=CHANGE,
                change_message=_noted(action, outcome, failed, label_of(of)),
            )
    except OrmError:
        logger.exception("an action is missing in the admin's log", extra=facts)


def _noted(action: PageAction, outcome: Outcome, failed: BaseException | None, label: str) -> str:
    """Return what the admin's log says of an action; a reason there stands for its digest."""
    text = _done(action, outcome, label)
    if failed is not None:
        said = {"number": grouped(outcome.number), "error": type(failed).__name__}
        text = _("failed by %(error)s after %(number)s items.") % said
    facts = [
        f"{name} = {visible(json.dumps(value, ensure_ascii=False))}"
        for name, value in outcome.facts.items()
        if name != "dead" or value == ALL or "reason" not in outcome.facts
    ]
    return " ".join([f"{action.verb}:", text, ", ".join(facts)]).strip()


def told(action: PageAction, outcome: Outcome, label: str) -> str:
    """Return the message after an action."""
    text = _done(action, outcome, label)
    if outcome.undecodable:
        text += " " + _("Some cannot be decoded and stay dead: they would block the queue.")
    more = _("There are more: continue if you wish.")
    return f"{text} {more}" if outcome.rest else text


def _done(action: PageAction, outcome: Outcome, label: str) -> str:
    said = {"queue": label, "count": outcome.number, "number": grouped(outcome.number)}
    text = action.told if outcome.number else action.told_nothing or action.told
    return str(text % said)


def tell(request: HttpRequest, text: str, *, is_done: bool) -> bool:
    """Keep a message for the next page; return False if the project has no messages."""
    if not hasattr(request, "_messages"):
        return False
    (messages.success if is_done else messages.warning)(request, text)
    return True
