"""Tell which worker of the server responded."""

from __future__ import annotations

import os
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

HEADER = "X-Worker"


def tell_worker(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Say in each answer which process it comes from."""

    def respond(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.headers[HEADER] = str(os.getpid())
        return response

    return respond
