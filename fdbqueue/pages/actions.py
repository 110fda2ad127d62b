"""The actions of the pages: what each is called, and what it does to which bound.

:mod:`fdbqueue.pages.action_page` says how a form comes to do one. An app names actions of its own
by ``fdbqueue_actions``: the dotted path of a table like :data:`ACTIONS`.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.utils.functional import Promise
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from fdbqueue import verbs
from fdbqueue.exceptions import ItemNotFound
from fdbqueue.service import (
    MAX_ITEMS_A_CALL,
    DeadReason,
    Family,
    Queue,
    SeveralQueues,
    group_digest,
    moment,
)
from fdbqueue.verbs import Outcome

#: How many items one request handles at most.
MAX_AT_ONCE = 10_000
#: What stands for the items of a whole list, and for the dead letters of every reason.
ALL = "all"


#: What an action is done to.
Of = Queue | Family | SeveralQueues


def _no_bound(_of: Any, _id: str) -> dict[str, Any]:
    return {}


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
        takes: Which parameters it is asked with: the items (``id``), all of a list (``dead`` or
            ``all``) or of a ``worker``, what the reader types or ticks, how much of it is done
            already (``at``), which task was the ``latest``.
        state: The state that items must be in, and by whose moments it is bound; empty for any.
        title_of_some: As ``title``, for items that are named; empty for the same.
        told_nothing: The message if there was nothing to do; empty for the same.
        chosen: What is said before an id, unless that is an item's.
        of_task: Whether its ``id`` is that of a task of the queue.
        of_all: Whether it may be done to all queues at once.
        queues: Other queues that the user must be allowed to do it to, by the ``id``.
        bound: Returns what the address of its form has besides, by what it is done to and the
            ``id``; raises ItemNotFound if that is not there.
    """

    name: str
    verb: str | Promise
    title: str | Promise
    means: str | Promise
    told: Any
    work: Callable[[Any, Mapping[str, Any], Outcome], None]
    takes: tuple[str, ...] = ()
    state: str = ""
    title_of_some: str | Promise = ""
    told_nothing: str | Promise = ""
    chosen: str | Promise = ""
    of_task: bool = False
    of_all: bool = False
    queues: Callable[[str], Sequence[str]] = lambda _id: ()
    bound: Callable[[Any, str], Mapping[str, Any]] = _no_bound

    @property
    def of_list(self) -> str:
        """The parameter that stands for all items of a list; empty if it takes none."""
        return next((one for one in ("dead", "all") if one in self.takes), "")


# What actions do


def _pause(of: Queue | Family, asked: Mapping[str, Any], outcome: Outcome) -> None:
    of.pause(reason=asked["reason"] or None)
    outcome.add(1)


def _resume(of: Queue | Family, _asked: Mapping[str, Any], outcome: Outcome) -> None:
    outcome.add(of.resume())


def _each(work: Callable[[str], None], ids: Sequence[str], outcome: Outcome) -> None:
    """Do work to items, one after another; those that are not there any more are passed over.

    Raises:
        ItemNotFound: None of them is there.
    """
    for one in ids:
        with contextlib.suppress(ItemNotFound):
            work(one)
            outcome.add(1)
    if not outcome.number:
        work(ids[0])  # which says what is wrong


def _remove(queue: Queue, asked: Mapping[str, Any], outcome: Outcome) -> None:
    _each(functools.partial(verbs.remove, queue), asked["id"], outcome)


def _bury(queue: Queue, asked: Mapping[str, Any], outcome: Outcome) -> None:
    bury = functools.partial(verbs.bury, queue, reason=asked["reason"] or "buried")
    _each(bury, asked["id"], outcome)


def _some(verb: Callable[..., None]) -> Callable[[Any, Mapping[str, Any], Outcome], None]:
    """Return what does a verb to the items of a bound; what is left in the end is the rest."""

    def work(of: Queue | SeveralQueues, asked: Mapping[str, Any], outcome: Outcome) -> None:
        bound: dict[str, Any] = {"before": moment(asked["before"])}
        if asked.get("worker"):
            bound["worker"] = asked["worker"]
        if asked.get("unspent"):
            bound["spend"] = False
        if asked.get("id"):
            verb(of, outcome, ids=asked["id"], **bound)
            outcome.undecodable.clear()  # they are ready nevertheless
            return
        if isinstance(of, Queue) and asked.get("dead", ALL) != ALL:
            group = group_of(of, asked["dead"])
            if group is None:
                return
            bound["reason"] = outcome.facts["reason"] = group.reason
        verb(of, outcome, limit=min(asked["most"], MAX_AT_ONCE), **bound)
        left = asked["most"] - outcome.number
        outcome.rest = {"most": left} if outcome.has_more and left else {}

    return work


