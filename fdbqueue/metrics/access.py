"""Who may read the metrics: who has the token, or may view all queues; nobody else."""

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
    """Tell whether a request has the setting's token, or its user may view all queues."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    token = getattr(settings, SETTING, None)
    if scheme.lower() == "bearer" and token is not None and _is_good(token):
        return constant_time_compare(given.strip(), token)
    return access.may_in_general(getattr(request, "user", None), access.VIEW)


def check_token(**_: Any) -> list[CheckMessage]:
    """Report a token that is too easily guessed: it lets nobody in."""
    token = getattr(settings, SETTING, None)
    if token is None or _is_good(token):
        return []
    return [
        Error(
            f"{SETTING} is not a text of {MIN_TOKEN_CHARACTERS} characters or more.",
            hint="Make one with secrets.token_urlsafe(), or leave the setting out.",
            id="fdbqueue_metrics.E001",
        )
    ]


def check_folder(**_: Any) -> list[CheckMessage]:
    """Report that what processes share their metrics in is not there: nothing is measured."""
    folder = os.environ.get(FOLDER)
    if folder is None or is_folder(folder):
        return []
    return [
        Error(
            f"{FOLDER} {folder!r} is no folder.",
            hint="Make it before the server starts, and empty it.",
            id="fdbqueue_metrics.E002",
        )
    ]


def _is_good(token: Any) -> bool:
    return isinstance(token, str) and len(token) >= MIN_TOKEN_CHARACTERS
