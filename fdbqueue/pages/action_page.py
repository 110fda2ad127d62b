"""Actions on the pages: pause, resume, redrive, remove, bury; off unless the setting has them on.

An action is one of the REST API: its permission, the check of what it is given, and what it does
are declared there (:mod:`fdbqueue.api.viewsets`). Here is what a reader is asked and told.

How it goes. A button is a link to the page of the action, which only reads: it says how many items
there are and what becomes of them, and has a form with an id of its own. The form is sent by POST
with Django's token. The permission is asked again. Then the id is noted in the database: who sends
the same form twice, by a double click or the back button, changes nothing the second time. Then the
action does its work, ten thousand items at most, or as many as there is time for; the log has a
line, and the reader is led back to the queue with a message. If there is more to do, the page of
the action comes again, with a new id. At the end the id is noted as done. A process that dies, or
an engine that goes away before that, leaves the action undone, or done in part. Then the page of
the error has the form again, with the same id: it is done unless the id is noted as done. What was
done in part is done to the rest, for each action may be done twice.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.apps import apps
from django.contrib import messages
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from fdbqueue import access, conf, deadlines
from fdbqueue.columns.text import clip, grouped, visible
from fdbqueue.exceptions import EngineError, ItemNotFound, OutcomeUnknown
from fdbqueue.logs import get_logger
from fdbqueue.pages.sites import Addresses, actions_are_on
from fdbqueue.service import Catalog, Family, IdempotencyKey, Queue, group_of_text, make_call, run

logger = get_logger("fdbqueue.pages")

#: How many items one request handles at most.
MAX_AT_ONCE = 10_000
#: A request that has taken so long makes no further call.
_SECONDS = 5.0
_MAX_REASON = 1_000
_MAX_ID = 14_000
_ONCE_BYTES = 16
_MAX_AT = 10**9
#: What is noted with the id of a form that was done.
_DONE = b"done"
#: How many reasons of dead letters are read to tell how many there are of one.
_MAX_REASONS = 1_000


class ActionForm(forms.Form):
    """What an action is asked to do, and the id of the form; any other field is ignored.

    ``at`` is how much other forms have done of it, and ``again`` whether the same form has failed.
    """

    id = forms.CharField(required=False, max_length=_MAX_ID, widget=forms.HiddenInput)
    reason = forms.CharField(label=_("Reason"), required=False, strip=False, max_length=_MAX_REASON)
    by_force = forms.BooleanField(label=_("Also end what runs"), required=False)
    at = forms.IntegerField(
        required=False, min_value=0, max_value=_MAX_AT, widget=forms.HiddenInput
    )
    once = forms.RegexField(rf"^[0-9a-f]{{{2 * _ONCE_BYTES}}}$", widget=forms.HiddenInput)
    again = forms.BooleanField(required=False, widget=forms.HiddenInput)


@dataclass(frozen=True)
class PageAction:
    """What the pages say of an action.

    Attributes:
        name: The last part of its address, and the name of the action in the REST API if it is one.
        verb: What the button says.
        title: What it is done to, with ``queue``.
        means: What becomes of the items, or of the queue.
        told: The message after it, with ``number`` or ``queue``.
        takes: Which of ``id``, ``reason``, ``by_force`` and ``at`` it is asked with; any other is
            ignored, and not shown.
        title_of_one: As ``title``, for one item that is chosen; empty for the same.
        chosen: What is said before the id that is chosen, unless that is an item's.
        body: What the body of the API's action has besides the reason, from the ``id``.
        counted: The key of the number of items in the API's answer; empty if there is none.
        asks_reason: Whether the reader gives the reason; otherwise it chooses dead letters.
        of_state: The state whose items it handles; None for an action on the queue.
        of_task: Whether its ``id`` is that of a task of the queue.
        work: What does it, called with what was asked and with how much was done before, if the API
            has no such action; it returns how much is done now if there is more to do, else 0. It
            needs the permission to manage the queue,
        queues: and these, by the ``id``.
    """

    name: str
    verb: str | Promise
    title: str | Promise
    means: str | Promise
    told: Any
    takes: tuple[str, ...] = ()
    title_of_one: str | Promise = ""
    chosen: str | Promise = ""
    body: Callable[[str], Mapping[str, Any]] = lambda _id: {}
    counted: str = ""
    asks_reason: bool = False
    of_state: str | None = None
    of_task: bool = False
    work: Callable[[Mapping[str, Any], int], int] | None = None
    queues: Callable[[str], Sequence[str]] = lambda _id: ()


def _limit() -> int:
    """Return how many items one call of the API's action handles."""
    return min(MAX_AT_ONCE, conf.api().max_limit)


