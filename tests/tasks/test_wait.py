"""``wait`` and ``await_result``: they return when a task has ended, and end in time otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import threading
import time

import pytest
from asgiref.sync import async_to_sync

from fdbqueue.exceptions import EngineUnavailable
from fdbqueue.service import run
from fdbqueue.service.consume import waiting
from fdbqueue.tasks import abort
from fdbqueue.tasks.compat import TaskResultDoesNotExist
from fdbqueue.tasks.exceptions import WaitTimedOut
from fdbqueue.tasks.task_worker import TaskWorker
from tests.engines.children import wait_until
from tests.faulty_database import FaultyDatabase
from tests.tasks import jobs, retry_jobs
from tests.tasks.killing import ROOT
from tests.tasks.outboxes import database_at
from tests.tasks.stored import FAILED, SUCCESSFUL

DEADLINE_SECONDS = 60


@contextlib.contextmanager
def waiting_for(result, timeout=DEADLINE_SECONDS):
    """Wait for a task in a thread meanwhile; yield what becomes of that."""
    outcome = []

    def wait():
        try:
            outcome.append(result.wait(timeout))
        except Exception as error:  # noqa: BLE001  # the test looks at it
            outcome.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield outcome
        wait_until(lambda: outcome)
    finally:
        thread.join(DEADLINE_SECONDS)


@pytest.fixture
def only_watches(monkeypatch):
    """Let nobody look by himself within the test."""
    monkeypatch.setattr(waiting, "UNWOKEN_LOOK_SECONDS", 10 * DEADLINE_SECONDS)


class CountingDatabase(FaultyDatabase):
    """A database that counts its transactions."""

    begun = 0

    def create_transaction(self):
        self.begun += 1
        return super().create_transaction()


@pytest.mark.usefixtures("only_watches")
@pytest.mark.parametrize(("job", "status"), [(jobs.note, SUCCESSFUL), (jobs.fail, FAILED)])
def test_it_returns_when_the_task_has_ended(backend, work, job, status):
    """By the watch alone, whatever the end is."""
    result = job.enqueue("x")
    with waiting_for(result) as outcome:
        assert outcome == []
        work()
    assert outcome == [result]
    assert result.status is status
    assert result.wait(0) is result  # and at once when it has ended before


@pytest.mark.usefixtures("only_watches")
def test_between_attempts_it_waits_on(backend, work):
    """An attempt that fails is no end."""
    result = retry_jobs.ask.enqueue(True, 1, 0)
    with waiting_for(result) as outcome:
        work(limit=1)
        assert backend.get_result(result.id).attempts == 1
        assert outcome == []
        work()
    assert outcome[0].return_value == 2


@pytest.mark.usefixtures("only_watches")
def test_an_abort_and_a_removal(backend):
    """The one is an end; of the other nothing is left to wait for."""
    aborted, removed = jobs.note.enqueue(1), jobs.note.enqueue(2)
    with waiting_for(aborted) as outcome:
        assert abort(aborted.id) == "aborted"
    assert outcome[0].status is FAILED

    def remove(tr):
        backend.records.remove(tr, removed.id)

    with waiting_for(removed) as outcome:
        run(backend.catalog.database, remove)
    assert isinstance(outcome[0], TaskResultDoesNotExist)


@pytest.mark.usefixtures("only_watches")
def test_a_removal_before_the_watch_is_set(backend, monkeypatch):
    """The waiter does not sleep over a record that is gone since it has looked."""
    result = jobs.note.enqueue(1)
    look = type(result)._has_ended

    def look_and_remove(waited):
        found = look(waited)
        run(backend.catalog.database, lambda tr: backend.records.remove(tr, result.id))
        return found

    monkeypatch.setattr(type(result), "_has_ended", look_and_remove)
    with waiting_for(result, timeout=None) as outcome:
        pass
    assert isinstance(outcome[0], TaskResultDoesNotExist)


@pytest.mark.usefixtures("only_watches")
def test_where_nothing_is_kept(configure, work):
    """A success without a result is one that does not exist."""
    configure(retention={"successful": 0})
    result = jobs.note.enqueue(1)
    with waiting_for(result) as outcome:
        work()
    assert isinstance(outcome[0], TaskResultDoesNotExist)
    with pytest.raises(TaskResultDoesNotExist):
        result.wait(DEADLINE_SECONDS)


def test_what_is_done_by_hand_is_noticed(backend, monkeypatch):
    """A task that is buried or popped changes no record: the next look finds it."""
    monkeypatch.setattr(waiting, "UNWOKEN_LOOK_SECONDS", 0.05)
    buried, popped = jobs.note.enqueue(1), jobs.note.enqueue(2)
    queue = backend.queue("default")
    with waiting_for(buried) as outcome:
        queue.bury(queue.peek().id, reason="by hand")
    assert outcome[0].status is FAILED
    with waiting_for(popped) as outcome:
        queue.pop()
    assert isinstance(outcome[0], TaskResultDoesNotExist)


def test_the_time_is_over(backend):
    """A documented error, which is Python's too; the result is as it was read last."""
    result = jobs.note.enqueue(1)
    for timeout in (0, 0.01):
        with pytest.raises(TimeoutError) as caught:
            result.wait(timeout)
        assert isinstance(caught.value, WaitTimedOut)
        assert caught.value.context == {"id": result.id, "seconds": timeout}
        with pytest.raises(WaitTimedOut):
            async_to_sync(result.await_result)(timeout)


