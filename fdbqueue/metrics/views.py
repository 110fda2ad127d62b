"""The view of the metrics, for a scraper with permission."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.utils.cache import add_never_cache_headers
from django.utils.decorators import method_decorator
from django.views import View
from prometheus_client.exposition import choose_encoder

from fdbqueue import monitors
from fdbqueue.metrics.exposition import registry


@method_decorator(login_not_required, name="dispatch")  # a scraper has a token
class MetricsView(View):
    """The metrics as text, in the format that the request accepts."""

    http_method_names = ["get", "head", "options"]  # noqa: RUF012  # as in the class above

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Check the permission, and forbid caching."""
        response = monitors.refusal(request) or super().dispatch(request, *args, **kwargs)
        add_never_cache_headers(response)
        return response

    def get(self, request: HttpRequest) -> HttpResponse:
        """Return the metrics."""
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return HttpResponse(encode(registry()), content_type=content_type)
