"""Cut the reference cycles of DRF's views, so that a body dies with its response.

DRF's view, its request and its response refer to each other and to themselves. What is in such
a cycle waits for a full garbage collection, and so does what hangs on it: a body of 5 MB, parsed,
can take 100 MB, and ten of them may come before that collection. Here each cycle is cut when DRF
has no more use for it, and reference counting frees the rest at once.
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
    """Empty a view at the end: it holds its own methods, its request and its response."""
    try:
        yield
    finally:
        vars(view).clear()


def cut_request(request: Request) -> Request:
    """Return a request whose context for parsers holds neither the view nor the request."""
    request.parser_context.clear()
    return request


def cut_response(response: Response) -> Response:
    """Return a response that forgets its context, which holds itself, once it is rendered."""
    response.add_post_render_callback(_forget_context)
    return response


def _forget_context(response: Any) -> None:
    response.renderer_context.clear()
