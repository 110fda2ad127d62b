"""The OpenAPI schema: as it is checked in, true to what is answered, and its pages."""

from __future__ import annotations

import datetime
import difflib
import io
import re
from pathlib import Path

import pytest
import yaml
from django.conf import settings as project
from django.core.management import call_command
from drf_spectacular.generators import SchemaGenerator
from jsonschema import Draft202012Validator, FormatChecker

from fdbqueue.api.viewsets import QueueViewSet
from project import schema
from tests.api.test_listing import put
from tests.cases import cases
from tests.docs.blocks import Page
from tests.docs.tables import table

FILE = Path(project.BASE_DIR) / "docs" / "openapi.yaml"
#: LibYAML's where it is there: Python's own takes seconds for this file.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
SCHEMA = yaml.load(FILE.read_text(encoding="utf-8"), LOADER)
OPERATIONS = {
    operation["operationId"]: (method, path, operation)
    for path, methods in SCHEMA["paths"].items()
    for method, operation in methods.items()
    if path.startswith("/api/queues/")
}
#: Operations that may be repeated without a key: again they find less to do.
WITHOUT_KEY = {
    f"queues_{name}"
    for name in ("bury", "give_back", "pause", "purge", "redrive", "resume", "run_now")
}
each_operation = cases("name", OPERATIONS)


def converted(part):
    """Return a part of an OpenAPI 3.0 schema as JSON schema: null is a type of its own."""
    if isinstance(part, list):
        return [converted(member) for member in part]
    if not isinstance(part, dict):
        return part
    plain = {key: converted(value) for key, value in part.items() if key != "nullable"}
    if part.get("nullable") is not True or not plain.keys() & {"type", "oneOf", "allOf"}:
        return plain
    return {"anyOf": [plain, {"type": "null"}]}


FORMATS = FormatChecker(())


@FORMATS.checks("date-time", ValueError)
def is_moment_in_utc(value):
    """Tell whether a text is a moment in ISO 8601, in UTC."""
    if isinstance(value, str):
        datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
    return not isinstance(value, str) or value.endswith("Z")


COMPONENTS = converted(SCHEMA["components"])


def errors(value, schema):
    """Return what is wrong with a value by a schema of the document."""
    whole = {**converted(schema), "components": COMPONENTS}
    checker = Draft202012Validator(whole, format_checker=FORMATS)
    return [f"{error.json_path}: {error.message}" for error in checker.iter_errors(value)]


def answer_schema(name, status):
    """Return the schema of an operation's answer."""
    answers = OPERATIONS[name][2]["responses"]
    assert str(status) in answers, f"{name} does not tell of {status}"
    return answers[str(status)]["content"]["application/json"]["schema"]


def check(name, response):
    """Check an answer against the schema, and return it."""
    assert response["Content-Type"] == "application/json"
    shown = response.json()
    assert errors(shown, answer_schema(name, response.status_code)) == []
    return shown


def test_the_file_is_what_is_generated():
    """Any change of the API shows as a change of the file; `make schema` writes it anew."""
    generated = io.StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=generated)
    kept = FILE.read_text(encoding="utf-8").splitlines()
    new = generated.getvalue().rstrip("\n").splitlines()
    changes = difflib.unified_diff(kept, new, "docs/openapi.yaml", "generated", lineterm="")
    text = "\n".join(changes)
    assert not text, f"run `make schema` where this is meant:\n{text}"


@each_operation
def test_every_operation_is_described(name):
    """Each has a sentence, an answer with an example, and examples of its body."""
    method, _, operation = OPERATIONS[name]
    assert operation["description"].endswith(".")
    assert re.fullmatch(r"[A-Z][a-z ]+", operation["summary"])
    good = [status for status in operation["responses"] if status.startswith("2")]
    assert set(good) == ({"200", "201"} if name == "queues_push" else {"200"})
    for status in good:
        assert operation["responses"][status]["content"]["application/json"]["examples"]
    assert ("requestBody" in operation) == (method == "post")
    if method == "post":
        assert operation["requestBody"]["required"] is True
        assert operation["requestBody"]["content"]["application/json"]["examples"]


