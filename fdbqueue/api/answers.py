"""The base of the API's views: what every response has, whatever its address.

In the order in which Django REST framework serves a request:

1. ``dispatch`` gives the request its id, for logs and the response (``request_ids.py``).
2. ``initialize_request`` cuts the request's reference cycles (``cycles.py``).
3. ``initial`` negotiates the media type (``negotiation.py``), then authenticates, checks the
   permission, and asks the throttles, which are remembered for the ``RateLimit`` headers.
4. The action runs. An exception becomes a response in ``errors.py``.
5. ``finalize_response`` makes an error a problem where the client prefers that
   (``problems.py``), and adds the headers.
6. A page for people, and a GET that succeeded, is rendered at once: the page needs the view
   (``browsable.py``), and the ETag needs the body (``etags.py``). Django renders the others.
7. ``dispatch`` clears the view.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from django.utils.cache import patch_vary_headers
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from fdbqueue.api import browsable, cycles, errors, etags, problems, request_ids, throttling
from fdbqueue.api.media import StrictJSONParser, StrictJSONRenderer
from fdbqueue.api.negotiation import Negotiation

#: What a response depends on besides its address; Django adds Cookie where it reads a session.
_VARY = ("Accept", "Authorization")


class Answers(APIView):
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
            cycles.forgotten(self),
            contextlib.ExitStack() as self.held,
        ):
            self._throttles: list[BaseThrottle] = []
            response: Any = super().dispatch(request, *args, **kwargs)
            if browsable.is_page(response):
                cycles.render_page(self.request, response)
            elif etags.may_have_tag(request, response):
                etags.add_tag(request, response.render())
            return response

    def initialize_request(self, request: Any, *args: Any, **kwargs: Any) -> Request:
        """Return DRF's request, without its references to the view and to itself."""
        return cycles.cut_request(super().initialize_request(request, *args, **kwargs))

    def get_exception_handler(self) -> Callable[..., Response | None]:
        """Return the API's own, not the project's ``EXCEPTION_HANDLER``."""
        return errors.handle

    def get_renderers(self) -> list[BaseRenderer]:
        """Return the renderer of JSON, and that of pages where the project has them on."""
        return [*super().get_renderers(), *browsable.renderers()]

    def get_throttles(self) -> list[BaseThrottle]:
        """Return the throttles of the project, and remember them for the headers."""
        self._throttles = list(super().get_throttles())
        return self._throttles

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the response with the headers that each has; caching is forbidden."""
        final = super().finalize_response(request, response, *args, **kwargs)
        problems.prefer(request, final)
        final.headers.setdefault("Cache-Control", "no-store")
        own = {
            request_ids.HEADER: str(request_ids.current()),
            **throttling.headers(self._throttles),
        }
        for name, value in own.items():
            final.headers[name] = value
        patch_vary_headers(final, _VARY)
        return cycles.cut_response(final)
