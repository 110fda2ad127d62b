"""The base of the API's views: what every response has, whatever its address.

In the order in which Django REST framework serves a request:

1. ``dispatch`` gives the request its id, for logs and the response (``request_ids.py``).
2. ``initialize_request`` cuts the request's reference cycles.
3. ``initial`` negotiates the media type (``media.py``), then authenticates, checks the
   permission, and asks the throttles, which are remembered for the ``RateLimit`` headers.
4. The action runs. An exception becomes a response in ``errors.py``.
5. ``finalize_response`` makes an error a problem if the client prefers that, and adds the headers.
6. A page for people, and a GET that succeeded, is rendered at once: the page needs the view
   (``browsable.py``), and the ETag needs the body. Django renders the others.
7. ``dispatch`` clears the view.

Reference cycles: the view, request and response of Django REST framework refer to each other and to
themselves. Objects in such a cycle, and all they refer to, are freed only by a full garbage
collection: a parsed body of 5 MB can take 100 MB, and there may be ten of them before that. So each
cycle is cut when the framework no longer needs it, and reference counting frees the rest at once.

Entity tags: a GET whose response has not changed is 304, without a body (RFC 9110, 8.8.3). The tag
is a hash of the rendered body, so it is strong: two responses have one tag only if they are the
same byte for byte. It saves the client's bandwidth, not the server's reads.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers
from django.utils.http import parse_etags
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from fdbqueue.api import browsable, errors, request_ids, throttling
from fdbqueue.api.media import Negotiation, StrictJSONParser, StrictJSONRenderer

#: The client may keep the response for itself, and must ask before each use.
_CACHE_CONTROL = "private, no-cache"

_READS = frozenset({"GET", "HEAD"})
#: What a response depends on besides its address; Django adds Cookie if it reads a session.
_VARY = ("Accept", "Authorization")


class BaseView(APIView):
    """A view of the API; JSON is strict and errors have one shape, whatever the project's settings.

    Attributes:
        held: What is kept until the response is made, such as the memory of the body.
    """

    parser_classes: Sequence[type[BaseParser]] = (StrictJSONParser,)
    renderer_classes = (StrictJSONRenderer,)
    content_negotiation_class = Negotiation
    versioning_class = None
    format_kwarg = None  # no address has a suffix; what fails early is negotiated all the same

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Answer a request, and release its body and everything it refers to."""
        with (
            request_ids.bound(request),
            _forgotten(self),
            contextlib.ExitStack() as self.held,
        ):
            self._throttles: list[BaseThrottle] = []
            response: Any = super().dispatch(request, *args, **kwargs)
            if browsable.is_page(response):
                _render_page(self.request, response)
            elif _may_have_tag(request, response):
                _add_tag(request, response.render())
            return response

    def initialize_request(self, request: Any, *args: Any, **kwargs: Any) -> Request:
        """Return DRF's request, without its references to the view and to itself."""
        made = super().initialize_request(request, *args, **kwargs)
        made.parser_context.clear()
        return made

    def get_exception_handler(self) -> Callable[..., Response | None]:
        """Return the API's own, not the project's ``EXCEPTION_HANDLER``."""
        return errors.handle

    def get_renderers(self) -> list[BaseRenderer]:
        """Return the renderer of JSON, and the one of pages if the project has them on."""
        return [*super().get_renderers(), *browsable.renderers()]

    def get_throttles(self) -> list[BaseThrottle]:
        """Return the throttles of the project, and remember them for the headers."""
        self._throttles = list(super().get_throttles())
        return self._throttles

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the response with the headers that each has; caching is forbidden."""
        final = super().finalize_response(request, response, *args, **kwargs)
        errors.prefer_problem(request, final)
        final.headers.setdefault("Cache-Control", "no-store")
        own = {
            request_ids.HEADER: str(request_ids.current()),
            **throttling.headers(self._throttles),
        }
        for name, value in own.items():
            final.headers[name] = value
        patch_vary_headers(final, _VARY)
        final.add_post_render_callback(lambda rendered: rendered.renderer_context.clear())
        return final


@contextlib.contextmanager
def _forgotten(view: APIView) -> Iterator[None]:
    """Clear a view at the end: it refers to its own methods, its request and its response."""
    try:
        yield
    finally:
        vars(view).clear()


def _render_page(request: Request, response: Response) -> None:
    """Render a page without the body, which it does not show: its template would leave cycles."""
    for name in vars(request).keys() & {"_data", "_full_data"}:
        setattr(request, name, {})
    response.render()
    request.parser_context.clear()
    response.data = None


def _may_have_tag(request: HttpRequest, response: HttpResponse) -> bool:
    """Tell whether a client may ask for a response again: after a GET that succeeded."""
    return request.method in _READS and response.status_code == 200


def _add_tag(request: HttpRequest, response: Any) -> None:
    """Give a rendered response its tag, and make it 304 if the client has that already."""
    tag = f'"{hashlib.blake2b(response.content, digest_size=16).hexdigest()}"'
    response.headers["ETag"] = tag
    response.headers["Cache-Control"] = _CACHE_CONTROL
    if _includes(request.headers.get("If-None-Match", ""), tag):
        response.status_code = 304
        response.content = b""
        del response.headers["Content-Type"]


def _includes(header: str, tag: str) -> bool:
    """Tell whether ``If-None-Match`` has a tag, by the weak comparison that it asks for."""
    known = parse_etags(header) if header else []
    return known == ["*"] or tag in {one.removeprefix("W/") for one in known}
