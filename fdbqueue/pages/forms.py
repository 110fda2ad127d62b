"""What may follow the ``?`` of a queue's page: every parameter is checked here."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from fdbqueue.service.base import Queue
from fdbqueue.service.priorities import MAX_INTEGER, MIN_INTEGER
from fdbqueue.service.queues import PriorityQueue

_DEFAULTS = {"end": "min", "limit": "50", "start": "1"}
_PRIORITIES = ("min_priority", "max_priority")


class ItemsForm(forms.Form):
    """Which items of a queue to show.

    Args:
        parameters: The request's; those that are missing or empty get their defaults.
    """

    end = forms.ChoiceField(
        label=_("Order"),
        choices=[("min", _("Earliest pushed first")), ("max", _("Latest pushed first"))],
    )
    limit = forms.IntegerField(label=_("Rows per page"), min_value=25, max_value=200)
    after = forms.CharField(label=_("Cursor"), required=False, strip=False, max_length=14_000)
    start = forms.IntegerField(label=_("Start"), min_value=1, max_value=10**15)

    #: Those a person fills in; the links to pages carry the others.
    shown: tuple[str, ...] = ("end", "limit")

    def __init__(self, parameters: QueryDict) -> None:
        given = {name: value for name, value in parameters.items() if value}
        super().__init__({**_DEFAULTS, **given}, auto_id="items-%s")

    def clean(self) -> dict[str, Any]:
        """Refuse priorities where there are none, and a range that ends before it begins."""
        super().clean()
        if any(name in self.data and name not in self.fields for name in _PRIORITIES):
            self.add_error(None, _("This queue has no priorities."))
        low, high = (self.cleaned_data.get(name) for name in _PRIORITIES)
        if low is not None and high is not None and low > high:
            self.add_error("min_priority", _("The lowest priority is above the highest."))
        return self.cleaned_data

    def bounds(self) -> dict[str, Any]:
        """Return the arguments of ``queue.page()``, all but the limit."""
        wanted = self.cleaned_data
        priorities = {name: wanted.get(name) for name in _PRIORITIES}
        return {"end": wanted["end"], "after": wanted["after"] or None, **priorities}

    def address(self, **position: Any) -> str:
        """Return the query string of the same items at another position."""
        kept = {name: self.data[name] for name in self.shown if self.data.get(name)}
        return "?" + urlencode({**kept, **position})

    def shown_fields(self) -> list[forms.BoundField]:
        """Return the fields a person fills in."""
        return [self[name] for name in self.shown]


class PriorityItemsForm(ItemsForm):
    """Which items of a priority queue to show; the subclasses say the priorities' type."""

    shown = ("end", *_PRIORITIES, "limit")

    def __init__(self, parameters: QueryDict) -> None:
        super().__init__(parameters)
        order = self.fields["end"]
        assert isinstance(order, forms.ChoiceField)
        order.choices = [("min", _("Lowest priority first")), ("max", _("Highest priority first"))]


class IntegerItemsForm(PriorityItemsForm):
    """The priorities are integers."""

    min_priority = forms.IntegerField(
        label=_("Lowest priority"), required=False, min_value=MIN_INTEGER, max_value=MAX_INTEGER
    )
    max_priority = forms.IntegerField(
        label=_("Highest priority"), required=False, min_value=MIN_INTEGER, max_value=MAX_INTEGER
    )


class FloatItemsForm(PriorityItemsForm):
    """The priorities are floats."""

    min_priority = forms.FloatField(label=_("Lowest priority"), required=False)
    max_priority = forms.FloatField(label=_("Highest priority"), required=False)


def items_form(queue: Queue, parameters: QueryDict) -> ItemsForm:
    """Return the form that fits a queue, with a request's parameters."""
    if not isinstance(queue, PriorityQueue):
        return ItemsForm(parameters)
    return (IntegerItemsForm if queue.priority_type == "int" else FloatItemsForm)(parameters)
