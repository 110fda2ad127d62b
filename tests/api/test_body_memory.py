"""The memory that bodies may take in a process: how much, in which order, until when."""

from __future__ import annotations

import contextlib
import json
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from fdbqueue.api import media
from fdbqueue.api.media import SMALL_BYTES, BodyMemory
from fdbqueue.exceptions import DeadlineExceeded
from tests.api.test_waiting import Waiting, waiting_requests
from tests.cases import cases
from tests.engines.children import wait_until

LIMIT, LONG = 100_000, 60
PUSH = "/api/queues/mail/push/"


@pytest.fixture
def client(root, queues):
    """A client for threads."""
    return root()


def in_line(memory):
    """Return how many wait for memory."""
    return len(memory._line)


def large(**body):
    """Return a body that needs memory, whatever is in it."""
    return json.dumps(body) + " " * SMALL_BYTES


def test_what_fits_together_goes_together():
    """Up to the last byte; what is longer than all of it has it alone."""
    memory = BodyMemory()
    with contextlib.ExitStack() as held:
        for size in (50_000, 30_000, 20_001):
            with pytest.raises(DeadlineExceeded) if size == 20_001 else contextlib.nullcontext():
                held.enter_context(memory.reserved(size, LIMIT, 0))
        with pytest.raises(DeadlineExceeded):
            held.enter_context(memory.reserved(10 * LIMIT, LIMIT, 0))
    with memory.reserved(10 * LIMIT, LIMIT, 0), pytest.raises(DeadlineExceeded):
        held.enter_context(memory.reserved(SMALL_BYTES + 1, LIMIT, 0))


def test_those_who_wait_have_their_turns_in_order():
    """A large body is not passed by small ones for ever; one that gives up lets the next go on."""
    memory, order, sizes = BodyMemory(), [], [LIMIT, 30_000, 90_000, 30_000]

    def take(number):
        with memory.reserved(sizes[number], LIMIT, LONG):
            order.append(number)

    with ThreadPoolExecutor(len(sizes)) as pool:
        with memory.reserved(30_000, LIMIT, 0):
            done = []
            for number in range(len(sizes)):
                done.append(pool.submit(take, number))
                wait_until(lambda number=number: in_line(memory) == number + 1)
            with pytest.raises(DeadlineExceeded), memory.reserved(30_000, LIMIT, 0):
                pass
            assert order == []
        for one in done:
            one.result(LONG)
    assert order == [0, 1, 2, 3]


def test_an_interrupted_wait_leaves_nothing_behind():
    """A signal handler that raises in the main thread: neither the wait nor its lock stays."""

    def interrupt(_number, _frame):
        raise KeyboardInterrupt

    memory = BodyMemory()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with memory.reserved(LIMIT, LIMIT, 0):
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(KeyboardInterrupt), memory.reserved(LIMIT, LIMIT, LONG):
                pass
            assert in_line(memory) == 0
    finally:
        signal.signal(signal.SIGALRM, before)
    with memory.reserved(LIMIT, LIMIT, 0):
        pass


@cases(
    ("path", "body", "status"),
    [
        (PUSH, {"value": 1}, 201),
        (PUSH, {"items": [{"value": 1}]}, 201),
        (PUSH, {"value": 1, "x": 1}, 400),
        (PUSH, {}, 400),
        ("/api/queues/nope/push/", {"value": 1}, 404),
        ("/api/queues/mail/pop/", {}, 200),
        ("/api/queues/mail/lease/", {}, 200),
        ("/api/queues/mail/ack/", {"lease": "x"}, 400),
        ("/api/queues/mail/nack/", {"lease": "x"}, 400),
        ("/api/queues/mail/extend/", {"lease": "x"}, 400),
        ("/api/queues/mail/resume/", {}, 200),
    ],
)
def test_a_request_leaves_no_memory_reserved(client, path, body, status):
    """Whatever became of it, and also where its body is no JSON."""
    for text, expected in ((large(**body), status), (large(**body) + "}", 400)):
        assert client.post(path, text, content_type="application/json").status_code == expected
        assert media._body_memory._used_bytes == 0


def test_a_push_waits_for_memory_and_is_refused_in_time(client, queues, allow):
    """Nothing was changed then, and a small push is made meanwhile."""
    allow(TIMEOUT_SECONDS=0.1, MAX_BODY_BYTES=LIMIT)
    with media._body_memory.reserved(LIMIT, LIMIT, 0):
        refused = client.post(PUSH, large(value=1), content_type="application/json")
        assert (refused.status_code, refused.json()["code"]) == (503, "deadline_exceeded")
        assert "Retry-After" in refused
        allow(TIMEOUT_SECONDS=LONG, MAX_BODY_BYTES=LIMIT)
        assert client.post(PUSH, {"value": "small"}).status_code == 201
    assert [item.value for item in queues.queue("mail")] == ["small"]
    assert client.post(PUSH, large(value=1), content_type="application/json").status_code == 201


@pytest.mark.parametrize("verb", ["pop", "lease"])
def test_a_wait_for_items_reserves_no_memory(client, verb):
    """However long its body is: other bodies have it meanwhile."""
    body = large(wait=20)
    waiting = Waiting(client, f"/api/queues/mail/{verb}/", body, content_type="application/json")
    wait_until(lambda: waiting_requests("mail"))
    assert media._body_memory._used_bytes == 0
    assert client.post(PUSH, large(value=1), content_type="application/json").status_code == 201
    assert [item["value"] for item in waiting.response().json()["items"]] == [1]
