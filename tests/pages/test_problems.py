"""Errors are shown in the frame of the site, with what happened and what to do."""

from __future__ import annotations

import re

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import include, path

from tests.cases import cases
from tests.pages.addresses import LIST, text
from tests.pages.conftest import person

PLAIN = "/look/"
urlpatterns = [path("admin/", admin.site.urls), path("look/", include("fdbqueue.urls"))]
FRAMES = {LIST: 'class="breadcrumbs"', PLAIN: 'class="fdbqueue-header"'}


@pytest.fixture(autouse=True)
def _mounted(settings):
    settings.ROOT_URLCONF = __name__


@pytest.fixture(params=FRAMES)
def mount(request):
    """Where the pages are: in the admin, or plain."""
    return request.param


@pytest.fixture
def root():
    """A superuser."""
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def assert_in_frame(response, mount, status, words):
    """A page of errors has its status, the frame of its site, and what it says."""
    assert response.status_code == status
    assert FRAMES[mount] in text(response)
    assert text(response).count("<h1") == 1
    assert words in text(response)
    assert "no-store" in response.headers["Cache-Control"]


def test_the_missing_permission_is_named(mount, pusher, queue):
    """403 in the frame; a queue that does not exist gets the same answer."""
    item = queue("mail").push(1)
    pages = ["", "mail/", f"mail/items/{item.id}/", "-/find/?id=x", "mail/tasks/x/"]
    for page in pages:
        response = pusher.get(mount + page)
        assert_in_frame(response, mount, 403, "Missing permission: fdbqueue.view_queue")
        assert f'href="{mount}">Back' not in text(response)
    bodies = {
        re.sub(r'value="[^"]*"', "", text(pusher.get(f"{mount}{name}/")))
        for name in ("mail", "nope")
    }
    assert len({body.replace("mail", "").replace("nope", "") for body in bodies}) == 1


def test_a_projects_rules_are_named(mount, viewer, setting, settings):
    """Where an authorizer decides, no permission would help."""
    api = {"AUTHORIZER": "tests.pages.test_sites.may_see_nothing"}
    settings.FDBQUEUE = {**setting, "API": api}
    for page in ("", "mail/"):
        response = viewer.get(mount + page)
        assert_in_frame(response, mount, 403, "The AUTHORIZER of this project refuses")
        assert "Missing permission" not in text(response)


@pytest.fixture
def silent(settings, setting):
    """An engine that does not answer."""
    settings.FDBQUEUE = {**setting, "ENGINE": "tests.pages.silent_engine", "OPTIONS": {}}


@pytest.mark.parametrize("page", ["", "mail/", "mail/items/ID/", "-/find/?id=ID"])
def test_superusers_are_told_why_the_queues_are_unavailable(
    mount, page, root, viewer, queue, request
):
    """Others are told that they are; the log has it, too."""
    page = page.replace("ID", queue("mail").push(1).id)
    request.getfixturevalue("silent")
    told = root.get(mount + page)
    assert_in_frame(told, mount, 503, "The queue database is not responding.")
    assert re.search(r"Cause: <bdi dir=\"ltr\"><code>\w+: .+</code>", text(told))
    untold = viewer.get(mount + page)
    assert_in_frame(untold, mount, 503, "The queue database is not responding.")
    assert "Cause:" not in text(untold)


def test_superusers_are_told_what_is_wrong_with_the_setting(mount, root, settings, setting):
    """The name of the queue and what is wrong with it, escaped."""
    settings.FDBQUEUE = {**setting, "QUEUES": {"<b>": {"kind": "heap"}}}
    response = root.get(f"{mount}mail/")
    assert_in_frame(response, mount, 503, "manage.py check")
    assert "ConfigurationError" in text(response)
    assert "&lt;b&gt;" in text(response)
    assert "<b>" not in text(response)


