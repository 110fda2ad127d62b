"""Two answers for whoever watches a process: it is alive, and its queues can be reached.

Anybody may ask, so they say nothing but that; why not is in the log.
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
from fdbqueue.service.transactions import error_code

logger = logging.getLogger(__name__)


@method_decorator(login_not_required, name="dispatch")
class HealthView(View):
    """What the two have in common: GET and HEAD only, and no answer is ever cached."""

    http_method_names = ["get", "head", "options"]  # noqa: RUF012  # as in the class above

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Answer, and let nobody keep it."""
        response = super().dispatch(request, *args, **kwargs)
        add_never_cache_headers(response)
        return response

    def get(self, request: HttpRequest) -> HttpResponse:
        """Answer 200, or 503."""
        del request
        if self.is_well():
            return JsonResponse({"status": "ok"})
        return JsonResponse({"status": "unavailable"}, status=503)

    def is_well(self) -> bool:
        """Tell which it is."""
        raise NotImplementedError


class LiveView(HealthView):
    """Say that this process answers; the engine is not asked."""

    def is_well(self) -> bool:
        """Tell that it is, since it was asked."""
        return True


class ReadyView(HealthView):
    """Say whether the engine answers: one read of one key, in a bounded time.

    Mount it yourself for another time: ``ReadyView.as_view(timeout_seconds=0.5)``.
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
