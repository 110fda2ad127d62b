"""The browsable API: pages where the project has them, and forms that work."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.renderers import BrowsableAPIRenderer

from fdbqueue.api.actions import declarations
from fdbqueue.api.browsable import MAX_SHOWN_CHARACTERS
from fdbqueue.api.viewsets import QueueViewSet
from tests.api.test_errors import FAILING, ITEM, MAIL
from tests.cases import cases

#: What a browser sends, and what the scripts of the pages send.
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
SCRIPT = "text/html; q=1.0, */*"
#: Each address, and the status of its page.
PAGES = {
    "/api/": 200,
    "/api/queues/": 200,
    "/api/queues/mail/": 200,
    "/api/queues/mail/peek/": 200,
    "/api/queues/mail/items/": 200,
    "/api/queues/mail/dead-reasons/": 200,
    f"/api/queues/mail/items/{ITEM}/": 404,
    "/api/queues/nope/": 404,
    "/api/queues/mail/items/?limit=x": 400,
    "/api/queues/?x=" + "x" * 4_000: 414,
    "/api/pop-from/": 405,
    "/api/lease-from/": 405,
    **{
        f"/api/queues/mail/{one.path}/": 405
        for one in declarations(QueueViewSet)
        if one.method == "POST" and one.places
    },
}


def page(client, path, status=200, accept=BROWSER):
    """GET a page, and return its HTML."""
    response = client.get(path, headers={"Accept": accept})
    assert response.status_code == status
    assert response["Content-Type"] == "text/html; charset=utf-8"
    assert response["Cache-Control"] == "no-store"
    assert response["X-Request-ID"]
    assert "ETag" not in response
    return str(response.content.decode())


def filled_in(html):
    """Return the JSON that a page's form is filled in with."""
    found = re.search(r"<textarea[^>]*>(.*?)</textarea>", html, re.DOTALL)
    assert found
    return json.loads(unescape(found[1]))


@cases("path", PAGES)
@cases("accept", [BROWSER, SCRIPT, "text/html"])
def test_each_address_has_a_page(api, path, accept):
    """With its status, for browsers and for the scripts of the pages."""
    html = page(api, path, PAGES[path], accept)
    assert f"HTTP {PAGES[path]}" in html


@cases("path", PAGES)
def test_pages_have_no_scripts_of_their_own(api, path):
    """A strict policy of contents allows them: scripts are files, and styles are, too."""
    html = page(api, path, PAGES[path])
    inline = re.findall(r"<script(?![^>]*\bsrc=)([^>]*)>", html)
    assert inline == [' type="application/json" id="drf_csrf"']  # data, which nothing runs
    assert "<style" not in html
    assert not re.search(r"\son[a-z]+=", html)
    assert all(one.startswith("/static/") for one in re.findall(r'<script[^>]*src="([^"]+)"', html))


@cases("path", [path for path, status in PAGES.items() if status == 405])
def test_a_get_where_only_posts_do_something(api, queues, path):
    """It is 405 with a form that posts JSON, and takes nothing."""
    mail = queues.queue("mail")
    mail.push("kept")
    before = [each.id for each in mail]
    html = page(api, path, 405)
    assert re.search(rf'<form action="{path}" method="POST"', html)
    assert 'data-override="content-type"' in html
    assert isinstance(filled_in(html), dict)
    assert [each.id for each in mail] == before


@cases(
    ("path", "body"),
    [
        ("queues/mail/push/", {"value": ""}),
        ("queues/mail/pop/", {"end": "min", "limit": 1, "wait": 0}),
        ("queues/mail/lease/", {"end": "min", "limit": 1, "wait": 0, "seconds": 60}),
        ("queues/mail/ack/", {"lease": ""}),
        ("queues/mail/resume/", {}),
        ("queues/mail/purge/", {"state": "", "reason": None, "limit": 1000}),
        ("pop-from/", {"queues": [], "fair": None, "end": "min", "limit": 1, "wait": 0}),
    ],
)
def test_what_a_form_is_filled_in_with(api, path, body):
    """What is required, and the defaults of the rest; no state of items to purge."""
    assert filled_in(page(api, f"/api/{path}", 405)) == body


