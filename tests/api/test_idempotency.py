"""Idempotency-Key: a request made again has its effect once, and the same answer."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from fdbqueue.api import inputs
from tests.cases import cases

ALL = ("view_queue", "push_queue", "pop_queue", "lease_queue", "manage_queue")
#: What a key is for: the address and the body, and a body that asks for something else.
VERBS = {
    "push": ("push/", {"value": 1, "delay": 5}, {"value": 2, "delay": 5}),
    "push many": ("push/", {"items": [{"value": 1}]}, {"items": [{"value": 1}, {"value": 1}]}),
    "pop": ("pop/", {"limit": 2}, {"limit": 1}),
    "pop of the other end": ("pop/", {"end": "max"}, {"end": "min"}),
    "lease": ("lease/", {"seconds": 30}, {"seconds": 31}),
    "lease of many": ("lease/", {"limit": 2}, {"limit": 3}),
}
each_verb = pytest.mark.parametrize(("path", "body", "other"), VERBS.values(), ids=VERBS)
#: What takes items, and for each field of its body but ``wait`` what else it may be.
TAKES = {
    "/api/queues/mail/pop/": inputs.PopBody,
    "/api/queues/mail/lease/": inputs.LeaseBody,
    "/api/pop-from/": inputs.PopFromBody,
    "/api/lease-from/": inputs.LeaseFromBody,
}
OTHER = {
    "end": ("max",),
    "fair": (True,),
    "limit": (2,),
    "queues": (["mail", "audit"], ["mai*"]),
    "seconds": (59,),
    "worker": ("one", "min", "other"),
}
KEYS = ["k", "x" * 255, "!~", '"8e03978e-40d5-43dd-bc93-6894a57f9324"']


def post(client, path, body, key, name="mail"):
    """Post under a key."""
    headers = {"Idempotency-Key": key}
    return client.post(f"/api/queues/{name}/{path}", body, headers=headers)


@pytest.fixture
def mail(queues):
    """A queue of four items, and one on its way."""
    queue = queues.queue("mail")
    for value in "abcd":
        queue.push(value)
    queue.push("late", delay=1_000)
    return queue


def contents(queue):
    """Return what is in a queue, in whatever state."""
    states = ("ready", "leased", "delayed", "dead")
    return [(item.id, state) for state in states for item in queue.iterate(state=state)]


@pytest.mark.parametrize("name", ["mail", "jobs", "audit", "raw", "pairs"])
@each_verb
def test_a_request_made_again(api, queues, clock, name, path, body, other):
    """The answer is the same to the byte, the effect is there once, and the header says so."""
    body, other = ({**each} for each in (body, other))
    if name == "raw" and path == "push/":
        body = {"items": [{"value": "AA=="}]} if "items" in body else {"value": "AA=="}
    for _ in range(3):
        assert api.post(f"/api/queues/{name}/push/", {"value": "QQ=="}).status_code == 201
    first = post(api, path, body, "key", name)
    assert first.status_code == (201 if path == "push/" else 200)
    assert "Idempotent-Replayed" not in first
    after = contents(queues.queue(name))
    clock.advance(20)
    again = post(api, path, body, "key", name)
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again["Idempotent-Replayed"] == "true"
    assert contents(queues.queue(name)) == after
    new = post(api, path, body, "another", name)
    assert new.content != first.content
    assert "Idempotent-Replayed" not in new


@each_verb
def test_another_body_under_the_key(api, mail, path, body, other):
    """It is 422, changes nothing, and the first body's answer is still there."""
    first = post(api, path, body, "key")
    after = contents(mail)
    refused = post(api, path, other, "key")
    assert refused.status_code == 422
    assert refused.json() == {
        "code": "idempotency_key_reused",
        "message": "Another call was made under this idempotency key; nothing was changed",
        "queue": "mail",
    }
    assert "Idempotent-Replayed" not in refused
    assert contents(mail) == after
    assert post(api, path, body, "key").content == first.content


@pytest.mark.parametrize("first", ["push/", "pop/", "lease/"])
@pytest.mark.parametrize("second", ["push/", "pop/", "lease/"])
def test_another_verb_under_the_key(api, mail, first, second):
    """A key that was used for one verb is 422 for another, whose effect is not had."""
    bodies = {"push/": {"value": 1}, "pop/": {}, "lease/": {}}
    assert post(api, first, bodies[first], "key").status_code in {200, 201}
    after = contents(mail)
    response = post(api, second, bodies[second], "key")
    assert (response.status_code == 422) == (first != second)
    assert contents(mail) == after


