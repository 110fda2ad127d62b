"""The pages without the admin: the same, behind the same permissions."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView, LogoutView
from django.core.checks import run_checks
from django.test import Client, modify_settings, override_settings
from django.urls import include, path, reverse

from project import settings as demo
from tests.pages.addresses import items, text
from tests.pages.conftest import person

LOGIN_REQUIRED = "django.contrib.auth.middleware.LoginRequiredMiddleware"
PLAIN = "/look/"

#: A project without the admin.
urlpatterns = [
    path("look/", include("fdbqueue.urls")),
    path("log-in/", LoginView.as_view(), name="log-in"),
    path("bye/", LogoutView.as_view(next_page="/log-in/"), name="bye"),
]


@pytest.fixture(autouse=True)
def _mounted(settings):
    settings.ROOT_URLCONF = __name__
    settings.LOGIN_URL = "/log-in/"
    with modify_settings(INSTALLED_APPS={"remove": ["django.contrib.admin"]}):
        yield


@pytest.fixture
def customer():
    """Somebody who is no staff and may view queues."""
    return person("customer", "view_queue", staff=False)


@pytest.fixture
def pages(queue):
    """The address of each page, all of something that exists."""
    item = queue("mail").push({"to": "ada"})
    return [PLAIN, f"{PLAIN}mail/", f"{PLAIN}mail/items/{item.id}/"]


def test_the_pages_have_names():
    """Those of ``fdbqueue.urls``."""
    assert reverse("fdbqueue:queue", args=["mail"]) == f"{PLAIN}mail/"


def test_the_pages_are_the_admins_without_the_admin(pages, customer, queue):
    """Staff is not asked for; links lead from page to page."""
    queue("mail").push_many(range(60))
    listed, one, item = (customer.get(page) for page in pages)
    assert {response.status_code for response in (listed, one, item)} == {200}
    assert f'href="{PLAIN}mail/"' in text(listed)
    assert f'href="{PLAIN}mail/items/{items(one)[0]}/"' in text(one)
    assert f'<a href="{PLAIN}">Queues</a>' in text(item)
    for response in (listed, one, item):
        assert text(response).count("<h1") == 1
        assert "/admin/" not in text(response)
        assert "/static/admin/" not in text(response)


@pytest.mark.parametrize(("required", "status"), [(False, 405), (True, 302)])
def test_the_middleware_asks_to_log_in_before_a_method_is_refused(
    pages, settings, required, status
):
    """405 is the pages' answer, and the middleware comes before them."""
    if required:
        settings.MIDDLEWARE = [*settings.MIDDLEWARE, LOGIN_REQUIRED]
    assert {Client().post(page).status_code for page in pages} == {status}


def test_a_project_puts_its_own_frame_around_the_pages(pages, customer, settings, tmp_path):
    """By a template of the same name."""
    folder = tmp_path / "templates" / "fdbqueue"
    folder.mkdir(parents=True)
    frame = "<title>Ours</title><main>{% block content %}{% endblock %}</main>"
    (folder / "base.html").write_text(frame)
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [tmp_path / "templates"]}]
    for page in pages:
        assert "<title>Ours</title>" in text(customer.get(page))


def test_a_project_changes_a_block_of_a_page(pages, customer, settings, tmp_path):
    """By a template that extends the one it replaces; the live part is changed too."""
    folder = tmp_path / "templates" / "fdbqueue"
    folder.mkdir(parents=True)
    changed = '{% extends "fdbqueue/queue.html" %}{% block items %}<p>Secret.</p>{% endblock %}'
    (folder / "queue.html").write_text(changed)
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [tmp_path / "templates"]}]
    for headers in ({}, {"HX-Request": "true"}):
        response = customer.get(pages[1], headers=headers)
        assert "<p>Secret.</p>" in text(response)
        assert items(response) == []


