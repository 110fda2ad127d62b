"""The pages without the admin: ``path("queues/", include("fdbqueue.urls"))``."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import auth
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import path
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.http import require_POST

from fdbqueue.pages.framing import PageView
from fdbqueue.pages.sites import PlainSite
from fdbqueue.views import of_site, page_patterns

app_name = "fdbqueue"


def _page(view: type[PageView]) -> Callable[..., HttpResponseBase]:
    return of_site(view, lambda one: one, PlainSite())


@require_POST
@csrf_protect
@never_cache
def _log_out(request: HttpRequest) -> HttpResponseBase:
    """Log the user out, staff or not, and go to the list, which asks to log in."""
    auth.logout(request)
    return HttpResponseRedirect(PlainSite().addresses(request).queues())


#: No queue is called ``-``: a name begins with a letter or a digit.
urlpatterns = [path("-/log-out/", _log_out, name="log-out"), *page_patterns(_page)]
