"""The pages in the admin: queues, items, their actions if these are on, and what these did."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import URLPattern, path, reverse_lazy
from django.views.decorators.http import require_safe

from fdbqueue import access, models
from fdbqueue.exceptions import ConfigurationError
from fdbqueue.pages.framing import PageView
from fdbqueue.pages.sites import AdminSite, admin_url_name
from fdbqueue.views import of_site, page_patterns


@admin.register(models.QueueName)
class QueueAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # generic in the stubs alone
    """The pages for users who may view queues, on any admin site.

    The list and forms of the stock ModelAdmin are not reachable: they need a table. Its history of
    a queue is, for users who may view the queue: it shows the actions of the pages.
    """

    def get_urls(self) -> list[URLPattern]:
        """Return the addresses of the pages, and those that the admin's own log leads to."""
        shown = {"change": self._to_queue, "history": self.history_view}
        return [
            *(
                path(f"<path:object_id>/{name}/", self._in_admin(view), name=admin_url_name(name))
                for name, view in shown.items()
            ),
            *page_patterns(self._page, admin_url_name),
        ]

    def get_object(
        self,
        request: HttpRequest,  # noqa: ARG002  # Django's signature
        object_id: str,
        from_field: Any = None,  # noqa: ARG002  # Django's signature
    ) -> models.QueueName:
        """Return what stands for a queue, whether there is one of this name or not."""
        return models.QueueName(name=object_id)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002  # all or none
        """Tell whether the user may view the pages: all queues.

        If the setting is wrong, the admin's other pages work, and these say what is wrong.
        """
        try:
            return access.may(request.user, access.VIEW)
        except ConfigurationError:
            return access.may_be_told(request.user)

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002  # no user may
        """Refuse: queues are named in the settings."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002  # no user may
        """Refuse: the admin's own forms for it do not exist; actions have pages of their own."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002  # no user may
        """Refuse, as for a change."""
        return False

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Tell whether the admin's index has an entry for the pages."""
        return self.has_view_permission(request)

    def _page(self, view: type[PageView]) -> Any:
        return self._with_login(of_site(view, self.admin_site.admin_view, AdminSite(self)))

    def _to_queue(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Redirect from the address that the admin's log has for a queue to its page."""
        addresses = AdminSite(self).addresses(request)
        return HttpResponseRedirect(addresses.queue(unquote(object_id)))

    def _in_admin(self, view: Any) -> Any:
        return self._with_login(require_safe(self.admin_site.admin_view(view)))

    def _with_login(self, view: Any) -> Any:
        login = reverse_lazy("admin:login", current_app=self.admin_site.name)
        view.login_url = login  # for LoginRequiredMiddleware
        return view