def test_the_markup_keeps_to_a_strict_policy(pages, customer):
    """Neither a script nor a style stands in it."""
    for page in pages:
        markup = text(customer.get(page))
        assert " style=" not in markup
        assert "<style" not in markup
        assert markup.count("<script") == markup.count('<script src="/static/')


def header(response):
    """Return the header of the frame."""
    found = re.search(r'<header class="fdbqueue-header">(.*?)</header>', text(response), re.DOTALL)
    return found[1]


def test_the_header_leads_to_the_queues_and_names_the_user(pages, customer):
    """On each page, those of errors too; the name is escaped."""
    customer = person("<b>eve</b>", "view_queue", staff=False)
    for page in [*pages, f"{PLAIN}nope/", f"{PLAIN}mail/items/nope/"]:
        shown = header(customer.get(page))
        assert f'<a class="fdbqueue-brand" href="{PLAIN}">Queues</a>' in shown
        assert "Logged in as <strong><bdi>&lt;b&gt;eve&lt;/b&gt;</bdi></strong>" in shown


@pytest.mark.parametrize("logout", ["bye", "/bye/"])
def test_a_user_logs_out_by_the_projects_address(pages, customer, settings, logout):
    """By a form with a token that is sent by POST; ``LOGOUT_URL`` is an address or a name."""
    settings.LOGOUT_URL = logout
    careful = Client(enforce_csrf_checks=True)
    careful.cookies = customer.cookies
    shown = header(careful.get(pages[1]))
    assert '<form method="post" action="/bye/">' in shown
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', shown)[1]
    assert careful.post("/bye/").status_code == 403
    assert careful.post("/bye/", {"csrfmiddlewaretoken": token}).url == "/log-in/"
    assert careful.get(pages[1]).status_code == 302


ELSEWHERE = [
    *("https://elsewhere.example/out", "//elsewhere.example/out", "///elsewhere.example/out"),
    "/\\elsewhere.example/out",  # which browsers read as //
]


@pytest.mark.parametrize("logout", [None, "", "no-such-name", *ELSEWHERE])
@pytest.mark.parametrize("staff", [False, True])
def test_without_an_address_of_the_project_the_pages_have_one(pages, settings, logout, staff):
    """A name that leads nowhere is none, and another host gets no token of this project."""
    settings.LOGOUT_URL = logout
    check_logs_out(person("leaver", "view_queue", staff=staff), pages, PLAIN)


@pytest.mark.parametrize("staff", [False, True])
def test_beside_the_admin_everybody_can_log_out(pages, staff):
    """Also those who are no staff, whom the admin's own address only sends elsewhere."""
    with (
        modify_settings(INSTALLED_APPS={"append": ["django.contrib.admin"]}),
        override_settings(ROOT_URLCONF="project.urls"),
    ):
        own = [page.replace(PLAIN, "/queues/") for page in pages]
        check_logs_out(person("leaver", "view_queue", staff=staff), own, "/queues/")


def test_whoever_may_view_queues_logs_in_to_the_demo(pages):
    """Staff or not: by its own page, which leads back."""
    person("keeper", "view_queue", staff=False)
    keeper = User.objects.get(username="keeper")
    keeper.set_password("keeper")
    keeper.save()
    visitor = Client()
    with (
        modify_settings(INSTALLED_APPS={"append": ["django.contrib.admin"]}),
        override_settings(ROOT_URLCONF="project.urls", LOGIN_URL=demo.LOGIN_URL),
    ):
        login = visitor.get("/queues/mail/").url
        assert "Username" in text(visitor.get(login))
        answer = visitor.post(login, {"username": "keeper", "password": "keeper"})
        assert (answer.status_code, answer.url) == (302, "/queues/mail/")
        assert visitor.get(answer.url).status_code == 200


