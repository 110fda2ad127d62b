"""Access to single queues: object permissions, and the function that a project names."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import AnonymousUser, User
from rest_framework.test import APIClient

from fdbqueue import access, conf
from tests.api import rules
from tests.api.test_errors import REQUESTS
from tests.api.test_permissions import ALL

MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"


@pytest.fixture(autouse=True)
def forgotten():
    """What authorizers were asked, by this test alone."""
    rules.asked.clear()
    yield
    rules.asked.clear()


@pytest.fixture
def authorizer(queues, allow):
    """Let a function of the rules decide."""
    return lambda name: allow(AUTHORIZER=f"tests.api.rules.{name}")


@pytest.fixture
def backends(settings):
    """Let backends of the rules answer beside Django's own."""

    def change(*names):
        own = [f"tests.api.rules.{name}" for name in names]
        settings.AUTHENTICATION_BACKENDS = [MODEL_BACKEND, *own]

    return change


def client_of(user):
    """Return a client of a user."""
    client = APIClient()
    client.default_format = "json"
    client.force_authenticate(user)
    return client


def listed(client, limit=100):
    """Return the names on each page of the list."""
    pages, address = [], f"/api/queues/?limit={limit}"
    page = client.get(address).json()
    pages.append([queue["name"] for queue in page["queues"]])
    while page["cursor"] is not None:
        page = client.get(f"{address}&cursor={page['cursor']}").json()
        pages.append([queue["name"] for queue in page["queues"]])
    return pages


@pytest.mark.django_db
def test_object_permissions(queues, backends):
    """A backend may give users their own queues, each verb of them, and no others, nor the list."""
    backends("OwnQueues")
    for name in ("user-ada", "user-ada-2", "user-bob", "user-z"):
        queues.queue(name).push(1)
    ada = User.objects.create_user("ada")
    client = client_of(ada)
    assert client.get("/api/queues/").status_code == 403
    for method, path, body in REQUESTS[1:]:
        own = getattr(client, method)(path.replace("mail", "user-ada-2"), body)
        assert own.status_code != 403, path
        other = getattr(client, method)(path.replace("mail", "user-bob"), body)
        assert (other.status_code, other.json()["code"]) == (403, "permission_denied")
    assert queues.queue("user-bob").size() == 1


def test_general_permissions_are_for_all_queues(client_with, queues, backends):
    """A user who may view queues sees all, whatever a backend says of single ones."""
    backends("Readers")
    client = client_with("view_queue", "push_queue")
    assert len(listed(client)[0]) > 1
    assert client.post("/api/queues/mail/push/", {"value": 1}).status_code == 201
    assert client.post("/api/queues/mail/pop/", {}).status_code == 403


@pytest.mark.django_db
def test_an_authorizer_decides(authorizer, queues):
    """It grants what no permission does, and is asked with user, permission and name."""
    authorizer("may_look_at_mail")
    queues.queue("user-1").push("x")
    user = User.objects.create_user("ada")
    client = client_of(user)
    assert client.get("/api/queues/mail/peek/").status_code == 200
    assert rules.asked == [(user, "fdbqueue.view_queue", "mail")]
    popped = client.post("/api/queues/user-1/pop/", {})
    assert popped.json()["items"][0]["value"] == "x"
    assert rules.asked[-1] == (user, "fdbqueue.pop_queue", "user-1")
    assert client.get("/api/queues/jobs/").status_code == 403
    assert client.post("/api/queues/mail/push/", {"value": 1}).status_code == 403


def test_an_authorizer_is_asked_about_all_queues(root, queues, authorizer):
    """By the name None: for the list and for patterns, and what it says of them opens no queue."""
    authorizer("may_all_alone")
    client = root()
    assert "mail" in listed(client)[0]
    assert client.post("/api/queues/user-*/pause/", {}).status_code == 200
    for verb in ("pop", "lease"):
        assert client.post(f"/api/{verb}-from/", {"queues": ["user-*"]}).status_code == 200
    assert {name for _, _, name in rules.asked} == {None}
    for method, path, body in REQUESTS[1:]:
        assert getattr(client, method)(path, body).status_code == 403, path
    assert client.post("/api/pop-from/", {"queues": ["mail", "user-*"]}).status_code == 403


