"""The pages of Django REST framework, where the project has them: for people, with forms."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.api.test_crawling import ADDRESSES
from tests.api.test_errors import FAILING, ITEM, MAIL
from tests.cases import cases

#: What the scripts of the pages send.
SCRIPT = "text/html; q=1.0, */*"
#: Addresses that are refused, and the status of their pages.
REFUSED = {
    f"/api/queues/mail/items/{ITEM}/": 404,
    "/api/queues/nope/": 404,
    "/api/queues/mail/items/?limit=x": 400,
    "/api/queues/?x=" + "x" * 4_000: 414,
    "/api/queues/mail": 404,
    "/api/pop-from/": 405,
    "/api/queues/mail/push/": 405,
}


def page(client, path, status=200):
    """GET a page, and return its HTML."""
    response = client.get(path, headers={"Accept": "text/html"})
    assert response.status_code == status
    assert response["Content-Type"] == "text/html; charset=utf-8"
    assert response["X-Request-ID"]
    html = response.content.decode()
    assert f"HTTP {status}" in html
    return str(html)


@cases("path", ["/api/", *(path for path in ADDRESSES if "{id}" not in path)])
def test_each_address_has_a_page(api, queues, path):
    """With its status; one that takes POSTs alone has a form for JSON, and takes nothing."""
    mail = queues.queue("mail")
    mail.push("kept")
    before = [each.id for each in mail]
    response = api.get(path, headers={"Accept": "text/html"})
    html = page(api, path, response.status_code)
    assert response.status_code in {200, 405}
    assert (f'<form action="{path}" method="POST"' in html) == (response.status_code == 405)
    assert re.findall(r'<option value="([^"]+)"', html) == (
        ["application/json"] if response.status_code == 405 else []
    )
    assert [each.id for each in mail] == before


@cases("path", REFUSED)
def test_what_is_refused_is_refused_on_a_page(api, anonymous, path):
    """Whoever asks, and also before their credentials are read."""
    page(api, path, REFUSED[path])
    early = REFUSED[path] if REFUSED[path] == 414 or not path.split("?")[0].endswith("/") else 401
    page(anonymous, path, early)


def test_credentials_that_are_wrong(anonymous):
    """They are refused on a page, also if something else was wrong before."""
    for path, status in (("/api/queues/", 401), ("/api/queues/?x=" + "x" * 4_000, 414)):
        headers = {"Accept": "text/html", "Authorization": "Token none"}
        assert anonymous.get(path, headers=headers).status_code == status


def test_a_session_of_forms(db, queues):
    """Push and pop as the scripts of the pages do: JSON with the CSRF token, without it 403."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root"))
    number = 12345678901234567890123456789
    for verb, body in (("push", {"value": [number, "<b>&"]}), ("pop", {})):
        path = f"/api/queues/mail/{verb}/"
        data = re.search(r'id="drf_csrf">(.*?)</script>', page(client, path, 405), re.DOTALL)
        assert data
        csrf = json.loads(data[1])
        headers = {"Accept": SCRIPT, "X-Requested-With": "XMLHttpRequest"}
        send = {"data": body, "content_type": "application/json"}
        assert client.post(path, **send, headers=headers).status_code == 403
        headers[csrf["csrfHeaderName"]] = csrf["csrfToken"]
        html = client.post(path, **send, headers=headers).content.decode()
        assert str(number) in html
        assert "<b>&" in unescape(html)
        assert "<b>&" not in html
    form = {"_content_type": "application/json", "_content": "{}"}
    assert client.post("/api/queues/mail/pop/", form).status_code == 415
    assert queues.queue("mail").size() == 0


@pytest.mark.parametrize("path", ["/api/pop-from/", "/api/lease-from/", "/api/queues/mail/push/"])
def test_who_may_not_send_a_form_is_not_shown_it(client_with, queues, path):
    """Also where the body names the queues."""
    needed = {"pop": "pop_queue", "lea": "lease_queue"}.get(path[5:8], "push_queue")
    others = {"view_queue", "push_queue", "pop_queue", "lease_queue"} - {needed}
    form = f'<form action="{path}" method="POST"'
    assert form in page(client_with(needed), path, 405)
    assert form not in page(client_with(*others), path, 405)


def test_a_page_where_the_authorizer_fails(api, allow):
    """It is that of the error, or has no form: what may be offered cannot be asked."""
    allow(AUTHORIZER="tests.api.rules.looks_for_mial")
    assert "queue_not_found" in page(api, "/api/queues/quakes/", 404)
    assert "<form action" not in page(api, "/api/queues/quakes/pop/", 405)
    path, headers = "/api/queues/quakes/pop/", {"Accept": "text/html"}
    assert api.post(path, {}, headers=headers).status_code == 404


@pytest.mark.parametrize("parameter", ["_method=POST", "_content={}", "method=post"])
def test_no_parameter_makes_a_get_a_post(api, queues, parameter):
    """Neither does a header."""
    item = queues.queue("mail").push("kept")
    headers = {"Accept": "text/html", "X-HTTP-Method-Override": "POST"}
    response = api.get(f"/api/queues/mail/pop/?{parameter}", headers=headers)
    assert response.status_code == 405
    assert [each.id for each in queues.queue("mail")] == [item.id]


@pytest.mark.parametrize(("form", "kind"), [("json", "application/json"), ("api", "text/html")])
def test_a_parameter_chooses_the_renderer(api, form, kind):
    """That of Django REST framework, to which its pages link."""
    response = api.get(f"/api/queues/?format={form}")
    assert (response.status_code, response["Content-Type"].partition(";")[0]) == (200, kind)


def test_a_page_of_an_engine_that_failed(client_with, settings):
    """It has the status and the code, and no trace."""
    settings.FDBQUEUE = {"ENGINE": FAILING, "OPTIONS": {"code": 1510}, "QUEUES": MAIL}
    assert "engine_error" in page(client_with("view_queue"), "/api/queues/mail/", 503)
