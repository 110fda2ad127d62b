"""The API, a bare view whose users authenticate and are permitted alike, and one without users."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.urls import include, path
from rest_framework.authtoken.models import Token
from rest_framework.permissions import BasePermission
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from fdbqueue.access import VIEW


class MayView(BasePermission):
    """Let users do what the API's readers may do."""

    def has_permission(self, request: Request, view: Any) -> bool:  # noqa: ARG002  # DRF's signature
        """Tell whether the user may look into queues."""
        return bool(request.user and request.user.has_perm(VIEW))


class Bare(APIView):
    """Does nothing, for users who may look into queues."""

    permission_classes = (MayView,)
    renderer_classes = (JSONRenderer,)

    def get(self, request: Request) -> Response:  # noqa: ARG002  # Django's signature
        """Answer."""
        return Response({})


class Open(APIView):
    """Does nothing, for anybody: no user is looked up."""

    authentication_classes = ()
    permission_classes = ()
    renderer_classes = (JSONRenderer,)

    def get(self, request: Request) -> Response:  # noqa: ARG002  # Django's signature
        """Answer."""
        return Response({})


def make_token() -> str:
    """Return the token of a user who may do everything, who is made if need be."""
    user, _ = get_user_model().objects.get_or_create(username="benchmark")
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="fdbqueue"))
    return Token.objects.get_or_create(user=user)[0].key


urlpatterns = [
    path("api/", include("fdbqueue.api.urls")),
    path("bare/", Bare.as_view()),
    path("open/", Open.as_view()),
]
