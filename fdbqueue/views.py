"""The views of the pages: they only read the queues, and answer only GET and HEAD."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.utils.cache import add_never_cache_headers, patch_vary_headers
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.csrf import csrf_exempt
from django.views.generic import View

from fdbqueue import access, deadlines
from fdbqueue.exceptions import (
    ConfigurationError,
    EngineError,
    InvalidInput,
    ItemNotFound,
    OutcomeUnknown,
    QueueNotFound,
)
from fdbqueue.pages import item_page, queue_list, queue_page, refresh
from fdbqueue.pages.forms import QueuesForm
from fdbqueue.pages.readings import reading_of
from fdbqueue.pages.sites import PlainSite
from fdbqueue.pages.text import Preview, clip
from fdbqueue.service import Catalog, error_code

logger = logging.getLogger("fdbqueue.pages")

_METHODS = ("GET", "HEAD")


def read_only(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Refuse every method but GET and HEAD with 405, before anything else is checked."""

    def page(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method not in _METHODS:
            return HttpResponseNotAllowed(_METHODS)
        return view(request, *args, **kwargs)

    return csrf_exempt(update_wrapper(page, view))  # 405 with and without a token


class PageView(View):
    """A page: checks the permission, and shows errors in the frame of its site."""

    http_method_names = ["get", "head"]  # noqa: RUF012  # as Django declares it
    #: Where the page is: in an admin site, or plain.
    site: PlainSite = PlainSite()
    template: str
    #: How long all reads of a page may take before it says that the database does not respond.
    timeout_seconds = 3.0

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Check the permission, and answer; errors are shown in the frame of the site."""
        self.addresses = self.site.addresses(request)
        try:
            refusal = self._refusal(kwargs.get("name"))
            response = refusal or super().dispatch(request, *args, **kwargs)
        except QueueNotFound:
            message = _("There is no queue with this name.")
            response = self.problem(404, _("Queue not found"), message)
        except ConfigurationError as error:
            message = _("The setting of the queues has errors. Run “manage.py check” for details.")
            response = self.unavailable(error, message)
        except (EngineError, OutcomeUnknown) as error:
            response = self.unavailable(error, _("The queue database is not responding."))
        except Exception as error:
            if error_code(error) is None:
                raise
            response = self.unavailable(error, _("The queue database is not responding."))
        add_never_cache_headers(response)
        patch_vary_headers(response, ["HX-Request"])
        return response

    def _refusal(self, name: str | None) -> HttpResponseBase | None:
        """Return where to send a user who may not view the page, None if they may.

        Denied by default. Whether a user may see any queue of the list is known when it is read.
        """
        is_logged_in = getattr(self.request, "user", None) and self.request.user.is_authenticated
        if is_logged_in and (name is None or self._may_view(name)):
            return None
        refused = self.site.refused(self.request)
        if refused is None:
            raise PermissionDenied
        return refused

    def _may_view(self, name: str | None) -> bool:
        """Ask the site; if the setting is wrong, the general permission decides."""
        try:
            return self.site.may_view(self.request, name)
        except ConfigurationError:
            return self.request.user.has_perm(access.VIEW)

    def page(
        self, title: str | Promise, template: str | None = None, status: int = 200, **context: Any
    ) -> TemplateResponse:
        """Return a page in its frame, or only its live part if htmx asks for it."""
        is_part = status == 200 and refresh.is_asked_for(self.request)
        frame = "fdbqueue/live.html" if is_part else self.site.frame
        response = TemplateResponse(
            self.request,
            f"fdbqueue/{template or self.template}",
            {
                **({} if is_part else self.site.context(self.request)),
                "frame": frame,
                "addresses": self.addresses,
                "title": title,
                **context,
            },
            status=status,
        )
        if is_part:
            response.headers[refresh.HEADER] = "1"
        return response

    def problem(
        self, status: int, title: str | Promise, message: str | Promise, **context: Any
    ) -> TemplateResponse:
        """Return a page that says what went wrong."""
        return self.page(title, "problem.html", status, message=message, **context)

    def unavailable(self, error: Exception, message: str | Promise) -> TemplateResponse:
        """Say that the queues cannot be read now; the details go to the log only."""
        if not self._may_view(self.kwargs.get("name")):
            raise PermissionDenied from error
        logger.warning("a page could not read the queues", exc_info=error)
        return self.problem(503, _("Queues unavailable"), message, retry=True)

    def catalog(self) -> Catalog:
        """Return the catalog, to be read within the timeout."""
        return deadlines.begin(self.timeout_seconds, reads_only=True)


class QueueListView(PageView):
    """The list of the queues that the user may view."""

    template = "queues.html"

    def get(self, request: HttpRequest) -> TemplateResponse:
        """Show the queues that the parameters ask for, or point out bad parameters."""
        may_view = self._checked()
        form = QueuesForm(request.GET)
        shown: dict[str, Any] = {"form": form, "live": refresh.refresh_of(request, form)}
        if not form.is_valid():
            return self.page(_("Queues"), status=400, **shown)
        found = queue_list.listed(self.catalog(), form, may_view)
        shown |= queue_list.context(form, found, self.addresses)
        return self.page(_("Queues"), **shown)

    def _checked(self) -> Callable[[str], bool]:
        """Return a function that tells whether the user may see a queue's name.

        Raises:
            PermissionDenied: There are queues, and the user may see none.
        """
        may_view = functools.partial(self.site.may_view, self.request)
        if not may_view(None) and not access.visible(self.catalog(), may_view, limit=1)[0]:
            raise PermissionDenied
        return may_view


class QueueView(PageView):
    """The page of a queue: its settings, its figures, and its items."""

    def get(self, request: HttpRequest, name: str) -> TemplateResponse:
        """Show the items that the parameters ask for, or point out bad parameters."""
        queue = self.catalog().queue(name)
        reading = reading_of(queue)
        form = reading.form(queue, request.GET)
        details = None
        if form.is_valid():
            try:
                details = queue_page.queue_details(queue, form, reading)
            except InvalidInput:
                message = _("This address is not valid. Start again from the first page.")
                form.add_error(None, message)
        shown: dict[str, Any] = {}
        if details is not None:
            shown = queue_page.context(form, details, self.addresses, reading)
        return self.page(
            queue.name,
            reading.template,
            status=400 if details is None else 200,
            queue=queue,
            queue_address=self.addresses.queue(name),
            settings=queue_page.settings(queue, reading),
            form=form,
            live=refresh.refresh_of(request, form),
            **shown,
        )


class ItemView(PageView):
    """The page of an item: its facts, its neighbours, and its value."""

    template = "item.html"

    def get(self, request: HttpRequest, name: str, item_id: str) -> TemplateResponse:  # noqa: ARG002  # Django's signature
        """Show an item, or say that it is not in the queue."""
        queue = self.catalog().queue(name)
        context: dict[str, Any] = {"queue": queue, "queue_address": self.addresses.queue(name)}
        try:
            details = item_page.item_details(queue, item_id)
        except (ItemNotFound, InvalidInput):
            return self.problem(
                404,
                _("Item not found"),
                _("This item is not in the queue. It may have been popped or acknowledged."),
                item_id=Preview(*clip(item_id), decodable=True),
                **context,
            )
        return self.page(
            _("Item in %(queue)s") % {"queue": queue.name},
            **context,
            **item_page.context(queue, details, self.addresses, reading_of(queue)),
        )


class TaskView(PageView):
    """The page of a task: what it called, how its attempts went, and what came of it."""

    def get(self, request: HttpRequest, name: str, task_id: str) -> TemplateResponse:  # noqa: ARG002  # Django's signature
        """Show a task, or say that there is none."""
        queue = self.catalog().queue(name)
        context: dict[str, Any] = {"queue": queue, "queue_address": self.addresses.queue(name)}
        reading = reading_of(queue)
        shown = None
        if reading.task is not None:
            shown = reading.task(queue, task_id, self.addresses)
        if shown is None:
            return self.problem(
                404,
                _("Task not found"),
                _("This queue has no such task. It may have been removed after its retention."),
                task_id=Preview(*clip(task_id), decodable=True),
                **context,
            )
        return self.page(template=reading.task_template, **context, **shown)
