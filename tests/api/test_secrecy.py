"""Who may not see a queue learns nothing of it: all is as if it did not exist."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable

import pytest

from fdbqueue import conf
from fdbqueue.service import QueueSpec
from tests.api import rules
from tests.api.test_errors import ITEM, REQUESTS
from tests.cases import cases
from tests.pages import watched_engine

METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
TAKES = ("/api/pop-from/", "/api/lease-from/")
#: Two queues that are hidden from the user of these tests, by a pattern and by their own name in
#: the setting; and names of none, of which the first fits the pattern.
EXISTING, NAMED, POSSIBLE, IMPOSSIBLE = "user-there", "audit", "user-none", "nope"
OTHERS = (NAMED, POSSIBLE, IMPOSSIBLE)
#: What says when a page was made, and how long a name is.
_OWN = {"Content-Length", "Expires"}
#: The same for every request, because responses have it.
REQUEST_ID = {"X-Request-ID": "one"}
#: Bodies that name each queue, alone and beside one that the user may take from.
BODIES: list[Callable[[str], list[str]]] = [
    lambda name: [name],
    lambda name: ["mail", name],
    lambda name: [f"{name}*"],
    lambda name: ["mail", f"{name}*"],
]


@pytest.fixture(autouse=True)
def asked():
    """What the authorizer is asked, by this test alone."""
    rules.asked.clear()
    yield rules.asked
    rules.asked.clear()


@pytest.fixture
def hidden(queues, settings):
    """Queues with items, of which every user may use that for mail alone, on a watched engine."""
    for name in ("mail", EXISTING, NAMED):
        queues.queue(name).push_many([name] * 50)
    settings.FDBQUEUE = {
        **settings.FDBQUEUE,
        "ENGINE": "tests.pages.watched_engine",
        "API": {"AUTHORIZER": "tests.api.rules.may_mail_alone"},
    }
    return conf.catalog()


def told(response, name):
    """Return all that a response tells, without the name that was asked about."""
    headers = {key: value for key, value in response.headers.items() if key not in _OWN}
    text = response.content.decode().replace(name, "NAME")
    text = re.sub(r'(name="csrfmiddlewaretoken" value="|csrfToken": ?")[^"]*', "", text)
    return response.status_code, str(headers).replace(name, "NAME"), text


def addresses(name):
    """Return every address of the API and the pages that names a queue."""
    found = []
    for mount in ("/api/queues/", "/queues/", "/admin/fdbqueue/queuename/"):
        found += [f"{mount}{name}/", f"{mount}{name}/items/", f"{mount}{name}/items/{ITEM}/"]
    verbs = {path.split("/")[4] for _, path, _ in REQUESTS if path.count("/") > 4}
    verbs |= {"bury", "redrive", "give-back", "run-now", "purge", "dead-reasons", "nothing"}
    found += [f"/api/queues/{name}/{verb}/" for verb in sorted(verbs)]
    found += [f"/queues/{name}/tasks/{ITEM}/", f"/queues/-/find/?queue={name}&id={ITEM}"]
    return [*found, f"/queues/{name}/items/a/b/", f"/queues/{name}/a/b/", f"/queues/{name}"]


@pytest.mark.parametrize("accept", ["application/json", "text/html"])
@pytest.mark.parametrize("method", METHODS)
def test_an_address_tells_nothing(root, hidden, admin_client, method, accept):
    """The whole response, every header of it, is that for a name of no queue."""
    api = root()
    for path in addresses(EXISTING):
        if accept != "text/html" and not path.startswith("/api/"):
            continue  # a page whatever is accepted
        client = api if path.startswith("/api/") else admin_client
        body = {} if method not in {"get", "head"} else None
        expected = told(
            getattr(client, method)(path, body, headers={"Accept": accept, **REQUEST_ID}), EXISTING
        )
        assert expected[0] not in {200, 201, 500}, path
        for other in OTHERS:
            same = getattr(client, method)(
                path.replace(EXISTING, other), body, headers={"Accept": accept, **REQUEST_ID}
            )
            assert told(same, other) == expected, (path, other)


@pytest.mark.parametrize("address", TAKES)
@pytest.mark.parametrize("keyed", [False, True], ids=["", "keyed"])
@pytest.mark.parametrize("names", BODIES)
def test_a_take_from_several_tells_nothing(root, hidden, asked, address, keyed, names):
    """Whatever is named beside it; and as much is read and asked for it as for no queue."""
    client, found = root(), {}
    for name in (EXISTING, *OTHERS):
        headers = {**REQUEST_ID}
        if keyed:
            headers["Idempotency-Key"] = secrets.token_hex(8)
        watched_engine.reads.clear()
        asked.clear()
        response = client.post(address, {"queues": names(name)}, headers=headers)
        found[name] = *told(response, name), sorted(watched_engine.reads), len(asked)
    assert found[EXISTING][0] == 403
    assert [found[other] for other in OTHERS] == [found[EXISTING]] * len(OTHERS)
    assert hidden.queue(EXISTING).size() == hidden.queue(NAMED).size() == 50


@pytest.mark.parametrize("address", TAKES)
def test_what_is_hidden_may_be_allowed_later(root, hidden, settings, address):
    """No answer about a permission is kept: the next request asks again."""
    client, body = root(), {"queues": [f"{EXISTING}*"], "limit": 50}
    assert client.post(address, body).status_code == 403
    api = {"AUTHORIZER": "tests.api.rules.may_everything"}
    settings.FDBQUEUE = {**settings.FDBQUEUE, "API": api}
    assert client.post(address, body).json()["queue"] == EXISTING


@pytest.mark.parametrize("address", [*TAKES, "/api/queues/"])
def test_without_any_permission_nothing_is_read(client_with, queues, settings, address):
    """A user of Django's own backends is refused before a pattern is looked at."""
    settings.FDBQUEUE = {**settings.FDBQUEUE, "ENGINE": "tests.pages.watched_engine"}
    conf.queue(EXISTING).push(1)
    client = client_with("push_queue")
    watched_engine.reads.clear()
    if address in TAKES:
        patterns = ["*", "user-*", "*-*", f"{EXISTING}*", "zzz*"]
        refused = client.post(address, {"queues": patterns})
    else:
        refused = client.get(address)
    assert refused.status_code == 403
    assert watched_engine.reads == []


