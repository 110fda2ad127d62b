"""The pages: they read from the queues, and answer GET and HEAD alone."""

from __future__ import annotations

import logging
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.template.response import TemplateResponse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.generic import View

from fdbqueue.deadlines import reading_catalog
from fdbqueue.exceptions import (
    ConfigurationError,
    EngineError,
    InvalidInput,
    ItemNotFound,
    OutcomeUnknown,
    QueueNotFound,
)
from fdbqueue.pages.forms import ItemsForm, items_form
from fdbqueue.pages.previews import Preview, clip, show, subspace
from fdbqueue.pages.rows import Rows, item_row, item_rows, queue_row
from fdbqueue.service.base import Queue
from fdbqueue.service.catalog import Catalog
from fdbqueue.service.transactions import error_code

logger = logging.getLogger("fdbqueue.pages")

#: The most queues on one list page.
QUEUES_PER_PAGE = 100


class PageView(View):
    """What the pages have in common: who may look, and what to say when it fails."""

    http_method_names = ["get", "head"]  # noqa: RUF012  # as Django declares it
    #: The ModelAdmin that mounts the page.
    model_admin: Any = None
    template: str
    #: How long a read may take before the page says that there is no answer.
    timeout_seconds = 5.0

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Check the permission, and answer; what goes wrong is said inside the admin's frame."""
        if not self.model_admin.has_view_permission(request):
            raise PermissionDenied
        request.current_app = self.model_admin.admin_site.name  # for {% url %}
        try:
            return super().dispatch(request, *args, **kwargs)
        except QueueNotFound:
            return self.problem(404, _("No such queue"), _("No queue has this name."))
        except ConfigurationError as error:
            return self.unavailable(error, _("The queues are not set up: see “manage.py check”."))
        except (EngineError, OutcomeUnknown) as error:
            return self.unavailable(error, _("The database of the queues does not answer."))
        except Exception as error:
            if error_code(error) is None:
                raise
            return self.unavailable(error, _("The database of the queues does not answer."))

    def page(
        self, title: str | Promise, template: str | None = None, status: int = 200, **context: Any
    ) -> TemplateResponse:
        """Return a page inside the admin's frame."""
        frame = self.model_admin.admin_site.each_context(self.request)
        return TemplateResponse(
            self.request,
            f"admin/fdbqueue/queue/{template or self.template}",
            {**frame, "opts": self.model_admin.opts, "title": title, **context},
            status=status,
        )

    def problem(
        self, status: int, title: str | Promise, message: str | Promise, **context: Any
    ) -> TemplateResponse:
        """Return a page that says what is wrong."""
        return self.page(title, "problem.html", status, message=message, **context)

    def unavailable(self, error: Exception, message: str | Promise) -> TemplateResponse:
        """Say that there is no answer now; the details, paths too, are for the log alone."""
        logger.warning("a page could not read the queues", exc_info=error)
        return self.problem(503, _("Queues unavailable"), message, retry=True)

    def catalog(self) -> Catalog:
        """Return the queues, to be read within the timeout."""
        return reading_catalog(self.timeout_seconds)


class QueueListView(PageView):
    """All queues, with the items at both ends."""

    template = "queues.html"

    def get(self, request: HttpRequest) -> TemplateResponse:
        """Show a number of queues in the order of their names, those after ``?after=`` first."""
        after = request.GET.get("after", "")
        queues = self.catalog().queues(after=after, limit=QUEUES_PER_PAGE + 1)
        shown = queues[:QUEUES_PER_PAGE]
        return self.page(
            _("Queues"),
            rows=[queue_row(queue) for queue in shown],
            after=after,
            following=shown[-1].name if len(queues) > len(shown) else None,
        )


class QueueView(PageView):
    """One queue: how it is set up, and its items from either end."""

    template = "queue.html"

    def get(self, request: HttpRequest, name: str) -> TemplateResponse:
        """Show the items that the parameters ask for; bad parameters are pointed out."""
        queue = self.catalog().queue(name)
        form = items_form(queue, request.GET)
        rows = _rows(queue, form)
        return self.page(
            queue.name,
            status=400 if rows is None else 200,
            queue=queue,
            subspace=subspace(queue),
            form=form,
            rows=rows,
            **_links(form, rows),
        )


class ItemView(PageView):
    """One item: its metadata and its whole value."""

    template = "item.html"

    def get(self, request: HttpRequest, name: str, item_id: str) -> TemplateResponse:  # noqa: ARG002  # Django's signature
        """Show an item, or say that it is not there."""
        queue = self.catalog().queue(name)
        try:
            item = queue.get(item_id)
        except (ItemNotFound, InvalidInput):
            return self.problem(
                404,
                _("No such item"),
                _("This item is not in the queue. It may have been popped in the meantime."),
                queue=queue,
                item_id=Preview(*clip(item_id), decodable=True),
            )
        return self.page(
            _("Item in %(queue)s") % {"queue": queue.name},
            queue=queue,
            item=item_row(item, queue),
            value=show(item.value, queue.codec.name),
        )


def _rows(queue: Queue, form: ItemsForm) -> Rows | None:
    if not form.is_valid():
        return None
    try:
        return item_rows(queue, form.cleaned_data["limit"], **form.bounds())
    except InvalidInput:
        form.add_error(None, _("This address is damaged. Start again from the first page."))
        return None


def _links(form: ItemsForm, rows: Rows | None) -> dict[str, Any]:
    if rows is None:
        return {}
    start, after = form.cleaned_data["start"], form.cleaned_data["after"]
    following = form.address(after=rows.cursor, start=start + len(rows.items))
    return {
        "start": start,
        "first_page": form.address() if after else None,
        "next_page": following if rows.cursor else None,
    }
