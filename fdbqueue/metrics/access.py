"""Permission to read the metrics: by a token, or for users who may view all queues."""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare

from fdbqueue import access
from fdbqueue.metrics.exposition import FOLDER, is_folder

SETTING = "FDBQUEUE_METRICS_TOKEN"
MIN_TOKEN_CHARACTERS = 16


def may_read(request: HttpRequest) -> bool:
    """Tell whether a request has the token, or its user may view all queues."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    token = getattr(settings, SETTING, None)
    if scheme.lower() == "bearer" and token is not None and _is_good(token):
        return constant_time_compare(given.strip(), token)
    return access.may_in_general(getattr(request, "user", None), access.VIEW)


def check_token(**_: Any) -> list[CheckMessage]:
    """Report a token that is too short, which is never accepted."""
    token = getattr(settings, SETTING, None)
    if token is None or _is_good(token):
        return []
    return [
        Error(
            f"{SETTING} must be a string of at least {MIN_TOKEN_CHARACTERS} characters.",
            hint="Create a token with secrets.token_urlsafe(), or remove the setting.",
            id="fdbqueue_metrics.E001",
        )
    ]


def check_folder(**_: Any) -> list[CheckMessage]:
    """Report that the folder of the processes' metrics does not exist: nothing is exposed."""
    folder = os.environ.get(FOLDER)
    if folder is None or is_folder(folder):
        return []
    return [
        Error(
            f"{FOLDER} is {folder!r}, which is not a folder.",
            hint="Create the folder, or empty it, before the server starts.",
            id="fdbqueue_metrics.E002",
        )
    ]


def _is_good(token: Any) -> bool:
    return isinstance(token, str) and len(token) >= MIN_TOKEN_CHARACTERS
