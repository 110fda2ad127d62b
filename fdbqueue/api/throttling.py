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
from typing import Any, NamedTuple

from rest_framework.request import Request
from rest_framework.settings import api_settings
from rest_framework.throttling import BaseThrottle, SimpleRateThrottle

from fdbqueue.access import identity
from fdbqueue.api.actions import Action

#: What a string of structured fields (RFC 9651) may have without an escape.
_NAME = re.compile(r"[A-Za-z0-9_.:/-]+")


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


class Limit(NamedTuple):
    """A rate limit, and how much of it is left.

    Attributes:
        name: The throttle's scope.
        quota: How many requests are allowed in a window.
        window_seconds: How long a window lasts.
        remaining: How many more requests are allowed now.
        reset_seconds: When at least one more is allowed again.
    """

    name: str
    quota: int
    window_seconds: int
    remaining: int
    reset_seconds: int


def _scope_of(action: Action | None) -> str:
    """Return the scope of an action's permission, such as ``fdbqueue_push``."""
    return "" if action is None else action.permission.replace(".", "_").removesuffix("_queue")


def headers(throttles: Iterable[BaseThrottle]) -> dict[str, str]:
    """Return the headers about the limits of throttles that were asked; none if there is none."""
    limits = list(_limits(throttles))
    if not limits:
        return {}
    policies = (f'"{one.name}";q={one.quota};w={one.window_seconds}' for one in limits)
    states = (f'"{one.name}";r={one.remaining};t={one.reset_seconds}' for one in limits)
    return {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(states)}


def _limits(throttles: Iterable[BaseThrottle]) -> Iterator[Limit]:
    """Yield the limits of DRF's own kind of throttle, which keeps the times of past requests."""
    for throttle in throttles:
        history = getattr(throttle, "history", None)
        if isinstance(throttle, SimpleRateThrottle) and isinstance(history, list):
            yield from _limit(throttle, history)


def _limit(throttle: SimpleRateThrottle, history: list[Any]) -> Iterator[Limit]:
    """Yield the limit of a throttle, unless a project's class has changed what it keeps."""
    name = str(getattr(throttle, "scope", None) or "default")
    quota, window = getattr(throttle, "num_requests", None), getattr(throttle, "duration", None)
    now = getattr(throttle, "now", None)
    oldest = history[-1] if history else now
    is_usual = all(isinstance(one, int | float) for one in (quota, window, now, oldest))
    if not is_usual or not _NAME.fullmatch(name):
        return
    yield Limit(
        name=name,
        quota=int(quota),  # type: ignore[arg-type]  # it was looked at above
        window_seconds=math.ceil(window),  # type: ignore[arg-type]  # as above
        remaining=max(int(quota) - len(history), 0),  # type: ignore[arg-type]  # as above
        reset_seconds=max(math.ceil(window - (now - oldest)), 0),  # type: ignore[operator]  # as above
    )