@pytest.fixture
def person(db, queues):
    """Somebody who has logged in; each POST needs the CSRF token."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root"))
    return client


def send(person, path, body, status, *, with_token=True):
    """Send a body as the page of an address does, and return the page that comes back."""
    html = page(person, path, 405)
    data = re.search(r'id="drf_csrf">(.*?)</script>', html, re.DOTALL)
    assert data
    csrf = json.loads(data[1])
    headers = {"Accept": SCRIPT, "X-Requested-With": "XMLHttpRequest"}
    if with_token:
        headers[csrf["csrfHeaderName"]] = csrf["csrfToken"]
    answer = person.post(path, body, content_type="application/json", headers=headers)
    assert answer.status_code == status
    assert answer["Content-Type"] == "text/html; charset=utf-8"
    return str(answer.content.decode())


def test_a_session_of_forms(person, queues):
    """Push, lease and ack through their forms; the integer and its page stay exact."""
    number = 12345678901234567890123456789
    html = send(person, "/api/queues/mail/push/", {"value": [number, "<b>&"]}, 201)
    assert str(number) in html
    assert "&lt;b&gt;&amp;" in html
    assert "<b>&" not in html
    html = unescape(send(person, "/api/queues/mail/lease/", {}, 200))
    lease = re.search(r'"lease": "([^"]+)"', html)
    assert lease
    assert '"acked": 1' in unescape(send(person, "/api/queues/mail/ack/", {"lease": lease[1]}, 200))
    assert queues.queue("mail").size() == 0


def test_a_form_of_another_site(person, queues):
    """Without the token it is 403, and as a form 415: nothing is taken."""
    item = queues.queue("mail").push("kept")
    send(person, "/api/queues/mail/pop/", {}, 403, with_token=False)
    form = {"_content_type": "application/json", "_content": "{}"}
    refused = person.post("/api/queues/mail/pop/", form, headers={"Accept": BROWSER})
    assert refused.status_code == 415
    assert [each.id for each in queues.queue("mail")] == [item.id]


@pytest.mark.parametrize("parameter", ["_method=POST", "_content={}", "format=json", "method=post"])
def test_no_parameter_makes_a_get_a_post(api, queues, parameter):
    """Neither does a header."""
    item = queues.queue("mail").push("kept")
    headers = {"Accept": BROWSER, "X-HTTP-Method-Override": "POST"}
    response = api.get(f"/api/queues/mail/pop/?{parameter}", headers=headers)
    assert response.status_code == 405
    assert [each.id for each in queues.queue("mail")] == [item.id]


def test_lists_link_to_what_they_list(api, queues):
    """Queues and items have links, a page that is not the last one to the next."""
    pushed = [queues.queue("mail").push(number) for number in range(3)]
    assert 'href="/api/queues/mail/"' in page(api, "/api/queues/")
    html = page(api, "/api/queues/mail/items/?limit=2")
    assert f'href="/api/queues/mail/items/{pushed[0].id}/"' in html
    following = re.search(r'href="(\?[^"]+)" rel="next"', html)
    assert following
    last = page(api, "/api/queues/mail/items/" + unescape(following[1]))
    assert pushed[2].id in last
    assert pushed[0].id not in last
    assert pushed[2].id in page(api, "/api/queues/mail/peek/?end=max")


def test_the_form_of_a_query(api):
    """It has the parameters with a default, as they are now."""
    html = page(api, "/api/queues/mail/items/?state=dead&limit=5")
    form = html[html.index('<form method="get"') :]
    assert re.findall(r'name="(\w+)"', form[: form.index("</form>")]) == [
        "end",
        "limit",
        "state",
        "order",
    ]
    assert "<option selected>dead</option>" in form
    assert 'value="5"' in form


def test_nothing_of_a_value_is_markup(api, queues):
    """Values, names of workers and what was asked for are text."""
    bad = "</pre><script>alert(1)</script>\"'&"
    queues.queue("mail").push({bad: [bad]})
    for path, status in (
        ("/api/queues/mail/peek/", 200),
        ("/api/queues/mail/items/?%3Cscript%3E=1", 400),
        ("/api/queues/mail/items/?limit=%22%3E%3Cscript%3E", 400),
        ("/api/queues/%3Cscript%3E/", 404),
    ):
        html = page(api, path, status)
        assert "<script>" not in html
        assert "script" in html


def test_what_is_too_long_to_show_is_cut(api, queues):
    """A page says that it has the beginning alone; a lone half of a character does no harm."""
    nested = "\\ud800"
    for _ in range(190):
        nested = [nested]
    mail = queues.queue("mail")
    mail.push_many([[nested, "x" * 90_000]] * 20)
    html = page(api, "/api/queues/mail/peek/?limit=20")
    assert "cut here" in html
    assert len(html) < 3 * MAX_SHOWN_CHARACTERS


class Plain(BrowsableAPIRenderer):
    """A project's own pages, without forms."""

    def get_context(self, *args):
        return {**super().get_context(*args), "name": "of the project"}

    def show_form_for_method(self, *args):
        return False


