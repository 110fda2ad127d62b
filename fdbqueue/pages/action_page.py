"""Actions on the pages: pause, resume, redrive, remove, bury; off unless the setting has them on.

An action does exactly what its form has shown, whatever becomes of the form, of who sends it, and
of the queue. What it is for is its *bound*, which stands in the address of the form:

- ``id``, once or several times: these items, or this task; with ``before`` if they are to be
  dead: if they died before that moment;
- ``dead``, ``most``, ``before``: dead letters, at most that many, of those that died before that
  moment. ``dead`` is ``all``, or the digest of the reason that is stored (:func:`group_digest`): no
  text that a browser could change. That of an empty reason is as any other, and no ``dead`` is an
  error, never all.

Who may do what
    Who may view a queue and has the permission to manage it, and for the abort of a group the same
    for each queue of its tasks. That is asked for the button, for the page and for the form.

How it goes
    1. *A button* is a link to the page of an action: with ids, or with ``dead`` alone.
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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.apps import apps
from django.contrib import messages
from django.db import Error as OrmError
from django.db import router, transaction
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from fdbqueue import access, conf, deadlines, owned
from fdbqueue.columns.items import reason_text
from fdbqueue.columns.text import clip, grouped, visible
from fdbqueue.exceptions import ItemNotFound
from fdbqueue.logs import get_logger
from fdbqueue.models import QueueName
from fdbqueue.pages.sites import Addresses, actions_are_on
from fdbqueue.service import (
    MAX_ITEMS_A_CALL,
    DeadReason,
    Family,
    Queue,
    group_digest,
    microseconds,
    moment,
    now_us,
    run,
)

logger = get_logger("fdbqueue.pages")

#: How many items one request handles at most.
MAX_AT_ONCE = 10_000
_MAX_REASON = 1_000
_MAX_ID = 14_000
_MAX_AT = 10**9
_MAX_NUMBER = 10**15
#: Of the moments that a datetime can tell, in microseconds.
_LAST_MOMENT = 10**17
#: What stands for the dead letters of every reason.
ALL = "all"
#: What a reader types or ticks; all else of a form is in its address.
_TYPED = ("reason", "by_force")
_BOUND = ("most", "before")


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
    at = forms.IntegerField(required=False, min_value=0, max_value=_MAX_AT)
    reason = forms.CharField(label=_("Reason"), required=False, strip=False, max_length=_MAX_REASON)
    by_force = forms.BooleanField(label=_("Also end what runs"), required=False)

    def __init__(self, action: PageAction, request: HttpRequest) -> None:
        self._is_sent = request.method == "POST"
        data = request.GET.copy()
        if self._is_sent:
            for name in _TYPED:
                data.setlist(name, request.POST.getlist(name))
        super().__init__(data)
        taken = (*action.takes, *_BOUND) if "dead" in action.takes else action.takes
        for name in {*self.fields}.difference(taken):
            del self.fields[name]
        self._given = {name: request.GET.getlist(name) for name in self.fields}

    def clean(self) -> dict[str, Any]:
        """Refuse an address that does not say what the action is for."""
        asked, takes = self.cleaned_data, self.fields
        if self.errors:
            return asked
        ids, dead = asked.get("id") or [], asked.get("dead")
        if "dead" in takes and bool(dead) == bool(ids):
            self.add_error(None, _("This address does not say which dead letters are meant."))
        elif "dead" not in takes and "id" in takes and len(ids) != 1:
            self.add_error(None, _("This address does not say which item is meant."))
        elif self._is_sent and "dead" in takes:
            needed = _BOUND if dead else ("before",)
            if any(asked[name] is None for name in needed):
                self.add_error(None, _("This address does not say how many had died by then."))
        return asked

    def address(self, **changed: Any) -> str:
        """Return the query of the form's address, with parameters changed."""
        given = {**self._given, **changed}
        said = {name: one for name, one in given.items() if one != []}
        return "?" + urlencode(said, doseq=True)

    def typed(self) -> list[forms.BoundField]:
        """Return the fields that the reader fills in."""
        return [self[name] for name in _TYPED if name in self.fields]


@dataclass
class Outcome:
    """What an action has done until now.

    Attributes:
        number: How many items, or tasks, it has handled; for an action on a queue 1 if it did it.
        rest: What the address of the next form has in place of this one's, if there is more to do.
        undecodable: How many dead letters stayed dead because they cannot be decoded.
        facts: What it is for, for the log.
    """

    number: int = 0
    rest: Mapping[str, int] = field(default_factory=dict)
    undecodable: int = 0
    facts: dict[str, Any] = field(default_factory=dict)

    def add(self, number: int) -> None:
        """Count what one more transaction has done."""
        self.number += number