def test_the_demo_makes_it_once(api, monkeypatch):
    """Who asks again gets the same; in each language, of which it keeps few."""
    made = []
    make = SchemaGenerator.get_schema

    def noted(*args, **options):
        made.append(args)
        return make(*args, **options)

    monkeypatch.setattr(schema, "_kept", {})
    monkeypatch.setattr(SchemaGenerator, "get_schema", noted)
    first, second = (api.get("/api/schema/").content for _ in range(2))
    assert first == second
    assert len(made) == 1
    monkeypatch.setattr(schema, "_MAX_LANGUAGES", 2)
    for language in ("de", "fr", "fr"):
        assert api.get(f"/api/schema/?lang={language}").status_code == 200
    assert len(made) == 4


def test_every_action_is_an_operation():
    """No action of the viewset is missing, and none is there that is not."""
    actions = {action.__name__ for action in QueueViewSet.get_extra_actions()}
    standard = ("list", "retrieve", "remove")  # the last has the address of an item
    assert {f"queues_{name}" for name in (*actions, *standard)} == set(OPERATIONS)


@each_operation
def test_the_errors_of_every_operation(name):
    """Each tells of the errors it may answer with; 429 and 503 say when to try again."""
    method, path, operation = OPERATIONS[name]
    expected = {"400", "401", "403", "406", "414", "429", "503"}
    if "{name}" in path:
        expected |= {"404"}
    once = method == "post" and name not in WITHOUT_KEY
    if method == "post":
        expected |= {"413", "415"} | ({"409", "422"} if once else set())
    found = {status for status in operation["responses"] if status.startswith(("4", "5"))}
    assert found - {"409"} == expected - {"409"}
    assert expected <= found
    for status in ("429", "503"):
        assert "Retry-After" in operation["responses"][status]["headers"]
    keys = [each["name"] for each in operation["parameters"] if each["in"] == "header"]
    assert keys == (["If-None-Match"] if method == "get" else ["Idempotency-Key"] if once else [])
    for status in found:
        content = operation["responses"][status]["content"]
        assert content.keys() == {"application/json"}
    for good in (status for status in operation["responses"] if status.startswith("2")):
        assert ("Idempotent-Replayed" in operation["responses"][good].get("headers", {})) == once


@each_operation
def test_the_headers_of_every_operation(name):
    """Reads have tags, a push a location; what is written of requests in logs is named."""
    method, _, operation = OPERATIONS[name]
    headers = {
        status: {*response.get("headers", {})}
        for status, response in operation["responses"].items()
    }
    assert ("304" in headers) == ("ETag" in headers["200"]) == (method == "get")
    assert [status for status in headers if "Location" in headers[status]] == (
        ["201"] if name == "queues_push" else []
    )
    assert all("X-Request-ID" in headers[one] for one in headers if one in {"200", "201", "503"})
    assert headers["429"] == {"Retry-After"}


def test_the_codes_are_those_of_the_documentation():
    """The enum has each code in the table of errors, and no other; its title is the project's."""
    rows = table(Page("docs/rest-api.md"), "status", "code")
    told = {code for row in rows for code in re.findall(r"`(\w+)`", row["code"])}
    assert SCHEMA["components"]["schemas"]["CodeEnum"]["enum"] == sorted(told)
    assert SCHEMA["info"]["title"] == "fdbqueue REST API"
    metadata = (Path(project.BASE_DIR) / "pyproject.toml").read_text(encoding="utf-8")
    assert re.findall(r'^version = "(.+)"$', metadata, re.MULTILINE) == [SCHEMA["info"]["version"]]


def examples():
    """Yield where an example is, the example, and its schema."""
    for name, (_, _, operation) in OPERATIONS.items():
        bodies = {"body": operation.get("requestBody", {"content": {}})}
        for place, holder in {**bodies, **operation["responses"]}.items():
            content = holder.get("content", {}).get("application/json", {})
            for title, example in content.get("examples", {}).items():
                yield f"{name} {place} {title}", example["value"], content["schema"]


@cases(("value", "schema"), [pytest.param(v, s, id=i) for i, v, s in examples()])
def test_the_examples_are_what_the_schema_says(value, schema):
    """Each example is valid by the schema it stands at."""
    assert errors(value, schema) == []