def test_the_projects_own_pages(api, settings):
    """What its class says holds here, too."""
    settings.REST_FRAMEWORK = {
        **settings.REST_FRAMEWORK,
        "DEFAULT_RENDERER_CLASSES": [
            "rest_framework.renderers.JSONRenderer",
            "tests.api.test_browsable.Plain",
        ],
    }
    html = page(api, "/api/queues/mail/pop/", 405)
    assert "<title>of the project" in html
    assert "<textarea" not in html


@pytest.mark.parametrize(
    "classes",
    [
        ["rest_framework.renderers.JSONRenderer"],
        ["rest_framework.renderers.StaticHTMLRenderer"],
        ["rest_framework.renderers.AdminRenderer"],
        [],
    ],
)
def test_projects_without_pages(api, settings, classes):
    """A browser gets JSON; who takes HTML alone is refused in JSON."""
    rest = {**settings.REST_FRAMEWORK, "DEFAULT_RENDERER_CLASSES": classes}
    settings.REST_FRAMEWORK = rest
    for path in ("/api/", "/api/queues/"):
        response = api.get(path, headers={"Accept": BROWSER})
        assert (response.status_code, response["Content-Type"]) == (200, "application/json")
        refused = api.get(path, headers={"Accept": "text/html"})
        assert (refused.status_code, refused["Content-Type"]) == (406, "application/json")


def test_a_page_of_an_engine_that_failed(client_with, settings):
    """It has the status and the code, and no trace."""
    settings.FDBQUEUE = {"ENGINE": FAILING, "OPTIONS": {"code": 1510}, "QUEUES": MAIL}
    client = client_with("view_queue", "pop_queue")
    assert "engine_error" in page(client, "/api/queues/mail/", 503)
    settings.FDBQUEUE = {"QUEUES": {"mail": {"kind": "x"}}}
    assert "configuration_error" in page(client, "/api/queues/mail/", 500)


@pytest.mark.parametrize("path", ["/api/pop-from/", "/api/lease-from/", "/api/queues/mail/push/"])
def test_who_may_not_send_a_form_is_not_shown_it(client_with, queues, path):
    """Also where the body names the queues."""
    needed = {"pop": "pop_queue", "lea": "lease_queue"}.get(path[5:8], "push_queue")
    others = {"view_queue", "push_queue", "pop_queue", "lease_queue"} - {needed}
    form = f'<form action="{path}" method="POST"'
    assert form in page(client_with(needed), path, 405)
    assert form not in page(client_with(*others), path, 405)


@pytest.mark.parametrize(
    ("login", "address"),
    [
        ("/log-in/", "/log-in/?next=/api/queues/"),
        ("/log-in/?by=name", "/log-in/?by=name&amp;next=/api/queues/"),
        ("", None),
        (None, None),
        ("no-such-name", None),
    ],
)
def test_where_to_log_in(anonymous, settings, login, address):
    """With the query that LOGIN_URL has; no link, and no failure, where it is no address."""
    settings.LOGIN_URL = login
    html = page(anonymous, "/api/queues/", 401)
    found = re.search(r'<a href="([^"]*)" rel="nofollow">Log in</a>', html)
    assert (found[1] if found else None) == address
