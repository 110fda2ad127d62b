"""The API's addresses: ``path("api/", include("fdbqueue.api.urls"))``."""

from __future__ import annotations

from django.urls import URLPattern, re_path
from rest_framework.routers import SimpleRouter

from fdbqueue.api.roots import ApiRoot
from fdbqueue.api.unknown import NoSuchAddress
from fdbqueue.api.viewsets import QueueViewSet

app_name = "fdbqueue-api"


def _of_several(name: str, action: str) -> URLPattern:
    """Return the address of an action whose body names the queues."""
    view = QueueViewSet.as_view({"post": action}, name=name.capitalize().replace("-", " "))
    return re_path(rf"^{name}/$", view, name=name)


router = SimpleRouter()
router.register("queues", QueueViewSet, basename="queue")

urlpatterns = [
    re_path(r"^\Z", ApiRoot.as_view(), name="root"),
    *router.urls,
    _of_several("pop-from", "pop_from"),
    _of_several("lease-from", "lease_from"),
    re_path(r"^(?:queues|pop-from|lease-from)(?:/[\s\S]*)?$", NoSuchAddress.as_view()),
]
