"""What all pages have: who may see them, their frame, their time, and what they say of errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any

from django.apps import apps
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.template.response import TemplateResponse
from django.utils.cache import add_never_cache_headers, patch_vary_headers
from django.utils.functional import Promise
from django.views.decorators.csrf import csrf_exempt
from django.views.generic import View

from fdbqueue import access, deadlines
from fdbqueue.columns.text import clip
from fdbqueue.exceptions import ConfigurationError
from fdbqueue.logs import get_logger
from fdbqueue.pages.forms import (
    LIVE_HEADER,
    PageForm,
    is_live_part,
    refresh_of,
)
from fdbqueue.pages.problems import Problem, method_refused, problem_of
from fdbqueue.pages.readings import Reading, more_pages
from fdbqueue.pages.sites import PlainSite
from fdbqueue.pages.values import Preview
from fdbqueue.service import Catalog, Queue

logger = get_logger("fdbqueue.pages")

_METHODS = ("GET", "HEAD")


def read_only(
    view: Callable[..., HttpResponseBase], site: PlainSite
) -> Callable[..., HttpResponseBase]:
    """Refuse every method but GET and HEAD with 405, before anything else is checked."""

    def page(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method in _METHODS:
            return view(request, *args, **kwargs)
        return _private(method_problem(site, request, _METHODS))

    return csrf_exempt(update_wrapper(page, view))  # 405 with and without a token


def problem_page(
    site: PlainSite, request: HttpRequest, problem: Problem, **context: Any
) -> TemplateResponse:
    """Return a page in its frame that says what went wrong."""
    shown = {**problem.context(), "title": problem.title, **context}
    return framed(site, request, "problem.html", problem.status, **shown)


def method_problem(
    site: PlainSite, request: HttpRequest, allowed: Sequence[str]
) -> TemplateResponse:
    """Return the page that refuses a method, with the header that names those there are."""
    response = problem_page(site, request, method_refused(allowed))
    response.headers["Allow"] = ", ".join(allowed)
    return response


def framed(
    site: PlainSite, request: HttpRequest, template: str, status: int, **context: Any
) -> TemplateResponse:
    """Return a page in the frame of its site, or only its live part if htmx asks for it."""
    is_part = status == 200 and is_live_part(request)
    response = TemplateResponse(
        request,
        f"fdbqueue/{template}",
        {
            **({} if is_part else site.context(request)),
            "frame": "fdbqueue/live.html" if is_part else site.frame,
            "addresses": site.addresses(request),
            **context,
        },
        status=status,
    )
    if is_part:
        response.headers[LIVE_HEADER] = "1"
    return response


def _private(response: HttpResponseBase) -> HttpResponseBase:
    """Let no cache keep a page, which is its user's alone."""
    add_never_cache_headers(response)
    patch_vary_headers(response, ["HX-Request"])
    return response


