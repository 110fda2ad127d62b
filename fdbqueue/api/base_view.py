"""The base of the API's views: what every response has, whatever its address.

In the order in which Django REST framework serves a request:

1. ``dispatch`` gives the request its id, for logs and the response (``request_ids.py``).
2. ``initialize_request`` cuts the request's reference cycles.
3. ``initial`` negotiates the media type, then authenticates, checks the permission, and asks the
   throttles.
4. The action runs. An exception becomes a response in ``errors.py``.
5. ``finalize_response`` adds the headers.
6. Django renders the response, and the view is cleared.

Renderers, negotiation and throttles are those of the project's ``REST_FRAMEWORK``, and so is the
parser of JSON. Its other parsers are not used: a form has no types, and a page of another site can
send one.

Reference cycles: the view, request and response of Django REST framework refer to each other and to
themselves. Objects in such a cycle, and all they refer to, are freed only by a full garbage
collection: a parsed body of 5 MB can take 100 MB, and there may be ten of them before that. So each
cycle is cut when the framework no longer needs it, and reference counting frees the rest at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.utils.cache import patch_vary_headers
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.views import APIView

from fdbqueue.api import errors, request_ids
from fdbqueue.exceptions import FdbQueueError

JSON = "application/json"
#: The client may keep the response for itself, and must ask before each use.
_ASKED_AGAIN = "private, no-cache"
_PARSERS: Sequence[Any] = api_settings.DEFAULT_PARSER_CLASSES
_READS = frozenset({"GET", "HEAD"})
#: What a response depends on besides its address; Django adds Cookie if it reads a session.
_VARY = ("Accept", "Authorization")


class _AnyValue(JSONRenderer):
    """Render whatever a queue holds: if that failed after a pop, the items would be lost.

    Nothing is indented, for clients that ask for it and on pages: a nested value of 100 kB would
    become 80 MB, most of it spaces.
    """

    def get_indent(self, *_: Any) -> None:
        """Return that nothing is indented."""

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the bytes of the response, in ASCII if there is a lone surrogate."""
        try:
            return super().render(data, accepted_media_type, renderer_context)
        except UnicodeEncodeError:  # another program has pushed it
            self.ensure_ascii = True  # type: ignore[misc]  # of this response's renderer alone
            return super().render(data, accepted_media_type, renderer_context)


def _for_any_value(renderer: Any) -> type[BaseRenderer]:
    """Return a renderer of the project, which renders any value if it is one of JSON."""
    is_json = issubclass(renderer, JSONRenderer)
    return type(renderer.__name__, (_AnyValue, renderer), {}) if is_json else renderer


class BaseView(APIView):
    """A view of the API; errors have one shape, whatever the project's settings."""

    parser_classes: Sequence[type[BaseParser]] = tuple(
        one for one in _PARSERS if one.media_type == JSON
    )
    renderer_classes = tuple(map(_for_any_value, api_settings.DEFAULT_RENDERER_CLASSES))
    versioning_class = None
    format_kwarg = None  # no address has a suffix; what fails early is negotiated all the same

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Answer a request; its response, once rendered, releases all that it refers to."""
        with request_ids.bound(request):
            try:
                return super().dispatch(request, *args, **kwargs)
            except BaseException:
                vars(self).clear()  # no response will do that
                raise

    def initialize_request(self, request: Any, *args: Any, **kwargs: Any) -> Request:
        """Return DRF's request, without its references to the view and to itself."""
        made = super().initialize_request(request, *args, **kwargs)
        made.parser_context.clear()
        return made

    def check_permissions(self, request: Request) -> None:
        """Check that the user may do this.

        Raises:
            APIException: The user may not, or it could not be found out.
        """
        try:
            super().check_permissions(request)
        except (FdbQueueError, Http404, PermissionDenied) as error:
            raise errors.AuthorizerFailed from error

    def get_exception_handler(self) -> Callable[..., Response | None]:
        """Return the API's own, not the project's ``EXCEPTION_HANDLER``."""
        return errors.handle

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the response with the headers that each has; an error may not be kept."""
        final = super().finalize_response(request, response, *args, **kwargs)
        if "_user" not in vars(request):  # it was refused before its credentials were read: its
            cast("Any", request)._not_authenticated()  # noqa: SLF001  # page reads none either
        is_read = request.method in _READS and final.status_code == 200
        final.headers["Cache-Control"] = _ASKED_AGAIN if is_read else "no-store"
        final.headers[request_ids.HEADER] = str(request_ids.current())
        patch_vary_headers(final, _VARY)
        own = vars(self)

        def forget(rendered: Any) -> None:
            """Clear the view, which refers to its own methods, its request and its response."""
            rendered.renderer_context.clear()
            own.clear()

        final.add_post_render_callback(forget)
        return final
