"""The view of the metrics, for a scraper with permission."""

from __future__ import annotations

import re
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.utils.cache import add_never_cache_headers
from django.utils.decorators import method_decorator
from django.views import View
from prometheus_client.exposition import choose_encoder

from fdbqueue import access
from fdbqueue.metrics.exposition import registry

#: A version that is no number, with which prometheus_client fails.
_ODD_VERSION = re.compile(r"version\s*=(?!\s*([0-9]{1,4}(\.[0-9]{1,4}){0,2})?\s*(;|$))")


@method_decorator(login_not_required, name="dispatch")  # a scraper has a token
class MetricsView(View):
    """The metrics as text, in the format that the request accepts."""

    http_method_names = ["get", "head", "options"]  # noqa: RUF012  # as in the class above

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Check the permission, and forbid caching."""
        response = access.monitor_refusal(request) or super().dispatch(request, *args, **kwargs)
        add_never_cache_headers(response)
        return response

    def get(self, request: HttpRequest) -> HttpResponse:
        """Return the metrics."""
        encode, content_type = choose_encoder(_known(request.headers.get("Accept", "")))
        return HttpResponse(encode(registry()), content_type=content_type)


def _known(accept: str) -> str:
    """Return a header ``Accept`` without the formats whose version is no number."""
    return ",".join(one for one in accept.split(",") if not _ODD_VERSION.search(one))