def test_one_item_and_a_batch_of_one_are_two_requests(api, mail):
    """They have two shapes of answers, so the one is refused under the other's key."""
    one, batch = {"value": 1}, {"items": [{"value": 1}]}
    before = mail.size()
    for key, first, second in (("a", one, batch), ("b", batch, one)):
        assert post(api, "push/", first, key).status_code == 201
        assert post(api, "push/", second, key).status_code == 422
    assert mail.size() == before + 2


@each_verb
def test_another_users_key(client_with, mail, path, body, other):
    """The same key of another user is another request: nobody sees what others took."""
    alice, bob = client_with(*ALL), client_with(*ALL)
    hers, his = post(alice, path, body, "key"), post(bob, path, body, "key")
    assert "Idempotent-Replayed" not in his
    assert ids_of(hers).isdisjoint(ids_of(his))
    assert ids_of(hers)
    assert ids_of(his)
    for client, response in ((alice, hers), (bob, his)):
        again = post(client, path, body, "key")
        assert again["Idempotent-Replayed"] == "true"
        assert again.content == response.content
    assert post(bob, path, other, "key").status_code == 422


def ids_of(response):
    shown = response.json()
    if "items" in shown:
        return {item["id"] for item in shown["items"]}
    return set(shown.get("ids") or [shown["id"]])


def test_users_whose_names_look_alike(mail, db):
    """Numbers, names and keys do not run together: each of these is another request."""
    seen = set()
    for number, name, key in ((1, "a", "1x"), (11, "b", "x"), (1, "a", "x"), (None, "1", "x")):
        client = APIClient()
        client.default_format = "json"
        client.force_authenticate(User(pk=number, username=name, is_superuser=True))
        response = post(client, "pop/", {}, key)
        assert "Idempotent-Replayed" not in response
        seen |= ids_of(response)
    assert len(seen) == 4


