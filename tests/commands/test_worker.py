"""The worker of ``queue_work``, where leases and functions go wrong."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
import threading
import time

import pytest

import fdbqueue
from fdbqueue.exceptions import LeaseLost, OutcomeUnknown
from fdbqueue.own_threads import ThreadDied, WorkerThreads
from fdbqueue.service import Counts, Worker
from fdbqueue.service.tools.line import LeaseExtender, Line
from tests.asleep import work_in_thread
from tests.engines.children import wait_until
from tests.tasks import bad_jobs

DEADLINE_SECONDS = 60


@pytest.fixture
def mail():
    """An empty FIFO queue."""
    return fdbqueue.queue("mail")


def run(worker):
    """Run a worker to its end, and return what it raised."""
    thread, raised = work_in_thread(worker)
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

    worker = Worker(mail, handle, threads=2, on_end=tell)
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


def test_an_item_whose_ack_has_failed_is_told_with_the_error(mail, monkeypatch):
    """If an ack fails, its item is not told as done, because it may be in the queue still."""

    def fails(*_):
        raise OutcomeUnknown

    told = []
    mail.push(1)
    monkeypatch.setattr(mail, "ack", fails)
    worker = Worker(
        mail, lambda item: None, limit=1, on_end=lambda item, error: told.append(type(error))
    )
    (raised,) = run(worker)
    assert isinstance(raised, OutcomeUnknown)
    assert told == [OutcomeUnknown]
    assert (worker.handled, worker.lost) == (0, 1)


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


@pytest.mark.parametrize("concurrency", [1, 7])
def test_a_limit_is_kept(mail, concurrency):
    """Whoever leases: no more items than that are taken, and none stays leased."""
    mail.push_many(range(100))
    worker = Worker(mail, lambda item: None, threads=concurrency, limit=50)
    assert run(worker) == []
    assert worker.handled == 50
    assert (mail.size(), mail.counts().leased) == (50, 0)


def test_a_limit_that_is_reached_later(mail):
    """A thread that looks for the last item in vain does not end a worker that follows."""
    mail.push_many([1, 2])
    ended = []

    def tell(item, error):
        ended.append(item.value)
        if len(ended) == 2:
            threading.Timer(0.2, mail.push, [3]).start()

    worker = Worker(mail, lambda item: None, limit=3, follow=True, on_end=tell)
    assert run(worker) == []
    assert ended == [1, 2, 3]


def test_items_that_a_function_pushes_are_worked_on_together(mail):
    """By the threads that had nothing to do, and not one after the other."""
    together = threading.Barrier(4)

    def handle(item):
        if item.value == "first":
            mail.push_many(["one of four"] * 4)
        else:
            together.wait(DEADLINE_SECONDS)

    mail.push("first")
    worker = Worker(mail, handle, threads=4)
    assert run(worker) == []
    assert (worker.handled, worker.failed) == (5, 0)


def test_items_are_acknowledged_with_the_next_lease(mail, monkeypatch):
    """All of them but those after which nothing is left, and none by itself."""
    acked = []
    lease_many = mail.lease_many

    def lease(count, *, ack, **options):
        acked.extend(ack)
        return lease_many(count, ack=ack, **options)

    monkeypatch.setattr(mail, "lease_many", lease)
    monkeypatch.setattr(mail, "ack", lambda item: pytest.fail("an ack by itself"))
    mail.push_many(range(40))
    worker = Worker(mail, lambda item: None, threads=5)
    assert run(worker) == []
    assert sorted(item.value for item in acked) == list(range(40))
    assert (worker.handled, mail.counts().leased) == (40, 0)


@pytest.mark.parametrize("kind", [SystemExit, RuntimeError])
@pytest.mark.parametrize("concurrency", [1, 3])
def test_an_error_while_it_leases_the_next(mail, monkeypatch, kind, concurrency):
    """The items that are done are acknowledged all the same, and the caller's thread raises it."""
    lease_many = mail.lease_many

    def lease(count, *, ack, **options):
        if ack:
            raise kind("no")
        return lease_many(count, ack=ack, **options)

    monkeypatch.setattr(mail, "lease_many", lease)
    mail.push_many(range(40))
    worker = Worker(mail, lambda item: None, threads=concurrency)
    assert [type(error) for error in run(worker)] == [kind]
    assert worker.handled >= 1
    assert (mail.size(), mail.counts().leased) == (40 - worker.handled, 0)


