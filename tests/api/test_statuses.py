"""Every status that the schema tells of, at every endpoint, as the schema describes it."""

from __future__ import annotations

import pytest
from django.core.cache import cache

from fdbqueue import conf, service
from fdbqueue.service.catalog import QueueSpec
from tests.api.test_listing import put
from tests.api.test_permissions import ALL
from tests.api.test_schema import OPERATIONS, check

STATUSES = [
    (name, int(status))
    for name, (_, _, operation) in OPERATIONS.items()
    for status in operation["responses"]
]
KEYED = {"Idempotency-Key": "key"}


class Endpoint:
    """An operation, and what to ask it.

    Args:
        name: The operation's id.
        client: Who may do everything.
        queues: The queues, each with a few items.
    """

    def __init__(self, name, client, queues):
        self.method, self.path, _ = OPERATIONS[name]
        self.name = name
        self.client = client
        self.queues = queues
        self.lease = ""
        self.item = queues.queue("mail").push("there").id
        if name in {"queues_ack", "queues_nack", "queues_extend"}:
            leased = queues.queue("mail").lease()
            assert leased is not None
            self.lease = leased.lease or ""

    def ask(self, client=None, queue="mail", **more):
        """Send a request that is all right but for what is said."""
        path = self.path.replace("{name}", queue).replace("{id}", self.item)
        if self.method == "post":
            bodies = {
                "queues_pause": {},
                "queues_resume": {},
                "queues_push": {"value": 1},
                "queues_pop": {},
                "queues_lease": {},
                "queues_bury": {"id": self.item},
                "queues_redrive": {},
                "queues_give_back": {"worker": "dead:1"},
                "queues_run_now": {},
                "queues_purge": {"state": "dead"},
            }
            more = {"data": bodies.get(self.name, {"lease": self.lease}), **more}
        query = more.pop("query", "")
        return getattr(client or self.client, self.method)(path + query, **more)

    def ask_of_owned(self, settings, monkeypatch):
        """Send it when an app owns the queue, and its item is ready."""
        mail = QueueSpec("mail", "fifo", owner="shop")
        monkeypatch.setitem(conf._added, "SHOP", lambda: [mail])
        settings.FDBQUEUE = {**settings.FDBQUEUE}
        return self.ask(**({"data": {"state": "ready"}} if self.method == "post" else {}))

    def ask_of_dead(self):
        """Send it when its item is a dead letter."""
        self.queues.queue("mail").bury(self.item)
        return self.ask()


@pytest.fixture
def endpoint(request, api, queues):
    """The operation that the test is about."""
    cache.clear()
    return Endpoint(request.param, api, queues)


@pytest.fixture
def provoke(endpoint, anonymous, client_with, allow, settings, monkeypatch):
    """For each status what has it for an answer."""

    def conflict():
        if endpoint.lease:
            endpoint.queues.queue("mail").ack(endpoint.lease)
        else:
            endpoint.queues.queue("mail").clear()
            put(endpoint.queues.queue("mail"), b"junk")
        if endpoint.name == "queues_push":  # what is behind the last index is no item
            mail = endpoint.queues.queue("mail")
            key = mail.subspace.key() + b"\x15\xff"
            service.run(mail.database, lambda tr: tr.set(key, b"junk"))
        return endpoint.ask()

    def too_large():
        allow(MAX_BODY_BYTES=1_000)
        return endpoint.ask(data={"lease": "x" * 1_001})

    def reused():
        assert endpoint.ask(headers=KEYED).status_code in {200, 201}
        others = {"queues_push": {"value": 2}, "queues_pop": {"limit": 2}}
        other = {"lease": endpoint.lease + "A"} if endpoint.lease else {"seconds": 2}
        return endpoint.ask(data=others.get(endpoint.name, other), headers=KEYED)

    def throttled():
        scopes = [f"fdbqueue_{name.removesuffix('_queue')}" for name in ALL]
        rates = dict.fromkeys(scopes, "0/min")
        settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, "DEFAULT_THROTTLE_RATES": rates}
        return endpoint.ask()

    def unavailable():
        engine = {"ENGINE": "tests.api.failing_engine", "OPTIONS": {"code": 1031}}
        settings.FDBQUEUE = {**settings.FDBQUEUE, **engine}
        return endpoint.ask()

    def found():
        if endpoint.name != "queues_push":
            return endpoint.ask()
        body = {"value": 1, "unique": "k"}
        assert endpoint.ask(data=body).status_code == 201
        return endpoint.ask(data=body)

    return {
        200: found,
        201: endpoint.ask,
        304: lambda: endpoint.ask(headers={"If-None-Match": "*"}),
        400: lambda: endpoint.ask(query="?odd=1"),
        401: lambda: endpoint.ask(anonymous),
        403: lambda: endpoint.ask(client_with()),
        404: lambda: endpoint.ask(queue="nope"),
        406: lambda: endpoint.ask(headers={"Accept": "application/xml"}),
        409: {
            "queues_bury": endpoint.ask_of_dead,
            "queues_purge": lambda: endpoint.ask_of_owned(settings, monkeypatch),
            "queues_remove": lambda: endpoint.ask_of_owned(settings, monkeypatch),
        }.get(endpoint.name, conflict),
        413: too_large,
        414: lambda: endpoint.ask(query="?cursor=" + "x" * 4_000),
        415: lambda: endpoint.ask(data="x", content_type="text/plain"),
        422: reused,
        429: throttled,
        503: unavailable,
    }


@pytest.mark.parametrize(("endpoint", "status"), STATUSES, indirect=["endpoint"])
def test_every_status_of_every_endpoint(endpoint, provoke, status):
    """There is a request for each, its answer is as the schema says, with the headers it names."""
    response = provoke[status]()
    assert response.status_code == status, response.content
    shown = {} if status == 304 else check(endpoint.name, response)
    if status >= 400:
        assert shown["code"]
        assert shown["message"]
    described = OPERATIONS[endpoint.name][2]["responses"][str(status)]
    at_times = {"Idempotent-Replayed", *(["Retry-After"] if status == 200 else [])}
    for header in set(described.get("headers", {})) - at_times:
        assert response[header]
    assert int(response.get("Retry-After", 1)) > 0
    assert ("WWW-Authenticate" in response) == (status == 401)