def check_logs_out(client, pages, mount):
    """Check that the button of each page needs a token, and ends the session."""
    careful, cookies = Client(enforce_csrf_checks=True), client.cookies.copy()
    careful.cookies = client.cookies
    for page in pages:
        assert f'<form method="post" action="{mount}-/log-out/">' in header(careful.get(page))
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', text(careful.get(mount)))[1]
    assert careful.get(f"{mount}-/log-out/").status_code == 405
    assert careful.post(f"{mount}-/log-out/").status_code == 403
    assert careful.get(pages[1]).status_code == 200
    done = careful.post(f"{mount}-/log-out/", {"csrfmiddlewaretoken": token})
    assert (done.status_code, done.url) == (302, mount)
    stolen = Client()
    stolen.cookies = cookies
    assert {one.get(page).status_code for page in pages for one in (careful, stolen)} == {302}


class _Named:
    """A project whose log-out has Django's name, beside another one."""

    urlpatterns = [  # noqa: RUF012  # as Django has it
        path("look/", include("fdbqueue.urls")),
        path("accounts/", include("django.contrib.auth.urls")),
    ]


def test_the_log_out_of_django_is_found_by_its_name(customer, settings):
    """Without a setting."""
    settings.ROOT_URLCONF = _Named
    assert 'action="/accounts/logout/"' in header(customer.get(PLAIN))


def test_an_anonymous_visitor_has_no_name():
    """A method that is refused is refused in the frame, to anybody."""
    response = Client().post(PLAIN)
    assert response.status_code == 405
    assert "Logged in as" not in header(response)
    assert "This page accepts GET, HEAD" in text(response)


def warnings():
    """Return the ids of what the checks find."""
    return [
        message.id for message in run_checks() if (message.id or "").startswith("fdbqueue.W002")
    ]


@pytest.mark.parametrize(
    ("login", "address"),
    [
        ("/log-in/?by=name", "/log-in/?by=name&next="),
        ("log-in", "/log-in/?next="),
        ("", None),
        (None, None),
        ("no-such-name", None),
    ],
)
def test_where_an_anonymous_visitor_is_sent(pages, settings, login, address):
    """With the query of ``LOGIN_URL``; where that is no address, the page is 403."""
    settings.LOGIN_URL = login
    for page in [*pages, f"{PLAIN}nope/"]:
        response = Client().get(page)
        if address is None:
            assert response.status_code == 403
        else:
            assert (response.status_code, response.url) == (302, address + page)


def test_an_address_that_is_none_is_said_in_the_frame(pages, customer):
    """404 with the way back, for whoever may see the queue."""
    for rest in ("nothing/", "a/b/c/", "items/a/b/", "tasks/a/b/"):
        response = customer.get(f"{pages[1]}{rest}")
        assert response.status_code == 404
        assert "There is no page at this address." in text(response)
        assert f'<a href="{pages[1]}">' in text(response)
        assert Client().get(f"{pages[1]}{rest}").status_code == 302


@pytest.mark.parametrize(
    "login", ["/log-in/", "log-in", "/log-in/?by=name", "https://login.example.org/in"]
)
def test_a_login_that_exists_is_no_warning(settings, login):
    """An address, a name, or one of another host, which is not looked up."""
    settings.LOGIN_URL = login
    assert warnings() == []


@pytest.mark.parametrize("login", ["/accounts/login/", "no-such-name", "/log-in", "", None])
def test_a_login_that_leads_nowhere_is_a_warning(settings, login):
    """The check has an id of its own, says which address it is, and what to do."""
    settings.LOGIN_URL = login
    (found,) = [message for message in run_checks() if message.id == "fdbqueue.W002"]
    assert repr(str(login)) in found.msg
    assert "Set LOGIN_URL" in found.hint


def test_without_the_plain_pages_the_login_is_not_asked_for(settings):
    """A project whose pages are in the admin alone has no use for LOGIN_URL."""
    settings.LOGIN_URL = "/accounts/login/"
    with override_settings(ROOT_URLCONF=type("Bare", (), {"urlpatterns": []})):
        assert warnings() == []
