"""Who may see the pages, by which methods, and what of the stock admin is gone."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from fdbqueue import access
from tests.cases import cases
from tests.pages.addresses import LIST, of, text
from tests.pages.conftest import person

LOGIN_REQUIRED = "django.contrib.auth.middleware.LoginRequiredMiddleware"


@pytest.fixture
def pages(queue):
    """The address of each page, all of something that exists."""
    item = queue("mail").push({"to": "ada"})
    return [LIST, of("mail"), of("mail", item)]


@pytest.fixture(params=[False, True], ids=["", "LoginRequiredMiddleware"])
def middleware(request, settings):
    """The pages with and without the middleware that asks everybody to log in."""
    if request.param:
        settings.MIDDLEWARE = [*settings.MIDDLEWARE, LOGIN_REQUIRED]
        settings.LOGIN_URL = "/elsewhere/"


def test_the_names_of_the_addresses_are_the_admins():
    """The list is where the admin's own links look for it."""
    assert reverse("admin:fdbqueue_queuename_changelist") == LIST
    assert reverse("admin:fdbqueue_queuename_queue", args=["mail"]) == of("mail")


def test_an_anonymous_visitor_is_sent_to_the_admins_login(pages, middleware):
    """Not to LOGIN_URL, and back to the page afterwards."""
    for page in pages:
        response = Client().get(page)
        assert (response.status_code, response.url) == (302, f"/admin/login/?next={page}")


def test_a_user_who_is_no_staff_is_sent_to_the_admins_login(pages, middleware):
    """The permission alone does not open the admin."""
    customer = person("customer", "view_queue", staff=False)
    for page in pages:
        response = customer.get(page)
        assert (response.status_code, response.url) == (302, f"/admin/login/?next={page}")


def test_a_viewer_sees_every_page(pages, viewer, middleware):
    """``view_queue`` is enough."""
    assert [viewer.get(page).status_code for page in pages] == [200, 200, 200]


def test_staff_without_the_permission_see_no_page(pages, pusher):
    """Other permissions on queues do not let anybody look into them."""
    pages += [of("nope"), of("mail") + "items/nope/"]
    assert {pusher.get(page).status_code for page in pages} == {403}


def test_the_index_leads_to_the_queues(viewer):
    """The index, the app's page and the sidebar link to the list."""
    assert f'href="{LIST}"' in text(viewer.get("/admin/"))
    assert f'href="{LIST}"' in text(viewer.get("/admin/fdbqueue/"))
    assert f'href="{LIST}"' in text(viewer.get(of("mail")))


def test_the_index_hides_the_app_from_those_who_may_not_view(pusher):
    """What they could not open is not shown."""
    assert LIST not in text(pusher.get("/admin/"))
    assert pusher.get("/admin/fdbqueue/").status_code == 404


@cases("method", ["post", "put", "patch", "delete", "options", "trace"])
def test_a_page_refuses_methods_that_are_not_for_reading(method, pages, viewer):
    """405 for everything but GET and HEAD, and it says so; whoever asks, with a token or not."""
    careful = Client(enforce_csrf_checks=True)
    careful.cookies = viewer.cookies
    for page in pages:
        for client in (viewer, careful, Client()):
            response = getattr(client, method)(page)
            assert (response.status_code, response.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("stock", ["add/", "1/", "1/delete/", "mail/delete/"])
def test_no_form_of_the_stock_admin_is_reachable(stock, viewer):
    """They do not exist, for superusers neither."""
    root = Client()
    root.force_login(User.objects.create_superuser("root"))
    for client in (viewer, root):
        assert client.get(LIST + stock).status_code == 404
        assert client.post(LIST + stock).status_code in {404, 405}
        assert client.post(f"{LIST}mail/change/").status_code == 405
        assert client.get(f"{LIST}mail/change/").status_code == 302


def test_the_pages_keep_to_a_strict_policy(pages, viewer):
    """No style and no script stands in the markup of any page."""
    for page in pages:
        markup = text(viewer.get(page))
        assert markup.count("<script") == markup.count('<script src="/static/')
        assert " style=" not in markup
        assert "<style" not in markup
        assert markup.count("<h1") == 1


def test_a_bad_parameter_opens_nothing(pusher):
    """Who may not view the pages is refused, whatever is asked for."""
    for query in ("", "?page=x", "?sort=nothing"):
        assert pusher.get(LIST + query).status_code == 403


def test_who_was_deactivated_may_see_nothing(setting, settings):
    """The authorizer is not even asked."""
    settings.FDBQUEUE = {**setting, "API": {"AUTHORIZER": "tests.api.rules.may_everything"}}
    for name in (None, "mail"):
        assert access.may(User(pk=1), access.VIEW, name)
        assert not access.may(User(pk=1, is_active=False), access.VIEW, name)