@pytest.mark.parametrize("name", ["mail", "jobs", "quakes", "raw", "pairs", "audit", "tried"])
def test_what_is_answered_is_what_the_schema_says(api, queues, name):
    """All answers of a session with a queue are valid by the schema."""
    address = f"/api/queues/{name}"
    one = {"value": "AAAA"}

    def post(verb, body):
        return check(f"queues_{verb}", api.post(f"{address}/{verb}/", body))

    post("push", one)
    post("push", {**one, "delay": 60})
    post("push", {"items": [one] * 5})
    for unique_while in ("ready", "pending", "pending"):
        post("push", {**one, "delay": 60, "unique": unique_while, "unique_while": unique_while})
    post("push", {"items": [one, {**one, "unique": "pending"}]})
    check("queues_list", api.get("/api/queues/"))
    check("queues_list", api.get("/api/queues/?limit=1"))
    check("queues_retrieve", api.get(f"{address}/"))
    check("queues_peek", api.get(f"{address}/peek/?limit=3"))
    item = post("pop", {})["items"][0]
    check("queues_item", api.get(f"{address}/items/{item['id']}/"))
    first, second, third = post("lease", {"limit": 3})["items"]
    post("extend", {"lease": first["lease"]})
    post("ack", {"lease": first["lease"]})
    post("ack", {"leases": [first["lease"], second["lease"]]})
    post("extend", {"leases": [first["lease"], third["lease"]]})
    post("nack", {"lease": third["lease"]})
    post("nack", {"leases": [first["lease"], third["lease"]]})
    check("queues_item", api.get(f"{address}/items/{third['id']}/"))
    for lost in ("ack", "nack", "extend"):
        assert post(lost, {"lease": first["lease"]})["code"] == "lease_lost"
    for state in ("ready", "leased", "delayed", "dead"):
        check("queues_items", api.get(f"{address}/items/?limit=1&state={state}"))
    post("pop", {"limit": 9})
    post("lease", {})
    check("queues_retrieve", api.get(f"{address}/"))


def test_odd_items_are_what_the_schema_says(api, queues):
    """So are dead letters, values of any type, and what cannot be read."""
    put(queues.queue("mail"), b"junk")
    check("queues_items", api.get("/api/queues/mail/items/"))
    check("queues_retrieve", api.get("/api/queues/mail/"))
    assert check("queues_pop", api.post("/api/queues/mail/pop/", {}))["code"] == "corrupt_item"
    for value in (None, True, 10**30, 0.5, [], {}, {"pushed": 1, "ids": []}):
        check("queues_push", api.post("/api/queues/tried/push/", {"value": value}))
    for _ in range(2):
        (item,) = api.post("/api/queues/tried/lease/", {}).json()["items"]
        body = {"lease": item["lease"], "reason": "broken"}
        check("queues_nack", api.post("/api/queues/tried/nack/", body))
    assert check("queues_items", api.get("/api/queues/tried/items/?state=dead"))["items"]


TOKEN = "FQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQA.AAAAAAAAAAA"
MOMENT = "2030-01-31T08:30:00Z"
#: Bodies, and whether they are acceptable.
BODIES = [
    ("push", {"value": 1, "delay": 1}, True),
    ("push", {"value": 1, "not_before": MOMENT}, True),
    ("push", {"value": 1, "delay": 1, "not_before": MOMENT}, False),
    ("push", {"items": [{"value": 1, "delay": 1, "not_before": MOMENT}]}, False),
    ("push", {"items": [{"value": 1, "delay": 1}, {"value": 1, "not_before": MOMENT}]}, True),
    ("push", {"value": "\0", "delay": 0}, True),
    ("push", {"value": {"\0": ["\0"]}}, True),
    ("pause", {}, True),
    ("pause", {"reason": ""}, True),
    ("pause", {"reason": "a\n花蓮"}, True),
    ("pause", {"reason": "\0"}, False),
    ("pause", {"reason": "x" * 1_001}, False),
    ("pause", {"reason": None}, False),
    ("pause", {"since": MOMENT}, False),
    ("resume", {}, True),
    ("resume", {"reason": ""}, False),
    ("push", {"value": 1, "unique": "é" * 500, "unique_while": "ready"}, True),
    ("push", {"items": [{"value": 1, "unique": " ", "unique_while": "pending"}]}, True),
    ("push", {"value": 1, "unique": ""}, False),
    ("push", {"value": 1, "unique": "\0"}, False),
    ("push", {"value": 1, "unique": "x" * 1_001}, False),
    ("push", {"value": 1, "unique": "k", "unique_while": "leased"}, False),
    ("nack", {"lease": TOKEN, "reason": ""}, True),
    ("nack", {"lease": TOKEN, "reason": "a\n花蓮"}, True),
    ("nack", {"lease": TOKEN, "reason": "a\0"}, False),
    ("nack", {"leases": [TOKEN], "reason": "\0"}, False),
    ("nack", {"leases": [TOKEN], "reason": "x" * 1_001}, False),
    ("nack", {"leases": []}, False),
    ("nack", {"leases": [TOKEN], "lease": TOKEN}, False),
    ("extend", {"leases": [TOKEN], "seconds": 1}, True),
    ("extend", {"leases": [TOKEN], "delay": 1}, False),
    ("ack", {}, False),
    ("purge", {"state": "ready"}, True),
    ("purge", {"state": "ready", "reason": None}, True),
    ("purge", {"state": "dead", "reason": ""}, True),
    ("purge", {"state": "dead", "reason": None}, True),
    *(("purge", {"state": one, "reason": "x"}, False) for one in ("ready", "leased", "delayed")),
    ("purge", {"reason": "x"}, False),
    *(
        (verb, body, good)
        for verb in ("ack", "nack", "extend")
        for token, good in (
            (TOKEN, True),
            ("", False),
            ("\0", False),
            (f"{TOKEN}\0", False),
            (f" {TOKEN}", False),
            (f"{TOKEN} ", False),
            (TOKEN.replace(".", ""), False),
            (TOKEN.replace("A", "é"), False),
            (".", False),
            ("x" * 20_001, False),
        )
        for body in ({"lease": token}, {"leases": [token]})
    ),
]


