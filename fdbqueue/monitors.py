"""What monitors may read: the metrics, and the health of the queues.

A monitor has the token of the setting, or is a user who may view all queues. What it reads of a
project with very many queues is bounded.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare

from fdbqueue import access
from fdbqueue.service import Catalog

SETTING = "FDBQUEUE_METRICS_TOKEN"
MIN_TOKEN_CHARACTERS = 16

#: At most this many queues of patterns are read.
MAX_PATTERNED = 1_000
#: This many queues are read in one transaction.
QUEUES_AT_ONCE = 200


def refusal(request: HttpRequest) -> HttpResponse | None:
    """Return the refusal of a request: 403 for a user who is logged in, else 401.

    None for a request with the token, or by a user who may view all queues.
    """
    if _may_read(request):
        return None
    if getattr(getattr(request, "user", None), "is_authenticated", False):
        return HttpResponse(status=403)
    return HttpResponse(status=401, headers={"WWW-Authenticate": "Bearer"})


def is_good_token(token: Any) -> bool:
    """Tell whether a token may be used: a short one could be guessed."""
    return isinstance(token, str) and len(token) >= MIN_TOKEN_CHARACTERS


def queue_names(catalog: Catalog) -> tuple[list[str], bool]:
    """Return the names of the queues that monitors read, and whether these are all.

    The plain names come first, and then the first names that fit patterns.
    """
    names = catalog.plain_names()
    plain = set(names)
    listed = catalog.names(limit=len(plain) + MAX_PATTERNED + 1)
    patterned = [name for name in listed if name not in plain]
    return [*names, *patterned[:MAX_PATTERNED]], len(patterned) <= MAX_PATTERNED


def _may_read(request: HttpRequest) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    token = getattr(settings, SETTING, None)
    if scheme.lower() == "bearer" and token is not None and is_good_token(token):
        return constant_time_compare(given.strip(), token)
    return access.may_in_general(getattr(request, "user", None), access.VIEW)