@pytest.mark.parametrize("kind", [SystemExit, RuntimeError])
def test_an_error_of_an_ack(mail, monkeypatch, kind):
    """The caller's thread raises it, whatever kind it is, and the worker ends."""

    def fail(item):
        raise kind("no")

    monkeypatch.setattr(mail, "ack", fail)
    mail.push_many(range(3))
    worker = Worker(mail, lambda item: None, limit=1)
    assert [type(error) for error in run(worker)] == [kind]
    assert (worker.handled, worker.lost) == (0, 1)


def test_an_item_that_is_pushed_while_the_queue_is_found_empty(mail, monkeypatch):
    """By the last function that runs, which fails: the worker looks again."""
    looked = threading.Event()
    lease_many = mail.lease_many

    def lease(count, **options):
        items = lease_many(count, **options)
        if not items and not looked.is_set():
            looked.set()
            wait_until(lambda: worker.failed == 1)
        return items

    def handle(item):
        if item.value == "first":
            assert looked.wait(DEADLINE_SECONDS)
            mail.push("second")
            raise ValueError("no")

    monkeypatch.setattr(mail, "lease_many", lease)
    mail.push("first")
    worker = Worker(mail, handle, threads=2, retry_delay_seconds=600)
    assert run(worker) == []
    assert (worker.handled, worker.failed) == (1, 1)


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("follow", [True, False])
def test_stopped_by_its_function(mail, concurrency, follow):
    """What runs is finished and acknowledged, and nothing more is leased."""
    mail.push_many(range(1_000))

    stopped = threading.Event()

    def handle(item):
        if item.value == 50:
            worker.stop()
            stopped.set()
        assert item.value < 50 or stopped.wait(DEADLINE_SECONDS)

    worker = Worker(mail, handle, threads=concurrency, follow=follow)
    assert run(worker) == []
    assert 50 <= worker.handled <= 50 + 2 * concurrency
    assert (mail.size(), mail.counts().leased) == (1_000 - worker.handled, 0)


def test_stopped_while_it_waits(mail):
    """By another thread."""
    waiting = mail.parts.group.watch
    worker = Worker(mail, lambda item: None, follow=True)

    def stop():
        wait_until(lambda: waiting.waiting)
        worker.stop()

    stopping = threading.Thread(target=stop, daemon=True)
    stopping.start()
    assert run(worker) == []
    stopping.join(DEADLINE_SECONDS)


def test_interrupted_while_the_last_items_run(mail):
    """The worker finishes the items, and calls on_stop with their number."""
    begun, told = threading.Event(), []
    waits = iter(range(9))

    @contextlib.contextmanager
    def let_in():
        if next(waits):
            assert begun.wait(DEADLINE_SECONDS)
            raise KeyboardInterrupt("stop")
        yield

    def handle(item):
        begun.set()
        wait_until(lambda: told)

    mail.push("a")
    worker = Worker(mail, handle, limit=1, let_in=let_in, on_stop=told.append)
    assert [type(error) for error in run(worker)] == [KeyboardInterrupt]
    assert (told, worker.handled, mail.counts().leased) == ([1], 1, 0)


def test_an_error_of_one_thread_while_others_run(mail, monkeypatch):
    """The worker calls on_stop with the number that still runs, and finishes these."""
    told, failed = [], threading.Event()
    ack = mail.ack

    def fail(item):
        if item.value == "bad":
            failed.set()
            raise RuntimeError("no")
        ack(item)

    def handle(item):
        if item.value == "good":
            wait_until(lambda: told)

    monkeypatch.setattr(mail, "ack", fail)
    monkeypatch.setattr(mail, "lease_many", _without_acks(mail.lease_many))
    mail.push_many(["good", "bad"])
    worker = Worker(mail, handle, threads=2, on_stop=told.append)
    assert [type(error) for error in run(worker)] == [RuntimeError]
    assert failed.is_set()
    assert (told, worker.handled) == ([1], 1)


def _without_acks(lease_many):
    """Return a lease that fails where it would acknowledge: then each item is by itself."""

    def lease(count, *, ack, **options):
        if ack:
            raise LeaseLost(queue="mail", lease="none")
        return lease_many(count, ack=ack, **options)

    return lease


