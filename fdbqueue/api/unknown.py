"""Answer unknown addresses with 404 in the API's own form.

The API does so below its own addresses. A project that serves nothing else below ``api/`` includes
this last, so that every other address there is answered alike:

    path("api/", include("fdbqueue.api.urls")),
    path("api/", include("fdbqueue.api.unknown")),
"""

from __future__ import annotations

from typing import Any

from django.urls import re_path
from rest_framework.request import Request

from fdbqueue.api import errors
from fdbqueue.api.base_view import BaseView


class NoSuchAddress(BaseView):
    """Answer 404 at unknown addresses, whatever the method.

    Otherwise Django would redirect an address without the last slash, and a client that follows
    would send a request without a body. A GET is not redirected either: an address has one form,
    with every method and whatever ``APPEND_SLASH`` says.
    """

    name, description = "No such address", ""
    http_method_names = []  # noqa: RUF012  # as Django declares it
    authentication_classes = ()
    permission_classes = ()
    throttle_classes = ()
    parser_classes = ()
    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002  # DRF's signature
        """Refuse the request before anything else.

        Raises:
            AddressNotFound: Always.
        """
        raise errors.AddressNotFound


urlpatterns = [re_path(r"^[\s\S]*$", NoSuchAddress.as_view())]
