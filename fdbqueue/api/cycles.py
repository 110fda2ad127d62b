"""Cut the reference cycles of DRF's views, so that a body is freed with its response.

DRF's view, request and response refer to each other and to themselves. Objects in such a cycle,
and all they refer to, are freed only by a full garbage collection: a parsed body of 5 MB can take
100 MB, and there may be ten of them before that. So each cycle is cut when DRF no longer needs it,
and reference counting frees the rest at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView


@contextlib.contextmanager
def forgotten(view: APIView) -> Iterator[None]:
    """Clear a view at the end: it refers to its own methods, its request and its response."""
    try:
        yield
    finally:
        vars(view).clear()


def cut_request(request: Request) -> Request:
    """Return a request whose parser context refers to neither the view nor the request."""
    request.parser_context.clear()
    return request


def render_page(request: Request, response: Response) -> None:
    """Render a page without the body, which it does not show: its template leaves cycles behind."""
    for name in vars(request).keys() & {"_data", "_full_data"}:
        setattr(request, name, {})
    response.render()
    request.parser_context.clear()
    response.data = None


def cut_response(response: Response) -> Response:
    """Return a response that clears its context, a cycle, once it is rendered."""
    response.add_post_render_callback(_forget_context)
    return response


def _forget_context(response: Any) -> None:
    response.renderer_context.clear()
