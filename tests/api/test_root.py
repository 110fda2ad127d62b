"""The API's root: the addresses that there are."""

from __future__ import annotations

import pytest
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView
from rest_framework.permissions import IsAdminUser

HOST = "http://testserver"


def docs(request):
    """A project's own page, which is none of drf-spectacular's."""


urlpatterns = [
    path("q/", include("fdbqueue.api.urls", namespace="own")),
    path("s/", SpectacularAPIView.as_view(permission_classes=[IsAdminUser]), name="schema"),
    path("docs/", docs, name="docs"),
]


def test_the_root_lists_what_there_is(api):
    """Each address leads somewhere, those of the documentation included."""
    found = api.get("/api/").json()
    assert found == {
        "queues": f"{HOST}/api/queues/",
        "pop-from": f"{HOST}/api/pop-from/",
        "lease-from": f"{HOST}/api/lease-from/",
        "schema": f"{HOST}/api/schema/",
        "docs": f"{HOST}/api/docs/",
        "redoc": f"{HOST}/api/redoc/",
    }
    for address in found.values():
        assert api.get(address).status_code in {200, 405}


def test_the_root_needs_credentials(anonymous):
    """Nobody is told what there is."""
    response = anonymous.get("/api/")
    assert (response.status_code, response.json()["code"]) == (401, "not_authenticated")


def test_the_root_of_another_place(client_with, settings, queues):
    """Addresses are reversed; documentation that the user may not read is not listed."""
    settings.ROOT_URLCONF = "tests.api.test_root"
    client = client_with()
    own = {
        "queues": f"{HOST}/q/queues/",
        "pop-from": f"{HOST}/q/pop-from/",
        "lease-from": f"{HOST}/q/lease-from/",
    }
    assert client.get("/q/").json() == own
    client.handler._force_user.is_staff = True
    assert client.get("/q/").json() == {**own, "schema": f"{HOST}/s/"}


@pytest.mark.parametrize(
    ("method", "address", "status", "code"),
    [
        ("get", "/api/?x=1", 400, "invalid_input"),
        ("get", "/api/?x=" + "x" * 4_000, 414, "address_too_long"),
        ("post", "/api/", 405, "method_not_allowed"),
        ("delete", "/api/", 405, "method_not_allowed"),
    ],
)
def test_bad_requests_to_the_root(api, method, address, status, code):
    """They are refused in the API's own form."""
    response = getattr(api, method)(address)
    assert (response.status_code, response.json()["code"]) == (status, code)


def test_what_the_root_takes(api):
    """OPTIONS tells, and HEAD has the headers alone."""
    assert api.options("/api/").json()["name"] == "API root"
    assert api.head("/api/").status_code == 200