@pytest.mark.parametrize("key", KEYS)
def test_any_visible_ascii_is_a_key(api, mail, key):
    """Up to 255 characters, quotes and all, each as it is."""
    first = post(api, "pop/", {}, key)
    again = post(api, "pop/", {}, key)
    assert first.content == again.content
    assert again["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in post(api, "pop/", {}, key[:-1] or "other")


@pytest.fixture
def held(mail):
    """What names a lease of the queue."""
    return {"lease": mail.lease().lease}


@cases("key", ["", " ", "a b", "x" * 256, "ü", "a\x7f", "a\tb", "a\n"])
@cases("path", ["push/", "pop/", "lease/", "ack/", "nack/", "extend/"])
def test_bad_keys(api, mail, held, path, key):
    """What is no key is 400, and nothing happens."""
    before = contents(mail)
    headers = {"HTTP_IDEMPOTENCY_KEY": key}
    bodies = {"push/": {"value": 1}, "ack/": held, "nack/": held, "extend/": held}
    body = bodies.get(path, {})
    response = api.post(f"/api/queues/mail/{path}", body, **headers)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_idempotency_key")
    assert contents(mail) == before


def test_answers_are_kept_as_long_as_the_setting_says(api, mail, allow, clock):
    """After IDEMPOTENCY_SECONDS the key is as good as new, also for another request."""
    allow(IDEMPOTENCY_SECONDS=100)
    first = post(api, "pop/", {}, "key")
    clock.advance(99)
    assert post(api, "pop/", {}, "key").content == first.content
    clock.advance(2)
    second = post(api, "lease/", {}, "key")
    assert second.status_code == 200
    assert "Idempotent-Replayed" not in second
    assert second.json()["items"][0]["value"] == "b"


def test_a_refused_request_uses_up_no_key(api, queues):
    """After a mistake the same key is good for the request put right."""
    assert post(api, "push/", {"value": 1, "priority": 1}, "key").status_code == 400
    assert post(api, "push/", {"value": "x" * 100_001}, "key").status_code == 413
    right = post(api, "push/", {"value": 1}, "key")
    assert right.status_code == 201
    assert "Idempotent-Replayed" not in right


#: What ends a lease or lets it last, and what says something else under its key.
ENDINGS = {
    "ack": ("ack/", {}, {"other": True}),
    "nack": ("nack/", {"delay": 5, "reason": "?"}, {"delay": 6, "reason": "?"}),
    "extend": ("extend/", {"seconds": 500}, {"seconds": 501}),
}


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("name", ["mail", "jobs", "audit", "raw", "pairs"])
@pytest.mark.parametrize(("path", "more", "other"), ENDINGS.values(), ids=ENDINGS)
def test_a_lease_ended_again(api, queues, clock, name, many, path, more, other):
    """The answer is the same to the byte, whatever became of the lease; another body is 422."""
    entries = {"items": [{"value": "QQ=="}] * 4}
    assert api.post(f"/api/queues/{name}/push/", entries).status_code == 201
    leased = api.post(f"/api/queues/{name}/lease/", {"limit": 4}).json()["items"]
    first, second, third, lost = (item["lease"] for item in leased)
    queues.queue(name).ack(lost)
    tokens = {"leases": [first, lost, second]} if many else {"lease": first}
    body = {**tokens, **more}
    answer = post(api, path, body, "key", name)
    assert answer.status_code == 200
    assert "Idempotent-Replayed" not in answer
    if many:
        assert answer.json()["lost_leases"] == [lost]
    after = contents(queues.queue(name))
    for seconds in (20, 10_000):
        clock.advance(seconds)
        again = post(api, path, body, "key", name)
        assert (again.status_code, again.content) == (answer.status_code, answer.content)
        assert again["Idempotent-Replayed"] == "true"
        assert contents(queues.queue(name)) == after
    others = {"leases": [third]} if many else {"lease": third}
    wrong = [{**others, **more}, {"leases": [first], **more}]
    if "other" not in other:
        wrong.append({**tokens, **other})
    for each in wrong:
        assert post(api, path, each, "key", name).status_code == 422
        assert contents(queues.queue(name)) == after
    assert post(api, path, {**others, **more}, "another", name).status_code == 200


def test_where_keys_mean_nothing(api, mail):
    """Reads show what there is now, key or no key."""
    headers = {"Idempotency-Key": "key"}
    for path in ("", "mail/", "mail/peek/", "mail/items/"):
        first = api.get(f"/api/queues/{path}", headers=headers)
        mail.pop()
        second = api.get(f"/api/queues/{path}", headers=headers)
        assert first.status_code == second.status_code == 200
        assert first.content != second.content
        assert "Idempotent-Replayed" not in second
        mail.push("more")
    bad = {"HTTP_IDEMPOTENCY_KEY": "no key"}
    assert api.get("/api/queues/mail/", **bad).status_code == 200


@pytest.mark.parametrize(("address", "kind"), TAKES.items())
def test_a_key_is_for_everything_that_a_take_asks_for(api, mail, address, kind):
    """A request that differs in one field is refused, and that with another wait is a replay."""
    fields = kind().fields.keys() - {"wait"}
    body = {"queues": ["mail"]} if "queues" in fields else {}
    bodies = [{**body, name: value} for name in sorted(fields) for value in OTHER[name]]
    for number, first in enumerate([body, *bodies]):
        headers = {"Idempotency-Key": f"key {number}".replace(" ", "-")}
        assert api.post(address, first, headers=headers).status_code == 200
        before = contents(mail)
        replay = api.post(address, {**first, "wait": 1}, headers=headers)
        assert replay.headers["Idempotent-Replayed"] == "true"
        for other in [body, *bodies]:
            if other != first:
                refused = api.post(address, other, headers=headers)
                assert refused.status_code == 422, (first, other)
        assert contents(mail) == before


class Robot:
    """A user who is no row of a table of Django's, but has a primary key."""

    pk = 1
    is_authenticated = is_active = True

    def __str__(self):
        return "root"

    def has_perm(self, permission, queue=None):
        """Allow everything."""
        return True


@pytest.mark.parametrize("number", [1, None], ids=["pk", "name"])
def test_a_key_belongs_to_a_user_of_one_class(root, mail, monkeypatch, number):
    """One of another class may have the same primary key, or none and the same name."""
    monkeypatch.setattr(Robot, "pk", number)
    user, robot = root(), root()
    user.force_authenticate(User(pk=number, username="root", is_superuser=True))
    robot.force_authenticate(Robot())
    popped = [post(client, "pop/", {}, "k") for client in (user, robot)]
    assert [one.json()["items"][0]["value"] for one in popped] == ["a", "b"]