#: The actions, by their names.
ACTIONS: dict[str, PageAction] = {
    "pause": PageAction(
        "pause",
        _("Pause"),
        _("Pause %(queue)s"),
        _("Pops and leases find nothing until it is resumed. Pushes go on."),
        _("Paused: %(queue)s"),
        takes=("reason",),
        asks_reason=True,
    ),
    "resume": PageAction(
        "resume",
        _("Resume"),
        _("Resume %(queue)s"),
        _("Pops and leases take items again."),
        _("Resumed: %(queue)s"),
    ),
    "redrive": PageAction(
        "redrive",
        _("Requeue"),
        _("Requeue dead letters of %(queue)s"),
        _("They become ready again, as if they had never been tried."),
        ngettext_lazy("%(number)s item was requeued.", "%(number)s items were requeued.", "count"),
        takes=("id", "reason"),
        title_of_one=_("Requeue an item of %(queue)s"),
        body=lambda item_id: {**({"ids": [item_id]} if item_id else {}), "limit": _limit()},
        counted="redriven",
        of_state="dead",
    ),
    "purge": PageAction(
        "purge",
        _("Remove"),
        _("Remove dead letters of %(queue)s"),
        _("They are removed for good; nothing brings them back."),
        ngettext_lazy("%(number)s item was removed.", "%(number)s items were removed.", "count"),
        takes=("reason",),
        body=lambda _id: {"state": "dead", "limit": _limit()},
        counted="purged",
        of_state="dead",
    ),
    "remove": PageAction(
        "remove",
        _("Remove"),
        _("Remove an item of %(queue)s"),
        _("It is removed for good, whatever its state; nothing brings it back."),
        _("The item was removed."),
        takes=("id",),
    ),
    "bury": PageAction(
        "bury",
        _("Make it a dead letter"),
        _("Make an item of %(queue)s a dead letter"),
        _("It is kept with its bytes, is not popped any more, and can be requeued later."),
        _("The item is a dead letter now."),
        takes=("id", "reason"),
        body=lambda item_id: {"id": item_id},
        asks_reason=True,
    ),
}
#: The actions that are for one item, and so need its id.
OF_ONE_ITEM = frozenset({"remove", "bury"})


@dataclass(frozen=True)
class Outcome:
    """What became of an action.

    Attributes:
        number: How many items were handled; None if it is no action on items.
        has_more: Whether there is more to do.
        going_on: What the next form says besides.
        undecodable: How many dead letters stayed dead because they cannot be decoded.
        is_repeated: Whether the same form was sent before, and nothing was done.
    """

    number: int | None
    has_more: bool = False
    is_repeated: bool = False
    going_on: Mapping[str, int] = field(default_factory=dict)
    undecodable: int = 0


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


