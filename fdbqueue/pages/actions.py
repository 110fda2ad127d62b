"""Actions on the pages: pause, resume, redrive, remove, bury; off unless the setting has them on.

An action is one of the REST API: its permission, the check of what it is given, and what it does
are declared there (:mod:`fdbqueue.api.viewsets`). Here is what a reader is asked and told.

How it goes. A button is a link to the page of the action, which only reads: it says how many items
there are and what becomes of them, and has a form with an id of its own. The form is sent by POST
with Django's token. The permission is asked again. Then the id is noted in the database: who sends
the same form twice, by a double click or the back button, changes nothing the second time. Then the
action does its work, ten thousand items at most, or as many as there is time for; the log has a
line, and the reader is led back to the queue with a message. If there is more to do, the page of
the action comes again, with a new id. A process that dies after the id is noted leaves the action
undone, or done in part: the page of the queue shows what is so.
"""

from __future__ import annotations

import functools
import itertools
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

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
from fdbqueue.exceptions import ItemNotFound
from fdbqueue.pages.sites import Addresses, actions_are_on
from fdbqueue.service import Catalog, Family, IdempotencyKey, Queue, group_named, make_call, run

logger = logging.getLogger("fdbqueue.pages")

#: How many items one request handles at most.
MOST_AT_ONCE = 10_000
#: A request that has taken so long makes no further call.
_SECONDS = 5.0
_MAX_REASON = 1_000
_MAX_ID = 14_000
_ONCE_BYTES = 16
#: How many reasons of dead letters are read to tell how many there are of one.
_MOST_REASONS = 1_000


class ActionForm(forms.Form):
    """What an action is asked to do, and the id of the form; any other field is ignored."""

    id = forms.CharField(required=False, max_length=_MAX_ID, widget=forms.HiddenInput)
    reason = forms.CharField(label=_("Reason"), required=False, strip=False, max_length=_MAX_REASON)
    by_force = forms.BooleanField(label=_("Also end it while it runs"), required=False)
    once = forms.RegexField(rf"^[0-9a-f]{{{2 * _ONCE_BYTES}}}$", widget=forms.HiddenInput)


@dataclass(frozen=True)
class PageAction:
    """What the pages say of an action.

    Attributes:
        name: The last part of its address, and the name of the action in the REST API if it is one.
        verb: What the button says.
        means: What becomes of the items, or of the queue.
        told: The message after it, with ``number`` or ``queue``.
        takes: Which of ``id``, ``reason`` and ``by_force`` it is asked with; any other is
            ignored, and not shown.
        body: What the body of the API's action has besides the reason, from the ``id``.
        counted: The key of the number of items in the API's answer; empty if there is none.
        asks_reason: Whether the reader gives the reason; otherwise it chooses dead letters.
        of_state: The state whose items it handles; None for an action on the queue.
        of_task: Whether its ``id`` is that of a task of the queue.
        work: What does it, called with what was asked, if the API has no such action; then it needs
            the permission to manage the queue.
    """

    name: str
    verb: str | Promise
    means: str | Promise
    told: Any
    takes: tuple[str, ...] = ()
    body: Callable[[str], Mapping[str, Any]] = lambda _id: {}
    counted: str = ""
    asks_reason: bool = False
    of_state: str | None = None
    of_task: bool = False
    work: Callable[[Mapping[str, Any]], object] | None = None


def _limit() -> int:
    """Return how many items one call of the API's action handles."""
    return min(MOST_AT_ONCE, conf.api().max_limit)


