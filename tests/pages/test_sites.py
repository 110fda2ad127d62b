"""The pages on admin sites of a host's own, and under rules of its own."""

from __future__ import annotations

import re

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import path, reverse

from fdbqueue.admin import QueueAdmin
from fdbqueue.models import QueueName
from tests.pages.addresses import LIST, items, of, text
from tests.pages.conftest import person

LOGIN_REQUIRED = "django.contrib.auth.middleware.LoginRequiredMiddleware"


class OpenAdmin(QueueAdmin):
    """A host's own rule: all staff may view the pages."""

    def has_view_permission(self, request, obj=None):
        """Allow everybody."""
        return True


office = admin.AdminSite(name="office")
office.register(QueueName, QueueAdmin)
post = admin.AdminSite(name="post")
post.register(QueueName, OpenAdmin)

urlpatterns = [
    path("admin/", admin.site.urls),
    path("office/", office.urls),
    path("post/", post.urls),
]


@pytest.fixture
def mounted(settings):
    """A project with three admin sites."""
    settings.ROOT_URLCONF = __name__


@pytest.mark.parametrize("required", [False, True])
def test_another_site_has_pages_of_its_own(mounted, viewer, queue, settings, required):
    """Their links stay on the site, and its login is where one is sent."""
    if required:
        settings.MIDDLEWARE = [*settings.MIDDLEWARE, LOGIN_REQUIRED]
        settings.LOGIN_URL = "/elsewhere/"
    item = queue("mail").push(1)
    start = reverse("admin:fdbqueue_queuename_changelist", current_app="office")
    pages = [start, f"{start}mail/", f"{start}mail/items/{item.id}/"]
    assert start == "/office/fdbqueue/queuename/"
    for page in pages:
        response = viewer.get(page)
        assert response.status_code == 200
        assert LIST not in text(response)
        sent = Client().get(page)
        assert (sent.status_code, sent.url) == (302, f"/office/login/?next={page}")
    assert items(viewer.get(pages[1])) == [item.id]


def test_another_site_asks_for_the_permission(mounted, pusher, queue):
    """Being staff is not enough, on any site."""
    item = queue("mail").push(1)
    start = "/office/fdbqueue/queuename/"
    for page in (start, f"{start}mail/", f"{start}mail/items/{item.id}/", f"{start}nope/"):
        assert pusher.get(page).status_code == 403
        assert pusher.post(page).status_code == 405


def test_a_model_admin_of_the_hosts_own_decides(mounted, pusher, queue):
    """Its ``has_view_permission`` opens all pages, for users without a permission."""
    queue("mail").push(1)
    for page in ("", "mail/", "-/workers/"):
        assert pusher.get(f"/post/fdbqueue/queuename/{page}").status_code == 200
        assert pusher.get(f"/office/fdbqueue/queuename/{page}").status_code == 403


def may_see(user, permission, name):
    """Be the authorizer of a project: allow each user what the test says."""
    return permission == "fdbqueue.view_queue" and may_see.allows(name)


@pytest.mark.parametrize("can", [True, False])
def test_the_authorizer_decides_alone(settings, setting, pusher, viewer, queue, can):
    """It is asked about all queues, for each page; what it says of one queue opens none."""
    may_see.allows = lambda name: (name is None) is can
    settings.FDBQUEUE = {**setting, "API": {"AUTHORIZER": "tests.pages.test_sites.may_see"}}
    queue("mail").push(1)
    for client in (pusher, viewer):
        for page in (LIST, of("mail"), f"{LIST}-/workers/", f"{LIST}-/find/?id=x"):
            assert (client.get(page).status_code != 403) is can
        assert client.get(of("nope")).status_code == (404 if can else 403)
        assert (f'href="{LIST}"' in text(client.get("/admin/"))) is can


def may_see_nothing(user, permission, name):
    """Refuse everything."""
    return False


def test_who_may_see_no_queue_gets_403(settings, setting, viewer):
    """The list too, and the index has no entry."""
    api = {"AUTHORIZER": "tests.pages.test_sites.may_see_nothing"}
    settings.FDBQUEUE = {**setting, "API": api}
    assert viewer.get(LIST).status_code == 403
    assert viewer.get(LIST + "?q=mail").status_code == 403
    assert LIST not in text(viewer.get("/admin/"))


def test_the_index_asks_the_database_nothing(viewer, pusher, watched):
    """It says what is behind its link, and the admin's pages do not depend on the queues."""
    index = text(viewer.get("/admin/"))
    assert re.search(rf'href="{LIST}"[^>]*>Queues, workers and dead letters<', index)
    pusher.get("/admin/")
    assert watched.reads == []


def test_a_wrong_setting_leaves_the_admin_alone(settings, viewer, pusher):
    """Its index works, and those who may not look are told nothing."""
    settings.FDBQUEUE = {"QUEUES": {"mail": {"kind": "heap"}}}
    assert viewer.get("/admin/").status_code == 200
    assert pusher.get("/admin/").status_code == 200
    assert viewer.get(of("mail")).status_code == 503
    for page in (LIST, of("mail")):
        assert pusher.get(page).status_code == 403


def test_who_may_not_look_is_not_told_that_nothing_answers(settings, setting, pusher):
    """403, whatever the database does."""
    settings.FDBQUEUE = {**setting, "ENGINE": "tests.pages.silent_engine", "OPTIONS": {}}
    assert pusher.get(LIST).status_code == 403
    assert person("other").get(of("mail")).status_code == 403
