"""Auto-refresh: htmx requests the live part of a page every few seconds.

django-htmx ships the script. Without it among the installed apps, or without JavaScript, a page
shows the same and has a link to refresh it.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.apps import apps
from django.http import HttpRequest
from django.utils import timezone

from fdbqueue.pages.forms import INTERVALS, PageForm

#: Tells the script that a response is the live part; a login page does not have it.
HEADER = "X-Fdbqueue-Live"


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


def is_asked_for(request: HttpRequest) -> bool:
    """Tell whether htmx requests the live part only."""
    return request.headers.get("HX-Request") == "true"


def refresh_of(request: HttpRequest, form: PageForm) -> Refresh:
    """Return how the page of a request refreshes itself."""
    is_possible = apps.is_installed("django_htmx")
    chosen = int(form.cleaned_data.get("refresh") or 0) if is_possible and form.is_valid() else 0
    query = request.GET.copy()
    intervals = []
    for seconds in INTERVALS if is_possible else ():
        query["refresh"] = str(seconds)
        intervals.append(Interval(seconds, "?" + query.urlencode(), seconds == chosen))
    return Refresh(chosen, request.get_full_path(), tuple(intervals), timezone.now())
