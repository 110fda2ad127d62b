"""Where the pages are: in an admin site, or as plain views. The site says who may view them."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, reverse

from fdbqueue import access, conf, models
from fdbqueue.exceptions import ConfigurationError
from fdbqueue.pages.text import visible

#: The admin's index asks about at most this many queues.
_ASKED_ABOUT = 100
_MAX_USER_NAME = 150


class Addresses:
    """The addresses of the pages in their site.

    Args:
        names: The names of the URLs of the list, of a queue, of an item, of a task, and of what
            finds an item by its id.
        current_app: The instance namespace.
    """

    def __init__(self, names: tuple[str, str, str, str, str], current_app: str) -> None:
        self._queues, self._queue, self._item, self._task, self._find = names
        self._current_app = current_app

    def queues(self) -> str:
        """Return the address of the list."""
        return reverse(self._queues, current_app=self._current_app)

    def queue(self, name: str) -> str:
        """Return the address of a queue's page."""
        return reverse(self._queue, args=[name], current_app=self._current_app)

    def item(self, name: str, item_id: str) -> str:
        """Return the address of an item's page."""
        return reverse(self._item, args=[name, item_id], current_app=self._current_app)

    def task(self, name: str, task_id: str) -> str:
        """Return the address of the page of a task in a queue."""
        return reverse(self._task, args=[name, task_id], current_app=self._current_app)

    def find(self, name: str) -> str:
        """Return the address that leads to an item of a queue by its id."""
        return reverse(self._find, args=[name], current_app=self._current_app)


class PlainSite:
    """The pages as plain views: ``include("fdbqueue.urls")``."""

    #: The template that the pages extend.
    frame = "fdbqueue/base.html"

    def may_view(self, request: HttpRequest, name: str | None) -> bool:
        """Tell whether a user may view a queue, or with None, whether to offer the pages."""
        user = getattr(request, "user", None)
        return may_enter(user) if name is None else access.may(user, access.VIEW, name)

    def refused(self, request: HttpRequest) -> HttpResponseBase | None:
        """Return the redirect for a user who may not view a page, None for 403."""
        user = getattr(request, "user", None)
        if user is None or user.is_authenticated:
            return None
        return redirect_to_login(request.get_full_path())

    def addresses(self, request: HttpRequest) -> Addresses:
        """Return the addresses in the namespace that the request came through."""
        match = request.resolver_match
        namespace = match.namespace if match is not None else ""
        names = (
            "fdbqueue:queues",
            "fdbqueue:queue",
            "fdbqueue:item",
            "fdbqueue:task",
            "fdbqueue:find",
        )
        return Addresses(names, namespace)

    def context(self, request: HttpRequest) -> dict[str, Any]:
        """Return what the frame needs: who is logged in, and where they log out."""
        user = getattr(request, "user", None)
        if user is None or not user.is_authenticated:
            return {}
        return {"user_name": visible(str(user)[:_MAX_USER_NAME]), "logout": logout_address()}


class AdminSite(PlainSite):
    """The pages in an admin site; its ModelAdmin says who may view them.

    Args:
        model_admin: The ModelAdmin of the pages.
    """

    frame = "admin/fdbqueue/queuename/base.html"

    def __init__(self, model_admin: Any) -> None:
        self._model_admin = model_admin
        self._site = model_admin.admin_site

    def may_view(self, request: HttpRequest, name: str | None) -> bool:
        """Ask the ModelAdmin about a queue, or for None about the pages."""
        queue = None if name is None else models.QueueName(name=name)
        return bool(self._model_admin.has_view_permission(request, queue))

    def refused(self, request: HttpRequest) -> HttpResponseBase | None:  # noqa: ARG002  # never
        """Return None: the admin site has already sent anonymous users to its login."""
        return None

    def addresses(self, request: HttpRequest) -> Addresses:  # noqa: ARG002  # the site's
        """Return the addresses in the admin site."""
        names = (
            "admin:fdbqueue_queuename_changelist",
            "admin:fdbqueue_queuename_queue",
            "admin:fdbqueue_queuename_item",
            "admin:fdbqueue_queuename_task",
            "admin:fdbqueue_queuename_find",
        )
        return Addresses(names, self._site.name)

    def context(self, request: HttpRequest) -> dict[str, Any]:
        """Return what the admin's own templates need."""
        return {**self._site.each_context(request), "opts": self._model_admin.opts}


def logout_address() -> str:
    """Return where a user logs out, empty where the project has no such address.

    That is the setting ``LOGOUT_URL``, an address or the name of a URL, where the project has it;
    else the URL named ``logout``, or that of the admin. An address on another host is none: the
    form there would give it this project's CSRF token.
    """
    for place in (getattr(settings, "LOGOUT_URL", None), "logout", "admin:logout"):
        with contextlib.suppress(NoReverseMatch):
            address = resolve_url(place) if place else ""
            if address and not urlsplit(address).netloc:
                return address
    return ""


def may_enter(user: Any) -> bool:
    """Tell whether a user may view all queues, or one that the setting names.

    This is asked for the admin's index, so it reads no queue. A user who may view only queues
    that exist by a pattern has to know their addresses.

    Raises:
        ConfigurationError: The setting is wrong.
    """
    if access.may_in_general(user, access.VIEW):
        return True
    if not user or not user.is_authenticated:
        return False
    names = itertools.islice(conf.catalog().plain_names(), _ASKED_ABOUT)
    return any(access.may(user, access.VIEW, name) for name in names)


def may_view_in_admin(user: Any, queue: models.QueueName | None) -> bool:
    """Tell whether a user may view a queue, or with None, whether the admin's index has an entry.

    If the setting is wrong, the general permission decides, so that the admin's other pages
    work and these can say what is wrong.
    """
    try:
        return may_enter(user) if queue is None else access.may(user, access.VIEW, queue.name)
    except ConfigurationError:
        return bool(user.is_authenticated and user.has_perm(access.VIEW))
