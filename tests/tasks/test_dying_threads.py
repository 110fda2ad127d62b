"""A thread of ours that ends by an exception ends its worker, which gives back what it holds."""

from __future__ import annotations

import pytest

from fdbqueue.own_threads import OwnThread, ThreadDied
from fdbqueue.service.tools.line import Line
from fdbqueue.service.tools.worker import Worker
from fdbqueue.tasks.compat import task_backends
from fdbqueue.tasks.task_worker import TaskWorker
from tests.asleep import work_in_thread
from tests.tasks import jobs, left_jobs, note_jobs
from tests.tasks.outboxes import database_at
from tests.tasks.stored import DEADLINE_SECONDS, READY, SUCCESSFUL, stored
from tests.tasks.test_worker_command import start

__all__ = ["start"]

#: What threads run that a worker starts, those of tasks with a limit, notes and a loop included.
TARGETS = [
    "LeaseExtender.run",
    "Presence._keep",
    "Housekeeping._run",
    "MoverThread._run",
    "Loop._serve",
    "TimeLimits._serve",
    "NotesWriter._run",
]
#: Lines of a worker's other threads that nothing guards, since they raise nothing.
LINES = [(Line, "begin"), (Line, "end"), (Worker, "_finish_late")]


@pytest.fixture(autouse=True)
def _database(tmp_path, django_db_blocker):
    with django_db_blocker.unblock(), database_at(str(tmp_path / "orm.sqlite3")):
        yield


@pytest.fixture
def enqueued(configure):
    """Tasks that wait for a worker, whose backend has something for each of its threads to do."""
    configure()
    found = [note_jobs.count.enqueue(2, 1), jobs.double.enqueue(2)]
    found += [jobs.note.enqueue(number) for number in range(9)]
    configure(lease_seconds=600, timeout=600, outbox=True)
    return found


@pytest.fixture
def work():
    """Run a worker in a thread, to its end or not; return that, and what it raises."""
    yield work_in_thread
    jobs.gate.set()


def check_given_back(enqueued, work):
    """Run a worker, one of whose threads dies; check that it ends, and that others run its tasks.

    One task runs meanwhile, some wait.
    """
    backend = task_backends["default"]
    thread, raised = work(TaskWorker(backend, ["default"], threads=2))
    thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()
    assert [type(error) for error in raised] == [ThreadDied]
    assert isinstance(raised[0].__cause__, MemoryError)
    counts = backend.queue("default").counts()
    assert (counts.leased, counts.delayed, counts.dead) == (0, 0, 0)
    jobs.gate.set()
    TaskWorker(backend, ["default"], threads=2, follow=False).run()
    assert {stored(one).status for one in enqueued} == {SUCCESSFUL}
    assert max(stored(one).attempts for one in enqueued) <= 2


@pytest.mark.parametrize("target", TARGETS)
def test_a_thread_that_dies_ends_the_worker(enqueued, monkeypatch, work, target):
    """Whichever it is: nothing is leased any more, and what runs is run by others."""
    real = OwnThread.__init__

    def dies():
        assert jobs.begun.wait(DEADLINE_SECONDS)
        raise MemoryError

    def made(self, runs, **options):
        is_one = getattr(runs, "__qualname__", "") == target and not dead
        dead.extend([target] * is_one)
        real(self, (lambda *_: dies()) if is_one else runs, **options)

    dead = []
    monkeypatch.setattr(OwnThread, "__init__", made)
    check_given_back(enqueued, work)
    assert dead == [target]


@pytest.mark.parametrize(("kind", "line"), LINES)
def test_an_error_between_two_lines_ends_the_worker(enqueued, monkeypatch, work, kind, line):
    """Such as one for want of memory, right before a task, right after it, or beside it."""
    real, left = getattr(kind, line), [1]

    def dies(*arguments):
        if left and is_after_the_first(*arguments):
            left.pop()
            raise MemoryError
        return real(*arguments)

    def is_after_the_first(_of, item=None, *_):
        """Tell whether the first task runs: if this is another one, once it does."""
        if item is not None and item.value["task"] != note_jobs.count.module_path:
            return jobs.begun.wait(DEADLINE_SECONDS)
        return jobs.begun.is_set()

    monkeypatch.setattr(kind, line, dies)
    check_given_back(enqueued, work)


def test_a_thread_that_several_share_ends_each_worker(backend, work):
    """An engine's thread is no worker's own."""
    runs = [work(TaskWorker(backend, [name])) for name in ("default", "other")]
    result = jobs.wait.enqueue()
    assert jobs.begun.wait(DEADLINE_SECONDS)
    assert stored(result).attempts == 1

    def dies():
        raise MemoryError

    OwnThread(dies, name="fdbqueue-shared").start()
    for thread, _ in runs:
        thread.join(DEADLINE_SECONDS)
    assert [type(error) for _, raised in runs for error in raised] == [ThreadDied, ThreadDied]
    assert stored(result).status is READY


def test_memory_that_is_short_for_longer(monkeypatch, backend, work):
    """What the dying thread has to tell is told once there is memory."""
    worker, left = TaskWorker(backend, ["default"]), [1, 1]
    tell = worker._own_threads.tell

    def short(*arguments):
        if left:
            left.pop()
            raise MemoryError
        tell(*arguments)

    monkeypatch.setattr(worker._own_threads, "tell", short)
    monkeypatch.setattr(Line, "begin", lambda *_: 1 / 0)
    jobs.note.enqueue(1)
    thread, raised = work(worker)
    thread.join(DEADLINE_SECONDS)
    assert isinstance(raised[0].__cause__, ZeroDivisionError)
    assert left == []


def test_the_command_ends_with_exit_code_1(backend, start):
    """And what it held is ready at once."""
    first = left_jobs.break_the_worker.enqueue()
    second = jobs.note.enqueue(1)
    worker = start("--until-empty")
    assert worker.process.wait(DEADLINE_SECONDS) == 1
    assert "MemoryError" in worker.said
    assert {stored(one).status for one in (first, second)} <= {READY, SUCCESSFUL}
    assert backend.queue("default").counts().leased == 0
