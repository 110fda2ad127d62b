"""What a request has read and what it answers die with the response, without a collection."""

from __future__ import annotations

import gc
import json
import secrets

import pytest

from fdbqueue.api import errors
from fdbqueue.api.viewsets import QueueViewSet
from tests.api.test_recovery import UNSURE

QUEUE = "/api/queues/mail/"
PUSH = f"{QUEUE}push/"


@pytest.fixture
def marker():
    """A key of objects that no other test uses, while nothing collects garbage.

    Of all objects, ``gc.get_objects`` then returns those that were made since.
    """
    gc.freeze()
    gc.disable()
    yield secrets.token_hex(8)
    gc.enable()


@pytest.fixture
def client(root, queues):
    """A client who may do everything, and is told of failures as any client is."""
    client = root()
    client.raise_request_exception = False
    return client


def living(marker):
    """Return how many objects have the marker among their keys."""
    return sum(type(one) is dict and marker in one for one in gc.get_objects())


def post(client, path, text, **headers):
    """POST a body, and return the status; nothing else of the answer is kept."""
    response = client.post(path, text, content_type="application/json", headers=headers)
    del response.json  # by which the test's client lets the response refer to itself
    return int(response.status_code)


BODIES = {
    "pushed": (PUSH, '{"value": %s}', 201),
    "pushed together": (PUSH, '{"items": [{"value": %s}, {"value": %s}]}', 201),
    "of another shape": (PUSH, "[%s]", 400),
    "with an unknown key": (PUSH, '{"value": %s, "x": %s}', 400),
    "with a wrong member": (PUSH, '{"items": [{"value": %s}, {"valu": %s}]}', 400),
    "too long a list": (PUSH, '{"items": [%s' + ", 1" * 1_001 + "]}", 400),
    "of no delay": (PUSH, '{"value": %s, "delay": %s}', 400),
    "of no priority": (PUSH, '{"value": %s, "priority": %s}', 400),
    "for no queue": ("/api/queues/nope/push/", '{"value": %s}', 404),
    "too deep": (PUSH, '{"value": [%s, ' + "[" * 300 + "]" * 300 + "]}", 400),
    "for no codec": ("/api/queues/raw/push/", '{"value": %s}', 400),
    "too large": (PUSH, '{"value": [%s, "' + "x" * 100_000 + '"]}', 413),
    "no pop": (f"{QUEUE}pop/", '{"limit": %s}', 400),
    "no lease": (f"{QUEUE}ack/", '{"lease": %s}', 400),
    "no leases": (f"{QUEUE}ack/", '{"leases": [%s]}', 400),
}


@pytest.mark.parametrize("case", BODIES)
def test_a_body_dies_with_its_response(client, marker, case):
    """Accepted or refused, and by whom it was refused."""
    path, frame, status = BODIES[case]
    text = frame.replace("%s", json.dumps({marker: [[]]}))
    assert post(client, path, text) == status
    assert living(marker) == 0


@pytest.mark.parametrize("verb", ["peek", "pop", "lease"])
def test_what_is_answered_dies_with_the_response(client, queues, marker, verb):
    """The values that are shown are not kept either."""
    queues.queue("mail").push({marker: [[]]})
    path = f"{QUEUE}{verb}/"
    response = client.get(path) if verb == "peek" else client.post(path, {})
    assert list(response.data["items"][0]["value"]) == [marker]
    del response.json, response
    assert living(marker) == 0


def test_a_body_dies_where_the_engine_fails(root, settings, tmp_path, marker, monkeypatch):
    """A commit whose outcome stays unknown leaves nothing behind."""
    monkeypatch.setattr(errors.logger, "disabled", True)  # pytest keeps what is logged
    settings.FDBQUEUE = {
        "ENGINE": UNSURE,
        "OPTIONS": {"path": tmp_path / "queues.sqlite3"},
        "QUEUES": {"mail": {"kind": "fifo"}},
    }
    text = json.dumps({"value": {marker: [[]]}})
    assert post(root(), PUSH, text) == 503
    assert living(marker) == 0


def test_a_view_dies_with_its_response(client, marker):
    """Nothing of a request is left to the garbage collector, be it small."""
    before = sum(isinstance(one, QueueViewSet) for one in gc.get_objects())
    assert post(client, PUSH, '{"value": 1}') == 201
    assert client.get(QUEUE).status_code == 200
    assert client.get("/api/queues/nope/").status_code == 404
    assert sum(isinstance(one, QueueViewSet) for one in gc.get_objects()) == before
