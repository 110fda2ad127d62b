"""The worker of ``queue_drain --handler``, where leases and functions go wrong."""

from __future__ import annotations

import contextlib
import threading

import pytest

import fdbqueue
from fdbqueue.exceptions import LeaseLost
from fdbqueue.service import Worker

DEADLINE_SECONDS = 30


@pytest.fixture
def mail():
    """An empty FIFO queue."""
    return fdbqueue.queue("mail")


def run(worker):
    """Run a worker to its end, and return what it raised."""
    raised = []

    def target():
        try:
            worker.run()
        except BaseException as error:  # noqa: BLE001  # for the test to see
            raised.append(error)

    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()
    return raised


@pytest.fixture(autouse=True)
def no_thread_is_left():
    """Each worker has ended its threads."""
    yield
    for thread in threading.enumerate():
        if thread.name == "fdbqueue-worker":
            thread.join(DEADLINE_SECONDS)
            assert not thread.is_alive()


def test_a_lease_that_is_lost_while_the_function_runs(mail):
    """The item is leased again by the same worker: both calls end, and the worker stops."""
    mail.push_many([1, 2])
    lost, again, told = threading.Event(), threading.Event(), threading.Event()

    def handle(item):
        if item.value == 2:
            assert lost.wait(DEADLINE_SECONDS)
        elif item.attempts == 0:
            mail.extend(item, 0)
            lost.set()
            assert again.wait(DEADLINE_SECONDS)
        else:
            again.set()
            assert told.wait(DEADLINE_SECONDS)

    def tell(item, error):
        if isinstance(error, LeaseLost):
            told.set()

    worker = Worker(mail, handle, concurrency=2, on_end=tell)
    assert run(worker) == []
    assert (worker.handled, worker.failed, worker.lost) == (2, 0, 1)
    assert mail.counts().leased == mail.size() == 0


def test_an_error_without_a_text(mail):
    """Its type is the reason, and the worker goes on."""

    class Silent(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    def handle(item):
        raise Silent

    queue = fdbqueue.queue("mail")
    queue.push_many([1, 2])
    worker = Worker(queue, handle, retry_delay_seconds=600)
    assert run(worker) == []
    assert (worker.failed, queue.counts().delayed) == (2, 2)


def test_telling_of_an_end_ends_no_thread(mail):
    """Whatever is raised where an item's end is told, the next item is worked on."""
    mail.push_many([1, 2, 3])

    def tell(item, error):
        raise SystemExit(3)

    worker = Worker(mail, lambda item: None, on_end=tell)
    assert run(worker) == []
    assert worker.handled == 3


@pytest.mark.parametrize("kind", ["coroutine", "generator", "async generator"])
def test_what_is_returned_and_did_nothing(mail, kind):
    """A coroutine or a generator that a function returns is a failure, and is closed."""

    async def wait():
        pass

    def count():
        yield

    async def count_slowly():
        yield

    made = {"coroutine": wait, "generator": count, "async generator": count_slowly}[kind]
    errors = []
    mail.push(1)
    worker = Worker(
        mail,
        lambda item: made(),
        retry_delay_seconds=600,
        on_end=lambda item, error: errors.append(error),
    )
    assert run(worker) == []
    assert (worker.handled, worker.failed) == (0, 1)
    assert str(errors[0]).startswith("the function returned a")
    assert mail.counts().delayed == 1


def test_interrupted_while_it_is_told_of_what_runs(mail):
    """The second interrupt abandons what runs, also one that comes at once."""
    begun, end = threading.Event(), threading.Event()
    mail.push(1)

    @contextlib.contextmanager
    def let_in():
        if mail.counts().leased:
            assert begun.wait(DEADLINE_SECONDS)
            raise KeyboardInterrupt("first")
        yield

    def handle(item):
        begun.set()
        assert end.wait(DEADLINE_SECONDS)

    def interrupt(running):
        raise KeyboardInterrupt(f"second, {running} running")

    try:
        (raised,) = run(Worker(mail, handle, let_in=let_in, on_stop=interrupt))
        assert (type(raised), str(raised)) == (KeyboardInterrupt, "second, 1 running")
        assert mail.counts().leased == 1
    finally:
        end.set()
