"""Pages across the queues of tasks: how the functions run, and what the schedules enqueue.

Both show only what is of queues that the user may view, and what they read is bounded: the counters
(:mod:`fdbqueue.tasks.function_counters`) of up to 1,000 queues, and the states of up to 500
schedules with their latest tasks. The pages of all queues name them by :func:`more_pages`.

No code of a task is imported. So the queue of a schedule is known if its option names one, if this
process has imported the task, or from its latest task. A schedule without one is shown to
those who may view all queues of its backend.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from django.apps import apps
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from fdbqueue import conf, deadlines
from fdbqueue.columns import DURATION, Column, ValueKind, link, markup
from fdbqueue.columns.text import Moment, grouped, lasting, visible
from fdbqueue.pages.action_page import links, offers
from fdbqueue.pages.forms import search_field
from fdbqueue.pages.framing import ListView
from fdbqueue.pages.listing import (
    MAX_QUEUES_READ,
    Left,
    ListForm,
    OrderField,
    RowOrder,
    further,
    paged,
    some_of,
    tile,
)
from fdbqueue.pages.readings import MorePage
from fdbqueue.pages.sites import EVERY, Addresses, actions_are_on
from fdbqueue.pages.workers_and_failures import MAX_NAMED
from fdbqueue.service import Catalog, now_us, run
from fdbqueue.tasks.backend import FdbQueueBackend
from fdbqueue.tasks.checks import OUTBOX_APP
from fdbqueue.tasks.columns import moment, shown_path, words_of
from fdbqueue.tasks.compat import Task, TaskResultStatus, backends
from fdbqueue.tasks.function_counters import FunctionCounters, FunctionRow, FunctionRows
from fdbqueue.tasks.key_limit_queues import names_begin
from fdbqueue.tasks.records import Records
from fdbqueue.tasks.results import imported
from fdbqueue.tasks.schedules import (
    Every,
    Schedule,
    ScheduleState,
    held_in,
    held_key_of,
    key_of,
    schedules_of,
    state_in,
)
from fdbqueue.tasks.states import DONE, TaskState

#: So many counters of each length of slots are read for the page of functions, and so many
#: schedules.
MAX_COUNTERS = 8_000
MAX_SCHEDULES = 500
#: Of a queue's index of failed tasks a page reads so many rows.
MAX_FAILED = 200
#: The longest path that the page of a queue takes as a filter.
_MAX_PATH = 200
#: A duration among figures.
_TOOK = replace(DURATION, is_number=True)


class FunctionsForm(ListForm):
    """Which functions to show."""

    function = search_field(_("Function contains"), max_length=_MAX_PATH)
    sort = OrderField(
        RowOrder(
            "failures",
            _("Most failures in the last hour"),
            lambda row: (-row.hour.failures, row.path),
        ),
        RowOrder("runs", _("Most runs in the last hour"), lambda row: (-row.hour.runs, row.path)),
        RowOrder(
            "slowest",
            _("Slowest in the last hour"),
            lambda row: (-(row.hour.percentile or 0.0), row.path),
        ),
        RowOrder(
            "time",
            _("Most time in the last day"),
            lambda row: (-row.day.runs * (row.day.mean or 0.0), row.path),
        ),
        RowOrder("function", _("Function"), attrgetter("path")),
    )

    defaults: Mapping[str, str] = {"refresh": "30", "sort": "failures", "page": "1"}
    shown = ("function", "sort")


class SchedulesForm(ListForm):
    """Which schedules to show."""

    schedule = search_field(_("Schedule or function contains"), max_length=_MAX_PATH)
    sort = OrderField(
        RowOrder(
            "next", _("Next first"), lambda row: (row.next is None, row.next, row.schedule.name)
        ),
        RowOrder("name", _("Schedule"), lambda row: (row.schedule.name, row.backend.alias)),
    )

    defaults: Mapping[str, str] = {"refresh": "5", "sort": "next", "page": "1"}
    shown = ("schedule", "sort")


def _path_of(path: str) -> SafeString:
    return markup.breakable(shown_path(path))


# Functions


class FunctionsView(ListView):
    """How the functions of tasks ran, in all queues of tasks."""

    view, title, template = "functions", _("Functions"), "tasks/functions.html"
    form = FunctionsForm

    def rows(self, form: FunctionsForm) -> dict[str, Any]:
        """Return the functions and their figures."""
        after = form.cleaned_data["after"]
        each = self.catalog().each_name(after=after)
        names, following = deadlines.next_names(each, MAX_QUEUES_READ, is_of_tasks())
        catalog = self.catalog()
        homes = dict.fromkeys(map(catalog.home, names))  # limited tasks count for their queue
        found = read_functions(catalog, [*homes])
        rows = form.chosen(found.rows, attrgetter("path"))
        runs = sum(row.hour.runs for row in rows)
        failures = sum(row.hour.failures for row in rows)
        more = len(found.left_out) - MAX_NAMED
        by_failures = form.address(sort="failures")
        return {
            **paged(form, FunctionTasks(form, self.addresses, self.catalog()).columns(), rows),
            "left": Left(grouped(len(rows)), "", grouped(len(names)), not found.left_out),
            "left_out": found.left_out[:MAX_NAMED],
            "more_left_out": grouped(more) if more > 0 else "",
            **further(form, following),
            "hour_since": found.hour_since,
            "day_since": found.day_since,
            "tiles": [
                tile("functions", _("Functions"), len(rows), form.address(sort="function")),
                tile("runs", _("Runs, hour"), runs, form.address(sort="runs")),
                tile(
                    "failures", _("Failed, hour"), failures, by_failures, "bad" if failures else ""
                ),
            ],
        }


def is_of_tasks() -> Callable[[str], bool]:
    """Return what tells whether a queue is one of tasks, by its name."""
    known, catalog = backends(), conf.catalog()
    prefixes = tuple(backend.queue_prefix for backend in known)

    def tell(name: str) -> bool:
        home = catalog.home(name)
        return home.startswith(prefixes) and any(backend.owns(home) for backend in known)

    return tell


def read_functions(catalog: Any, names: Sequence[str]) -> FunctionRows:
    """Read the figures of the functions in some queues, in one transaction."""
    counters, now = FunctionCounters(conf.prefix()), now_us()  # all backends have the same

    def read(tr: Any) -> FunctionRows:
        return counters.read(tr, names, now, MAX_COUNTERS)

    return run(catalog.database, read, read_only=True)


class FunctionTasks:
    """Says how functions ran, and leads to their tasks.

    A failed attempt is not always a failed task. So of each queue that a link leads to the index of
    failed tasks is read once, up to a bound.

    Args:
        form: That of the page.
        addresses: Those of the site.
        catalog: Where the queues are.
    """

    def __init__(self, form: FunctionsForm, addresses: Addresses, catalog: Catalog) -> None:
        self._form = form
        self._addresses = addresses
        self._catalog = catalog
        self._records = Records(conf.prefix())
        self._failed_in = functools.cache(self._read_failed)
        self._limited = functools.cache(self._look_for_limited)

    def columns(self) -> tuple[Column[FunctionRow], ...]:
        """Return the figures of a function."""
        return (
            Column("function", _("Function"), self._function),
            *self._figures(
                "hour",
                _("Runs, hour"),
                _("Failed, hour"),
                _("Mean, hour"),
                _("95 %, hour"),
                _("Wait 95 %, hour"),
            ),
            *self._figures(
                "day",
                _("Runs, day"),
                _("Failed, day"),
                _("Mean, day"),
                _("95 %, day"),
                _("Wait 95 %, day"),
            ),
            Column("queues", _("Ended in"), self._queues),
        )

    def _figures(
        self, time: str, runs: Any, failures: Any, mean: Any, percentile: Any, waited: Any
    ) -> Iterator[Column[FunctionRow]]:
        """Yield the columns of a length of time, with their headings."""
        for what, heading in (("runs", runs), ("failures", failures)):
            count = functools.partial(self._count, time=time, what=what)
            yield Column(f"{time}_{what}", heading, count, ValueKind(is_number=True))
        for what, heading in (("mean", mean), ("percentile", percentile), ("waited", waited)):
            is_minor = time == "day" or what == "mean"
            value = attrgetter(f"{time}.{what}")
            yield Column(f"{time}_{what}", heading, value, _TOOK, is_minor=is_minor)

    def _function(self, row: FunctionRow) -> Any:
        """Return the name of a function as a link: to its tasks, if these are in one queue."""
        if not row.path:
            return _("Unknown to its worker")
        address = self._form.address(function=row.path[:_MAX_PATH])
        if len(row.queues) == 1:
            address = self._address(row, row.queues[0])
        return format_html('<a href="{}">{}</a>', address, _path_of(row.path))

    def _count(self, row: FunctionRow, time: str, what: str) -> SafeString | str:
        """Return a count, as a link if the function ran from one queue.

        Of more queues no list has all that a number counts: the names of these lead there. Failures
        lead to the tasks that are tried again, or were, if none has failed for good.
        """
        number = attrgetter(f"{time}.{what}")(row)
        text = grouped(number)
        if not number or len(row.queues) != 1 or not 0 < len(row.path) <= _MAX_PATH:
            return text
        address = self._address(row, row.queues[0], is_failure=what == "failures")
        return format_html('<a href="{}">{}</a>', address, text)

    def _queues(self, row: FunctionRow) -> SafeString:
        """Return links to the tasks of a function that ended in its queues."""
        shown = '<a href="{0}" title="{1}">{1}</a>'
        names = row.queues[:MAX_NAMED]
        links = [format_html(shown, self._address(row, name), name) for name in names]
        return some_of(links, len(row.queues))

    def _address(self, row: FunctionRow, name: str, *, is_failure: bool = False) -> str:
        """Return the address of a function's tasks in a queue: those that failed, or most of them.

        Those of limited tasks that have failed are in the queues of their keys.
        """
        state = self._state(row, name, is_failure=is_failure)
        limited = self._limited(name, row.path) if state == "dead" else None
        if limited is not None:
            return self._addresses.queues(name=f"{limited}*")
        path = row.path if len(row.path) <= _MAX_PATH else ""
        return self._addresses.queue(name, state=state, function=path)

    def _state(self, row: FunctionRow, name: str, *, is_failure: bool) -> str:
        has_only_failed = row.day.runs == row.day.failures
        if not is_failure and not has_only_failed:
            return DONE
        failed = self._failed_in(name)
        if failed is None or row.path in failed:
            return "dead"
        return "delayed" if has_only_failed else DONE

    def _look_for_limited(self, name: str, path: str) -> str | None:
        """Return how the names of the queues of a function's limited tasks begin, None for none."""
        start = names_begin(name, path)
        if deadlines.is_half_over():
            return None
        return start if any(True for _ in self._catalog.each_name(start=start)) else None

    def _read_failed(self, name: str) -> set[str] | None:
        """Return the functions of all failed tasks of a queue, None if these are too many.

        A task that died with its worker is not in the index: the queue counts it.
        """
        if deadlines.is_half_over():
            return None

        def read(tr: Any) -> set[str] | None:
            counts = self._catalog.queue(name).overview.begin_counts(tr)
            status = TaskResultStatus.FAILED.value
            found = list(self._records.ended(tr.snapshot, name, status, limit=MAX_FAILED + 1))
            is_all = counts().dead <= len(found) <= MAX_FAILED
            return {entry.task for entry in found} if is_all else None

        return run(self._catalog.database, read, read_only=True)


