"""The metrics, for a scraper that is allowed to read them."""

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
    """Write the metrics as text, in the format that is asked for."""

    http_method_names = ["get", "head", "options"]  # noqa: RUF012  # as in the class above

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Refuse who may not read them, and let nobody keep the answer."""
        if may_read(request):
            response = super().dispatch(request, *args, **kwargs)
        else:
            response = self.refusal(request)
        add_never_cache_headers(response)
        return response

    def refusal(self, request: HttpRequest) -> HttpResponse:
        """Return the answer for who may not: 403 for a known user, and 401 for all others."""
        if getattr(getattr(request, "user", None), "is_authenticated", False):
            return HttpResponse(status=403)
        return HttpResponse(status=401, headers={"WWW-Authenticate": "Bearer"})

    def get(self, request: HttpRequest) -> HttpResponse:
        """Answer with the metrics."""
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return HttpResponse(encode(registry()), content_type=content_type)