def test_the_caller_sleeps_while_threads_lease_for_themselves(mail, monkeypatch):
    """The thread that ends an item leases the next one, and does not wake the caller for that."""
    mail.push_many(range(200))
    beats = []
    real = Worker._await
    monkeypatch.setattr(Worker, "_await", lambda *args: beats.append(1) or real(*args))
    worker = Worker(mail, lambda item: None)
    assert run(worker) == []
    assert worker.handled == 200
    assert len(beats) < 100, "the caller's thread was woken for most items"


@pytest.mark.parametrize("names", [["mail"], ["mail", "user-*"]], ids=str)
@pytest.mark.parametrize(
    ("kind", "line"), [(Line, "end"), (LeaseExtender, "_extend"), (Worker, "_finish_late")]
)
def test_a_thread_that_dies_ends_the_worker(monkeypatch, mail, names, kind, line):
    """What waits is requeued as it was, what runs is given up, and its end is refused later."""
    mail.push_many(range(6))
    begun, goes_on, told = threading.Event(), threading.Event(), []

    def handle(item):
        if item.value == 0:
            begun.set()
            assert goes_on.wait(DEADLINE_SECONDS)
        else:
            assert begun.wait(DEADLINE_SECONDS)

    def dies(*_):
        assert begun.wait(DEADLINE_SECONDS)
        raise MemoryError

    monkeypatch.setattr(kind, line, dies)
    source = mail if len(names) == 1 else fdbqueue.several(names)
    worker = Worker(
        source,
        handle,
        threads=2,
        prefetch=3,
        seconds=1 if kind is LeaseExtender else 600,
        retry_delay_seconds=0,
        follow=True,
        on_end=lambda item, error: told.append((item.value, type(error))),
    )
    (raised,) = run(worker)
    assert isinstance(raised, ThreadDied)
    assert isinstance(raised.__cause__, MemoryError)
    assert mail.counts() == Counts(6 - worker.handled, 0, 0, 0)
    assert (0, ThreadDied) in told
    attempts = {item.value: item.attempts for item in mail.peek_many(9)}
    assert attempts[0] == 1
    assert sum(attempts.values()) == worker.failed <= 2
    monkeypatch.undo()
    goes_on.set()
    later = Worker(source, lambda _: None)
    assert run(later) == []
    assert later.handled + worker.handled == 6


def dying(monkeypatch, threads, acknowledges):
    """Have a thread of a worker die once another one acknowledges, while item 0 runs.

    Returns:
        What handles the items, and an event that lets item 0 go on.
    """
    begun, goes_on = threading.Event(), threading.Event()

    def handle(item):
        if item.value == 0:
            begun.set()
            assert goes_on.wait(DEADLINE_SECONDS)
        assert begun.wait(DEADLINE_SECONDS)

    def dies(*_):
        assert acknowledges.wait(DEADLINE_SECONDS)
        raise MemoryError

    monkeypatch.setattr(LeaseExtender, "run", dies)
    monkeypatch.setattr("fdbqueue.service.tools.worker.WorkerThreads", lambda: threads)
    return handle, goes_on


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
def test_a_thread_that_dies_as_another_acknowledges(monkeypatch, mail, is_before):
    """Each item that was acknowledged is counted so, and what was leased with that is requeued."""
    mail.push_many(range(6))
    acknowledges, told, threads = threading.Event(), [], WorkerThreads()
    real = mail.lease_many

    def lease_many(count, *, ack=(), **options):
        if not ack:
            return real(count, **options)
        wait_for_death(is_before)
        leased = real(count, ack=ack, **options)
        wait_for_death(not is_before)
        return leased

    def wait_for_death(is_here):
        if is_here:
            acknowledges.set()
            wait_until(lambda: threads.death is not None, DEADLINE_SECONDS)
            time.sleep(0.2)  # the caller goes on meanwhile: it must wait, or it acknowledges, too

    monkeypatch.setattr(mail, "lease_many", lease_many)
    handle, goes_on = dying(monkeypatch, threads, acknowledges)
    on_end = lambda item, error: told.append((item.value, type(error)))  # noqa: E731
    worker = Worker(mail, handle, threads=2, retry_delay_seconds=0, on_end=on_end)
    raised, counts = run(worker), mail.counts()
    goes_on.set()
    assert [type(error) for error in raised] == [ThreadDied]
    assert counts == Counts(5, 0, 0, 0)
    assert (worker.handled, worker.failed, worker.lost) == (1, 1, 0)
    assert sorted(told) == [(0, ThreadDied), (1, type(None))]
    assert [item.attempts for item in mail.peek_many(9)].count(1) == 1


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
def test_a_thread_that_dies_as_another_ends_its_item(monkeypatch, mail, is_before):
    """Of several queues each item is acknowledged by its own thread, and counted so."""
    mail.push_many(range(3))
    acknowledges, threads = threading.Event(), WorkerThreads()
    source = fdbqueue.several(["mail", "user-*"])
    real = source.ack

    def ack(item):
        if not is_before:
            real(item)
        acknowledges.set()
        wait_until(lambda: threads.death is not None, DEADLINE_SECONDS)
        time.sleep(0.2)  # the caller goes on meanwhile: it must wait, or it ends this, too
        if is_before:
            real(item)

    monkeypatch.setattr(source, "ack", ack)
    handle, goes_on = dying(monkeypatch, threads, acknowledges)
    worker = Worker(source, handle, threads=2, retry_delay_seconds=0)
    raised, counts = run(worker), mail.counts()
    goes_on.set()
    assert [type(error) for error in raised] == [ThreadDied]
    assert counts == Counts(2, 0, 0, 0)
    assert (worker.handled, worker.failed, worker.lost) == (1, 1, 0)


