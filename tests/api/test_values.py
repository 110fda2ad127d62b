"""Values come back as they were pushed, whatever the codec."""

from __future__ import annotations

import json
import secrets
import uuid

import fdb.tuple
import pytest

from fdbqueue import service
from fdbqueue.exceptions import InvalidValue
from tests.cases import cases


def through(api, name, value):
    """Push a value alone and among others, pop and lease it; every answer must show it alike."""
    address = f"/api/queues/{name}"
    headers = {"Idempotency-Key": secrets.token_hex()}
    pushed = api.post(f"{address}/push/", {"value": value}, headers=headers)
    assert pushed.status_code == 201, pushed.content
    assert api.post(f"{address}/push/", {"value": value}, headers=headers).content == pushed.content
    many = api.post(f"{address}/push/", {"items": [{"value": value}]})
    assert many.status_code == 201
    first, second = api.get(f"{address}/items/").json()["items"]
    assert first == pushed.json()
    assert [second["id"]] == many.json()["ids"]
    assert api.get(f"{address}/").json()["last"] == second
    assert api.get(f"{address}/items/{second['id']}/").json() == second
    headers = {"Idempotency-Key": secrets.token_hex()}
    (popped,) = api.post(f"{address}/pop/", {}, headers=headers).json()["items"]
    again = api.post(f"{address}/pop/", {}, headers=headers)
    assert again.json() == {"items": [popped]} == {"items": [first]}
    (leased,) = api.post(f"{address}/lease/", {}).json()["items"]
    shown = {json.dumps(each["value"]) for each in (first, second, popped, leased)}
    assert len(shown) == 1
    assert api.post(f"{address}/ack/", {"lease": leased["lease"]}).status_code == 200
    return popped["value"]


@cases(
    "value",
    [
        None,
        True,
        0,
        10**30,
        -(10**4_000),
        2**53 + 1,
        0.1,
        -1.5e300,
        "",
        "花蓮 🌏 \x00 \u2028",
        [],
        {},
        {"": {"a": [1, [2, {"b": None}]], "ключ": "значение"}},
        {"items": [], "value": {"base64": "AA=="}, "__proto__": None},
        1.0,
        1e22,
        5e-324,
        '\ufeff\ufffe\U0010ffff\x1f"\\/',
    ],
)
def test_json_is_exact(api, value):
    """Any JSON value comes back equal and of the same type."""
    back = through(api, "mail", value)
    assert json.dumps(back) == json.dumps(value)


@pytest.mark.parametrize("name", ["mail", "jobs", "audit", "tried", "pairs"])
def test_the_deepest_value(api, queues, name):
    """Two hundred levels are a value in every kind of queue, and 201 are none.

    It is refused alike alone and among others, over REST and by the service.
    """
    value = 1
    for level in range(200):
        value = [value] if level % 2 or name == "pairs" else {"a": value}
    assert through(api, name, value) == value
    pushed = api.post(f"/api/queues/{name}/push/", {"items": [{"value": value}]})
    assert pushed.status_code == 201
    for _ in range(40):
        value = [value]
        for body in ({"value": value}, {"items": [{"value": 1}, {"value": value}]}):
            refused = api.post(f"/api/queues/{name}/push/", body)
            assert (refused.status_code, refused.json()["code"]) == (400, "invalid_value")
            assert "more than 200 levels" in refused.json()["reason"]
            assert refused.json().get("index") == (1 if "items" in body else None)
        with pytest.raises(InvalidValue, match="more than 200 levels"):
            queues.queue(name).push(value)
    assert queues.queue(name).size() == 1


@cases("text", [r"\ud800", r"\udfff", r"a\ude00\ud83d", r"\ud800\ud800"])
@cases("frame", ['"%s"', '["%s"]', '{"%s": 1}', '{"a": {"b": "%s"}}'])
def test_half_a_surrogate_pair(api, frame, text):
    """A text that no UTF-8 can hold is refused, wherever it stands, and a whole pair is not."""
    for body in ('{"value": %s}', '{"items": [{"value": %s}]}'):
        response = api.post(
            "/api/queues/mail/push/", body % (frame % text), content_type="application/json"
        )
        assert (response.status_code, response.json()["code"]) == (400, "invalid_value")
    whole = '{"value": %s}' % (frame % r"\ud83c\udf0f")
    pushed = api.post("/api/queues/mail/push/", whole, content_type="application/json")
    assert json.dumps(pushed.json()["value"]) == json.dumps(json.loads(frame % "🌏"))


def test_unicode_is_sent_as_utf_8(api):
    """Text is readable in the response, not escaped."""
    assert "花蓮".encode() in api.post("/api/queues/mail/push/", {"value": "花蓮"}).content


