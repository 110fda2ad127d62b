"""What the items of a queue are to readers: items, or what another app says that they are.

An app that gives the items of some queues a meaning names in its ``AppConfig`` what finds the
:class:`Reading` of these: ``fdbqueue_reading`` is the dotted path of a function. It is called with
the name of a queue, for each page of it, and returns its reading, None for a queue that is not the
app's; so it must not read anything of the queue. All other queues have :data:`ITEMS`. This package
knows none of these apps, and imports what they name only when a page is shown.

An app that has pages of its own beside the list of queues names ``fdbqueue_pages``: a function that
returns the :class:`MorePage` of each.

An app whose tasks have ids of their own names ``fdbqueue_find_task``, too: a function that returns
the :class:`TaskPlace` of the task that an id names, None if there is none. It is called with a
catalog and the id.

The database of a queue or a catalog that is given has the time limit of the page: read in no other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.apps import apps
from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.module_loading import import_string

from fdbqueue.columns import STATES
from fdbqueue.columns.items import FACTS, ItemColumn
from fdbqueue.pages.forms import ItemsForm, items_form
from fdbqueue.pages.item_columns import COLUMNS
from fdbqueue.pages.search import contains, died_of, reason_contains, worker_contains
from fdbqueue.pages.sites import Addresses
from fdbqueue.service import Catalog, Item, Queue, Scan


class Setting(NamedTuple):
    """How a queue is set up.

    Attributes:
        label: What it is called.
        value: What it is.
        is_code: Whether the value is written for programs.
        meaning: What it does, as a sentence.
    """

    label: str | Promise
    value: str | Promise
    is_code: bool = False
    meaning: str | Promise = ""


class OtherTabs(NamedTuple):
    """The facts of the tabs that are no state.

    Attributes:
        counts: How many items each has, by its name; empty if that is not known.
        today: The figures of today: the name of the tab, what it is called, and the number.
        at_home: What chooses the items of a part of another queue among those of that.
    """

    counts: Mapping[str, str] = {}
    today: tuple[tuple[str, str | Promise, str], ...] = ()
    at_home: Mapping[str, str] = {}


class MorePage(NamedTuple):
    """A page across queues that an app has.

    Attributes:
        name: Names it in its address and in the name of its URL.
        title: What it is called.
        view: A subclass of :class:`fdbqueue.pages.framing.PageView`.
        is_used: Tells whether to lead to it.
        trouble: Says what there needs attention; empty for nothing.
    """

    name: str
    title: str | Promise
    view: type[Any]
    is_used: Callable[[], bool] = lambda: True
    trouble: Callable[[], str] = lambda: ""


def _matching(queue: Queue, form: ItemsForm) -> Callable[[Item], bool] | None:
    wanted, tests = form.cleaned_data, []
    if wanted["group"]:
        tests.append(died_of(wanted["group"]))
    if wanted["reason"]:
        tests.append(reason_contains(wanted["reason"]))
    if wanted["worker"]:
        tests.append(worker_contains(wanted["worker"]))
    if wanted["q"]:
        tests.append(contains(wanted["q"], queue.codec))
    if not tests:
        return None
    return lambda item: all(test(item) for test in tests)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the pages show a queue.

    Attributes:
        template: The template of the queue's page, in ``templates/fdbqueue/``.
        form: Makes the form of the queue's page from the parameters of a request.
        tabs: What the tabs of the queue's page are called: those of the states of items, and
            those of ``scans``.
        columns: The columns of the items.
        facts: The facts on the page of one item.
        settings: Returns how the queue is set up; None for its options.
        has_priorities: Whether the page shows how many items have which priority.
        reason_field: The field of the form that chooses the dead letters of one reason; empty
            if there is none.
        matching: Returns what tells whether an item is one that the form asks for, None if
            all are.
        scans: What finds the items of a tab that is no state, in place of
            :func:`~fdbqueue.service.scan`: called with the queue, what tells whether an item
            matches, and ``tr``, ``most_found``, ``most_looked_at``, ``after``, ``is_backward`` and
            ``is_late``.
        begin_others: Begins to read in a transaction what is said of the tabs that are no state;
            what it returns returns that.
        opened: Returns the form of the tab that the page shows, from the form and the names of the
            tabs that have anything: another one if the reader has asked for none.
        begin_notes: Begins to read in a transaction what columns show of an item besides the
            item; what it returns returns that. None if columns show nothing else.
        task: Reads what the page of one task shows: called with the queue, the id and the
            addresses, it returns the context, and the name of the template; None if there is no
            such task. None if items are no tasks.
        task_named: Returns the id of the task that an item is, and what to call it; None if it is
            none that has a page.
    """

    template: str = "queue.html"
    form: Callable[[Queue, QueryDict], ItemsForm] = items_form
    tabs: tuple[tuple[str, str | Promise], ...] = STATES
    columns: tuple[ItemColumn, ...] = COLUMNS
    facts: tuple[ItemColumn, ...] = FACTS
    settings: Callable[[Queue], list[Setting]] | None = None
    has_priorities: bool = True
    reason_field: str = "group"
    matching: Callable[[Queue, ItemsForm], Callable[[Item], bool] | None] = _matching
    scans: Mapping[str, Callable[..., Scan]] = field(default_factory=dict)
    begin_others: Callable[[Queue, Any], Callable[[], OtherTabs]] = lambda *_: OtherTabs
    opened: Callable[[ItemsForm, Collection[str]], ItemsForm] = lambda form, _tabs: form
    begin_notes: Callable[[Queue, Item, Any], Callable[[], Any]] | None = None
    task: Callable[[Queue, str, Addresses], dict[str, Any] | None] | None = None
    task_named: Callable[[Item], tuple[str, str] | None] = lambda _item: None


#: The reading of every queue that no app has another one for.
ITEMS = Reading()


def reading_of(queue: Queue) -> Reading:
    """Return the reading of a queue."""
    for app in apps.get_app_configs():
        path = getattr(app, "fdbqueue_reading", None)
        reading: Reading | None = import_string(path)(queue.name) if path else None
        if reading is not None:
            return reading
    return ITEMS


def more_pages() -> list[MorePage]:
    """Return the pages across queues of all apps."""
    paths = (getattr(app, "fdbqueue_pages", None) for app in apps.get_app_configs())
    return [page for path in paths if path for page in import_string(path)()]


class TaskPlace(NamedTuple):
    """Where the page of a task, or of several as one, is: the name of a queue, and its id there."""

    queue: str
    id: str


def find_task(catalog: Catalog, sought: str) -> TaskPlace | None:
    """Return where the task is that an id names, None if no app has one."""
    for app in apps.get_app_configs():
        path = getattr(app, "fdbqueue_find_task", None)
        place: TaskPlace | None = import_string(path)(catalog, sought) if path else None
        if place is not None:
            return place
    return None
