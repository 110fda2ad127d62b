"""GETs that are crawled change no key, and odd requests get the API's own errors."""

from __future__ import annotations

import json
import re
from html import unescape

import fdb.tuple
import pytest

from fdbqueue import conf, service
from tests.api.test_listing import put
from tests.api.test_schema import OPERATIONS
from tests.cases import cases

JSON = "application/json"
#: What a browser sends.
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
ADDRESSES = sorted({path.replace("{name}", "mail") for _, path, _ in OPERATIONS.values()})
#: Statuses that a request without a body may have, whatever is odd about it.
FINE = {200, 304, 400, 404, 405, 406, 412, 413, 414, 415}


def keys(catalog):
    """Return all keys and values of the test's queues."""
    span = fdb.tuple.range(conf.prefix())

    def read(tr):
        return [(bytes(key), bytes(value)) for key, value in tr[span.start : span.stop]]

    return service.run(catalog.database, read, read_only=True)


@pytest.fixture
def filled(queues, clock):
    """Queues with items in every state, some of which the next pop or lease would move."""
    for name in ("mail", "jobs", "tried", "user-7"):
        queue = queues.queue(name)
        for number in range(5):
            queue.push(number)
        queue.push("later", delay=10)
        queue.push("much later", delay=10_000)
        queue.lease(seconds=10)
        queue.lease(seconds=10_000)
        queue.bury(queue.push("dead").id, reason="broken")
    queues.queue("raw").pause()
    put(queues.queue("audit"), b"junk")
    clock.advance(20)  # a lease and a delay have ended, and no popper has looked
    return queues


def crawl(api, accept, beginning):
    """GET addresses and those that their responses name, each once; yield the responses."""
    seen, left = set(beginning), list(beginning)
    while left:
        response = api.get(left.pop(), headers={"Accept": accept})
        yield response
        text = unescape(response.content.decode())
        found = re.findall(r'"(?:http://testserver)?(/api/[^"\s]*|\?cursor=[^"]+)"', text)
        path = response.wsgi_request.path
        for one in (f"{path}{each}" if each[0] == "?" else each for each in found):
            if one not in seen and not re.match("/api/(schema|docs|redoc)/", one):
                seen.add(one)
                left.append(one)


@pytest.mark.parametrize("accept", [JSON, pytest.param(BROWSER, marks=pytest.mark.nightly)])
def test_crawling_changes_nothing(api, filled, accept):
    """Every address and every link of its page, with what is due and what cannot be decoded."""
    ids = [item.id for item in filled.queue("mail").page(limit=9).items]
    queries = ["?state=leased", "?state=delayed", "?state=dead", "?end=max&limit=2", "?limit=0"]
    paths = [*ADDRESSES, *(f"/api/queues/mail/items/{query}" for query in queries)]
    beginning = [
        path.replace("mail", name).replace("{id}", ids[0])
        for path in paths
        for name in ("mail", "jobs", "raw", "audit", "nope")
    ]
    before = keys(filled)
    responses = list(crawl(api, accept, ["/api/", *beginning]))
    assert keys(filled) == before
    assert len(responses) > len({*beginning})
    assert {response.status_code for response in responses} <= FINE | {409}  # a corrupt item
    kinds = {response["Content-Type"].partition(";")[0] for response in responses}
    assert kinds <= {JSON, accept.partition(",")[0]}


#: What may be odd about a request, none of which makes it another.
METHODS = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "PATCH", "CONNECT", "BREW", "get", "PROPFIND"]
QUERIES = [
    "a",
    "=",
    "a=1",
    "%00",
    "%ff=%fe",
    "limit=1&limit=1",
    "limit[]=1",
    "limit=1e3",
    "cursor=",
    "end=%00",
    "state=é",
    "limit=%2B1",
    "limit=" + "9" * 500,
    "_method=DELETE",
]
HEADERS: list[dict[str, str]] = [
    *({"Accept": value} for value in ("/", ";", ",,,", "*", "q=1", "*/*;q=2", "text/html;q=x")),
    *({"Accept": value} for value in ("a/b," * 1_000, "x" * 5_000, "é", "application/json;" * 300)),
    *({"Content-Type": value} for value in ("", "x", "text/html", "application/json;" * 99, "é")),
    *({"Content-Length": value} for value in ("", "-1", "x", "9" * 30, "1.5")),
    *({"Idempotency-Key": value} for value in ("", " ", "é", "x" * 256)),
    *({"If-None-Match": value} for value in ("", "*", '"', "W/", '"a", "b"', "é", '"' * 999)),
    *({"X-Request-ID": value} for value in ("", "\t", "<script>", "x" * 9_999)),
    {"Range": "bytes=0-1"},
    {"If-Match": '"x"'},
    {"If-Modified-Since": "yesterday"},
    {"Transfer-Encoding": "chunked"},
    {"Content-Encoding": "gzip"},
    {"X-HTTP-Method-Override": "DELETE"},
    {"Cookie": "sessionid=\x7f; csrftoken=;;="},
    {"Accept-Language": "x" * 999},
]
NAMES = ["%00", "%ff", "%2e%2e", "%2F", "é", "%0a", "x" * 200, "a*", " ", "'", "<b>", "mail%00"]


def check_form(response, *, is_head=False):
    """Check that a response is one of those that there are, in one of the API's forms."""
    assert response.status_code in FINE, response.content
    if response.status_code in {304, 412}:  # Django's
        return
    assert response["X-Request-ID"]
    if is_head:
        return
    kind = response["Content-Type"].partition(";")[0]
    assert kind in {JSON, "text/html"}
    if kind != "text/html":
        shown = json.loads(response.content)
        assert response.status_code == 200 or shown["code"]


@pytest.mark.parametrize("address", ["/api/", *ADDRESSES])
def test_odd_requests(api, filled, address):
    """Odd methods, queries and headers get an answer in the API's form, and change nothing."""
    path = address.replace("{id}", filled.queue("mail").page(limit=1).items[0].id)
    before = keys(filled)
    for method in METHODS:
        check_form(api.generic(method, path), is_head=method == "HEAD")
    for query in QUERIES:
        check_form(api.generic("GET", f"{path}?{query}"))
        check_form(api.generic("POST", f"{path}?{query}", b"{}", content_type=JSON))
    for headers in HEADERS:
        check_form(api.generic("GET", path, headers=headers))
        check_form(api.generic("POST", path, b"", headers=headers))
    assert keys(filled) == before


@cases("name", NAMES)
def test_odd_names(api, filled, name):
    """Names that no queue and no item can have are 400 or 404, in JSON and as a page."""
    before = keys(filled)
    for address in ADDRESSES:
        for path in (
            address.replace("mail", name).replace("{id}", "FQEB"),
            address.replace("{id}", name),
        ):
            if name not in path:
                continue
            for accept in (JSON, BROWSER):
                check_form(api.get(path, headers={"Accept": accept}))
            check_form(api.post(path, {"odd": 1}))
    assert keys(filled) == before
