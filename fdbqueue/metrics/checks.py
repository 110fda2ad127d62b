"""System checks of what the metrics need: the token, and the folder that processes share."""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error

from fdbqueue.access import MIN_TOKEN_CHARACTERS, MONITORS_SETTING, is_good_token
from fdbqueue.metrics.exposition import FOLDER, is_folder


def check_token(**_: Any) -> list[CheckMessage]:
    """Report a token that is too short, which is never accepted."""
    token = getattr(settings, MONITORS_SETTING, None)
    if token is None or is_good_token(token):
        return []
    return [
        Error(
            f"{MONITORS_SETTING} must be a string of at least {MIN_TOKEN_CHARACTERS} characters.",
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
