"""The API's addresses: ``path("api/", include("fdbqueue.api.urls"))``."""

from __future__ import annotations

from django.urls import re_path
from rest_framework.routers import SimpleRouter

from fdbqueue.api.unknown import NoSuchAddress
from fdbqueue.api.viewsets import QueueViewSet

app_name = "fdbqueue-api"

router = SimpleRouter()
router.register("queues", QueueViewSet, basename="queue")

urlpatterns = [
    *router.urls,
    re_path(r"^pop-from/$", QueueViewSet.as_view({"post": "pop_from"}), name="pop-from"),
    re_path(r"^lease-from/$", QueueViewSet.as_view({"post": "lease_from"}), name="lease-from"),
    re_path(r"^(?:queues|pop-from|lease-from)(?:/[\s\S]*)?$", NoSuchAddress.as_view()),
]
