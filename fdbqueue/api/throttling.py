"""Throttles: a rate limit for each user and permission.

The rates are in DRF's own setting of the project:

    REST_FRAMEWORK = {"DEFAULT_THROTTLE_RATES": {"fdbqueue_push": "100/min"}}

The scopes are ``fdbqueue_view``, ``fdbqueue_push``, ``fdbqueue_pop``,
``fdbqueue_lease`` and ``fdbqueue_manage``. Without a rate there is no limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.settings import api_settings
from rest_framework.throttling import SimpleRateThrottle

from fdbqueue.access import identity
from fdbqueue.api.actions import Action


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
