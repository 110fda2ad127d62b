"""The outbox: tasks that are enqueued in transactions of the ORM, and moved once each."""

from __future__ import annotations

import contextlib
import threading

import pytest
from django.db import transaction

from fdbqueue.tasks.compat import TaskResultDoesNotExist, TaskResultStatus
from fdbqueue.tasks.outbox.models import OutboxTask
from fdbqueue.tasks.outbox.mover import ClaimLost, RowMover, move_now
from fdbqueue.tasks.worker import TaskWorker
from tests.engines.children import wait_until
from tests.tasks import jobs
from tests.tasks.outboxes import database_at, enqueue_all, queued


@pytest.fixture(autouse=True)
def _database(tmp_path, django_db_blocker):
    with django_db_blocker.unblock(), database_at(str(tmp_path / "orm.sqlite3")):
        yield


@pytest.fixture
def backend(configure):
    return configure(outbox=True)


@pytest.fixture
def in_thread(backend):
    """Run a worker in a thread."""

    @contextlib.contextmanager
    def run():
        worker = TaskWorker(backend)
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            yield worker
        finally:
            worker.stop()
            thread.join(60)
        assert not thread.is_alive()

    return run


def test_a_task_is_enqueued_with_the_transaction_of_the_orm(backend, work):
    """Its id is valid at once, before and behind the move."""
    with transaction.atomic():
        result = jobs.note.enqueue("x")
        assert backend.get_result(result.id).status is TaskResultStatus.READY
    assert backend.get_result(result.id).enqueued_at == result.enqueued_at
    assert backend.queue("default").counts().ready == 0
    work()
    assert jobs.done == ["x"]
    assert backend.get_result(result.id).return_value == "x"
    assert not OutboxTask.objects.exists()


def test_a_rollback_leaves_nothing(backend, work):
    """Whether it is that of a savepoint or of the whole transaction."""
    with transaction.atomic():
        lost = jobs.note.enqueue("lost")
        transaction.set_rollback(True)
    with transaction.atomic():
        with transaction.atomic():
            jobs.note.enqueue("lost, too")
            transaction.set_rollback(True)
        jobs.note.enqueue("kept")
    work()
    assert jobs.done == ["kept"]
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result(lost.id)


def test_rows_keep_their_order(backend):
    """Those of a queue do, over all transactions."""
    enqueue_all(range(700))
    enqueue_all(range(700, 1_200))
    assert move_now(backend.outbox(), backend.catalog).moved == 1_200
    assert queued(backend) == [*range(1_200)]


def test_a_mover_that_was_overtaken_moves_nothing(backend):
    """What it has read is old."""
    enqueue_all(["x"])
    outbox = backend.outbox()
    old, new = RowMover(outbox, backend.catalog), RowMover(outbox, backend.catalog)
    assert old.claim()
    assert not new.claim()
    assert new.claim(by_force=True)
    with pytest.raises(ClaimLost):
        old.move()
    assert new.move().moved == 1
    assert queued(backend) == ["x"]


def test_a_worker_that_stays_moves_rows_as_they_come(backend, in_thread):
    """It is woken; the process that commits need not do anything more."""
    with in_thread():
        for number in range(3):
            enqueue_all([number])
            wait_until(lambda number=number: number in jobs.done)
