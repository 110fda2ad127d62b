"""Access to single queues: object permissions, and the function that a project names."""

from __future__ import annotations

import base64

import pytest
from django.contrib.auth.models import AnonymousUser, User
from rest_framework.test import APIClient

from fdbqueue import access, conf, service
from tests.api import rules
from tests.api.test_deadlines import Stopwatch
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
    """A backend may give users their own queues, each verb of them, and no others."""
    backends("OwnQueues")
    for name in ("user-ada", "user-ada-2", "user-bob", "user-z"):
        queues.queue(name).push(1)
    ada = User.objects.create_user("ada")
    client = client_of(ada)
    assert listed(client) == [["user-ada", "user-ada-2"]]
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
    assert listed(client) == [["mail"]]


def test_an_authorizer_wins_over_permissions(client_with, authorizer):
    """Whoever has every permission may do what it grants, and nothing else."""
    authorizer("may_look_at_mail")
    client = client_with(*ALL)
    assert client.get("/api/queues/mail/").status_code == 200
    assert client.get("/api/queues/jobs/").status_code == 403
    assert client.post("/api/queues/mail/push/", {"value": 1}).status_code == 403
    assert listed(client) == [["mail"]]


def test_an_authorizer_is_not_asked_about_anonymous_users(anonymous, authorizer):
    """Without credentials there is nobody to ask about."""
    authorizer("may_everything")
    for method, path, body in REQUESTS:
        assert getattr(anonymous, method)(path, body).status_code == 401
    assert not access.may(AnonymousUser(), access.VIEW, "mail")
    assert not access.may(None, access.VIEW, "mail")
    assert not access.may_in_general(AnonymousUser(), access.VIEW)
    assert rules.asked == []


def test_an_authorizer_is_asked_about_options(root, authorizer):
    """Who may do what an address is there for may ask what it is."""
    authorizer("may_look_at_mail")
    expected = {
        "": 200,
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


@pytest.mark.parametrize("limit", [1, 2, 7, 14, 15, 16, 100])
def test_the_pages_of_those_who_see_some(root, many, authorizer, limit):
    """Whatever the page's size, all that is visible is on some page, once and in order."""
    authorizer("may_odd_users")
    pages = listed(root(), limit)
    assert [name for page in pages for name in page] == [
        f"user-{number:03}" for number in range(1, 30, 2)
    ]
    assert all(len(page) <= limit for page in pages)


def test_the_list_where_nothing_is_visible(root, queues, settings, authorizer):
    """Who sees no queue is refused by name of the permission, whether or not there is one."""
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
            "message": "You do not have the permission fdbqueue.view_queue for any queue.",
        },
    )


def test_the_list_where_there_are_no_queues(client_with, queues, settings):
    """Who may see all queues sees that there are none."""
    settings.FDBQUEUE = {**settings.FDBQUEUE, "QUEUES": {"user-*": {"kind": "fifo"}}}
    response = client_with("view_queue").get("/api/queues/")
    assert (response.status_code, response.json()) == (200, {"queues": [], "cursor": None})


def test_the_list_answers_before_its_time_is_over(root, many, allow, monkeypatch):
    """Pages may be empty then, but each goes on behind the one before, and none is left out."""
    many.queue("user-999").push(1)
    watch = Stopwatch()
    monkeypatch.setattr("fdbqueue.deadlines.monotonic", watch)
    monkeypatch.setattr(rules, "watch", watch)
    allow(AUTHORIZER="tests.api.rules.may_last_after_a_second", TIMEOUT_SECONDS=10)
    began = watch.seconds
    pages = listed(root())
    assert watch.seconds - began == len(many.names())
    assert [name for page in pages for name in page] == ["user-999"]
    assert len(pages) == -(-len(many.names()) // 6)  # the sixth second is beyond half of ten


def test_a_cursor_tells_no_name(root, many, allow, monkeypatch):
    """A page that ends behind another user's queue does not say what it is called."""
    watch = Stopwatch()
    monkeypatch.setattr("fdbqueue.deadlines.monotonic", watch)
    monkeypatch.setattr(rules, "watch", watch)
    allow(AUTHORIZER="tests.api.rules.may_last_after_a_second", TIMEOUT_SECONDS=1.5)
    cursors, address = [], "/api/queues/"
    while (cursor := root().get(address).json()["cursor"]) is not None:
        cursors.append(cursor)
        address = f"/api/queues/?cursor={cursor}"
    assert len(set(cursors)) == len(many.names())
    assert len({len(cursor) for cursor in cursors}) == 1
    for cursor in cursors:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        assert b"user" not in raw
        assert "user" not in cursor


def test_a_few_queues_among_five_thousand(root, queues, authorizer):
    """A page of one is found in time, or on a page that follows, and never refused with 503."""
    place = queues.queue("user-0000").subspace
    before = place.key().removesuffix(b"user-0000\x00")
    for start in range(0, 5_000, 1_000):
        keys = [before + b"user-%04d\x00x" % number for number in range(start, start + 1_000)]
        service.run(queues.database, lambda tr, keys=keys: [tr.set(key, b"") for key in keys] and 0)
    queues.queue("user-999").push(1)
    authorizer("may_last")
    client, address, found = root(), "/api/queues/?limit=1", []
    page = {"cursor": ""}
    while page["cursor"] is not None:
        response = client.get(f"{address}&cursor={page['cursor']}" if page["cursor"] else address)
        assert response.status_code == 200, response.content
        page = response.json()
        found += [queue["name"] for queue in page["queues"]]
    assert found == ["user-999"]
