"""Waiting for items: until there is one, until the time is over, until the client has gone."""

from __future__ import annotations

import os
import socket
import threading
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIRequestFactory

from fdbqueue import conf, deadlines
from fdbqueue.api.requests import client_is_connected
from fdbqueue.api.waiting import places
from tests.engines.children import wait_until

SOCKETS = ["gunicorn.socket", "werkzeug.socket"]
LONG = 20
TAKES = ["pop", "lease"]


class Waiting:
    """A request in a thread of its own."""

    def __init__(self, client, path, body, **environ):
        self._response: Any = None
        self._thread = threading.Thread(
            target=self._post, args=(client, path, body, environ), daemon=True
        )
        self._thread.start()

    def _post(self, client, path, body, environ):
        self._response = client.post(path, body, **environ)

    def response(self):
        """Return the response; fail where there is none in good time."""
        self._thread.join(LONG - 5)
        assert not self._thread.is_alive(), "the request waits on"
        return self._response


@pytest.fixture
def client(root, queues):
    """A client for the thread that waits."""
    return root()


@pytest.fixture
def connection():
    """A request's socket, as the server has it, and the client's end of it."""
    server, client = socket.socketpair()
    yield server, client
    server.close()
    client.close()


def waiting_requests(name):
    """Return how many requests wait for a queue's items in this process."""
    found = deadlines._limited.get(conf.catalog())
    return 0 if found is None else found.queue(name).parts.group.watch.waiting


@pytest.mark.parametrize("name", ["mail", "jobs", "audit", "raw"])
@pytest.mark.parametrize("verb", TAKES)
def test_a_wait_ends_with_the_item(client, root, name, verb):
    """An item that another request pushes is given at once to the one that waits."""
    waiting = Waiting(client, f"/api/queues/{name}/{verb}/", {"wait": LONG, "limit": 3})
    wait_until(lambda: waiting_requests(name))
    pushed = root().post(f"/api/queues/{name}/push/", {"value": "AAAA"}).json()
    response = waiting.response()
    assert response.status_code == 200
    assert [item["id"] for item in response.json()["items"]] == [pushed["id"]]


@pytest.mark.parametrize("verb", TAKES)
def test_a_wait_for_nothing(client, verb):
    """When the time is over the answer is that there is nothing, and nobody waits any more."""
    response = client.post(f"/api/queues/mail/{verb}/", {"wait": 0.05})
    assert (response.status_code, response.json()) == (200, {"items": []})
    assert not waiting_requests("mail")


def test_the_setting_caps_the_wait(client, allow):
    """MAX_WAIT_SECONDS is the longest; 0 means that nobody waits."""
    allow(MAX_WAIT_SECONDS=0.05)
    refused = client.post("/api/queues/mail/pop/", {"wait": 0.06})
    assert refused.status_code == 400
    message = "Ensure this value is less than or equal to 0.05."
    assert refused.json()["fields"] == {"wait": message}
    assert client.post("/api/queues/mail/lease/", {"wait": 0.05}).status_code == 200
    allow(MAX_WAIT_SECONDS=0)
    assert client.post("/api/queues/mail/pop/", {"wait": 0}).status_code == 200
    assert client.post("/api/queues/mail/pop/", {"wait": 0.001}).status_code == 400


@pytest.mark.parametrize("server", SOCKETS)
@pytest.mark.parametrize("verb", TAKES)
def test_a_wait_ends_when_the_client_has_gone(client, connection, server, verb):
    """Nobody is left waiting, and an item that comes later is not taken for nobody."""
    ours, theirs = connection
    path = f"/api/queues/mail/{verb}/"
    waiting = Waiting(client, path, {"wait": LONG}, **{server: ours})
    wait_until(lambda: waiting_requests("mail"))
    theirs.close()
    assert waiting.response().json() == {"items": []}
    assert not waiting_requests("mail")
    client.post("/api/queues/mail/push/", {"value": "kept"})
    assert client.get("/api/queues/mail/").json()["counts"]["ready"] == 1


@pytest.mark.parametrize("verb", TAKES)
def test_a_client_that_has_gone_leaves_its_key_unused(client, connection, verb):
    """The wait that ended for nobody is no answer: the retry gets the item."""
    ours, theirs = connection
    path, headers = f"/api/queues/mail/{verb}/", {"Idempotency-Key": "key"}
    body = {"wait": LONG}
    waiting = Waiting(client, path, body, headers=headers, **{"gunicorn.socket": ours})
    wait_until(lambda: waiting_requests("mail"))
    theirs.close()
    assert waiting.response().json() == {"items": []}
    pushed = client.post("/api/queues/mail/push/", {"value": 1}).json()
    retry = client.post(path, body, headers=headers)
    assert "Idempotent-Replayed" not in retry
    assert [item["id"] for item in retry.json()["items"]] == [pushed["id"]]


