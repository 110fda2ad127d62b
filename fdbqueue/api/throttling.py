"""Throttles: how often a user may do what needs one permission.

The rates are the host project's, in DRF's own setting, beside its own rates:

    REST_FRAMEWORK = {"DEFAULT_THROTTLE_RATES": {"fdbqueue_push": "100/min"}}

The scopes are ``fdbqueue_view``, ``fdbqueue_push``, ``fdbqueue_pop`` and
``fdbqueue_lease``. Where there is no rate, there is no limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.settings import api_settings
from rest_framework.throttling import SimpleRateThrottle

from fdbqueue.api.parsing import identity


class QueueThrottle(SimpleRateThrottle):
    """Let a user do so often what needs one permission."""

    def __init__(self) -> None:
        """Do nothing: the rate is known when the action is."""

    def allow_request(self, request: Request, view: Any) -> bool:
        """Tell whether this request is within the rate."""
        self.scope = scope_of(view.required_permissions.get(view.purpose))
        rates: Mapping[str, Any] = api_settings.DEFAULT_THROTTLE_RATES or {}
        if rates.get(self.scope) is None:
            return True
        self.rate = rates[self.scope]
        self.num_requests, self.duration = self.parse_rate(self.rate)
        return super().allow_request(request, view)

    def get_cache_key(self, request: Request, view: Any) -> str:  # noqa: ARG002  # DRF's signature
        """Return what counts a user's requests; only users get here."""
        return self.cache_format % {"scope": self.scope, "ident": identity(request)}


def scope_of(permission: str | None) -> str:
    """Return the scope of what needs a permission: ``fdbqueue_push``."""
    return "" if permission is None else permission.replace(".", "_").removesuffix("_queue")