def may_act(user: Any, action: PageAction, *queue_names: str) -> bool:
    """Tell whether a user may do an action to queues, or to a family."""
    permission = access.MANAGE if action.work is not None else _declared(action).permission
    return all(access.may_to_all(user, permission, name) for name in queue_names)


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
        chosen: The ``id`` of the item, or the ``reason`` of the dead letters.
    """
    if not actions_are_on():
        return []
    return [
        Offer(name, action.verb, addresses.action(queue_name, name, **chosen))
        for name in names
        if (action := action_named(name)) is not None and may_act(user, action, queue_name, *others)
    ]


def fresh_form(action: PageAction, parameters: Mapping[str, str]) -> ActionForm:
    """Return the form of an action that was not asked for yet, with an id of its own."""
    once = secrets.token_hex(_ONCE_BYTES)
    return sent_form(action, {**parameters, "once": once, "again": ""})


def sent_form(action: PageAction, fields: Mapping[str, str]) -> ActionForm:
    """Return the form of an action, with those fields alone that it takes."""
    return ActionForm({name: fields.get(name, "") for name in (*action.takes, "once", "again")})


def question(queue: Queue | Family, action: PageAction, form: ActionForm) -> dict[str, Any]:
    """Return what the page of an action asks: what it is done to, how many, and what it means.

    Raises:
        ItemNotFound: The item that was chosen is not there, or is in another state.
        InvalidInput: It is not the id of an item of this queue.
    """
    item_id, reason = form.cleaned_data["id"], form.cleaned_data["reason"]
    title = (item_id and action.title_of_one) or action.title
    number = None
    if action.of_task:
        number = 1
    elif isinstance(queue, Family):  # it has no items
        if action.of_state is not None or action.name in OF_ONE_ITEM:
            raise ItemNotFound(queue=queue.name, id=item_id)
    elif item_id or action.name in OF_ONE_ITEM:
        state = queue.get(item_id).state
        if action.of_state not in {None, state}:
            raise ItemNotFound(queue=queue.name, id=item_id)
        number = 1
    elif action.of_state is not None:
        number = run(queue.database, functools.partial(_dead, queue, reason), read_only=True)
    return {
        "title": str(title) % {"queue": queue.label},
        "action": action,
        "chosen_id": clip(visible(item_id))[0],
        "chosen_reason": "" if action.asks_reason else visible(reason),
        "number": None if number is None else grouped(number),
        "is_nothing": number == 0,
    }


def _dead(queue: Queue, reason: str, tr: Any) -> int:
    """Return how many dead letters there are, or of a reason."""
    if not reason:
        return int(queue.counts(tr=tr).dead)
    found = queue.dead_by_reason(limit=_MAX_REASONS, tr=tr)
    group = group_of_text(reason)
    return next((one.count for one in found if group_of_text(one.reason) == group), 0)


def perform(request: HttpRequest, queue_name: str, action: PageAction, form: ActionForm) -> Outcome:
    """Do an action as the REST API does it, unless the same form was sent before.

    Raises:
        FdbQueueError: As the API's action.
        ValidationError: The API refuses what is given.
    """
    from rest_framework.exceptions import APIException

    asked = form.cleaned_data
    try:
        act = _prepared(action, queue_name, asked)
    except APIException as error:
        raise forms.ValidationError(str(error)) from error
    catalog = deadlines.limited_catalog(conf.api().timeout_seconds)
    note = _Note(catalog, request.user, asked["once"])
    if not note.begin(again=asked["again"]):
        return Outcome(None, is_repeated=True)
    until, number, more, undecodable = time.monotonic() + _SECONDS, 0, 1, 0
    while more and number < MAX_AT_ONCE and time.monotonic() < until:
        found = act()
        number += found.get(action.counted, 1) if action.counted else 1
        more = int(found.get("more") or 0)
        undecodable = max(undecodable, found.get("undecodable", 0))  # each call meets the first
    note.end()
    facts = {"user": str(request.user.pk), "action": action.name, "queue": queue_name}
    logger.info("a user has done an action on a page", extra={**facts, "items": number})
    going_on = {"at": more} if action.work is not None else {}
    counted = number if action.counted else None
    return Outcome(counted, has_more=bool(more), going_on=going_on, undecodable=undecodable)


def _prepared(
    action: PageAction, queue_name: str, asked: Mapping[str, Any]
) -> Callable[[], Mapping[str, Any]]:
    """Return what does an action once, and returns the API's answer.

    Raises:
        APIException: The API refuses what is given.
    """
    from fdbqueue.api import requests
    from fdbqueue.api.viewsets import QueueViewSet

    item_id, reason = asked["id"], asked["reason"]
    if action.work is not None:
        return _worked(functools.partial(action.work, asked), asked["at"] or 0)
    declared = _declared(action)
    body = {**action.body(item_id), **({"reason": reason} if reason else {})}
    place = {"name": queue_name, **({"id": item_id} if "id" in declared.places else {})}
    checked = requests.checked(declared.body, body) if declared.body is not None else {}
    serve = getattr(QueueViewSet, action.name).__wrapped__
    return lambda: serve(QueueViewSet(), {**checked}, **place)


def _worked(work: Callable[[int], int], at: int) -> Callable[[], Mapping[str, Any]]:
    """Return what goes on with work each time, from where it is."""

    def act() -> Mapping[str, Any]:
        nonlocal at
        at = work(at)
        return {"more": at}

    return act


def _declared(action: PageAction) -> Any:
    """Return what is declared of an action in the API."""
    from fdbqueue.api.actions import declaration
    from fdbqueue.api.viewsets import QueueViewSet

    return declaration(QueueViewSet, action.name)


class _Note:
    """What is noted of a form: that its action has begun, and that it is done.

    Args:
        catalog: Where it is noted.
        user: Who has sent it.
        once: Its id.
    """

    def __init__(self, catalog: Catalog, user: Any, once: str) -> None:
        self._catalog = catalog
        self._call = make_call("actions", IdempotencyKey(f"page {access.identity(user)} {once}"))

    def begin(self, *, again: bool) -> bool:
        """Note that it has begun; return False if it had before, with ``again`` if it was done."""
        responses, call = self._catalog.responses, self._call

        def note(tr: Any) -> bool:
            found = responses.recall(list(responses.begin_recall(tr, call)), call)
            if found is not None and not (again and found[0] != _DONE):
                return False
            responses.save(tr, call, b"")
            return True

        return run(self._catalog.database, note)

    def end(self) -> None:
        """Note that it is done; if that fails, a form that is sent again is done again."""
        responses, call = self._catalog.responses, self._call
        with contextlib.suppress(EngineError, OutcomeUnknown):
            run(self._catalog.database, lambda tr: responses.save(tr, call, _DONE))


def told(action: PageAction, outcome: Outcome, queue_name: str) -> str:
    """Return the message after an action."""
    if outcome.is_repeated:
        return str(_("This form was sent before, so nothing was done now."))
    said: dict[str, Any] = {"queue": queue_name}
    if outcome.number is not None:
        said |= {"count": outcome.number, "number": grouped(outcome.number)}
    text = str(action.told % said)
    if outcome.undecodable:
        text += " " + _("Some cannot be decoded and stay dead: they would block the queue.")
    more = _("There are more: continue if you wish.")
    return f"{text} {more}" if outcome.has_more else text


def tell(request: HttpRequest, text: str) -> bool:
    """Keep a message for the next page; return False if the project has no messages."""
    if not hasattr(request, "_messages"):
        return False
    messages.success(request, text)
    return True