@cases(("verb", "body", "good"), BODIES)
def test_what_the_schema_allows_is_what_is_taken(api, verb, body, good):
    """A body is acceptable where the schema says so, and nowhere else."""
    content = OPERATIONS[f"queues_{verb}"][2]["requestBody"]["content"]["application/json"]
    assert (errors(body, content["schema"]) == []) is good
    response = api.post(f"/api/queues/mail/{verb}/", body)
    check(f"queues_{verb}", response)
    assert response.status_code in ({200, 201, 409} if good else {400})


@cases("cursor", ["", "\0", "a\0", "é:A", "A" * 2_999 + ":A"])
@cases("name", ["queues_list", "queues_items"])
def test_cursors_that_the_schema_forbids(api, name, cursor):
    """They are refused, and all that are allowed fit into an address."""
    _, path, operation = OPERATIONS[name]
    (schema,) = [each["schema"] for each in operation["parameters"] if each["name"] == "cursor"]
    assert errors(cursor, schema)
    assert schema["maxLength"] <= 3_000
    response = api.get(path.replace("{name}", "mail"), {"cursor": cursor})
    assert check(name, response)["code"] == "invalid_input"


def test_the_limits_are_those_of_the_settings(settings):
    """A project with other limits has another schema, of its own."""
    limits = {"MAX_LIMIT": 7, "MAX_WAIT_SECONDS": 3}
    settings.FDBQUEUE = {**settings.FDBQUEUE, "API": limits}
    generated = io.StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=generated)
    schemas = yaml.load(generated.getvalue(), LOADER)["components"]["schemas"]
    assert schemas["PopBody"]["properties"]["limit"]["maximum"] == 7
    assert schemas["PopBody"]["properties"]["wait"]["maximum"] == 3


def test_a_key_with_a_default_need_not_be_sent():
    """No body's key has a ``default``: generators of types take such a key for a required one."""
    bodies = [one for name, one in SCHEMA["components"]["schemas"].items() if "Body" in name]
    assert len(bodies) > 10
    keys = [key for body in bodies for key in body.get("properties", {}).values()]
    assert not [key for key in keys if "default" in key]
    lease = SCHEMA["components"]["schemas"]["LeaseBody"]["properties"]
    assert lease["seconds"]["description"].startswith("By default `60`. ")
    items = SCHEMA["paths"]["/api/queues/{name}/items/"]["get"]["parameters"]
    (limit,) = (one for one in items if one["name"] == "limit")
    assert limit["schema"]["default"] == 100


def test_the_demos_schema_is_asked_for_again_before_each_use(api):
    """It may be kept by its reader alone, who gets 304 while it has not changed."""
    response = api.get("/api/schema/")
    assert response["Cache-Control"] == "private, no-cache"
    known = {"If-None-Match": response["ETag"]}
    assert api.get("/api/schema/", headers=known).status_code == 304