def test_a_handler_of_the_log_that_raises_ends_nothing(mail, capsys):
    """Each item has its one end, and the error is on standard error."""
    mail.push_many(range(9))

    class Away(logging.Handler):
        def emit(self, record):
            raise ConnectionError("the server of the log is away")

    def handle(item):
        if item.value % 3 == 0:
            raise LookupError
        if item.value % 3 == 1:
            mail.nack(item, delay=3_600)  # its lease is lost

    away = Away()
    logging.getLogger("fdbqueue").addHandler(away)
    try:
        worker = Worker(mail, handle, retry_delay_seconds=3_600)
        assert run(worker) == []
    finally:
        logging.getLogger("fdbqueue").removeHandler(away)
    assert (worker.handled, worker.failed, worker.lost) == (3, 3, 3)
    assert mail.counts() == Counts(0, 0, 6, 0)
    assert "the server of the log is away" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [*bad_jobs.SLY])
def test_an_exception_that_raises_when_it_is_looked_at(mail, kind):
    """Its item is given up with what it says; the next one is handled."""
    mail.push_many([1, 2])

    def handle(item):
        if item.value == 1:
            raise bad_jobs.SLY[kind]("what the reader needs")

    worker = Worker(mail, handle, retry_delay_seconds=3_600)
    assert run(worker) == []
    assert (worker.handled, worker.failed) == (1, 1)
    (item,) = mail.page(state="delayed").items
    assert mail.get(item.id).failures[0].reason.endswith(": what the reader needs")


#: A worker whose process has another ``SimpleQueue``, and locks of its own, as gevent gives it.
_PATCHED = """
import _thread, collections, queue, threading

class SimpleQueue:
    __class_getitem__ = classmethod(lambda cls, _: cls)

    def __init__(self):
        self.items, self.has_items = collections.deque(), threading.Condition()

    def put(self, item):
        with self.has_items:
            self.items.append(item)
            self.has_items.notify()

    def get(self, block=True, timeout=None):
        with self.has_items:
            if not self.has_items.wait_for(lambda: self.items, timeout if block else 0):
                raise queue.Empty
            return self.items.popleft()

    def get_nowait(self):
        return self.get(block=False)

    def empty(self):
        return not self.items

    def qsize(self):
        return len(self.items)

queue.SimpleQueue = SimpleQueue
threading._CRLock = None

import sys
from fdb.subspace_impl import Subspace
from fdbqueue import locks
from fdbqueue.engines import embedded
from fdbqueue.service import FifoQueue, Worker

assert locks.RLock is not _thread.RLock
mail = FifoQueue(embedded.open(sys.argv[1]), Subspace(("mail",)))
mail.push_many(range(50))
done = []
Worker(mail, lambda item: done.append(item.value), threads=3, prefetch=4).run()
print(sorted(done) == list(range(50)), mail.counts().leased)
"""


@pytest.mark.skipif(sys.version_info[:2] == (3, 14), reason="there locks are a class of ours")
def test_a_process_whose_queues_and_locks_are_patched(tmp_path):
    """As by gevent: the line of a worker is a queue like any other."""
    command = [sys.executable, "-c", _PATCHED, str(tmp_path / "queues.sqlite3")]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout == "True 0\n"