# Schedules


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule of a backend, and what is stored of it.

    Attributes:
        backend: The backend.
        schedule: The schedule.
        state: What the workers know of it.
        next: When it is due next; None for never.
        queue: The name of its queue; None if that is not known here.
        task: Its latest task; None if nothing is known of it.
        held: Since when it is held; None if it is not.
    """

    backend: FdbQueueBackend
    schedule: Schedule
    state: ScheduleState
    next: datetime.datetime | None
    queue: str | None
    task: TaskState | None
    held: datetime.datetime | None = None

    @property
    def latest(self) -> datetime.datetime | None:
        """The latest slot for which a task was enqueued."""
        return moment(self.state.slot) if self.state.slot else None


def _times(schedule: Schedule) -> str:
    times = schedule.times
    if isinstance(times, Every):
        return gettext("every %(time)s") % {"time": lasting(times.seconds)}
    return times.text


class SchedulesView(ListView):
    """What the schedules of all backends enqueue."""

    view, title, template = "schedules", _("Schedules"), "tasks/schedules.html"
    form = SchedulesForm

    def rows(self, form: SchedulesForm) -> dict[str, Any]:
        """Return the schedules, and what is stored of each."""
        found, is_all = read_schedules(self.catalog())
        rows = form.chosen(found, lambda row: f"{row.schedule.name}\n{row.schedule.task}")
        addresses = self.addresses

        def name_of(row: ScheduleRow) -> SafeString:
            name, path = markup.text(visible(row.schedule.name)), row.schedule.task
            if row.queue is None or len(path) > _MAX_PATH:
                return name
            address = addresses.queue(row.queue, state=DONE, function=path)
            return format_html('<a href="{}">{}</a>', address, name)

        def task_of(row: ScheduleRow) -> SafeString | None:
            slot = None if row.latest is None else markup.age(Moment.since(row.latest))
            task = row.task
            if task is None:
                return slot
            address = addresses.task(task.queue, task.id)
            shown = format_html('<a href="{}">{}</a>', address, words_of(task))
            return shown if slot is None else format_html("{}, {}", shown, slot)

        def queue_of(row: ScheduleRow) -> SafeString | None:
            if row.queue is None:
                return None
            element_id = f"queue-{row.backend.alias}-{row.queue}"
            return link(element_id, addresses.queue(row.queue), row.queue)

        def acts_of(row: ScheduleRow) -> SafeString | None:
            names = ("run-schedule", "hold-schedule" if row.held is None else "go-on-schedule")
            one = f"{row.backend.alias}/{row.schedule.name}"
            offered = offers(self.request.user, addresses, row.queue or EVERY, *names, id=one)
            return links(offered, f"schedule-{rows.index(row)}", row.schedule.name)

        def next_of(row: ScheduleRow) -> SafeString | None:
            if row.held is not None:
                return format_html(gettext("Held {}"), markup.age(Moment.since(row.held)))
            return None if row.next is None else markup.age(Moment.until(row.next))

        acts = Column("acts", _("Actions"), acts_of)

        columns: tuple[Column[ScheduleRow], ...] = (
            Column("schedule", _("Schedule"), name_of),
            *([acts] if actions_are_on() else []),
            Column("function", _("Function"), lambda row: _path_of(row.schedule.task)),
            Column("times", _("Times"), lambda row: _times(row.schedule)),
            Column("next", _("Next"), next_of),
            Column("task", _("Latest task"), task_of),
            Column("queue", _("Queue"), queue_of),
        )
        return {
            **paged(form, columns, rows),
            "left": Left(grouped(len(rows)), "", "", is_all),
            "tiles": [tile("schedules", _("Schedules"), len(rows), form.address(schedule=None))],
        }


def read_schedules(catalog: Catalog) -> tuple[list[ScheduleRow], bool]:
    """Read the schedules, in one transaction; tell whether these are all."""
    every = [(backend, one) for backend in backends() for one in schedules_of(backend)]

    def read(tr: Any) -> tuple[list[ScheduleRow], bool]:
        rows: list[ScheduleRow] = []
        some = every[:MAX_SCHEDULES]
        begun = [_begin_state(tr, *one) for one in some]
        for one, reads in zip(some, begun, strict=True):
            if deadlines.is_half_over():
                return rows, False
            rows.append(_schedule_row(tr, *one, *reads))
        return rows, len(rows) == len(every)

    return run(catalog.database, read, read_only=True)


def read_schedule(backend: FdbQueueBackend, schedule: Schedule) -> ScheduleRow:
    """Read what is stored of a schedule."""

    def read(tr: Any) -> ScheduleRow:
        return _schedule_row(tr, backend, schedule, *_begin_state(tr, backend, schedule))

    return run(backend.catalog.database, read, read_only=True)


def _begin_state(tr: Any, backend: FdbQueueBackend, schedule: Schedule) -> tuple[Any, Any]:
    """Begin to read the state of a schedule, and since when it is held."""
    keys = key_of(backend, schedule), held_key_of(backend, schedule)
    return tr.snapshot[keys[0]], tr.snapshot[keys[1]]


def _schedule_row(
    tr: Any, backend: FdbQueueBackend, schedule: Schedule, state_row: Any, held_row: Any
) -> ScheduleRow:
    """Read the latest task of a schedule, which tells the queue if that is not known yet."""
    state, held = state_in(state_row), moment(held_in(held_row))
    queue = _queue_of(backend, schedule)
    due = schedule.times.following(now_us())
    found = backend.found(state.last, tr) if state.last else None
    if queue is None and found is not None:
        queue = backend.catalog.home(found.queue)
    return ScheduleRow(backend, schedule, state, moment(due), queue, found, held)


def _queue_of(backend: FdbQueueBackend, schedule: Schedule) -> str | None:
    """Return the name of a schedule's queue, None if it is not known without the task's code."""
    name = schedule.changes.get("queue_name")
    if name is None:
        task = imported(schedule.task)
        name = task.queue_name if isinstance(task, Task) else None
    return None if name is None else backend.queue_prefix + name


def more_pages() -> list[MorePage]:
    """Return the pages that are shown beside the list of queues."""
    pages = [
        MorePage("functions", _("Functions"), FunctionsView),
        MorePage("schedules", _("Schedules"), SchedulesView),
    ]
    if apps.is_installed(OUTBOX_APP):
        from fdbqueue.tasks.pages.outbox import OutboxView, trouble

        pages.append(MorePage("outbox", _("Outbox"), OutboxView, has_outbox, trouble))
    return pages


def has_outbox() -> bool:
    """Tell whether a backend has an outbox."""
    return any(one.settings.outbox is not None for one in backends())