def test_a_retry_takes_the_place_of_a_wait_under_the_same_key(client, root):
    """Two waits under one key, and one item: both are answered with it."""
    path, headers = "/api/queues/mail/pop/", {"Idempotency-Key": "key"}
    waits_for = {"wait": LONG}
    both = [Waiting(one, path, waits_for, headers=headers) for one in (client, root())]
    wait_until(lambda: waiting_requests("mail") == 2)
    pusher = root()
    pusher.post("/api/queues/mail/push/", {"value": 1})
    first, second = (each.response() for each in both)
    assert first.content == second.content
    assert len(first.json()["items"]) == 1
    assert sorted("Idempotent-Replayed" in each for each in (first, second)) == [False, True]


def test_whether_a_client_is_there(connection):
    """Yes, until it closes its end, or we ours; data that it sent does not matter."""
    ours, theirs = connection
    request = APIRequestFactory().post("/")
    assert client_is_connected(request)
    request.META["gunicorn.socket"] = None
    assert client_is_connected(request)
    request.META["gunicorn.socket"] = ours
    assert client_is_connected(request)
    theirs.send(b"GET / HTTP/1.1\r\n")
    assert client_is_connected(request)
    theirs.close()
    assert not client_is_connected(request)
    ours.close()
    assert not client_is_connected(request)


# Places


BY_NAME = {verb: f"/api/queues/mail/{verb}/" for verb in TAKES}
BY_BODY = {verb: f"/api/{verb}-from/" for verb in TAKES}


@pytest.mark.parametrize("path", [*BY_NAME.values(), *BY_BODY.values()])
def test_who_finds_no_place_is_answered_at_once(client, root, queues, allow, path):
    """With nothing, and when to ask again; under its key it may wait later, and gets an item."""
    allow(MAX_WAITING=1)
    body = {"wait": LONG, **({"queues": ["mail"]} if path in BY_BODY.values() else {})}
    waiting = Waiting(root(), BY_NAME["pop"], {"wait": LONG})
    wait_until(lambda: waiting_requests("mail"))
    headers = {"Idempotency-Key": "key"}
    turned_away = client.post(path, body, headers=headers)
    assert (turned_away.status_code, turned_away.json()["items"]) == (200, [])
    assert turned_away["Retry-After"] == "5"
    assert waiting_requests("mail") == 1
    queues.queue("mail").push("first")
    assert len(waiting.response().json()["items"]) == 1
    later = Waiting(client, path, body, headers=headers)
    wait_until(lambda: places.taken)
    queues.queue("mail").push("second")
    assert [item["value"] for item in later.response().json()["items"]] == ["second"]
    assert "Retry-After" not in later.response()


def test_who_finds_no_place_takes_what_there_is(client, queues, allow):
    """A place is for waiting alone, and who does not ask to wait needs none."""
    allow(MAX_WAITING=0)
    queues.queue("mail").push(1)
    assert len(client.post(BY_NAME["pop"], {"wait": LONG}).json()["items"]) == 1
    assert "Retry-After" not in client.post(BY_NAME["pop"], {})
    assert client.post(BY_NAME["pop"], {"wait": LONG})["Retry-After"] == "5"


def test_one_user_leaves_places_to_others(root, allow, queues):
    """MAX_WAITING_PER_USER is the most that wait of one user; None is no limit."""
    allow(MAX_WAITING_PER_USER=1)
    ada, bob = root(), root()
    bob.force_authenticate(User(pk=2, username="bob", is_superuser=True))
    waiting = [Waiting(ada, BY_NAME["pop"], {"wait": LONG})]
    wait_until(lambda: waiting_requests("mail") == 1)
    assert "Retry-After" in ada.post(BY_NAME["pop"], {"wait": LONG})
    waiting.append(Waiting(bob, BY_NAME["pop"], {"wait": LONG}))
    wait_until(lambda: waiting_requests("mail") == 2)
    queues.queue("mail").push_many([1, 2])
    assert sorted(one.response().json()["items"][0]["value"] for one in waiting) == [1, 2]


def test_a_place_is_given_back_after_an_exception(allow):
    """Also after one that no request handles, such as that of a signal handler."""
    allow(MAX_WAITING=1)

    def interrupted():
        with places.one("ada") as has_place:
            assert has_place
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    assert places.taken == 0


def test_a_forked_child_has_all_places(allow):
    """Who waits in the parent holds no place in its child, whatever was held at the fork."""
    allow(MAX_WAITING=1)
    with places.one("ada"), places._lock:
        child = os.fork()
        if not child:
            with places.one("bob") as has_place:
                os._exit(0 if has_place else 1)
        _, status = os.waitpid(child, 0)
    assert status == 0
