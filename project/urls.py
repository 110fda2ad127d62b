"""Where the demo project serves fdbqueue."""

from django.contrib import admin
from django.contrib.auth.views import LoginView
from django.http import HttpResponse
from django.urls import include, path
from django.views.decorators.cache import cache_control
from django.views.decorators.http import conditional_page
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularAPIView, SpectacularRedocView, SpectacularSwaggerView

from project.demo import user
from project.schema import KeptSchemas

_login = LoginView.as_view(template_name="project/login.html", extra_context=user.ON_LOGIN)
_schema = cache_control(private=True, no_cache=True)(  # it is a reader's own: ask each time
    conditional_page(SpectacularAPIView.as_view(generator_class=KeptSchemas))
)
_swagger = SpectacularSwaggerView.as_view(url_name="schema", template_name="project/swagger.html")
_redoc = SpectacularRedocView.as_view(url_name="schema", template_name="project/redoc.html")

urlpatterns = [
    path("favicon.ico", lambda _: HttpResponse(status=204)),  # browsers ask, and the log tells
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
    path("login/", _login, name="login"),
    path("queues/", include("fdbqueue.urls")),
    path("api/", include("fdbqueue.api.urls")),
    path("api/schema/", _schema, name="schema"),
    path("health/", include("fdbqueue.health.urls")),
    path("metrics/", include("fdbqueue.metrics.urls")),
    path("api/docs/", _swagger, name="docs"),
    path("api/redoc/", _redoc, name="redoc"),
    path("api/", include("fdbqueue.api.unknown")),  # last: it answers every other address
]
