"""Throttles: a rate limit for each user and permission, and what responses say about limits.

The rates are in DRF's own setting of the project:

    REST_FRAMEWORK = {"DEFAULT_THROTTLE_RATES": {"fdbqueue_push": "100/min"}}

The scopes are ``fdbqueue_view``, ``fdbqueue_push``, ``fdbqueue_pop``,
``fdbqueue_lease`` and ``fdbqueue_manage``. Without a rate there is no limit.

Responses have the headers ``RateLimit-Policy`` and ``RateLimit`` of
draft-ietf-httpapi-ratelimit-headers, one member for each limit that the request counted for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.settings import api_settings
from rest_framework.throttling import BaseThrottle, SimpleRateThrottle

from fdbqueue.access import identity
from fdbqueue.api.actions import Action

#: What a string of structured fields (RFC 9651) may have without an escape.
_NAME = re.compile(r"[A-Za-z0-9_.:/-]+")
#: How many requests are allowed, in how many seconds, and when the last one came.
_KEPT = ("num_requests", "duration", "now")


class QueueThrottle(SimpleRateThrottle):
    """Limit the requests of a user that need one permission."""

    def __init__(self) -> None:
        """Do nothing: the rate depends on the action, which is not known yet."""

    def allow_request(self, request: Request, view: Any) -> bool:
        """Tell whether this request is within the rate."""
        self.scope = _scope_of(view.purpose)
        rates: Mapping[str, Any] = api_settings.DEFAULT_THROTTLE_RATES or {}
        if rates.get(self.scope) is None:
            return True
        self.rate = rates[self.scope]
        self.num_requests, self.duration = self.parse_rate(self.rate)
        return super().allow_request(request, view)

    def get_cache_key(self, request: Request, view: Any) -> str:  # noqa: ARG002  # DRF's signature
        """Return the key that a user's requests are counted under; anonymous ones are refused."""
        return self.cache_format % {"scope": self.scope, "ident": identity(request.user)}


def _scope_of(action: Action | None) -> str:
    """Return the scope of an action's permission, such as ``fdbqueue_push``."""
    return "" if action is None else action.permission.replace(".", "_").removesuffix("_queue")


def headers(throttles: Iterable[BaseThrottle]) -> dict[str, str]:
    """Return the headers about the limits of throttles that were asked; none if there is none."""
    found = [limit for one in throttles for limit in _limit(one)]
    if not found:
        return {}
    policies, states = zip(*found, strict=True)
    return {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(states)}


def _limit(throttle: BaseThrottle) -> Iterator[tuple[str, str]]:
    """Yield the limit of a throttle, and how much of it is left, as the headers have them.

    Only DRF's own kind of throttle has them: it keeps the times of past requests, unless a
    project's class has changed that.
    """
    history = getattr(throttle, "history", None)
    if not isinstance(throttle, SimpleRateThrottle) or not isinstance(history, list):
        return
    name = str(getattr(throttle, "scope", None) or "default")
    kept: list[Any] = [getattr(throttle, one, None) for one in _KEPT]
    quota, window, now = kept
    oldest = history[-1] if history else now
    if _NAME.fullmatch(name) and all(isinstance(one, int | float) for one in (*kept, oldest)):
        remaining = max(int(quota) - len(history), 0)
        reset_seconds = max(math.ceil(window - (now - oldest)), 0)
        policy = f'"{name}";q={int(quota)};w={math.ceil(window)}'
        yield policy, f'"{name}";r={remaining};t={reset_seconds}'
