"""The pages: they read from the queues, and answer GET and HEAD alone."""

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
from fdbqueue.pages import contents, live
from fdbqueue.pages.details import item_details, queue_details
from fdbqueue.pages.forms import PageForm, QueuesForm, items_form
from fdbqueue.pages.mounts import PlainMount
from fdbqueue.pages.previews import Preview, clip
from fdbqueue.pages.queues import listed
from fdbqueue.service.catalog import Catalog
from fdbqueue.service.transactions import error_code

logger = logging.getLogger("fdbqueue.pages")

_METHODS = ("GET", "HEAD")


def read_only(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Refuse every method but GET and HEAD with 405, before anything else is looked at."""

    def page(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method not in _METHODS:
            return HttpResponseNotAllowed(_METHODS)
        return view(request, *args, **kwargs)

    return csrf_exempt(update_wrapper(page, view))  # 405 is the answer with and without a token


class PageView(View):
    """What the pages have in common: who may look, and what to say when it fails."""

    http_method_names = ["get", "head"]  # noqa: RUF012  # as Django declares it
    #: Where the page is mounted.
    mount: PlainMount = PlainMount()
    template: str
    #: How long all reads may take before the page says that there is no answer.
    timeout_seconds = 3.0

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Check the permission, and answer; what goes wrong is said inside the frame."""
        self.addresses = self.mount.addresses(request)
        try:
            refusal = self._refusal(kwargs.get("name"))
            response = refusal or super().dispatch(request, *args, **kwargs)
        except QueueNotFound:
            response = self.problem(404, _("No such queue"), _("No queue has this name."))
        except ConfigurationError as error:
            message = _("The queues are not set up: see “manage.py check”.")
            response = self.unavailable(error, message)
        except (EngineError, OutcomeUnknown) as error:
            response = self.unavailable(error, _("The database of the queues does not answer."))
        except Exception as error:
            if error_code(error) is None:
                raise
            response = self.unavailable(error, _("The database of the queues does not answer."))
        add_never_cache_headers(response)
        patch_vary_headers(response, ["HX-Request"])
        return response

    def _refusal(self, name: str | None) -> HttpResponseBase | None:
        """Return where to send who may not look, None for who may; deny by default.

        Whether the list shows anything is known only when it is read.
        """
        is_somebody = getattr(self.request, "user", None) and self.request.user.is_authenticated
        if is_somebody and (name is None or self._may_view(name)):
            return None
        refused = self.mount.refused(self.request)
        if refused is None:
            raise PermissionDenied
        return refused

    def _may_view(self, name: str | None) -> bool:
        """Ask the mount; where the setting is wrong the general permission decides."""
        try:
            return self.mount.may_view(self.request, name)
        except ConfigurationError:
            return self.request.user.has_perm(access.VIEW)

    def page(
        self, title: str | Promise, template: str | None = None, status: int = 200, **context: Any
    ) -> TemplateResponse:
        """Return a page in its frame, or its live part alone where that was asked for."""
        is_part = status == 200 and live.is_asked_for(self.request)
        frame = "fdbqueue/live.html" if is_part else self.mount.frame
        response = TemplateResponse(
            self.request,
            f"fdbqueue/{template or self.template}",
            {
                **({} if is_part else self.mount.context(self.request)),
                "frame": frame,
                "addresses": self.addresses,
                "title": title,
                **context,
            },
            status=status,
        )
        if is_part:
            response.headers[live.HEADER] = "1"
        return response

    def problem(
        self, status: int, title: str | Promise, message: str | Promise, **context: Any
    ) -> TemplateResponse:
        """Return a page that says what is wrong."""
        return self.page(title, "problem.html", status, message=message, **context)

    def unavailable(self, error: Exception, message: str | Promise) -> TemplateResponse:
        """Say that there is no answer now; the details, paths too, are for the log alone."""
        if not self._may_view(self.kwargs.get("name")):
            raise PermissionDenied from error
        logger.warning("a page could not read the queues", exc_info=error)
        return self.problem(503, _("Queues unavailable"), message, retry=True)

    def catalog(self) -> Catalog:
        """Return the queues, to be read within the timeout."""
        return deadlines.begin(self.timeout_seconds, reads_only=True)

    def live(self, form: PageForm) -> live.Live:
        """Return how the page refreshes itself."""
        return live.of(self.request, form)


class QueueListView(PageView):
    """All queues that the reader may look into, with how they are."""

    template = "queues.html"

    def get(self, request: HttpRequest) -> TemplateResponse:
        """Show the queues that the parameters ask for; bad parameters are pointed out."""
        may_view = self._checked()
        form = QueuesForm(request.GET)
        if not form.is_valid():
            return self.page(_("Queues"), status=400, form=form, live=self.live(form))
        found = listed(self.catalog(), form, may_view)
        return self.page(
            _("Queues"),
            form=form,
            live=self.live(form),
            **contents.queues(form, found, self.addresses),
        )

    def _checked(self) -> Callable[[str], bool]:
        """Return what tells which names the reader may know, who must know one at least."""
        may_view = functools.partial(self.mount.may_view, self.request)
        if not may_view(None) and not access.visible(self.catalog(), may_view, limit=1)[0]:
            raise PermissionDenied
        return may_view


class QueueView(PageView):
    """One queue: how it is set up, how it is, and its items from either end."""

    template = "queue.html"

    def get(self, request: HttpRequest, name: str) -> TemplateResponse:
        """Show the items that the parameters ask for; bad parameters are pointed out."""
        queue = self.catalog().queue(name)
        form = items_form(queue, request.GET)
        details = None
        if form.is_valid():
            try:
                details = queue_details(queue, form)
            except InvalidInput:
                message = _("This address is damaged. Start again from the first page.")
                form.add_error(None, message)
        shown = {} if details is None else contents.queue(queue, form, details, self.addresses)
        return self.page(
            queue.name,
            status=400 if details is None else 200,
            queue=queue,
            queue_address=self.addresses.queue(name),
            facts=contents.facts(queue),
            form=form,
            live=self.live(form),
            **shown,
        )


class ItemView(PageView):
    """One item: its metadata, its neighbours, its key, and its value."""

    template = "item.html"

    def get(self, request: HttpRequest, name: str, item_id: str) -> TemplateResponse:  # noqa: ARG002  # Django's signature
        """Show an item, or say that it is not there."""
        queue = self.catalog().queue(name)
        context: dict[str, Any] = {"queue": queue, "queue_address": self.addresses.queue(name)}
        try:
            details = item_details(queue, item_id)
        except (ItemNotFound, InvalidInput):
            return self.problem(
                404,
                _("No such item"),
                _("This item is not in the queue. It may have been popped in the meantime."),
                item_id=Preview(*clip(item_id), decodable=True),
                **context,
            )
        return self.page(
            _("Item in %(queue)s") % {"queue": queue.name},
            **context,
            **contents.item(queue, details, self.addresses),
        )
