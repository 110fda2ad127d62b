"""The pages without the admin: ``path("queues/", include("fdbqueue.urls"))``."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpResponseBase
from django.urls import path

from fdbqueue.pages.sites import PlainSite
from fdbqueue.views import (
    FindView,
    ItemView,
    NoPageView,
    PageView,
    QueueListView,
    QueueView,
    TaskView,
    read_only,
)

app_name = "fdbqueue"


def _page(view: type[PageView]) -> Callable[..., HttpResponseBase]:
    site = PlainSite()
    return read_only(view.as_view(site=site), site)


urlpatterns = [
    path("", _page(QueueListView), name="queues"),
    path("<str:name>/", _page(QueueView), name="queue"),
    path("<str:name>/items/", _page(FindView), name="find"),
    path("<str:name>/items/<str:item_id>/", _page(ItemView), name="item"),
    path("<str:name>/tasks/<str:task_id>/", _page(TaskView), name="task"),
    path("<str:name>/items/<path:rest>/", _page(NoPageView)),
    path("<str:name>/tasks/<path:rest>/", _page(NoPageView)),
]