@dataclass(frozen=True)
class PageAction:
    """What the pages say of an action, and what does it. It needs the permission to manage.

    Attributes:
        name: The last part of its address.
        verb: What the button says.
        title: What it is done to, with ``queue``.
        means: What becomes of the items, or of the queue.
        told: The message after it, with ``number`` or ``queue``.
        work: What does it, called with the queue or the family, with what was asked, and with the
            outcome, which it keeps up to date as it goes.
        takes: Which of ``id``, ``dead``, ``reason``, ``by_force`` and ``at`` it is asked with: the
            items or dead letters, what the reader types or ticks, how much of it is done already.
        title_of_some: As ``title``, for items that are named; empty for the same.
        told_nothing: The message if there was nothing to do; empty for the same.
        chosen: What is said before an id, unless that is an item's.
        of_task: Whether its ``id`` is that of a task of the queue.
        queues: Other queues that the user must be allowed to do it to, by the ``id``.
    """

    name: str
    verb: str | Promise
    title: str | Promise
    means: str | Promise
    told: Any
    work: Callable[[Any, Mapping[str, Any], Outcome], None]
    takes: tuple[str, ...] = ()
    title_of_some: str | Promise = ""
    told_nothing: str | Promise = ""
    chosen: str | Promise = ""
    of_task: bool = False
    queues: Callable[[str], Sequence[str]] = lambda _id: ()


# What actions do


def _pause(of: Queue | Family, asked: Mapping[str, Any], outcome: Outcome) -> None:
    of.pause(reason=asked["reason"] or None)
    outcome.add(1)


def _resume(of: Queue | Family, _asked: Mapping[str, Any], outcome: Outcome) -> None:
    outcome.add(of.resume())


def _remove(queue: Queue, asked: Mapping[str, Any], outcome: Outcome) -> None:
    owned.remove(queue, asked["id"][0])
    outcome.add(1)


def _bury(queue: Queue, asked: Mapping[str, Any], outcome: Outcome) -> None:
    owned.bury(queue, asked["id"][0], reason=asked["reason"] or "buried")
    outcome.add(1)


def _redrive(queue: Queue, asked: Mapping[str, Any], outcome: Outcome) -> None:
    met: list[str] = []
    redrive = functools.partial(queue.redrive, on_redriven=outcome.add, on_undecodable=met.extend)
    if asked["id"]:
        redrive(asked["id"], died_before=moment(asked["before"]))
    else:
        _do_to_dead(queue, redrive, asked, outcome)
    outcome.undecodable = 0 if asked["id"] else len(met)


def _purge(queue: Queue, asked: Mapping[str, Any], outcome: Outcome) -> None:
    purge = functools.partial(queue.clear_state, "dead", on_removed=outcome.add)
    _do_to_dead(queue, purge, asked, outcome)


def _do_to_dead(
    queue: Queue, work: Callable[..., int], asked: Mapping[str, Any], outcome: Outcome
) -> None:
    """Do work to the dead letters of a bound; what is left when the time is over is the rest."""
    bound: dict[str, Any] = {"died_before": moment(asked["before"])}
    if asked["dead"] != ALL:
        group = _group(queue, asked["dead"])
        if group is None:
            return
        bound["reason"] = outcome.facts["reason"] = group.reason
    limit = min(asked["most"], MAX_AT_ONCE)
    try:
        is_over = work(limit=limit, **bound) == limit
    except Exception as error:
        if not (outcome.number and deadlines.is_late(error)):
            raise
        is_over = True
    left = asked["most"] - outcome.number
    outcome.rest = {"most": left} if is_over and left else {}


def _group(queue: Queue, digest: str, tr: Any = None) -> DeadReason | None:
    """Return the reason that a digest stands for, None if no dead letter has it."""
    found = queue.dead_by_reason(limit=MAX_ITEMS_A_CALL, tr=tr)
    return next((one for one in found if group_digest(one.reason) == digest), None)


#: The actions, by their names.
ACTIONS: dict[str, PageAction] = {
    "pause": PageAction(
        "pause",
        _("Pause"),
        _("Pause %(queue)s"),
        _("Pops and leases find nothing until it is resumed. Pushes go on."),
        _("Paused: %(queue)s"),
        _pause,
        takes=("reason",),
    ),
    "resume": PageAction(
        "resume",
        _("Resume"),
        _("Resume %(queue)s"),
        _("Pops and leases take items again."),
        _("Resumed: %(queue)s"),
        _resume,
        told_nothing=_("It was not paused: %(queue)s"),
    ),
    "redrive": PageAction(
        "redrive",
        _("Requeue"),
        _("Requeue dead letters of %(queue)s"),
        _("They become ready again, as if they had never been tried."),
        ngettext_lazy("%(number)s item was requeued.", "%(number)s items were requeued.", "count"),
        _redrive,
        takes=("id", "dead"),
        title_of_some=_("Requeue an item of %(queue)s"),
    ),
    "purge": PageAction(
        "purge",
        _("Remove"),
        _("Remove dead letters of %(queue)s"),
        _("They are removed for good; nothing brings them back."),
        ngettext_lazy("%(number)s item was removed.", "%(number)s items were removed.", "count"),
        _purge,
        takes=("dead",),
    ),
    "remove": PageAction(
        "remove",
        _("Remove"),
        _("Remove an item of %(queue)s"),
        _("It is removed for good, whatever its state; nothing brings it back."),
        _("The item was removed."),
        _remove,
        takes=("id",),
    ),
    "bury": PageAction(
        "bury",
        _("Make it a dead letter"),
        _("Make an item of %(queue)s a dead letter"),
        _("It is kept with its bytes, is not popped any more, and can be requeued later."),
        _("The item is a dead letter now."),
        _bury,
        takes=("id", "reason"),
    ),
}
#: The actions that are for one item, and so need its id.
OF_ONE_ITEM = frozenset({"remove", "bury"})


