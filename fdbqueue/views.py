"""The views of the pages: only views of actions write to queues."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.transaction import non_atomic_requests
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.translation import gettext_lazy as _
from django.views.decorators.csrf import csrf_exempt, csrf_protect

from fdbqueue.exceptions import InvalidInput, ItemNotFound, ItemNotReady
from fdbqueue.pages import action_page, actions, item_page, queue_page
from fdbqueue.pages.forms import (
    ItemForm,
    PageForm,
    is_live_part,
    refresh_of,
)
from fdbqueue.pages.framing import PageView, read_only, shown_id
from fdbqueue.pages.problems import Problem, bad_form, item_not_found, item_not_ready
from fdbqueue.pages.queues_page import QueueListView
from fdbqueue.pages.readings import more_pages, reading_of
from fdbqueue.pages.sites import EVERY, PlainSite, actions_are_on
from fdbqueue.pages.workers_and_failures import DeadLettersView, FindView, WorkersView
from fdbqueue.service import Family, SeveralQueues


def of_site(
    view: type[PageView], wrap: Callable[..., Any], site: PlainSite
) -> Callable[..., HttpResponseBase]:
    """Return a page of a site: one that only reads, or the page of an action if these are on.

    Args:
        view: The page.
        wrap: Returns what the site has around its views, from the view.
        site: The site.
    """
    page = read_only(wrap(view.as_view(site=site)), site)
    if not issubclass(view, ActionView):
        return page
    acting = csrf_protect(wrap(view.as_view(site=site)))

    def chosen(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return (acting if actions_are_on() else page)(request, *args, **kwargs)

    acts = csrf_exempt(update_wrapper(chosen, page))  # acting checks it
    return non_atomic_requests(acts)  # what an action did is written down, whatever ends it


class QueueView(PageView):
    """The page of a queue: its settings, its figures, and its items."""

    def get(self, request: HttpRequest, name: str) -> HttpResponseBase:
        """Show the items that the parameters ask for, or point out bad parameters."""
        queue = self.catalog().queue(name)
        reading = reading_of(queue)
        form = reading.form(queue, request.GET)
        shown: dict[str, Any] = {}
        if form.is_valid():
            try:
                form, shown = queue_page.queue_details(
                    queue, form, reading, self.addresses, request.user
                )
            except InvalidInput:
                message = _("This address is not valid. Start again from the first page.")
                form.add_error(None, message)
        return self.page(
            queue.label,
            reading.template,
            status=200 if shown else 400,
            settings=queue_page.settings(queue, reading),
            form=form,
            live=refresh_of(request, form),
            **self.about(queue, reading),
            **shown,
        )


class ItemView(PageView):
    """The page of an item: its facts, its neighbours, and its value."""

    template = "item.html"

    def get(self, request: HttpRequest, name: str, item_id: str) -> HttpResponseBase:
        """Show an item, or say that it is not in the queue."""
        queue = self.catalog().queue(name)
        reading = reading_of(queue)
        about = self.about(queue, reading)
        form = ItemForm(request.GET)
        if not form.is_valid():
            return self.problem(bad_form(form), **about)
        try:
            details = item_page.item_details(queue, item_id)
        except (ItemNotFound, InvalidInput):
            return self.problem(item_not_found(), item_id=shown_id(item_id), **about)
        shown = item_page.facts_of(queue, details, self.addresses, reading)
        if not is_live_part(request):  # the value of an item never changes
            shown |= item_page.value_context(queue, details, form)
        return self.page(
            _("Item in %(queue)s") % {"queue": queue.label},
            live=refresh_of(request, form, can_change=item_page.is_cheap(details)),
            is_one=True,
            **about,
            **shown,
        )


class TaskView(PageView):
    """The page of a task: what it called, how its attempts went, and what came of it."""

    def get(self, request: HttpRequest, name: str, task_id: str) -> HttpResponseBase:
        """Show a task, or say that there is none."""
        queue = self.catalog().queue(name)
        reading = reading_of(queue)
        about = self.about(queue, reading)
        form = PageForm(request.GET)
        if not form.is_valid():
            return self.problem(bad_form(form), **about)
        shown = self.task_of(reading, queue, task_id)
        if shown is None:
            message = _(
                "This queue has no such task. It may have been removed after its retention."
            )
            missing = Problem(status=404, title=_("Task not found"), message=message)
            return self.problem(missing, task_id=shown_id(task_id), **about)
        live = refresh_of(request, form, can_change=shown["can_change"])
        return self.page(live=live, is_one=True, **about, **shown)


class ActionView(PageView):
    """The page of an action: GET asks, POST does it. There is none if the actions are off."""

    http_method_names = ["get", "head", "post"]  # noqa: RUF012  # as Django declares it
    template = "action.html"
    action: actions.PageAction
    of: actions.Of

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer as for any other address below a queue if there is no such action here."""
        found = actions.action_named(kwargs["action"]) if actions_are_on() else None
        if found is not None and (found.of_all or kwargs["name"] != EVERY):
            self.action = found
            return super().dispatch(request, *args, **kwargs)
        rest = f"do/{kwargs['action']}/"
        return NoPageView.as_view(site=self.site)(request, name=kwargs["name"], rest=rest)

    def get(self, request: HttpRequest, name: str, action: str) -> HttpResponseBase:  # noqa: ARG002  # Django's signature
        """Ask: say what is done to what, and what it means."""
        self._check(name)
        return self._asked(action_page.ActionForm(self.action, request))

    def post(self, request: HttpRequest, name: str, action: str) -> HttpResponseBase:
        """Do it, and lead back to the queue; or to the rest, if there is more to do."""
        self._check(name)
        form = action_page.ActionForm(self.action, request)
        if not form.is_valid() or not form.is_sent:
            return self._asked(form)
        try:
            self._check_form(form)
            outcome = action_page.perform(request, self.of, self.action, form)
        except ItemNotReady as error:
            return self.problem(item_not_ready(error), **self._about())
        except (ItemNotFound, InvalidInput):
            return self.problem(item_not_found(), **self._about())
        label, back = action_page.label_of(self.of), self._back()
        text = action_page.told(self.action, outcome, label)
        if outcome.rest:
            typed = {field.name: form.cleaned_data[field.name] for field in form.typed()}
            back = self.addresses.action(name, action) + form.address(**typed, **outcome.rest)
        if action_page.tell(request, text, is_done=outcome.number > 0):
            return HttpResponseRedirect(back)
        return self.page(text, "done.html", text=text, back=back, **self._about())

    def _failed(self, error: Exception, problem: Problem) -> HttpResponseBase:
        """Return the page of an error, with the form that sends a POST again if it may work."""
        response = super()._failed(error, problem)
        form = action_page.ActionForm(self.action, self.request)
        if response.status_code == 503 and self.request.method == "POST" and form.is_valid():
            return self.problem(problem, again=form)
        return response

    def _check(self, name: str) -> None:
        """Find the queue or the family; raise if there is none, or the user may not act on it."""
        if not action_page.may_act(self.request.user, name):
            raise PermissionDenied
        catalog = self.catalog()
        if name == EVERY:
            self.of = catalog.several(["*"])
        else:
            self.of = catalog.family(name) if "*" in name else catalog.queue(name)

    def _check_form(self, form: action_page.ActionForm) -> None:
        """Raise if a form is for items of a family, or for a task that the queue does not have.

        So it is if the user may not do it to another queue that it changes.
        """
        of, asked = self.of, form.cleaned_data
        ids = asked.get("id") or []
        if isinstance(of, Family):  # it has no items
            if ids or asked.get(self.action.of_list):
                raise ItemNotFound(queue=of.name, id="".join(ids))
        elif isinstance(of, SeveralQueues):
            if not self.action.chosen and not asked.get("worker"):
                raise ItemNotFound(queue=of.name, id="".join(ids))
        elif self.action.of_task:
            if self.task_of(reading_of(of), of, ids[0]) is None:
                raise ItemNotFound(queue=of.name, id=ids[0])
            if not action_page.may_act(self.request.user, *self.action.queues(ids[0])):
                raise PermissionDenied

    def _back(self) -> str:
        """Return the address of the queue or the family."""
        of = self.of
        if isinstance(of, SeveralQueues):
            return self.addresses.workers()
        if isinstance(of, Family):
            return self.addresses.queues(name=of.name)
        state = self.action.state
        return self.addresses.queue(of.name, state="" if state == "dead" else state)

    def _about(self) -> dict[str, Any]:
        of = self.of
        if isinstance(of, SeveralQueues):
            return {}
        return {"family": of} if isinstance(of, Family) else self.about(of, reading_of(of))

    def _asked(self, form: action_page.ActionForm) -> HttpResponseBase:
        about = self._about()
        if not form.is_valid():
            return self.problem(bad_form(form), **about)
        try:
            self._check_form(form)
            asked = action_page.question(self.of, self.action, form)
        except (ItemNotFound, InvalidInput):
            return self.problem(item_not_found(), **about)
        history = "" if isinstance(self.of, SeveralQueues) else self.site.history(self.of.name)
        ways: dict[str, Any] = {"back": self._back(), "history": history}
        return self.page(form=form, is_one=True, **ways, **asked, **about)