def group_of(queue: Queue, digest: str, tr: Any = None) -> DeadReason | None:
    """Return the reason that a digest stands for, None if no dead letter has it."""
    found = queue.dead_by_reason(limit=MAX_ITEMS_A_CALL, tr=tr)
    return next((one for one in found if group_digest(one.reason) == digest), None)


#: The actions, by their names.
ACTIONS: dict[str, PageAction] = {
    one.name: one
    for one in (
        PageAction(
            "pause",
            _("Pause"),
            _("Pause %(queue)s"),
            _("Pops and leases find nothing until it is resumed. Pushes go on."),
            _("Paused: %(queue)s"),
            _pause,
            takes=("reason",),
        ),
        PageAction(
            "resume",
            _("Resume"),
            _("Resume %(queue)s"),
            _("Pops and leases take items again."),
            _("Resumed: %(queue)s"),
            _resume,
            told_nothing=_("It was not paused: %(queue)s"),
        ),
        PageAction(
            "redrive",
            _("Redrive"),
            _("Redrive dead letters of %(queue)s"),
            _("They become ready again, as if they had never been tried."),
            ngettext_lazy(
                "%(number)s item was redriven.", "%(number)s items were redriven.", "count"
            ),
            _some(verbs.redrive),
            takes=("id", "dead"),
            state="dead",
            title_of_some=_("Redrive an item of %(queue)s"),
        ),
        PageAction(
            "purge",
            _("Remove"),
            _("Remove dead letters of %(queue)s"),
            _("They are removed for good; nothing brings them back."),
            ngettext_lazy(
                "%(number)s item was removed.", "%(number)s items were removed.", "count"
            ),
            _some(verbs.purge),
            takes=("dead",),
            state="dead",
        ),
        PageAction(
            "remove",
            _("Remove"),
            _("Remove items of %(queue)s"),
            _("What is removed is gone for good, whatever its state; nothing brings it back."),
            ngettext_lazy("The item was removed.", "%(number)s items were removed.", "count"),
            _remove,
            takes=("id",),
            title_of_some=_("Remove an item of %(queue)s"),
        ),
        PageAction(
            "bury",
            _("Make it a dead letter"),
            _("Make items of %(queue)s dead letters"),
            _("A dead letter keeps its bytes, is not popped any more, and can be redriven later."),
            ngettext_lazy(
                "The item is a dead letter now.", "%(number)s items are dead letters now.", "count"
            ),
            _bury,
            takes=("id", "reason"),
            title_of_some=_("Make an item of %(queue)s a dead letter"),
        ),
        PageAction(
            "give-back",
            _("Give back"),
            _("Give back leased items of %(queue)s"),
            _(
                "They return to their places now, and others can take them. A worker that lives "
                "loses its leases: what it does is then done twice."
            ),
            ngettext_lazy(
                "%(number)s item was given back.", "%(number)s items were given back.", "count"
            ),
            _some(verbs.give_back),
            takes=("id", "all", "worker", "unspent"),
            state="leased",
            title_of_some=_("Give back a leased item of %(queue)s"),
            of_all=True,
        ),
        PageAction(
            "run-now",
            _("Run now"),
            _("Run delayed items of %(queue)s now"),
            _("They become ready before their time, and keep their attempts. Limits hold."),
            ngettext_lazy(
                "%(number)s item is ready now.", "%(number)s items are ready now.", "count"
            ),
            _some(verbs.run_now),
            takes=("id", "all"),
            state="delayed",
            title_of_some=_("Run a delayed item of %(queue)s now"),
        ),
    )
}
#: The actions that take nothing but the ids of items.
OF_ITEMS = frozenset({"remove", "bury"})
#: The actions on items in a state, in their order.
_OF_STATE = {
    "ready": ("bury", "remove"),
    "leased": ("give-back", "remove"),
    "delayed": ("run-now", "remove"),
    "dead": ("redrive", "remove"),
}


def acts_in(state: str, *, of_tasks: bool) -> list[str]:
    """Return the names of the actions on items in a state; a task is never removed or buried."""
    return [one for one in _OF_STATE.get(state, ()) if not (of_tasks and one in OF_ITEMS)]


def action_named(name: str) -> PageAction | None:
    """Return an action of this package, or of an app that names its own: ``fdbqueue_actions``."""
    paths = (getattr(app, "fdbqueue_actions", None) for app in apps.get_app_configs())
    known = itertools.chain([ACTIONS], (import_string(path) for path in paths if path))
    return next((one[name] for one in known if name in one), None)
