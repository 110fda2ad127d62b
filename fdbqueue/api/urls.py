"""The API's addresses: ``path("api/", include("fdbqueue.api.urls"))``.

The actions name their own (:mod:`fdbqueue.api.actions`): those of a queue are below
``queues/NAME/``, and those whose body names the queues are at the root, which lists them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.urls import NoReverseMatch, re_path, resolve
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.routers import SimpleRouter

from fdbqueue.api import inputs, requests
from fdbqueue.api.actions import declarations
from fdbqueue.api.base_view import BaseView
from fdbqueue.api.unknown import NoSuchAddress
from fdbqueue.api.viewsets import QueueViewSet

#: What projects call drf-spectacular's views, in its documentation and in this one's.
_DOCUMENTATION = ("schema", "docs", "swagger-ui", "redoc")
_OF_SEVERAL = {one.path: one.name for one in declarations(QueueViewSet) if one.names_queues}


class ApiRoot(BaseView):
    """The addresses below this one. Each of them checks what you may do there."""

    name = "API root"
    permission_classes = (IsAuthenticated,)
    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check the address before all else, as each view of the API does."""
        requests.check_address(request)
        super().initial(request, *args, **kwargs)

    def get(self, request: Request) -> Response:
        """List the API's addresses, and the ones of its documentation if the user may read it."""
        requests.query(request, inputs.NoParameters)
        namespace = request.resolver_match.namespace  # type: ignore[union-attr]  # it was resolved
        within = f"{namespace}:" if namespace else ""
        names = {"queues": "queue-list", **{path: path for path in _OF_SEVERAL}}
        own = {key: reverse(within + name, request=request) for key, name in names.items()}
        return Response({**own, **dict(_documentation(request))})


def _documentation(request: Request) -> Iterator[tuple[str, str]]:
    """Yield the names and addresses of drf-spectacular's views that a user may read."""
    for name in _DOCUMENTATION:
        try:
            path = reverse(name)
        except NoReverseMatch:
            continue
        if _may_read(request, resolve(path).func):
            yield name, request.build_absolute_uri(path)


def _may_read(request: Request, view: Any) -> bool:
    """Tell whether a view is one of drf-spectacular's, and allows the request."""
    kind: Any = getattr(view, "cls", object)
    if not any(base.__module__ == "drf_spectacular.views" for base in kind.__mro__):
        return False
    one = kind(**getattr(view, "initkwargs", {}))
    return all(each.has_permission(request, one) for each in one.get_permissions())


app_name = "fdbqueue-api"
router = SimpleRouter()
router.register("queues", QueueViewSet, basename="queue")
_OWN = "|".join(["queues", *_OF_SEVERAL])

urlpatterns = [
    re_path(r"^\Z", ApiRoot.as_view(), name="root"),
    *router.urls,
    *(
        re_path(
            rf"^{path}/$",
            QueueViewSet.as_view({"post": name}, name=path.capitalize().replace("-", " ")),
            name=path,
        )
        for path, name in _OF_SEVERAL.items()
    ),
    re_path(rf"^(?:{_OWN})(?:/[\s\S]*)?$", NoSuchAddress.as_view()),
]