class NoPageView(PageView):
    """Says that there is nothing at an address below a queue's."""

    def get(self, request: HttpRequest, name: str, rest: str) -> HttpResponseBase:  # noqa: ARG002  # Django's signature
        """Say that there is no such page."""
        queue = self.catalog().queue(name)
        missing = Problem(
            status=404, title=_("Page not found"), message=_("There is no page at this address.")
        )
        return self.problem(missing, **self.about(queue, reading_of(queue)))


def page_patterns(
    page: Callable[[type[PageView]], Callable[..., HttpResponseBase]],
    url_name: Callable[[str], str] = str,
) -> list[URLPattern]:
    """Return the addresses of the pages, below the one where a site mounts them.

    Args:
        page: Returns the view of a page in the site.
        url_name: Returns the name of a page's URL in the site.
    """
    return [
        path("", page(QueueListView), name=url_name("queues")),
        path("-/workers/", page(WorkersView), name=url_name("workers")),  # no queue is called "-"
        path("-/failures/", page(DeadLettersView), name=url_name("failures")),
        path("-/find/", page(FindView), name=url_name("find")),
        *(path(f"-/{one.name}/", page(one.view), name=url_name(one.name)) for one in more_pages()),
        path("<str:name>/", page(QueueView), name=url_name("queue")),
        path("<str:name>/items/<str:item_id>/", page(ItemView), name=url_name("item")),
        path("<str:name>/tasks/<str:task_id>/", page(TaskView), name=url_name("task")),
        path("<str:name>/do/<str:action>/", page(ActionView), name=url_name("action")),
        path("<str:name>/<path:rest>/", page(NoPageView)),
    ]
