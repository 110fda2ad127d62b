"""Pause and resume a queue, and what is shown of a paused one."""

from __future__ import annotations

import pytest

from tests.api.test_schema import check

MAIL = "/api/queues/mail/"


@pytest.fixture
def operator(root):
    """A client who may do everything."""
    return root()


@pytest.fixture
def mail(queues):
    """A queue of three items."""
    queue = queues.queue("mail")
    queue.push_many([1, 2, 3])
    return queue


def shown(pause):
    """Return what the API shows of a pause."""
    assert pause is not None
    since = pause.since.isoformat().replace("+00:00", "Z")
    return {"since": since, "reason": pause.reason, "family": pause.family}


def paused(client):
    """Return what the list, and the queue itself, say of the pause of ``mail``."""
    listed = check("queues_list", client.get("/api/queues/"))["queues"]
    (row,) = [queue for queue in listed if queue["name"] == "mail"]
    return [row["paused"], check("queues_retrieve", client.get(MAIL))["paused"]]


def test_a_queue_is_paused_and_resumed(operator, mail):
    """Pops and leases are empty meanwhile, pushes go on; list and queue say since when and why."""
    assert paused(operator) == [None, None]
    answer = check("queues_pause", operator.post(f"{MAIL}pause/", {"reason": "deploying 2.4"}))
    assert answer == {"paused": shown(mail.paused())}
    assert answer["paused"]["reason"] == "deploying 2.4"
    assert paused(operator) == [answer["paused"]] * 2
    for verb in ("pop", "lease"):
        assert operator.post(f"{MAIL}{verb}/", {}).json() == {"items": []}
    assert operator.post(f"{MAIL}push/", {"value": 4}).status_code == 201
    assert check("queues_resume", operator.post(f"{MAIL}resume/", {})) == {"resumed": True}
    assert paused(operator) == [None, None]
    assert operator.post(f"{MAIL}pop/", {}).json()["items"][0]["value"] == 1


def test_again(operator, mail):
    """A paused queue keeps its time, and its reason until there is another; so it is resumed."""
    first = operator.post(f"{MAIL}pause/", {"reason": "deploying"}).json()["paused"]
    again = operator.post(f"{MAIL}pause/", {}).json()["paused"]
    assert again == {"since": first["since"], "reason": "deploying", "family": None}
    other = operator.post(f"{MAIL}pause/", {"reason": ""}).json()["paused"]
    assert other == {"since": first["since"], "reason": "", "family": None}
    assert mail.paused() is not None
    assert operator.post(f"{MAIL}resume/", {}).json() == {"resumed": True}
    assert operator.post(f"{MAIL}resume/", {}).json() == {"resumed": False}


def test_an_idempotency_key_has_no_effect(operator, mail):
    """It is ignored, whatever it is: repeating a request changes nothing more."""
    for key in ("key", "", "é", "x" * 300):
        headers = {"Idempotency-Key": key.encode().decode("latin-1")}
        response = operator.post(f"{MAIL}pause/", {"reason": key}, headers=headers)
        assert (response.status_code, response.json()["paused"]["reason"]) == (200, key)
        response = operator.post(f"{MAIL}resume/", {}, headers=headers)
        assert (response.status_code, response.json()) == (200, {"resumed": True})
        assert "Idempotent-Replayed" not in response.headers


def test_a_family_is_paused_by_its_pattern(operator, queues):
    """Each member says so; a part of a family is none."""
    family = queues.family("user-*")
    queues.queue("user-1").push(1)
    url = "/api/queues/user-*/"
    answer = check("queues_pause", operator.post(f"{url}pause/", {"reason": "moving"}))
    assert answer == {"paused": shown(family.paused())}
    assert answer["paused"]["family"] == "user-*"
    assert operator.get("/api/queues/user-1/").json()["paused"] == answer["paused"]
    assert operator.post("/api/queues/user-1/pop/", {}).json() == {"items": []}
    assert operator.post("/api/queues/user-1/resume/", {}).json() == {"resumed": False}
    assert check("queues_resume", operator.post(f"{url}resume/", {})) == {"resumed": True}
    assert operator.post("/api/queues/user-1/pop/", {}).json()["items"][0]["value"] == 1
    for wrong in ("user-1*", "*", "none-*"):
        assert operator.post(f"/api/queues/{wrong}/pause/", {}).status_code == 404
        assert operator.post(f"/api/queues/{wrong}/resume/", {}).status_code == 404
    for verb in ("pop", "push", "purge"):
        assert operator.post(f"{url}{verb}/", {}).status_code in (400, 404)


def test_an_authorizer_decides_about_a_family(root, queues, allow):
    """It is asked about all queues: what it says of the members decides nothing."""
    client = root()
    allow(AUTHORIZER="tests.api.test_pausing.of_members")
    assert client.post("/api/queues/user-1/pause/", {}).status_code == 200
    assert client.post("/api/queues/user-*/pause/", {}).status_code == 403
    assert client.post("/api/queues/user-*/resume/", {}).status_code == 403
    assert queues.family("user-*").paused() is None
    allow(AUTHORIZER="tests.api.test_pausing.of_family")
    assert client.post("/api/queues/user-*/pause/", {}).status_code == 200
    assert queues.family("user-*").paused()
    assert client.post("/api/queues/user-*/resume/", {}).status_code == 200
    assert client.post("/api/queues/user-1/pause/", {}).status_code == 403
    assert client.post("/api/queues/user-*/pop/", {}).status_code == 404


def of_members(_user, _permission, name):
    """Allow everything for single queues."""
    return name is not None


def of_family(_user, _permission, name):
    """Allow everything for all queues together."""
    return name is None