@pytest.mark.parametrize("parameter", ["indent=8", "indent=1", 'indent="8"', "q=1; indent=4"])
def test_an_answer_is_as_compact_as_the_value(api, parameter):
    """Whoever asks for indentation does not make megabytes of a value of 99 kB."""
    value = []
    for _ in range(195):
        value = [value, *([] for _ in range(165))]
    body = json.dumps({"value": value}, separators=(",", ":"))
    accept = {"Accept": f"application/json; {parameter}"}
    path = "/api/queues/mail/"
    pushed = api.post(f"{path}push/", body, content_type="application/json", headers=accept)
    peeked = api.get(f"{path}peek/?limit=5", headers=accept)
    for response in (pushed, peeked):
        assert response.status_code in {200, 201}
        assert response["Content-Type"] == "application/json"
        assert len(response.content) < len(body) + 500
    assert peeked.json()["items"] == [pushed.json()]


def test_half_a_surrogate_pair_from_others(api, queues):
    """A string that has no UTF-8, written by others, is popped in escapes, not lost."""
    mail = queues.queue("mail")
    key = mail.subspace.pack((1, b"\x01" * 20))
    service.run(mail.database, lambda tr: tr.set(key, fdb.tuple.pack((r'"\ud800"',))))
    response = api.post("/api/queues/mail/pop/", {})
    assert response.json()["items"][0]["value"] == "\ud800"


@pytest.mark.parametrize("data", ["", "aGVsbG8=", "AP/+gA=="])
def test_bytes_are_base64_both_ways(api, data):
    """A bytes queue takes and shows base64, and knows no time of the push."""
    assert through(api, "raw", data) == data
    assert api.post("/api/queues/raw/push/", {"value": data}).json()["pushed_at"] is None


def test_bytes_are_stored_as_they_are(api, queues):
    """What base64 stood for is what Python pops."""
    api.post("/api/queues/raw/push/", {"items": [{"value": "AP/+gA=="}]})
    item = queues.queue("raw").pop()
    assert item is not None
    assert item.value == b"\x00\xff\xfe\x80"


@cases("bad", ["a", "====", "a b=", "é", "aGVsbG8", 5, None, {"base64": ""}])
def test_wrong_base64(api, bad):
    """What is no base64 string is refused by a bytes queue."""
    response = api.post("/api/queues/raw/push/", {"value": bad})
    assert response.status_code == 400
    assert response.json()["code"] == "invalid_value"


@cases(
    "value",
    [
        None,
        False,
        10**30,
        0.5,
        "text",
        [1, ["a", None], []],
        [{"base64": "AP8="}, 1],
        [{"uuid": str(uuid.UUID(int=7))}, [{"float": "NaN"}]],
        [{"float": "-Infinity"}, {"float32": 0.5}, {"float32": "Infinity"}],
    ],
)
def test_tuples_are_arrays(api, value):
    """A tuple queue takes JSON, with objects for what JSON lacks."""
    assert through(api, "pairs", value) == value


def test_tuple_elements_are_stored_as_they_are(api, queues):
    """Arrays are tuples and base64 is bytes to whoever pops in Python."""
    api.post("/api/queues/pairs/push/", {"value": [1, {"base64": "AP8="}]})
    item = queues.queue("pairs").pop()
    assert item is not None
    assert item.value == (1, b"\x00\xff")


@cases(
    "bad",
    [
        {"a": 1},
        {"base64": "?"},
        {"base64": 1},
        {"base64": "AP8=", "uuid": str(uuid.UUID(int=7))},
        [{"text": "x"}],
        {"uuid": "7"},
        {"uuid": 7},
        {"float": 0.5},
        {"float": "nan"},
        {"float": ["NaN"]},
        {"float32": 1e300},
        {"float32": 10**400},
        {"float32": True},
        {"float32": None},
        {"versionstamp": "AP8="},
        {"versionstamp": 1},
        10**700,
    ],
)
def test_what_a_tuple_cannot_hold(api, bad):
    """Other objects, those of a wrong form, and integers beyond the tuple layer are refused."""
    response = api.post("/api/queues/pairs/push/", {"value": bad})
    assert response.status_code == 400
    assert response.json()["code"] == "invalid_value"


def test_elements_that_json_lacks(api, queues):
    """What only the tuple layer has is shown as an object, which can be pushed again."""
    name = uuid.UUID(int=7)
    queues.queue("pairs").push((name, float("nan"), float("-inf"), fdb.tuple.SingleFloat(0.5)))
    (item,) = api.post("/api/queues/pairs/pop/", {}).json()["items"]
    assert item["value"] == [
        {"uuid": str(name)},
        {"float": "NaN"},
        {"float": "-Infinity"},
        {"float32": 0.5},
    ]
    assert through(api, "pairs", item["value"]) == item["value"]


def test_a_priority_that_json_lacks(api, queues):
    """An infinite priority, written by others, is shown as text and can be popped."""
    quakes = queues.queue("quakes")
    key = quakes.subspace.pack((float("inf"), 0, b"\x01" * 20))
    service.run(quakes.database, lambda tr: tr.set(key, fdb.tuple.pack(("1",))))
    (item,) = api.post("/api/queues/quakes/pop/", {}).json()["items"]
    assert item["priority"] == "inf"
