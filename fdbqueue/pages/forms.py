"""The query parameters of the pages, each of them checked; one says how often a page refreshes.

To refresh itself, a page lets htmx ask for its live part every few seconds. django-htmx ships the
script. Without it among the installed apps, or without JavaScript, a page shows the same and has a
link to refresh it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.apps import apps
from django.http import HttpRequest, QueryDict
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from fdbqueue.columns import STATES
from fdbqueue.service import MAX_INTEGER, MIN_INTEGER, PriorityQueue, Queue

#: Tells the script that a response is the live part; a login page does not have it.
LIVE_HEADER = "X-Fdbqueue-Live"
#: The choices of how often a page refreshes itself, in seconds; 0 is never.
INTERVALS = (0, 2, 5, 30)

#: The orders of time: of leased items by the ends of their leases, of delayed ones by those of
#: their delays, and of dead letters by their deaths, the newest first.
BY_MOMENT, BY_DEATH = "until", "died"
_BY_TIME = frozenset({BY_MOMENT, BY_DEATH})
_MOMENTS: dict[str | None, list[tuple[str, Any]]] = {
    "leased": [(BY_MOMENT, _("Lease ends first"))],
    "delayed": [(BY_MOMENT, _("Due first"))],
    "dead": [(BY_DEATH, _("Newest failure first"))],
}

_PRIORITIES = ("min_priority", "max_priority")
#: The rows of a page, if its form does not say another number.
ROWS_PER_PAGE = 50
_MAX_TEXT = 200
_MAX_CURSOR = 14_000
_FIRST, _LAST = 1, 10**15

#: Django's own message repeats the parameter, which may be anything.
CHOICE_ERRORS = {"invalid_choice": _("This is not one of the choices.")}


def _hidden(choices: Any) -> forms.ChoiceField:
    return forms.ChoiceField(
        choices=choices, widget=forms.HiddenInput, error_messages=CHOICE_ERRORS
    )


def search_field(label: Any, *, max_length: int, strip: bool = True) -> forms.CharField:
    """Return the field of a text to look for, which may be empty."""
    return forms.CharField(
        label=label,
        required=False,
        strip=strip,
        max_length=max_length,
        widget=forms.TextInput(attrs={"type": "search"}),
    )


class PageForm(forms.Form):
    """The parameters that all pages have; one given twice is an error, or one of other pages.

    What no page has is ignored: others add theirs to a link, such as ``utm_source``.

    Args:
        parameters: Those of the request; missing and empty ones get their defaults.
    """

    refresh = _hidden([(str(seconds), seconds) for seconds in INTERVALS])

    defaults: Mapping[str, str] = {"refresh": "5"}
    #: The fields that a reader fills in.
    shown: tuple[str, ...] = ()
    #: The fields that the form sends along, hidden.
    hidden: tuple[str, ...] = ("refresh",)
    #: How many fields are always in sight.
    most_main = 1
    #: What the page has chosen because the reader has not: a refresh keeps to that.
    opened: Mapping[str, str] = {}

    def __init__(self, parameters: QueryDict) -> None:
        given = {name: value for name, value in parameters.items() if value}
        self._repeated = [name for name, values in parameters.lists() if len(values) > 1]
        super().__init__({**self.defaults, **given}, auto_id="show-%s")

    def clean(self) -> dict[str, Any]:
        """Refuse parameters of other pages, and parameters that are given twice."""
        for name in _names_of(PageForm) & {*self.data} - {*self.fields}:
            text = _("This page has no parameter “%(name)s”.")
            self.add_error(None, text % {"name": name})
        for name in self._repeated:
            if name in self.fields:
                text = _("The parameter “%(name)s” is given more than once.")
                self.add_error(None, text % {"name": name})
        return self.cleaned_data

    def address(self, **changed: Any) -> str:
        """Return the query string of this page with parameters changed; None leaves one out."""
        names = [name for name in (*self.shown, *self.hidden) if name in self.fields]
        kept = {name: self.data[name] for name in names if self.data.get(name)}
        wanted = {**kept, **changed}
        return "?" + urlencode(
            {
                name: value
                for name, value in wanted.items()
                if value is not None and str(value) != self.defaults.get(name)
            }
        )

    def main_fields(self) -> list[forms.BoundField]:
        """Return the fields that are always in sight: the first that take a text to look for."""
        return [self[name] for name in self.shown if self._is_text(name)][: self.most_main]

    def more_fields(self) -> list[forms.BoundField]:
        """Return the fields that fold away if there is no room for them."""
        main = [field.name for field in self.main_fields()]
        return [self[name] for name in self.shown if name not in main]

    def has_more(self) -> bool:
        """Tell whether a field that folds away is filled in, or is wrong."""
        return any(
            field.errors or self.data.get(field.name, "") != self.defaults.get(field.name, "")
            for field in self.more_fields()
        )

    def _is_text(self, name: str) -> bool:
        return getattr(self.fields[name].widget, "input_type", "") == "search"

    def hidden_fields(self) -> list[forms.BoundField]:
        """Return the hidden fields that are not at their defaults."""
        names = [name for name in self.hidden if name in self.fields]
        changed = [name for name in names if self.data.get(name) != self.defaults.get(name)]
        return [self[name] for name in changed if self.data.get(name)]

    def unseen_errors(self) -> list[str]:
        """Return the errors of parameters that have no visible field."""
        return [
            str(error)
            for name in self.fields
            if name not in self.shown
            for error in self[name].errors
        ]


def _names_of(form: type[PageForm]) -> set[str]:
    """Return the names of all parameters of a form and of the forms below it."""
    below = (name for one in form.__subclasses__() for name in _names_of(one))
    return {*form.base_fields, *below}


@dataclass(frozen=True, slots=True)
class Interval:
    """A choice of how often to refresh, 0 for never, and the address that sets it."""

    seconds: int
    address: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Refresh:
    """How a page refreshes itself.

    ``seconds`` is 0 if it does not; ``intervals`` is empty if it cannot.
    """

    seconds: int
    address: str
    intervals: tuple[Interval, ...]
    #: When the page was made.
    as_of: object


def is_live_part(request: HttpRequest) -> bool:
    """Tell whether htmx requests the live part of a page only."""
    return request.headers.get("HX-Request") == "true"


def refresh_of(request: HttpRequest, form: PageForm, *, can_change: bool = True) -> Refresh:
    """Return how the page of a request refreshes itself; one that cannot change does not."""
    is_possible = can_change and apps.is_installed("django_htmx")
    chosen = int(form.cleaned_data.get("refresh") or 0) if is_possible and form.is_valid() else 0
    query = request.GET.copy()
    query.update(form.opened)
    address = f"{request.path}?{query.urlencode()}" if form.opened else request.get_full_path()
    intervals = []
    for seconds in INTERVALS if is_possible else ():
        query["refresh"] = str(seconds)
        intervals.append(Interval(seconds, "?" + query.urlencode(), seconds == chosen))
    return Refresh(chosen, address, tuple(intervals), timezone.now())


class ItemsForm(PageForm):
    """Which items of a queue to show, and the period of the charts."""

    state = _hidden(STATES)
    end = forms.ChoiceField(
        label=_("Order"),
        choices=[("min", ""), ("max", "")],
        error_messages=CHOICE_ERRORS,
    )
    q = search_field(_("Value contains"), max_length=_MAX_TEXT, strip=False)
    reason = search_field(_("Reason contains"), max_length=_MAX_TEXT, strip=False)
    group = forms.CharField(
        required=False, strip=False, max_length=_MAX_TEXT, widget=forms.HiddenInput
    )
    worker = search_field(_("Worker contains"), max_length=_MAX_TEXT, strip=False)
    limit = forms.IntegerField(label=_("Rows per page"), min_value=25, max_value=200)
    span = _hidden([("hour", "hour"), ("day", "day")])
    after = forms.CharField(
        required=False, strip=False, max_length=_MAX_CURSOR, widget=forms.HiddenInput
    )
    before = forms.CharField(
        required=False, strip=False, max_length=_MAX_CURSOR, widget=forms.HiddenInput
    )
    start = forms.IntegerField(min_value=_FIRST, max_value=_LAST, widget=forms.HiddenInput)

    defaults: Mapping[str, str] = {
        "refresh": "5",
        "state": "ready",
        "end": "min",
        "limit": str(ROWS_PER_PAGE),
        "span": "hour",
        "start": "1",
    }
    shown: tuple[str, ...] = ("end", "q", "limit")
    hidden = ("state", "group", "span", "refresh")
    #: The orders by place, and what they are called.
    ends: tuple[tuple[str, Any], ...] = (("min", _("Oldest first")), ("max", _("Newest first")))
    #: The fields that make the page search.
    searches: tuple[str, ...] = ("q", "reason", "group", "worker")
    #: The fields that only dead letters are chosen by.
    of_dead: tuple[str, ...] = ("reason", "group")

    def __init__(self, parameters: QueryDict) -> None:
        if "refresh" not in parameters and self.is_search(parameters):
            self.defaults = {**self.defaults, "refresh": "0"}  # a search reads for seconds
        state = parameters.get("state")
        has_bounds = any(parameters.get(name) for name in _PRIORITIES)
        by_time = _MOMENTS.get(state, [])
        if by_time and state != "leased" and not has_bounds:  # there delayed ones are passed
            self.defaults = {**self.defaults, "end": by_time[0][0]}
        super().__init__(parameters)
        order = self.fields["end"]
        assert isinstance(order, forms.ChoiceField)
        order.choices = [*self.ends, *by_time]
        if self.data.get("end") in _BY_TIME:
            order.error_messages["invalid_choice"] = _("Items in this state have no such order.")
        chosen = self.data.get("state")
        self.shown = self.shown_in(chosen)
        if chosen == "leased" or (chosen == "dead" and self.of_dead):
            self.most_main += 1

    def filters_of(self, state: Any) -> tuple[str, ...]:
        """Return the fields that only the items of a state are chosen by."""
        return {"dead": self.of_dead[:1], "leased": ("worker",)}.get(state, ())

    def shown_in(self, state: Any) -> tuple[str, ...]:
        """Return the fields that a reader fills in to choose among the items of a state."""
        *others, last = type(self).shown
        return (*others, *self.filters_of(state), last)

    def is_search(self, parameters: QueryDict) -> bool:
        """Tell whether the page searches, instead of listing what comes first."""
        return any(parameters.get(name) for name in self.searches)

    def clean(self) -> dict[str, Any]:
        """Refuse a range that ends before it begins or has no order, and what else cannot be."""
        super().clean()
        wanted = self.cleaned_data
        if wanted.get("state") != "dead" and any(wanted.get(name) for name in self.of_dead):
            self.add_error(None, _("Only dead letters have a reason."))
        if wanted.get("state") != "leased" and wanted.get("worker"):
            self.add_error(None, _("Only leased items have a worker."))
        low, high = (self.cleaned_data.get(name) for name in _PRIORITIES)
        if low is not None and high is not None and low > high:
            self.add_error("min_priority", _("The lowest priority must not be above the highest."))
        is_by_time = wanted.get("end") in _BY_TIME
        if is_by_time and (low is not None or high is not None):
            self.add_error("end", _("A range of priorities is not in the order of time."))
        if self.cleaned_data.get("after") and self.cleaned_data.get("before"):
            self.add_error(None, _("Use only one of “after” and “before”."))
        return self.cleaned_data

    def items_address(self, **changed: Any) -> str:
        """Return the address of other items; the page opens at the items, below the charts."""
        return self.address(**changed) + "#fdbqueue-live"

    def page_address(self, **changed: Any) -> str:
        """Return the address of another page of the same items; it opens at the table."""
        return self.address(**changed) + "#fdbqueue-items"

    def tab_address(self, state: str) -> str:
        """Return the address of the items of another state."""
        there = {*self.shown_in(state), *(self.of_dead if state == "dead" else ())}
        dropped = {*self.shown, *self.of_dead} - there
        if self.data.get("end") in _BY_TIME:  # which other states do not have
            dropped.add("end")
        return self.items_address(**dict.fromkeys(dropped), state=state)

    def bounds(self) -> dict[str, Any]:
        """Return the arguments of ``queue.page()`` that choose the items."""
        wanted = self.cleaned_data
        priorities = {name: wanted.get(name) for name in _PRIORITIES}
        return {"state": wanted["state"], **priorities}


class ItemForm(PageForm):
    """Whether to show all of an item's value."""

    show = _hidden([(name, name) for name in ("value", "whole")])

    defaults: Mapping[str, str] = {"refresh": "5", "show": "value"}
    shown = ("show",)


