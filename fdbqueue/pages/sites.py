"""Where the pages are: in an admin site, or as plain views. The site says who may view them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import django
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, reverse
from django.utils.http import url_has_allowed_host_and_scheme

from fdbqueue import access, conf
from fdbqueue.columns.text import visible
from fdbqueue.exceptions import ConfigurationError

_MAX_USER_NAME = 150
#: What addresses have in place of a name if all queues are meant: no queue is called that.
EVERY = "-"


class Addresses:
    """The addresses of the pages in their site; parameters that are empty are left out.

    Args:
        url_name: Returns the name of a page's URL: of ``queues``, ``workers``, ``failures``,
            ``queue``, ``item``, ``task``, of a page that an app has; or of ``find``,
            which leads to an item or a task by its id.
        current_app: The instance namespace.
    """

    def __init__(self, url_name: Callable[[str], str], current_app: str) -> None:
        self._url_name = url_name
        self._current_app = current_app

    def queues(self, **query: str) -> str:
        """Return the address of the list."""
        return self._of("queues", **query)

    def workers(self) -> str:
        """Return the address of the leases of all queues."""
        return self._of("workers")

    def failures(self) -> str:
        """Return the address of the dead letters of all queues."""
        return self._of("failures")

    def more(self, name: str) -> str:
        """Return the address of a page across queues that an app has."""
        return self._of(name)

    def find(self) -> str:
        """Return the address that leads to an item or a task of any queue by its id."""
        return self._of("find")

    def queue(self, name: str, **query: str) -> str:
        """Return the address of a queue's page."""
        return self._of("queue", name, **query)

    def item(self, name: str, item_id: str, **query: str) -> str:
        """Return the address of an item's page."""
        return self._of("item", name, item_id, **query)

    def task(self, name: str, task_id: str) -> str:
        """Return the address of the page of a task in a queue."""
        return self._of("task", name, task_id)

    def action(self, name: str, action: str, **query: Any) -> str:
        """Return the address of the page of an action on a queue, or on a family."""
        return self._of("action", name, action, **query)

    def log_out(self) -> str:
        """Return the address where users of the plain pages log out."""
        return reverse("fdbqueue:log-out", current_app=self._current_app)

    def _of(self, page: str, *args: str, **query: Any) -> str:
        address = reverse(self._url_name(page), args=args, current_app=self._current_app)
        given = {name: value for name, value in query.items() if value}
        return f"{address}?{urlencode(given)}" if given else address


class PlainSite:
    """The pages as plain views: ``include("fdbqueue.urls")``."""

    #: The template that the pages extend.
    frame = "fdbqueue/base.html"

    def may_view(self, request: HttpRequest) -> bool:
        """Tell whether a user may view the pages: all queues."""
        return access.may(getattr(request, "user", None), access.VIEW)

    def refused(self, request: HttpRequest) -> HttpResponseBase | None:
        """Return the redirect for a user who may not view a page, None for 403."""
        user = getattr(request, "user", None)
        if user is None or user.is_authenticated:
            return None
        address = access.login_address(request.get_full_path())
        return None if address is None else HttpResponseRedirect(address)

    def addresses(self, request: HttpRequest) -> Addresses:
        """Return the addresses in the namespace that the request came through."""
        match = request.resolver_match
        namespace = match.namespace if match is not None else ""
        return Addresses(lambda page: f"fdbqueue:{page}", namespace)

    def history(self, name: str) -> str:  # noqa: ARG002  # only an admin has one
        """Return the address of what users have done to a queue, empty if there is none."""
        return ""

    def context(self, request: HttpRequest) -> dict[str, Any]:
        """Return what the frame needs: who is logged in, and where they log out."""
        user = getattr(request, "user", None)
        if user is None or not user.is_authenticated:
            return {}
        own = self.addresses(request).log_out() if hasattr(request, "session") else ""
        logout = logout_address() or own
        told = messages.get_messages(request) if actions_are_on() else ()
        name = visible(str(user)[:_MAX_USER_NAME])
        return {"user_name": name, "logout": logout, "told": told}


def actions_are_on() -> bool:
    """Tell whether the setting has the actions on; not if it is wrong, which the page says."""
    with contextlib.suppress(ConfigurationError):
        return conf.pages().actions
    return False


class AdminSite(PlainSite):
    """The pages in an admin site; its ModelAdmin says who may view them.

    Args:
        model_admin: The ModelAdmin of the pages.
    """

    frame = "admin/fdbqueue/queuename/base.html"

    def __init__(self, model_admin: Any) -> None:
        self._model_admin = model_admin
        self._site = model_admin.admin_site

    def may_view(self, request: HttpRequest) -> bool:
        """Ask the ModelAdmin."""
        return bool(self._model_admin.has_view_permission(request))

    def refused(self, request: HttpRequest) -> HttpResponseBase | None:  # noqa: ARG002  # never
        """Return None: the admin site has already sent anonymous users to its login."""
        return None

    def addresses(self, request: HttpRequest) -> Addresses:  # noqa: ARG002  # the site's
        """Return the addresses in the admin site."""
        return Addresses(lambda page: f"admin:{admin_url_name(page)}", self._site.name)

    def history(self, name: str) -> str:
        """Return the address of the admin's page of what users have done to a queue."""
        from django.contrib.admin.utils import quote

        page = f"admin:{admin_url_name('history')}"
        return reverse(page, args=(quote(name),), current_app=self._site.name)

    def context(self, request: HttpRequest) -> dict[str, Any]:
        """Return what the admin's own templates need, and how it marks breadcrumbs up."""
        return {
            **self._site.each_context(request),
            "opts": self._model_admin.opts,
            "has_list_of_breadcrumbs": django.VERSION >= (6, 1),
        }


def admin_url_name(page: str) -> str:
    """Return the name of a page's URL, as the admin names its models' URLs."""
    return f"fdbqueue_queuename_{'changelist' if page == 'queues' else page}"


def logout_address() -> str:
    """Return where a project logs users out, empty if it has no such address.

    That is the setting ``LOGOUT_URL``, an address or the name of a URL, if the project has it;
    else the URL named ``logout``. An address on another host is none: the form there would give it
    this project's CSRF token. The admin's is none, because it logs out nobody but staff.
    """
    for place in (getattr(settings, "LOGOUT_URL", None), "logout"):
        with contextlib.suppress(NoReverseMatch):
            address = resolve_url(place) if place else ""
            if url_has_allowed_host_and_scheme(address, allowed_hosts=None):
                return address
    return ""
