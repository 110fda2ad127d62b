"""The pages in the admin: the list of queues, a queue, an item; their actions, if these are on."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import URLPattern, reverse_lazy

from fdbqueue import access, models
from fdbqueue.exceptions import ConfigurationError
from fdbqueue.pages.framing import PageView
from fdbqueue.pages.sites import AdminSite, admin_url_name, may_enter
from fdbqueue.views import of_site, page_patterns


@admin.register(models.QueueName)
class QueueAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # generic in the stubs alone
    """The pages for users who may view queues, on any admin site.

    The list, forms and history of the stock ModelAdmin are not reachable: they need a table.
    """

    def get_urls(self) -> list[URLPattern]:
        """Return the addresses of the pages, and no others."""
        return page_patterns(self._page, admin_url_name)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tell whether the user may view a queue, or with None, whether the index has an entry.

        If the setting is wrong, the admin's other pages work, and these say what is wrong.
        """
        user = request.user
        try:
            return may_enter(user) if obj is None else access.may(user, access.VIEW, obj.name)
        except ConfigurationError:
            return access.may_be_told(user)

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
        decide = type(self).has_view_permission
        site = AdminSite(self, has_own_rules=decide is not QueueAdmin.has_view_permission)
        page = of_site(view, self.admin_site.admin_view, site)
        page.login_url = reverse_lazy(  # type: ignore[attr-defined]  # for LoginRequiredMiddleware
            "admin:login", current_app=self.admin_site.name
        )
        return page
