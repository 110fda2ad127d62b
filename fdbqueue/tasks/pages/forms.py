"""The query parameters of the page of a queue of tasks."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from fdbqueue.pages.forms import ItemsForm, search_field
from fdbqueue.tasks.pages.rows import ABORTED, DONE

#: The tabs of a queue of tasks: the states of items, and the tasks that have no item any more.
TABS = (
    ("ready", _("Ready")),
    ("leased", _("Running")),
    ("delayed", _("Scheduled")),
    ("dead", _("Failed")),
    (ABORTED, _("Aborted")),
    (DONE, _("Done")),
)
_MAX_PATH = 300


def _path(label: Any) -> forms.CharField:
    return search_field(label, max_length=_MAX_PATH)


class TaskItemsForm(ItemsForm):
    """Which tasks of a queue to show.

    Only those that have failed are chosen by their exception. Those that are done or
    were aborted are listed from their index, the latest first, and chosen by their function alone.
    """

    searches = ("q", "function", "exception")
    of_dead = ()  # they are chosen by their exception
    reason = None  # type: ignore[assignment]  # so a form leaves out a field of its parent
    group = None  # type: ignore[assignment]

    function = _path(_("Function"))
    exception = _path(_("Exception"))

    def __init__(self, parameters: QueryDict) -> None:
        super().__init__(parameters)
        state, order = self.fields["state"], self.fields["end"]
        assert isinstance(state, forms.ChoiceField)
        assert isinstance(order, forms.ChoiceField)
        state.choices = list(TABS)
        order.choices = [("min", _("First to run first")), ("max", _("Last to run first"))]
        self.shown = _shown_in(self.data.get("state"))

    def is_search(self, parameters: QueryDict) -> bool:
        """Tell whether the page searches; aborted tasks are always looked for."""
        return parameters.get("state") == ABORTED or super().is_search(parameters)

    def tab_address(self, state: str) -> str:
        """Return the address of another tab, without the filters that it does not have."""
        dropped = dict.fromkeys(set(self.shown).difference(_shown_in(state)))
        return self.items_address(**dropped, state=state)


def _shown_in(state: Any) -> tuple[str, ...]:
    """Return the fields that a reader fills in."""
    if state in {DONE, ABORTED}:
        return ("function", "limit")
    more = ("exception",) if state == "dead" else ()
    return ("end", "function", *more, "q", "limit")