class PageView(View):
    """A page: checks the permission, and shows errors in the frame of its site."""

    http_method_names = ["get", "head"]  # noqa: RUF012  # as Django declares it
    #: Where the page is: in an admin site, or plain.
    site: PlainSite = PlainSite()
    template: str
    #: How long all reads of a page may take before it says that the database does not respond.
    #: FoundationDB allows a transaction five seconds; a search takes half of this.
    timeout_seconds = 4.0

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Check the permission, and answer; errors are shown in the frame of the site."""
        self.addresses = self.site.addresses(request)
        try:
            refusal = self._refusal()
            response = refusal or super().dispatch(request, *args, **kwargs)
        except Exception as error:
            problem = problem_of(error, getattr(request, "user", None))
            if problem is None:
                raise
            response = self._failed(error, problem)
        return _private(response)

    def _failed(self, error: Exception, problem: Problem) -> HttpResponseBase:
        """Return the page of an error."""
        if problem.is_unavailable:
            logger.warning("a page could not read the queues", exc_info=error)
        named = self._named() if problem.status == 404 else {}
        return self.problem(problem, **named)

    def http_method_not_allowed(self, request: HttpRequest, *_args: Any, **_kwargs: Any) -> Any:
        """Refuse a method with a page, as :func:`read_only` does; Django's answer has no body."""
        allowed = [name.upper() for name in self.http_method_names]
        return method_problem(self.site, request, allowed)

    def _named(self) -> dict[str, Any]:
        """Return a name that no queue has, and the one most like it."""
        sought = self.kwargs.get("name", "")
        name = self.catalog().closest_name(sought)
        closest = None if name is None else (name, self.addresses.queue(name))
        return {"queue_name": shown_id(sought), "closest": closest}

    def _refusal(self) -> HttpResponseBase | None:
        """Return where to send a user who may not view the pages, None if they may.

        Denied by default, and before anything is read.
        """
        is_logged_in = getattr(self.request, "user", None) and self.request.user.is_authenticated
        if is_logged_in and self._may_view_or_be_told():
            return None
        refused = self.site.refused(self.request)
        if refused is None:
            raise PermissionDenied
        return refused

    def _may_view_or_be_told(self) -> bool:
        """Tell whether the user may view the pages, or is told that the setting is wrong."""
        try:
            return self.site.may_view(self.request)
        except ConfigurationError:
            return access.may_be_told(self.request.user)

    def page(
        self, title: str | Promise, template: str | None = None, status: int = 200, **context: Any
    ) -> TemplateResponse:
        """Return a page in its frame, or only its live part if htmx asks for it."""
        template = template or self.template
        return framed(self.site, self.request, template, status, title=title, **context)

    def problem(self, problem: Problem, **context: Any) -> TemplateResponse:
        """Return a page that says what went wrong."""
        return problem_page(self.site, self.request, problem, **context)

    def about(self, queue: Queue, reading: Reading) -> dict[str, Any]:
        """Return what all pages of a queue show."""
        return {
            "queue": queue,
            "queue_address": self.addresses.queue(queue.name),
            "home_address": self.addresses.queue(queue.home) if queue.is_part else "",
            "find_address": self.addresses.find(),
            "has_tasks": reading.task is not None,
        }

    def catalog(self) -> Catalog:
        """Return the catalog, to be read within the timeout."""
        return deadlines.limited_catalog(self.timeout_seconds, reads_only=True)

    def task_of(self, reading: Reading, queue: Queue, task_id: str) -> dict[str, Any] | None:
        """Return what the page of a task of a queue shows, None if there is none."""
        if reading.task is None:
            return None
        return reading.task(queue, task_id, self.addresses)

    def about_all(self, view: str) -> dict[str, Any]:
        """Return what the pages of all queues show: the way to the others, and to an id."""
        return {
            "view": view,
            "find_address": self.addresses.find(),
            "has_tasks": apps.is_installed("fdbqueue.tasks"),
            "more_views": [
                (page.name, page.title, self.addresses.more(page.name))
                for page in more_pages()
                if page.is_used()
            ],
        }


class ListView(PageView):
    """A page of rows: of all queues, or of some of them."""

    view = ""  # names the page among those of all queues
    title: str | Promise
    form: type[PageForm]

    def get(self, request: HttpRequest, **_parts: str) -> TemplateResponse:
        """Show what the parameters ask for, or point out bad parameters."""
        form = self.form(request.GET)
        shown = {"form": form, "live": refresh_of(request, form), **self.about_all(self.view)}
        if not form.is_valid():
            return self.page(self.title, status=400, **shown)
        return self.page(self.title, **shown, **self.rows(form))

    def rows(self, form: Any) -> dict[str, Any]:
        """Return what the template shows for a valid form."""
        raise NotImplementedError


def shown_id(sought: str) -> Preview:
    """Return an id that a reader has typed, as far as a page shows it."""
    return Preview(*clip(sought), decodable=True)