@dataclass(frozen=True)
class Offer:
    """A button: what it says, and the page of its action."""

    name: str
    verb: str | Promise
    address: str


def action_named(name: str) -> PageAction | None:
    """Return an action of this package, or of an app that names its own: ``fdbqueue_actions``."""
    paths = (getattr(app, "fdbqueue_actions", None) for app in apps.get_app_configs())
    known = itertools.chain([ACTIONS], (import_string(path) for path in paths if path))
    return next((one[name] for one in known if name in one), None)


def may_act(user: Any, *queue_names: str) -> bool:
    """Tell whether a user may do actions to queues, or to families."""
    return all(access.may(user, access.MANAGE, name) for name in queue_names)


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


# What a reader is asked and told


def question(queue: Queue | Family, action: PageAction, form: ActionForm) -> dict[str, Any]:
    """Return what the page of an action asks: what it is done to, how many, and what it means.

    Raises:
        ItemNotFound: No item that was chosen is there, or is dead if that is asked.
        InvalidInput: One is not the id of an item of this queue.
    """
    ids: list[str] = form.cleaned_data.get("id") or []
    asked: dict[str, Any] = {"address": form.address(), "chosen_ids": ids}
    if not isinstance(queue, Family) and form.cleaned_data.get("dead"):
        asked |= run(queue.database, functools.partial(_dead, queue, form), read_only=True)
    elif not isinstance(queue, Family) and ids and not action.of_task:
        asked |= _items(queue, action, form)
    title = (ids and action.title_of_some) or action.title
    chosen = [clip(visible(one))[0] for one in asked.pop("chosen_ids")]
    named = {"title": str(title) % {"queue": queue.label}, "action": action, "chosen_ids": chosen}
    return {**named, **asked}


def _items(queue: Queue, action: PageAction, form: ActionForm) -> dict[str, Any]:
    """Look which items of a form are there, and give it a bound if they are to be dead."""
    ids, before = form.cleaned_data["id"], form.cleaned_data.get("before")
    found, bound = [], {}
    for one in ids:
        with contextlib.suppress(ItemNotFound):
            found.append(queue.get(one))
    there = [item.id for item in found]
    if "dead" in action.takes:
        deaths = {item.id: microseconds(item.died_at) for item in found if item.died_at}
        before = 1 + max(deaths.values(), default=0) if before is None else before
        there = [item_id for item_id, died in deaths.items() if died < before]
        bound = {"before": before}
    if not there:
        raise ItemNotFound(queue=queue.name, id=ids[0])
    return {"chosen_ids": there, "address": form.address(id=there, **bound)}


def _dead(queue: Queue, form: ActionForm, tr: Any) -> dict[str, Any]:
    """Read which dead letters a form is for, and give it a bound if it has none."""
    dead, most, before = (form.cleaned_data[name] for name in ("dead", *_BOUND))
    group = None if dead == ALL else _group(queue, dead, tr)
    number = max(0, queue.counts(tr=tr).dead) if dead == ALL else group.count if group else 0
    asked: dict[str, Any] = {
        "is_all": dead == ALL,
        "chosen_reason": group and (reason_text(group.reason) or _("no reason given")),
    }
    if most is None or before is None:
        latest = queue.page(state="dead", order="time", end="max", limit=1, tr=tr).items
        died = latest[0].died_at if latest else None
        most, before = number, 1 + (now_us() if died is None else microseconds(died))
    else:
        number = min(number, most)
        asked["before"] = moment(before)
    address = form.address(most=most, before=before)
    return {**asked, "number": grouped(number), "is_nothing": not number, "address": address}


def perform(
    request: HttpRequest, of: Queue | Family, action: PageAction, form: ActionForm
) -> Outcome:
    """Do an action to what its form is for, and write down what was done, whatever ends it.

    Raises:
        FdbQueueError: As the verb of the queue; what was done until then stays done.
    """
    asked = form.cleaned_data
    names = ("id", "dead", "most", "reason")
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
    of: Queue | Family,
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
                object_repr=of.label,
                action_flag=CHANGE,
                change_message=_noted(action, outcome, failed, of.label),
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
