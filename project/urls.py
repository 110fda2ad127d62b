"""Where the demo project serves fdbqueue."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/", include("fdbqueue.api.urls")),
]