def test_an_authorizer_wins_over_permissions(client_with, authorizer):
    """Whoever has every permission may do what it grants, and nothing else."""
    authorizer("may_look_at_mail")
    client = client_with(*ALL)
    assert client.get("/api/queues/mail/").status_code == 200
    assert client.get("/api/queues/jobs/").status_code == 403
    assert client.post("/api/queues/mail/push/", {"value": 1}).status_code == 403
    assert client.get("/api/queues/").status_code == 403
    assert client.post("/api/pop-from/", {"queues": ["user-*"]}).status_code == 403


def test_an_authorizer_is_not_asked_about_anonymous_users(anonymous, authorizer):
    """Without credentials there is nobody to ask about."""
    authorizer("may_everything")
    for method, path, body in REQUESTS:
        assert getattr(anonymous, method)(path, body).status_code == 401
    assert not access.may(AnonymousUser(), access.VIEW, "mail")
    assert not access.may(None, access.VIEW, "mail")
    assert not access.may(AnonymousUser(), access.VIEW)
    assert rules.asked == []


def test_an_authorizer_is_asked_about_options(root, authorizer):
    """Who may do what an address is there for may ask what it is."""
    authorizer("may_look_at_mail")
    expected = {
        "": 403,
        "mail/": 200,
        "mail/items/": 200,
        "mail/push/": 403,
        "jobs/": 403,
        "user-1/pop/": 200,
        "user-1/": 403,
        "mail/pop/": 403,
    }
    found = {path: root().options(f"/api/queues/{path}").status_code for path in expected}
    assert found == expected
    assert {permission for _, permission, _ in rules.asked} == {
        "fdbqueue.view_queue",
        "fdbqueue.push_queue",
        "fdbqueue.pop_queue",
    }


@pytest.mark.parametrize("name", ["may_nothing", "raises"])
def test_an_authorizer_that_refuses(root, authorizer, name):
    """No answer is no, and so is DRF's own way to say it."""
    authorizer(name)
    for method, path, body in REQUESTS:
        response = getattr(root(), method)(path, body)
        assert (response.status_code, response.json()["code"]) == (403, "permission_denied")


@pytest.fixture
def many(queues):
    """Queues of 30 users."""
    for number in range(30):
        queues.queue(f"user-{number:03}").push(number)
    return queues


def test_the_list_is_refused(root, queues, settings, authorizer):
    """By the name of the permission, whether or not there is a queue."""
    authorizer("may_nothing")
    settings.FDBQUEUE = {**settings.FDBQUEUE, "QUEUES": {"user-*": {"kind": "fifo"}}}
    none = root().get("/api/queues/")
    conf.queue("user-1").push(1)
    hidden = root().get("/api/queues/")
    assert none.content == hidden.content
    assert (hidden.status_code, hidden.json()) == (
        403,
        {
            "code": "permission_denied",
            "message": "You do not have the permission fdbqueue.view_queue for all queues.",
        },
    )


def test_the_list_where_there_are_no_queues(client_with, queues, settings):
    """Who may see all queues sees that there are none."""
    settings.FDBQUEUE = {**settings.FDBQUEUE, "QUEUES": {"user-*": {"kind": "fifo"}}}
    response = client_with("view_queue").get("/api/queues/")
    assert (response.status_code, response.json()) == (200, {"queues": [], "cursor": None})


def test_the_list_answers_before_its_time_is_over(root, many, monkeypatch):
    """Pages are short then, but each goes on after the one before, and none is left out."""
    monkeypatch.setattr("fdbqueue.deadlines.is_half_over", lambda: True)
    assert listed(root()) == [[name] for name in many.names()]
