"""The pages without the admin: ``path("queues/", include("fdbqueue.urls"))``."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpResponseBase

from fdbqueue.pages.sites import PlainSite
from fdbqueue.views import PageView, page_patterns, read_only

app_name = "fdbqueue"


def _page(view: type[PageView]) -> Callable[..., HttpResponseBase]:
    site = PlainSite()
    return read_only(view.as_view(site=site), site)


urlpatterns = page_patterns(_page)