@pytest.mark.parametrize(
    ("method", "address", "message"),
    [
        ("post", "/api/pop-from/", "fdbqueue.pop_queue for any queue."),
        ("post", "/api/lease-from/", "fdbqueue.lease_queue for any queue."),
        ("get", "/api/queues/", "fdbqueue.view_queue for all queues."),
    ],
)
def test_a_refusal_names_the_permission(client_with, queues, method, address, message):
    """Also if several queues are named, or none is."""
    body = {"queues": ["user-*"]} if method == "post" else None
    found = getattr(client_with(), method)(address, body)
    assert found.status_code == 403
    assert found.json()["message"] == f"You do not have the permission {message}"


def reads_of(client, body):
    """Return what is read by three requests that find nothing, once one has been made."""
    for number in range(4):
        if number == 1:
            watched_engine.reads.clear()
        found = client.post(TAKES[0], body)
        assert (found.status_code, found.json()) == (200, {"queue": None, "items": []})
    return [*watched_engine.reads]


def test_the_queues_of_another_app_cost_nothing(client_with, queues, settings, monkeypatch):
    """Who may take from all others reads what is read without that app, and gets none of its."""
    owned = [QueueSpec("user-owned", "fifo", owner="shop")]
    settings.FDBQUEUE = {**settings.FDBQUEUE, "ENGINE": "tests.pages.watched_engine"}
    client, body = client_with("pop_queue"), {"queues": ["user-*"]}
    without = reads_of(client, body)
    monkeypatch.setitem(conf._added, "SHOP", lambda: owned)
    settings.FDBQUEUE = {**settings.FDBQUEUE}
    queues = conf.catalog()
    queues.queue("user-owned").push("secret")
    assert queues.owner("user-owned") == "shop"
    assert reads_of(client, body) == without != []
    assert client.post(TAKES[0], {"queues": ["user-owned"]}).status_code == 403
    assert client.post(TAKES[0], {"queues": ["user-own*", "nope*"]}).status_code == 403
    assert queues.queue("user-owned").size() == 1


def test_a_request_has_a_hundred_patterns_at_most(api, queues):
    """Each is compared with every name there is; plain names may be more."""
    patterns = [f"user-{number}*" for number in range(101)]
    refused = api.post(TAKES[0], {"queues": patterns})
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["queues"])
    assert api.post(TAKES[0], {"queues": patterns[:100]}).status_code == 200
    plain = [f"user-{number}" for number in range(500)]
    assert api.post(TAKES[0], {"queues": plain}).status_code == 200


@cases("names", [["-x"], ["a b"], ["user-1", "?"], [".*"], ["a/b"], ["é"]])
def test_what_is_no_name_is_refused_by_its_place(api, queues, names):
    """As the schema's pattern has it."""
    refused = api.post(TAKES[0], {"queues": names})
    assert refused.status_code == 400
    assert list(refused.json()["fields"]) == [f"queues.{len(names) - 1}"]
