"""The API's addresses: ``path("api/", include("fdbqueue.api.urls"))``."""

from __future__ import annotations

from rest_framework.routers import SimpleRouter

from fdbqueue.api.viewsets import QueueViewSet

app_name = "fdbqueue-api"

router = SimpleRouter()
router.register("queues", QueueViewSet, basename="queue")

urlpatterns = router.urls
