"""The pages in the admin: *Queues*, what is in a queue, and one item. They change nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponseBase
from django.urls import URLPattern, path, reverse_lazy

from fdbqueue.models import Queue
from fdbqueue.views import ItemView, QueueListView, QueueView


@admin.register(Queue)
class QueueAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # generic in the stubs alone
    """Mount the pages for those who may view queues.

    Nothing of the stock ModelAdmin is reachable: its list, forms and history need a table.
    """

    def get_urls(self) -> list[URLPattern]:
        """Return the addresses of the pages, and no others."""
        return [
            path("", self._page(QueueListView), name="fdbqueue_queue_changelist"),
            path("<str:name>/", self._page(QueueView), name="fdbqueue_queue_queue"),
            path(
                "<str:name>/items/<str:item_id>/", self._page(ItemView), name="fdbqueue_queue_item"
            ),
        ]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002  # one permission for all queues
        """Tell whether the user has ``fdbqueue.view_queue``."""
        return request.user.has_perm("fdbqueue.view_queue")

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002  # nobody may
        """Refuse: queues are made in the settings."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002  # nobody may
        """Refuse: the pages are read-only."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002  # nobody may
        """Refuse: the pages are read-only."""
        return False

    def _page(self, view: type[QueueListView | QueueView | ItemView]) -> Callable[..., Any]:
        guarded = self.admin_site.admin_view(view.as_view(model_admin=self))

        def page(*args: Any, **kwargs: Any) -> HttpResponseBase:
            return guarded(*args, **kwargs)

        page.login_url = reverse_lazy(  # type: ignore[attr-defined]  # for LoginRequiredMiddleware
            "admin:login", current_app=self.admin_site.name
        )
        return update_wrapper(page, guarded)
