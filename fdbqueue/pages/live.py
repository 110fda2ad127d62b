"""Pages that refresh themselves: htmx asks for their live part again and again.

django-htmx ships the script. Where it is not among the installed apps, and where there is
no JavaScript, a page shows the same and has a link to refresh it.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.apps import apps
from django.http import HttpRequest
from django.utils import timezone

from fdbqueue.pages.forms import INTERVALS, PageForm

#: Tells our script that an answer is the part it asked for: a login page is none.
HEADER = "X-Fdbqueue-Live"


@dataclass(frozen=True, slots=True)
class Interval:
    """A choice of how often to refresh, 0 for never, and the address that makes it."""

    seconds: int
    address: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Live:
    """How a page refreshes itself.

    ``seconds`` is 0 where it does not; ``intervals`` is empty where it cannot.
    """

    seconds: int
    address: str
    intervals: tuple[Interval, ...]
    #: When the page was made, in the time zone in use.
    as_of: object


def is_asked_for(request: HttpRequest) -> bool:
    """Tell whether a request is htmx's, for the live part alone."""
    return request.headers.get("HX-Request") == "true"


def of(request: HttpRequest, form: PageForm) -> Live:
    """Return how the page of a request refreshes itself."""
    is_possible = apps.is_installed("django_htmx")
    chosen = int(form.cleaned_data.get("refresh") or 0) if is_possible and form.is_valid() else 0
    query = request.GET.copy()
    intervals = []
    for seconds in INTERVALS if is_possible else ():
        query["refresh"] = str(seconds)
        intervals.append(Interval(seconds, "?" + query.urlencode(), seconds == chosen))
    return Live(chosen, request.get_full_path(), tuple(intervals), timezone.now())
