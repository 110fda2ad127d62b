"""The view of the metrics, for a scraper with permission."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.utils.cache import add_never_cache_headers
from django.utils.decorators import method_decorator
from django.views import View
from prometheus_client.exposition import choose_encoder

from fdbqueue.metrics.access import may_read
from fdbqueue.metrics.exposition import registry


@method_decorator(login_not_required, name="dispatch")  # a scraper has a token
class MetricsView(View):
    """The metrics as text, in the format that the request accepts."""

    http_method_names = ["get", "head", "options"]  # noqa: RUF012  # as in the class above

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Check the permission, and forbid caching."""
        if may_read(request):
            response = super().dispatch(request, *args, **kwargs)
        else:
            response = self.refusal(request)
        add_never_cache_headers(response)
        return response

    def refusal(self, request: HttpRequest) -> HttpResponse:
        """Return the refusal: 403 for a user who is logged in, else 401."""
        if getattr(getattr(request, "user", None), "is_authenticated", False):
            return HttpResponse(status=403)
        return HttpResponse(status=401, headers={"WWW-Authenticate": "Bearer"})

    def get(self, request: HttpRequest) -> HttpResponse:
        """Return the metrics."""
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return HttpResponse(encode(registry()), content_type=content_type)
