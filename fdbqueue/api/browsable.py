"""The browsable API: each response as an HTML page, with a form to send the next request.

It is on if the project has Django REST framework's ``BrowsableAPIRenderer``, or a class of its
own that inherits from it, among ``DEFAULT_RENDERER_CLASSES``; the project's class and its template
frame the page. The forms send JSON, by the scripts of Django REST framework and with the CSRF
token: the API takes no HTML forms, which a page of another site could send.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from django.apps import apps
from django.core.exceptions import PermissionDenied
from django.http import Http404
from rest_framework import serializers
from rest_framework.authentication import SessionAuthentication
from rest_framework.fields import empty
from rest_framework.renderers import AdminRenderer, BaseRenderer, BrowsableAPIRenderer
from rest_framework.request import Request
from rest_framework.settings import api_settings
from rest_framework.utils.encoders import JSONEncoder

from fdbqueue import access
from fdbqueue.api.actions import declaration
from fdbqueue.exceptions import FdbQueueError

#: A page shows this much of a response; indented, a nested value of 100 kB becomes 80 MB.
MAX_SHOWN_CHARACTERS = 100_000
_MAX_LINKS = 100

#: Who may not send a request, or cannot be asked, is not offered it.
_REFUSALS = (FdbQueueError, PermissionDenied, Http404)
_encoder = JSONEncoder(ensure_ascii=False, allow_nan=False, indent=2)


class Parameter(NamedTuple):
    """A parameter in the form of a query.

    Attributes:
        name: What the query calls it.
        value: What it is now.
        choices: What it may be, empty for anything.
        help_text: What it is for.
    """

    name: str
    value: Any
    choices: Sequence[str]
    help_text: str


class Link(NamedTuple):
    """A link to the page of a queue or an item."""

    text: str
    address: str


class BrowsablePage(BrowsableAPIRenderer):
    """Render a response of the API as a page; what the project's class does otherwise stays."""

    template = "fdbqueue/api.html"

    def get_context(
        self, data: Any, accepted_media_type: str | None, renderer_context: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return what the template needs."""
        request = renderer_context["request"]
        if "_user" not in vars(request):  # it was refused before its credentials were read
            make_nobody: Any = api_settings.UNAUTHENTICATED_USER
            request.user = make_nobody() if make_nobody else None
        context = super().get_context(data, accepted_media_type, renderer_context)
        view, is_read = context["view"], request.method in {"GET", "HEAD"}
        return {
            **context,
            "frame": super().template,
            "api_settings": {},  # the template offers ?format=, which the API does not have
            "code_style": "",  # an inline style
            "takes_only_posts": context["response"].status_code == 405 and is_read,
            "parameters": list(_parameters(view, request)),
            "extra_actions": None,  # its menu has an inline style
            "actions": context["extra_actions"] or {},
            "links": _links(view, data) if is_read else {},
            "following": _following(request, data) if is_read else None,
            "log_in": _log_in(view, request),
        }

    def get_content(
        self,
        renderer: BaseRenderer | None,  # noqa: ARG002  # JSON is the one
        data: Any,
        accepted_media_type: str | None,  # noqa: ARG002  # as above
        renderer_context: Any,  # noqa: ARG002  # as above
    ) -> str:
        """Return the indented JSON of the response, the beginning if it is long."""
        return "" if data is None else _cut(_encoder.iterencode(data))

    def get_raw_data_form(self, data: Any, view: Any, method: str, request: Request) -> Any:
        """Return the form of a body, filled in with its defaults."""
        form = None
        with contextlib.suppress(*_REFUSALS):
            form = super().get_raw_data_form(data, view, method, request)
        if form is not None:
            form.fields["_content"].initial = _encoder.encode(_body(view, method))
        return form

    def get_rendered_html_form(self, data: Any, view: Any, method: str, request: Request) -> Any:
        """Tell whether there is a button for a method without a body."""
        with contextlib.suppress(*_REFUSALS):
            return super().get_rendered_html_form(data, view, method, request)
        return None

    def get_description(self, view: Any, status_code: int) -> str:
        """Return the first line about the action."""
        described = super().get_description(view, status_code)
        handler = getattr(view, _action(view) or "", None)
        return (handler.__doc__ or "").partition("\n")[0] if described and handler else described

    def get_name(self, view: Any) -> str:
        """Return the heading of a page: on a queue's page the queue's name."""
        names = {"List": "Queues", "Instance": view.kwargs.get("name")}
        return str(names.get(getattr(view, "suffix", "")) or super().get_name(view))

    def get_breadcrumbs(self, request: Request) -> list[tuple[str, str]]:
        """Return the pages above this one, of which each address ends in a slash."""
        crumbs = [one for one in super().get_breadcrumbs(request) if one[1].endswith("/")]
        return [(_crumb(name, address), address) for name, address in crumbs]


def renderers() -> list[BaseRenderer]:
    """Return the renderer of pages in a list, which is empty if the project has them off."""
    if not apps.is_installed("rest_framework"):  # its templates cannot be found
        return []
    classes: Iterable[Any] = api_settings.DEFAULT_RENDERER_CLASSES
    found = (one for one in classes if issubclass(one, BrowsableAPIRenderer))
    own = next((one for one in found if not issubclass(one, AdminRenderer)), None)
    return [] if own is None else [_framed(own)()]


def is_page(response: Any) -> bool:
    """Tell whether a response is a page for people."""
    return isinstance(getattr(response, "accepted_renderer", None), BrowsablePage)


@functools.cache
def _framed(project: type[BrowsableAPIRenderer]) -> type[BrowsablePage]:
    return type("BrowsablePage", (BrowsablePage, project), {})


def _action(view: Any) -> str | None:
    """Return the action of a view's address."""
    return next(iter(getattr(view, "action_map", {}).values()), None)


def _crumb(name: str, address: str) -> str:
    """Return the last part of an address whose view shares its name with all views of queues."""
    return unquote(address.split("/")[-2]) if name.startswith("Queue ") else name


def _cut(chunks: Iterable[str]) -> str:
    text, length = [], 0
    for chunk in chunks:
        text.append(chunk)
        length += len(chunk)
        if length > MAX_SHOWN_CHARACTERS:
            text.append("\n")
            break
    shown = "".join(text)
    if length > MAX_SHOWN_CHARACTERS:
        shown = f"{shown[:MAX_SHOWN_CHARACTERS]}\n... (cut here; the response as JSON is whole)"
    return shown.encode(errors="backslashreplace").decode()  # lone surrogates, as JSON has them


def _body(view: Any, method: str) -> dict[str, Any]:
    """Return a body with what is required and the defaults."""
    action = declaration(view, view.action_map.get(method.lower()))
    fields = action.body().fields.items() if action and action.body else ()
    return {
        name: _initial(field) for name, field in fields if field.required or _has_default(field)
    }


def _initial(field: serializers.Field[Any, Any, Any, Any]) -> Any:
    if _has_default(field):
        return field.get_default()
    return [] if isinstance(field, serializers.ListField) else ""


def _has_default(field: serializers.Field[Any, Any, Any, Any]) -> bool:
    return field.default is not empty


def _parameters(view: Any, request: Request) -> Iterable[Parameter]:
    """Yield the parameters of a query that have a default: an empty one would be refused."""
    action = declaration(view, _action(view))
    for name, field in action.query().fields.items() if action else ():
        if _has_default(field):
            value = request.query_params.get(name, field.get_default())
            choices = list(getattr(field, "choices", ()))
            yield Parameter(name, value, choices, str(field.help_text or ""))


def _links(view: Any, data: Any) -> dict[str, list[Link]]:
    """Return links to the queues and the items that a response lists, of each the first hundred."""
    action, own = _action(view), view.kwargs.get("name")
    if not isinstance(data, dict) or "code" in data:
        return {}
    queues = data.get("queues", []) if action == "list" else []
    items = data.get("items", []) if action in {"items", "peek"} else []
    return {
        "queues": [
            Link(one["name"], _address(view, "detail", one["name"])) for one in queues[:_MAX_LINKS]
        ],
        "items": [
            Link(one["id"], _address(view, "item", own, one["id"])) for one in items[:_MAX_LINKS]
        ],
    }


def _address(view: Any, name: str, *args: Any) -> str:
    return str(view.reverse_action(name, args=args, request=None))


def _following(request: Request, data: Any) -> str | None:
    """Return the address of the next page."""
    cursor = data.get("cursor") if isinstance(data, dict) else None
    if cursor is None:
        return None
    query = request.query_params.copy()
    query["cursor"] = cursor
    return f"?{query.urlencode()}"


def _log_in(view: Any, request: Request) -> str | None:
    """Return where to log in, if that helps."""
    by_session = any(issubclass(one, SessionAuthentication) for one in view.authentication_classes)
    if getattr(request.user, "is_authenticated", False) or not by_session:
        return None
    return access.login_address(request.get_full_path())