def test_a_queue_that_is_not_there_is_named(mount, viewer):
    """With one whose name is like it; escaped, and clipped."""
    for page in ("mial/", "mial/items/x/"):
        response = viewer.get(mount + page)
        assert_in_frame(response, mount, 404, "There is no queue with this name.")
        assert re.search(r"Queue: <bdi[^>]*>.*mial", text(response))
        assert f'<a id="closest" href="{mount}mail/">Did you mean mail?</a>' in text(response)
    response = viewer.get(f"{mount}<b>%E2%80%AE{'x' * 500}/")
    assert response.status_code == 404
    assert "&lt;b&gt;\\u202ex" in text(response)
    assert "x" * 100 not in text(response).partition("Queue:")[2].partition("</p>")[0]
    assert 'id="closest"' not in text(response)


@cases("method", ["post", "put", "patch", "delete", "options"])
def test_a_method_that_is_refused_is_refused_in_the_frame(mount, method, viewer, pusher):
    """405 that says what is allowed, whoever asks."""
    for client in (viewer, pusher, Client()):
        for page in ("", "mail/", "nope/", "mail/items/x/", "mail/items/", "mail/items/a/b/"):
            response = getattr(client, method)(mount + page)
            assert_in_frame(response, mount, 405, "accepts GET, HEAD")
            assert response.headers["Allow"] == "GET, HEAD"


def test_an_address_of_actions_refuses_a_method_in_the_frame(mount, settings, setting):
    """405 that says what is allowed, whether there is an action of the name or none."""
    settings.FDBQUEUE = {**setting, "PAGES": {"actions": True}}
    manager = person("manager", "view_queue", "manage_queue")
    for method in ("put", "delete", "options"):
        response = getattr(manager, method)(f"{mount}mail/do/pause/")
        assert_in_frame(response, mount, 405, "accepts GET, HEAD, POST;")
        assert response.headers["Allow"] == "GET, HEAD, POST"
    for method in ("post", "put", "delete", "options"):
        response = getattr(manager, method)(f"{mount}mail/do/pop/")
        assert_in_frame(response, mount, 405, "accepts GET, HEAD;")
        assert response.headers["Allow"] == "GET, HEAD"


def test_an_item_that_is_not_ready_any_more(mount, settings, setting, queue):
    """One that was leased between the form and its POST is not said to be gone."""
    settings.FDBQUEUE = {**setting, "PAGES": {"actions": True}}
    manager, mail = person("manager", "view_queue", "manage_queue"), queue("mail")
    item = mail.push(1)
    form = f"{mount}mail/do/bury/?id={item.id}"
    assert manager.get(form).status_code == 200
    mail.lease(seconds=900)
    response = manager.post(form)
    assert_in_frame(response, mount, 409, "This item is not ready any more")
    assert "“Leased”" in text(response)
    assert mail.get(item.id).state == "leased"


@cases("page", ["mail/items/a/b/", "mail/tasks/a/b/", "mail/items/../../x/"])
def test_an_address_below_a_queue_that_is_no_page(mount, page, viewer, pusher):
    """404 in the frame, with the way back; 403 for those who may not look."""
    response = viewer.get(mount + page)
    assert_in_frame(response, mount, 404, "There is no page at this address.")
    assert f'<a href="{mount}mail/">Back to the queue mail</a>' in text(response)
    assert pusher.get(mount + page).status_code == 403


def test_more_parameters_than_django_takes(mount, viewer):
    """400 in the frame, too."""
    for page in ("", "mail/", "mail/items/AAAA/", "-/find/"):
        response = viewer.get(mount + page + "?" + "&".join(f"p{n}=1" for n in range(1_500)))
        assert_in_frame(response, mount, 400, "There are too many parameters.")


def test_an_error_of_the_program_is_none_of_a_page(mount, viewer, monkeypatch):
    """It is raised, and not called an error of the database."""

    def fail(*_args, **_kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr("fdbqueue.pages.queue_page.queue_details", fail)
    with pytest.raises(ZeroDivisionError):
        viewer.get(f"{mount}mail/")