@pytest.mark.parametrize(
    ("timeout", "error"),
    [(-1, ValueError), (float("nan"), ValueError), ("1", TypeError), (True, TypeError)],
)
def test_bad_input(backend, timeout, error):
    """It is refused, in both."""
    result = jobs.note.enqueue(1)
    with pytest.raises(error, match="timeout"):
        result.wait(timeout)
    with pytest.raises(error, match="timeout"):
        async_to_sync(result.await_result)(timeout)


@pytest.mark.usefixtures("only_watches")
def test_async(backend, work):
    """Many tasks of one loop wait at the same time, without threads."""
    results = [jobs.note.enqueue(number) for number in range(30)]

    async def wait_for_all():
        waits = [asyncio.create_task(one.await_result(DEADLINE_SECONDS)) for one in results]
        late = asyncio.create_task(jobs.wait.enqueue().await_result())
        await asyncio.sleep(0)
        await asyncio.to_thread(work, limit=30)
        found = [(await one).return_value for one in waits]
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        return found

    assert async_to_sync(wait_for_all)() == [*range(30)]


@pytest.mark.usefixtures("only_watches")
def test_nothing_polls(backend, monkeypatch):
    """While a task takes its time, the waiter begins no transaction."""
    result = jobs.wait.enqueue()
    database = CountingDatabase(backend.catalog.database)
    there = backend.over(backend.catalog.over(database))
    monkeypatch.setattr(type(result.task), "get_backend", lambda _task: there, raising=False)
    worker = TaskWorker(backend, ["default"], follow=False)
    thread = threading.Thread(target=worker.run)
    with waiting_for(result) as outcome:
        thread.start()
        assert jobs.begun.wait(DEADLINE_SECONDS)
        wait_until(lambda: database.begun >= 2)
        counts = []

        def is_still():
            counts.append(database.begun)
            time.sleep(0.05)
            return len(counts) > 10 and len({*counts[-10:]}) == 1

        wait_until(is_still)
        before = database.begun
        jobs.gate.set()
        wait_until(lambda: outcome)
        assert database.begun - before <= 4
    thread.join(DEADLINE_SECONDS)


@pytest.mark.usefixtures("only_watches")
def test_an_outbox(configure, work, tmp_path, django_db_blocker):
    """Also for a task that is not in its queue yet."""
    with django_db_blocker.unblock(), database_at(str(tmp_path / "orm.sqlite3")):
        configure(outbox=True)
        result = jobs.note.enqueue(1)
        with pytest.raises(WaitTimedOut):
            result.wait(0.01)
        with waiting_for(result) as outcome:
            work()
        assert outcome == [result]


def test_in_a_signal_handler(backend, work):
    """It ends in time there, wherever the main thread is; and a handler may end a wait.

    If the main thread is in the middle of a queue's call, the handler is told so.
    """
    result, done = jobs.note.enqueue(1), jobs.note.enqueue(2)
    work(limit=1)
    done, result = result, done
    outcomes = []

    def handle(*_):
        try:
            outcomes.append(done.wait(5).return_value)
            result.wait(0.001)
        except WaitTimedOut:
            outcomes.append("late")
        except EngineUnavailable:
            outcomes.append("told")
        signal.setitimer(signal.ITIMER_REAL, 0.005)  # not before: handlers interrupt each other

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.005)
    try:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(outcomes) < 40 and time.monotonic() < deadline:
            with contextlib.suppress(WaitTimedOut):
                result.wait(0.003)
            jobs.tell.enqueue(1)
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(outcomes) >= 40
    assert {1, "late"} <= {*outcomes} <= {1, "late", "told"}


_FORK = """
import os, signal, sys, threading
import django
django.setup()
from fdbqueue.tasks.exceptions import WaitTimedOut
from tests.tasks import jobs

result = jobs.note.enqueue(1)
thread = threading.Thread(target=result.wait, args=[30], daemon=True)
thread.start()
try:
    result.wait(0.2)
except WaitTimedOut:
    pass
if os.fork() == 0:
    signal.alarm(60)
    try:
        jobs.note.get_result(result.id).wait(0.5)
    except Exception as error:
        os.write(1, type(error).__name__.encode())
    os._exit(0)
os.wait()
"""


def test_in_a_forked_process(configure, environment, engine):
    """The child waits, or is told that it cannot; it does not hang."""
    configure()
    command = [sys.executable, "-c", _FORK]
    said = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, timeout=180, check=True
    ).stdout.decode()
    assert said == ("WaitTimedOut" if engine.name == "embedded" else "ForkedEngine")