#: The actions, by their names.
ACTIONS: dict[str, PageAction] = {
    "pause": PageAction(
        "pause",
        _("Pause"),
        _("Pops and leases find nothing until it is resumed. Pushes go on."),
        _("Paused: %(queue)s"),
        takes=("reason",),
        asks_reason=True,
    ),
    "resume": PageAction(
        "resume",
        _("Resume"),
        _("Pops and leases take items again."),
        _("Resumed: %(queue)s"),
    ),
    "redrive": PageAction(
        "redrive",
        _("Requeue"),
        _("They become ready again, as if they had never been tried."),
        ngettext_lazy("%(number)s item was requeued.", "%(number)s items were requeued.", "count"),
        takes=("id", "reason"),
        body=lambda item_id: {**({"ids": [item_id]} if item_id else {}), "limit": _limit()},
        counted="redriven",
        of_state="dead",
    ),
    "purge": PageAction(
        "purge",
        _("Remove"),
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
        _("It is removed for good, whatever its state; nothing brings it back."),
        _("The item was removed."),
        takes=("id",),
    ),
    "bury": PageAction(
        "bury",
        _("Make it a dead letter"),
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
        is_repeated: Whether the same form was sent before, and nothing was done.
    """

    number: int | None
    has_more: bool = False
    is_repeated: bool = False


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


def may_act(user: Any, action: PageAction, queue_name: str) -> bool:
    """Tell whether a user may do an action to a queue, or to a family."""
    permission = access.MANAGE if action.work is not None else _declared(action).permission
    if "*" in queue_name:
        return access.may_in_general(user, permission)
    return access.may(user, permission, queue_name)


def offers(
    user: Any, addresses: Addresses, queue_name: str, *names: str, **chosen: str
) -> list[Offer]:
    """Return the buttons of the actions that a user may do; none if actions are off.

    Args:
        user: The user of the request.
        addresses: Those of the site.
        queue_name: The name of a queue, or of a family.
        names: The names of the actions.
        chosen: The ``id`` of the item, or the ``reason`` of the dead letters.
    """
    if not actions_are_on():
        return []
    query = f"?{urlencode(chosen)}" if chosen else ""
    return [
        Offer(name, action.verb, addresses.action(queue_name, name) + query)
        for name in names
        if (action := action_named(name)) is not None and may_act(user, action, queue_name)
    ]


def fresh_form(action: PageAction, parameters: Mapping[str, str]) -> ActionForm:
    """Return the form of an action that was not asked for yet, with an id of its own."""
    return sent_form(action, {**parameters, "once": secrets.token_hex(_ONCE_BYTES)})


def sent_form(action: PageAction, fields: Mapping[str, str]) -> ActionForm:
    """Return the form of an action, with those fields alone that it takes."""
    return ActionForm({name: fields.get(name, "") for name in (*action.takes, "once")})


def question(queue: Queue | Family, action: PageAction, form: ActionForm) -> dict[str, Any]:
    """Return what the page of an action asks: what it is done to, how many, and what it means.

    Raises:
        ItemNotFound: The item that was chosen is not there, or is in another state.
        InvalidInput: It is not the id of an item of this queue.
    """
    item_id, reason = form.cleaned_data["id"], form.cleaned_data["reason"]
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
    found = queue.dead_by_reason(limit=_MOST_REASONS, tr=tr)
    group = group_named(reason)
    return next((one.count for one in found if group_named(one.reason) == group), 0)


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
    if not _noted(deadlines.begin(conf.api().timeout_seconds), request.user, asked["once"]):
        return Outcome(None, is_repeated=True)
    until, number, has_more = time.monotonic() + _SECONDS, 0, True
    while has_more and number < MOST_AT_ONCE and time.monotonic() < until:
        found = act()
        number += found.get(action.counted, 1) if action.counted else 1
        has_more = bool(found.get("more"))
    facts = {"user": str(request.user.pk), "action": action.name, "queue": queue_name}
    logger.info("a user has done an action on a page", extra={**facts, "items": number})
    return Outcome(number if action.counted else None, has_more)


def _prepared(
    action: PageAction, queue_name: str, asked: Mapping[str, Any]
) -> Callable[[], Mapping[str, Any]]:
    """Return what does an action once, and returns the API's answer.

    Raises:
        APIException: The API refuses what is given.
    """
    from fdbqueue.api import requests
    from fdbqueue.api.viewsets import QueueViewSet

    if action.work is not None:
        work = functools.partial(action.work, asked)
        return lambda: {"": work()}
    declared, item_id, reason = _declared(action), asked["id"], asked["reason"]
    body = {**action.body(item_id), **({"reason": reason} if reason else {})}
    place = {"name": queue_name, **({"id": item_id} if "id" in declared.places else {})}
    checked = requests.checked(declared.body, body) if declared.body is not None else {}
    serve = getattr(QueueViewSet, action.name).__wrapped__
    return lambda: serve(QueueViewSet(), {**checked}, **place)


def _declared(action: PageAction) -> Any:
    """Return what is declared of an action in the API."""
    from fdbqueue.api.actions import declaration
    from fdbqueue.api.viewsets import QueueViewSet

    return declaration(QueueViewSet, action.name)


def _noted(catalog: Catalog, user: Any, once: str) -> bool:
    """Note the id of a form; tell whether it is new."""
    call = make_call("actions", IdempotencyKey(f"page {access.identity(user)} {once}"))

    def note(tr: Any) -> bool:
        responses = catalog.responses
        if responses.recall(list(responses.begin_recall(tr, call)), call) is not None:
            return False
        responses.save(tr, call, b"")
        return True

    return run(catalog.database, note)


def told(action: PageAction, outcome: Outcome, queue_name: str) -> str:
    """Return the message after an action."""
    if outcome.is_repeated:
        return str(_("This form was sent before, so nothing was done now."))
    if outcome.number is None:
        return str(action.told) % {"queue": queue_name}
    said = action.told % {"count": outcome.number, "number": grouped(outcome.number)}
    more = _("There are more: continue if you wish.")
    return f"{said} {more}" if outcome.has_more else str(said)


def tell(request: HttpRequest, text: str) -> bool:
    """Keep a message for the next page; return False if the project has no messages."""
    if not hasattr(request, "_messages"):
        return False
    messages.success(request, text)
    return True