class FindForm(PageForm):
    """Which item or task to go to, in which queue to look first, and after which for others."""

    id = forms.CharField(
        max_length=_MAX_CURSOR, error_messages={"required": _("Enter the id of an item.")}
    )
    queue = forms.CharField(required=False, max_length=100)
    after = forms.CharField(required=False, max_length=100)


class PriorityItemsForm(ItemsForm):
    """Which items of a priority queue to show; subclasses set the type of its priorities."""

    shown = ("end", *_PRIORITIES, "q", "limit")
    ends = (("min", _("Lowest priority first")), ("max", _("Highest priority first")))


class IntegerItemsForm(PriorityItemsForm):
    """Which items to show of a queue whose priorities are integers."""

    min_priority = forms.IntegerField(
        label=_("Lowest priority"), required=False, min_value=MIN_INTEGER, max_value=MAX_INTEGER
    )
    max_priority = forms.IntegerField(
        label=_("Highest priority"), required=False, min_value=MIN_INTEGER, max_value=MAX_INTEGER
    )


class FloatItemsForm(PriorityItemsForm):
    """Which items to show of a queue whose priorities are floats."""

    min_priority = forms.FloatField(label=_("Lowest priority"), required=False)
    max_priority = forms.FloatField(label=_("Highest priority"), required=False)


def items_form(queue: Queue, parameters: QueryDict) -> ItemsForm:
    """Return the form for a queue, with the parameters of a request."""
    if not isinstance(queue, PriorityQueue):
        return ItemsForm(parameters)
    return (IntegerItemsForm if queue.priority_type == "int" else FloatItemsForm)(parameters)
