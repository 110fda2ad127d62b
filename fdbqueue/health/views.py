"""The health checks: is the process alive, and does its engine respond.

They need no login, so they say nothing else; the reason of a failure is in the log.
"""

from __future__ import annotations

import logging
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.cache import add_never_cache_headers
from django.utils.decorators import method_decorator
from django.views import View

from fdbqueue import deadlines
from fdbqueue.exceptions import FdbQueueError
from fdbqueue.service import error_code

logger = logging.getLogger(__name__)


@method_decorator(login_not_required, name="dispatch")
class HealthView(View):
    """A health check: GET and HEAD only, never cached."""

    http_method_names = ["get", "head", "options"]  # noqa: RUF012  # as in the class above

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Return the response, and forbid caching."""
        response = super().dispatch(request, *args, **kwargs)
        add_never_cache_headers(response)
        return response

    def get(self, request: HttpRequest) -> HttpResponse:
        """Return 200 if the check succeeds, else 503."""
        del request
        if self.is_well():
            return JsonResponse({"status": "ok"})
        return JsonResponse({"status": "unavailable"}, status=503)

    def is_well(self) -> bool:
        """Tell whether the check succeeds."""
        raise NotImplementedError


class LiveView(HealthView):
    """Check that this process responds; the engine is not used."""

    def is_well(self) -> bool:
        """Return True, because the process responds."""
        return True


class ReadyView(HealthView):
    """Check that the engine responds: read one key, within a timeout.

    For another timeout, use ``ReadyView.as_view(timeout_seconds=0.5)`` in your URLs.
    """

    #: How long the engine may take. A cluster that was never reached in this process may
    #: take the engine's ``connect_timeout_seconds`` instead.
    timeout_seconds: float = 2.0

    def is_well(self) -> bool:
        """Read from the engine."""
        try:
            deadlines.begin(self.timeout_seconds, reads_only=True).reach()
        except Exception as error:
            if not isinstance(error, FdbQueueError) and error_code(error) is None:
                raise
            reason = getattr(error, "code", None)
            logger.warning("the engine is not ready", extra={"reason": reason}, exc_info=error)
            return False
        return True
