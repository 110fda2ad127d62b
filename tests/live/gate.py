"""Requests that occupy their thread until a test releases them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

from django.http import HttpRequest, HttpResponse

from tests.engines.children import wait_until

HEADER = "X-Held"
#: Where each held request puts a file, and where this one ends them.
FOLDER, OPEN = "FDBQUEUE_TEST_GATE", "open"


def hold(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Hold the requests that have the header."""

    def respond(request: HttpRequest) -> HttpResponse:
        if HEADER in request.headers:
            folder = Path(os.environ[FOLDER])
            (folder / f"held-{secrets.token_hex(8)}").touch()
            wait_until((folder / OPEN).exists)
        return get_response(request)

    return respond
